// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "planner.hpp"

#include <array>

namespace tessera_python {
namespace {

using maker = std::unique_ptr<planner> (*)(const settings&);

// `priority` is fcfs for requests that have priorities, which every order looks at first; `shortest_prefill` ranks by
// what `core` finds in the prefix cache.
constexpr std::array<std::string_view, 9> names{
    "fcfs", "priority", "pars", "shortest_prefill", "pascal", "pascal_paced", "due_first", "round_robin", "vtc"};
constexpr std::array<maker, names.size()> makers{make_fcfs,         make_fcfs,        make_ranked,
                                                 make_ranked,       make_two_phase,   make_paced,
                                                 make_earliest_due, make_round_robin, make_vtc};

}  // namespace

std::span<const std::string_view> planner_names() noexcept { return names; }

std::unique_ptr<planner> make_planner(std::string_view policy, const settings& s) {
  for (std::size_t i = 0; i != names.size(); ++i) {
    if (names[i] == policy) return makers[i](s);
  }
  return nullptr;
}

}  // namespace tessera_python
