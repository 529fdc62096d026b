// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/fcfs.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/planning/cascade_plan.hpp>
#include <tessera/sim/report/report.hpp>

#include "sim/served.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"
#include "support/is_slow.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using sim::cascade;
using sim::refinement;
using sim::request;
using sim::run_result;
using sim::stage_balance;
using sim::trace_row;
using tessera_test::approx;
using tessera_test::check_served;
using tessera_test::row;
using tessera_test::toy_cluster;

constexpr auto quiet = [](std::size_t) {};
const cost::qoe_model model{{0.1, 1e-3, 1e-4, 0, 1e-3}};

std::vector<partition::stage> stages(std::initializer_list<std::pair<std::int64_t, std::size_t>> ends_and_instances) {
  std::vector<partition::stage> out;
  tokens from{};
  for (const auto& [end, instances] : ends_and_instances) {
    const tokens to = end == 0 ? partition::unbounded : tokens{end};
    out.push_back({.from = from, .to = to, .instances = instances});
    from = to;
  }
  return out;
}

cascade::config cascade_of(std::vector<partition::stage> plan, refinement refine = refinement::none,
                           stage_balance balance = stage_balance::full) {
  return {.stages = std::move(plan), .balance = balance, .refine = refine, .model = model};
}

/// Watches which request runs where: a request makes tokens on one instance at a time, and only its own.
struct watched : cascade {
  using cascade::cascade;
  std::vector<std::size_t>* homes = nullptr;  ///< Where each request starts.
  std::size_t* moves = nullptr;

  std::size_t place(sim::cluster& c, const request& r) override {
    const std::size_t to = cascade::place(c, r);
    if (homes->size() <= r.index) homes->resize(r.index + 1);
    (*homes)[r.index] = to;
    return to;
  }
  void moved(sim::cluster& c, request& r) override {
    ++*moves;
    std::size_t found = 0;
    for (std::size_t i = 0; i != c.size(); ++i) {
      for (const request* other : c.at(i).requests()) found += other == &r ? 1U : 0U;
    }
    CHECK(found == 1);
  }
};

struct observed {
  run_result result;
  std::vector<std::size_t> homes;
  std::size_t moves = 0;
};

observed run(const sim::cluster_options& options, const cascade::config& c, const std::vector<trace_row>& rows) {
  observed out;
  watched control{c};
  control.homes = &out.homes;
  control.moves = &out.moves;
  sim::cluster_of<fcfs<request>, watched> cluster{options, {}, std::move(control)};
  out.result = cluster.run(rows, quiet);
  for (const sim::instance_view& v : cluster.views()) {
    CHECK(v.requests == 0);
    CHECK(v.kv_held == blocks{});
  }
  return out;
}

std::vector<trace_row> traffic(std::uint64_t seed, int n, double rate, std::int64_t longest_prompt,
                               std::int64_t longest_output) {
  std::mt19937_64 random{seed};
  std::vector<trace_row> rows;
  double at = 0;
  const auto upto = [&](std::int64_t most) {
    return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  for (int i = 0; i < n; ++i) {
    at += std::exponential_distribution<double>{rate}(random);
    rows.push_back(row(at, upto(longest_prompt), 0, upto(longest_output)));
  }
  return rows;
}

TEST_CASE("cascade: every request ends, no token twice, at most three transfers, and the same again") {
  std::size_t moves = 0;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    for (const stage_balance balance : {stage_balance::round_robin, stage_balance::hand_over, stage_balance::full}) {
      const auto refine = static_cast<refinement>(seed % 4);
      CAPTURE(seed, balance, refine);
      // Little memory under even seeds: requests are swapped out, and targets have no room.
      auto options = toy_cluster(6, seed % 2 == 0 ? 24 : 200);
      options.fabric_bytes_per_s = seed % 3 == 0 ? 300 : 3000;
      const auto rows = traffic(seed, 80, 3, 200, 90);
      cascade::config c = cascade_of(stages({{80, 2}, {160, 3}, {0, 1}}), refine, balance);
      c.message_s = seed % 3 == 1 ? 0.004 : 50e-6;
      const observed first = run(options, c, rows);
      check_served(first.result, rows);
      for (const sim::request_record& r : first.result.requests) {
        CHECK(r.executed + r.blocked + r.preempted == approx(r.finish - r.arrival).epsilon(1e-9));
      }
      CHECK(first.result.measures.at("most_transfers") <= 3);
      moves += first.moves;
      const observed second = run(options, c, rows);
      CHECK(sim::format_csv(first.result) == sim::format_csv(second.result));
      CHECK(first.result.measures == second.result.measures);
      CHECK(first.result.curves == second.result.curves);
    }
  }
  CHECK(moves > 200);
}

TEST_CASE("cascade: whichever dies during a hand-over, every request ends, and no token twice") {
  std::size_t moves = 0;
  double unresolved = 0;
  std::uint64_t recovered = 0;
  for (std::uint64_t seed = 1; seed <= (tessera_test::is_slow ? 6 : 40); ++seed) {
    CAPTURE(seed);
    auto options = toy_cluster(6, seed % 2 == 0 ? 40 : 200);
    options.fabric_bytes_per_s = seed % 3 == 0 ? 300 : 3000;
    options.seed = seed;
    const auto rows = traffic(seed, 80, 3, 200, 90);
    cascade::config c = cascade_of(stages({{80, 2}, {160, 3}, {0, 1}}), refinement::none, stage_balance::full);
    c.message_s = 0.01;  // so that there are moments in which a request is granted and not taken over
    std::mt19937_64 random{seed};
    for (int i = 0; i != 60; ++i) {
      const std::size_t who = random() % 6;
      const double at = static_cast<double>(random() % 40'000) / 1000;
      const double down = static_cast<double>(1 + random() % 3000) / 1000;
      options.faults.push_back({.instance = who, .at_s = at, .for_s = down});
    }
    options.detection_s = static_cast<double>(seed % 5) / 4;
    const observed first = run(options, c, rows);
    check_served(first.result, rows);
    moves += first.moves;
    recovered += first.result.numbers.faults.recovered;
    unresolved += first.result.measures.at("market_unresolved");
    CHECK(first.result.measures.at("blocks_still_promised") == 0);
    CHECK(sim::format_csv(first.result) == sim::format_csv(run(options, c, rows).result));
  }
  CHECK(moves > (tessera_test::is_slow ? 50 : 400));
  CHECK(recovered > (tessera_test::is_slow ? 100 : 1000));
  CHECK((tessera_test::is_slow || unresolved > 0));
}

TEST_CASE("cascade: requests start in the stage of their prompt and never end behind that of their length") {
  auto options = toy_cluster(6, 400);
  options.fabric_bytes_per_s = 1e6;
  const auto rows = traffic(5, 150, 2, 300, 80);
  const observed o = run(options, cascade_of(stages({{100, 2}, {200, 3}, {0, 1}})), rows);
  const auto stage_of_length = [](std::int64_t length) { return length < 100 ? 0 : length < 200 ? 1 : 2; };
  const auto stage_of_instance = [](std::size_t i) { return i < 2 ? 0 : i < 5 ? 1 : 2; };
  std::size_t moved_on = 0;
  for (const sim::request_record& r : o.result.requests) {
    CAPTURE(r.id, r.prompt_tokens, r.answer_tokens, r.instance);
    CHECK(stage_of_instance(o.homes[r.id]) == stage_of_length(r.prompt_tokens));
    const std::int64_t length = r.prompt_tokens + r.answer_tokens;
    CHECK(stage_of_instance(r.instance) <= stage_of_length(length));
    // A request that was in a stage for long was handed over to it. The market and the copy take a few steps.
    if (length % 100 > 20 && r.prompt_tokens < length - length % 100) {
      CHECK(stage_of_instance(r.instance) == stage_of_length(length));
      ++moved_on;
    }
  }
  CHECK(moved_on > 5);
}

TEST_CASE("cascade: a sequence that outgrows its range is handed over, in a few steps") {
  auto options = toy_cluster(2, 100);
  const std::vector<trace_row> rows{row(0, 90, 0, 60)};
  const observed o = run(options, cascade_of(stages({{100, 1}, {0, 1}})), rows);
  CHECK(o.moves == 1);
  CHECK(o.result.requests[0].instance == 1);
  CHECK(o.result.requests[0].migrations == 1);
  // It has 100 tokens at the end of its tenth step; then the snapshot takes 0.1 s, and it stops at a step's end.
  CHECK(o.result.instances[0].output_tokens >= 10);
  CHECK(o.result.instances[0].output_tokens <= 14);
  CHECK(o.result.instances[0].output_tokens + o.result.instances[1].output_tokens == 60);
  CHECK(o.result.measures.at("market_offers") == 1);
  CHECK(o.result.measures.at("market_unsold") == 0);
  // One that is long enough from the start goes past the first stage, and one that stays short does not move.
  for (const auto& [prompt, output, where] : {std::tuple{100, 20, 1}, std::tuple{60, 39, 0}}) {
    const std::vector<trace_row> one{row(0, prompt, 0, output)};
    const observed other = run(options, cascade_of(stages({{100, 1}, {0, 1}})), one);
    CHECK(other.moves == 0);
    CHECK(other.result.requests[0].instance == static_cast<std::uint32_t>(where));
  }
}

TEST_CASE("cascade: message times are drawn: of those that bid alike none is always the first to answer") {
  // One request at a time outgrows the first stage, while the four of the second are idle.
  auto options = toy_cluster(5, 100);
  std::vector<trace_row> rows;
  for (int i = 0; i != 200; ++i) rows.push_back(row(20.0 * i, 90, 0, 40));
  const cascade::config drawn = cascade_of(stages({{100, 1}, {0, 4}}));
  const observed one = run(options, drawn, rows);
  std::vector<double> bought(5);
  for (const sim::request_record& r : one.result.requests) bought.at(r.instance) += 1;
  CHECK(bought[0] == 0);
  double chi_square = 0;
  for (std::size_t i = 1; i != 5; ++i) chi_square += (bought[i] - 50) * (bought[i] - 50) / 50;
  CHECK(chi_square < 16.3);  // the 99.9 % quantile for 3 degrees of freedom
  CHECK(sim::format_csv(run(options, drawn, rows).result) == sim::format_csv(one.result));
  options.seed = 2;
  CHECK(sim::format_csv(run(options, drawn, rows).result) != sim::format_csv(one.result));
  // Without a spread nothing is drawn.
  cascade::config exact = drawn;
  exact.message_spread = 0;
  const std::string all_alike = sim::format_csv(run(options, exact, rows).result);
  options.seed = 3;
  CHECK(sim::format_csv(run(options, exact, rows).result) == all_alike);
}

TEST_CASE("cascade: no idle blocks, no transfer: the request goes on where it is") {
  // Instance 1 has 20 blocks, of which the long request takes 18 at once and the rest as it grows.
  auto options = toy_cluster(2, 20);
  const std::vector<trace_row> rows{row(0, 280, 0, 30), row(0.1, 90, 0, 25)};
  const observed o = run(options, cascade_of(stages({{100, 1}, {0, 1}})), rows);
  CHECK(o.result.numbers.completed == 2);
  CHECK(o.moves == 0);
  CHECK(o.result.requests[1].instance == 0);
  CHECK(o.result.requests[1].preemptions == 0);
  CHECK(o.result.numbers.preemptions == 0);
  // With room it would have moved.
  CHECK(run(toy_cluster(2, 60), cascade_of(stages({{100, 1}, {0, 1}})), rows).moves == 1);
}

TEST_CASE("cascade: an instance more than 25 % above the mean of its stage sells what is above") {
  auto options = toy_cluster(2, 200);
  // 400 tokens to instance 0; then 300 and 200 to instance 1. When the first ends, instance 1 is 250 above the mean:
  // the request of 200 is the longest that is no longer than that.
  const std::vector<trace_row> rows{row(0, 400, 0, 8), row(0.001, 300, 0, 60), row(0.002, 200, 0, 60)};
  const observed full = run(options, cascade_of(stages({{0, 2}})), rows);
  REQUIRE(full.homes == std::vector<std::size_t>{0, 1, 1});
  CHECK(full.moves == 1);
  CHECK(full.result.requests[1].instance == 1);
  CHECK(full.result.requests[2].instance == 0);
  CHECK(full.result.requests[2].migrations == 1);
  CHECK(run(options, cascade_of(stages({{0, 2}}), refinement::none, stage_balance::hand_over), rows).moves == 0);
  // 400 against 490 is 10 % above the mean: no request moves while both are there.
  const std::vector<trace_row> even{row(0, 400, 0, 30), row(0.001, 290, 0, 30), row(0.002, 200, 0, 30)};
  CHECK(run(options, cascade_of(stages({{0, 2}})), even).moves == 0);
  cascade::config eager = cascade_of(stages({{0, 2}}));
  eager.trigger.threshold = 1.01;
  CHECK(run(options, eager, even).moves == 0);  // all are longer than the 45 that are above: no request is split
}

TEST_CASE("cascade: refinement moves the boundary to where the lengths are, and rests under low traffic") {
  auto options = toy_cluster(4, 800);
  std::vector<trace_row> rows;
  for (int i = 0; i < 60; ++i) rows.push_back(row(0.3 * i, i % 2 == 0 ? 300 : 600, 0, 40));
  for (const refinement how : {refinement::quality, refinement::memory, refinement::count}) {
    CAPTURE(how);
    const observed o = run(options, cascade_of(stages({{50, 2}, {0, 2}}), how), rows);
    const auto& line = o.result.curves.at("boundary 0");
    REQUIRE(line.size() > 10);
    double furthest = 0;
    for (const auto& [at, boundary] : line) furthest = std::max(furthest, boundary);
    CHECK(furthest > 200);  // it began at 50, where it separates nothing
    CHECK(o.result.measures.at("refinements") > 10);
    CHECK(o.result.instances[0].output_tokens + o.result.instances[1].output_tokens > 300);
  }
  const observed fixed = run(options, cascade_of(stages({{50, 2}, {0, 2}}), refinement::none), rows);
  CHECK(fixed.result.curves.empty());
  CHECK(fixed.result.instances[0].output_tokens + fixed.result.instances[1].output_tokens == 0);
  // Four requests at a time are too few to look at.
  std::vector<trace_row> few;
  for (int i = 0; i < 20; ++i) few.push_back(row(20.0 * (i / 4), i % 2 == 0 ? 300 : 600, 0, 40));
  const observed frozen = run(options, cascade_of(stages({{50, 2}, {0, 2}}), refinement::quality), few);
  CHECK(frozen.result.measures.at("refinements") == 0);
  for (const auto& [at, boundary] : frozen.result.curves.at("boundary 0")) CHECK(boundary == 50);
}

TEST_CASE("cascade: in turn, requests go to the instances of a stage one after the other") {
  auto options = toy_cluster(4, 400);
  const std::vector<trace_row> rows{row(0, 90, 0, 40),   row(0.1, 20, 0, 5),  row(0.2, 90, 0, 40),
                                    row(0.3, 500, 0, 5), row(0.4, 500, 0, 5), row(0.5, 30, 0, 5)};
  const observed o =
      run(options, cascade_of(stages({{100, 2}, {0, 2}}), refinement::none, stage_balance::round_robin), rows);
  CHECK(o.homes == std::vector<std::size_t>{0, 1, 0, 2, 3, 1});
  CHECK(o.moves == 2);
  CHECK(o.result.requests[0].instance != o.result.requests[2].instance);
}

TEST_CASE("cascade: the variation of outputs is that of the instances within a stage") {
  const std::vector<sim::instance_facts> facts{{.output_tokens = 10}, {.output_tokens = 30}};
  CHECK(cascade::output_variation(facts) == approx(0.5));
  CHECK(cascade::output_variation(std::span{facts}.first(1)) == 0);
  const std::vector<sim::instance_facts> idle(3);
  CHECK(cascade::output_variation(idle) == 0);
}

TEST_CASE("cascade plan: every layout covers all lengths with all instances") {
  const auto rows = sim::generate(sim::find_workload("sharegpt"), 800, 90.0, 1);
  for (const std::size_t instances : {std::size_t{1}, std::size_t{3}, std::size_t{16}}) {
    auto options = toy_cluster(instances, 65'000, sim::find_profile("h20-llama-3.2-3b"));
    for (const auto how : {sim::layout::exact, sim::layout::bucketed, sim::layout::merge, sim::layout::chain,
                           sim::layout::flat, sim::layout::steady}) {
      CAPTURE(instances, how);
      for (const double rate : {0.0, 1.0, 90.0, 1e5}) {
        if (rate != 90.0 && how != sim::layout::steady) continue;
        const sim::cascade_plan plan = sim::plan_cascade(options, rows, rate, how);
        REQUIRE(!plan.stages.empty());
        std::size_t used = 0;
        tokens from{};
        for (const partition::stage& s : plan.stages) {
          CHECK(s.from == from);
          CHECK(s.to > s.from);
          from = s.to;
          used += s.instances;
          CHECK(s.instances > 0);
        }
        CHECK(from == partition::unbounded);
        CHECK(used == instances);
        CHECK(plan.cost.held_out_error < 0.089);
        CHECK(plan.cost.constant_error > 0.64);
        if (how == sim::layout::flat) CHECK(plan.stages.size() == 1);
      }
    }
  }
  // Requests that no instance has room for do not matter; nor is it an error if there are no others.
  auto options = toy_cluster(2, 4);
  const std::vector<trace_row> long_ones{row(0, 500, 0, 5)};
  CHECK(!sim::plan_cascade(options, long_ones, 1).stages.empty());
}

TEST_CASE("cascade: blocks that are set apart for a request that another buys in the end are free again") {
  // Over a slow network a target that waits for its turn gives a pull up while the seller confirms the next bidder. For
  // a while two instances have set blocks apart for one request. A pull of a second or a tenth gives up often.
  for (const auto& [pulling, seeds] : {std::pair{1.0, 6}, std::pair{0.1, 24}}) {
    for (int seed = 1; seed <= seeds; ++seed) {
      std::mt19937_64 random{static_cast<std::uint64_t>(seed)};
      const auto upto = [&random](std::uint64_t most) { return static_cast<std::int64_t>(1 + random() % most); };
      std::vector<trace_row> rows;
      double at = 0;
      for (int i = 0; i < 300; ++i) {
        at += std::exponential_distribution<double>{2.0}(random);
        const std::int64_t prompt = upto(200);
        rows.push_back(row(at, prompt, 0, upto(400)));
      }
      auto options = toy_cluster(6, 300);
      options.fabric_bytes_per_s *= 0.04;
      auto config = cascade_of(stages({{200, 3}, {0, 3}}));
      config.market.receiving.pulling = duration{pulling};
      const run_result r = sim::cluster_of<fcfs<request>, cascade>{options, {}, cascade{config}}.run(rows, quiet);
      CAPTURE(pulling, seed);
      CHECK(r.numbers.completed == rows.size());
      CHECK(r.measures.at("market_offers") > 100);
      CHECK(r.measures.at("blocks_still_promised") == 0);
    }
  }
}

TEST_CASE("cascade plan: as many are in flight as memory and batch hold, or as the closed loop has") {
  auto options = toy_cluster(2, 100);  // 1,600 tokens each, 64 in a batch
  const std::vector<trace_row> rows{row(0, 70, 0, 10), row(1, 70, 0, 10)};
  CHECK(sim::most_in_flight(rows, options) == approx(2 * 20));
  const std::vector<trace_row> shorter{row(0, 10, 0, 10)};
  CHECK(sim::most_in_flight(shorter, options) == approx(2 * 64));
  const std::vector<trace_row> longer{row(0, 10'000, 0, 10)};
  CHECK(sim::most_in_flight(longer, options) == 2);
  CHECK(sim::plan_cascade(options, rows, 1).in_flight == approx(40));
  options.in_flight = 7;
  CHECK(sim::plan_cascade(options, rows, 1).in_flight == 7);
}

TEST_CASE("cascade: on long-tailed lengths stages shorten the time per token, as the cost of mixed batches says") {
  const sim::profile p = sim::find_profile("h20-llama-3.2-3b");
  const auto rows = sim::generate(sim::find_workload("r1-servegen"), 700, 40.0, 3);
  const auto history = sim::generate(sim::find_workload("r1-servegen"), 2000, 40.0, 4);
  auto options = toy_cluster(16, static_cast<std::size_t>(p.kv_blocks(tokens{16}).count()), p);
  options.instance.limits.residents = options.instance.step.max_batch = 1024;
  options.instance.step.token_budget = tokens{8192};
  options.fabric_bytes_per_s = p.links.fabric_bytes_per_s;
  options.kv_bytes_per_token = p.model.kv_bytes_per_token();
  const auto tpot = [&](sim::layout how) {
    const sim::cascade_plan plan = sim::plan_cascade(options, history, 40, how);
    return run(options, sim::published_cascade(plan), rows).result.numbers.tpot.mean;
  };
  const double flat = tpot(sim::layout::flat);
  CHECK(tpot(sim::layout::exact) < 0.8 * flat);
  CHECK(tpot(sim::layout::steady) < flat);
}

}  // namespace
