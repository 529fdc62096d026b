// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The market over a network that delays, duplicates, reorders, loses and is partitioned, with instances that crash and
// restart. These hold at every event:
// - one owner at most, and nothing lost without a crash;
// - at most three transfers per instance and one out of it;
// - data copied only to blocks that are reserved, every token run exactly once.
//
// When the network has healed everything ends and nothing is left in any table. And the checker finds protocols that
// are wrong.

#include "property/market_world.hpp"

#include "support/catch.hpp"

namespace {

using namespace tessera_test;

#if defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t effort = 1;
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
constexpr std::uint64_t effort = 1;
#  else
constexpr std::uint64_t effort = 5;
#  endif
#else
constexpr std::uint64_t effort = 5;
#endif

struct totals {
  market_world::counts sum;
  std::uint64_t delivered = 0;
  std::uint64_t lost = 0;
};

totals run_seeds(world_options o, std::uint64_t seeds) {
  totals t;
  for (o.seed = 1; o.seed <= seeds; ++o.seed) {
    market_world w{o};
    w.run();
    INFO("seed " << o.seed);
    REQUIRE(w.broken() == "");
    const market_world::counts& c = w.seen();
    t.delivered += w.delivered();
    t.lost += w.lost();
    t.sum.requests += c.requests;
    t.sum.ended += c.ended;
    t.sum.offered += c.offered;
    t.sum.moved += c.moved;
    t.sum.crashes += c.crashes;
    t.sum.resubmitted += c.resubmitted;
    t.sum.unresolved += c.unresolved;
    t.sum.kept += c.kept;
    t.sum.kept_after_grant += c.kept_after_grant;
    t.sum.unsold += c.unsold;
    t.sum.no_blocks += c.no_blocks;
    t.sum.outgrown += c.outgrown;
    t.sum.busy += c.busy;
    t.sum.waits += c.waits;
    t.sum.refused += c.refused;
    t.sum.most_hops = std::max(t.sum.most_hops, c.most_hops);
  }
  REQUIRE(t.sum.ended == t.sum.requests);
  return t;
}

world_options stormy() {
  world_options o;
  o.crashes = 1.5;
  o.partitions = 0.5;
  o.faults = {.loss = 0.2, .duplicate = 0.2, .straggle = 0.2, .latest = 4};
  return o;
}

/// The first seed, up to `seeds`, with which a wrong protocol is found out; what was found is in `what`.
std::uint64_t found_out(mutant wrong, world_options o, std::uint64_t seeds, std::string& what) {
  o.wrong = wrong;
  for (o.seed = 1; o.seed <= seeds; ++o.seed) {
    market_world w{o};
    w.run();
    what = w.broken();
    if (!what.empty()) return o.seed;
  }
  return 0;
}

TEST_CASE("market: a bad network, now and then a crash") {
  const totals t = run_seeds({}, 8 * effort);
  if (effort > 1) CHECK(t.delivered > 1'000'000);
  // What is claimed to work has happened, often.
  CHECK(t.lost * 10 > t.delivered);
  CHECK(t.sum.moved > 500 * effort);
  CHECK(t.sum.busy > 500 * effort);
  CHECK(t.sum.waits > 500 * effort);
  CHECK(t.sum.no_blocks > 50 * effort);
  CHECK(t.sum.kept > 20 * effort);
  CHECK(t.sum.kept_after_grant > effort);
  CHECK(t.sum.unsold > 50 * effort);
  CHECK(t.sum.outgrown > effort);
  CHECK(t.sum.refused > 20 * effort);
  CHECK(t.sum.crashes > effort);
  CHECK(t.sum.most_hops > 5);
}

TEST_CASE("market: many crashes, partitions, and messages that are seconds late") {
  const totals t = run_seeds(stormy(), 8 * effort);
  CHECK(t.sum.crashes > 100 * effort);
  CHECK(t.sum.resubmitted > 500 * effort);
  CHECK(t.sum.unresolved > 5 * effort);
  CHECK(t.sum.moved > 500 * effort);
}

TEST_CASE("market: sixteen instances short of blocks") {
  world_options o;
  o.instances = 16;
  o.arrivals = 60;
  o.capacity = 24;
  o.seconds = 20;
  const totals t = run_seeds(o, 2 * effort);
  CHECK(t.sum.no_blocks > 100 * effort);
  CHECK(t.sum.moved > 100 * effort);
}

TEST_CASE("market: a perfect network moves everything that finds a buyer, and refuses nothing") {
  world_options o;
  o.crashes = 0;
  o.partitions = 0;
  o.faults = {};
  o.can_refuse = false;
  const totals t = run_seeds(o, effort);
  CHECK(t.lost == 0);
  CHECK(t.sum.resubmitted == 0);
  CHECK(t.sum.unresolved == 0);
  CHECK(t.sum.kept_after_grant == 0);
  CHECK(t.sum.moved > 500 * effort);
}

TEST_CASE("market: the same seed gives the same messages") {
  world_options o = stormy();
  o.seed = 5;
  o.seconds = 20;
  market_world a{o};
  market_world b{o};
  a.run();
  b.run();
  CHECK(a.seen().digest == b.seen().digest);
  CHECK(a.delivered() == b.delivered());
  o.seed = 6;
  market_world c{o};
  c.run();
  CHECK(a.seen().digest != c.seen().digest);
}

TEST_CASE("market: a source that resumes after a timeout is found out") {
  std::string what;
  CHECK(found_out(mutant::resume_after_timeout, {}, 10, what) != 0);
  CHECK(what != "");
}
TEST_CASE("market: a target that forgets before the source has heard it is found out") {
  std::string what;
  CHECK(found_out(mutant::forget_without_closed, {}, 10, what) != 0);
  CHECK(what.find("two owners") == 0);
}
TEST_CASE("market: a front end that submits lost requests at once is found out") {
  std::string what;
  CHECK(found_out(mutant::resubmit_at_once, stormy(), 50, what) != 0);
}
TEST_CASE("market: a front end that submits unresolved requests unasked is found out") {
  std::string what;
  CHECK(found_out(mutant::resubmit_unresolved, stormy(), 50, what) != 0);
}
TEST_CASE("market: messages of former incarnations, once taken for current ones, are found out") {
  std::string what;
  CHECK(found_out(mutant::one_incarnation, stormy(), 50, what) != 0);
}

}  // namespace
