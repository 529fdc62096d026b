// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/fcfs.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/input/archetypes.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/policies/due_first.hpp>
#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/systems/replanning.hpp>

#include "sim/profile_cluster.hpp"
#include "sim/replanning_runs.hpp"
#include "sim/served.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"
#include "support/is_slow.hpp"

#include <algorithm>
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
using tessera_test::replanning_runs::quiet;

TEST_CASE("replanning: stages that begin while an instance is dead do without it, until it is back") {
  auto o = tessera_test::toy_cluster(4, 240);
  o.detection_s = 0.25;
  o.faults = {{.kind = sim::fault_kind::dies, .instance = 0, .at_s = 0.1, .for_s = 10}};
  std::vector<trace_row> rows;
  for (int i = 0; i != 400; ++i) rows.push_back(tessera_test::row(0.05 * i, 10, 0, 4));
  instance_layout stages;
  stages.kind = sim::layout_kind::stages;
  stages.stages.stages = {{.from = tokens{}, .to = tokens{64}, .instances = 2},
                          {.from = tokens{64}, .to = partition::unbounded, .instances = 2}};
  stages.stages.refine = sim::refinement::none;
  sim::learned_lengths lengths;
  replanning control{{.model = sim::calibrate_prefill(o.instance.timer, sim::default_ttft_target),
                      .bounds = std::vector<tokens>(4),
                      .first_plan = 1,
                      .first_window = 4},
                     lengths,
                     {},
                     [&](auto&&...) { return stages; }};
  const run_result r = sim::cluster_of<fcfs<request>, replanning>{o, {}, std::move(control)}.run(rows, quiet);
  CHECK(r.numbers.completed == rows.size());
  CHECK(r.numbers.placement == "headroom, stages");
  std::size_t returned = 0;
  for (const sim::request_record& q : r.requests) {
    CAPTURE(q.id, q.arrival, q.instance);
    if (q.arrival >= 4 && q.arrival < 10) CHECK(q.instance == 1);
    if (q.arrival >= 11) CHECK(q.instance < 2);
    returned += q.arrival >= 11 && q.instance == 0 ? 1U : 0U;
  }
  CHECK(returned > 40);
}

TEST_CASE("replanning: prompts in stages are bounded as the layout says, and not as they are without") {
  const auto o = tessera_test::toy_cluster(4, 2400);
  std::vector<trace_row> rows;
  for (int i = 0; i != 200; ++i) rows.push_back(tessera_test::row(0.5 * i, 96, 0, 40));
  const auto ttft = [&](bool in_stages, std::int64_t usual, std::vector<tokens> bounds) {
    instance_layout layout;
    if (in_stages) layout.kind = sim::layout_kind::stages;
    layout.stages.stages = {{.from = tokens{}, .to = partition::unbounded, .instances = 4}};
    layout.stages.refine = sim::refinement::none;
    layout.bounds = std::move(bounds);
    sim::learned_lengths lengths;
    // The layout is there from the beginning, for there is a history.
    replanning control{{.model = sim::calibrate_prefill(o.instance.timer, sim::default_ttft_target),
                        .bounds = std::vector<tokens>(4, tokens{usual}),
                        .first_plan = 1,
                        .first_window = 4},
                       lengths,
                       rows,
                       [&](auto&&...) { return layout; }};
    const run_result r = sim::cluster_of<fcfs<request>, replanning>{o, {}, std::move(control)}.run(rows, quiet);
    check_served(r, rows);
    return r.numbers.ttft.mean;
  };
  const double unbounded = ttft(true, 0, {});
  const double bounded = ttft(true, 0, std::vector<tokens>(4, tokens{8}));
  CHECK(bounded > 1.5 * unbounded);
  CHECK(ttft(true, 8, {}) == unbounded);
  CHECK(ttft(false, 8, {}) > 1.5 * unbounded);
  CHECK(ttft(false, 8, std::vector<tokens>(4, tokens{96})) < bounded);
}

TEST_CASE("replanning: layouts that change at any moment, while instances die, lose none") {
  double layouts = 0;
  for (std::uint64_t seed = 1; seed <= (tessera_test::is_slow ? 3 : 12); ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random{seed};
    const auto upto = [&](std::uint64_t most) { return static_cast<std::int64_t>(random() % (most + 1)); };
    auto o = tessera_test::toy_cluster(4, 60);
    o.seed = seed;
    o.fabric_bytes_per_s = seed % 2 == 0 ? 20 : 2000;
    o.kv_waits_at_source = seed % 3 == 0;
    std::vector<trace_row> rows;
    double at = 0;
    for (int i = 0; i != 3000; ++i) {
      at += 0.01 * static_cast<double>(upto(20));
      const std::int64_t prompt = 1 + upto(80);
      const std::int64_t answer = 1 + upto(20);
      rows.push_back(tessera_test::row(at, prompt, 0, answer));
    }
    for (double when = 0.5; when < at; when += 0.125 * static_cast<double>(1 + upto(60))) {
      const std::size_t instance = random() % 4;
      const double lasts = 0.125 * static_cast<double>(1 + upto(60));
      o.faults.push_back({.kind = sim::fault_kind::dies, .instance = instance, .at_s = when, .for_s = lasts});
    }
    const auto some_layout = [&](const fleet::traffic_sample&, const instance_layout&) {
      instance_layout l;
      const auto kind = upto(2);
      const auto first = static_cast<std::size_t>(1 + upto(2));
      const tokens cut{20 + upto(80)};
      if (kind == 1) {
        l.kind = sim::layout_kind::stages;
        l.stages.stages = {{.from = tokens{}, .to = cut, .instances = first},
                           {.from = cut, .to = partition::unbounded, .instances = 4 - first}};
        l.stages.refine = sim::refinement::count;
        if (upto(1) == 1) l.bounds.assign(4, tokens{1 + upto(40)});
      } else if (kind == 2) {
        l.kind = sim::layout_kind::pools;
        l.pools = {.prefill = first, .decode = 4 - first, .mixed = 0};
      }
      return l;
    };
    sim::learned_lengths lengths;
    // Any rate is another than that of the plan.
    replanning control{{.model = sim::calibrate_prefill(o.instance.timer, sim::default_ttft_target),
                        .bounds = std::vector<tokens>(4, tokens{64}),
                        .window = 300,
                        .rate_changes = 1},
                       lengths,
                       {},
                       some_layout};
    const run_result r = sim::cluster_of<fcfs<request>, replanning>{o, {}, std::move(control)}.run(rows, quiet);
    check_served(r, rows);
    layouts += r.measures.at("layouts");
    CHECK(r.numbers.faults.deaths > 5);
  }
  CHECK(layouts > (tessera_test::is_slow ? 6 : 24));
}

TEST_CASE("replanning: a server that knows nothing comes to the stages that one with a history begins with") {
  const auto rows = long_tailed(1500, 60, 1);
  const auto history = long_tailed(1500, 60, 2);
  auto h20 = profile_cluster("h20-llama-3.2-3b", 16, 0, 1024);
  listener heard;
  h20.watcher = &heard;
  const run_result learns = sim::run_due_first(h20, rows, {}, {}, quiet);
  check_served(learns, rows);
  CHECK(learns.numbers.placement == "headroom, stages");
  CHECK(learns.measures.at("layouts") >= 2);
  CHECK(learns.measures.at("shifts") == 0);
  CHECK(heard.first("stages by length") > 0);
  h20.watcher = nullptr;
  const run_result knows = sim::run_due_first(h20, rows, history, {}, quiet);
  const run_result colocated = sim::run_due_first(h20, rows, {}, {.stages = false, .pools = false}, quiet);
  check_served(knows, rows);
  check_served(colocated, rows);
  CHECK(knows.numbers.placement == "stages");
  CHECK(colocated.numbers.placement == "headroom");
  CHECK(learns.numbers.tpot.mean < 0.9 * colocated.numbers.tpot.mean);
  CHECK(learns.numbers.tpot.mean < 1.5 * knows.numbers.tpot.mean);
  // The same again, watched or not.
  CHECK(sim::run_due_first(h20, rows, {}, {}, quiet).numbers.e2e.mean == learns.numbers.e2e.mean);
}

TEST_CASE("replanning: pools come and go with the load, and none is lost or served twice") {
  const sim::archetype& mix = *std::find_if(sim::archetypes().begin(), sim::archetypes().end(),
                                            [](const sim::archetype& a) { return a.name == "mix"; });
  const auto rows = sim::generate(mix, {{80, 28}, {60, 8}}, 3, 1);
  auto v100 = profile_cluster("v100-qwen2.5-7b", 8, 0, 256);
  v100.instance.step.token_budget = tokens{2048};
  v100.fabric_bytes_per_s = 75e9;
  for (const bool waits : {false, true}) {
    v100.kv_waits_at_source = waits;
    const run_result r = sim::run_due_first(v100, rows, {}, {}, quiet);
    check_served(r, rows);
    CHECK(r.numbers.placement.starts_with("headroom, pools"));
    CHECK(r.measures.at("plans") >= 3);
  }
  // And when an instance dies meanwhile.
  v100.faults.push_back({.kind = sim::fault_kind::dies, .instance = 2, .at_s = 70, .for_s = 20});
  const run_result r = sim::run_due_first(v100, rows, {}, {}, quiet);
  CHECK(r.numbers.completed == rows.size());
}

TEST_CASE("replanning: a plan that takes its time comes later, and is made from what was known before") {
  const auto o = tessera_test::toy_cluster(4, 2400);
  std::vector<trace_row> rows;
  for (int i = 0; i != 400; ++i) rows.push_back(tessera_test::row(0.1 * i, 16, 0, 4));
  struct outcome {
    run_result result{};
    std::vector<std::size_t> seen{};  // requests in the sample of each plan
    double begins_s = -1;
  };
  const auto run = [&](double plan_s) {
    outcome out;
    auto own = o;
    own.plan_s = plan_s;
    listener heard;
    own.watcher = &heard;
    sim::learned_lengths lengths;
    replanning control{
        {.model = sim::calibrate_prefill(o.instance.timer, sim::default_ttft_target), .bounds = std::vector<tokens>(4)},
        lengths,
        {},
        [&](const fleet::traffic_sample& seen, const instance_layout&) {
          out.seen.push_back(seen.requests.size());
          instance_layout pools{.kind = sim::layout_kind::pools};
          pools.pools = {.prefill = 2, .decode = 2, .mixed = 0};
          return pools;
        }};
    out.result = sim::cluster_of<fcfs<request>, replanning>{own, {}, std::move(control)}.run(rows, quiet);
    check_served(out.result, rows);
    out.begins_s = heard.first("pools from now on");
    return out;
  };
  const outcome at_once = run(0);
  const outcome later = run(5);
  CHECK(at_once.result.numbers.placement == "headroom, pools");
  CHECK(later.result.numbers.placement == "headroom, pools");
  CHECK(later.seen.front() == at_once.seen.front());
  CHECK(later.begins_s == tessera_test::approx(at_once.begins_s + 5));
  // No other plan is asked for while one is made: twice as many have come since by the time that it is there.
  CHECK(later.seen.size() <= at_once.seen.size());
  std::size_t moved_at_once = 0, moved_later = 0;
  for (const sim::request_record& q : at_once.result.requests) moved_at_once += q.migrations;
  for (const sim::request_record& q : later.result.requests) moved_later += q.migrations;
  CHECK(moved_later < moved_at_once);
  // One that takes longer than all that is served changes nothing.
  CHECK(run(1000).result.numbers.placement == "headroom");
}

TEST_CASE("replanning: traffic that always has as many requests here is told from traffic that comes as it likes") {
  const auto rows = sim::generate(sim::find_workload("alpaca-chat"), 3000, 12, 1);
  const auto seen = [&](std::size_t in_flight) {
    auto o = profile_cluster("h100-96gb-qwen-32b", 4, 0, 256);
    o.in_flight = in_flight;
    sim::learned_lengths lengths;
    std::vector<fleet::traffic_sample> all;
    replanning control{
        {.model = sim::calibrate_prefill(o.instance.timer, sim::default_ttft_target), .bounds = std::vector<tokens>(4)},
        lengths,
        {},
        [&](const fleet::traffic_sample& s, const instance_layout& now) {
          all.push_back(s);
          return now;
        }};
    check_served(sim::cluster_of<fcfs<request>, replanning>{o, {}, std::move(control)}.run(rows, quiet), rows);
    return all;
  };
  for (const std::size_t n : {40U, 300U}) {
    CAPTURE(n);
    std::size_t held = 0;
    for (const fleet::traffic_sample& s : seen(n)) {
      held += s.held ? 1U : 0U;
      if (s.held) CHECK(s.here == n);
    }
    CHECK(held >= 2);
  }
  for (const fleet::traffic_sample& s : seen(0)) CHECK(!s.held);
}

TEST_CASE("replanning: of a burst with scores the order is known before anything has ended") {
  auto rows = long_tailed(1200, 1, 3);
  sim::random_engine random{5};
  for (trace_row& r : rows) {
    r.arrival_s = 0;
    r.score = static_cast<float>(std::log(static_cast<double>(r.output_tokens)) + 0.5 * sim::normal(random, 0, 1)) - 9;
  }
  auto one = profile_cluster("h200-llama-3.1-8b", 1, 0, 64);
  const run_result by_scores = sim::run_due_first(one, rows, {}, {}, quiet);
  const run_result without = sim::run_due_first(one, rows, {}, {.predicts = false}, quiet);
  check_served(by_scores, rows);
  CHECK(by_scores.numbers.normalized_latency.mean < 0.7 * without.numbers.normalized_latency.mean);
  CHECK(by_scores.numbers.placement == "headroom");
  // With few steps of scores, half of the queue would be in arrival order. `pars` goes by the scores themselves. Both
  // serve first what has waited for long. That costs a tenth of such a burst. It is 0.0730 s a token with a patience
  // without end, 0.0800 with 60 s. `pars` has 0.0728 without its boost, 0.0776 with it.
  const run_result pars = sim::select_policies(sim::published_policies(), "pars").front().run(one, rows, quiet);
  CHECK(by_scores.numbers.normalized_latency.mean < 1.05 * pars.numbers.normalized_latency.mean);
}

}  // namespace
