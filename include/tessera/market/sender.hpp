// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/clock.hpp>
#include <tessera/core/status.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/market/port.hpp>
#include <tessera/market/selection.hpp>
#include <tessera/market/sender_config.hpp>
#include <tessera/migration/handover.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// The selling side of an instance on the bid-ask market. `market::trader` joins it with `market::receiver`.

TESSERA_NAMESPACE_BEGIN
namespace market {

/// Offers requests: asks, collects bids, confirms one winner, and sends to it when it pulls.
///
///     resting -> asking -> confirming -> sold -> copying -> granted -> gone
///        ^---------+----------+---------+--------'
///
/// An offer's auction has a number of its own; when it fails, the next auction has another. Messages about a former
/// auction are recognised and have no effect.
///
/// Complexity: a message is O(1), except the last bid, which decides: O(receivers). `tick` and the calls by request are
/// O(offers), plus O(receivers) for each auction that begins or is decided in them. No allocation after construction.
/// Exhaustion is a value. Deterministic.
template <clock_policy Clock = seconds_clock>
class sender {
 public:
  using duration = basic_duration<Clock>;      ///< A length of time on that clock.
  using time_point = basic_time_point<Clock>;  ///< A moment on that clock.
  using config = sender_config<Clock>;         ///< Parameters of the parts; each is described at its own type.

  /// Capacities; fixed at construction.
  struct limits {
    std::size_t offers = 64;     ///< Requests on offer or in transfer at a time. Below 2^16.
    std::size_t receivers = 64;  ///< Most candidates of one request. Below 2^16.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .template add<entry>(l.offers)
        .template add<candidate>(l.offers * l.receivers)
        .template add<bid>(l.receivers)
        .bytes_unaligned();
  }

  /// Takes `required_bytes(l)` from `memory`.
  sender(arena& memory, const limits& l, peer self, const config& c) noexcept
      : entries_{memory.take<entry>(l.offers)},
        candidates_{memory.take<candidate>(l.offers * l.receivers)},
        bids_{memory.take<bid>(l.receivers)},
        limits_{l},
        config_{c},
        self_{self} {
    TESSERA_ASSERT(l.offers < 0x10000 && l.receivers < 0x10000, "offers and receivers have 16-bit numbers");
    TESSERA_ASSERT(c.bidding >= duration{} && c.retransmit > duration{} && c.confirming > duration{} &&
                       c.reminding > duration{} && c.resting >= duration{},
                   "patience is positive");
    TESSERA_ASSERT(c.keep >= 1 && c.keep <= most_kept && c.auctions >= 1 && c.outgoing >= 1, "empty market");
  }
  sender(const sender&) = delete;
  sender& operator=(const sender&) = delete;

  // -- calls of the engine -----------------------------------------------------------------------------------------

  /// Offers a request to all `receivers`. `epoch`: how often it has changed hands. Returns `ok`, or `busy` if it is on
  /// offer, or `queue_full`. `invalid` if there are no receivers, or more than the limit, or this instance is one of
  /// them, or a quantity is not `believable`. Each auction asks the receivers in a rotated order. O(offers +
  /// receivers).
  template <port P>
  [[nodiscard]] status offer(request_id request, std::uint32_t epoch, tokens length, blocks size,
                             std::span<const instance_id> receivers, time_point now, P& p) noexcept {
    entry* e = nullptr;
    const status s = prepare(request, epoch, length, size, receivers, e);
    if (!ok(s)) return s;
    ask(*e, now, p);
    return s;
  }

  /// Sells a request to `receiver` without an auction: for placement that is decided elsewhere. Returns as `offer`. If
  /// the receiver does not take it, the request is `unsold`.
  template <port P>
  [[nodiscard]] status assign(request_id request, std::uint32_t epoch, tokens length, blocks size, instance_id receiver,
                              time_point now, P& p) noexcept {
    entry* e = nullptr;
    const status s = prepare(request, epoch, length, size, {&receiver, 1}, e);
    if (!ok(s)) return s;
    e->direct = true;
    e->kept[0] = {receiver, 0};
    e->kept_size = 1;
    e->kept_next = 0;
    confirm_next(*e, now, p);
    return s;
  }

  /// Gives the request away: it has stopped and all of it is with the target. After `ok` it is not this instance's,
  /// until `kept` says otherwise. `unknown_request` if it is not being copied. `exhausted` if it has outgrown the
  /// blocks that are reserved for it (see `update`). Then it is off the market, as after `withdraw`, and may continue
  /// here; nothing may be written under its ticket any more. O(offers).
  template <port P>
  [[nodiscard]] status hand_over(request_id request, time_point now, P& p) noexcept {
    entry* const e = find(request);
    if (e == nullptr || e->state != phase::copying) return status::unknown_request;
    if (e->size > e->room) {
      // Left open, it would occupy its slot and the target's blocks: a request does not shrink.
      leave_winner(*e, p);
      drop(*e);
      return status::exhausted;
    }
    static_cast<void>(e->handover.grant());
    e->state = phase::granted;
    --outgoing_;
    tell_transfer(*e, message_kind::grant, p);
    e->again = now + config_.retransmit;
    return status::ok;
  }

  /// Takes a request off the market: it has ended, or is to stay. A copy in progress must have been cut off.
  /// `unknown_request` if it is not on offer; `busy` if it has been handed over. O(offers).
  template <port P>
  status withdraw(request_id request, P& p) noexcept {
    entry* const e = find(request);
    if (e == nullptr) return status::unknown_request;
    if (e->state == phase::granted) return status::busy;
    leave_winner(*e, p);
    drop(*e);
    return status::ok;
  }

  /// The request on offer has grown: messages give these values from now on. `unknown_request`; `invalid` as `offer`.
  /// O(offers).
  status update(request_id request, tokens length, blocks size) noexcept {
    entry* const e = find(request);
    if (e == nullptr) return status::unknown_request;
    if (!believable(length) || !believable(size)) return status::invalid;
    load_ += length - e->length;
    e->length = length;
    e->size = size;
    return status::ok;
  }

  // -- events ------------------------------------------------------------------------------------------------------

  /// A message of a receiver. `room`: transfers that this instance could have in addition.
  template <port P>
  void on(const message& m, std::size_t room, time_point now, P& p) noexcept {
    entry* const e = by_number(m.offer);
    switch (m.kind) {
      case message_kind::bid:
      case message_kind::decline: on_bid(e, m, now, p); break;
      case message_kind::accepted:
        if (is_winner(e, m) && e->state == phase::confirming) {
          e->winner = m.from;
          e->state = phase::sold;
          e->again = now + config_.reminding;
        }
        break;
      case message_kind::rejected:
        if (is_winner(e, m) && (e->state == phase::confirming || e->state == phase::sold)) confirm_next(*e, now, p);
        break;
      case message_kind::pull: on_pull(e, m, room, now, p); break;
      case message_kind::ack:
        if (in_transfer(e, m)) {
          if (!e->handover.on_ack()) break;  // for a grant that was not made
          const request_id r = e->request;
          drop(*e);
          p.released(r);
        }
        send_closed(m, p);
        break;
      case message_kind::refuse:
        if (in_transfer(e, m)) {
          take_back(*e, now, p);
        } else if (is_winner(e, m) && e->state < phase::copying) {
          confirm_next(*e, now, p);  // the receiver gives up before the transfer begins
        }
        send_closed(m, p);
        break;
      default: break;
    }
  }

  /// Does everything that is due.
  template <port P>
  void tick(time_point now, P& p) noexcept {
    for (std::size_t i = 0; i < end_; ++i) {
      entry& e = entries_[i];
      switch (e.state) {
        case phase::free: break;
        case phase::resting:
          if (now >= e.deadline) ask(e, now, p);
          break;
        case phase::asking:
          if (now >= e.deadline) decide(e, now, p);
          break;
        case phase::confirming:
          if (now >= e.deadline) {
            leave_winner(e, p);
            confirm_next(e, now, p);
          } else if (now >= e.again) {
            confirm(e, p);
            e.again = now + config_.retransmit;
          }
          break;
        case phase::sold:
          if (now >= e.again) {
            confirm(e, p);
            e.again = now + config_.reminding;
          }
          break;
        case phase::copying:
        case phase::granted:
          if (now >= e.again) {
            tell_transfer(e, e.state == phase::granted ? message_kind::grant : message_kind::start, p);
            e.again = now + config_.retransmit;
          }
          break;
      }
    }
  }

  /// Begins the transfers that starving requests wait for, oldest first, if there is `room`.
  template <port P>
  void pump(std::size_t room, time_point now, P& p) noexcept {
    for (; room != 0 && outgoing_ < config_.outgoing && starving_ != 0; --room) {
      entry* first = nullptr;
      for (std::size_t i = 0; i < end_; ++i) {
        entry& e = entries_[i];
        if (e.state == phase::sold && e.starves_since != 0 &&
            (first == nullptr || e.starves_since < first->starves_since)) {
          first = &e;
        }
      }
      if (first == nullptr) return;
      begin_copy(*first, now, p);
    }
  }

  /// This incarnation of a receiver is dead.
  template <port P>
  void peer_failed(peer dead, time_point now, P& p) noexcept {
    for (std::size_t i = 0; i < end_; ++i) {
      entry& e = entries_[i];
      // A confirm to any incarnation may have been lost: the retransmission finds the next incarnation.
      if (e.state < phase::confirming || e.winner != dead) continue;
      if (e.state != phase::granted) {
        if (e.state == phase::copying) {
          e.handover.on_peer_failed();
          --outgoing_;
          p.kept(e.request);
        }
        confirm_next(e, now, p);
      } else if (e.handover.on_peer_failed()) {
        const request_id r = e.request;
        drop(e);
        p.unresolved(r, dead);
      }
    }
  }

  // -- queries -----------------------------------------------------------------------------------------------------

  /// Sum of the lengths of all requests on offer: its priority with receivers. O(1).
  [[nodiscard]] tokens load() const noexcept { return load_; }
  /// Requests on offer or in transfer.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Transfers in progress.
  [[nodiscard]] std::size_t outgoing() const noexcept { return outgoing_; }
  /// A starving request waits for the next transfer.
  [[nodiscard]] bool has_starving() const noexcept { return starving_ != 0; }
  /// Whether the request is on offer or in transfer. O(offers).
  [[nodiscard]] bool offers(request_id request) const noexcept { return find(request) != nullptr; }
  /// Whether it has been handed over and the answer is unknown. O(offers).
  [[nodiscard]] bool granted(request_id request) const noexcept {
    const entry* const e = find(request);
    return e != nullptr && e->state == phase::granted;
  }

 private:
  enum class phase : std::uint8_t { free, resting, asking, confirming, sold, copying, granted };
  enum class reply : std::uint8_t { none, bids, declines };

  struct candidate {
    instance_id id = 0;
    bid answer{};
    reply replied = reply::none;
  };

  struct entry {
    std::uint64_t number = 0;  // of the auction: serial << 16 | index; 0: free
    request_id request = 0;
    tokens length{};
    blocks size{};
    blocks room{};                  // reserved by the target
    std::uint64_t ticket = 0;       // copying, granted; sold and starving: to be used
    std::uint64_t void_ticket = 0;  // tickets up to this one were declared void
    std::uint64_t starves_since = 0;
    time_point deadline{};
    time_point again{};
    std::array<peer, most_kept> kept{};  // of the auction, in order of preference
    peer winner{};
    std::uint32_t epoch = 0;
    std::uint32_t replies = 0;
    std::uint32_t bids = 0;
    std::uint32_t receivers = 0;
    unsigned failures = 0;
    std::uint8_t kept_size = 0;
    std::uint8_t kept_next = 0;
    bool direct = false;
    phase state = phase::free;
    migration::handover_source handover{};
  };

  // -- finding -----------------------------------------------------------------------------------------------------

  [[nodiscard]] std::size_t index(const entry& e) const noexcept { return static_cast<std::size_t>(&e - entries_); }

  [[nodiscard]] candidate* candidates(const entry& e) noexcept { return candidates_ + index(e) * limits_.receivers; }

  [[nodiscard]] entry* by_number(std::uint64_t number) noexcept {
    const std::size_t i = number & 0xffffU;
    return number != 0 && i < limits_.offers && entries_[i].number == number ? entries_ + i : nullptr;
  }
  [[nodiscard]] const entry* find(request_id request) const noexcept {
    for (std::size_t i = 0; i < end_; ++i) {
      if (entries_[i].state != phase::free && entries_[i].request == request) return entries_ + i;
    }
    return nullptr;
  }
  [[nodiscard]] entry* find(request_id request) noexcept {
    return const_cast<entry*>(static_cast<const sender&>(*this).find(request));
  }

  /// The message comes from the buyer of the request. Before the buyer has accepted, its incarnation may be unknown.
  [[nodiscard]] static bool is_winner(const entry* e, const message& m) noexcept {
    return e != nullptr && e->state >= phase::confirming && e->winner.id == m.from.id &&
           (e->winner.incarnation == 0 || e->winner.incarnation == m.from.incarnation);
  }
  [[nodiscard]] static bool in_transfer(const entry* e, const message& m) noexcept {
    return is_winner(e, m) && e->state >= phase::copying && e->ticket == m.ticket;
  }

  // -- offers ------------------------------------------------------------------------------------------------------

  [[nodiscard]] status prepare(request_id request, std::uint32_t epoch, tokens length, blocks size,
                               std::span<const instance_id> receivers, entry*& out) noexcept {
    if (receivers.empty() || receivers.size() > limits_.receivers) return status::invalid;
    if (!believable(length) || !believable(size)) return status::invalid;
    for (const instance_id id : receivers) {
      if (id == self_.id) return status::invalid;
    }
    if (find(request) != nullptr) return status::busy;
    if (size_ == limits_.offers) return status::queue_full;
    entry* e = entries_;
    while (e->state != phase::free) ++e;
    *e = entry{};
    e->request = request;
    e->epoch = epoch;
    e->length = length;
    e->size = size;
    e->receivers = static_cast<std::uint32_t>(receivers.size());
    e->state = phase::resting;
    number(*e);
    for (std::size_t i = 0; i != receivers.size(); ++i) candidates(*e)[i].id = receivers[i];
    ++size_;
    if (index(*e) >= end_) end_ = index(*e) + 1;
    load_ += length;
    out = e;
    return status::ok;
  }

  void number(entry& e) noexcept { e.number = ++serial_ << 16U | index(e); }

  void drop(entry& e) noexcept {
    if (e.state == phase::copying) --outgoing_;
    if (e.state == phase::sold && e.starves_since != 0) --starving_;
    load_ -= e.length;
    --size_;
    e.state = phase::free;
    e.number = 0;
    while (end_ != 0 && entries_[end_ - 1].state == phase::free) --end_;
  }

  // -- the auction -------------------------------------------------------------------------------------------------

  template <port P>
  void ask(entry& e, time_point now, P& p) noexcept {
    e.state = phase::asking;
    e.deadline = now + config_.bidding;
    e.replies = 0;
    e.bids = 0;
    candidate* const c = candidates(e);
    // The receiver that is asked first tends to answer first: each auction begins with the next one.
    std::uint32_t i = auctions_++ % e.receivers;
    for (std::uint32_t asked = 0; asked != e.receivers; ++asked, i = i + 1 == e.receivers ? 0 : i + 1) {
      c[i].replied = reply::none;
      message m = about(e, message_kind::ask, {c[i].id, 0});
      m.candidate = static_cast<std::uint16_t>(i);
      p.send(m);
    }
  }

  template <port P>
  void on_bid(entry* e, const message& m, time_point now, P& p) noexcept {
    if (e == nullptr || e->state != phase::asking || m.candidate >= e->receivers) return;
    candidate& c = candidates(*e)[m.candidate];
    if (c.id != m.from.id || c.replied != reply::none) return;
    c.replied = m.kind == message_kind::bid ? reply::bids : reply::declines;
    c.answer = {m.from, m.load, m.start, e->replies++};
    if (m.kind == message_kind::bid) ++e->bids;
    if (e->replies == e->receivers) decide(*e, now, p);
  }

  /// All have answered, or the time for bids is over.
  template <port P>
  void decide(entry& e, time_point now, P& p) noexcept {
    const candidate* const c = candidates(e);
    std::size_t n = 0;
    for (std::uint32_t i = 0; i != e.receivers; ++i) {
      if (c[i].replied == reply::bids) bids_[n++] = c[i].answer;
    }
    const std::size_t kept = select_bids({bids_, n}, config_.keep);
    for (std::size_t i = 0; i != kept; ++i) e.kept[i] = bids_[i].from;
    e.kept_size = static_cast<std::uint8_t>(kept);
    e.kept_next = 0;
    confirm_next(e, now, p);
  }

  /// Confirms to the next kept bid; if there is none, the auction has failed.
  template <port P>
  void confirm_next(entry& e, time_point now, P& p) noexcept {
    if (e.state == phase::sold && e.starves_since != 0) --starving_;
    e.starves_since = 0;
    e.void_ticket = 0;
    if (e.kept_next != e.kept_size) {
      // A new number for each winner: messages of a former winner about this request have no effect.
      number(e);
      e.winner = e.kept[e.kept_next++];
      e.state = phase::confirming;
      e.deadline = now + config_.confirming;
      e.again = now + config_.retransmit;
      confirm(e, p);
      return;
    }
    if (e.direct || ++e.failures >= config_.auctions) {
      const request_id r = e.request;
      e.state = phase::resting;
      drop(e);
      p.unsold(r);
      return;
    }
    number(e);
    e.state = phase::resting;
    e.deadline = now + config_.resting;
  }

  template <port P>
  void confirm(entry& e, P& p) noexcept {
    p.send(about(e, message_kind::confirm, e.winner));
  }

  /// Tells the winner, if there is one, that it does not get the request.
  template <port P>
  void leave_winner(entry& e, P& p) noexcept {
    if (e.state == phase::confirming || e.state == phase::sold) {
      p.send(about(e, message_kind::withdrawn, e.winner));
    } else if (e.state == phase::copying) {
      static_cast<void>(e.handover.cancel());
      tell_transfer(e, message_kind::closed, p);
    }
  }

  // -- the transfer ------------------------------------------------------------------------------------------------

  template <port P>
  void on_pull(entry* e, const message& m, std::size_t room, time_point now, P& p) noexcept {
    if (!is_winner(e, m)) return send_closed(m, p);
    if (in_transfer(e, m)) {
      return tell_transfer(*e, e->state == phase::granted ? message_kind::grant : message_kind::start, p);
    }
    const bool for_sale = e->state == phase::confirming || e->state == phase::sold;
    // A void ticket stays void, even if its pull is repeated: its blocks are another's by now.
    if (!for_sale || m.ticket <= e->void_ticket) return send_reply(m, message_kind::busy, p);
    e->winner = m.from;
    if (e->state == phase::confirming) {
      e->state = phase::sold;  // it has accepted; the message is late or lost
      e->again = now + config_.reminding;
    }
    e->room = m.size;
    if (m.starving && e->starves_since == 0) {
      e->starves_since = ++starvations_;
      ++starving_;
    }
    if (e->starves_since != 0) {
      e->ticket = m.ticket;
      if (room != 0 && outgoing_ < config_.outgoing && starving_ == 1) return begin_copy(*e, now, p);
      return send_reply(m, message_kind::wait, p);
    }
    if (room != 0 && outgoing_ < config_.outgoing && starving_ == 0) {
      e->ticket = m.ticket;
      return begin_copy(*e, now, p);
    }
    e->void_ticket = m.ticket;
    send_reply(m, message_kind::busy, p);
  }

  template <port P>
  void begin_copy(entry& e, time_point now, P& p) noexcept {
    if (e.starves_since != 0) --starving_;
    e.starves_since = 0;
    e.state = phase::copying;
    e.handover = {};
    e.again = now + config_.retransmit;
    ++outgoing_;
    tell_transfer(e, message_kind::start, p);
    p.copy({e.request, e.winner, e.ticket, e.epoch + 1, e.length, e.room});
  }

  /// The target does not take it.
  template <port P>
  void take_back(entry& e, time_point now, P& p) noexcept {
    if (e.state == phase::copying) --outgoing_;
    e.handover.on_refuse();
    p.kept(e.request);
    confirm_next(e, now, p);
  }

  // -- messages ----------------------------------------------------------------------------------------------------

  [[nodiscard]] message about(const entry& e, message_kind kind, peer to) const noexcept {
    message m;
    m.from = self_;
    m.to = to;
    m.kind = kind;
    m.epoch = e.epoch + 1;
    m.request = e.request;
    m.offer = e.number;
    m.length = e.length;
    m.size = e.size;
    m.load = min(load_, tokens{greatest_count});
    return m;
  }
  template <port P>
  void tell_transfer(const entry& e, message_kind kind, P& p) noexcept {
    message m = about(e, kind, e.winner);
    m.ticket = e.ticket;
    p.send(m);
  }
  /// An answer about the message's ticket alone.
  template <port P>
  void send_reply(const message& to, message_kind kind, P& p) noexcept {
    message m;
    m.from = self_;
    m.to = to.from;
    m.kind = kind;
    m.request = to.request;
    m.offer = to.offer;
    m.ticket = to.ticket;
    p.send(m);
  }
  template <port P>
  void send_closed(const message& to, P& p) noexcept {
    send_reply(to, message_kind::closed, p);
  }

  entry* entries_;
  candidate* candidates_;
  bid* bids_;
  limits limits_;
  config config_;
  peer self_;
  std::uint64_t serial_ = 0;
  std::uint32_t auctions_ = 0;
  std::uint64_t starvations_ = 0;
  std::size_t size_ = 0;
  std::size_t end_ = 0;  // all entries from here on are free
  std::size_t outgoing_ = 0;
  std::size_t starving_ = 0;
  tokens load_{};
};

}  // namespace market
TESSERA_NAMESPACE_END
