// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/placement/random.hpp>

TESSERA_NAMESPACE_BEGIN
namespace placement {

/// Draws two different instances at random and takes the one with fewer live requests; the first drawn if they are
/// equal.
/// When to use: the reports are old, or there are too many to read. Routers with the same reports do not all send to
/// the instance that looked best.
/// Source: Mitzenmacher, The power of two choices in randomized load balancing.
/// Holds the state of the generator: one value per router, each with a seed of its own. O(1), no allocation. `nowhere`
/// for an empty range.
struct power_of_two {
  random draws{};  ///< Its `state` is the seed.

  /// The index of the chosen instance. Advances the generator.
  template <instance_views V>
    requires shows_requests<view_t<V>>
  [[nodiscard]] constexpr std::size_t operator()(const V& instances) noexcept {
    const std::size_t n = instances.size();
    if (n < 2) return draws(instances);
    const std::size_t a = draws(instances);
    std::size_t b = draws(all_but_one{n - 1});
    if (b >= a) ++b;
    return instances[b].requests < instances[a].requests ? b : a;
  }

 private:
  /// A range with a size and no content.
  struct all_but_one {
    std::size_t n;
    constexpr int operator[](std::size_t) const noexcept { return 0; }
    [[nodiscard]] constexpr std::size_t size() const noexcept { return n; }
  };
};

}  // namespace placement
TESSERA_NAMESPACE_END
