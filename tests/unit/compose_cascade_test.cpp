// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/cascade.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/round_robin.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;
using member = cascade_instance<partition::by_count>;

const std::vector<partition::stage> three{{.from = 0_tok, .to = 100_tok, .instances = 2},
                                          {.from = 100_tok, .to = 500_tok, .instances = 3},
                                          {.from = 500_tok, .to = partition::unbounded, .instances = 1}};
constexpr stage_map::limits six{.instances = 6, .stages = 3};

/// Writes down which instances it asks, and for what.
struct port {
  std::vector<market::message> sent = [] {
    std::vector<market::message> v;
    v.reserve(256);
    return v;
  }();
  void send(const market::message& m) noexcept { sent.push_back(m); }
  void copy(const market::transfer&) noexcept {}
  void kept(market::request_id) noexcept {}
  void released(market::request_id) noexcept {}
  void unresolved(market::request_id, market::peer) noexcept {}
  void unsold(market::request_id) noexcept {}
  tokens load() noexcept { return {}; }
  blocks idle_blocks() noexcept { return 100_blk; }
  bool reserve(const market::transfer&) noexcept { return true; }
  void discard(const market::transfer&) noexcept {}
  void activate(const market::transfer&) noexcept {}

  /// In rising order.
  std::vector<std::uint32_t> asked(market::request_id r) const {
    std::vector<std::uint32_t> out;
    for (const market::message& m : sent) {
      if (m.kind == market::message_kind::ask && m.request == r) out.push_back(m.to.id);
    }
    std::sort(out.begin(), out.end());
    return out;
  }
};
using ids = std::vector<std::uint32_t>;

struct fixture {
  owned_storage<member::limits> storage;
  member m;
  explicit fixture(std::uint32_t self, const member::config& c = {}, std::size_t offers = 8)
      : storage{storage_for<member>({.instances = 6, .stages = 3, .offers = offers, .purchases = 8})},
        m{storage, three, {self, 1}, c} {}
};

TEST_CASE("stage map: instances are numbered through the stages") {
  auto storage = storage_for<stage_map>(six);
  const stage_map map{storage, three};
  CHECK(map.stages() == 3);
  CHECK(map.instances() == 6);
  CHECK(map.stage(1).first == 2);
  CHECK(map.stage(1).size() == 3);
  for (std::size_t i = 0; i != 6; ++i) CHECK(map.stage_of(i) == (i < 2 ? 0U : i < 5 ? 1U : 2U));
  CHECK(map.range_end(1) == 100_tok);
  CHECK(map.range_end(5) == partition::unbounded);
}

TEST_CASE("stage map: a request goes to the least load of the earliest stage that has its length") {
  auto storage = storage_for<stage_map>(six);
  stage_map map{storage, three};
  CHECK(map.route(0_tok) == 0);
  CHECK(map.route(99_tok) == 1);
  CHECK(map.route(100_tok) == 2);
  CHECK(map.route(100'000_tok) == 5);
  map.sent(0, 10_tok);
  CHECK(map.route(50_tok) == 1);
  CHECK(map.update({0, 5_tok, 100_tok}));  // a report replaces what was counted
  map.sent(1, 7_tok);
  CHECK(map.route(50_tok) == 0);
  // Instances of a stage have ranges of their own: 0 ends at 60, 1 at 100.
  CHECK(map.update({0, 0_tok, 60_tok}));
  CHECK(map.route(59_tok) == 0);
  CHECK(map.route(60_tok) == 1);
  CHECK(map.update({1, 0_tok, 55_tok}));
  CHECK(map.route(60_tok) == 3);
  CHECK(map.stage_for(60_tok) == 1);
  // Nonsense has no effect; the last stage has no end.
  CHECK(!map.update({6, 0_tok, 60_tok}));
  CHECK(!map.update({2, tokens{-1}, 60_tok}));
  CHECK(!map.update({2, 0_tok, 0_tok}));
  CHECK(map.update({5, 9_tok, 60_tok}));
  CHECK(map.range_end(5) == partition::unbounded);
  CHECK(map.load(5) == 9_tok);
  // Only the last stage has no end: or its own would never be reached.
  CHECK(!map.update({2, 3_tok, partition::unbounded}));
  CHECK(map.load(2) == 0_tok);
  CHECK(map.range_end(2) == 500_tok);
  CHECK(map.stage_for(1'000'000_tok) == 2);
}

TEST_CASE("stage map: an impossible report has no effect") {
  const std::array plan{partition::stage{.from = tokens{}, .to = partition::unbounded, .instances = 2}};
  auto storage = storage_for<stage_map>({.instances = 2, .stages = 1});
  stage_map map{storage, plan};
  REQUIRE(map.update({.from = 0, .load = tokens{100}, .range_end = partition::unbounded}));
  for (const std::int64_t load :
       {std::int64_t{-1}, (std::int64_t{1} << 40U) + 1, std::numeric_limits<std::int64_t>::max()}) {
    CHECK_FALSE(map.update({.from = 0, .load = tokens{load}, .range_end = partition::unbounded}));
  }
  CHECK_FALSE(map.update({.from = 2, .load = tokens{1}, .range_end = partition::unbounded}));
  CHECK_FALSE(map.update({.from = 0, .load = tokens{1}, .range_end = tokens{}}));
  CHECK(map.load(0) == tokens{100});
  CHECK(map.route(tokens{5}) == 1);
}

TEST_CASE("stage map: nothing goes to an instance that is not available") {
  auto storage = storage_for<stage_map>(six);
  stage_map map{storage, three};
  for (std::uint32_t i = 0; i != 6; ++i) CHECK(map.update({i, tokens{100 + i}, tokens{i < 2 ? 100 : 500}}));
  CHECK(map.route(50_tok) == 0);
  map.available(0, false);
  CHECK(!map.available(0));
  CHECK(map.available(map.stage(0)) == 1);
  CHECK(map.route(50_tok) == 1);
  map.available(1, false);
  CHECK(map.stage_for(50_tok) == 1);  // the first stage is empty
  CHECK(map.route(50_tok) == 2);
  map.available(0, true);
  CHECK(map.route(50_tok) == 0);
  // The longest of the range of a stage is what the living say.
  CHECK(map.update({4, 0_tok, 700_tok}));
  CHECK(map.stage_for(600_tok) == 1);
  map.available(4, false);
  CHECK(map.stage_for(600_tok) == 2);
  // Without the last stage, long requests go to the latest one that there is.
  map.available(5, false);
  CHECK(map.stage_for(600_tok) == 2);
  CHECK(map.route(600_tok) == 2);
  for (std::size_t i = 1; i != 5; ++i) map.available(i, false);
  CHECK(map.route(600_tok) == 0);
  map.available(0, false);
  CHECK(map.route(600_tok) == map.instances());
}

/// `stage_for` and `route` from their words. The candidates are written down and sorted. Those that are no worse than
/// the first take turns in their stage.
std::size_t routed(const stage_map& map, tokens length, std::vector<std::size_t>& turns) {
  struct option {
    bool covers;
    std::size_t stage;
    tokens load;
    std::size_t id;
  };
  std::vector<option> all;
  for (std::size_t i = 0; i != map.instances(); ++i) {
    if (map.available(i)) all.push_back({length < map.range_end(i), map.stage_of(i), map.load(i), i});
  }
  std::sort(all.begin(), all.end(), [](const option& a, const option& b) {
    if (a.covers != b.covers) return a.covers;
    if (a.stage != b.stage) return a.covers ? a.stage < b.stage : a.stage > b.stage;
    return a.load != b.load ? a.load < b.load : a.id < b.id;
  });
  if (all.empty()) return map.instances();
  const option& best = all.front();
  std::vector<std::size_t> equals;
  for (const option& o : all) {
    if (o.covers == best.covers && o.stage == best.stage && o.load == best.load) equals.push_back(o.id);
  }
  return tessera_test::round_robin(equals, turns[best.stage]);
}

TEST_CASE("stage map: routes as its words say, whichever instances are there") {
  std::mt19937_64 random{1};
  auto storage = storage_for<stage_map>(six);
  stage_map map{storage, three};
  std::vector<std::size_t> turns(3);
  for (int round = 0; round != 5000; ++round) {
    const auto i = static_cast<std::uint32_t>(random() % 6);
    map.available(i, random() % 2 == 0);
    const auto end = static_cast<std::int64_t>(1 + random() % 600);
    static_cast<void>(map.update({i, tokens{static_cast<std::int64_t>(random() % 4)}, tokens{end}}));
    const tokens length{static_cast<std::int64_t>(random() % 700)};
    REQUIRE(map.route(length) == routed(map, length, turns));
  }
  // Stages have turns of their own.
  stage_map idle{storage, three};
  for (int i = 0; i != 30; ++i) {
    CHECK(idle.route(50_tok) == static_cast<std::size_t>(i % 2));
    CHECK(idle.route(200_tok) == static_cast<std::size_t>(2 + i % 3));
  }
}

TEST_CASE("cascade instance: what outgrows the range is offered to the stage that has its length, and nothing else") {
  fixture f{0};
  port p;
  std::vector<market::request_id> offered;
  offered.reserve(8);
  const std::vector<member::candidate> movable{
      {7, 0, 99_tok, 7_blk}, {8, 0, 100_tok, 7_blk}, {9, 0, 600_tok, 38_blk}, {10, 2, 130_tok, 9_blk}};
  std::size_t n = 0;
  {
    const tessera_test::no_allocation guard;
    n = f.m.hand_over(movable, {}, p, [&](const member::candidate& r) { offered.push_back(r.request); });
    CHECK(guard.allocations() == 0);
  }
  CHECK(n == 3);
  CHECK(offered == std::vector<market::request_id>{8, 9, 10});
  CHECK(p.asked(7).empty());
  CHECK(p.asked(8) == ids{2, 3, 4});
  CHECK(p.asked(9) == ids{5});
  CHECK(p.asked(10) == ids{2, 3, 4});
  // The instance that is asked first may answer first: it is another one each time.
  ids first;
  for (market::request_id r = 20; r != 23; ++r) {
    const std::size_t before = p.sent.size();
    const std::vector<member::candidate> one{{r, 0, 130_tok, 9_blk}};
    CHECK(f.m.hand_over(one, {}, p, [](const auto&) {}) == 1);
    first.push_back(p.sent.at(before).to.id);
  }
  std::sort(first.begin(), first.end());
  CHECK(first == ids{2, 3, 4});
  // In the last stage nothing outgrows.
  fixture last{5};
  CHECK(last.m.in_last_stage());
  CHECK(last.m.range_end() == partition::unbounded);
  CHECK(last.m.hand_over(movable, {}, p, [](const auto&) { FAIL(); }) == 0);
  // A full market takes no more: the engine offers the others again.
  fixture small{0, {}, 2};
  CHECK(small.m.hand_over(movable, {}, p, [](const auto&) {}) == 2);
}

TEST_CASE("cascade instance: what has outgrown a range is not offered to it, nor to the dead") {
  fixture f{0};
  port p;
  CHECK(f.m.update({2, 0_tok, 120_tok}));
  const std::vector<member::candidate> one{{1, 0, 150_tok, 10_blk}};
  const std::vector<member::candidate> two{{2, 0, 150_tok, 10_blk}};
  const std::vector<member::candidate> both{{3, 0, 900_tok, 57_blk}, {4, 0, 150_tok, 10_blk}};
  const auto offer = [&](const std::vector<member::candidate>& movable) {
    return f.m.hand_over(movable, {}, p, [](const auto&) {});
  };
  CHECK(offer(one) == 1);
  CHECK(p.asked(1) == ids{3, 4});
  f.m.available(4, false);
  CHECK(offer(two) == 1);
  CHECK(p.asked(2) == ids{3});
  // An offer that no instance takes stays, and holds up nothing.
  f.m.available(5, false);
  CHECK(offer(both) == 1);
  CHECK(p.asked(3).empty());
  CHECK(p.asked(4) == ids{3});
}

TEST_CASE("cascade instance: the dead count for nothing in the mean of the stage, nor in the bounds of a range") {
  fixture f{2};
  port p;
  std::vector<member::candidate> movable{{1, 0, 300_tok, 19_blk}};
  CHECK(f.m.update({3, 1000_tok, 500_tok}));
  CHECK(f.m.update({4, 9000_tok, 500_tok}));
  static_cast<void>(f.m.report(3000_tok));
  const auto rebalance = [&] { return f.m.rebalance(movable, {}, p, [](const auto&) {}); };
  CHECK(rebalance() == 0);
  f.m.available(4, false);
  CHECK(rebalance() == 1);  // 3,000 against a mean of 2,000
  CHECK(p.asked(1) == ids{3});
  f.m.available(3, false);
  fixture alone{2};
  alone.m.available(3, false);
  alone.m.available(4, false);
  static_cast<void>(alone.m.report(3000_tok));
  CHECK(alone.m.rebalance(movable, {}, p, [](const auto&) { FAIL(); }) == 0);

  member::config c;
  c.refinement.smoothing = 1;
  fixture first{0, c};
  const std::vector<cost::request_lengths> requests(12, {0_tok, 900_tok});
  std::vector<cost::request_lengths> scratch(64);
  CHECK(first.m.update({3, 0_tok, 150_tok}));
  CHECK(first.m.refine(requests, requests, scratch));
  CHECK(first.m.range_end() == 149_tok);
  first.m.available(3, false);
  CHECK(first.m.refine(requests, requests, scratch));
  CHECK(first.m.range_end() == 499_tok);
  for (const std::size_t i : {2U, 4U}) first.m.available(i, false);
  CHECK(!first.m.refine(requests, requests, scratch));  // no successor
  fixture second{2, c};
  CHECK(second.m.update({1, 0_tok, 300_tok}));
  const std::vector<cost::request_lengths> little(12, {0_tok, 10_tok});
  CHECK(second.m.refine(little, little, scratch));
  CHECK(second.m.range_end() == 301_tok);
  second.m.available(1, false);
  CHECK(second.m.refine(little, little, scratch));
  CHECK(second.m.range_end() == 101_tok);
}

TEST_CASE("cascade instance: plans for any length are followed") {
  const std::vector<partition::stage> long_ones{{.from = 0_tok, .to = 150'000_tok, .instances = 1},
                                                {.from = 150'000_tok, .to = 300'000_tok, .instances = 1},
                                                {.from = 300'000_tok, .to = partition::unbounded, .instances = 1}};
  member::config c;
  c.refinement.smoothing = 1;
  const auto at = [&](std::uint32_t self, const member::config& config, std::int64_t own, std::int64_t theirs) {
    auto storage = storage_for<member>({.instances = 3, .stages = 3, .offers = 4, .purchases = 4});
    member m{storage, long_ones, {self, 1}, config};
    const std::vector<cost::request_lengths> here(20, {10_tok, tokens{own}});
    const std::vector<cost::request_lengths> there(20, {10_tok, tokens{theirs}});
    std::vector<cost::request_lengths> scratch(40);
    CHECK(m.refine(here, there, scratch));
    return m.range_end();
  };
  CHECK(at(0, c, 290'000, 310'000) == 299'999_tok);
  CHECK(at(1, c, 290'000, 310'000) == 310'000_tok);
  c.longest = 300'000_tok;
  CHECK(at(1, c, 290'000, 310'000) == 300'000_tok);
  // While the neighbours' reports leave no room, the end stays, and the caller is told.
  fixture squeezed{2};
  CHECK(squeezed.m.update({0, 0_tok, 600_tok}));
  member::config tight;
  tight.longest = 550_tok;
  fixture none{2, tight};
  CHECK(none.m.update({0, 0_tok, 600_tok}));
  const std::vector<cost::request_lengths> requests(12, {0_tok, 900_tok});
  std::vector<cost::request_lengths> scratch(64);
  CHECK(!none.m.refine(requests, requests, scratch));
  CHECK(none.m.range_end() == 500_tok);
  CHECK(squeezed.m.refine(requests, requests, scratch));
  CHECK(squeezed.m.range_end() >= 601_tok);
}

TEST_CASE("cascade instance: above 125 % of the mean it sells the longest that are no longer than the excess") {
  fixture f{2};
  port p;
  for (const std::uint32_t i : {3U, 4U}) CHECK(f.m.update({i, 1000_tok, 500_tok}));
  std::vector<member::candidate> movable{
      {1, 0, 900_tok, 57_blk}, {2, 0, 300_tok, 19_blk}, {3, 0, 500_tok, 32_blk}, {4, 0, 300_tok, 19_blk}};
  const auto offers = [&](tokens load) {
    static_cast<void>(f.m.report(load));
    return f.m.rebalance(movable, {}, p, [](const auto&) {});
  };
  CHECK(offers(1428_tok) == 0);  // 1.2497 times the mean
  // 2,200 against a mean of 1,400: 800 above. 900 is too long; 500 leaves 300, which the lower of the two numbers
  // takes.
  CHECK(offers(2200_tok) == 2);
  CHECK(p.asked(3) == ids{3, 4});
  CHECK(p.asked(2) == ids{3, 4});
  CHECK(p.asked(4).empty());
  CHECK(p.asked(1).empty());
  CHECK(offers(2200_tok) == 0);  // all of it is on offer already
  fixture alone{5};
  static_cast<void>(alone.m.report(10'000_tok));
  CHECK(alone.m.rebalance(movable, {}, p, [](const auto&) { FAIL(); }) == 0);
}

TEST_CASE("cascade instance: refinement stays within the neighbours' ranges") {
  member::config c;
  c.refinement.smoothing = 1;
  const auto requests = [](std::int64_t from, std::int64_t step) {
    std::vector<cost::request_lengths> out;
    for (std::int64_t i = 0; i != 12; ++i) out.push_back({0_tok, tokens{from + i * step}});
    return out;
  };
  std::vector<cost::request_lengths> scratch(64);
  {
    fixture f{2, c};  // its range is [100, 500)
    CHECK(f.m.refine(requests(200, 10), requests(400, 10), scratch));
    CHECK(f.m.range_end() == 400_tok);  // twelve on either side
    CHECK(f.m.report(0_tok).range_end == 400_tok);
    CHECK(f.m.map().range_end(2) == 400_tok);
    CHECK(f.m.refine(requests(10, 1), requests(20, 1), scratch));
    CHECK(f.m.range_end() == 101_tok);  // not below where the first stage ends
    CHECK(f.m.update({1, 0_tok, 300_tok}));
    CHECK(f.m.refine(requests(10, 1), requests(20, 1), scratch));
    CHECK(f.m.range_end() == 301_tok);
  }
  fixture first{0, c};
  CHECK(first.m.update({3, 0_tok, 150_tok}));
  CHECK(first.m.refine(requests(900, 10), requests(900, 10), scratch));
  CHECK(first.m.range_end() == 149_tok);  // the tightest of the successors ends at 150
  const std::vector<cost::request_lengths> few(2, {0_tok, 10_tok});
  CHECK(!first.m.refine(few, few, scratch));
  CHECK(first.m.range_end() == 149_tok);
  fixture last{5, c};
  CHECK(!last.m.refine(requests(1, 1), requests(1, 1), scratch));
}

}  // namespace
