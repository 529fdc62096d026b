// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The controllers that need more than views, in the simulator: seeing every instance, and by reports.
#include <tessera/compose/fcfs.hpp>
#include <tessera/fleet/cascade.hpp>
#include <tessera/fleet/llumnix.hpp>
#include <tessera/fleet/pools.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/cluster/controlled.hpp>

#include "sim/cluster_runs.hpp"
#include "sim/llumnix_control.hpp"
#include "sim/served.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using sim::controlled;
using sim::request;
using sim::run_result;
using sim::trace_row;
using tessera_test::check_served;
using tessera_test::row;
using tessera_test::toy_cluster;
using tessera_test::cluster_runs::random_rows;

constexpr auto quiet = [](std::size_t) {};

run_result run(const sim::cluster_options& o, controlled by, const std::vector<trace_row>& rows) {
  return sim::cluster_of<fcfs<request>, controlled>{o, {}, std::move(by)}.run(rows, quiet);
}

/// Two stages, that divide at 160 tokens.
controlled cascade_control() {
  return controlled{[](const sim::cluster_options& o, const sim::router_seat& seat) {
    const partition::stage stages[] = {
        {.from = tokens{}, .to = tokens{160}, .instances = 1},
        {.from = tokens{160}, .to = partition::unbounded, .instances = seat.instances - 1}};
    const fleet::cascade_config<partition::by_count> config{
        .stages = stages, .block_size = o.instance.limits.block_size, .rebalance_s = 0.4, .refine_s = 0};
    return sim::seated_controller{
        .decides = sim::make_controller<fleet::cascade<partition::by_count>>({.replicas = seat.instances}, config)};
  }};
}
controlled pools_control(const fleet::pools_config& config) {
  return controlled{[config](const sim::cluster_options& o, const sim::router_seat& seat) {
    fleet::pools_config c = config;
    c.block_size = o.instance.limits.block_size;
    return sim::seated_controller{.decides = sim::make_controller<fleet::pools>({.replicas = seat.instances}, c)};
  }};
}

/// Every instance as it is, and by reports as old and actions as late as this.
std::vector<sim::cluster_options> seen_in_all_ways(const sim::cluster_options& o) {
  std::vector<sim::cluster_options> all(4, o);
  all[1].routed = sim::routing{.report_s = 0.5};
  all[2].routed = sim::routing{.report_s = 0.5, .action_s = 0.3};
  all[3].routed = sim::routing{.routers = 2, .report_s = 2};
  return all;
}

TEST_CASE("fleet controllers: a request that outgrows its stage goes on in the next one") {
  sim::cluster_options o = toy_cluster(3, 100);
  o.fabric_bytes_per_s = 1e9;
  // 32 tokens, then 400: it passes 160.
  const std::vector<trace_row> rows{row(0, 32, 0, 400), row(0, 320, 0, 9), row(0.1, 32, 0, 30)};
  for (const sim::cluster_options& seen : seen_in_all_ways(o)) {
    CAPTURE(seen.routed.has_value());
    const run_result r = run(seen, cascade_control(), rows);
    check_served(r, rows);
    CHECK(r.requests[0].migrations == 1);
    CHECK(r.requests[0].instance != 0);
    CHECK(r.requests[1].instance != 0);
    CHECK(r.requests[1].migrations == 0);
    CHECK(r.requests[2].instance == 0);
  }
}

TEST_CASE("fleet controllers: each request is prefilled in one pool and decoded in the other") {
  sim::cluster_options o = toy_cluster(4, 100);
  o.fabric_bytes_per_s = 1e9;
  o.pools = sim::pool_sizes{.prefill = 2, .decode = 2, .mixed = 0};
  std::vector<trace_row> rows;
  for (int i = 0; i != 40; ++i) rows.push_back(row(0.2 * i, 20 + i, 0, 1 + i % 20));
  for (const bool by_phi : {false, true}) {
    for (const sim::cluster_options& seen : seen_in_all_ways(o)) {
      CAPTURE(by_phi, seen.routed.has_value());
      const run_result r = run(seen, pools_control({.by_phi = by_phi}), rows);
      check_served(r, rows);
      std::map<std::uint32_t, int> ended_on;
      for (const sim::request_record& q : r.requests) {
        // A late action finds short requests ended.
        const bool has_time = q.output_tokens() > (seen.routed && seen.routed->action_s > 0 ? 6 : 1);
        if (has_time) CHECK(q.instance >= 2);
        if (q.output_tokens() == 1) CHECK(q.instance < 2);
        ++ended_on[q.instance];
      }
      CHECK(ended_on[2] > 4);
      CHECK(ended_on[3] > 4);
    }
  }
}

TEST_CASE("fleet controllers: a mixed instance takes the role that is wanted, behind one router") {
  sim::cluster_options o = toy_cluster(4, 60);
  o.fabric_bytes_per_s = 1e9;
  o.pools = sim::pool_sizes{.prefill = 1, .decode = 1, .mixed = 2};
  std::vector<trace_row> rows;
  for (int i = 0; i != 60; ++i) rows.push_back(row(0.1 * i, 60, 0, 150));
  for (const sim::cluster_options& seen : seen_in_all_ways(o)) {
    const bool one = !seen.routed || seen.routed->routers == 1;
    CAPTURE(seen.routed.has_value(), one);
    const run_result r = run(seen, pools_control({}), rows);
    check_served(r, rows);
    std::size_t on_mixed = 0;
    for (const sim::request_record& q : r.requests) on_mixed += q.instance >= 2 ? 1U : 0U;
    if (one) CHECK(on_mixed > 10);
  }
}

/// Writes down what it is told.
struct listens final : sim::run_watcher {
  std::vector<sim::request_event> events{};
  std::vector<std::string> notes{};
  [[nodiscard]] bool asks(std::size_t, double) const override { return true; }
  [[nodiscard]] bool asks_of_steps(double) const override { return false; }
  void notify(sim::request_event e) override { events.push_back(std::move(e)); }
  void notify(sim::request_step) override {}
  void notify(sim::instance_step) override {}
  void note(double, std::string words) override { notes.push_back(std::move(words)); }
};

TEST_CASE("fleet controllers: explanations say what was compared, and why") {
  sim::cluster_options o = toy_cluster(2, 100);
  o.fabric_bytes_per_s = 1e6;
  listens log;
  o.watcher = &log;
  const std::vector<trace_row> rows{row(0, 640, 0, 60), row(0.01, 656, 0, 2), row(0.02, 320, 0, 60)};
  const auto by = tessera_test::llumnix_control({.epoch_s = 2, .low = 25, .high = 50});
  CHECK(run(o, by, rows).numbers.migrations == 1);
  bool is_placed = false;
  bool moves = false;
  for (const sim::request_event& e : log.events) {
    if (e.what == sim::event_kind::placed && e.request == 2) {
      is_placed = true;
      CHECK(e.why.find("freeness") != std::string::npos);
      REQUIRE(e.seen.columns.back() == "KV free after the queue");
      REQUIRE(e.seen.rows.size() == 2);
      // 100 blocks each, less the 40 and the 41 of those that came before.
      CHECK(e.seen.rows[0].values.back() == 60);
      CHECK(e.seen.rows[1].values.back() == 59);
    }
    if (e.what == sim::event_kind::moves) {
      moves = true;
      CHECK(e.request == 2);
      CHECK(e.why.find("freeness; it needs ") != std::string::npos);
      CHECK(e.seen.columns.back() == "KV free after the queue");
    }
  }
  CHECK(is_placed);
  CHECK(moves);
}

TEST_CASE("fleet controllers: all are served and books are empty, also where instances die") {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const std::vector<trace_row> rows = random_rows(seed, 40, 0.3);
    sim::cluster_options o = toy_cluster(4, 60);
    o.pools = sim::pool_sizes{.prefill = 1, .decode = 2, .mixed = 1};
    if (seed % 2 == 0) {
      o.detection_s = 0.5;
      o.faults = sim::random_deaths(4, 1, 10, 6, 2, seed);
    }
    for (const sim::cluster_options& seen : seen_in_all_ways(o)) {
      for (const controlled& by :
           {tessera_test::llumnix_control({.low = 20, .high = 21}), cascade_control(), pools_control({})}) {
        const run_result r = run(seen, by, rows);
        CHECK(r.numbers.completed == rows.size());
        if (seen.routed) CHECK(r.measures.at("left_in_books") == 0);
      }
    }
  }
}

}  // namespace
