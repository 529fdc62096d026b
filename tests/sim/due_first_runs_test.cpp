// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Whole runs: nothing is lost or served twice, and how they compare with others.

#include <tessera/sim/input/archetypes.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/planning/step_bounds.hpp>
#include <tessera/sim/policies/due_first.hpp>
#include <tessera/sim/systems/by_headroom.hpp>

#include "sim/due_first_inputs.hpp"
#include "sim/profile_cluster.hpp"
#include "sim/served.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <set>
#include <vector>

namespace {

using namespace tessera;
using sim::due_first_config;
using sim::run_result;
using sim::trace_row;
using tessera_test::check_served;
using tessera_test::profile_cluster;
using tessera_test::row;
using tessera_test::toy_cluster;
using tessera_test::due_first_inputs::all_answer;
using tessera_test::due_first_inputs::numbers;
using tessera_test::due_first_inputs::quiet;
using tessera_test::due_first_inputs::score;

TEST_CASE("due_first: everything ends, no token twice, and the same again; with every part and without each") {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    auto rows = sim::generate(sim::find_workload("reasoning-chat"), 150, 8.0, seed);
    score(rows, 0.5);
    const auto o = profile_cluster("h100-96gb-qwen-32b", 3, 700, 64);
    double whole = 0;
    for (int without = 0; without != 7; ++without) {
      CAPTURE(seed, without);
      due_first_config c;
      if (without == 1) c.predicts = false;
      if (without == 2) c.by_headroom = false;
      if (without == 3) c.bounded_steps = false;
      if (without == 4) c.stages = false;
      if (without == 5) c.revised = 1;
      if (without == 6) c.prompts = 0;
      const run_result r = sim::run_due_first(o, rows, rows, c, quiet);
      check_served(r, rows);
      if (without == 0) {
        whole = r.numbers.e2e.mean;
        CHECK(sim::run_due_first(o, rows, rows, c, quiet).numbers.e2e.mean == whole);
      }
      if (without != 0 && without != 4) CHECK(r.numbers.e2e.mean != whole);  // no stages here anyway
    }
  }
  CHECK(sim::run_due_first(toy_cluster(3, 100), {}, {}, {}, quiet).numbers.completed == 0);
  CHECK(sim::run_due_first(toy_cluster(1, 100), std::vector{row(0, 10, 0, 3)}, {}, {}, quiet).numbers.completed == 1);
}

TEST_CASE("due_first: where agents are too many, a weight lets the calls of young programs go first") {
  const auto rows = sim::generate(sim::find_workload("agentic"), 600, 4, 3);
  sim::cluster_options o = profile_cluster("h100-96gb-qwen-32b", 1, 0, 64);
  o.prefix_cache = true;
  const auto mean_wait = [&](double weight) {
    due_first_config c;
    c.programs = weight;
    const run_result r = sim::run_due_first(o, rows, {}, c, quiet);
    check_served(r, rows);
    std::set<std::int64_t> met;
    double sum = 0;
    for (const sim::request_record& q : r.requests) {
      if (met.insert(rows[q.id].session).second) sum += q.ttft();
    }
    return sum / static_cast<double>(met.size());
  };
  CHECK(mean_wait(0.3) < 0.8 * mean_wait(0));
  // Most of a call's prompt is cached, and how long it is counts for nothing.
  CHECK(sim::run_due_first(o, rows, {}, {.prompts = 64}, quiet).numbers.e2e.mean ==
        sim::run_due_first(o, rows, {}, {}, quiet).numbers.e2e.mean);
}

TEST_CASE("due_first: ahead of PASCAL's and of PARS's own policy where theirs is strained") {
  auto rows = sim::generate(sim::find_workload("arena-chat"), 2000, 17.0, 3);
  score(rows, 0.8);
  const auto h100 = profile_cluster("h100-96gb-qwen-32b", 8, 0, 256);
  const sim::summary ours = numbers("due-first", h100, rows);
  const sim::summary theirs = numbers("pascal", h100, rows);
  CHECK(ours.ttft.mean < theirs.ttft.mean);
  CHECK(ours.slo_violation_rate < 0.005);
  // An answer that moves with its KV goes on at once where it arrives.
  CHECK(ours.migrations > 100);
  CHECK(ours.blocking_p99 < 1);

  auto burst = all_answer(sim::generate(sim::find_workload("r1-servegen"), 1500, 1.0, 3));
  for (trace_row& r : burst) r.arrival_s = 0;
  score(burst, 0.8);
  const auto one = profile_cluster("h200-llama-3.1-8b", 1, 9000, 256);
  const double per_token = numbers("due-first", one, burst).normalized_latency.mean;
  CHECK(per_token < 0.95 * numbers("pars", one, burst).normalized_latency.mean);
  CHECK(per_token < 0.5 * numbers("fcfs", one, burst).normalized_latency.mean);
}

}  // namespace
