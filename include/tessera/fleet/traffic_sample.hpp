// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

/// @file
/// The traffic that a router has seen, as values: what a plan is made from.

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// A request that a router remembers, as far as it was heard of.
struct seen_request {
  double arrival_s = 0;  ///< When it arrived, in seconds.
  tokens prompt{};       ///< Tokens of the prompt.
  tokens generated{};    ///< Tokens generated: all of them if it has ended, else those so far.
  tokens reasoning{};    ///< How many of these are reasoning. Not read while it reasons.
  tokens limit{};        ///< Most tokens that it may generate; 0: nothing is said.
  float score = std::numeric_limits<float>::quiet_NaN();  ///< A predictor's score, of which only the order counts.
                                                          ///< NaN: none.
  std::int32_t tenant = -1;                               ///< The tenant that it belongs to; -1: none.
  bool ended = false;                                     ///< It has ended, and nothing more comes.
  bool refused = false;                                   ///< It was refused: it has arrived, and nothing is learned.
  bool reasons = false;                                   ///< It has not ended and reasons now.

  /// Memberwise. A request without a score differs from each, as NaN does.
  friend constexpr bool operator==(const seen_request&, const seen_request&) noexcept = default;
};

/// What a plan is made from. Values alone: a planner may be in another process.
struct traffic_sample {
  std::span<const seen_request> requests{};  ///< The requests that are remembered, in order of arrival.
  double rate = 0;                           ///< Requests a second.
  double lately = 0;                         ///< The same in the last seconds; 0 if these were few.
  std::size_t here = 0;                      ///< Requests that are being served.
  bool held = false;    ///< Whether `here` is constant: each request that ends is followed by another.
  bool behind = false;  ///< Whether the queue grows.
};

/// Arrivals per second, over the last 1,024; 0 if they came all at once. A pause does not count if it is longer than a
/// minute and longer than all the rest of the time. Otherwise a server would take the traffic after a night for that of
/// the night. O(1,024).
/// @param n requests that are remembered. @param arrival_s when the i-th of them arrived, in order.
template <class Arrival>
[[nodiscard]] constexpr double arrival_rate(std::size_t n, Arrival arrival_s) noexcept {
  constexpr std::size_t lately = 1024;
  constexpr double minute_s = 60;
  if (n < 2) return 0;
  const std::size_t first = n < lately ? 0 : n - lately;
  const auto count = static_cast<double>(n - first);
  const double span = arrival_s(n - 1) - arrival_s(first);
  double longest = 0;
  for (std::size_t i = first + 1; i != n; ++i) {
    const double gap = arrival_s(i) - arrival_s(i - 1);
    longest = gap > longest ? gap : longest;
  }
  const double rest = span - longest;
  if (longest > minute_s && longest > rest && rest > 0) return (count - 2) / rest;
  return span > 0 ? (count - 1) / span : 0;
}

}  // namespace fleet
TESSERA_NAMESPACE_END
