// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What a fleet's ledger shows of replicas with requests that share prefixes: a shared block counts once.

#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/ledger.hpp>
#include <tessera/placement/least_kv.hpp>
#include <tessera/placement/migrate_to_headroom.hpp>
#include <tessera/placement/migrate_when_tight.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using fleet::load;
using fleet::reception;
using fleet::replica_id;
using fleet::report;
using fleet::request_id;
using ledger = fleet::ledger<>;

constexpr time_point at(double seconds) { return time_point::at_seconds(seconds); }

/// Replicas of 10,000 blocks of 16 tokens.
struct fixture {
  owned_storage<ledger::limits> storage;
  ledger l;
  std::uint64_t epoch = 0;

  explicit fixture(std::size_t replicas, const ledger::settings& s = {})
      : storage{storage_for<ledger>({.replicas = replicas, .reservations = 256})}, l{storage, s} {
    for (replica_id id = 0; id != replicas; ++id) REQUIRE(ok(l.join(id, 1, {.capacity = 10'000_blk}, at(0))));
  }
  /// A request that runs, with 4,096 tokens: 257 blocks with its first own one.
  void runs(request_id request, replica_id id, tokens cached, std::optional<tokens> hit = {},
            tokens prompt = 4096_tok) {
    REQUIRE(ok(l.reserve(request, id, {.prompt = prompt, .cached = cached}, at(1))));
    if (hit) CHECK(l.cache_hit(request, id, *hit, at(1)));
    CHECK(l.first_token(request, id, at(1)));
  }
  void hears(replica_id id, const load& all, std::optional<load> own, std::optional<blocks> free = {}) {
    const report said{.incarnation = 1, .epoch = ++epoch, .all = all, .own = own, .free = free};
    CHECK(l.receive(id, said, at(2)) == reception::taken);
  }
};

TEST_CASE("fleet shared: a common prompt is counted once") {
  // 50 requests with a common prompt of 4,000 tokens hold 550 of 10,000 blocks.
  const bool knows = GENERATE(true, false);
  const bool tells_own = GENERATE(true, false);
  fixture f{2, {.tight = 500_blk}};
  for (request_id r = 0; r != 50; ++r) f.runs(r, 0, knows && r != 0 ? 4000_tok : 0_tok);
  const load all{.requests = 50, .kv_held = 550_blk};
  f.hears(0, all, tells_own ? std::optional{all} : std::nullopt, 9450_blk);
  f.hears(1, {.requests = 50, .kv_held = 3000_blk}, load{}, 7000_blk);
  CHECK(f.l.at(0).kv_held == 550_blk);
  CHECK(f.l.at(0).free_blocks == 9450_blk);
  CHECK(f.l.at(0).phi == tessera_test::approx(0.945));
  CHECK(f.l.at(1).kv_held == 3000_blk);
  CHECK(f.l.at(1).free_blocks == 7000_blk);
  placement::least_kv policy;
  CHECK(f.l.rank(policy).front() == 0);
  placement::migrate_to_headroom headroom;
  placement::migrate_when_tight tight{.headroom = 500_blk};
  CHECK(f.l.propose_moves(headroom, at(10)).empty());
  CHECK(f.l.propose_moves(tight, at(10)).empty());

  // A request that comes now adds its remainder, and frees it again.
  f.runs(50, 0, 4000_tok);
  CHECK(f.l.at(0).kv_held == 557_blk);
  CHECK(f.l.at(0).free_blocks == 9443_blk);
  CHECK(f.l.release(50, 0));
  CHECK(f.l.at(0).kv_held == 550_blk);
  // None that ends takes the others' prompt with it.
  for (request_id r = 0; r != 49; ++r) CHECK(f.l.release(r, 0));
  CHECK(f.l.at(0).kv_held >= 256_blk);
  // With the last one it may be free: the next report says so.
  CHECK(f.l.release(49, 0));
  CHECK(f.l.at(0).kv_held <= 550_blk);
  f.hears(0, {}, tells_own ? std::optional{load{}} : std::nullopt, 10'000_blk);
  CHECK(f.l.at(0).kv_held == 0_blk);
  CHECK(f.l.at(0).free_blocks == 10'000_blk);
}

TEST_CASE("fleet shared: another router's blocks are seen without `own`") {
  // 50 requests share a prompt, as above; another router's 50 have 5,000 blocks.
  const bool knows = GENERATE(true, false);
  const bool was_asked = GENERATE(true, false);
  fixture f{1};
  for (request_id r = 0; r != 50; ++r) f.runs(r, 0, knows ? 4000_tok : 0_tok);
  for (int i = 0; i != 3; ++i) {
    if (was_asked) f.l.asked(0);
    f.hears(0, {.requests = 100, .kv_held = 5550_blk}, {}, 4450_blk);
    CHECK(f.l.at(0).kv_held == 5550_blk);
    CHECK(f.l.at(0).free_blocks == 4450_blk);
    CHECK(f.l.at(0).requests == 100);
    // The common prompt is one of the two routers': 250 blocks.
    CHECK(f.l.others(0).kv_held >= 4750_blk);
    CHECK(f.l.others(0).kv_held <= 5450_blk);
  }
  for (request_id r = 0; r != 50; ++r) CHECK(f.l.release(r, 0));
  CHECK(f.l.at(0).kv_held >= 4750_blk);
  CHECK(f.l.at(0).kv_held <= 5450_blk);
  f.l.asked(0);
  f.hears(0, {.requests = 50, .kv_held = 5000_blk}, {}, 5000_blk);
  CHECK(f.l.others(0).kv_held == 5000_blk);
  CHECK(f.l.at(0).kv_held == 5000_blk);
  CHECK(f.l.at(0).free_blocks == 5000_blk);
}

TEST_CASE("fleet shared: one's own book alone counts each block once") {
  // No report ever comes. The oracle counts each block of a prompt by name, and answers by their lengths.
  fixture f{1};
  std::map<std::pair<std::uint64_t, std::int64_t>, int> named;  // (which prompt, which block)
  std::int64_t answers = 0;
  const auto truth = [&] { return blocks{static_cast<std::int64_t>(named.size()) + answers}; };
  const auto comes = [&](request_id r, std::uint64_t prompt, std::int64_t shared) {
    // The first `shared` blocks are those of a prompt that many have, the other blocks of 256 are its own.
    for (std::int64_t i = 0; i != 256; ++i) ++named[{i < shared ? prompt : 1000 + r, i}];
    answers += 1;
  };
  const auto goes = [&](request_id r, std::uint64_t prompt, std::int64_t shared) {
    for (std::int64_t i = 0; i != 256; ++i) {
      const auto block = named.find({i < shared ? prompt : 1000 + r, i});
      if (--block->second == 0) named.erase(block);
    }
    answers -= 1;
  };
  for (request_id r = 0; r != 20; ++r) {
    f.runs(r, 0, 0_tok, r == 0 ? 0_tok : 4000_tok);
    comes(r, 7, 250);
    CHECK(f.l.at(0).kv_held == truth());
  }
  CHECK(f.l.at(0).kv_held == blocks{257 + 19 * 7});
  // The request that computed the prompt ends first.
  for (request_id r = 0; r != 20; ++r) {
    CHECK(f.l.release(r, 0));
    goes(r, 7, 250);
    CHECK(f.l.at(0).kv_held == truth());
  }
  CHECK(f.l.at(0).kv_held == 0_blk);
  // It was in the cache, and none of these computed it.
  f.runs(30, 0, 4000_tok);
  comes(30, 7, 250);
  CHECK(f.l.at(0).kv_held == truth());
  CHECK(f.l.at(0).free_blocks == 10'000_blk - truth());
  CHECK(f.l.own(0).kv_held == 7_blk);
}

TEST_CASE("fleet shared: what the engine has found counts, not what was expected") {
  fixture f{1};
  f.runs(1, 0, 0_tok, 0_tok);
  f.runs(2, 0, 4000_tok);
  CHECK(f.l.at(0).kv_held == 264_blk);
  CHECK(f.l.cache_hit(2, 0, 0_tok, at(2)));  // it had been evicted
  CHECK(f.l.at(0).kv_held == 514_blk);
  CHECK(f.l.cache_hit(2, 0, 99'999_tok, at(2)));  // not more than its prompt but the last token
  CHECK(f.l.at(0).kv_held == 259_blk);
  CHECK_FALSE(f.l.cache_hit(3, 0, 0_tok, at(2)));
  // While it waits, what it needs and what is left of its prompt follow.
  REQUIRE(ok(f.l.reserve(4, 0, {.prompt = 4096_tok}, at(2))));
  CHECK(f.l.at(0).waiting_blocks == 256_blk);
  CHECK(f.l.cache_hit(4, 0, 4000_tok, at(2)));
  CHECK(f.l.at(0).waiting_blocks == 6_blk);
  // What it found names it for its lease.
  f.l.expire(at(61.5));
  CHECK_FALSE(f.l.reserved(1, 0));
  CHECK(f.l.reserved(4, 0));
}

TEST_CASE("fleet shared: a report that does not know one's own requests yet takes nothing off") {
  const bool tells_own = GENERATE(true, false);
  fixture f{1};
  for (request_id r = 0; r != 5; ++r) f.runs(r, 0, 0_tok);
  // It was made before they came.
  f.hears(0, {}, tells_own ? std::optional{load{}} : std::nullopt, 10'000_blk);
  CHECK(f.l.at(0).kv_held == blocks{5 * 257});
  // They waited when it was made, and run by now.
  const load waited{.requests = 5, .waiting_blocks = blocks{5 * 256}};
  if (tells_own) {
    f.hears(0, waited, waited, 10'000_blk);
    CHECK(f.l.at(0).kv_held + f.l.at(0).waiting_blocks >= blocks{5 * 256});
  }
}

TEST_CASE("fleet shared: no replica talks a router out of what its requests hold for certain") {
  fixture f{1};
  for (request_id r = 0; r != 5; ++r) f.runs(r, 0, 0_tok, r == 0 ? 0_tok : 4000_tok);
  // 257 of the first, 7 of each other; it says that it has the requests, and no blocks.
  for (const bool tells_own : {true, false}) {
    f.hears(0, {.requests = 5}, tells_own ? std::optional{load{.requests = 5}} : std::nullopt, 10'000_blk);
    CHECK(f.l.at(0).kv_held == blocks{257 + 4 * 7});
    CHECK(f.l.at(0).free_blocks == blocks{10'000 - 257 - 4 * 7});
  }
  // Where no hit was said: their answers, and the last blocks of their prompts.
  fixture unknown{1};
  for (request_id r = 0; r != 5; ++r) unknown.runs(r, 0, 0_tok);
  unknown.hears(0, {.requests = 5}, {}, 10'000_blk);
  CHECK(unknown.l.at(0).kv_held == blocks{5 * 2});
}

TEST_CASE("fleet shared: a move frees what no other request shares, and one that frees too little is not proposed") {
  fixture f{2, {.tight = 9900_blk}};
  placement::migrate_when_tight policy{.headroom = 9900_blk};
  // They share all but 7 blocks: the first as well, though it computed them.
  for (request_id r = 0; r != 5; ++r) f.runs(r, 0, 0_tok, r == 0 ? 0_tok : 4000_tok);
  CHECK(f.l.at(0).free_blocks == blocks{10'000 - 257 - 4 * 7});
  CHECK(f.l.propose_moves(policy, at(10)).empty());
  // One with a long answer frees that.
  CHECK(f.l.progress(3, 0, 5000_tok, at(10)));
  const auto moves = f.l.propose_moves(policy, at(10));
  REQUIRE(moves.size() == 1);
  CHECK(moves[0] == fleet::move{3, 0, 1, 9096_tok, 569_blk});
  // The prompt stays where the others are, and its copy is whole.
  CHECK(f.l.at(0).kv_held == blocks{257 + 3 * 7});
  CHECK(f.l.at(1).kv_held == 569_blk);
  CHECK(f.l.moved(3, 1, at(11)));
  CHECK(f.l.at(0).kv_held == blocks{257 + 3 * 7});
  CHECK(f.l.own(0).kv_held == blocks{257 + 3 * 7});
  // One that shares nothing goes before a smaller one that does.
  fixture mixed{2, {.tight = 9900_blk}};
  for (request_id r = 0; r != 5; ++r) mixed.runs(r, 0, 0_tok, r == 0 ? 0_tok : 4000_tok);
  mixed.runs(9, 0, 0_tok, 0_tok, 16'000_tok);
  const auto first = mixed.l.propose_moves(policy, at(10));
  REQUIRE(first.size() == 1);
  CHECK(first[0].request == 9);
  // It might have computed the common prompt, for all that is known: what is shared stays.
  CHECK(mixed.l.at(0).kv_held == blocks{257 + 4 * 7 + 250});
  CHECK(mixed.l.release(9, 1));
  CHECK(mixed.l.at(0).kv_held >= blocks{257 + 4 * 7 + 1001});
}

/// A sequence of calls, and what is shown after each: the same rows are fed to the Python book.
constexpr const char* rows =
#include "support/fleet_rows.inc"
    ;

TEST_CASE("fleet shared: a sequence of calls by hand, as Python's book is fed") {
  auto storage = storage_for<ledger>({.replicas = 2, .reservations = 64});
  ledger l{storage, {.rest = 0_s, .tight = 20_blk}};
  placement::migrate_when_tight policy{.headroom = 20_blk};
  std::istringstream lines{rows};
  std::size_t n = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words{line};
    std::string what;
    if (!(words >> what)) continue;
    CAPTURE(line);
    ++n;
    std::vector<std::int64_t> x;
    for (std::int64_t i = 0; words >> i;) x.push_back(i);
    const auto id = static_cast<replica_id>(x[0]);
    const auto request = static_cast<request_id>(x.size() > 1 ? x[1] : 0);
    if (what == "join") {
      REQUIRE(ok(l.join(id, 1, {.capacity = blocks{x[1]}}, at(0))));
    } else if (what == "reserve") {
      REQUIRE(ok(l.reserve(request, id, {.prompt = tokens{x[2]}, .cached = tokens{x[3]}}, at(1))));
    } else if (what == "hit") {
      CHECK(l.cache_hit(request, id, tokens{x[2]}, at(1)));
    } else if (what == "progress") {
      CHECK(l.progress(request, id, tokens{x[2]}, at(1)));
    } else if (what == "release") {
      CHECK(l.release(request, id));
    } else if (what == "asked") {
      l.asked(id);
    } else if (what == "report") {
      // Replica, epoch, reception; then all (requests, held, waiting), free, and own (the same three, if it says so).
      report said{.incarnation = 1, .epoch = static_cast<std::uint64_t>(x[1])};
      const auto some = [&](std::size_t i) {
        return load{.requests = static_cast<std::size_t>(x[i]),
                    .kv_held = blocks{x[i + 1]},
                    .waiting_blocks = blocks{x[i + 2]}};
      };
      said.all = some(3);
      said.free = blocks{x[6]};
      if (x.size() > 7) said.own = some(7);
      CHECK(static_cast<std::int64_t>(l.receive(id, said, at(1))) == x[2]);
    } else if (what == "moves") {
      // From, and the request that moves to the other one; none if that is missing.
      const auto moves = l.propose_moves(policy, at(2));
      REQUIRE(moves.size() == x.size() - 1);
      for (std::size_t i = 0; i != moves.size(); ++i) {
        CHECK(moves[i].request == request);
        CHECK(moves[i].from == id);
      }
    } else if (what == "moved") {
      CHECK(l.moved(request, id, at(2)));
    } else {
      REQUIRE(what == "view");
      const fleet::view& v = l.at(id);
      CHECK(v.requests == static_cast<std::size_t>(x[1]));
      CHECK(v.kv_held == blocks{x[2]});
      CHECK(v.waiting_blocks == blocks{x[3]});
      CHECK(v.free_blocks == blocks{x[4]});
    }
  }
  CHECK(n > 30);
}

}  // namespace
