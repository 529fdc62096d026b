// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/owned_storage.hpp>
#include <tessera/market/receiver.hpp>
#include <tessera/market/sender.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// One instance on the decentralised bid-ask market: CascadeInfer, section 4.4 and "migration flow control" in
/// section 5.
///
/// ## Ownership of requests
///
/// The engine owns the requests that the front end or `port::activate` gave it, until `hand_over` returns `ok`. It owns
/// them again if `port::kept` says so. migration/handover.hpp explains why no two instances ever own the same request,
/// whatever the network does. The auction before it may fail in any way without harm.
///
/// ## Crashes
///
/// An instance that restarts has lost everything, requests and trades, and takes a larger incarnation. Every message
/// names the incarnations of both ends. A message from a former incarnation is dropped; one to a former incarnation is
/// answered by `restarted`. An incarnation larger than the known one implies that the known one is dead. The engine's
/// failure detector must report it by `peer_failed`: an instance that never comes back sends nothing.
///
/// The requests of the crashed incarnation are lost. The front end submits them again. So that nothing runs twice, it
/// does so only when all of this holds:
/// 1. The crashed incarnation is dead or fenced, and every live instance has returned from `peer_failed` for it. From
///    then on none of its grants takes effect anywhere: what it had not handed over by then is lost.
/// 2. At one moment after that, no live instance owns the request and none has `granted` it. Otherwise a request could
///    run twice: one that the crashed instance had just handed on, or a grant to it that has been refused.
///    `port::unresolved` alone is therefore no reason to submit.
/// To observe one moment of a running system, `pause` the instances: when all are paused and none has granted requests,
/// ownership does not move.

TESSERA_NAMESPACE_BEGIN
namespace market {

/// Parameters of a trader.
template <clock_policy Clock = seconds_clock>
struct trader_config {
  std::size_t transfers = 3;  ///< At a time, in and out together. At least 2, so that one may wait for a starving one.
  sender_config<Clock> sending{};      ///< Parameters of the selling side.
  receiver_config<Clock> receiving{};  ///< Parameters of the buying side.
};

/// Sells and buys requests: a `sender` and a `receiver` that share the limit of transfers, and know which incarnations
/// live. A state machine: events in, messages and decisions out, through the port that each call is given.
///
/// It does not buy a request that it is selling, nor one that it has handed over, until that is acknowledged. So an
/// engine can account for the requests that it owns and sells by request. Purchases are by ticket: for a request that
/// comes a second time, new blocks may be reserved before those of the first purchase are discarded.
///
/// Call `receive` for each message, `tick` now and then (at most a retransmission interval apart), `peer_failed` when
/// the failure detector says so. No I/O, no clock, no allocation after construction. One thread.
template <clock_policy Clock = seconds_clock>
class trader {
 public:
  using time_point = basic_time_point<Clock>;  ///< A moment on that clock.
  using config = trader_config<Clock>;         ///< Parameters of the parts; each is described at its own type.

  /// Capacities; fixed at construction.
  struct limits {
    std::size_t instances = 64;  ///< Ids are below this.
    std::size_t offers = 64;     ///< Requests that this instance sells at a time.
    std::size_t purchases = 64;  ///< Requests that this instance buys at a time.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .template add<std::uint32_t>(l.instances)
        .template add<std::uint32_t>(l.instances)
        .add_bytes(sender<Clock>::required_bytes({l.offers, l.instances}))
        .add_bytes(receiver<Clock>::required_bytes({l.purchases}))
        .bytes_unaligned();
  }

  /// Over the caller's memory, at least `required_bytes(l)` (checked in every build), which must outlive the trader.
  /// `self`: this instance; its incarnation is at least 1 and larger than that of any former life.
  trader(std::span<std::byte> memory, const limits& l, peer self, const config& c = {}) noexcept
      : trader{arena{memory}, l, self, c} {}

  /// Over storage from `storage_for`.
  trader(owned_storage<limits>& storage, peer self, const config& c = {}) noexcept
      : trader{storage.memory(), storage.limits(), self, c} {}

  trader(const trader&) = delete;
  trader& operator=(const trader&) = delete;

  // -- selling -----------------------------------------------------------------------------------------------------

  /// See `sender::offer`. `busy` while paused.
  template <port P>
  [[nodiscard]] status offer(request_id request, std::uint32_t epoch, tokens length, blocks size,
                             std::span<const instance_id> receivers, time_point now, P& p) noexcept {
    if (paused_) return status::busy;
    for (const instance_id id : receivers) {
      if (id >= limits_.instances) return status::invalid;
    }
    return sender_.offer(request, epoch, length, size, receivers, now, p);
  }
  /// See `sender::assign`. `busy` while paused.
  template <port P>
  [[nodiscard]] status assign(request_id request, std::uint32_t epoch, tokens length, blocks size, instance_id receiver,
                              time_point now, P& p) noexcept {
    if (paused_) return status::busy;
    if (receiver >= limits_.instances) return status::invalid;
    return sender_.assign(request, epoch, length, size, receiver, now, p);
  }
  /// See `sender::hand_over`. `busy` while paused. The next transfer may begin (`copy`) before this returns.
  template <port P>
  [[nodiscard]] status hand_over(request_id request, time_point now, P& p) noexcept {
    if (paused_) return status::busy;
    const status s = sender_.hand_over(request, now, p);
    pump(now, p);
    return s;
  }
  /// See `sender::withdraw`.
  template <port P>
  status withdraw(request_id request, time_point now, P& p) noexcept {
    const status s = sender_.withdraw(request, p);
    pump(now, p);
    return s;
  }
  /// See `sender::update`.
  status update(request_id request, tokens length, blocks size) noexcept {
    return sender_.update(request, length, size);
  }

  // -- buying ------------------------------------------------------------------------------------------------------

  /// See `receiver::refuse`.
  template <port P>
  status refuse(request_id request, time_point now, P& p) noexcept {
    return receiver_.refuse(request, now, p);
  }

  // -- events ------------------------------------------------------------------------------------------------------

  /// A message has arrived. `invalid`: not well formed, or to or from an instance that does not exist. `foreign`: to or
  /// from an incarnation that does not live. Both have no effect, except that a peer which addresses a former
  /// incarnation of this instance is told so.
  template <port P>
  status receive(const message& m, time_point now, P& p) noexcept {
    if (!well_formed(m) || m.to.id != self_.id || m.from.id == self_.id || m.from.id >= limits_.instances) {
      return status::invalid;
    }
    const std::uint32_t known = known_[m.from.id];
    if (m.from.incarnation < known || m.from.incarnation <= failed_[m.from.id]) return status::foreign;
    if (m.from.incarnation > known) {
      if (known > failed_[m.from.id]) mark_dead({m.from.id, known}, now, p);
      known_[m.from.id] = m.from.incarnation;
    }
    if (m.to.incarnation != self_.incarnation && m.to.incarnation != 0) {
      // Two instances that have both restarted must not tell each other so for ever.
      if (m.to.incarnation < self_.incarnation && m.kind != message_kind::restarted) {
        message answer;
        answer.from = self_;
        answer.to = m.from;
        answer.kind = message_kind::restarted;
        p.send(answer);
      }
      return status::foreign;
    }
    switch (m.kind) {
      case message_kind::ask:
      case message_kind::confirm:
        // A request that comes back before its arrival is acknowledged: the engine could not tell the two apart.
        receiver_.on(m, !sender_.offers(m.request), now, p);
        break;
      case message_kind::withdrawn:
      case message_kind::start:
      case message_kind::busy:
      case message_kind::wait:
      case message_kind::grant:
      case message_kind::closed: receiver_.on(m, true, now, p); break;
      case message_kind::bid:
      case message_kind::decline:
      case message_kind::accepted:
      case message_kind::rejected:
      case message_kind::pull:
      case message_kind::ack:
      case message_kind::refuse: sender_.on(m, room(), now, p); break;
      case message_kind::restarted: break;
    }
    pump(now, p);
    return status::ok;
  }

  /// Does everything that is due. O(offers + purchases), as much again for each transfer that begins, and O(receivers)
  /// for each auction that begins or is decided.
  template <port P>
  void tick(time_point now, P& p) noexcept {
    sender_.tick(now, p);
    receiver_.tick(now, p);
    pump(now, p);
  }

  /// The failure detector reports that `dead` and its former incarnations are dead or fenced. After this none of their
  /// messages has any effect. May be called again. O(offers + purchases).
  template <port P>
  void peer_failed(peer dead, time_point now, P& p) noexcept {
    TESSERA_ASSERT(dead.id < limits_.instances && dead.id != self_.id, "another instance fails");
    const std::uint32_t known = known_[dead.id];
    if (dead.incarnation <= failed_[dead.id]) return;
    failed_[dead.id] = dead.incarnation;
    if (known != 0 && known <= dead.incarnation) mark_dead({dead.id, known}, now, p);
    pump(now, p);
  }

  /// From now on no request leaves: `offer`, `assign` and `hand_over` return `busy`, and complete copies wait. Grants
  /// are still settled.
  void pause() noexcept { paused_ = true; }
  /// Takes part again after `pause`.
  void resume() noexcept { paused_ = false; }

  // -- queries -----------------------------------------------------------------------------------------------------

  /// This instance, with its incarnation.
  [[nodiscard]] peer self() const noexcept { return self_; }
  /// The selling side, for reading.
  [[nodiscard]] const sender<Clock>& selling() const noexcept { return sender_; }
  /// The buying side, for reading.
  [[nodiscard]] const receiver<Clock>& buying() const noexcept { return receiver_; }
  /// Transfers in and out.
  [[nodiscard]] std::size_t transfers() const noexcept { return sender_.outgoing() + receiver_.incoming(); }

 private:
  trader(arena memory, const limits& l, peer self, const config& c) noexcept
      : limits_{l},
        config_{c},
        self_{self},
        known_{memory.take<std::uint32_t>(l.instances)},
        failed_{memory.take<std::uint32_t>(l.instances)},
        sender_{memory, {l.offers, l.instances}, self, c.sending},
        receiver_{memory, {l.purchases}, self, c.receiving} {
    TESSERA_ASSERT(self.id < l.instances && self.incarnation >= 1, "an instance with a number and an incarnation");
    TESSERA_ASSERT(c.transfers >= 2, "one transfer must be able to wait for another");
  }

  [[nodiscard]] std::size_t room() const noexcept {
    return transfers() < config_.transfers ? config_.transfers - transfers() : 0;
  }

  template <port P>
  void mark_dead(peer dead, time_point now, P& p) noexcept {
    sender_.peer_failed(dead, now, p);
    receiver_.peer_failed(dead, p);
  }

  /// Begins the transfers that have become possible: first the starving requests that this instance sells. At most one
  /// of its purchases waits for a sender; the other transfers end. So in a ring of instances that wait for each other,
  /// one gets a place to send.
  template <port P>
  void pump(time_point now, P& p) noexcept {
    sender_.pump(room(), now, p);
    receiver_.pump(room(), now, p);
  }

  limits limits_;
  config config_;
  peer self_;
  std::uint32_t* known_;   // the largest incarnation seen; 0: none
  std::uint32_t* failed_;  // the largest incarnation known to be dead
  sender<Clock> sender_;
  receiver<Clock> receiver_;
  bool paused_ = false;
};

}  // namespace market
TESSERA_NAMESPACE_END
