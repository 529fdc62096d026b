// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/placement/phi.hpp>
#include <tessera/placement/random.hpp>

#include <concepts>
#include <cstddef>
#include <limits>

TESSERA_NAMESPACE_BEGIN
namespace placement {

/// Balances live requests, for `fill_to_level`.
struct by_requests {
  /// The load that a view shows, in this unit.
  template <class View>
    requires shows_requests<View>
  [[nodiscard]] static constexpr double of(const View& v) noexcept {
    return static_cast<double>(std::size_t{v.requests});
  }
};
/// Balances KV blocks that requests hold or need.
struct by_blocks {
  /// The load that a view shows.
  template <class View>
    requires shows_kv_held<View> && shows_waiting_blocks<View>
  [[nodiscard]] static constexpr double of(const View& v) noexcept {
    return static_cast<double>((blocks{v.kv_held} + blocks{v.waiting_blocks}).count());
  }
};
/// Balances the used part of a worker's budget: 1 - Phi.
struct by_phi {
  /// The load that a view shows. Requires that Phi is a number.
  template <class View>
    requires shows_phi<View>
  [[nodiscard]] static constexpr double of(const View& v) noexcept {
    return 1 - double{v.phi};
  }
};

/// A random instance, weighted by the load that it lacks to a common level. `expected` plus this request would fill the
/// instances below that level up to it.
///
/// If all routers send to the least loaded instance by the same old reports, they overload it. Here their combined
/// requests spread so that loads come out even. With `expected` = 0 it picks the least loaded instance, or one that is
/// within less than a request of it. The larger `expected`, the nearer it comes to `random`.
///
/// When to use: several routers, and reports that are older than the time between two requests. `expected` is the load
/// that the other routers send between the reports and now. For n equal routers it is (n - 1) times what this one sends
/// in half the time between two reports of an instance.
/// Source: Dahlin, Interpreting stale load information (TPDS 2000), there for one load of the same age for all
/// instances. Holds the state of a generator and the last level: one value per router, each with a seed of its own.
/// O(instances) per pass of the search for the level, which starts at the last one: two or three passes. No allocation.
/// `nowhere` for an empty range.
/// @tparam Load the load that is balanced: `by_requests`, `by_blocks`, `by_phi`.
template <class Load = by_requests>
struct fill_to_level {
  double expected = 0;  ///< Load that other routers add meanwhile. At least 0.
  double one = 1;       ///< Load of one request. Above 0.
  random draws{};       ///< Its `state` is the seed.
  double level = 0;     ///< The last level.

  /// The index of the chosen instance. Advances the generator. Requires finite loads; a NaN load is chosen only if all
  /// are NaN.
  template <instance_views V>
    requires requires(const view_t<V>& v) {
      { Load::of(v) } noexcept -> std::same_as<double>;
    }
  [[nodiscard]] constexpr std::size_t operator()(const V& instances) noexcept {
    TESSERA_ASSERT(expected >= 0 && one > 0, "a request is a load, and others bring some or none");
    const std::size_t n = instances.size();
    if (n == 0) return nowhere;
    level = level_of(instances, expected + one);
    // The instance that the random share of the missing load falls on.
    double missing = 0;
    for (std::size_t i = 0; i != n; ++i) missing += below(Load::of(instances[i]));
    double drawn = draws.part() * missing;
    std::size_t last = nowhere;
    for (std::size_t i = 0; i != n; ++i) {
      const double lacks = below(Load::of(instances[i]));
      if (!(lacks > 0)) continue;
      last = i;
      if (drawn < lacks) break;
      drawn -= lacks;
    }
    return last != nowhere ? last : draws(instances);  // loads so large that a request makes no difference
  }

 private:
  [[nodiscard]] constexpr double below(double load) const noexcept { return level > load ? level - load : 0.0; }

  /// The level up to which `amount` fills the instances, by Newton's method on the missing load, which is convex and
  /// piecewise linear. The first step may go beyond the level; all others approach it from above.
  template <class V>
  [[nodiscard]] constexpr double level_of(const V& instances, double amount) const noexcept {
    double at = level;
    for (bool first = true;; first = false) {
      double sum = 0;
      double count = 0;
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t i = 0; i != instances.size(); ++i) {
        const double load = Load::of(instances[i]);
        sum += load < at ? load : 0.0;
        count += load < at ? 1.0 : 0.0;
        least = load < least ? load : least;
      }
      // No instance is below the last level: all would do.
      const double next = count > 0 ? (amount + sum) / count : least + amount;
      if (next == at || (!first && next > at)) return at;
      at = next;
    }
  }
};

}  // namespace placement
TESSERA_NAMESPACE_END
