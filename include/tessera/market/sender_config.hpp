// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/clock.hpp>

#include <cstddef>

/// @file
/// Parameters of the selling side of an instance on the bid-ask market.

TESSERA_NAMESPACE_BEGIN
namespace market {

/// Most bids that a sender can keep in an auction.
inline constexpr std::size_t most_kept = 8;

/// Parameters of a sender. The paper gives none of the times.
template <clock_policy Clock = seconds_clock>
struct sender_config {
  using duration = basic_duration<Clock>;  ///< A length of time on that clock.

  duration bidding = detail::milliseconds<Clock, 10>;      ///< How long the sender waits for bids.
  duration retransmit = detail::milliseconds<Clock, 20>;   ///< A message without an answer is repeated after this.
  duration confirming = detail::milliseconds<Clock, 100>;  ///< How long the winner may leave a confirm unanswered.
  duration reminding = detail::milliseconds<Clock, 500>;   ///< A winner that has not pulled is reminded after this.
  duration resting = detail::milliseconds<Clock, 50>;      ///< Between two auctions of one request.
  unsigned auctions = 16;                                  ///< After this many the request is `unsold`. At least 1.
  std::size_t keep = 3;                                    ///< Earliest starts that are kept, 1 to `most_kept`.
  std::size_t outgoing = 1;                                ///< Transfers at a time; more pulls find the sender busy.
};

}  // namespace market
TESSERA_NAMESPACE_END
