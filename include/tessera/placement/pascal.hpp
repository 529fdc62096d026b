// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/placement/turn.hpp>

#include <cstddef>
#include <type_traits>

/// @file
/// PASCAL's instance-level scheduler (section IV-B): where a request reasons, and where it answers.
///
/// Functions of the views, and of a round-robin position for ties: one value per router. O(instances), no allocation.
/// The paper leaves ties open: here fewer requests in total, then round-robin. Requests on their way to an instance
/// count as already there.

TESSERA_NAMESPACE_BEGIN
namespace placement {

/// A view with all that PASCAL reads.
template <class View>
concept pascal_view =
    shows_slo<View> && shows_kv_held<View> && shows_phases<View> && shows_requests<View> && shows_free_blocks<View>;

namespace detail {

/// The candidate instances: I, all of them, or E, those on which all answering requests meet their SLO.
enum class candidates : bool { all, meeting_slo };

/// argmin over the candidates, ties by requests, then round-robin; `nowhere` if there is none. The key of each
/// candidate is read once, its number of requests only at ties.
template <class V, class Key>
[[nodiscard]] std::size_t argmin(const V& instances, turn& ties, candidates which, Key key) noexcept {
  std::size_t best = nowhere;
  std::remove_cvref_t<decltype(key(std::size_t{}))> least{};
  const auto look = [&](std::size_t first, std::size_t last) noexcept {
    for (std::size_t i = first; i != last; ++i) {
      if (which == candidates::meeting_slo && !instances[i].slo_met) continue;
      const auto value = key(i);
      if (best != nowhere && least < value) continue;
      if (best == nowhere || value < least || instances[i].requests < instances[best].requests) {
        best = i;
        least = value;
      }
    }
  };
  const std::size_t n = instances.size();
  const std::size_t from = ties.begin(0, n);
  look(from, n);
  look(0, from);
  return ties.chose(best);
}

}  // namespace detail

/// Algorithm 1, for a new request. Among the instances on which all answers meet their SLO, the one with the least KV
/// (m_i, device and host). Among all instances if there is none.
///
/// The paper does not say whether m_i includes the KV that a waiting request needs and does not hold yet. Without it, a
/// full instance looks no worse the longer its queue is, and arrivals herd. So it counts, if views show it.
struct pascal_arrival {
  /// It reads the numbers of reasoning and of answering requests. Counting them costs the caller O(requests).
  static constexpr bool reads_phases = true;

  bool counts_waiting = true;  ///< m_i includes what waiting requests need; false: only what is held.
  turn ties{};                 ///< Round-robin position for ties.

  /// The index of the chosen instance. Advances the round-robin position.
  template <instance_views V>
    requires pascal_view<view_t<V>>
  [[nodiscard]] std::size_t operator()(const V& instances) noexcept {
    const auto m = [&](std::size_t i) noexcept {
      blocks held{instances[i].kv_held};
      if constexpr (shows_waiting_blocks<view_t<V>>) {
        if (counts_waiting) held += blocks{instances[i].waiting_blocks};
      }
      return held;
    };
    const std::size_t selected = detail::argmin(instances, ties, detail::candidates::meeting_slo, m);
    return selected != nowhere ? selected : detail::argmin(instances, ties, detail::candidates::all, m);
  }
};

/// Algorithm 2, for a request that begins to answer. Among the instances on which all answers meet their SLO, the one
/// with the fewest reasoning requests (r_i). If there is none, the one with the smallest r_i + a_i among all. Here a_i
/// counts the answering requests that have not used up their first quantum.
struct pascal_phase_change {
  /// It reads the numbers of reasoning and of answering requests. Counting them costs the caller O(requests).
  static constexpr bool reads_phases = true;

  turn ties{};  ///< Round-robin position for ties.

  /// The index of the chosen instance. Advances the round-robin position.
  template <instance_views V>
    requires pascal_view<view_t<V>>
  [[nodiscard]] std::size_t operator()(const V& instances) noexcept {
    const auto r = [&](std::size_t i) noexcept { return std::size_t{instances[i].reasoning}; };
    const std::size_t selected = detail::argmin(instances, ties, detail::candidates::meeting_slo, r);
    if (selected != nowhere) return selected;
    const auto r_plus_a = [&](std::size_t i) noexcept {
      return std::size_t{instances[i].reasoning} + std::size_t{instances[i].fresh_answers};
    };
    return detail::argmin(instances, ties, detail::candidates::all, r_plus_a);
  }
};

/// A request stays where it is after its phase change. The baselines of PASCAL's evaluation.
struct stay {
  /// `current`.
  template <instance_views V>
  [[nodiscard]] constexpr std::size_t operator()(const V&, std::size_t current, blocks /*grows*/,
                                                 blocks /*moves*/) const noexcept {
    return current;
  }
};

/// A request moves after its phase change as Algorithm 2 says.
struct pascal_migrate_always {
  /// It reads the numbers of reasoning and of answering requests. Counting them costs the caller O(requests).
  static constexpr bool reads_phases = true;

  pascal_phase_change recommended{};  ///< Algorithm 2.

  /// The index of the chosen instance. Advances the round-robin position.
  template <instance_views V>
    requires pascal_view<view_t<V>>
  [[nodiscard]] std::size_t operator()(const V& instances, std::size_t /*current*/, blocks /*grows*/,
                                       blocks /*moves*/) noexcept {
    return recommended(instances);
  }
};

/// Adaptive migration (section IV-B, figure 7): as Algorithm 2 says, unless the request has enough memory where it is
/// and would lack it there.
struct pascal_migrate_adaptively {
  /// It reads the numbers of reasoning and of answering requests. Counting them costs the caller O(requests).
  static constexpr bool reads_phases = true;

  /// Blocks that it needs besides those of its next token, on either instance: room for the answer to come. With 0, an
  /// instance with one free block counts as roomy, and an answer that stays there loses its blocks at the next arrival.
  /// A good value is one quantum.
  blocks headroom{};
  pascal_phase_change recommended{};  ///< Algorithm 2.

  /// @param current the instance it is on.
  /// @param grows blocks that it takes next if it stays.
  /// @param moves blocks that it needs on another instance.
  template <instance_views V>
    requires pascal_view<view_t<V>>
  [[nodiscard]] std::size_t operator()(const V& instances, std::size_t current, blocks grows, blocks moves) noexcept {
    TESSERA_ASSERT(current < instances.size(), "the request is on one of the instances");
    const std::size_t selected = recommended(instances);
    const bool fits_here = instances[current].free_blocks - grows >= headroom;
    const bool fits_there = instances[selected].free_blocks - moves >= headroom;
    return fits_here && !fits_there ? current : selected;
  }
};

}  // namespace placement
TESSERA_NAMESPACE_END
