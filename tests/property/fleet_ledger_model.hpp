// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// A plain ledger of a fleet: maps, sums made anew each time, nothing kept up to date; and the comparison with the
// library's.

#include <tessera/fleet/ledger.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace tessera_test::fleet_model {

using namespace tessera;
using fleet::load;
using fleet::reception;
using fleet::replica_id;
using fleet::request_id;
using fleet::view;
using key = std::pair<request_id, replica_id>;
using ledger = fleet::ledger<>;

inline constexpr std::size_t replicas = 6;
inline constexpr std::size_t room = 40;
inline constexpr headroom::prefill_cost cost{.alpha = 0.5, .beta = 2};
inline constexpr headroom::prefill_budget budget{.peak_flops = 1e5, .ttft = 1_s};

inline ledger::settings small_settings() {
  ledger::settings s;
  s.block_size = 4_tok;
  s.lease = 20_s;
  s.silence = 5_s;
  s.rest = 3_s;
  s.moving = 3;
  s.demand = 2_blk;
  s.quantum = 6_tok;
  return s;
}

/// The plain book.
struct model {
  enum class standing { here, leaving, incoming };
  struct held {
    double heard = 0;
    double rests_until = 0;
    std::int64_t prompt = 0;
    std::int64_t cached = 0;
    std::int64_t generated = 0;
    std::int64_t reasoned = 0;
    bool started = false;
    bool answers = false;
    bool asks = false;
    bool has_hit = false;
    std::uint64_t since = 0;  // reports taken before it held blocks
    std::int64_t remain = 0;  // of one that leaves: what its move does not free
    std::uint64_t number = 0;
    standing stands = standing::here;
    std::optional<replica_id> twin{};
  };
  /// What is known of the longest prefix that requests share.
  struct prefix {
    std::int64_t depth = 0;
    std::int64_t kept = 0;
  };
  struct then {
    load own{};
    std::int64_t doubtful = 0;
    std::int64_t kept = 0;
  };
  struct replica {
    fleet::replica what{};
    std::uint64_t incarnation = 0;
    std::uint64_t epoch = 0;
    double heard = 0;
    bool there = false;
    bool drains = false;
    bool silent = false;
    load others{};
    std::optional<then> asked{};
    std::int64_t room_then = 0;
    std::int64_t doubled = 0;
    std::uint64_t reports = 0;
    prefix of_present{};
    bool slo_met = true;
    blocks from{};
    blocks to = fleet::endless;
  };

  ledger::settings s;
  std::map<replica_id, replica> all{};
  std::map<key, held> book{};
  std::vector<key> asking{};
  replica_id next = 0;
  std::uint64_t expired = 0;
  std::uint64_t came = 0;
  std::map<reception, std::uint64_t> received{};

  [[nodiscard]] std::int64_t size_of(const held& h) const { return (h.prompt + h.generated + 3) / 4; }
  /// Whole blocks of its prompt, without its last token.
  [[nodiscard]] static std::int64_t sharable(const held& h) { return h.prompt > 0 ? (h.prompt - 1) / 4 : 0; }
  [[nodiscard]] static std::int64_t shared(const held& h) { return std::min(h.cached / 4, sharable(h)); }
  [[nodiscard]] static std::int64_t doubtful(const held& h) {
    return h.started && !h.has_hit ? sharable(h) - shared(h) : 0;
  }
  [[nodiscard]] static bool present(const held& h) { return h.stands != standing::incoming; }
  [[nodiscard]] static bool counts(const held& h) { return h.stands != standing::leaving; }

  template <class If>
  [[nodiscard]] load sum(replica_id id, If which) const {
    load l;
    for (const auto& [k, h] : book) {
      if (k.second != id || !which(h)) continue;
      ++l.requests;
      (h.started ? l.kv_held : l.waiting_blocks) += blocks{size_of(h) - shared(h)};
      if (!h.answers) ++l.reasoning;
      if (h.answers && h.generated - h.reasoned < 6) ++l.fresh_answers;
      if (!h.started) l.prefill_flops += cost.flops(tokens{h.prompt}, tokens{h.cached});
    }
    return l;
  }
  template <class If, class Of>
  [[nodiscard]] std::int64_t total(replica_id id, If which, Of of) const {
    std::int64_t n = 0;
    for (const auto& [k, h] : book) n += k.second == id && which(h) ? of(h) : 0;
    return n;
  }
  [[nodiscard]] std::int64_t sharers(replica_id id) const {
    return total(id, present, [](const held& h) { return shared(h) > 0 ? 1 : 0; });
  }
  [[nodiscard]] bool all_share(replica_id id) const {
    return sharers(id) == total(id, present, [](const held&) { return 1; });
  }
  /// `h` is about to be there.
  void enters(replica_id id, const held& h) {
    prefix& p = all.at(id).of_present;
    if (shared(h) == 0) return;
    if (all_share(id)) p.kept = std::max(p.kept, shared(h));
    p.depth = std::max(p.depth, shared(h));
  }
  /// `h` is not there any more.
  void leaves(replica_id id, const held& h) {
    prefix& p = all.at(id).of_present;
    if (sharers(id) == 0) p = {};
    if (shared(h) < p.depth) p.kept = std::max(p.kept, std::min(sharable(h), p.depth));
  }
  [[nodiscard]] bool was_reported(replica_id id, const held& h) const {
    return h.started && h.since != all.at(id).reports;
  }
  /// It does not count any more where it is.
  void counts_no_more(replica_id id, const held& h) {
    if (was_reported(id, h)) all.at(id).doubled -= std::min(all.at(id).doubled, doubtful(h));
  }
  /// What the engine has found of its prompt.
  void hit(const key& k, std::int64_t cached) {
    held& h = book.at(k);
    h.cached = std::min(cached, h.prompt);
    h.has_hit = true;
    if (!present(h)) return;
    prefix& p = all.at(k.second).of_present;
    if (sharers(k.second) == 0) {
      p = {};
      return;
    }
    p.depth = std::max(p.depth, shared(h));
    if (all_share(k.second)) p.kept = std::max(p.kept, shared(h));
  }
  [[nodiscard]] then as_reported(replica_id id) const {
    return {sum(id, present), total(id, present, doubtful), all.at(id).of_present.kept};
  }
  /// Blocks that its move frees where it is, for certain.
  [[nodiscard]] std::int64_t frees(const key& k, const held& h) const {
    const replica& r = all.at(k.second);
    std::int64_t stays = shared(h);
    const std::int64_t others = sharers(k.second) - (shared(h) > 0 ? 1 : 0);
    if (others > 0) stays = std::max(stays, std::min(sharable(h), r.of_present.depth));
    if (r.doubled > 0 && was_reported(k.second, h)) stays = std::max(stays, shared(h) + doubtful(h));
    return size_of(h) - stays;
  }
  [[nodiscard]] view at(replica_id id) const {
    const replica& r = all.at(id);
    load mine = sum(id, counts);
    const std::int64_t stays = r.of_present.kept + total(id, present, [](const held& h) { return h.remain; });
    mine.kv_held += blocks{stays - std::min(r.doubled, total(id, counts, doubtful))};
    view v;
    v.id = id;
    v.requests = r.others.requests + mine.requests;
    v.kv_held = r.others.kv_held + mine.kv_held;
    v.waiting_blocks = r.others.waiting_blocks + mine.waiting_blocks;
    v.reasoning = r.others.reasoning + mine.reasoning;
    v.fresh_answers = r.others.fresh_answers + mine.fresh_answers;
    v.capacity = r.what.capacity;
    const std::int64_t taken = (mine.kv_held + mine.waiting_blocks).count();
    v.free_blocks = blocks{std::clamp<std::int64_t>(r.room_then - taken, 0, v.capacity.count())};
    v.slo_met = r.slo_met;
    v.role = r.what.role;
    v.from = r.from;
    v.to = r.to;
    if (v.role == control::role::prefill) {
      v.phi = 1 - (r.others.prefill_flops + mine.prefill_flops) / 1e5;
    } else {
      const blocks stranded = v.free_blocks < 2_blk ? v.free_blocks : 0_blk;
      const auto used = static_cast<double>((v.kv_held + v.waiting_blocks + stranded).count());
      v.phi = v.capacity == 0_blk ? 0 : 1 - used / static_cast<double>(v.capacity.count());
    }
    return v;
  }
  [[nodiscard]] std::vector<replica_id> shown() const {
    bool reports = false;
    for (const auto& [id, r] : all) reports = reports || (r.there && !r.drains && !r.silent && r.epoch != 0);
    std::vector<replica_id> ids;
    for (const auto& [id, r] : all) {
      if (r.there && !r.drains && (!reports || !r.silent)) ids.push_back(id);
    }
    return ids;
  }
  [[nodiscard]] std::size_t moving() const {
    return static_cast<std::size_t>(
        std::count_if(book.begin(), book.end(), [](const auto& e) { return e.second.stands == standing::incoming; }));
  }

  void ask(const key& k) {
    book.at(k).asks = true;
    if (book.at(k).stands != standing::here) return;
    if (std::find(asking.begin(), asking.end(), k) == asking.end()) asking.push_back(k);
  }
  /// In the order in which they came.
  void ask_outgrown(replica_id id) {
    std::map<std::uint64_t, key> by_number;
    for (const auto& [k, h] : book) {
      if (k.second == id && size_of(h) >= all.at(id).to.count()) by_number[h.number] = k;
    }
    for (const auto& [n, k] : by_number) ask(k);
  }
  void forget(const key& k) {
    const held h = book.at(k);
    book.erase(k);
    std::erase(asking, k);
    if (present(h)) leaves(k.second, h);
    if (counts(h)) counts_no_more(k.second, h);
  }
  void settle(const key& k) {
    if (!present(book.at(k))) enters(k.second, book.at(k));
    book.at(k).remain = 0;
    book.at(k).stands = standing::here;
    book.at(k).twin.reset();
    if (book.at(k).asks) ask(k);
  }
  void arrive(const key& k, double now) {
    book.at(k).rests_until = now + 3;
    settle(k);
  }
  bool release(const key& k) {
    if (book.count(k) == 0) return false;
    const held h = book.at(k);
    if (h.twin) h.stands == standing::incoming ? settle({k.first, *h.twin}) : forget({k.first, *h.twin});
    forget(k);
    return true;
  }
  void grow(const key& k, std::int64_t generated) {
    held& h = book.at(k);
    if (generated <= h.generated) return;
    const std::int64_t before = h.started ? size_of(h) : -1;
    h.generated = generated;
    if (!h.started) h.since = all.at(k.second).reports;
    h.started = true;
    const std::int64_t now = size_of(h);
    if (now != before && now >= all.at(k.second).to.count()) ask(k);
  }
  void begin_to_answer(const key& k) {
    held& h = book.at(k);
    if (h.answers) return;
    h.answers = true;
    h.reasoned = h.generated;
    ask(k);
  }
  std::vector<fleet::orphan> fence(replica_id id) {
    std::vector<fleet::orphan> gone;
    for (const auto& [k, h] : std::map<key, held>{book}) {
      if (k.second != id) continue;
      if (h.stands == standing::incoming) {
        if (h.twin) settle({k.first, *h.twin});
      } else {
        gone.push_back({k.first, id, tokens{h.generated}, h.twin.value_or(fleet::no_replica)});
        if (h.twin) book.at({k.first, *h.twin}).twin.reset();
      }
      forget(k);
    }
    all.at(id).there = false;
    all.at(id).silent = false;
    return gone;
  }
  std::set<key> expire(double now) {
    std::set<key> gone;
    while (true) {
      const auto due =
          std::find_if(book.begin(), book.end(), [&](const auto& e) { return now - e.second.heard >= 20; });
      if (due == book.end()) break;
      // The one that was named longest ago. In a tie the order matters only between the ends of a move. The end that is
      // on its way was named when the other was or later.
      auto first = due;
      for (auto i = book.begin(); i != book.end(); ++i) {
        const bool before = i->second.heard < first->second.heard ||
                            (i->second.heard == first->second.heard && i->second.stands == standing::leaving);
        if (now - i->second.heard >= 20 && before) first = i;
      }
      const auto [k, h] = *first;
      if (h.twin && h.stands == standing::leaving) arrive({k.first, *h.twin}, now);
      if (h.twin && h.stands == standing::incoming) settle({k.first, *h.twin});
      forget(k);
      gone.insert(k);
      ++expired;
    }
    for (auto& [id, r] : all) {
      if (r.there && now - r.heard >= 5) r.silent = true;
    }
    return gone;
  }

  template <class Policy>
  std::vector<fleet::move> propose_moves(Policy& policy, double now, std::int64_t tight) {
    std::vector<fleet::move> moves;
    const std::vector<replica_id> ids = shown();
    const auto may = [&] { return moving() < 3 && moves.size() < 4 && book.size() < room; };
    const auto gives = [&](replica_id id) {
      return std::find(ids.begin(), ids.end(), id) != ids.end() && !all.at(id).silent;
    };
    const auto consider = [&](const key& k) {
      held& h = book.at(k);
      const blocks size{size_of(h)};
      const blocks grows{(h.prompt + h.generated + 4) / 4 - size.count()};
      std::vector<view> views;
      for (const replica_id id : ids) {
        const view v = at(id);
        const bool takes = !all.at(id).silent && v.role != control::role::prefill && v.free_blocks >= size &&
                           book.count({k.first, id}) == 0;
        if (id == k.second || takes) views.push_back(v);
      }
      const auto here = std::find_if(views.begin(), views.end(), [&](const view& v) { return v.id == k.second; });
      const auto place = static_cast<std::size_t>(here - views.begin());
      const std::size_t chosen = policy(views, place, grows, size);
      if (chosen >= views.size() || chosen == place) return false;
      const key there{k.first, static_cast<replica_id>(views[chosen].id)};
      moves.push_back({k.first, k.second, there.second, tokens{h.prompt + h.generated}, size});
      std::erase(asking, k);
      h.asks = false;
      h.remain = size_of(h) - shared(h) - frees(k, h);
      h.stands = standing::leaving;
      counts_no_more(k.second, h);
      h.rests_until = now + 3;
      h.heard = now;
      h.twin = there.second;
      held incoming = h;
      incoming.stands = standing::incoming;
      incoming.started = true;
      incoming.cached = 0;
      incoming.remain = 0;
      incoming.has_hit = false;
      incoming.since = all.at(there.second).reports;
      incoming.twin = k.second;
      incoming.number = ++came;
      book[there] = incoming;
      return true;
    };
    for (const key& k : std::vector<key>{asking}) {
      if (!may()) break;
      const held& h = book.at(k);
      if (!h.started || now < h.rests_until || !gives(k.second)) continue;
      std::erase(asking, k);
      book.at(k).asks = false;
      consider(k);
    }
    std::vector<replica_id> turns;
    for (const replica_id id : ids) {
      if (id >= next) turns.push_back(id);
    }
    for (const replica_id id : ids) {
      if (id < next) turns.push_back(id);
    }
    for (const replica_id id : turns) {
      if (tight == 0 || !may()) break;
      if (!gives(id) || at(id).free_blocks >= blocks{tight}) continue;
      std::optional<key> best;
      for (const auto& [k, h] : book) {
        if (k.second != id || h.stands != standing::here || !h.started || now < h.rests_until) continue;
        const auto twice = [&](const key& of) { return size_of(book.at(of)) - frees(of, book.at(of)); };
        if (twice(k) > frees(k, h)) continue;
        if (!best || std::pair{twice(k), size_of(h)} < std::pair{twice(*best), size_of(book.at(*best))}) best = k;
      }
      if (best && consider(*best)) next = id + 1;
    }
    return moves;
  }
};

inline void check_load(const load& a, const load& b) {
  load exact = a;
  exact.prefill_flops = b.prefill_flops;
  REQUIRE(exact == b);
  REQUIRE(a.prefill_flops == tessera_test::approx(b.prefill_flops));
}

inline void check(const ledger& l, const model& m) {
  REQUIRE(l.size() == m.book.size());
  REQUIRE(l.moving() == m.moving());
  REQUIRE(l.expired() == m.expired);
  for (const auto& [r, n] : m.received) REQUIRE(l.received(r) == n);
  const std::vector<replica_id> ids = m.shown();
  const auto shown = l.shown();
  REQUIRE(shown.size() == ids.size());
  for (std::size_t i = 0; i != ids.size(); ++i) REQUIRE(shown[i].id == ids[i]);
  for (const auto& [k, h] : m.book) REQUIRE(l.reserved(k.first, k.second));
  for (const auto& [id, r] : m.all) {
    REQUIRE(l.contains(id) == r.there);
    REQUIRE(l.incarnation(id) == r.incarnation);
    if (!r.there) continue;
    REQUIRE(l.silent(id) == r.silent);
    const view& v = l.at(id);
    const view w = m.at(id);
    REQUIRE(v.id == w.id);
    REQUIRE(v.requests == w.requests);
    REQUIRE(v.kv_held == w.kv_held);
    REQUIRE(v.waiting_blocks == w.waiting_blocks);
    REQUIRE(v.free_blocks == w.free_blocks);
    REQUIRE(v.capacity == w.capacity);
    REQUIRE(v.phi == tessera_test::approx(w.phi));
    REQUIRE((v.from == w.from && v.to == w.to && v.slo_met == w.slo_met && v.role == w.role));
    REQUIRE(v.reasoning == w.reasoning);
    REQUIRE(v.fresh_answers == w.fresh_answers);
    REQUIRE(v.kv_held >= 0_blk);
    REQUIRE(v.waiting_blocks >= 0_blk);
    check_load(l.own(id), m.sum(id, model::present));
    check_load(l.others(id), r.others);
  }
}

}  // namespace tessera_test::fleet_model
