// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Whether the planner chooses stages.

#include <tessera/sim/input/archetypes.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/planning/cascade_plan.hpp>
#include <tessera/sim/policies/due_first.hpp>

#include "sim/due_first_inputs.hpp"
#include "sim/profile_cluster.hpp"
#include "sim/served.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace tessera;
using sim::run_result;
using sim::trace_row;
using tessera_test::check_served;
using tessera_test::profile_cluster;
using tessera_test::row;
using tessera_test::due_first_inputs::all_answer;
using tessera_test::due_first_inputs::lognormal;
using tessera_test::due_first_inputs::numbers;
using tessera_test::due_first_inputs::quiet;

TEST_CASE("due_first: stages where batches wait for their longest, none where memory binds") {
  const auto long_tailed = all_answer(sim::generate(sim::find_workload("r1-servegen"), 1500, 90.0, 1));
  const auto h20 = profile_cluster("h20-llama-3.2-3b", 16, 0, 1024);
  CHECK(sim::plan_cascade(h20, long_tailed, 90.0, sim::layout::steady).gain > 1.25);
  CHECK(sim::run_due_first(h20, long_tailed, long_tailed, {}, quiet).measures.count("market_offers") == 1);
  CHECK(sim::run_due_first(h20, long_tailed, long_tailed, {.stages = false}, quiet).measures.count("market_offers") ==
        0);

  const auto chat = sim::generate(sim::find_workload("arena-chat"), 1500, 14.2, 1);
  const auto h100 = profile_cluster("h100-96gb-qwen-32b", 8, 0, 256);
  const double gain = sim::plan_cascade(h100, chat, 14.2, sim::layout::steady).gain;
  CHECK(gain >= 1);
  CHECK(gain < 1.1);
  CHECK(sim::run_due_first(h100, chat, chat, {}, quiet).measures.count("market_offers") == 0);
}

TEST_CASE("due_first: no stages where the planner expects much of them and a trial finds nothing") {
  auto h20 = profile_cluster("h20-llama-3.2-3b", 8, 0, 1024);
  const auto none = [&](const std::vector<trace_row>& rows, double rate) {
    CHECK(sim::plan_cascade(h20, rows, rate, sim::layout::steady, h20.instances / 4).gain > 1.25);
    const run_result r = sim::run_due_first(h20, rows, rows, {}, quiet);
    check_served(r, rows);
    CHECK(r.numbers.placement.find("stages") == std::string::npos);
    CHECK(r.numbers.e2e.mean <= 1.01 * sim::run_due_first(h20, rows, rows, {.stages = false}, quiet).numbers.e2e.mean);
  };
  SECTION("long prompts, short answers: in stages few instances compute most of the prompts") {
    std::vector<trace_row> rows;
    sim::random_engine random{1};
    for (int i = 0; i != 1000; ++i) {
      const std::int64_t prompt = lognormal(random, 9000, 1.2, 64, 120'000);
      rows.push_back(row(0.5 * i, prompt, 0, lognormal(random, 150, 1, 1, 2000)));
    }
    none(rows, 2);
  }
  SECTION("answers of much the same length") {
    h20.instances = 16;
    none(all_answer(sim::generate(sim::find_workload("reasoning-chat"), 3000, 250.0, 1)), 250);
  }
}

TEST_CASE("due_first: prompts bounded in stages are worth their time to first token") {
  const auto h20 = profile_cluster("h20-llama-3.2-3b", 16, 0, 1024);
  const auto rows = all_answer(sim::generate(sim::find_workload("sharegpt"), 3000, 92, 2));
  const auto history = all_answer(sim::generate(sim::find_workload("sharegpt"), 3000, 92, 3));
  const run_result bounded = sim::run_due_first(h20, rows, history, {}, quiet);
  const run_result never = sim::run_due_first(h20, rows, history, {.least_bounded_gain = 1e9}, quiet);
  check_served(bounded, rows);
  CHECK(bounded.numbers.placement == "stages");
  CHECK(bounded.numbers.e2e.mean < 0.98 * never.numbers.e2e.mean);
  CHECK(bounded.numbers.tpot.mean < 0.9 * never.numbers.tpot.mean);
  CHECK(bounded.numbers.ttft.mean < never.numbers.ttft.mean + 1);
}

TEST_CASE("due_first: the last rows all come at once, so that there is nothing to try stages with") {
  std::vector<trace_row> history;
  for (int i = 0; i != 300; ++i) history.push_back(row(1e-4 * i, i % 30 == 0 ? 20'000 : 280, 0, 2));
  for (int i = 0; i != 8100; ++i) history.push_back(row(600, i % 30 == 0 ? 20'000 : 280, 0, 2));
  const auto h20 = profile_cluster("h20-llama-3.2-3b", 8, 0, 1024);
  const std::vector<trace_row> rows(10, row(0, 280, 0, 2));
  check_served(sim::run_due_first(h20, rows, history, {}, quiet), rows);
}

}  // namespace
