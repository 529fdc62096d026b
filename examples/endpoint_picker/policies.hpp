// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/placement/fill_to_level.hpp>
#include <tessera/placement/join_shortest_queue.hpp>
#include <tessera/placement/least_kv.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/pascal.hpp>
#include <tessera/placement/phi.hpp>
#include <tessera/placement/power_of_two.hpp>
#include <tessera/placement/random.hpp>
#include <tessera/placement/round_robin.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

namespace endpoint_picker {

/// One of the library's placement policies, chosen by name when the program starts.
using policy =
    std::variant<tessera::placement::join_shortest_queue, tessera::placement::least_kv, tessera::placement::least_load,
                 tessera::placement::power_of_two, tessera::placement::highest_phi, tessera::placement::pascal_arrival,
                 tessera::placement::fill_to_level<>, tessera::placement::round_robin, tessera::placement::random>;

/// Their names. `phi` is Phi_S, of memory; `phi_time` is Phi_T, of the prompts that are left to compute.
inline constexpr std::array policy_names{"shortest_queue", "least_kv", "least_load",    "power_of_two", "phi",
                                         "phi_time",       "pascal",   "fill_to_level", "round_robin",  "random"};

/// The policy of a name, if it is one. @param seed for those that draw. @param expected for `fill_to_level`: requests
/// that other pickers send between a report and a decision.
[[nodiscard]] inline std::optional<policy> policy_of(std::string_view name, std::uint64_t seed, double expected) {
  namespace p = tessera::placement;
  if (name == "shortest_queue") return p::join_shortest_queue{};
  if (name == "least_kv") return p::least_kv{};
  if (name == "least_load") return p::least_load{};
  if (name == "power_of_two") return p::power_of_two{{seed}};
  if (name == "phi" || name == "phi_time") return p::highest_phi{};
  if (name == "pascal") return p::pascal_arrival{};
  if (name == "fill_to_level") return p::fill_to_level<>{.expected = expected, .draws = {seed}};
  if (name == "round_robin") return p::round_robin{};
  if (name == "random") return p::random{seed};
  return std::nullopt;
}

}  // namespace endpoint_picker
