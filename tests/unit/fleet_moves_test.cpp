// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Which requests move in a fleet's ledger, on bad days: no move undoes another, no request is stuck, none is forgotten.

#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/ledger.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/lmetric.hpp>
#include <tessera/placement/migrate_to_headroom.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/placement/stay_in_range.hpp>

#include "support/catch.hpp"
#include "support/ledger_of_alike.hpp"

#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using fleet::replica_id;
using fleet::report;
using fleet::request_id;
using ledger = fleet::ledger<>;

constexpr time_point at(double seconds) { return time_point::at_seconds(seconds); }

struct fixture : tessera_test::ledger_of_alike {
  using ledger_of_alike::ledger_of_alike;
  /// A request that runs, and has `blocks` blocks.
  void runs(request_id request, replica_id where, std::int64_t blocks) {
    REQUIRE(ok(l.reserve(request, where, {.prompt = tokens{16 * blocks - 1}}, at(0))));
    REQUIRE(l.first_token(request, where, at(0)));
  }
  /// Others' requests there.
  void holds(replica_id id, blocks held, blocks waiting = {}) {
    report said{.incarnation = 1, .epoch = ++epoch, .all = {.requests = 1, .kv_held = held, .waiting_blocks = waiting}};
    said.own = l.own(id);
    said.all.requests += said.own->requests;
    said.all.kv_held += said.own->kv_held;
    REQUIRE(l.receive(id, said, at(0)) == fleet::reception::taken);
  }
  template <class Policy>
  std::vector<fleet::move> proposes(Policy& policy, double now = 1) {
    const auto moves = l.propose_moves(policy, at(now));
    return {moves.begin(), moves.end()};
  }

  std::uint64_t epoch = 0;
};

TEST_CASE("fleet moves: with little free beside a demand, no request goes to and fro while loads stand still") {
  fixture f{2, {.rest = 0_s, .tight = 30_blk, .demand = 30_blk}};
  f.runs(0, 0, 2);
  f.runs(1, 0, 2);
  f.holds(0, 67_blk);
  f.holds(1, 69_blk);
  placement::migrate_to_headroom policy;
  std::size_t moves = 0;
  for (int i = 0; i != 1000; ++i) {
    for (const fleet::move& m : f.proposes(policy)) {
      CHECK(f.l.moved(m.request, m.to, at(1)));
      ++moves;
    }
  }
  CHECK(moves <= 2);
}

TEST_CASE("fleet moves: random loads come to rest under both policies, with a demand too") {
  std::mt19937_64 random{11};
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  for (int trial = 0; trial != 100; ++trial) {
    const blocks demand{below(40)};
    const bool by_headroom = below(2) == 0;
    fixture f{4, {.rest = 0_s, .tight = 60_blk, .demand = demand}};
    for (request_id r = 0; r != 24; ++r) {
      const auto where = static_cast<replica_id>(below(4));
      f.runs(r, where, 1 + below(12));
    }
    placement::migrate_to_headroom headroom{.below = 0.6, .gain = 0.02};
    placement::migrate_when_tight tight{.headroom = 60_blk};
    for (int rounds = 0;; ++rounds) {
      REQUIRE(rounds < 300);
      const auto moves = by_headroom ? f.proposes(headroom) : f.proposes(tight);
      if (moves.empty()) break;
      for (const fleet::move& m : moves) CHECK(f.l.moved(m.request, m.to, at(1)));
    }
  }
}

TEST_CASE("fleet moves: the policy chooses among replicas that have room, so none waits for one that has none") {
  fixture f{3, {.tight = 20_blk}};
  for (request_id r = 0; r != 9; ++r) f.runs(r, 0, 10);
  // The second holds nothing yet, but a burst waits there.
  f.holds(1, 0_blk, 100_blk);
  for (request_id r = 20; r != 30; ++r) REQUIRE(ok(f.l.reserve(r, 1, {.prompt = 160_tok}, at(0))));
  placement::migrate_when_tight policy{.headroom = 20_blk};
  const auto moves = f.proposes(policy);
  REQUIRE(moves.size() == 1);
  CHECK(moves[0].to == 2);

  // One that is there already goes to another.
  fixture twice{3, {.tight = 20_blk}};
  for (request_id r = 0; r != 9; ++r) twice.runs(r, 0, 10);
  for (request_id r = 0; r != 9; ++r) REQUIRE(ok(twice.l.reserve(r, 1, {.prompt = 1_tok}, at(0))));
  const auto elsewhere = twice.proposes(policy);
  REQUIRE(elsewhere.size() == 1);
  CHECK(elsewhere[0].to == 2);

  // A stage's least replica is full, another of it is not.
  fixture stage{3};
  stage.l.set_range(0, 0_blk, 4_blk);
  stage.l.set_range(1, 4_blk, fleet::endless);
  stage.l.set_range(2, 4_blk, fleet::endless);
  report full{.incarnation = 1, .epoch = 1, .all = {.requests = 1, .kv_held = 5_blk}};
  full.free = 0_blk;
  CHECK(stage.l.receive(1, full, at(0)) == fleet::reception::taken);
  stage.holds(2, 50_blk);
  stage.runs(1, 0, 5);
  placement::stay_in_range range;
  const auto grown = stage.proposes(range);
  REQUIRE(grown.size() == 1);
  CHECK(grown[0].to == 2);
}

TEST_CASE("fleet moves: one's own requests take of what a replica says is free, whatever it says") {
  fixture f{1};
  for (request_id r = 0; r != 20; ++r) f.runs(r, 0, 4);
  report lie{.incarnation = 1, .epoch = 1, .all = {.requests = 20, .kv_held = 1000_blk}};
  lie.own = fleet::load{.requests = 20, .kv_held = 1000_blk};
  lie.free = 1000_blk;
  CHECK(f.l.receive(0, lie, at(1)) == fleet::reception::taken);
  CHECK(f.l.at(0).free_blocks == 20_blk);
  // What waits is going to take what is free.
  fixture waits{1};
  for (request_id r = 0; r != 9; ++r) REQUIRE(ok(waits.l.reserve(r, 0, {.prompt = 160_tok}, at(0))));
  CHECK(waits.l.at(0).free_blocks == 10_blk);
  report truth{.incarnation = 1, .epoch = 1, .all = {.requests = 9, .waiting_blocks = 90_blk}};
  truth.own = truth.all;
  truth.free = 100_blk;
  CHECK(waits.l.receive(0, truth, at(1)) == fleet::reception::taken);
  CHECK(waits.l.at(0).free_blocks == 10_blk);
  for (request_id r = 0; r != 9; ++r) CHECK(waits.l.first_token(r, 0, at(2)));
  CHECK(waits.l.at(0).free_blocks == 1_blk);
}

TEST_CASE("fleet moves: what happens to a request while it moves is asked about when it is there") {
  fixture f{3};
  placement::stay_in_range policy;
  f.l.set_range(0, 0_blk, 4_blk);
  f.l.set_range(1, 4_blk, 6_blk);
  f.l.set_range(2, 6_blk, fleet::endless);
  f.runs(1, 0, 5);
  auto moves = f.proposes(policy);
  REQUIRE(moves.size() == 1);
  CHECK(moves[0].to == 1);
  CHECK(f.l.progress(1, 0, 40_tok, at(2)));  // 8 blocks by now
  CHECK(f.proposes(policy, 9).empty());
  CHECK(f.l.moved(1, 1, at(10)));
  CHECK(f.proposes(policy, 11).empty());  // it rests from its arrival on
  moves = f.proposes(policy, 13);
  REQUIRE(moves.size() == 1);
  CHECK(moves[0].to == 2);

  // A range that comes when a request has outgrown it.
  fixture late{2};
  late.runs(1, 0, 5);
  late.l.set_range(1, 4_blk, fleet::endless);
  CHECK(late.proposes(policy).empty());
  late.l.set_range(0, 0_blk, 4_blk);
  CHECK(late.proposes(policy).size() == 1);

  // The end of its reasoning.
  fixture reasons{2, {.tight = 20_blk}};
  REQUIRE(ok(reasons.l.reserve(1, 0, {.prompt = 1400_tok, .starts_in = phase::reasoning}, at(0))));
  CHECK(reasons.l.first_token(1, 0, at(0)));
  struct always_away {
    std::size_t operator()(const fleet::candidates<>& c, std::size_t here, blocks, blocks) noexcept {
      ++asked;
      return c.size() - 1 - here;
    }
    std::size_t asked = 0;
  } away;
  REQUIRE(reasons.proposes(away).size() == 1);
  CHECK(away.asked == 1);
  CHECK(reasons.l.answers(1, 0, at(2)));
  CHECK(reasons.l.moved(1, 1, at(3)));
  reasons.holds(1, 0_blk);
  away.asked = 0;
  static_cast<void>(reasons.proposes(away, 6));
  CHECK(away.asked == 1);
}

TEST_CASE("fleet moves: none that decodes goes to where prompts are, or to a replica that changes its role") {
  auto storage = storage_for<ledger>({.replicas = 3});
  ledger l{storage, {.tight = 20_blk}};
  REQUIRE(ok(l.join(0, 1, {.capacity = 100_blk, .role = control::role::decode}, at(0))));
  REQUIRE(ok(l.join(1, 1, {.capacity = 100_blk, .role = control::role::prefill}, at(0))));
  for (const request_id r : {1U, 2U}) {
    REQUIRE(ok(l.reserve(r, 0, {.prompt = 700_tok}, at(0))));
    CHECK(l.first_token(r, 0, at(0)));
  }
  placement::migrate_when_tight tight{.headroom = 20_blk};
  placement::migrate_to_headroom headroom;
  CHECK(l.propose_moves(tight, at(1)).empty());
  CHECK(l.propose_moves(headroom, at(1)).empty());
  REQUIRE(ok(l.join(2, 1, {.capacity = 100_blk, .role = control::role::decode}, at(1))));
  CHECK(l.propose_moves(tight, at(1)).size() == 1);
}

TEST_CASE("fleet moves: tight replicas take turns in giving requests away") {
  fixture f{7, {.rest = 0_s, .moving = 1, .tight = 50_blk}, 512};
  request_id next = 0;
  for (replica_id id = 0; id != 6; ++id) {
    for (int k = 0; k != 30; ++k) f.runs(next++, id, 3);
  }
  placement::migrate_when_tight policy{.headroom = 50_blk};
  std::vector<int> gave(7);
  for (int i = 0; i != 12; ++i) {
    const auto moves = f.proposes(policy);
    REQUIRE(moves.size() == 1);
    ++gave[moves[0].from];
    CHECK(f.l.moved(moves[0].request, moves[0].to, at(1)));
  }
  CHECK(gave == std::vector<int>{2, 2, 2, 2, 2, 2, 0});
}

TEST_CASE("fleet moves: a request that asks once is asked once, and a move that is said twice is one") {
  fixture f{2};
  struct stays {
    std::size_t operator()(const fleet::candidates<>&, std::size_t here, blocks, blocks) noexcept {
      ++asked;
      return here;
    }
    std::size_t asked = 0;
  } policy;
  REQUIRE(ok(f.l.reserve(1, 0, {.prompt = 16_tok, .starts_in = phase::reasoning}, at(0))));
  CHECK(f.l.first_token(1, 0, at(0)));
  for (int k = 0; k != 5; ++k) {
    CHECK(f.l.answers(1, 0, at(1)));
    static_cast<void>(f.proposes(policy));
  }
  CHECK(policy.asked == 1);

  // The second word of a move keeps no request in the book.
  CHECK_FALSE(f.l.moved(1, 0, at(59)));
  f.l.expire(at(61));
  CHECK(f.l.size() == 0);
}

TEST_CASE("fleet moves: a move that is decided late in a lease has all of its own") {
  fixture f{2, {.tight = 20_blk}};
  for (request_id r = 0; r != 9; ++r) f.runs(r, 0, 10);
  placement::migrate_when_tight policy{.headroom = 20_blk};
  for (request_id r = 1; r != 9; ++r) CHECK(f.l.progress(r, 0, 1_tok, at(50)));
  const auto moves = f.proposes(policy, 59);
  REQUIRE(moves.size() == 1);
  CHECK(moves[0].request == 0);
  f.l.expire(at(61));
  CHECK(f.l.reserved(0, 0));
  CHECK(f.l.reserved(0, 1));
}

TEST_CASE("fleet moves: no rest ends where rest is for ever, on any clock") {
  using coarse = nanoseconds_clock;
  auto storage = storage_for<fleet::ledger<coarse>>({.replicas = 2});
  fleet::ledger<coarse> l{storage, {.rest = basic_duration<coarse>::forever(), .tight = 20_blk}};
  const auto then = [](double s) { return basic_time_point<coarse>::at_seconds(s); };
  for (replica_id id = 0; id != 2; ++id) REQUIRE(ok(l.join(id, 1, {.capacity = 100_blk}, then(0))));
  for (request_id r = 0; r != 9; ++r) {
    REQUIRE(ok(l.reserve(r, 0, {.prompt = 159_tok}, then(0))));
    CHECK(l.first_token(r, 0, then(0)));
  }
  placement::migrate_when_tight policy{.headroom = 20_blk};
  REQUIRE(l.propose_moves(policy, then(1)).size() == 1);
  CHECK(l.moved(0, 1, then(1)));
  for (replica_id id = 0; id != 2; ++id) {
    report full{.incarnation = 1, .epoch = 1, .all = l.own(id)};
    full.free = id == 0 ? 100_blk : 0_blk;
    CHECK(l.receive(id, full, then(1)) == fleet::reception::taken);
  }
  CHECK(l.propose_moves(policy, then(2)).empty());
}

TEST_CASE("fleet ledger: numbers from outside that no engine means are refused, or count for what is possible") {
  fixture f{2};
  constexpr std::int64_t greatest = std::numeric_limits<std::int64_t>::max();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  REQUIRE(ok(f.l.reserve(1, 0, {.prompt = 16_tok}, at(0))));
  for (const std::int64_t n : {std::int64_t{1} << 62U, greatest, std::int64_t{1} << 33U}) {
    CHECK_FALSE(f.l.progress(1, 0, tokens{n}, at(0)));
  }
  CHECK(f.l.progress(1, 0, 2_tok, at(0)));
  CHECK(f.l.at(0).kv_held == 2_blk);

  const auto joins = [](const fleet::replica& what) {
    auto storage = storage_for<ledger>({.replicas = 1});
    ledger l{storage};
    return l.join(0, 1, what, at(0));
  };
  CHECK(joins({.capacity = 1_blk}) == status::ok);
  CHECK(joins({}) == status::invalid);
  CHECK(joins({.role = control::role::prefill}) == status::ok);
  CHECK(joins({.capacity = 1_blk, .prefill = {.cost = {.alpha = nan}, .budget = {}}}) == status::invalid);
  CHECK(joins({.capacity = 1_blk, .prefill = {.cost = {.beta = -1}, .budget = {}}}) == status::invalid);
  CHECK(joins({.capacity = 1_blk, .prefill = {.cost = {}, .budget = {.peak_flops = nan}}}) == status::invalid);

  // The last incarnation there can be is one as all others.
  auto storage = storage_for<ledger>({.replicas = 1});
  ledger l{storage};
  constexpr std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  REQUIRE(ok(l.join(0, last, {.capacity = 1_blk}, at(0))));
  CHECK(l.fence(0, last));
  CHECK(l.receive(0, {.incarnation = last, .epoch = 1}, at(1)) == fleet::reception::former);
  CHECK(l.receive(0, {.incarnation = 3, .epoch = 1}, at(1)) == fleet::reception::former);

  // As many requests as a report may say, and a cache that says more than the prompt has.
  fixture many{2};
  report most{.incarnation = 1, .epoch = 1, .all = {.requests = std::size_t{1} << 40U}};
  CHECK(many.l.receive(0, most, at(0)) == fleet::reception::taken);
  placement::lmetric policy;
  const auto cached = [](replica_id) noexcept { return 0_tok; };
  const fleet::prefix<decltype(cached)> of{.prompt = tokens{std::int64_t{1} << 30U}, .cached = cached};
  CHECK(many.l.rank(policy, of).front() == 1);
  struct sees {
    std::size_t operator()(const fleet::candidates<fleet::prefix<tokens (*)(replica_id) noexcept>>& c) noexcept {
      for (std::size_t i = 0; i != c.size(); ++i) fresh.push_back(c[i].new_prefill_tokens);
      return 0;
    }
    std::vector<tokens> fresh{};
  } policy_that_sees;
  const fleet::prefix<tokens (*)(replica_id) noexcept> shorter{
      .prompt = 10_tok, .cached = [](replica_id id) noexcept { return id == 0 ? 99_tok : tokens{-1}; }};
  static_cast<void>(many.l.rank(policy_that_sees, shorter));
  CHECK(policy_that_sees.fresh == std::vector<tokens>{0_tok, 10_tok});
}

}  // namespace
