// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/cascade.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/told_router.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace {

using namespace tessera;
using tessera_test::lines;
using tessera_test::told;
using by_count = fleet::cascade<partition::by_count>;

fleet::runtime_settings without_rest() {
  fleet::runtime_settings s;
  s.book.lease = s.book.silence = duration{1000};
  s.book.rest = duration{};
  return s;
}

/// Stages of so many instances, that end at these lengths; the last one does not end.
std::vector<partition::stage> stages(const std::vector<std::size_t>& instances, const std::vector<int>& ends) {
  std::vector<partition::stage> all;
  tokens from{};
  for (std::size_t s = 0; s != instances.size(); ++s) {
    const tokens to = s == ends.size() ? partition::unbounded : tokens{ends[s]};
    all.push_back({.from = from, .to = to, .instances = instances[s]});
    from = to;
  }
  return all;
}

/// Replicas of 100 blocks; what they are told.
lines join(told& f, int n) {
  lines all;
  for (int id = 0; id != n; ++id) {
    for (const std::string& line : f("0 joined number=1 capacity=100 replica=" + std::to_string(id))) {
      all.push_back(line);
    }
  }
  return all;
}

const fleet::cascade_limits four{.replicas = 4, .stages = 3, .requests = 16, .transfers = 4};

TEST_CASE("fleet cascade: a new request goes to the least load of the earliest stage that takes it") {
  auto storage = storage_for<by_count>(four);
  const auto plan = stages({2, 1, 1}, {64, 160});
  by_count by{storage, {.stages = plan, .rebalance_s = 0, .refine_s = 0}};
  told f{by, without_rest()};
  CHECK(join(f, 4) == lines{"> set_length_range replica=0 high=4", "> set_length_range replica=1 high=4",
                            "> set_length_range replica=2 low=4 high=10", "> set_length_range replica=3 low=10"});
  CHECK(f("1 arrived request=1 prompt=48") == lines{"> place replica=0 request=1"});
  CHECK(f("1 arrived request=2 prompt=16") == lines{"> place replica=1 request=2"});
  CHECK(f("1 arrived request=3 prompt=16") == lines{"> place replica=1 request=3"});  // 3 blocks and 1
  CHECK(f("1 arrived request=4 prompt=49") == lines{"> place replica=2 request=4"});
  CHECK(f("1 arrived request=5 prompt=500") == lines{"> place replica=3 request=5"});
  CHECK(f("1 arrived request=6 prompt=16") == lines{"> place replica=1 request=6"});
  // Without its stage, the next one; without a stage that takes it, the latest.
  f("2 failed replica=0 number=1");
  f("2 failed replica=1 number=1");
  CHECK(f("2 arrived request=7 prompt=16") == lines{"> place replica=2 request=7"});
  f("2 failed replica=3 number=1");
  CHECK(f("2 arrived request=8 prompt=500") == lines{"> place replica=2 request=8"});
  // One that is back is told anew.
  CHECK(f("3 joined replica=1 number=2 capacity=100") == lines{"> set_length_range replica=1 high=4"});
}

TEST_CASE("fleet cascade: a request that has outgrown its replica is sold to the next stage, one at a time") {
  auto storage = storage_for<by_count>(four);
  const auto plan = stages({1, 3}, {64});
  by_count by{storage, {.stages = plan, .rebalance_s = 0, .refine_s = 0}};
  told f{by, without_rest()};
  join(f, 4);
  f("1 arrived request=1 prompt=40");
  f("1 arrived request=2 prompt=40");
  CHECK(f("1 first_token replica=0 request=1").empty());
  CHECK(f("1 first_token replica=0 request=2").empty());
  CHECK(f("2 progressed replica=0 request=1 count=8").empty());
  CHECK(f("2 progressed replica=0 request=1 count=9") == lines{"> move replica=1 from=0 request=1 how=live"});
  // It sends one at a time, and is asked again as the request grows by a block.
  CHECK(f("3 progressed replica=0 request=2 count=9").empty());
  CHECK(f("4 moved replica=1 request=1").empty());
  CHECK(f("4 progressed replica=0 request=2 count=24").empty());
  // Replica 1 has 4 blocks: it is not in the half with less load.
  CHECK(f("5 progressed replica=0 request=2 count=25") == lines{"> move replica=2 from=0 request=2 how=live"});
  CHECK(f("6 move_failed replica=2 request=2").empty());
  CHECK(f("7 progressed replica=0 request=2 count=41") == lines{"> move replica=3 from=0 request=2 how=live"});
  // Nothing outgrows the last stage.
  CHECK(f("8 moved replica=3 request=2").empty());
  CHECK(f("9 progressed replica=3 request=2 count=400").empty());
}

TEST_CASE("fleet cascade: where loads are alike, the replica that has less on its way to it could start earlier") {
  auto storage = storage_for<by_count>(four);
  const auto plan = stages({1, 3}, {64});
  for (const std::size_t keep : {std::size_t{1}, std::size_t{3}}) {
    by_count by{storage, {.stages = plan, .rebalance_s = 0, .refine_s = 0, .outgoing = 3, .keep = keep}};
    told f{by, without_rest()};
    join(f, 4);
    // By turns of asking alone the first goes to 1, as they are alike.
    f("1 arrived request=1 prompt=40");
    f("1 first_token replica=0 request=1");
    CHECK(f("1 progressed replica=0 request=1 count=9") == lines{"> move replica=1 from=0 request=1 how=live"});
    // 4 blocks each at 2 and 3: all have as much, but 1 is about to receive.
    CHECK(f("2 arrived request=2 prompt=64") == lines{"> place replica=2 request=2"});
    CHECK(f("2 arrived request=3 prompt=64") == lines{"> place replica=3 request=3"});
    f("3 arrived request=4 prompt=40");
    f("3 first_token replica=0 request=4");
    CHECK(f("3 progressed replica=0 request=4 count=9") == lines{"> move replica=2 from=0 request=4 how=live"});
  }
}

TEST_CASE("fleet cascade: a load above the mean of its stage gives the longest request that fits into the excess") {
  auto storage = storage_for<by_count>(four);
  const auto plan = stages({4}, {});
  by_count by{storage, {.stages = plan, .rebalance_s = 2, .refine_s = 0}};
  told f{by, without_rest()};
  join(f, 1);
  for (const char* line : {"0 arrived request=1 prompt=159", "0 arrived request=2 prompt=319",
                           "0 arrived request=3 prompt=479", "1 first_token replica=0 request=1",
                           "1 first_token replica=0 request=2", "1 first_token replica=0 request=3"}) {
    f(line);
  }
  f("1 joined replica=1 number=1 capacity=100");
  // 60 blocks and none: 30 too many, which is request 3.
  CHECK(f("2 clock") == lines{"> move replica=1 from=0 request=3 how=live"});
  CHECK(f("4 clock").empty());
  f("5 moved replica=1 request=3");
  CHECK(f("6 clock").empty());
  // 30 and 45, then 30 and 60: that is 15 too many, and none of replica 1 is so short.
  f("7 arrived request=4 prompt=240");
  CHECK(f("8 clock").empty());
}

TEST_CASE("fleet cascade: boundaries follow the requests, and those that have outgrown them move") {
  auto storage = storage_for<by_count>(four);
  const auto plan = stages({1, 1}, {160});
  by_count by{
      storage,
      {.stages = plan, .refinement = {.smoothing = 1, .fewest = 1}, .rebalance_s = 0, .refine_s = 2, .outgoing = 2}};
  told f{by, without_rest()};
  join(f, 2);
  const std::vector<int> prompts{31, 47, 63, 79};
  for (std::size_t i = 0; i != prompts.size(); ++i) {
    const std::string r = "request=" + std::to_string(i + 1);
    f("0 arrived " + r + " prompt=" + std::to_string(prompts[i]));
    f("1 first_token replica=0 " + r);
  }
  CHECK(by.range_end(0) == blocks{10});
  // As many below 64 as above.
  CHECK(f("2 clock") == lines{"> set_length_range replica=0 high=4", "> set_length_range replica=1 low=4",
                              "> move replica=1 from=0 request=3 how=live",
                              "> move replica=1 from=0 request=4 how=live"});
  CHECK(by.range_end(0) == blocks{4});
  CHECK(f("2 arrived request=5 prompt=60") == lines{"> place replica=1 request=5"});
}

TEST_CASE("fleet cascade: a plan that is made later takes effect") {
  auto storage = storage_for<by_count>(four);
  const auto plan = stages({2, 1}, {64});
  by_count by{storage, {.stages = plan, .rebalance_s = 0, .refine_s = 0}};
  told f{by, without_rest()};
  join(f, 3);
  CHECK(f("1 lays_out replica=0 high=8").empty());
  CHECK(f("1 lays_out replica=1 low=8 high=20").empty());
  CHECK(f("1 lays_out replica=2 low=20").empty());
  CHECK(f("1 planned number=1") == lines{"> set_length_range replica=0 high=8",
                                         "> set_length_range replica=1 low=8 high=20",
                                         "> set_length_range replica=2 low=20"});
  CHECK(f("2 arrived request=1 prompt=112") == lines{"> place replica=0 request=1"});
  CHECK(f("2 arrived request=2 prompt=113") == lines{"> place replica=1 request=2"});
  CHECK(f("2 arrived request=3 prompt=320") == lines{"> place replica=2 request=3"});
  // A layout for no short requests is none.
  f("3 lays_out replica=0 low=8");
  CHECK(f("3 planned number=2") == lines{"> note why=this layout makes no stages"});
  CHECK(by.stage_of(1) == 1);
}

TEST_CASE("fleet cascade: nothing allocates after construction") {
  using quality = fleet::cascade<>;
  auto storage = storage_for<quality>(four);
  const auto plan = stages({2, 2}, {200});
  quality by{storage,
             {.stages = plan,
              .refinement = {.rule = {{{1e-2, 1e-3, 1e-6, 0, 1e-6}}}, .fewest = 1},
              .rebalance_s = 0.5,
              .refine_s = 0.5}};
  told f{by, without_rest()};
  join(f, 4);
  fleet::event e;
  const tessera_test::no_allocation guard;
  for (int i = 0; i != 200; ++i) {
    e = {.at_s = i / 4.0, .what = fleet::event_kind::arrived, .request = static_cast<fleet::request_id>(i % 16)};
    e.asks.prompt = tokens{100 + 10 * (i % 16)};
    f.rt.handle(e);
    for (fleet::replica_id at = 0; at != 4; ++at) {
      e = {.at_s = i / 4.0, .what = fleet::event_kind::progressed, .replica = at, .request = e.request};
      e.count = tokens{i};
      f.rt.handle(e);
    }
  }
  CHECK(guard.allocations() == 0);
}

}  // namespace
