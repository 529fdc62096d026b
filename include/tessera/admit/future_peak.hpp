// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/admit/concepts.hpp>

#include <array>
#include <cstddef>

TESSERA_NAMESPACE_BEGIN
namespace admit {

/// The output bound that the request states.
struct max_output_bound {
  tokens if_unknown{2048};  ///< Used for requests without `max_output`.
  /// `max_output`.
  template <schedulable R>
  [[nodiscard]] constexpr tokens operator()(const R& r) const noexcept {
    return r.max_output.count() > 0 ? r.max_output : if_unknown;
  }
};

/// Admits a candidate only if the KV of all running requests fits at its future peak. A request that ends soon gives
/// its blocks back before long requests need them. With `rank::sampled_length` as the predictor this is LightLLM's
/// Past-Future scheduling.
/// When to use: output lengths are bounded by `max_output` or predicted, and preemptions are expensive.
///
/// The usage `t` steps from now has three terms. It is the usage now (a shared prefix counts once), plus the growth of
/// requests still running, less the unshared blocks of ended requests. Its maximum lies where a request ends.
/// The ends are sorted into a fixed number of bins. Each bin is evaluated at its far edge with all requests that run at
/// its near edge. So the estimate never falls below the true peak. If requests are forked, that needs a store that
/// counts sharers (`kv::prefix_cache`). O(residents + bins).
///
/// @tparam ExpectedOutput `tokens operator()(const R&) const noexcept`: most tokens the request will generate.
template <class ExpectedOutput = max_output_bound>
struct basic_future_peak {
  double headroom = 0.0;             ///< Fraction of the capacity that stays out of the estimate, in [0, 1).
  ExpectedOutput expected_output{};  ///< The predictor of output lengths.

  /// Whether the parameters are valid. A scheduler asserts this at construction.
  [[nodiscard]] constexpr bool is_possible() const noexcept { return headroom >= 0 && headroom < 1; }

  /// Whether the KV of all running requests fits at its peak. O(residents).
  template <schedulable R>
  [[nodiscard]] constexpr bool admits(const R& candidate, const admission_view<R>& view) const noexcept {
    if (view.residents.empty() && view.admitted.empty()) return true;
    const tokens most = view.block_size * view.capacity.count();  // No request can have more, whatever is predicted.
    const auto remaining = [&](const R& r) { return min(this->remaining(r), most); };
    tokens longest = remaining(candidate);
    for (const R* r : view.residents) longest = max(longest, remaining(*r));
    for (const R* r : view.admitted) longest = max(longest, remaining(*r));
    const std::int64_t width = longest.count() / static_cast<std::int64_t>(bins) + 1;

    // Per bin of remaining lengths: requests that end in it, their growth in tokens before the first step, and the
    // tokens that they give back. The growth counts a whole block, less the room left in the last one.
    std::array<std::int64_t, bins> count{};
    std::array<std::int64_t, bins> grow{};
    std::array<std::int64_t, bins> give{};
    std::int64_t given_back = 0;
    const auto put = [&](const R& r, blocks own) {
      const auto bin = static_cast<std::size_t>(remaining(r).count() / width);
      const std::int64_t has = (view.block_size * blocks_for(r.state().length, view.block_size).count()).count();
      count[bin] += 1;
      grow[bin] += r.state().length.count() + view.block_size.count() - has;
      const std::int64_t gives = own.count() * view.block_size.count();
      give[bin] += gives;
      given_back += gives;
    };
    put(candidate, view.needed);
    for (const R* r : view.residents) put(*r, view.gives_back(*r));
    for (const R* r : view.admitted) put(*r, view.gives_back(*r));

    const double room = (1.0 - headroom) * static_cast<double>(view.capacity.count() * view.block_size.count());
    const std::int64_t in_use = (view.capacity - view.free_after).count() * view.block_size.count();
    std::int64_t running = 0;
    std::int64_t growth = 0;
    for (std::size_t bin = bins; bin-- != 0;) {  // from the last request to end to the first
      running += count[bin];
      growth += grow[bin];
      given_back -= give[bin];  // of requests that ended before
      const std::int64_t at = (static_cast<std::int64_t>(bin) + 1) * width;
      const std::int64_t used = in_use + growth + running * at - given_back;
      if (count[bin] != 0 && static_cast<double>(used) > room) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t bins = 256;

  template <schedulable R>
  [[nodiscard]] constexpr tokens remaining(const R& r) const noexcept {
    return max(expected_output(r) - r.generated(), tokens{});
  }
};

using future_peak = basic_future_peak<>;

}  // namespace admit
TESSERA_NAMESPACE_END
