// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>

#include <cstdint>

/// @file
/// The messages between instances on the bid-ask market (CascadeInfer, section 4.4).

TESSERA_NAMESPACE_BEGIN
namespace market {

/// An instance, numbered from 0 without gaps.
using instance_id = std::uint32_t;
/// A request, named by the front end. The same on all instances; never used for another request.
using request_id = std::uint64_t;

/// One life of an instance. An instance that restarts takes a larger incarnation. So messages to or from its former
/// incarnation are recognised.
struct peer {
  instance_id id = 0;             ///< The instance.
  std::uint32_t incarnation = 0;  ///< From 1. 0 in an address: any incarnation.

  /// Memberwise.
  friend constexpr bool operator==(const peer&, const peer&) noexcept = default;
};

/// The kinds of messages. The comments say which side sends them.
enum class message_kind : std::uint8_t {
  // The auction. s: sent by the sender of requests, r: by a receiver.
  ask,        ///< s: does the receiver take this request? (length, size, load of the sender)
  bid,        ///< r: yes. (load, start)
  decline,    ///< r: no.
  confirm,    ///< s: the receiver may pull it. Repeated as a reminder.
  accepted,   ///< r: it is in the receiver's queue.
  rejected,   ///< r: it is not, or no longer, in the receiver's queue.
  withdrawn,  ///< s: it is not for sale any more.
  // The transfer; see migration/handover.hpp.
  pull,    ///< r: requests it under this ticket. Repeated while the transfer lasts.
  start,   ///< s: sending has started.
  busy,    ///< s: another one is being sent. This ticket is void.
  wait,    ///< s: it is the next one.
  grant,   ///< s: all of it has been sent; the receiver owns it.
  ack,     ///< r: the receiver has taken it over.
  refuse,  ///< r: the receiver does not take it under this ticket.
  closed,  ///< s: this ticket is unknown, or known no more.
  // To a peer that addresses a former incarnation.
  restarted,
};
/// The number of kinds.
inline constexpr std::uint8_t message_kinds = static_cast<std::uint8_t>(message_kind::restarted) + 1;

/// One message, 80 bytes, copied as it is. Members that a kind does not list above are 0.
struct message {
  peer from;                              ///< Sender, with its incarnation.
  peer to;                                ///< Receiver, with the incarnation that the sender means.
  message_kind kind = message_kind::ask;  ///< The kind; it determines which of the other members are used.
  bool starving = false;                  ///< pull: it has failed too often, send it next.
  std::uint16_t candidate = 0;            ///< ask, bid, decline: the receiver's place in the sender's list.
  std::uint32_t epoch = 0;                ///< How often the request has changed hands, this time included.
  request_id request = 0;                 ///< The request it is about, except in `restarted`.
  std::uint64_t offer = 0;                ///< Number of the auction, unique in the sender's incarnation.
  std::uint64_t ticket = 0;  ///< Number of the transfer, unique and ascending in the receiver's incarnation.
  tokens length{};           ///< KV of the request, as last known.
  blocks size{};             ///< ask, confirm: blocks it needs; pull: blocks reserved for it.
  tokens load{};             ///< ask, confirm: the load that the sender wants to move; bid: the receiver's load.
  double start = 0;          ///< bid: seconds until the receiver could begin to pull.
};

/// The greatest count that is accepted from a peer, and sent to one: so many can be added up without overflow.
inline constexpr std::int64_t greatest_count = std::int64_t{1} << 40U;
/// Whether a peer would accept this count.
template <class Quantity>
[[nodiscard]] constexpr bool believable(Quantity q) noexcept {
  return q >= Quantity{} && q <= Quantity{greatest_count};
}

/// Checks a message from outside before it is used: a known kind, and quantities that can be added up without overflow.
/// No protection against a peer that lies.
[[nodiscard]] constexpr bool well_formed(const message& m) noexcept {
  return static_cast<std::uint8_t>(m.kind) < message_kinds && m.from.incarnation != 0 && believable(m.length) &&
         believable(m.size) && believable(m.load) && m.start >= 0 && m.start <= 1e18;
}

/// A lower-case name, for logs.
[[nodiscard]] constexpr const char* to_string(message_kind k) noexcept {
  switch (k) {
    case message_kind::ask: return "ask";
    case message_kind::bid: return "bid";
    case message_kind::decline: return "decline";
    case message_kind::confirm: return "confirm";
    case message_kind::accepted: return "accepted";
    case message_kind::rejected: return "rejected";
    case message_kind::withdrawn: return "withdrawn";
    case message_kind::pull: return "pull";
    case message_kind::start: return "start";
    case message_kind::busy: return "busy";
    case message_kind::wait: return "wait";
    case message_kind::grant: return "grant";
    case message_kind::ack: return "ack";
    case message_kind::refuse: return "refuse";
    case message_kind::closed: return "closed";
    case message_kind::restarted: return "restarted";
  }
  return "?";
}

}  // namespace market
TESSERA_NAMESPACE_END
