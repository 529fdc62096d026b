// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/placement/join_shortest_queue.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/lmetric.hpp>
#include <tessera/placement/phi.hpp>
#include <tessera/placement/power_of_two.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/policies/placements.hpp>

#include "sim/served.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using sim::placed;
using sim::run_result;
using sim::trace_row;
using tessera_test::check_served;
using tessera_test::row;
using tessera_test::toy_cluster;

constexpr auto quiet = [](std::size_t) {};

template <class Scheduler, class Placement, class Migration = placement::stay>
run_result run(sim::cluster_options options, const sim::routing& how, const std::vector<trace_row>& rows) {
  options.routed = how;
  return sim::cluster_of<Scheduler, placed<Placement, Migration>>{options}.run(rows, quiet);
}

std::vector<std::uint32_t> places(const run_result& r) {
  std::vector<std::uint32_t> out;
  for (const sim::request_record& q : r.requests) out.push_back(q.instance);
  return out;
}

std::vector<trace_row> some_rows(std::uint64_t seed, std::size_t n) {
  std::mt19937_64 random{seed};
  std::vector<trace_row> rows;
  double at = 0;
  for (std::size_t i = 0; i != n; ++i) {
    at += static_cast<double>(random() % 100) / 400;
    const auto prompt = static_cast<std::int64_t>(1 + random() % 300);
    const auto reasoning = static_cast<std::int64_t>(random() % 40);
    const auto answer = static_cast<std::int64_t>(1 + random() % 40);
    rows.push_back(row(at, prompt, reasoning, answer));
  }
  return rows;
}

using fcfs_scheduler = fcfs<sim::request>;
using queue = placement::join_shortest_queue;

TEST_CASE("routers: one router knows its own requests at once, however old the reports are") {
  // All at once, and no report for ever.
  std::vector<trace_row> rows;
  for (int i = 0; i != 12; ++i) rows.push_back(row(0.001 * i, 16, 0, 40));
  const run_result r = run<fcfs_scheduler, queue>(toy_cluster(4, 100), {.routers = 1, .report_s = 1e6}, rows);
  CHECK(places(r) == std::vector<std::uint32_t>{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3});
}

TEST_CASE("routers: several routers see each other in the reports alone") {
  // Two instances, two routers: rows 0, 2, 4 are router 0's and go to instances 0, 1, 0, for long. Router 1 begins its
  // turn with instance 1. It has sent 1, 3, 5 to 1, 0, 1, which have ended when it sends row 7. By its own book that is
  // instance 0's turn; by the reports instance 1 has less.
  std::vector<trace_row> rows;
  for (int i = 0; i != 7; ++i) rows.push_back(row(0.001 * i, 16, 0, i < 5 && i % 2 == 0 ? 400 : 1));
  rows.push_back(row(20, 16, 0, 1));
  const auto last = [&](double report_s) {
    const run_result r = run<fcfs_scheduler, queue>(toy_cluster(2, 400), {.routers = 2, .report_s = report_s}, rows);
    return r.requests.back().instance;
  };
  CHECK(last(1e6) == 0);
  CHECK(last(1) == 1);
}

TEST_CASE("routers: a router keeps to its share while one of that takes the request") {
  std::vector<trace_row> rows;
  for (int i = 0; i != 12; ++i) rows.push_back(row(0.001 * i, 16, 0, 40));
  sim::cluster_options options = toy_cluster(4, 100);
  const auto once = [&] {
    return places(run<fcfs_scheduler, queue>(options, {.routers = 2, .shares = true, .report_s = 1}, rows));
  };
  const std::vector<std::uint32_t> shared = once();
  for (std::size_t i = 0; i != 12; ++i) CHECK(shared[i] % 2 == i % 2);
  // Both of router 1's are dead, for ever.
  options.faults = {{.instance = 1, .at_s = 0}, {.instance = 3, .at_s = 0}};
  options.detection_s = 0.0005;
  const std::vector<std::uint32_t> without = once();
  for (std::size_t i = 2; i != 12; ++i) CHECK(without[i] % 2 == 0);
}

/// A placement that is told what others send, and goes where the number says.
struct told {
  double expected = 0;
  template <class V>
  std::size_t operator()(const V& /*instances*/) noexcept {
    return expected > 4.4 && expected < 4.6 ? 1 : 0;
  }
};

TEST_CASE("routers: a placement that asks is told how many requests the other routers send meanwhile") {
  // Three a second, of which router 0 of 4 sends a quarter; the others' part in half of 4 seconds is 4.5.
  std::vector<trace_row> rows;
  for (int i = 0; i != 1200; ++i) rows.push_back(row(i / 3.0, 16, 0, 1));
  const run_result r = run<fcfs_scheduler, told>(toy_cluster(2, 100), {.routers = 4, .report_s = 4}, rows);
  CHECK(places(r).front() == 0);
  CHECK(r.requests.back().instance == 1);
}

TEST_CASE("routers: a placement that is chosen by name chooses for each of them") {
  // All at once, and no report for ever: each begins elsewhere, and knows its own.
  std::vector<trace_row> rows;
  for (int i = 0; i != 8; ++i) rows.push_back(row(0.001 * i, 16, 0, 400));
  sim::cluster_options options = toy_cluster(4, 100);
  options.placement = sim::find_placement("shortest-queue");
  const run_result by_name =
      run<fcfs_scheduler, placement::round_robin>(options, {.routers = 2, .report_s = 1e6}, rows);
  CHECK(places(by_name) == std::vector<std::uint32_t>{0, 2, 1, 3, 2, 0, 3, 1});
  options.placement.reset();
  const run_result typed = run<fcfs_scheduler, queue>(options, {.routers = 2, .report_s = 1e6}, rows);
  CHECK(places(typed) == places(by_name));
}

TEST_CASE("routers: one that hears all the time chooses as one that sees all") {
  const std::vector<trace_row> rows = some_rows(7, 300);
  const sim::cluster_options options = toy_cluster(4, 100);
  const run_result sees = sim::cluster_of<fcfs_scheduler, placed<queue>>{options}.run(rows, quiet);
  const run_result hears = run<fcfs_scheduler, queue>(options, {.routers = 1, .report_s = 0.5}, rows);
  CHECK(places(sees) == places(hears));
  CHECK(sees.numbers.ttft.mean == hears.numbers.ttft.mean);
}

TEST_CASE("placement: the highest Phi of instances that are not alike is the largest part of the memory") {
  // The first takes 40 of 100 blocks, the second 10 of 200.
  const std::vector<trace_row> rows{row(0, 16 * 40 - 1, 0, 300), row(0.001, 16 * 10 - 1, 0, 300), row(0.002, 16, 0, 5)};
  sim::cluster_options options = toy_cluster(2, 100);
  options.each = {options.instance, options.instance};
  options.each[1].limits.blocks = 200;
  const run_result r = sim::cluster_of<fcfs_scheduler, placed<placement::highest_phi>>{options}.run(rows, quiet);
  for (const sim::request_record& q : r.requests) {
    // Row 0 goes by its turn, row 1 where nothing is taken, row 2 where the larger part is free.
    CHECK(q.instance == std::vector<std::uint32_t>{0, 1, 1}[q.id]);
  }
}

template <class Scheduler, class Placement, class Migration = placement::stay>
void serves_all(std::size_t routers) {
  for (std::uint64_t seed = 1; seed != 5; ++seed) {
    const std::vector<trace_row> rows = some_rows(seed, 200);
    sim::cluster_options options = toy_cluster(4, 100);
    const auto once = [&] {
      return run<Scheduler, Placement, Migration>(options,
                                                  {.routers = routers, .shares = routers == 3, .report_s = 0.7}, rows);
    };
    const run_result first = once();
    check_served(first, rows);
    CHECK(first.measures.at("left_in_books") == 0);
    // It is a function of its inputs.
    const run_result again = once();
    CHECK(places(first) == places(again));
    CHECK(first.numbers.ttft.mean == again.numbers.ttft.mean);
    // And while instances die and come back.
    options.detection_s = 0.5;
    options.faults = sim::random_deaths(4, 1, 30, 8, 3, seed);
    const run_result faulty = once();
    CHECK(faulty.numbers.completed == rows.size());
    CHECK(faulty.measures.at("left_in_books") == 0);
  }
}

TEST_CASE("routers: all are served, the books end empty, and a run repeats, through deaths as well") {
  for (const std::size_t routers : {1U, 3U}) {
    serves_all<fcfs_scheduler, placement::least_load>(routers);
    serves_all<fcfs_scheduler, placement::power_of_two>(routers);
    serves_all<fcfs<sim::request, sim::kv_store>, placement::lmetric>(routers);
    serves_all<fcfs_scheduler, placement::highest_phi>(routers);
    serves_all<pascal<sim::request>, placement::pascal_arrival, placement::pascal_migrate_adaptively>(routers);
  }
}

TEST_CASE("routers: PASCAL's moves go through the book") {
  const std::vector<trace_row> rows = some_rows(9, 300);
  const run_result r = run<pascal<sim::request>, placement::pascal_arrival, placement::pascal_migrate_always>(
      toy_cluster(4, 400), {.routers = 2, .report_s = 0.5}, rows);
  check_served(r, rows);
  CHECK(r.numbers.migrations > 20);
  CHECK(r.measures.at("left_in_books") == 0);
}

}  // namespace
