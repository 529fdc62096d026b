// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/admit/future_peak.hpp>
#include <tessera/gate/concepts.hpp>

#include <array>

TESSERA_NAMESPACE_BEGIN
namespace gate {

/// Lets a request start before the first waiting one if it does not delay it. The candidate must be expected to end
/// before the first can start, or fit beside it then. The start of the first is reserved. It is expected when enough
/// running requests have ended, by their maximum output.
///
/// Expectations only decide which requests are worth starting; the guarantee does not depend on them. A request that
/// passes is backfilled. It gives up its blocks, batch place and token budget as soon as the first request could start
/// without backfilled ones. A request that has lost its KV and has not recomputed it yet is not backfilled.
///
/// When to use: requests of very different sizes, if a large one would hold up the small ones behind it.
/// Source: EASY backfilling of batch queues (Lifka 1995). Backfilled requests can be evicted, where batch queues
/// enforce runtimes.
/// @tparam ExpectedOutput `tokens operator()(const R&) const noexcept`: most tokens a request will generate.
template <class ExpectedOutput = admit::max_output_bound>
struct basic_backfill {
  static constexpr bool backfills = true;  ///< Candidates behind the first are asked for.

  std::size_t most_skipped = 32;                           ///< The most candidates that are asked for in vain in a
                                                           ///< plan.
  [[no_unique_address]] ExpectedOutput expected_output{};  ///< The predictor of output lengths.

  /// Whether the candidate may pass. O(residents).
  template <schedulable R>
  [[nodiscard]] constexpr passage ask(const R& candidate, const gate_view<R>& view) const noexcept {
    if (view.blocked == nullptr) return passage::start;
    if (view.free < view.needed) return passage::skip;
    if (view.lacks <= blocks{}) return passage::start;  // a place is lacking: a backfilled request gives its place up
    // The steps after which enough blocks have been given back, rounded down to the bins of the ends.
    const auto remaining = [this](const R& r) { return max(expected_output(r) - r.generated(), tokens{1}); };
    tokens longest{1};
    for (const R* r : view.residents) longest = max(longest, remaining(*r));
    const std::int64_t width = longest.count() / static_cast<std::int64_t>(bins) + 1;
    std::array<std::int64_t, bins> given_back{};
    for (const R* r : view.residents) {
      const std::uint32_t row = r->state().row;
      given_back[static_cast<std::size_t>(remaining(*r).count() / width)] +=
          row < view.exclusive.size() ? view.exclusive[row] : 0;
    }
    std::int64_t back = 0;
    for (std::size_t bin = 0; bin != bins; ++bin) {
      back += given_back[bin];
      if (back < view.lacks.count()) continue;
      const bool ended = remaining(candidate).count() <= static_cast<std::int64_t>(bin) * width;
      const bool fits_beside = back - view.lacks.count() >= (view.needed + view.backfilled_blocks).count();
      return ended || fits_beside ? passage::start : passage::skip;
    }
    return passage::skip;  // it is unknown when the first can start
  }

 private:
  static constexpr std::size_t bins = 64;
};

using backfill = basic_backfill<>;

}  // namespace gate
TESSERA_NAMESPACE_END
