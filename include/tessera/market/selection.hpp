// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/market/message.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>

TESSERA_NAMESPACE_BEGIN
namespace market {

/// The answer of one receiver to an ask.
struct bid {
  peer from;                  ///< The bidder.
  tokens load{};              ///< The receiver's load, its purchases included.
  double start = 0;           ///< Seconds until it could begin to pull. Not NaN.
  std::uint32_t arrival = 0;  ///< 0 for the first bid to arrive.
};

/// The sender's choice (CascadeInfer, section 4.4). It drops the half of the bids with the higher load, keeps the
/// `keep` earliest starts of the rest, and prefers the earliest reply.
///
/// Moves the kept bids to the front of `bids`, the preferred one first, the others behind it in order of reply, and
/// returns their number. The rest of `bids` is in no particular order. With an odd number the smaller half is dropped,
/// so that a single bid wins. The paper leaves ties open. Here the other one of load and start decides, then the
/// earlier reply, then the lower instance. O(bids), no allocation.
[[nodiscard]] inline std::size_t select_bids(std::span<bid> bids, std::size_t keep = 3) noexcept {
  const auto at = [&](std::size_t i) { return bids.begin() + static_cast<std::ptrdiff_t>(i); };
  const auto by_load = [](const bid& a, const bid& b) {
    return a.load != b.load ? a.load < b.load
                            : std::tuple{a.start, a.arrival, a.from.id} < std::tuple{b.start, b.arrival, b.from.id};
  };
  const auto by_start = [](const bid& a, const bid& b) {
    return a.start != b.start ? a.start < b.start
                              : std::tuple{a.load, a.arrival, a.from.id} < std::tuple{b.load, b.arrival, b.from.id};
  };
  const auto by_reply = [](const bid& a, const bid& b) {
    return a.arrival != b.arrival ? a.arrival < b.arrival : a.from.id < b.from.id;
  };
  const std::size_t light = bids.size() - bids.size() / 2;
  if (light != bids.size()) std::nth_element(bids.begin(), at(light), bids.end(), by_load);
  const std::size_t kept = keep < light ? keep : light;
  if (kept != light) std::nth_element(bids.begin(), at(kept), at(light), by_start);
  std::sort(bids.begin(), at(kept), by_reply);
  return kept;
}

}  // namespace market
TESSERA_NAMESPACE_END
