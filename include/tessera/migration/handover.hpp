// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <cstdint>

/// @file
/// Passes the ownership of a request from one instance to another, over a network that delays, duplicates, reorders and
/// loses messages. CascadeInfer (section 4.4) and Phasor (appendix D) say that control is handed over when the copy is
/// complete. They do not say how; this is a minimal protocol that does it safely.
///
/// ## Protocol
///
/// One transfer has one *ticket*, made by the target: a number that this incarnation of the target never uses again.
///
///     target                              source
///       | -- pull(ticket) ------------------> |   target has reserved its blocks
///       | <------------------ start(ticket) - |   copying: the source goes on running the request
///       |                                     |   the source stops running it, the last block is copied
///       | <------------------ grant(ticket) - |   granted: repeated until answered, whatever the time it takes
///       | -- ack(ticket) -------------------> |   owned: from the first grant on the target may run it
///       | <----------------- closed(ticket) - |   both forget the ticket
///
/// `refuse(ticket)` from the target ends a transfer at any moment before the grant has arrived. The source answers
/// `closed` and continues to run the request, even if it had granted. The source ends it before granting by forgetting
/// it: it answers `closed` to any message about an unknown ticket. The target answers `refuse` to a `start` or `grant`
/// of an unknown ticket.
///
/// ## Invariant
///
/// At any moment at most one instance may run the request: the source in `copying` or `kept`, the target in `owned`.
///
/// Proof, for any delivery of the messages:
/// 1. The target enters `owned` at most once per ticket, and only on a grant of this ticket.
/// 2. The source sends a grant only after it has stopped for good, as far as it can tell. It leaves `granted` for
///    `kept` only on a `refuse`, never on a timeout.
/// 3. The target sends a `refuse` only if it is not `owned` under this ticket and never will be. `refusing` has no way
///    to `owned`, and an unknown ticket cannot be opened again, because numbers are not reused.
/// 4. "Unknown" must not mean "owned once and forgotten": the target stays in `owned` until `closed`, and the source
///    says `closed` only when it has left `granted`. So no refusal of a ticket that took effect can meet a source that
///    still waits for the answer.
/// tests/unit/migration_handover_test.cpp walks through every reachable state. Every message ever sent can be delivered
/// at any time and any number of times. It shows that four plausible simplifications break the rule.
///
/// ## What needs a failure detector
///
/// A source that has granted and gets no answer cannot know whether the target runs the request. No protocol can,
/// because its last message may be lost. So it repeats the grant, for ever if it must. The only other way out is a
/// report that this incarnation of the target is dead (`peer_failed`): then the source is `unresolved`. It must not run
/// the request, because the target may have handed it on before it died. The front end, which sees all instances,
/// decides: see market/trader.hpp.
/// A detector that takes a live instance for dead breaks the invariant. So the engine has to fence: it cuts the
/// instance off, or makes it restart as a new incarnation, before it reports the failure.
///
/// The two classes below are only the states; they are values of one byte. market/ sends the messages. A system without
/// a market, such as Phasor's migrations between decode workers, uses `market::trader::assign`, or these two with
/// messages of its own.

TESSERA_NAMESPACE_BEGIN
namespace migration {

/// The source's side of one transfer.
class handover_source {
 public:
  /// The source's phases.
  enum class phase : std::uint8_t {
    copying,     ///< Owns the request and may run it.
    granted,     ///< May not run it. Repeats the grant.
    kept,        ///< The transfer is off; owns the request and may run it.
    released,    ///< The target owns the request.
    unresolved,  ///< The target is dead; may not run it, and does not know which instance does.
  };

  /// The phase it is in.
  [[nodiscard]] constexpr phase state() const noexcept { return phase_; }
  /// Whether this side may run the request.
  [[nodiscard]] constexpr bool may_run() const noexcept { return phase_ == phase::copying || phase_ == phase::kept; }
  /// No message can change it any more, and the ticket may be forgotten.
  [[nodiscard]] constexpr bool over() const noexcept { return phase_ > phase::granted; }

  /// Everything is copied and the request has stopped: gives it away. False, and no change, unless it was copying.
  [[nodiscard]] constexpr bool grant() noexcept { return go(phase::copying, phase::granted); }
  /// Calls the transfer off. False, and no change, unless it was copying: a grant cannot be taken back.
  [[nodiscard]] constexpr bool cancel() noexcept { return go(phase::copying, phase::kept); }
  /// The target has taken it. True if this released it.
  constexpr bool on_ack() noexcept { return go(phase::granted, phase::released); }
  /// The target does not take it. True if this ended the transfer: the request goes on here.
  constexpr bool on_refuse() noexcept { return go(phase::copying, phase::kept) || go(phase::granted, phase::kept); }
  /// The target's incarnation is dead. True if this ended the transfer, as `kept` or as `unresolved`.
  constexpr bool on_peer_failed() noexcept {
    return go(phase::copying, phase::kept) || go(phase::granted, phase::unresolved);
  }

 private:
  constexpr bool go(phase from, phase to) noexcept {
    if (phase_ != from) return false;
    phase_ = to;
    return true;
  }

  phase phase_ = phase::copying;
};

/// The target's side of one transfer.
class handover_target {
 public:
  /// The target's phases.
  enum class phase : std::uint8_t {
    receiving,  ///< Has asked for the request; its blocks are reserved and may be written to.
    refusing,   ///< Does not want it any more; repeats the refusal. The blocks may still be written to.
    owned,      ///< Owns the request; repeats the acknowledgement.
    closed,     ///< The source has forgotten the ticket, or is dead. Nothing is written any more.
  };
  /// The answer to a message of the source.
  enum class answer : std::uint8_t { nothing, ack, refuse };

  /// The phase it is in.
  [[nodiscard]] constexpr phase state() const noexcept { return phase_; }
  /// No message can change it any more, and the ticket may be forgotten.
  [[nodiscard]] constexpr bool over() const noexcept { return phase_ == phase::closed; }

  /// The source gives the request away. True if it is owned from now on: exactly once. If the scheduler may not take
  /// it, check that before and `refuse`: an owner cannot.
  [[nodiscard]] constexpr bool on_grant() noexcept {
    if (phase_ != phase::receiving) return false;
    phase_ = phase::owned;
    return true;
  }
  /// Calls the transfer off. False, and no change, unless it was receiving.
  [[nodiscard]] constexpr bool refuse() noexcept {
    if (phase_ != phase::receiving) return false;
    phase_ = phase::refusing;
    return true;
  }
  /// The source has forgotten the ticket, or its incarnation is dead. The request, if owned, stays owned.
  constexpr void on_closed() noexcept { phase_ = phase::closed; }

  /// The answer to repeat until the source says `closed`.
  [[nodiscard]] constexpr answer repeats() const noexcept {
    switch (phase_) {
      case phase::refusing: return answer::refuse;
      case phase::owned: return answer::ack;
      case phase::receiving:
      case phase::closed: break;
    }
    return answer::nothing;
  }

 private:
  phase phase_ = phase::receiving;
};

}  // namespace migration
TESSERA_NAMESPACE_END
