// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/fcfs.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/planning/pool_plan.hpp>
#include <tessera/sim/systems/disaggregated.hpp>

#include "sim/served.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using sim::pool_plan;
using sim::pool_sizes;
using sim::run_result;
using sim::trace_row;
using tessera_test::row;

TEST_CASE("pools: the divisions that are tried are all that there are, or an even grid of them") {
  for (std::size_t n = 2; n != 12; ++n) {
    const auto two = sim::pool_divisions(n, false);
    CHECK(two.size() == n - 1);
    for (std::size_t p = 1; p != n; ++p) CHECK(two[p - 1] == pool_sizes{p, n - p, 0});
    const auto three = sim::pool_divisions(n, true);
    std::size_t expected = 0;
    for (std::size_t p = 1; p < n; ++p) {
      for (std::size_t d = 1; p + d <= n; ++d) {
        ++expected;
        CHECK(std::count(three.begin(), three.end(), pool_sizes{p, d, n - p - d}) == 1);
      }
    }
    CHECK(three.size() == expected);
  }
  CHECK(sim::pool_divisions(1000, false).size() < 40);
  for (const pool_sizes& s : sim::pool_divisions(1000, true)) CHECK(s.instances() == 1000);
}

/// Carries so much of the trial's load: above, the first token of all comes later than the bound allows.
run_result carries(double capacity, double factor) {
  run_result r;
  r.requests.push_back({.answer_tokens = 1, .arrival = 0, .first_answer = factor / capacity, .finish = 2});
  return r;
}

TEST_CASE("pools: the plan is the division that carries most") {
  const std::vector<sim::slo_bound> slo = sim::parse_slo("ttft=1");
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random{seed};
    const std::size_t n = 2 + random() % 8;
    const bool mixed = random() % 2 == 0;
    std::vector<double> capacity(sim::pool_divisions(n, mixed).size());
    for (double& c : capacity) c = std::exp2(std::uniform_real_distribution<double>{-8, 8}(random));
    const auto of = [&](const pool_sizes& s) {
      const auto all = sim::pool_divisions(n, mixed);
      return capacity[static_cast<std::size_t>(std::find(all.begin(), all.end(), s) - all.begin())];
    };
    std::size_t calls = 0;
    const pool_plan plan = sim::plan_pools(n, slo, mixed, [&](const pool_sizes& s, double factor) {
      ++calls;
      return carries(of(s), factor);
    });
    const double most = *std::max_element(capacity.begin(), capacity.end());
    CHECK(calls <= 16 * capacity.size());
    if (most >= 64) {
      CHECK(plan.factor == 64);
    } else if (most < 1.0 / 64) {
      CHECK(plan.factor == 0);
      CHECK(plan.within == 0);
    } else {
      CHECK(plan.factor <= of(plan.sizes));
      CHECK(plan.factor * 1.05 >= most);
    }
    CHECK(plan.sizes.instances() == n);
    CHECK(plan.within == (of(plan.sizes) >= 1 ? 1 : 0));
  }
}

TEST_CASE("pools: long prompts want more workers to prefill, long answers more to decode") {
  sim::profile p = tessera_test::toy_profile();
  p.measured.prefill = {{1, 0.001}, {1001, 1.001}};  // a millisecond a token
  p.measured.decode = {{1, 1, 0.02}, {64, 1, 0.4}};
  sim::cluster_options o = tessera_test::toy_cluster(6, 1000, p);
  o.fabric_bytes_per_s = 1e9;
  const auto planned = [&](std::int64_t prompt, std::int64_t answer) {
    std::vector<trace_row> rows;
    for (int i = 0; i != 400; ++i) rows.push_back(row(i, prompt, 0, answer));
    const auto run = [&](const pool_sizes& s, double factor) {
      using control = sim::disaggregated<sim::distserve>;
      return sim::cluster_of<fcfs<sim::request>, control>{o, {}, control{s, sim::distserve{}}}.run(
          sim::hurried(rows, factor), [](std::size_t) {});
    };
    const pool_plan plan = sim::plan_pools(6, sim::parse_slo("ttft_p90=4,tpot_p90=0.1"), false, run);
    // None carries half as much again.
    for (const pool_sizes& s : sim::pool_divisions(6, false)) {
      const run_result r = run(s, plan.factor * 1.5);
      CAPTURE(plan.sizes.prefill, plan.factor, s.prefill, sim::to_string(r.numbers.load.state));
      const bool grows = r.numbers.load.state == sim::load_state::overload;
      CHECK(!(sim::evaluate_slo(sim::parse_slo("ttft_p90=4,tpot_p90=0.1"), r.requests, r.window).met && !grows));
    }
    return plan.sizes;
  };
  const pool_sizes of_prompts = planned(800, 4);
  const pool_sizes of_answers = planned(20, 400);
  CHECK(of_prompts.prefill > 3);
  CHECK(of_answers.prefill < 3);
}

TEST_CASE("pools: as the command line says them") {
  CHECK(sim::parse_pools("5/3", 8) == pool_sizes{5, 3, 0});
  CHECK(sim::parse_pools("3/3/2", 8) == pool_sizes{3, 3, 2});
  CHECK(sim::parse_pools("7/1/0", 8) == pool_sizes{7, 1, 0});
  for (const char* wrong : {"", "8", "4/", "4/4/", "/4/4", "4/4/1", "0/8", "8/0", "3/3", "4/4/0/0", "4-4", "a/b",
                            "4/-4", " 4/4", "4/4 ", "99999999999999999999/1"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(sim::parse_pools(wrong, 8), sim::usage_error);
  }
}

}  // namespace
