// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// How long steps are.

#include <tessera/compose/fcfs.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/planning/step_bounds.hpp>
#include <tessera/sim/policies/due_first.hpp>

#include "sim/due_first_inputs.hpp"
#include "sim/profile_cluster.hpp"
#include "sim/served.hpp"
#include "sim/toy_profile.hpp"
#include "sim/tried_layouts.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using sim::due_first_config;
using sim::request;
using sim::run_result;
using sim::trace_row;
using tessera_test::check_served;
using tessera_test::profile_cluster;
using tessera_test::row;
using tessera_test::toy_cluster;
using tessera_test::due_first_inputs::alike_rows;
using tessera_test::due_first_inputs::lognormal;
using tessera_test::due_first_inputs::numbers;
using tessera_test::due_first_inputs::quiet;
using tessera_test::due_first_inputs::tried_layouts;

TEST_CASE("due_first: a bounded step with one decode takes no longer than it may, and at least half of it") {
  for (const char* name : {"v100-qwen2.5-7b", "h100-96gb-qwen-32b", "h20-llama-3.2-3b"}) {
    CAPTURE(name);
    const auto o = profile_cluster(name, 1, 0, 256);
    const sim::prefill_model model = sim::calibrate_prefill(o.instance.timer, sim::default_ttft_target);
    tokens before{};
    for (const double seconds : {0.05, 0.1, 0.2}) {
      const tokens n = sim::step_bounds(o, model, seconds).front();
      sim::step_shape step;
      step.add_prefill(tokens{}, n);
      step.add_decode(tokens{500});
      CHECK(o.instance.timer(step) <= 1.1 * seconds);
      CHECK(o.instance.timer(step) >= 0.5 * seconds);
      CHECK(n > before);
      before = n;
    }
    // Less than a step without prompts takes: a block's worth all the same.
    CHECK(sim::step_bounds(o, model, 1e-6) == std::vector{tokens{16}});
  }
}

TEST_CASE("due_first: a step of a simulated instance has tokens for its residents and for so many of prompts") {
  // Steps of the toy take as long whatever they compute, so the number of steps tells.
  auto o = toy_cluster(1, 1000);
  const std::vector<trace_row> rows{row(0, 320, 0, 1)};
  const auto seconds = [&] { return sim::cluster_of<fcfs<request>>{o}.run(rows, quiet).numbers.ttft.mean; };
  CHECK(seconds() == Catch::Detail::Approx(0.5).epsilon(0.01));
  o.instance.prefill_budget = tokens{100};  // 100, then 101 next to itself as a resident, three times: 403
  CHECK(seconds() == Catch::Detail::Approx(2.0).epsilon(0.01));
  o.instance.prefill_budget = tokens{5000};
  CHECK(seconds() == Catch::Detail::Approx(0.5).epsilon(0.01));
}

TEST_CASE(
    "due_first: longer steps double up to a promised TPOT, of which half is among them, or as good as unbounded") {
  auto o = profile_cluster("h200-141gb-x2-llama-3.3-70b", 2, 0, 256);
  const sim::prefill_model model = sim::calibrate_prefill(o.instance.timer, sim::default_ttft_target);
  const auto seconds = [&](std::initializer_list<double> all) {
    std::vector<std::vector<tokens>> bounds;
    for (const double s : all) bounds.push_back(sim::step_bounds(o, model, s));
    return bounds;
  };
  CHECK(sim::longer_steps(o, model, 0.05) == seconds({0.1, 0.2, 0.4, 0.8}));
  o.promised.tpot_s = 0.1;
  CHECK(sim::longer_steps(o, model, 0.05) == seconds({0.1}));
  o.promised.tpot_s = 0.3;
  CHECK(sim::longer_steps(o, model, 0.05) == seconds({0.1, 0.15, 0.2}));
  o.promised.tpot_s = 0.09;
  CHECK(sim::longer_steps(o, model, 0.05).empty());
  o.promised.tpot_s = 3;
  CHECK(sim::longer_steps(o, model, 0.05) == seconds({0.1, 0.2, 0.4, 0.8}));
  CHECK(sim::longer_steps(o, model, 0.5).empty());
}

TEST_CASE("due_first: steps are longer where prompts wait because decodes leave them too little") {
  const auto h200 = profile_cluster("h200-141gb-x2-llama-3.3-70b", 1, 0, 256);
  const auto rows = alike_rows(3000, 8, 1);
  const run_result longer = sim::run_due_first(h200, rows, {}, {}, quiet);
  const run_result never = sim::run_due_first(h200, rows, {}, {.least_step_gain = 1e9}, quiet);
  check_served(longer, rows);
  CHECK(longer.numbers.placement == "headroom, long steps");
  CHECK(never.numbers.placement == "headroom");
  CHECK(longer.numbers.e2e.mean < 0.75 * never.numbers.e2e.mean);
  // Not longer than that: then requests with readers wait for prompts.
  CHECK(longer.numbers.e2e.mean <
        0.9 * sim::run_due_first(h200, rows, {}, {.bounded_steps = false}, quiet).numbers.e2e.mean);
  // Nor where none waits.
  const auto calm = alike_rows(1000, 2, 1);
  CHECK(sim::run_due_first(h200, calm, {}, {}, quiet).numbers.placement == "headroom");
}

TEST_CASE(
    "due_first: where prompts alone fill an instance, who has a short one need not wait for those with long ones") {
  const auto h100 = profile_cluster("h100-80gb-llama-3.1-8b", 1, 0, 256);
  std::vector<trace_row> rows = alike_rows(1500, 7.5, 3);
  const auto mean_of = [&](const run_result& run, bool long_ones) {
    double sum = 0;
    std::size_t n = 0;
    for (std::size_t i = 0; i != rows.size(); ++i) {
      if ((rows[i].prompt_tokens > 1000) != long_ones) continue;
      sum += run.requests[i].e2e();
      ++n;
    }
    return sum / static_cast<double>(n);
  };
  const auto run = [&](double prompts) { return sim::run_due_first(h100, rows, {}, {.prompts = prompts}, quiet); };
  // Where all are alike they come in the order of arrival, and the number is nothing.
  CHECK(run(32).numbers.e2e.mean == run(0).numbers.e2e.mean);
  for (std::size_t i = 0; i != rows.size(); ++i) {
    rows[i].prompt_tokens = i % 2 == 0 ? 200 : 9000;
    rows[i].output_tokens = rows[i].answer_tokens = 20;
  }
  const run_result by_prompt = run(32);
  const run_result by_arrival = run(0);
  check_served(by_prompt, rows);
  CHECK(mean_of(by_prompt, false) < 0.7 * mean_of(by_arrival, false));
  CHECK(by_prompt.numbers.e2e.mean < 0.9 * by_arrival.numbers.e2e.mean);
  // The long ones pay, but little.
  CHECK(mean_of(by_prompt, true) < 1.2 * mean_of(by_arrival, true));
}

TEST_CASE("due_first: longer steps that there are need not gain as much as new ones, and are given up for shorter") {
  tried_layouts t{profile_cluster("h200-141gb-x2-llama-3.3-70b", 1, 0, 256), alike_rows(1500, 7.5, 1), 7.5};
  const auto longer = sim::longer_steps(t.options, t.model, 0.05);
  t.trials.going_on(t.rows, 6000);
  std::vector<double> took{t.trials.colocated().e2e_s};
  for (const auto& bounds : longer) took.push_back(t.trials.colocated(bounds).e2e_s);
  REQUIRE(took[0] > 1.1 * took[1]);
  REQUIRE(took[1] < 1.1 * took[2]);
  CHECK(t.best({}, {}, longer).bounds == longer[0]);
  const double gain = took[0] / took[1];
  CHECK(t.best({.least_step_gain = 0.99 * gain}, {}, longer).bounds == longer[0]);
  const due_first_config asks_more{.least_step_gain = 1.01 * gain};
  CHECK(t.best(asks_more, {}, longer).bounds.empty());
  CHECK(t.best(asks_more, {.bounds = longer[0]}, longer).bounds == longer[0]);
  // Bounds of stages, or of layouts that were there before pools, are no long steps.
  for (const sim::layout_kind kind : {sim::layout_kind::stages, sim::layout_kind::pools}) {
    CHECK(t.best(asks_more, {.kind = kind, .bounds = longer[0]}, longer).bounds.empty());
  }
  REQUIRE(took[1] < took[2]);
  CHECK(t.best({}, {.bounds = longer[1]}, longer).bounds == longer[0]);
  CHECK(t.best(asks_more, {.bounds = longer[1]}, longer).bounds == longer[0]);  // whatever that gains over the usual
  CHECK(t.best({}, {}, longer).why.find("prompt tokens took") != std::string::npos);
  // Where nothing can be tried, what there is stays.
  for (trace_row& r : t.rows) r.arrival_s = 0;
  CHECK(t.best({}, {}, longer).bounds.empty());
  const sim::instance_layout kept = t.best({}, {.bounds = longer[1]}, longer);
  CHECK(kept.bounds == longer[1]);
  CHECK(kept.why.find("stay, for too little is known") != std::string::npos);
}

TEST_CASE("due_first: steps of 200 ms where those of 100 gain nothing") {
  tried_layouts t{profile_cluster("rtxpro6000-llama-3.1-8b", 1, 0, 256), alike_rows(1500, 1.25, 1, 8600, 155), 1.25};
  const auto longer = sim::longer_steps(t.options, t.model, 0.05);
  t.trials.going_on(t.rows, 6000);
  const double usual = t.trials.colocated().e2e_s;
  REQUIRE(t.trials.colocated(longer[0]).e2e_s > usual);
  REQUIRE(1.1 * t.trials.colocated(longer[1]).e2e_s < usual);
  CHECK(t.best({}, {}, longer).bounds == longer[1]);
  // And no step has more tokens than it may.
  CHECK(longer[2] == std::vector{t.options.instance.step.token_budget});
  CHECK(longer[3] == longer[2]);
}

TEST_CASE("due_first: where prompts are the load, steps are as long as a promised TPOT allows") {
  // 14,000 prompt tokens a second, of which steps of 50 ms compute less.
  sim::random_engine random{1};
  std::vector<trace_row> seen;
  double at = 0;
  for (int i = 0; i != 1200; ++i) {
    at += sim::exponential(random, 6.6);
    const std::int64_t prompt = lognormal(random, 1500, 0.85, 10, 7600);
    seen.push_back(row(at, prompt, 0, 1 + static_cast<std::int64_t>(sim::exponential(random, 1.0 / 28))));
  }
  const auto chosen = [&](double tpot_s) {
    auto a100 = profile_cluster("a100-80gb-llama-3.1-8b", 1, 0, 256);
    a100.promised = {.ttft_s = 2, .tpot_s = tpot_s};
    tried_layouts t{a100, seen, 6.6};
    return std::pair{t.best({}, {}, sim::longer_steps(t.options, t.model, 0.05)).bounds,
                     sim::step_bounds(t.options, t.model, 0.2)};
  };
  const auto [allowed, fifth] = chosen(0.4);
  REQUIRE(!allowed.empty());
  CHECK(allowed.front() >= fifth.front());
  // By these fewer keep a tighter promise.
  const auto [shorter, same] = chosen(0.2);
  CHECK((shorter.empty() || shorter.front() < same.front()));
}

TEST_CASE("due_first: a plan says why, also where there is nothing to choose from") {
  tried_layouts t{profile_cluster("h100-80gb-llama-3.1-8b", 1, 0, 256), alike_rows(200, 5, 1), 5};
  const due_first_config alone{.stages = false, .pools = false};
  CHECK(t.best(alone, {}).why == "no other layout can be tried");
  const auto longer = sim::longer_steps(t.options, t.model, 0.05);
  CHECK(t.best(alone, {}, longer).why.starts_with("the usual steps took "));
}

TEST_CASE("due_first: a trial of traffic that goes on is no longer than four times what was seen, or a thousand") {
  const auto rows = alike_rows(4000, 10, 1);
  const auto trial = [&](std::size_t seen) { return sim::detail::steady_trial_rows(std::span{rows}.first(seen)); };
  CHECK(trial(64) == 1000);
  CHECK(trial(250) == 1000);
  CHECK(trial(500) == 2000);
  CHECK(trial(2000) == 8000);
  CHECK(trial(4000) == 8000);
  std::vector<trace_row> wordy{rows};
  for (trace_row& r : wordy) r.output_tokens = 16'000;
  CHECK(sim::detail::steady_trial_rows(wordy) == 2000);
  CHECK(sim::detail::steady_trial_rows(std::span{wordy}.first(300)) == 1200);
}

}  // namespace
