// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/clock.hpp>
#include <tessera/core/status.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/market/port.hpp>
#include <tessera/migration/handover.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>

/// @file
/// The buying side of an instance on the bid-ask market. `market::trader` joins it with `market::sender`.

TESSERA_NAMESPACE_BEGIN
namespace market {

/// Parameters of a receiver. The paper gives none of the times, and calls `starving_after` a threshold.
template <clock_policy Clock = seconds_clock>
struct receiver_config {
  using duration = basic_duration<Clock>;  ///< A length of time on that clock.

  duration retransmit = detail::milliseconds<Clock, 20>;  ///< A message without an answer is repeated after this.
  duration retrying = detail::milliseconds<Clock, 20>;    ///< After a busy sender, or without idle blocks.
  duration pulling = detail::milliseconds<Clock, 2000>;   ///< A pull that did not start a transfer by then is
                                                          ///< abandoned.
  unsigned starving_after = 3;                            ///< Failed pulls after which a request is starving.
  unsigned unplaced_after = 16;  ///< After this many tries without idle blocks, it is given back to the sender. At
                                 ///< least 1.
  blocks growth{1};              ///< Reserved above the size: a request grows while it is copied.
  double throughput = 50'000;    ///< Tokens per second, until measured. At least 1.
  double smoothing = 0.2;        ///< Weight of the latest transfer in the measured throughput, in (0, 1].
};

/// Buys requests: bids, queues what it wins by the load of the seller (highest first), and pulls.
///
///     queued -> pulling -> (waiting) -> receiving -> owned -> forgotten
///        ^---------'           '------------'---> refusing ---^
///
/// Complexity: a message is O(purchases), `tick` is O(purchases) plus O(purchases) for each pull. No allocation after
/// construction. Exhaustion is a value: a bid that is not made, a purchase that is rejected. Deterministic: ties of
/// sender load go to the earlier purchase.
template <clock_policy Clock = seconds_clock>
class receiver {
 public:
  using duration = basic_duration<Clock>;      ///< A length of time on that clock.
  using time_point = basic_time_point<Clock>;  ///< A moment on that clock.
  using config = receiver_config<Clock>;       ///< Parameters of the parts; each is described at its own type.

  /// Capacities; fixed at construction.
  struct limits {
    std::size_t purchases = 64;  ///< Requests bought, until both sides have forgotten them. Below 2^16.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}.template add<entry>(l.purchases).bytes_unaligned();
  }

  /// Takes `required_bytes(l)` from `memory`.
  receiver(arena& memory, const limits& l, peer self, const config& c) noexcept
      : entries_{memory.take<entry>(l.purchases)}, limits_{l}, config_{c}, self_{self}, throughput_{c.throughput} {
    TESSERA_ASSERT(l.purchases < 0x10000, "purchases have 16-bit numbers");
    TESSERA_ASSERT(c.retransmit > duration{} && c.retrying >= duration{} && c.pulling > duration{},
                   "patience is positive");
    TESSERA_ASSERT(c.throughput >= 1 && c.smoothing > 0 && c.smoothing <= 1,
                   "throughput at least 1, smoothing positive");
    TESSERA_ASSERT(c.unplaced_after >= 1 && c.growth >= blocks{}, "impossible limits");
  }
  receiver(const receiver&) = delete;
  receiver& operator=(const receiver&) = delete;

  // -- calls of the engine -----------------------------------------------------------------------------------------

  /// Gives up a request that it has bought: its blocks are needed, or its data cannot be received. If the request was
  /// bought again while an earlier purchase is still being called off, both are given up. `discard` follows when the
  /// source has released it. `unknown_request` if it is not bought here, or owned already. O(purchases).
  template <port P>
  status refuse(request_id request, time_point now, P& p) noexcept {
    status found = status::unknown_request;
    for (entry& e : all()) {
      if (e.state == phase::free || e.state == phase::owned || e.about.request != request) continue;
      give_up(e, now, p);
      found = status::ok;
    }
    return found;
  }

  // -- events ------------------------------------------------------------------------------------------------------

  /// A message of a sender. `wanted`: false if the request is not to be bought.
  template <port P>
  void on(const message& m, bool wanted, time_point now, P& p) noexcept {
    switch (m.kind) {
      case message_kind::ask: return on_ask(m, wanted, p);
      case message_kind::confirm: return on_confirm(m, wanted, now, p);
      case message_kind::withdrawn:
        if (entry* const e = by_offer(m); e != nullptr && e->state == phase::queued) forget(*e);
        return;
      default: break;
    }
    entry* const e = by_ticket(m);
    switch (m.kind) {
      case message_kind::start:
        if (e == nullptr || e->state == phase::refusing) {
          send_reply(m, message_kind::refuse, p);
        } else if (e->state == phase::pulling || e->state == phase::waiting) {
          e->state = phase::receiving;
          e->started = now;
        }
        break;
      case message_kind::grant:
        if (e != nullptr && e->handover.on_grant()) take(*e, m, now, p);
        send_reply(m, e != nullptr && e->state == phase::owned ? message_kind::ack : message_kind::refuse, p);
        break;
      case message_kind::busy:
        if (e != nullptr && e->state == phase::pulling) {
          back_to_queue(*e, p);
          ++e->failed;
          e->again = now + config_.retrying;
        } else if (e != nullptr && e->state == phase::refusing) {
          release(*e, p);
        }
        break;
      case message_kind::wait:
        if (e != nullptr && e->state == phase::pulling) e->state = phase::waiting;
        break;
      case message_kind::closed:
        if (e != nullptr) release(*e, p);
        break;
      default: break;
    }
  }

  /// Does everything that is due.
  template <port P>
  void tick(time_point now, P& p) noexcept {
    for (entry& e : all()) {
      switch (e.state) {
        case phase::free:
        case phase::queued: break;
        case phase::pulling:
        case phase::waiting:
          if (now >= e.deadline) {
            give_up(e, now, p);
            break;
          }
          [[fallthrough]];
        case phase::receiving:
          if (now >= e.again) {
            pull(e, p);
            e.again = now + config_.retransmit;
          }
          break;
        case phase::refusing:
        case phase::owned:
          if (now >= e.again) {
            tell_about(e, e.state == phase::owned ? message_kind::ack : message_kind::refuse, p);
            e.again = now + config_.retransmit;
          }
          break;
      }
    }
  }

  /// Pulls what can be pulled, with room for `room` more transfers. The purchase of the sender with the highest load
  /// goes first.
  template <port P>
  void pump(std::size_t room, time_point now, P& p) noexcept {
    // While a purchase waits for its sender, the queue stops (section 4.4).
    for (const entry& e : all()) {
      if (e.state == phase::waiting || (e.state == phase::pulling && starves(e))) return;
    }
    const auto due = [now](const entry& e) { return e.state == phase::queued && now >= e.again; };
    blocks most{std::numeric_limits<std::int64_t>::max()};  // larger purchases cannot be reserved now
    while (room != 0) {
      entry* first = nullptr;
      for (entry& e : all()) {
        if (due(e) && needs(e) <= most && (first == nullptr || before(e, *first))) first = &e;
      }
      // Purchases before it have had their turn. They are not tried one by one, or a queue without blocks would take
      // O(n^2).
      for (entry& e : all()) {
        if (due(e) && needs(e) > most && (first == nullptr || before(e, *first))) no_place(e, now, p);
      }
      if (first == nullptr) return;
      entry& e = *first;
      e.about.room = needs(e);
      e.about.ticket = ++serial_ << 16U | index(e);
      if (!p.reserve(static_cast<const transfer&>(e.about))) {
        most = min(e.about.room - blocks{1}, p.idle_blocks());
        no_place(e, now, p);
        continue;
      }
      --room;
      ++incoming_;
      e.handover = {};
      e.state = phase::pulling;
      e.started = now;
      e.deadline = now + config_.pulling;
      e.again = now + config_.retransmit;
      pull(e, p);
      if (starves(e)) return;
    }
  }

  /// This incarnation of a sender is dead: its requests that were bought and have not arrived are lost.
  template <port P>
  void peer_failed(peer dead, P& p) noexcept {
    for (entry& e : all()) {
      if (e.state == phase::free || e.about.other != dead) continue;
      if (e.state == phase::queued) {
        forget(e);
      } else {
        release(e, p);
      }
    }
  }

  // -- queries -----------------------------------------------------------------------------------------------------

  /// Sum of the lengths of requests that are bought and have not arrived. O(1).
  [[nodiscard]] tokens buffered() const noexcept { return buffered_; }
  /// Tokens per second that arrive in a transfer: measured, smoothed.
  [[nodiscard]] double throughput() const noexcept { return throughput_; }
  /// Purchases, until both sides have forgotten them.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Transfers with reserved blocks and incomplete data.
  [[nodiscard]] std::size_t incoming() const noexcept { return incoming_; }

 private:
  enum class phase : std::uint8_t { free, queued, pulling, waiting, receiving, refusing, owned };

  struct entry {
    transfer about{};  // other: the sender. ticket 0: none is open
    std::uint64_t offer = 0;
    std::uint64_t order = 0;
    tokens sender_load{};
    blocks size{};
    time_point started{};
    time_point deadline{};
    time_point again{};
    unsigned failed = 0;
    unsigned unplaced = 0;
    phase state = phase::free;
    migration::handover_target handover{};
  };

  struct range {
    entry* first;
    entry* last;
    [[nodiscard]] entry* begin() const noexcept { return first; }
    [[nodiscard]] entry* end() const noexcept { return last; }
  };
  [[nodiscard]] range all() const noexcept { return {entries_, entries_ + end_}; }
  [[nodiscard]] std::size_t index(const entry& e) const noexcept { return static_cast<std::size_t>(&e - entries_); }

  [[nodiscard]] entry* by_offer(const message& m) const noexcept {
    for (entry& e : all()) {
      if (e.state != phase::free && e.offer == m.offer && e.about.other == m.from) return &e;
    }
    return nullptr;
  }
  [[nodiscard]] entry* by_ticket(const message& m) const noexcept {
    const std::size_t i = m.ticket & 0xffffU;
    if (m.ticket == 0 || i >= limits_.purchases) return nullptr;
    entry& e = entries_[i];
    return e.state > phase::queued && e.about.ticket == m.ticket && e.about.other == m.from ? &e : nullptr;
  }

  /// The order of pulls.
  [[nodiscard]] static bool before(const entry& a, const entry& b) noexcept {
    return a.sender_load != b.sender_load ? a.sender_load > b.sender_load : a.order < b.order;
  }
  [[nodiscard]] bool starves(const entry& e) const noexcept { return e.failed >= config_.starving_after; }

  /// Blocks that are reserved for it.
  [[nodiscard]] blocks needs(const entry& e) const noexcept {
    return min(e.size + config_.growth, blocks{greatest_count});
  }
  /// Blocks that are promised and not reserved yet.
  [[nodiscard]] blocks promised() const noexcept {
    blocks sum{};
    for (const entry& e : all()) {
      if (e.state == phase::queued) sum += needs(e);
    }
    return sum;
  }
  template <port P>
  [[nodiscard]] bool has_place(const message& m, P& p) const noexcept {
    return size_ != limits_.purchases && promised() + m.size + config_.growth <= p.idle_blocks();
  }

  // -- the auction -------------------------------------------------------------------------------------------------

  template <port P>
  void on_ask(const message& m, bool wanted, P& p) noexcept {
    message answer = reply(m, message_kind::decline);
    answer.candidate = m.candidate;
    if (wanted && has_place(m, p)) {
      answer.kind = message_kind::bid;
      answer.load = min(p.load() + buffered_, tokens{greatest_count});
      answer.start = static_cast<double>(buffered_.count()) / throughput_;
    }
    p.send(answer);
  }

  template <port P>
  void on_confirm(const message& m, bool wanted, time_point now, P& p) noexcept {
    entry* e = by_offer(m);
    if (e == nullptr) {
      // Other requests may have been bought since the bid.
      if (!wanted || !has_place(m, p)) return send_reply(m, message_kind::rejected, p);
      e = entries_;
      while (e->state != phase::free) ++e;
      *e = entry{};
      e->about = {m.request, m.from, 0, m.epoch, m.length, {}};
      e->offer = m.offer;
      e->order = ++purchases_;
      e->again = now;
      e->state = phase::queued;
      buffered_ += m.length;
      ++size_;
      if (index(*e) >= end_) end_ = index(*e) + 1;
    } else if (e->state < phase::refusing) {
      buffered_ += m.length - e->about.length;
      e->about.length = m.length;
    }
    e->sender_load = m.load;
    e->size = m.size;
    send_reply(m, message_kind::accepted, p);
  }

  void forget(entry& e) noexcept {
    if (e.state != phase::owned && e.state != phase::refusing) buffered_ -= e.about.length;
    --size_;
    e.state = phase::free;
    while (end_ != 0 && entries_[end_ - 1].state == phase::free) --end_;
  }

  // -- the transfer ------------------------------------------------------------------------------------------------

  template <port P>
  void pull(const entry& e, P& p) noexcept {
    message m = about(e, message_kind::pull);
    m.size = e.about.room;
    m.starving = starves(e);
    p.send(m);
  }

  /// The grant has arrived: the request is this instance's.
  template <port P>
  void take(entry& e, const message& m, time_point now, P& p) noexcept {
    const double took = (now - e.started).seconds();
    buffered_ -= e.about.length;
    --incoming_;
    e.about.length = m.length;
    e.about.epoch = m.epoch;
    e.state = phase::owned;
    e.again = now + config_.retransmit;
    if (took > 0) {
      const double measured = static_cast<double>(m.length.count()) / took;
      throughput_ += config_.smoothing * (measured - throughput_);
      if (!(throughput_ >= 1)) throughput_ = 1;
    }
    p.activate(static_cast<const transfer&>(e.about));
  }

  /// Its turn has come, and there are no idle blocks for it.
  template <port P>
  void no_place(entry& e, time_point now, P& p) noexcept {
    if (++e.unplaced >= config_.unplaced_after) {
      tell_about(e, message_kind::rejected, p);
      forget(e);
    } else {
      e.again = now + config_.retrying;
    }
  }

  template <port P>
  void back_to_queue(entry& e, P& p) noexcept {
    --incoming_;
    e.state = phase::queued;
    p.discard(static_cast<const transfer&>(e.about));
    e.about.ticket = 0;
  }

  /// The source has released the ticket.
  template <port P>
  void release(entry& e, P& p) noexcept {
    e.handover.on_closed();
    const bool was_owned = e.state == phase::owned;
    const transfer t = e.about;
    if (!was_owned) --incoming_;
    forget(e);
    if (!was_owned) p.discard(t);
  }

  template <port P>
  void give_up(entry& e, time_point now, P& p) noexcept {
    if (e.state == phase::queued) {
      tell_about(e, message_kind::rejected, p);
      return forget(e);
    }
    if (!e.handover.refuse()) return;
    buffered_ -= e.about.length;
    e.state = phase::refusing;
    e.again = now + config_.retransmit;
    tell_about(e, message_kind::refuse, p);
  }

  // -- messages ----------------------------------------------------------------------------------------------------

  [[nodiscard]] message reply(const message& to, message_kind kind) const noexcept {
    message m;
    m.from = self_;
    m.to = to.from;
    m.kind = kind;
    m.request = to.request;
    m.offer = to.offer;
    m.ticket = to.ticket;
    return m;
  }
  template <port P>
  void send_reply(const message& to, message_kind kind, P& p) noexcept {
    p.send(reply(to, kind));
  }
  [[nodiscard]] message about(const entry& e, message_kind kind) const noexcept {
    message m;
    m.from = self_;
    m.to = e.about.other;
    m.kind = kind;
    m.epoch = e.about.epoch;
    m.request = e.about.request;
    m.offer = e.offer;
    m.ticket = e.about.ticket;
    return m;
  }
  template <port P>
  void tell_about(const entry& e, message_kind kind, P& p) noexcept {
    p.send(about(e, kind));
  }

  entry* entries_;
  limits limits_;
  config config_;
  peer self_;
  double throughput_;
  std::uint64_t serial_ = 0;
  std::uint64_t purchases_ = 0;
  std::size_t size_ = 0;
  std::size_t end_ = 0;  // all entries from here on are free
  std::size_t incoming_ = 0;
  tokens buffered_{};
};

}  // namespace market
TESSERA_NAMESPACE_END
