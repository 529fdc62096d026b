// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The ledger next to a plain one: maps, sums made anew each time, nothing kept up to date. Random calls in any order,
// as a network and engines that die would make them.

#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/ledger.hpp>
#include <tessera/placement/migrate_to_headroom.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/placement/pascal.hpp>
#include <tessera/placement/stay_in_range.hpp>

#include "property/fleet_ledger_model.hpp"
#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/is_slow.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using fleet::load;
using fleet::reception;
using fleet::replica_id;
using fleet::request_id;
using key = std::pair<request_id, replica_id>;
using ledger = fleet::ledger<>;
using tessera_test::fleet_model::budget;
using tessera_test::fleet_model::check;
using tessera_test::fleet_model::cost;
using tessera_test::fleet_model::model;
using tessera_test::fleet_model::replicas;
using tessera_test::fleet_model::room;
using tessera_test::fleet_model::small_settings;

/// One run of random calls. @param policy decides about moves.
template <class Policy>
void run(std::uint64_t seed, Policy policy, std::int64_t tight) {
  std::mt19937_64 random{seed};
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  auto storage = storage_for<ledger>({.replicas = replicas, .reservations = room, .moves = 4});
  ledger::settings s = small_settings();
  s.tight = blocks{tight};
  ledger l{storage, s};
  model m{s};
  Policy theirs = policy;
  double now = 0;
  request_id next = 1;
  std::map<std::pair<request_id, replica_id>, double> went;  // when, and where to
  const tessera_test::no_allocation guard;
  for (int step = 0; step != 600; ++step) {
    const std::int64_t what = below(100);
    const auto id = static_cast<replica_id>(below(replicas));
    const auto some = static_cast<request_id>(1 + below(next));
    key k{some, id};
    if (below(3) != 0) {  // mostly one that is there
      const tessera_test::allow_allocation scope;
      if (!m.book.empty()) k = std::next(m.book.begin(), below(m.book.size()))->first;
    }
    const tessera_test::no_allocation each;
    std::size_t allocations = 0;
    if (what < 6) {
      const auto incarnation = static_cast<std::uint64_t>(below(4)) + l.incarnation(id);
      fleet::replica r;
      r.capacity = blocks{below(60)};
      r.role = below(4) == 0 ? control::role::prefill : control::role::mixed;
      r.prefill = {.cost = cost, .budget = budget};
      const status answer = l.join(id, incarnation, r, time_point::at_seconds(now));
      allocations = each.allocations();
      const tessera_test::allow_allocation scope;
      model::replica& mine = m.all[id];
      const bool sensible = r.capacity > 0_blk || r.role == control::role::prefill;
      const status expected = incarnation == 0 || !sensible     ? status::invalid
                              : mine.there                      ? status::busy
                              : incarnation <= mine.incarnation ? status::refused
                                                                : status::ok;
      REQUIRE(answer == expected);
      if (ok(answer)) {
        mine = {};
        mine.what = r;
        mine.incarnation = incarnation;
        mine.heard = now;
        mine.there = true;
        mine.room_then = r.capacity.count();
      }
    } else if (what < 8) {
      const bool answer = l.drain(id);
      const tessera_test::allow_allocation scope;
      REQUIRE(answer == m.all[id].there);
      if (answer) m.all[id].drains = true;
    } else if (what < 10) {
      const std::uint64_t incarnation = l.incarnation(id) - static_cast<std::uint64_t>(below(2));
      const bool answer = l.lost(id, incarnation);
      allocations = each.allocations();
      const tessera_test::allow_allocation scope;
      REQUIRE(answer == (m.all[id].there && m.all[id].incarnation == incarnation));
      if (answer) m.all[id].silent = true;
    } else if (what < 13) {
      const std::uint64_t incarnation = l.incarnation(id) - static_cast<std::uint64_t>(below(2));
      fleet::orphan gone[room];
      std::size_t n = 0;
      const bool answer = l.fence(id, incarnation, [&](const fleet::orphan& o) noexcept { gone[n++] = o; });
      allocations = each.allocations();
      const tessera_test::allow_allocation scope;
      REQUIRE(answer == (m.all[id].there && m.all[id].incarnation == incarnation));
      std::vector<fleet::orphan> theirs_gone = answer ? m.fence(id) : std::vector<fleet::orphan>{};
      std::sort(gone, gone + n, [](const auto& a, const auto& b) { return a.request < b.request; });
      REQUIRE(std::vector<fleet::orphan>(gone, gone + n) == theirs_gone);
    } else if (what < 16) {
      l.asked(id);
      const tessera_test::allow_allocation scope;
      if (m.all[id].there) m.all[id].asked = m.as_reported(id);
    } else if (what < 34) {
      // A report: of this or another life, the next one or an old one, exact about what is ours or silent about it.
      fleet::report r;
      const std::int64_t life = below(10);
      r.incarnation = l.incarnation(id) + (life == 0 ? 1 : 0) - (life == 1 && l.incarnation(id) > 0 ? 1 : 0);
      std::uint64_t epoch = 0;
      {
        const tessera_test::allow_allocation scope;
        epoch = m.all[id].epoch;
      }
      const std::int64_t age = below(6);
      r.epoch = age < 4 ? epoch + 1 + static_cast<std::uint64_t>(below(3)) : epoch - (age == 5 && epoch > 0 ? 1 : 0);
      r.all.requests = static_cast<std::size_t>(below(20));
      r.all.kv_held = blocks{below(60)};
      r.all.waiting_blocks = blocks{below(20) - (below(50) == 0 ? 30 : 0)};
      r.all.reasoning = static_cast<std::size_t>(below(9));
      r.all.fresh_answers = static_cast<std::size_t>(below(9));
      r.all.prefill_flops = static_cast<double>(below(1000));
      r.slo_met = below(2) == 0;
      const bool tells_free = below(2) == 0;
      if (tells_free) r.free = blocks{below(60)};
      const bool tells_own = below(2) == 0;
      if (tells_own && l.contains(id)) {
        r.own = l.own(id);
        // Or with fewer blocks, as a replica has that counts shared ones once.
        if (below(3) == 0) r.own->kv_held = blocks{below(static_cast<std::uint64_t>(r.own->kv_held.count()) + 1)};
        if (below(3) == 0) r.all.requests += r.own->requests;
      }
      const reception answer = l.receive(id, r, time_point::at_seconds(now));
      allocations = each.allocations();
      const tessera_test::allow_allocation scope;
      model::replica& mine = m.all[id];
      reception expected = reception::taken;
      if (r.incarnation == 0 || r.epoch == 0 || r.all.waiting_blocks < 0_blk) {
        expected = reception::malformed;
      } else if (r.incarnation < mine.incarnation || (r.incarnation == mine.incarnation && !mine.there)) {
        expected = reception::former;
      } else if (r.incarnation > mine.incarnation) {
        expected = reception::unknown;
      } else if (r.epoch <= mine.epoch) {
        expected = r.epoch == mine.epoch ? reception::doubled : reception::late;
      }
      REQUIRE(answer == expected);
      ++m.received[answer];
      if (answer == reception::taken) {
        const model::then then = mine.asked ? *mine.asked : m.as_reported(id);
        load own = r.own ? *r.own : then.own;
        mine.doubled = std::min(mine.doubled, then.doubtful);
        std::int64_t kept = then.kept;
        const auto above = [](std::int64_t a, std::int64_t b) { return std::max<std::int64_t>(a - b, 0); };
        if ((r.own ? own.requests : r.all.requests) >= then.own.requests) {
          kept = std::min(kept, above(r.all.kv_held.count(), own.kv_held.count()));
          if (mine.of_present.kept == then.kept) mine.of_present.kept = kept;
          const std::int64_t held = then.own.kv_held.count();
          if (r.own) {
            const std::int64_t begun = above(own.waiting_blocks.count(), then.own.waiting_blocks.count());
            mine.doubled = std::min(above(held, own.kv_held.count() + begun), then.doubtful);
          } else {
            mine.doubled = held > r.all.kv_held.count() ? then.doubtful : 0;
          }
        }
        own.kv_held += blocks{kept - (r.own ? 0 : mine.doubled)};
        mine.asked.reset();
        ++mine.reports;
        mine.epoch = r.epoch;
        mine.heard = now;
        mine.silent = false;
        mine.slo_met = r.slo_met;
        mine.others = fleet::without(r.all, own);
        const std::int64_t free =
            std::max<std::int64_t>((r.free ? *r.free : mine.what.capacity - r.all.kv_held).count(), 0);
        const std::int64_t held = std::min(own.kv_held, r.all.kv_held).count();
        mine.room_then = std::min(free + held, mine.what.capacity.count());
      }
    } else if (what < 52) {
      fleet::arrival a;
      a.prompt = tokens{below(40)};
      a.cached = tokens{below(static_cast<std::uint64_t>(a.prompt.count()) + 2)};
      a.starts_in = below(2) == 0 ? phase::reasoning : phase::answering;
      const request_id request = below(8) == 0 ? some : next++;
      const status answer = l.reserve(request, id, a, time_point::at_seconds(now));
      allocations = each.allocations();
      const tessera_test::allow_allocation scope;
      const model::replica& mine = m.all[id];
      const status expected = !mine.there || mine.drains         ? status::refused
                              : a.cached > a.prompt              ? status::invalid
                              : m.book.count({request, id}) != 0 ? status::busy
                              : m.book.size() == room            ? status::exhausted
                                                                 : status::ok;
      REQUIRE(answer == expected);
      if (ok(answer)) {
        model::held h;
        h.number = ++m.came;
        h.heard = now;
        h.prompt = a.prompt.count();
        h.cached = a.cached.count();
        h.answers = a.starts_in == phase::answering;
        m.enters(id, h);
        m.book[{request, id}] = h;
      }
    } else if (what < 68) {
      const bool first = below(3) == 0;
      const std::int64_t generated = first ? 1 : below(30);
      const time_point t = time_point::at_seconds(now);
      const bool answer =
          first ? l.first_token(k.first, k.second, t) : l.progress(k.first, k.second, tokens{generated}, t);
      allocations = each.allocations();
      const tessera_test::allow_allocation scope;
      REQUIRE(answer == (m.book.count(k) != 0));
      if (answer) {
        m.book.at(k).heard = now;
        m.grow(k, generated);
        if (m.book.at(k).twin) m.grow({k.first, *m.book.at(k).twin}, generated);
      }
    } else if (what < 71) {
      const std::int64_t cached = below(30);
      const bool answer = l.cache_hit(k.first, k.second, tokens{cached}, time_point::at_seconds(now));
      allocations = each.allocations();
      const tessera_test::allow_allocation scope;
      REQUIRE(answer == (m.book.count(k) != 0));
      if (answer) {
        m.book.at(k).heard = now;
        m.hit(k, cached);
      }
    } else if (what < 74) {
      const bool answer = l.answers(k.first, k.second, time_point::at_seconds(now));
      allocations = each.allocations();
      const tessera_test::allow_allocation scope;
      REQUIRE(answer == (m.book.count(k) != 0));
      if (answer) {
        m.book.at(k).heard = now;
        m.begin_to_answer(k);
        if (m.book.at(k).twin) m.begin_to_answer({k.first, *m.book.at(k).twin});
      }
    } else if (what < 80) {
      const bool answer = l.release(k.first, k.second);
      allocations = each.allocations();
      const tessera_test::allow_allocation scope;
      REQUIRE(answer == m.release(k));
    } else if (what < 86) {
      const bool answer = l.moved(k.first, k.second, time_point::at_seconds(now));
      allocations = each.allocations();
      const tessera_test::allow_allocation scope;
      const bool was_there = m.book.count(k) != 0;
      REQUIRE(answer == (was_there && m.book.at(k).stands == model::standing::incoming));
      if (answer) {
        const std::optional<replica_id> from = m.book.at(k).twin;
        m.book.at(k).heard = now;
        m.arrive(k, now);
        if (from) m.forget({k.first, *from});
      }
    } else if (what < 89) {
      const std::int64_t from = below(4);
      const std::int64_t to = from + 1 + below(8);
      if (l.contains(id)) {
        l.set_range(id, blocks{from}, blocks{to});
        const tessera_test::allow_allocation scope;
        m.all[id].from = blocks{from};
        m.all[id].to = blocks{to};
        m.ask_outgrown(id);
      }
    } else if (what < 95) {
      const auto moves = l.propose_moves(policy, time_point::at_seconds(now));
      allocations = each.allocations();
      const tessera_test::allow_allocation scope;
      const std::vector<fleet::move> expected = m.propose_moves(theirs, now, tight);
      REQUIRE(std::vector<fleet::move>(moves.begin(), moves.end()) == expected);
      for (const fleet::move& x : moves) {
        // No request goes back within its rest.
        const auto last = went.find({x.request, x.from});
        if (last != went.end()) REQUIRE(now - last->second >= 3);
        went[{x.request, x.to}] = now;
      }
    } else {
      now += static_cast<double>(below(what == 99 ? 12 : 2));
      key gone[room];
      std::size_t n = 0;
      l.expire(time_point::at_seconds(now), [&](request_id r, replica_id at) noexcept { gone[n++] = {r, at}; });
      allocations = each.allocations();
      const tessera_test::allow_allocation scope;
      REQUIRE(std::set<key>(gone, gone + n) == m.expire(now));
      for (const auto& [of, h] : m.book) REQUIRE(now - h.heard < 20);
    }
    REQUIRE(allocations == 0);
    const tessera_test::allow_allocation scope;
    check(l, m);
  }
  // Whatever was left, a lease later the books are at zero.
  l.expire(time_point::at_seconds(now + 20));
  CHECK(l.size() == 0);
  CHECK(l.moving() == 0);
  for (replica_id id = 0; id != replicas; ++id) {
    if (l.contains(id)) CHECK(l.own(id) == load{});
  }
  static_cast<void>(guard);
}

TEST_CASE("a fleet's ledger: as a plain book, whatever comes in whatever order") {
  const std::uint64_t seeds = tessera_test::is_slow ? 15 : 150;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    run(seed, placement::migrate_when_tight{.headroom = 4_blk}, 8);
    run(seed, placement::migrate_to_headroom{.below = 0.5, .gain = 0.05}, 12);
    run(seed, placement::stay_in_range{}, 0);
    run(seed, placement::pascal_migrate_adaptively{.headroom = 2_blk}, 0);
  }
}

}  // namespace
