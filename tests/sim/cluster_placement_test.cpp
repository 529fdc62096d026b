// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Where a cluster places requests, and what their moves take.

#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/sim/model/profiles.hpp>

#include "sim/cluster_runs.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"
#include "support/round_robin.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace {

using namespace tessera;
using sim::request;
using sim::request_record;
using sim::run_result;
using sim::trace_row;
using tessera_test::approx;
using tessera_test::row;
using tessera_test::toy_cluster;
using tessera_test::cluster_runs::check_invariants;
using tessera_test::cluster_runs::simulate;

/// Sends every answer from instance 0 to instance 1, and the other way round, and writes down which instances asked.
struct swap_sides {
  std::vector<std::size_t>* asked = nullptr;
  template <placement::instance_views V>
  std::size_t operator()(const V&, std::size_t current, blocks, blocks) const {
    if (asked != nullptr) asked->push_back(current);
    return 1 - current;
  }
};

TEST_CASE("cluster: a migration takes the time of its KV on the fabric") {
  auto options = toy_cluster(2, 100);
  options.fabric_bytes_per_s = 100;
  options.kv_bytes_per_token = 2;
  const std::vector<trace_row> rows{row(1, 30, 2, 3)};
  const run_result result = simulate<fcfs<request>, placement::least_load, swap_sides>(options, rows, {}, {}, {});
  check_invariants(result, rows);
  const request_record& r = result.requests[0];
  CHECK(r.instance == 1);
  CHECK(r.migrations == 1);
  CHECK(r.phase_change == 1.75);
  // 31 tokens have KV: 62 bytes at 100 a second. Not prefilled again.
  CHECK(r.answer_scheduled == approx(1.75 + 0.62));
  CHECK(r.first_answer == approx(1.75 + 0.62 + 0.25));
  CHECK(r.finish == approx(1.75 + 0.62 + 0.75));
  CHECK(r.blocked == approx(0.62));
  CHECK(r.preempted == 0);
  CHECK(result.numbers.migrations == 1);
  CHECK(result.numbers.kv_transfer_p99 == approx(0.62));
}

TEST_CASE("cluster: at equal times ends of transfers come before ends of steps, steps by instance") {
  auto options = toy_cluster(2, 100);
  options.fabric_bytes_per_s = 40;
  {  // Ten tokens cross in 0.25 s and arrive at 0.75 s, when a step of the other instance ends.
    const std::vector<trace_row> rows{row(0, 10, 1, 2), row(0, 10, 0, 10)};
    const run_result result = simulate<fcfs<request>, placement::least_load, swap_sides>(options, rows);
    check_invariants(result, rows);
    CHECK(result.requests[0].phase_change == 0.5);
    CHECK(result.requests[0].instance == 1);
    CHECK(result.requests[0].answer_scheduled == 0.75);
    CHECK(result.requests[0].finish == 1.25);
    CHECK(result.requests[1].finish == 2.75);
  }
  {
    const std::vector<trace_row> rows{row(0, 10, 1, 2), row(0, 10, 1, 2)};
    std::vector<std::size_t> asked;
    const run_result result =
        simulate<fcfs<request>, placement::least_load, swap_sides>(options, rows, {}, {}, {.asked = &asked});
    check_invariants(result, rows);
    CHECK(asked == std::vector<std::size_t>{0, 1});
    CHECK(result.requests[0].finish == 1.25);
    CHECK(result.requests[1].finish == 1.25);
  }
}

/// Writes down what placement sees, and places by it.
struct watching {
  std::vector<std::vector<sim::instance_view>>* seen = nullptr;
  template <placement::instance_views V>
  std::size_t operator()(const V& views) const {
    seen->emplace_back();
    for (std::size_t i = 0; i != views.size(); ++i) seen->back().push_back(views[i]);
    return placement::least_load{}(views);
  }
};

TEST_CASE("cluster: placement sees what is on its way as already there") {
  auto options = toy_cluster(2, 100);
  options.fabric_bytes_per_s = 1;  // ten seconds for ten tokens
  std::vector<std::vector<sim::instance_view>> seen;
  const std::vector<trace_row> rows{row(0, 10, 1, 2), row(1, 20, 0, 2), row(1, 40, 0, 2), row(12, 10, 0, 1)};
  const run_result result = simulate<fcfs<request>, watching, swap_sides>(options, rows, {}, {.seen = &seen}, {});
  check_invariants(result, rows);
  REQUIRE(seen.size() == 4);
  for (const auto& view : seen[0]) {
    CHECK(view.kv_held == blocks{0});
    CHECK(view.free_blocks == blocks{100});
    CHECK(view.requests == 0);
  }
  CHECK(seen[0][1].id == 1);
  // The first crosses to instance 1 from 0.5 s to 10.5 s, with 11 tokens: one block.
  CHECK(seen[1][0].kv_held == blocks{1});  // until its copy is there
  CHECK(seen[1][0].free_blocks == blocks{99});
  CHECK(seen[1][0].requests == 0);
  CHECK(seen[1][1].kv_held == blocks{1});
  CHECK(seen[1][1].free_blocks == blocks{99});
  CHECK(seen[1][1].requests == 1);
  // The second began at once on instance 0, so the third goes to 1, although a request is on its way there.
  CHECK(seen[2][0].kv_held == blocks{3});
  CHECK(seen[2][0].requests == 1);
  CHECK(result.requests[1].instance == 0);
  CHECK(result.requests[2].instance == 1);
  // All done by 12 s.
  CHECK(seen[3][0].kv_held == blocks{0});
  CHECK(seen[3][1].kv_held == blocks{0});
  CHECK(seen[3][1].requests == 0);
}

TEST_CASE("cluster: least-KV placement spreads") {
  std::vector<trace_row> rows;
  for (int i = 0; i < 12; ++i) rows.push_back(row(0, 20, 0, 5));
  const run_result result = simulate<fcfs<request>>(toy_cluster(4, 100), rows);
  check_invariants(result, rows);
  std::map<std::uint32_t, int> on;
  for (const request_record& r : result.requests) ++on[r.instance];
  CHECK(on == std::map<std::uint32_t, int>{{0, 3}, {1, 3}, {2, 3}, {3, 3}});
}

TEST_CASE("cluster: while little is to be done, requests go to all instances in turn") {
  std::vector<trace_row> rows;
  for (int i = 0; i < 12; ++i) rows.push_back(row(10.0 * i, 20, 3, 5));
  const auto round_robin = [&](const run_result& result) {
    check_invariants(result, rows);
    for (const request_record& r : result.requests) CHECK(r.instance == r.id % 4);
  };
  const auto options = toy_cluster(4, 100);
  round_robin(simulate<fcfs<request>>(options, rows));
  round_robin(simulate<fcfs<request>, placement::least_load>(options, rows));
  round_robin(simulate<pascal<request>, placement::pascal_arrival>(options, rows));
  // Those that begin to answer move in turn as well.
  const run_result moved =
      simulate<pascal<request>, placement::pascal_arrival, placement::pascal_migrate_always>(options, rows);
  std::map<std::uint32_t, int> on;
  for (const request_record& r : moved.requests) ++on[r.instance];
  CHECK(on.size() == 4);
}

TEST_CASE("cluster: very late arrivals with migrations come to an end") {
  std::vector<trace_row> rows;
  for (int i = 0; i < 20; ++i) rows.push_back(row(i * 4.9e7 + 1.0 / 3, 30 + i, 2, 3));
  auto options = toy_cluster(3, 100, sim::profiles().front());
  options.fabric_bytes_per_s = 12.5e9;
  options.kv_bytes_per_token = 262144;
  const run_result result =
      simulate<pascal<request>, placement::pascal_arrival, placement::pascal_migrate_always>(options, rows);
  check_invariants(result, rows);
  CHECK(result.numbers.migrations > 0);
}

}  // namespace
