// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// @file
/// Instances that trade requests over a bad network, crash and restart. A front end submits again what was lost, and a
/// checker sees everything. An instance is a market::trader and an engine that counts. Requests are run token by token,
/// their data is copied to reserved blocks, and every token must be run exactly once.

#include "support/network_simulator.hpp"

#include <tessera/market/trader.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tessera_test {

using namespace tessera;

/// Protocols that are wrong in one way, to show that the checker sees it.
enum class mutant {
  none,
  resume_after_timeout,   ///< A source that has granted and hears nothing goes on running the request.
  forget_without_closed,  ///< A target forgets the ticket when it has sent its first acknowledgement.
  resubmit_at_once,       ///< The front end does not wait until all instances know of a crash.
  resubmit_unresolved,    ///< The front end submits again what a source calls unresolved, without asking the others.
  one_incarnation,        ///< Messages from and to former incarnations are taken for current ones.
};

struct world_options {
  std::uint64_t seed = 1;
  std::size_t instances = 6;
  double seconds = 60;         ///< Seconds of trouble; then the network heals and everything must end.
  double arrivals = 20;        ///< Requests per second.
  double crashes = 0.05;       ///< Per second.
  double partitions = 0.2;     ///< Per second.
  std::int64_t capacity = 64;  ///< Blocks of an instance.
  bool can_refuse = true;      ///< Engines withdraw and refuse at random.
  network_faults faults{.loss = 0.1, .duplicate = 0.2, .straggle = 0.05};
  mutant wrong = mutant::none;
};

class market_world {
 public:
  using trader = market::trader<>;
  using request_id = market::request_id;
  static constexpr std::int64_t block_size = 16;

  explicit market_world(const world_options& o)
      : options_{o}, random_{o.seed}, net_{o.instances, o.faults, o.seed + 1}, nodes_(o.instances) {
    for (std::size_t i = 0; i != o.instances; ++i) boot(i);
  }

  /// Runs to the end, or to the first thing that is wrong.
  void run() {
    schedule_trouble();
    while (broken_.empty() && now_ < options_.seconds) step();
    healing_ = true;
    net_.heal();
    for (std::size_t i = 0; i != nodes_.size(); ++i) {
      if (!nodes_[i].alive) boot(i);
    }
    // Everything that can be waited for takes less than this: stragglers, auctions, starving pulls, the longest
    // request.
    const double limit = now_ + 300;
    while (broken_.empty() && !(all_over() && net_.empty() && settled())) {
      step();
      if (now_ > limit) fail(all_over() ? "trades that do not end" : "a request that does not end");
    }
    if (broken_.empty()) check_everything();
  }

  [[nodiscard]] const std::string& broken() const { return broken_; }
  [[nodiscard]] std::uint64_t delivered() const { return net_.delivered(); }
  [[nodiscard]] std::uint64_t lost() const { return net_.lost(); }

  struct counts {
    std::uint64_t requests = 0, ended = 0, offered = 0, moved = 0, crashes = 0, resubmitted = 0, unresolved = 0;
    std::uint64_t kept = 0, kept_after_grant = 0, unsold = 0, outgrown = 0, no_blocks = 0, busy = 0, waits = 0,
                  starving_served = 0;
    std::uint64_t full = 0, refused = 0, tokens = 0, most_hops = 0, digest = 0;
  };
  [[nodiscard]] const counts& seen() const { return counts_; }

 private:
  struct body {  // the request's data
    std::int64_t tokens = 0;
    std::uint32_t epoch = 0;
    std::uint32_t hops = 0;
  };
  struct limbo {  // granted, not answered
    body data;
    market::peer to;
    double since;
    std::uint64_t ticket;
  };
  struct landing {  // reserved blocks
    market::transfer about;
    std::optional<body> data;
  };
  struct outgoing {
    market::transfer about;
    double done;
  };
  struct node {
    bool alive = false;
    std::uint32_t incarnation = 0;
    std::unique_ptr<owned_storage<trader::limits>> storage;
    std::unique_ptr<trader> trade;
    std::map<request_id, body> owned;
    std::map<request_id, limbo> granted;
    std::map<std::uint64_t, landing> reserved;  // by ticket
    std::map<request_id, outgoing> copies;
    double restart = 0;
  };
  struct record {
    std::int64_t produced = 0;  // tokens that the front end has got
    std::int64_t wanted = 0;
    std::uint32_t epoch = 0;
    std::size_t owners = 0;
    bool ended = false;
    bool at_risk = false;
    std::size_t risk = 0;  // the latest crash that may have lost it
  };
  struct crash {
    market::peer who;
    std::vector<std::pair<market::peer, double>> to_tell;
  };

  /// The engine's end of one instance.
  struct engine {
    market_world& w;
    std::size_t self;

    node& me() { return w.nodes_[self]; }
    void send(const market::message& m) noexcept { w.on_send(self, m); }
    void copy(const market::transfer& t) noexcept { w.on_copy(self, t); }
    void kept(request_id r) noexcept { w.on_kept(self, r); }
    void released(request_id r) noexcept {
      if (me().granted.erase(r) == 0) w.fail("released what was not granted");
    }
    void unresolved(request_id r, market::peer to) noexcept {
      ++w.counts_.unresolved;
      const auto found = me().granted.find(r);
      if (found == me().granted.end() || found->second.to != to) return w.fail("unresolved, but not granted");
      me().granted.erase(found);
      w.risk(r, w.crashes_.size());  // it may have been granted to an instance that was dead already
      if (w.options_.wrong == mutant::resubmit_unresolved) w.resubmit(r);
    }
    void unsold(request_id r) noexcept {
      ++w.counts_.unsold;
      if (me().owned.count(r) == 0) w.fail("unsold, but not owned");
    }
    tokens load() noexcept {
      std::int64_t sum = 0;
      for (const auto& [id, b] : me().owned) sum += b.tokens;
      return tokens{sum};
    }
    blocks idle_blocks() noexcept { return blocks{w.idle(me())}; }
    bool reserve(const market::transfer& t) noexcept {
      if (t.room.count() > w.idle(me())) {
        ++w.counts_.no_blocks;
        return false;
      }
      if (!me().reserved.emplace(t.ticket, landing{t, std::nullopt}).second) w.fail("a ticket was used twice");
      return true;
    }
    void discard(const market::transfer& t) noexcept {
      if (me().reserved.erase(t.ticket) != 1) w.fail("discarded what was not reserved");
    }
    void activate(const market::transfer& t) noexcept { w.on_activate(self, t); }
  };

  // -- what the market does to the world ---------------------------------------------------------------------------

  void on_send(std::size_t from, const market::message& m) {
    counts_.digest = (counts_.digest ^ (static_cast<std::uint64_t>(m.kind) + m.offer * 31 + m.ticket * 7 + m.to.id)) *
                     0x100000001b3ULL;
    if (m.from.id != from || m.from.incarnation != nodes_[from].incarnation) fail("a wrong sender");
    if (m.to.id >= nodes_.size() || m.to.id == from) return fail("a wrong address");
    counts_.busy += m.kind == market::message_kind::busy;
    counts_.waits += m.kind == market::message_kind::wait;
    counts_.full += m.kind == market::message_kind::rejected;
    net_.send(from, m.to.id, m, now_);
    if (options_.wrong == mutant::forget_without_closed && m.kind == market::message_kind::ack) {
      market::message closed = m;
      closed.kind = market::message_kind::closed;
      closed.from = m.to;
      closed.to = m.from;
      forged_.push_back(closed);
    }
  }

  void on_copy(std::size_t self, const market::transfer& t) {
    node& me = nodes_[self];
    if (me.owned.count(t.request) == 0) return fail("copies what it does not own");
    if (me.copies.count(t.request) != 0) return fail("copies twice");
    const node& target = nodes_[t.other.id];
    if (target.alive && target.incarnation == t.other.incarnation && target.reserved.count(t.ticket) == 0) {
      return fail("copies to blocks that are not reserved");
    }
    me.copies[t.request] = {t, now_ + (random_.chance(0.1) ? random_.between(0.2, 1.5) : random_.between(0.003, 0.1))};
  }

  void on_kept(std::size_t self, request_id r) {
    node& me = nodes_[self];
    ++counts_.kept;
    me.copies.erase(r);
    const auto found = me.granted.find(r);
    if (found != me.granted.end()) {
      ++counts_.kept_after_grant;
      own(self, r, found->second.data);
      me.granted.erase(found);
    } else if (me.owned.count(r) == 0) {
      fail("kept what it did not have");
    }
  }

  void on_activate(std::size_t self, const market::transfer& t) {
    node& me = nodes_[self];
    const auto found = me.reserved.find(t.ticket);
    if (found == me.reserved.end()) return fail("activated without reserved blocks");
    if (!found->second.data) return fail("activated before its data had arrived");
    if (found->second.about.request != t.request) return fail("activated another request");
    body data = *found->second.data;
    me.reserved.erase(found);
    data.epoch = t.epoch;
    ++data.hops;
    ++counts_.moved;
    counts_.most_hops = std::max<std::uint64_t>(counts_.most_hops, data.hops);
    record& all = records_[t.request];
    if (t.epoch <= all.epoch && options_.wrong == mutant::none) fail("the epoch does not grow");
    all.epoch = t.epoch;
    own(self, t.request, data);
  }

  void own(std::size_t self, request_id r, const body& data) {
    record& all = records_[r];
    if (++all.owners != 1) return fail("two owners");
    if (all.ended) return fail("owned after its end");
    if (!nodes_[self].owned.emplace(r, data).second) fail("owned twice by one instance");
  }
  void disown(std::size_t self, request_id r) {
    --records_[r].owners;
    nodes_[self].owned.erase(r);
  }

  // -- the engines' own doings -------------------------------------------------------------------------------------

  static std::int64_t blocks_of(std::int64_t n) { return (n + block_size - 1) / block_size; }

  std::int64_t idle(const node& n) const {
    std::int64_t used = 0;
    for (const auto& [id, b] : n.owned) used += blocks_of(b.tokens);
    for (const auto& [id, g] : n.granted) used += blocks_of(g.data.tokens);
    for (const auto& [ticket, l] : n.reserved) used += l.about.room.count();
    return std::max<std::int64_t>(options_.capacity - used, 0);
  }

  void boot(std::size_t i) {
    node& n = nodes_[i];
    const std::uint32_t incarnation = n.incarnation + 1;
    n = node{};
    n.alive = true;
    n.incarnation = incarnation;
    n.storage = std::make_unique<owned_storage<trader::limits>>(
        storage_for<trader>({.instances = nodes_.size(), .offers = 6, .purchases = 8}));
    n.trade = std::make_unique<trader>(*n.storage, market::peer{static_cast<std::uint32_t>(i), n.incarnation});
  }

  void engine_step(std::size_t i) {
    engine e{*this, i};
    node& me = nodes_[i];
    const time_point t = time_point::at_seconds(now_);
    // Copies that are complete: stop, last blocks, hand over.
    std::vector<request_id> done;
    for (const auto& [r, c] : me.copies) {
      if (c.done <= now_) done.push_back(r);
    }
    for (const request_id r : done) {
      if (me.copies.count(r) == 0) continue;
      const outgoing c = me.copies[r];
      const body data = me.owned[r];
      static_cast<void>(me.trade->update(r, tokens{data.tokens}, blocks{blocks_of(data.tokens)}));
      node& target = nodes_[c.about.other.id];
      if (target.alive && target.incarnation == c.about.other.incarnation) {
        const auto place = target.reserved.find(c.about.ticket);
        if (place == target.reserved.end()) return fail("wrote to blocks that are not reserved");
        if (blocks_of(data.tokens) <= c.about.room.count()) place->second.data = data;
      }
      // What it sets free may be used before the call returns: the books must be right before it.
      me.copies.erase(r);
      const status s = me.trade->hand_over(r, t, e);
      if (s == status::ok) {
        disown(i, r);
        me.granted[r] = {data, c.about.other, now_, c.about.ticket};
      } else if (s == status::exhausted) {
        ++counts_.outgrown;
        if (me.trade->selling().offers(r)) fail("outgrown, and still on offer");
      } else {
        fail("a copy that the market does not know");
      }
    }
    if (options_.wrong == mutant::resume_after_timeout) {
      for (auto g = me.granted.begin(); g != me.granted.end();) {
        if (now_ - g->second.since > 1.0) {
          own(i, g->first, g->second.data);
          g = me.granted.erase(g);
        } else {
          ++g;
        }
      }
    }
    // One token of every request that is owned.
    std::vector<request_id> all;
    for (const auto& [r, b] : me.owned) all.push_back(r);
    for (const request_id r : all) {
      body& b = me.owned[r];
      record& whole = records_[r];
      ++counts_.tokens;
      if (b.tokens != whole.produced) return fail("a token was run twice, or left out");
      ++b.tokens;
      ++whole.produced;
      if (whole.produced < whole.wanted) continue;
      if (me.trade->selling().offers(r)) {
        me.copies.erase(r);
        if (me.trade->withdraw(r, t, e) != status::ok) fail("an owned request cannot be withdrawn");
      }
      whole.ended = true;
      ++counts_.ended;
      disown(i, r);
    }
    if (!healing_) offer_some(i, e, t);
    me.trade->tick(t, e);
  }

  void offer_some(std::size_t i, engine& e, time_point t) {
    node& me = nodes_[i];
    for (const auto& [r, b] : me.owned) {
      if (!random_.chance(0.05) || me.trade->selling().offers(r)) continue;
      std::vector<market::instance_id> to;
      for (std::size_t k = 0; k != nodes_.size(); ++k) {
        if (k != i && random_.chance(0.7)) to.push_back(static_cast<market::instance_id>(k));
      }
      if (to.empty()) continue;
      const tokens length{b.tokens};
      const blocks size{blocks_of(b.tokens)};
      const status s = random_.chance(0.1) ? me.trade->assign(r, b.epoch, length, size, to[0], t, e)
                                           : me.trade->offer(r, b.epoch, length, size, to, t, e);
      if (s == status::ok) ++counts_.offered;
    }
    if (options_.can_refuse && random_.chance(0.01) && !me.owned.empty()) {
      auto any = me.owned.begin();
      std::advance(any, static_cast<std::ptrdiff_t>(random_.below(me.owned.size())));
      if (me.trade->selling().offers(any->first)) {
        const request_id r = any->first;
        me.copies.erase(r);
        static_cast<void>(me.trade->withdraw(r, t, e));
      }
    }
    if (options_.can_refuse && random_.chance(0.01) && !me.reserved.empty()) {
      ++counts_.refused;
      static_cast<void>(me.trade->refuse(me.reserved.begin()->second.about.request, t, e));
    }
  }

  // -- trouble -----------------------------------------------------------------------------------------------------

  void schedule_trouble();

  void step() {
    double at = next_front_end_;
    for (const double t : next_engine_) at = std::min(at, t);
    if (!healing_) at = std::min({at, next_arrival_, next_crash_, next_partition_});
    if (!net_.empty() && net_.next() <= at) {
      const auto d = net_.pop();
      now_ = std::max(now_, d.at);
      deliver(d.to, d.message);
    } else {
      now_ = std::max(now_, at);
      if (at == next_front_end_) {
        front_end();
        next_front_end_ = now_ + 0.01;
      } else if (!healing_ && at == next_arrival_) {
        arrive();
      } else if (!healing_ && at == next_crash_) {
        crash_one();
      } else if (!healing_ && at == next_partition_) {
        partition();
      } else {
        for (std::size_t i = 0; i != nodes_.size(); ++i) {
          if (next_engine_[i] != at) continue;
          next_engine_[i] = now_ + random_.between(0.01, 0.03);
          if (nodes_[i].alive) {
            engine_step(i);
          } else if (nodes_[i].restart <= now_) {
            boot(i);
          }
          check_node(i);
        }
      }
    }
    if (++events_ % 64 == 0) check_everything();
  }

  void deliver(std::size_t to, market::message m);

  void arrive();

  void crash_one();
  /// It may be lost by one of the first `n` crashes.
  void risk(request_id r, std::size_t n);

  void partition();

  /// The failure detector, and what the front end does about lost requests.
  void front_end();

  bool resubmit(request_id r);

  // -- the checker -------------------------------------------------------------------------------------------------

  void fail(const char* what) {
    if (broken_.empty()) broken_ = std::string{what} + " at " + std::to_string(now_);
  }

  [[nodiscard]] bool granted_somewhere(request_id r) const {
    return std::any_of(nodes_.begin(), nodes_.end(), [&](const node& n) { return n.alive && n.granted.count(r) != 0; });
  }

  /// By the engine's own books, not by the trader's.
  void check_node(std::size_t i);

  void check_everything();

  [[nodiscard]] bool all_over() const { return counts_.ended == counts_.requests; }
  [[nodiscard]] bool settled() const {
    return std::all_of(nodes_.begin(), nodes_.end(), [](const node& n) {
      return n.granted.empty() && n.reserved.empty() && n.copies.empty() && n.trade->selling().size() == 0 &&
             n.trade->buying().size() == 0 && n.trade->buying().buffered() == tokens{} &&
             n.trade->selling().load() == tokens{};
    });
  }

  world_options options_;
  seeded_random random_;
  network_simulator<market::message> net_;
  std::vector<node> nodes_;
  std::map<request_id, record> records_;
  std::vector<crash> crashes_;
  std::vector<request_id> in_danger_;
  std::vector<market::message> forged_;
  std::size_t known_to_all_ = 0;
  std::vector<double> next_engine_;
  double next_arrival_ = 0;
  double next_crash_ = 0;
  double next_partition_ = 0;
  double next_front_end_ = 0;
  double now_ = 0;
  bool healing_ = false;
  std::uint64_t events_ = 0;
  std::string broken_;
  counts counts_;
};

}  // namespace tessera_test

#include "property/market_world_trouble.hpp"
