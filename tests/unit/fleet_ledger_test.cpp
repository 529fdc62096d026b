// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/ledger.hpp>
#include <tessera/fleet/router_share.hpp>
#include <tessera/placement/join_shortest_queue.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/lmetric.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/placement/pascal.hpp>
#include <tessera/placement/round_robin.hpp>
#include <tessera/placement/stay_in_range.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/ledger_of_alike.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using fleet::reception;
using fleet::replica_id;
using fleet::report;
using ledger = fleet::ledger<>;

constexpr time_point at(double seconds) { return time_point::at_seconds(seconds); }

using fixture = tessera_test::ledger_of_alike;

report of(std::uint64_t epoch, std::size_t requests, blocks held, std::uint64_t incarnation = 1) {
  return {.incarnation = incarnation, .epoch = epoch, .all = {.requests = requests, .kv_held = held}};
}

std::vector<replica_id> listed(std::span<const replica_id> ids) { return {ids.begin(), ids.end()}; }

TEST_CASE("fleet ledger: what is reserved counts at once, and stale reports herd none") {
  fixture f{4};
  placement::join_shortest_queue policy;
  std::vector<int> sent(4);
  for (fleet::request_id r = 0; r != 60; ++r) {
    const replica_id to = f.l.rank(policy).front();
    REQUIRE(ok(f.l.reserve(r, to, {.prompt = 16_tok}, at(0))));
    ++sent[to];
    // The report was made before anything came.
    f.l.asked(to);
    report old = of(r + 1, 0, 0_blk);
    old.own = fleet::load{};
    CHECK(f.l.receive(to, old, at(0)) == reception::taken);
  }
  CHECK(sent == std::vector<int>{15, 15, 15, 15});
}

TEST_CASE("fleet ledger: others' load is what was reported less what was one's own") {
  fixture f{1};
  REQUIRE(ok(f.l.reserve(1, 0, {.prompt = 32_tok}, at(0))));
  CHECK(f.l.at(0).waiting_blocks == 2_blk);
  CHECK(f.l.first_token(1, 0, at(1)));
  CHECK(f.l.at(0).kv_held == 3_blk);
  CHECK(f.l.at(0).free_blocks == 97_blk);

  SECTION("as the replica says") {
    report r = of(1, 5, 40_blk);
    r.own = fleet::load{};
    CHECK(f.l.receive(0, r, at(2)) == reception::taken);
    CHECK(f.l.others(0).kv_held == 40_blk);
    CHECK(f.l.at(0).requests == 6);
    CHECK(f.l.at(0).kv_held == 43_blk);
    CHECK(f.l.at(0).free_blocks == 57_blk);
  }
  SECTION("as the book was when the report was asked for") {
    f.l.asked(0);
    REQUIRE(ok(f.l.reserve(2, 0, {.prompt = 160_tok}, at(2))));
    CHECK(f.l.receive(0, of(1, 5, 40_blk), at(3)) == reception::taken);
    CHECK(f.l.others(0).requests == 4);
    CHECK(f.l.others(0).kv_held == 37_blk);
    CHECK(f.l.at(0).requests == 6);
    CHECK(f.l.at(0).free_blocks == 50_blk);
  }
  SECTION("as the book is when it comes") {
    REQUIRE(ok(f.l.reserve(2, 0, {.prompt = 160_tok}, at(2))));
    CHECK(f.l.receive(0, of(1, 5, 40_blk), at(3)) == reception::taken);
    CHECK(f.l.others(0).requests == 3);
  }
  SECTION("never less than nothing: a replica that lies is not believed about one's own") {
    CHECK(f.l.receive(0, of(1, 0, 0_blk), at(2)) == reception::taken);
    CHECK(f.l.at(0).requests == 1);
    CHECK(f.l.at(0).kv_held == 3_blk);
  }
  CHECK(f.l.release(1, 0));
  CHECK_FALSE(f.l.release(1, 0));
}

TEST_CASE("fleet ledger: a report that is late, doubled, reordered, malformed, or of a former life") {
  fixture f{2};
  CHECK(f.l.receive(0, of(2, 5, 10_blk), at(1)) == reception::taken);
  CHECK(f.l.receive(0, of(2, 9, 90_blk), at(1)) == reception::doubled);
  CHECK(f.l.receive(0, of(1, 9, 90_blk), at(1)) == reception::late);
  CHECK(f.l.receive(0, of(7, 9, 90_blk, 2), at(1)) == reception::unknown);
  CHECK(f.l.receive(9, of(7, 9, 90_blk), at(1)) == reception::unknown);
  CHECK(f.l.receive(0, of(7, 9, blocks{-1}), at(1)) == reception::malformed);
  CHECK(f.l.receive(0, of(7, 9, blocks{std::int64_t{1} << 50U}), at(1)) == reception::malformed);
  CHECK(f.l.at(0).requests == 5);
  CHECK(f.l.fence(0, 1));
  CHECK(f.l.receive(0, of(8, 9, 90_blk), at(1)) == reception::former);
  CHECK(f.l.join(0, 1, {.capacity = 100_blk}, at(1)) == status::refused);
  CHECK(ok(f.l.join(0, 2, {.capacity = 100_blk}, at(1))));
  CHECK(f.l.join(0, 3, {.capacity = 100_blk}, at(1)) == status::busy);
  CHECK(f.l.receive(0, of(9, 9, 90_blk), at(1)) == reception::former);
  CHECK(f.l.receive(0, of(1, 3, 10_blk, 2), at(1)) == reception::taken);
  CHECK(f.l.at(0).requests == 3);
  CHECK(f.l.received(reception::taken) == 2);
  CHECK(f.l.received(reception::doubled) == 1);
  CHECK(f.l.received(reception::late) == 1);
  CHECK(f.l.received(reception::former) == 2);
  CHECK(f.l.received(reception::unknown) == 2);
  CHECK(f.l.received(reception::malformed) == 2);
}

TEST_CASE("fleet ledger: a replica that is silent is not chosen, unless all are") {
  fixture f{3, {.silence = 5_s}};
  placement::join_shortest_queue policy;
  CHECK(f.l.receive(1, of(1, 50, 10_blk), at(4)) == reception::taken);
  f.l.expire(at(6));
  CHECK(f.l.silent(0));
  CHECK(listed(f.l.rank(policy, 3)) == std::vector<replica_id>{1});
  f.l.expire(at(60));
  CHECK(f.l.rank(policy, 3).size() == 3);
  CHECK(f.l.receive(2, of(1, 70, 10_blk), at(61)) == reception::taken);
  CHECK(listed(f.l.rank(policy, 3)) == std::vector<replica_id>{2});
  CHECK(f.l.receive(0, of(1, 1, 10_blk), at(61)) == reception::taken);
  CHECK(listed(f.l.rank(policy, 3)) == std::vector<replica_id>{0, 2});
  CHECK(f.l.lost(0, 1));
  CHECK_FALSE(f.l.lost(0, 2));
  CHECK(listed(f.l.rank(policy, 3)) == std::vector<replica_id>{2});
}

TEST_CASE("fleet ledger: a replica that joins while none reports is one among the others") {
  fixture f{4, {.silence = 5_s}};
  placement::join_shortest_queue policy;
  CHECK(f.l.fence(3, 1));
  f.l.expire(at(6));
  REQUIRE(ok(f.l.join(3, 2, {.capacity = 100_blk}, at(6))));
  CHECK(f.l.rank(policy, 4).size() == 4);
  // With the first report silence means something.
  CHECK(f.l.receive(3, of(1, 0, 0_blk, 2), at(7)) == reception::taken);
  CHECK(listed(f.l.rank(policy, 4)) == std::vector<replica_id>{3});
  CHECK(f.l.receive(1, of(1, 1, 10_blk), at(7)) == reception::taken);
  CHECK(listed(f.l.rank(policy, 4)) == std::vector<replica_id>{3, 1});
  // A replica that joins then gets requests before it has reported, but not for long.
  CHECK(f.l.fence(0, 1));
  REQUIRE(ok(f.l.join(0, 2, {.capacity = 100_blk}, at(8))));
  CHECK(f.l.rank(policy, 4).size() == 3);
  CHECK(f.l.receive(1, of(2, 1, 10_blk), at(12)) == reception::taken);
  f.l.expire(at(13));
  CHECK(listed(f.l.rank(policy, 4)) == std::vector<replica_id>{1});
  // Reports break, and a replica joins.
  f.l.expire(at(20));
  CHECK(f.l.fence(2, 1));
  REQUIRE(ok(f.l.join(2, 2, {.capacity = 100_blk}, at(20))));
  CHECK(f.l.rank(policy, 4).size() == 4);
}

TEST_CASE("fleet ledger: a replica that drains keeps what it has and gets nothing") {
  fixture f{2};
  placement::join_shortest_queue policy;
  REQUIRE(ok(f.l.reserve(1, 0, {.prompt = 16_tok}, at(0))));
  CHECK(f.l.drain(0));
  CHECK(listed(f.l.rank(policy, 2)) == std::vector<replica_id>{1});
  CHECK(f.l.reserve(2, 0, {.prompt = 16_tok}, at(0)) == status::refused);
  CHECK(f.l.progress(1, 0, 9_tok, at(1)));
  CHECK(f.l.release(1, 0));
  CHECK(f.l.own(0) == fleet::load{});
}

TEST_CASE("fleet ledger: what a dead replica had is told, and is in no book any more") {
  fixture f{3, {.tight = 100_blk}};
  placement::migrate_when_tight policy{.headroom = 100_blk};
  REQUIRE(ok(f.l.reserve(1, 0, {.prompt = 64_tok}, at(0))));
  REQUIRE(ok(f.l.reserve(2, 0, {.prompt = 320_tok}, at(0))));
  CHECK(f.l.progress(1, 0, 7_tok, at(1)));
  CHECK(f.l.first_token(2, 0, at(1)));
  const auto moves = f.l.propose_moves(policy, at(1));
  REQUIRE(moves.size() == 1);
  CHECK(moves[0] == fleet::move{1, 0, 1, 71_tok, 5_blk});
  SECTION("the source dies: the room at the destination is kept until somebody says what became of it") {
    std::vector<fleet::orphan> gone;
    CHECK(f.l.fence(0, 1, [&](const fleet::orphan& o) { gone.push_back(o); }));
    CHECK(gone == std::vector<fleet::orphan>{{1, 0, 7_tok, 1}, {2, 0, 1_tok, fleet::no_replica}});
    CHECK(f.l.moving() == 1);
    SECTION("all of it had come") { CHECK(f.l.moved(1, 1, at(2))); }
    SECTION("it had not") { CHECK(f.l.release(1, 1)); }
    CHECK(f.l.moving() == 0);
    CHECK_FALSE(f.l.moved(1, 1, at(2)));
  }
  SECTION("the destination dies: it goes on where it is, and nobody has to be told") {
    CHECK(f.l.fence(1, 1, [](const fleet::orphan&) { FAIL("nobody was there"); }));
    CHECK(f.l.moving() == 0);
    CHECK(f.l.at(0).kv_held == 26_blk);
  }
}

TEST_CASE("fleet ledger: several choices in order, and one turn for a request however many it is given") {
  fixture f{4};
  placement::round_robin policy;
  for (const replica_id first : {0U, 1U, 2U, 3U, 0U}) {
    std::vector<replica_id> ids = listed(f.l.rank(policy, 9));
    CHECK(ids.front() == first);
    std::sort(ids.begin(), ids.end());
    CHECK(ids == std::vector<replica_id>{0, 1, 2, 3});
  }
  const auto odd = [](const fleet::view& v) noexcept { return v.id % 2 == 1; };
  placement::join_shortest_queue fewest;
  REQUIRE(ok(f.l.reserve(1, 1, {.prompt = 16_tok}, at(0))));
  CHECK(listed(f.l.rank(fewest, 9, odd)) == std::vector<replica_id>{3, 1});
  CHECK(f.l.rank(fewest, 9, [](const fleet::view&) noexcept { return false; }).empty());
  CHECK(f.l.rank(fewest, 0).empty());
  CHECK(listed(f.l.rank(fewest, 9, fleet::router_share{.router = 2, .routers = 3})) == std::vector<replica_id>{2});

  // What each has of the prompt, for a policy that reads it.
  const auto cached = [](replica_id id) noexcept { return tokens{id == 2 ? 60 : 0}; };
  for (replica_id id = 0; id != 4; ++id) REQUIRE(ok(f.l.reserve(9, id, {.prompt = 16_tok}, at(0))));
  placement::lmetric product;
  CHECK(f.l.rank(product, fleet::prefix<decltype(cached)>{100_tok, 7, cached}).front() == 2);
}

TEST_CASE("fleet ledger: a full book and calls that make no sense are values") {
  fixture f{1, {}, 2};
  CHECK(f.l.reserve(1, 0, {.prompt = 8_tok, .cached = 9_tok}, at(0)) == status::invalid);
  CHECK(f.l.reserve(1, 1, {.prompt = 8_tok}, at(0)) == status::refused);
  CHECK(ok(f.l.reserve(1, 0, {.prompt = 8_tok}, at(0))));
  CHECK(f.l.reserve(1, 0, {.prompt = 8_tok}, at(0)) == status::busy);
  CHECK(ok(f.l.reserve(2, 0, {.prompt = 8_tok}, at(0))));
  CHECK(f.l.reserve(3, 0, {.prompt = 8_tok}, at(0)) == status::exhausted);
  CHECK_FALSE(f.l.first_token(3, 0, at(0)));
  CHECK_FALSE(f.l.answers(3, 0, at(0)));
  CHECK_FALSE(f.l.moved(1, 0, at(0)));
  CHECK(f.l.join(1, 1, {.capacity = 1_blk}, at(0)) == status::invalid);
  CHECK(f.l.join(0, 0, {.capacity = 1_blk}, at(0)) == status::invalid);
}

TEST_CASE("fleet ledger: a request that is not named for a lease is given back") {
  fixture f{2, {.lease = 10_s, .silence = 60_s, .tight = 100_blk}};
  REQUIRE(ok(f.l.reserve(1, 0, {.prompt = 16_tok}, at(0))));
  REQUIRE(ok(f.l.reserve(2, 0, {.prompt = 16_tok}, at(0))));
  CHECK(f.l.progress(1, 0, 0_tok, at(9)));
  std::vector<fleet::request_id> gone;
  f.l.expire(at(10), [&](fleet::request_id r, replica_id) { gone.push_back(r); });
  CHECK(gone == std::vector<fleet::request_id>{2});
  CHECK(f.l.at(0).requests == 1);
  SECTION("a move that lasts longer is off") {
    placement::migrate_when_tight policy{.headroom = 100_blk};
    CHECK(f.l.progress(1, 0, 1_tok, at(11)));
    REQUIRE(f.l.propose_moves(policy, at(11)).empty());  // the other would hold as much: nothing is gained
    REQUIRE(ok(f.l.reserve(3, 0, {.prompt = 160_tok}, at(11))));
    CHECK(f.l.first_token(3, 0, at(11)));
    REQUIRE(f.l.propose_moves(policy, at(11)).size() == 1);
    CHECK(f.l.progress(1, 0, 2_tok, at(20)));
    f.l.expire(at(21));
    CHECK(f.l.moving() == 0);
    CHECK(f.l.reserved(1, 0));
    CHECK_FALSE(f.l.reserved(1, 1));
  }
  f.l.expire(at(40));
  CHECK(f.l.size() == 0);
  CHECK(f.l.expired() >= 2);
}

TEST_CASE("fleet ledger: a request that has ended its reasoning answers where PASCAL says") {
  fixture f{2};
  placement::pascal_migrate_adaptively policy;
  for (fleet::request_id r = 0; r != 4; ++r) {
    REQUIRE(ok(f.l.reserve(r, 0, {.prompt = 16_tok, .starts_in = phase::reasoning}, at(0))));
    CHECK(f.l.progress(r, 0, 40_tok, at(1)));
  }
  CHECK(f.l.propose_moves(policy, at(1)).empty());  // no request has asked
  CHECK(f.l.answers(2, 0, at(2)));
  CHECK(f.l.answers(2, 0, at(2)));
  CHECK(f.l.at(0).fresh_answers == 1);
  const auto moves = f.l.propose_moves(policy, at(2));
  REQUIRE(moves.size() == 1);
  CHECK(moves[0] == fleet::move{2, 0, 1, 56_tok, 4_blk});
  CHECK(f.l.at(0).requests == 3);
  CHECK(f.l.at(1).requests == 1);
  CHECK(f.l.own(0).requests == 4);
  CHECK(f.l.progress(2, 0, 60_tok, at(3)));
  CHECK(f.l.at(1).kv_held == 5_blk);  // its room grows with it
  CHECK(f.l.moved(2, 1, at(3)));
  CHECK_FALSE(f.l.release(2, 0));
  CHECK(f.l.own(0).requests == 3);
  CHECK(f.l.propose_moves(policy, at(9)).empty());  // it was asked once
}

TEST_CASE("fleet ledger: a request that outgrows the range of its replica goes to the next") {
  fixture f{3};
  f.l.set_range(0, 0_blk, 4_blk);
  f.l.set_range(1, 4_blk, fleet::endless);
  f.l.set_range(2, 4_blk, fleet::endless);
  REQUIRE(ok(f.l.reserve(7, 1, {.prompt = 160_tok}, at(0))));
  CHECK(f.l.first_token(7, 1, at(0)));
  REQUIRE(ok(f.l.reserve(1, 0, {.prompt = 16_tok}, at(0))));
  placement::stay_in_range policy;
  CHECK(f.l.progress(1, 0, 32_tok, at(1)));
  CHECK(f.l.propose_moves(policy, at(1)).empty());
  CHECK(f.l.progress(1, 0, 33_tok, at(2)));
  const auto moves = f.l.propose_moves(policy, at(2));
  REQUIRE(moves.size() == 1);
  CHECK(moves[0] == fleet::move{1, 0, 2, 49_tok, 4_blk});
  // The stage for an arrival is chosen by the same ranges.
  placement::least_load least;
  const auto serves = [](const fleet::view& v) noexcept { return v.from <= 1_blk && 1_blk < v.to; };
  CHECK(listed(f.l.rank(least, 3, serves)) == std::vector<replica_id>{0});
}

TEST_CASE("fleet ledger: eight requests pinned on one replica spread out, and come to rest") {
  fixture f{2, {.block_size = 16_tok, .rest = 0_s, .tight = 40_blk}};
  for (fleet::request_id r = 0; r != 8; ++r) {
    REQUIRE(ok(f.l.reserve(r, 0, {.prompt = 159_tok}, at(0))));
    CHECK(f.l.first_token(r, 0, at(0)));
  }
  placement::migrate_when_tight policy{.headroom = 40_blk};
  std::size_t moves = 0;
  for (int i = 0; i != 50; ++i) {
    for (const fleet::move& m : f.l.propose_moves(policy, at(1))) {
      CHECK(m.from == 0);
      ++moves;
      CHECK(f.l.moved(m.request, m.to, at(1)));
    }
  }
  CHECK(moves == 2);  // as few as leave 40 blocks free
}

TEST_CASE("fleet ledger: while loads stand still no moves go on for ever, without any rest") {
  std::mt19937_64 random{5};
  for (int trial = 0; trial != 200; ++trial) {
    fixture f{5, {.rest = 0_s, .tight = 60_blk}};
    for (fleet::request_id r = 0; r != 30; ++r) {
      const auto to = static_cast<replica_id>(random() % 5);
      const tokens prompt{static_cast<std::int64_t>(16 + random() % 200)};
      REQUIRE(ok(f.l.reserve(r, to, {.prompt = prompt}, at(0))));
      CHECK(f.l.first_token(r, to, at(0)));
    }
    placement::migrate_when_tight policy{.headroom = 60_blk};
    int rounds = 0;
    for (bool went_on = true; went_on; ++rounds) {
      REQUIRE(rounds < 200);
      const auto moves = f.l.propose_moves(policy, at(1));
      went_on = !moves.empty();
      for (const fleet::move& m : std::vector<fleet::move>{moves.begin(), moves.end()}) {
        CHECK(f.l.moved(m.request, m.to, at(1)));
      }
    }
  }
}

TEST_CASE("fleet ledger: roles follow the pools' freeness") {
  auto storage = storage_for<ledger>({.replicas = 5});
  ledger l{storage};
  const auto join = [&](replica_id id, control::role role, bool elastic) {
    fleet::replica r{.capacity = 100_blk, .role = role, .elastic = elastic};
    r.prefill = {.cost = {.beta = 1}, .budget = {.peak_flops = 1000, .ttft = 1_s}};
    REQUIRE(ok(l.join(id, 1, r, at(0))));
  };
  join(0, control::role::prefill, false);
  join(1, control::role::decode, false);
  join(3, control::role::mixed, true);
  auto memory = storage_for<control::flow_controller>({.workers = 5});
  arena a{memory.memory()};
  control::flow_controller controller{a, memory.limits()};
  CHECK_FALSE(l.propose_roles(controller));
  for (fleet::request_id r = 0; r != 9; ++r) REQUIRE(ok(l.reserve(r, 0, {.prompt = 100_tok}, at(0))));
  CHECK(l.at(0).phi == tessera_test::approx(0.1));
  CHECK(l.at(0).time_phi == l.at(0).phi);
  // One that decodes as well has both: what is left of prompts, and of memory.
  REQUIRE(ok(l.reserve(9, 3, {.prompt = 100_tok, .cached = 20_tok}, at(0))));
  CHECK(l.at(3).time_phi == tessera_test::approx(0.92));
  CHECK(l.at(3).phi == tessera_test::approx(0.93));
  REQUIRE(l.release(9, 3));
  CHECK(l.at(3).time_phi == 1.0);
  const auto change = l.propose_roles(controller);
  REQUIRE(change);
  CHECK(*change == control::role_change{3, control::role::mixed, control::role::prefill});
  CHECK(l.at(3).role == control::role::prefill);
  CHECK_FALSE(l.propose_roles(controller));
  placement::join_shortest_queue policy;
  CHECK(listed(l.rank(policy, 5)) == std::vector<replica_id>{1, 0});  // nothing new while it changes
  CHECK(l.changed_role(3));
  CHECK(l.rank(policy, 5).size() == 3);
  CHECK_FALSE(l.changed_role(3));
}

TEST_CASE("fleet ledger: nothing allocates once it is there") {
  fixture f{8};
  placement::least_load policy;
  placement::migrate_when_tight migration{.headroom = 10_blk};
  const tessera_test::no_allocation guard;
  for (fleet::request_id r = 0; r != 40; ++r) {
    const replica_id to = f.l.rank(policy, 2).front();
    static_cast<void>(f.l.reserve(r, to, {.prompt = 64_tok}, at(0)));
    static_cast<void>(f.l.first_token(r, to, at(1)));
    static_cast<void>(f.l.receive(to, of(r + 1, 3, 9_blk), at(1)));
  }
  static_cast<void>(f.l.propose_moves(migration, at(2)));
  f.l.expire(at(1000));
  CHECK(guard.allocations() == 0);
}

}  // namespace
