// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/admit/future_peak.hpp>
#include <tessera/gate/concepts.hpp>

#include <array>

TESSERA_NAMESPACE_BEGIN
namespace gate {

/// Whoever does not delay the first who waits may start before it: one that is expected to have ended when the first
/// can start, or that fits beside it then. The start of the first is reserved: it is expected when enough of those who
/// run have ended, by the most that they say they will generate.
///
/// Expectations only decide whom it is worth to let in. That the first is not delayed does not rest on them: who passes
/// is a guest, and gives its blocks, its place in the batch and its share of the step back at the very plan in which
/// the first could start if there were no guests. Nobody who has lost its KV and has not made up for it yet is let in.
///
/// When to use: requests of very different sizes, where a large one would hold up the small ones behind it.
/// Source: EASY backfilling of batch queues (Lifka 1995), with guests that can be sent away instead of runtimes that
/// are enforced.
/// @tparam ExpectedOutput `tokens operator()(const R&) const noexcept`: most tokens a request will generate.
template <class ExpectedOutput = admit::max_output_bound>
struct basic_backfill {
  static constexpr bool passes = true;  ///< Candidates are asked for.

  std::size_t most_skipped = 32;                           ///< So many are looked at in vain in a plan.
  [[no_unique_address]] ExpectedOutput expected_output{};  ///< The predictor of output lengths.

  /// Whether the candidate may pass. O(residents).
  template <schedulable R>
  [[nodiscard]] constexpr passage ask(const R& candidate, const gate_view<R>& view) const noexcept {
    if (view.blocked == nullptr) return passage::start;
    if (view.free < view.needed) return passage::skip;
    if (view.lacks <= blocks{}) return passage::start;  // a place is lacking: a guest gives his up
    // The steps after which so many blocks have been given back, rounded down to the bins of their ends.
    const auto remaining = [this](const R& r) { return max(expected_output(r) - r.generated(), tokens{1}); };
    tokens longest{1};
    for (const R* r : view.residents) longest = max(longest, remaining(*r));
    const std::int64_t width = longest.count() / static_cast<std::int64_t>(bins) + 1;
    std::array<std::int64_t, bins> given_back{};
    for (const R* r : view.residents) {
      const std::uint32_t row = r->state().row;
      given_back[static_cast<std::size_t>(remaining(*r).count() / width)] += row < view.own.size() ? view.own[row] : 0;
    }
    std::int64_t back = 0;
    for (std::size_t bin = 0; bin != bins; ++bin) {
      back += given_back[bin];
      if (back < view.lacks.count()) continue;
      const bool ended = remaining(candidate).count() <= static_cast<std::int64_t>(bin) * width;
      const bool fits_beside = back - view.lacks.count() >= (view.needed + view.guests_hold).count();
      return ended || fits_beside ? passage::start : passage::skip;
    }
    return passage::skip;  // nobody knows when the first can start
  }

 private:
  static constexpr std::size_t bins = 64;
};

using backfill = basic_backfill<>;

}  // namespace gate
TESSERA_NAMESPACE_END
