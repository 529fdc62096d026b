// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "checks.hpp"

#include <tessera/fleet/view.hpp>
#include <tessera/placement/fill_to_level.hpp>
#include <tessera/placement/join_shortest_queue.hpp>
#include <tessera/placement/least_kv.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/lmetric.hpp>
#include <tessera/placement/migrate_to_headroom.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/placement/pascal.hpp>
#include <tessera/placement/phi.hpp>
#include <tessera/placement/power_of_two.hpp>
#include <tessera/placement/prefix_affinity.hpp>
#include <tessera/placement/stay_in_range.hpp>

#include <cmath>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

/// @file
/// The policies by which a router places and moves requests, by name.

namespace tessera_python {

namespace placement = tessera::placement;

/// CascadeInfer's stages by length: the least load among the replicas with the prompt in their range. See
/// `book::ranked`.
struct by_length : placement::least_load {};

/// The highest Phi_T of replicas that decode as well: first among those with room for the prompt, then among the
/// others. The prompt tokens that are left do not tell how long a prompt that fits nowhere waits for memory.
struct by_time {
  /// What is read of a view.
  struct left {
    double phi;
    std::size_t requests;
  };
  struct all_left {
    const fleet::candidates<>& all;
    ts::blocks needs;
    left operator[](std::size_t i) const noexcept {
      const fleet::view& v = all[i];
      // In the same order between -1 and 1.
      const double phi = v.time_phi / (1 + std::fabs(v.time_phi));
      return {v.free_blocks >= needs ? phi : phi - 2, v.requests};
    }
    [[nodiscard]] std::size_t size() const noexcept { return all.size(); }
  };
  placement::highest_phi highest{};
  ts::blocks needs{};  // Blocks of the prompt that is placed.

  std::size_t operator()(const fleet::candidates<>& all) noexcept { return highest(all_left{all, needs}); }
  std::size_t rank(const fleet::candidates<>& all, std::span<fleet::replica_id> best) noexcept {
    return highest.rank(all_left{all, needs}, best);
  }
};

inline constexpr std::pair<std::string_view, ts::control::role> roles[] = {{"mixed", ts::control::role::mixed},
                                                                           {"prefill", ts::control::role::prefill},
                                                                           {"decode", ts::control::role::decode}};

/// A request that decodes at a prefill replica goes on at the replica of another role with the least load, among those
/// with room. All others follow `By`.
template <class By>
struct hands_over {
  By* by;

  std::size_t operator()(const fleet::candidates<>& all, std::size_t current, ts::blocks grows,
                         ts::blocks moves) noexcept {
    if (all[current].role != ts::control::role::prefill) return (*by)(all, current, grows, moves);
    std::size_t best = current;
    const auto load = [&](std::size_t i) noexcept { return all[i].kv_held + all[i].waiting_blocks; };
    for (std::size_t i = 0; i != all.size(); ++i) {
      if (i != current && (best == current || load(i) < load(best))) best = i;
    }
    return best;
  }
};

using policy = std::variant<by_time, placement::join_shortest_queue, placement::power_of_two, placement::least_kv,
                            placement::least_load, placement::highest_phi, placement::pascal_arrival, by_length,
                            placement::prefix_affinity, placement::lmetric, placement::fill_to_level<>>;
using mover = std::variant<placement::stay, placement::migrate_when_tight, placement::migrate_to_headroom,
                           placement::pascal_migrate_adaptively, placement::stay_in_range>;

inline constexpr std::string_view policy_names[] = {
    "shortest_queue", "power_of_two", "least_kv",        "least_load", "phi",          "phi_time",
    "pascal",         "cascade",      "prefix_affinity", "lmetric",    "fill_to_level"};
inline constexpr std::string_view move_names[] = {"none", "when_tight", "to_headroom", "pascal", "cascade"};

}  // namespace tessera_python
