// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What is a change of the traffic, and what is none.

#include <tessera/compose/fcfs.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/policies/due_first.hpp>
#include <tessera/sim/systems/replanning.hpp>

#include "sim/profile_cluster.hpp"
#include "sim/replanning_runs.hpp"
#include "sim/served.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using sim::instance_layout;
using sim::replanning;
using sim::request;
using sim::run_result;
using sim::trace_row;
using tessera_test::check_served;
using tessera_test::profile_cluster;
using tessera_test::replanning_runs::listener;
using tessera_test::replanning_runs::long_tailed;
using tessera_test::replanning_runs::nan;
using tessera_test::replanning_runs::quiet;

/// Mean of the outputs.
double mean_of(const std::vector<trace_row>& rows) {
  double sum = 0;
  for (const trace_row& r : rows) sum += static_cast<double>(r.output_tokens);
  return sum / static_cast<double>(rows.size());
}

TEST_CASE("replanning: while the long ones wait, nothing has drifted, and they are known to be long") {
  std::mt19937 random{11};
  std::exponential_distribution<double> spread{1};
  constexpr std::size_t n = 4000;
  std::vector<request> all(n);
  sim::traffic_window window{n};
  window.starts(n);
  double mean = 0;
  for (std::size_t i = 0; i != n; ++i) {
    request& r = all[i];
    r.index = i;
    const double expected = 500 * spread(random);
    const double noise = 0.5 + spread(random) / 2;
    r.prompt = tokens{100};
    r.output = tokens{1 + static_cast<std::int64_t>(expected * noise)};
    mean += static_cast<double>(r.output.count()) / n;
    window.arrived(r, static_cast<float>(expected), static_cast<double>(i));
    // The shortest are served, and of the older half a few of the others were before there was a line.
    if (expected < 250 || i < n / 10) window.ended(r);
  }
  sim::learned_lengths lengths;
  lengths.learn(sim::known_outputs(window.sample(all)));
  CHECK(mean_of(sim::rows_of(window.sample(all), lengths, true)) == Catch::Detail::Approx(mean).epsilon(0.15));
  CHECK(mean_of(sim::rows_of(window.sample(all), lengths, false)) < 0.5 * mean);
  const auto drift = sim::find_drift(window.sample(all), lengths);
  CHECK(std::abs(drift.outputs) < rank::drift_threshold_z);
  CHECK(std::abs(drift.scores) < 4);
  CHECK(std::abs(sim::find_drift(window.sample(all), lengths, false).outputs) > rank::drift_threshold_z);
  // Longer ones from the middle on show in their scores.
  sim::traffic_window other{n};
  other.starts(n);
  for (std::size_t i = 0; i != n; ++i) {
    const double score = (i < n / 2 ? 1.0 : 1.5) * spread(random);
    other.arrived(all[i], static_cast<float>(score), static_cast<double>(i));
  }
  CHECK(sim::find_drift(other.sample(all), lengths).scores > rank::drift_threshold_z);
  CHECK(sim::find_drift(other.sample(all), lengths, false).scores == 0);
}

TEST_CASE("replanning: without scores, while those with long prompts wait, nothing has drifted either") {
  std::mt19937 random{12};
  std::exponential_distribution<double> spread{1};
  constexpr std::size_t n = 4000;
  std::vector<request> all(n);
  sim::traffic_window window{n};
  window.starts(n);
  double mean = 0;
  std::size_t ended = 0;
  for (std::size_t i = 0; i != n; ++i) {
    request& r = all[i];
    r.index = i;
    const bool question = i % 2 == 0;
    r.prompt = tokens{question ? 50 : 3000};
    r.output = tokens{1 + static_cast<std::int64_t>((question ? 50 : 1000) * spread(random))};
    mean += static_cast<double>(r.output.count()) / n;
    window.arrived(r, nan, static_cast<double>(i));
    // The questions are served, and of the older half most of the others were before there was a line.
    if (!question && i > 2 * n / 5) continue;
    window.ended(r);
    ++ended;
  }
  REQUIRE(ended < 3 * n / 4);
  sim::learned_lengths nothing;
  CHECK(std::abs(sim::find_drift(window.sample(all), nothing).outputs) > rank::drift_threshold_z);  // all one cluster
  sim::learned_lengths lengths;
  lengths.learn(sim::known_outputs(window.sample(all)));
  CHECK(std::abs(sim::find_drift(window.sample(all), lengths).outputs) < 3);
  // Those that wait come to what others of their class have come to.
  CHECK(mean_of(sim::rows_of(window.sample(all), lengths, true)) == Catch::Detail::Approx(mean).epsilon(0.1));
}

TEST_CASE("replanning: nothing is planned from requests of which none has ended") {
  // Long prompts from the middle on, with outputs that take longer than the window lasts.
  std::vector<trace_row> rows;
  for (int i = 0; i != 400; ++i) {
    const bool later = i >= 100;
    rows.push_back(tessera_test::row(0.25 * i, later ? 90 : 30, 0, later ? 200 : 20));
  }
  auto o = tessera_test::toy_cluster(8, 4000);
  for (const std::size_t window : {40U, 200U}) {
    CAPTURE(window);
    listener heard;
    o.watcher = &heard;
    sim::learned_lengths lengths;
    std::size_t plans = 0;
    replanning control{{.model = sim::calibrate_prefill(o.instance.timer, sim::default_ttft_target),
                        .bounds = std::vector<tokens>(8),
                        .window = window},
                       lengths,
                       {},
                       [&](const fleet::traffic_sample& seen, const instance_layout& now) {
                         const std::vector<trace_row> all = sim::rows_of(seen.requests, lengths, true);
                         std::size_t known = 0;
                         for (const trace_row& t : all) known += t.output_tokens >= 20 ? 1U : 0U;
                         CHECK(known > all.size() / 2);
                         ++plans;
                         return now;
                       }};
    const run_result r = sim::cluster_of<fcfs<request>, replanning>{o, {}, std::move(control)}.run(rows, quiet);
    check_served(r, rows);
    CHECK(plans > 0);
    if (window == 200) CHECK(heard.first("prompts are longer") > 25);
  }
}

TEST_CASE("replanning: a line of long ones is no change of the traffic") {
  auto rows = long_tailed(2500, 20, 1);
  sim::random_engine random{1};
  for (trace_row& r : rows) {
    r.score = static_cast<float>(std::log(static_cast<double>(r.output_tokens)) + 0.3 * sim::normal(random, 0, 1));
  }
  const run_result r = sim::run_due_first(profile_cluster("h200-llama-3.1-8b", 1, 0, 64), rows, {}, {}, quiet);
  check_served(r, rows);
  CHECK(r.numbers.load.state == sim::load_state::overload);
  CHECK(r.measures.at("shifts") == 0);
}

TEST_CASE("replanning: a night changes nothing") {
  auto rows = long_tailed(2500, 60, 1);
  for (std::size_t i = 1500; i != rows.size(); ++i) rows[i].arrival_s += 7200;
  auto h20 = profile_cluster("h20-llama-3.2-3b", 16, 0, 1024);
  listener heard;
  h20.watcher = &heard;
  const run_result r = sim::run_due_first(h20, rows, {}, {.pools = false}, quiet);
  check_served(r, rows);
  CHECK(r.numbers.placement == "headroom, stages");
  CHECK(heard.first("requests come a second") < 0);
}

TEST_CASE("replanning: traffic that changes in the middle is noticed, and what is expected and the layout follow") {
  // Short questions, for which stages gain nothing, then long ones.
  std::vector<trace_row> rows;
  std::mt19937 random{5};
  std::exponential_distribution<double> spread{1};
  for (int i = 0; i != 3000; ++i) {
    trace_row r;
    r.arrival_s = static_cast<double>(i) / 50;
    r.prompt_tokens = 200;
    r.output_tokens = r.answer_tokens = 1 + static_cast<std::int64_t>(60 * spread(random));
    rows.push_back(r);
  }
  for (trace_row r : long_tailed(2500, 60, 3)) {
    r.arrival_s += 60;
    rows.push_back(r);
  }
  auto h20 = profile_cluster("h20-llama-3.2-3b", 16, 0, 1024);
  listener heard;
  h20.watcher = &heard;
  const run_result r = sim::run_due_first(h20, rows, {}, {.pools = false}, quiet);
  check_served(r, rows);
  CHECK(r.measures.at("shifts") >= 1);
  const double noticed = heard.first("the traffic has changed");
  CHECK(noticed > 60);
  CHECK(noticed < 90);
  const double changed = heard.first("not less than 1.1");
  CHECK(changed > 60);
  CHECK(changed < 90);
  CHECK(r.numbers.placement == "headroom, stages");
  // All instances alike, as before, are worse for the long ones.
  const auto of_long = [&](const run_result& of) {
    double sum = 0;
    for (const sim::request_record& q : of.requests) sum += q.arrival >= 75 ? q.tpot() : 0;
    return sum;
  };
  CHECK(of_long(r) < 0.8 * of_long(sim::run_due_first(h20, rows, {}, {.stages = false, .pools = false}, quiet)));
}

}  // namespace
