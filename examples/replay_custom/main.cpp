// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Policies of your own in the replay table, next to the published ones: an order and a placement.
//
//     replay_custom --policy fcfs,shortest-prompt,most-free --workload azure-conv --rate 80
#include <tessera/compose/fcfs.hpp>
#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/replay.hpp>

#include <cstddef>
#include <string_view>

namespace sim = tessera::sim;

/// Waiting requests in order of their prompt's length. A running request is not displaced, not even by one of a higher
/// priority, which `order::fcfs` would allow.
struct shortest_prompt_first : tessera::order::fcfs {
  template <class R>
  static bool before(const R& a, const R& b) noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    return a.prompt != b.prompt ? a.prompt < b.prompt : a.state().sequence < b.state().sequence;
  }
  template <class R>
  static bool displaces(const R&, const R&) noexcept {
    return false;
  }
};

/// A new request goes to the instance with the most free KV blocks; the first of those that are alike.
struct most_free_blocks {
  template <class Views>
  std::size_t operator()(const Views& instances) const noexcept {
    std::size_t best = 0;
    for (std::size_t i = 1; i != instances.size(); ++i) {
      if (instances[i].free_blocks > instances[best].free_blocks) best = i;
    }
    return best;
  }
};
template <>
inline constexpr std::string_view sim::placement_name<most_free_blocks> = "most-free";  // in the table

int main(int argc, char** argv) {
  auto policies = sim::published_policies();
  policies.push_back(sim::make_policy<tessera::iteration_scheduler<sim::request, shortest_prompt_first>>(
      "shortest-prompt", "shortest prompt first"));
  policies.push_back(sim::make_policy<tessera::fcfs<sim::request>, most_free_blocks>(
      "most-free", "first come, first served on the instance with the most free blocks"));
  return sim::run_replay(argc, argv, policies);
}
