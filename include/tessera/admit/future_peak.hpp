// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/admit/concepts.hpp>

#include <array>
#include <cstddef>

TESSERA_NAMESPACE_BEGIN
namespace admit {

/// The most that a request says it will generate.
struct max_output_bound {
  tokens if_unknown{2048};  ///< Taken for requests that state no `max_output`.
  /// `max_output`.
  template <schedulable R>
  [[nodiscard]] constexpr tokens operator()(const R& r) const noexcept {
    return r.max_output.count() > 0 ? r.max_output : if_unknown;
  }
};

/// Admits only if the KV that all running requests will need together, at the worst moment to come, fits: a request
/// that ends soon gives its blocks back before the long ones need them. With `rank::drawn_length` as the predictor it
/// is LightLLM's Past-Future scheduling.
/// When to use: output lengths are bounded by `max_output` or predicted, and preemptions are expensive.
///
/// Usage at t steps from now is what is in use now, a shared prefix once, plus what those who still run have grown by
/// then, less what those who have ended give back, which is what they share with nobody. Its maximum lies where a
/// request ends. The ends are sorted into a fixed number of bins, each evaluated at its far edge with all that were
/// running at its near edge, so the estimate never falls below the true peak; where requests are forked that needs a
/// store that counts who shares (`kv::prefix_cache`). O(residents + bins).
///
/// @tparam ExpectedOutput `tokens operator()(const R&) const noexcept`: most tokens the request will generate.
template <class ExpectedOutput = max_output_bound>
struct basic_future_peak {
  double headroom = 0.0;             ///< Fraction of the capacity that stays out of the estimate, in [0, 1).
  ExpectedOutput expected_output{};  ///< The predictor of output lengths.

  /// Whether its values can be meant: a scheduler asserts it when it is made.
  [[nodiscard]] constexpr bool is_possible() const noexcept { return headroom >= 0 && headroom < 1; }

  /// Whether the memory of all who run fits at its peak. O(residents).
  template <schedulable R>
  [[nodiscard]] constexpr bool admits(const R& candidate, const admission_view<R>& view) const noexcept {
    if (view.residents.empty() && view.admitted.empty()) return true;
    const tokens most = view.block_size * view.capacity.count();  // nobody can have more, whatever is expected
    const auto remaining = [&](const R& r) { return min(this->remaining(r), most); };
    tokens longest = remaining(candidate);
    for (const R* r : view.residents) longest = max(longest, remaining(*r));
    for (const R* r : view.admitted) longest = max(longest, remaining(*r));
    const std::int64_t width = longest.count() / static_cast<std::int64_t>(bins) + 1;

    // Per bin of remaining lengths: how many requests end in it, the tokens that they grow by before the first step (a
    // block is taken as a whole; less what they have room for), and the tokens that they give back at their ends.
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
    for (std::size_t bin = bins; bin-- != 0;) {  // from the last to end to the first
      running += count[bin];
      growth += grow[bin];
      given_back -= give[bin];  // of those who have ended before
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
