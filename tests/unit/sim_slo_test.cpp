// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/measure/slo.hpp>

#include <tessera/sim/random.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace {

namespace sim = tessera::sim;
using tessera_test::approx;

sim::request_record served(double arrival, double ttft, double tpot, std::int64_t tokens) {
  sim::request_record r;
  r.arrival = arrival;
  r.answer_tokens = tokens;
  r.first_token = r.first_answer = arrival + ttft;
  r.finish = r.first_answer + tpot * static_cast<double>(tokens - 1);
  return r;
}

TEST_CASE("slo: what a user says", "[sim]") {
  const auto bounds = sim::parse_slo("ttft_p99=2,tpot_p99.9=0.05,e2e=60,normalized_latency_p50=1e-1");
  REQUIRE(bounds.size() == 4);
  CHECK(bounds[0].metric == sim::slo_metric::ttft);
  CHECK(bounds[0].part == approx(0.99));
  CHECK(bounds[0].seconds == 2);
  CHECK(bounds[1].metric == sim::slo_metric::tpot);
  CHECK(bounds[1].part == approx(0.999));
  CHECK(bounds[2].metric == sim::slo_metric::e2e);
  CHECK(bounds[2].part == 1);
  CHECK(bounds[3].metric == sim::slo_metric::normalized_latency);
  CHECK(bounds[3].seconds == 0.1);
  for (const char* wrong :
       {"",        ",",       "ttft",           "ttft=",     "ttft=0",      "ttft=-1",     "ttft=nan",  "ttft=inf",
        "ttft=2s", "=2",      "ttft_p=2",       "ttft_p0=2", "ttft_p100=2", "ttft_p101=2", "ttft_99=2", "latency=2",
        "TTFT=2",  "ttft=2,", "ttft=2 ,tpot=1", "ttftx=2",   "ttft_p99x=2", "ttft=2=3"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(sim::parse_slo(wrong), sim::usage_error);
  }
  CHECK_THROWS_WITH(sim::parse_slo("ttft=1,ttft_p99=2"), "--slo names ttft twice: one bound for each metric");
}

TEST_CASE("slo: a request meets it within every bound, a run by as many as each bound asks for", "[sim]") {
  std::vector<sim::request_record> requests;
  for (int i = 0; i != 100; ++i) requests.push_back(served(i, 1.0, 0.04, 11));
  requests[3] = served(3, 2.5, 0.04, 11);  // too late
  requests[4] = served(4, 1.0, 0.06, 11);  // too slow
  requests[5] = served(5, 2.0, 0.05, 11);  // at the bounds
  requests[6] = served(6, 1.0, 0, 1);      // has no TPOT
  requests[7].finish = sim::never;         // not finished
  requests[7].first_answer = requests[7].arrival + 9;
  requests[8].rejected = true;
  requests[8].first_answer = requests[8].finish = sim::never;
  const sim::measured_window all{.from = 0, .to = 99};

  auto r = sim::evaluate_slo(sim::parse_slo("ttft_p97=2,tpot_p97=0.05"), requests, all);
  REQUIRE(r.lines.size() == 2);
  CHECK(r.lines[0].within == approx(0.97));
  CHECK(r.lines[0].met);
  CHECK(r.lines[1].within == approx(0.97));
  CHECK(r.lines[1].met);
  CHECK(r.met);
  CHECK(r.attainment == approx(0.96));
  // One arrives in each second: goodput is never more than what comes.
  CHECK(r.goodput_requests_per_s == approx(0.96));
  CHECK(r.goodput_tokens_per_s == approx((95 * 11 + 1) / 100.0));
  CHECK(r.lines[0].value <= 2);  // met, so what 97 of 100 keep is within the bound

  r = sim::evaluate_slo(sim::parse_slo("ttft_p98=2,tpot_p97=0.05"), requests, all);
  CHECK_FALSE(r.lines[0].met);
  CHECK(r.lines[0].value > 2);
  CHECK(r.lines[1].met);
  CHECK_FALSE(r.met);
  CHECK(std::isnan(sim::evaluate_slo(sim::parse_slo("ttft=2"), requests, all).lines[0].value));  // one has none
  CHECK_FALSE(sim::evaluate_slo(sim::parse_slo("ttft=2"), requests, all).met);

  // Only requests that arrive in the window.
  r = sim::evaluate_slo(sim::parse_slo("ttft=2,tpot=0.05"), requests, {.from = 9, .to = 29});
  CHECK(r.met);
  CHECK(r.attainment == 1);
  CHECK(r.goodput_requests_per_s == approx(1));
  r = sim::evaluate_slo(sim::parse_slo("ttft=2"), requests, {.from = 200, .to = 300});
  CHECK_FALSE(r.met);
  CHECK(std::isnan(r.attainment));
  CHECK(sim::evaluate_slo({}, requests, all).lines.empty());
}

TEST_CASE("slo: the first token of any kind is not the first of the answer", "[sim]") {
  const auto bounds = sim::parse_slo("first_token_p95=0.5,ttft_p99=2");
  REQUIRE(bounds.size() == 2);
  CHECK(bounds[0].metric == sim::slo_metric::first_token);
  CHECK(sim::to_string(bounds[0]) == "first_token_p95");
  sim::request_record r = served(1, 20, 0.05, 5);
  r.first_token = 1.25;
  r.reasoning_tokens = 400;
  CHECK(bounds[0].of(r) == approx(0.25));
  CHECK(bounds[1].of(r) == approx(20));
  const auto report = sim::evaluate_slo(bounds, {&r, 1}, {.from = 0, .to = 2});
  CHECK(report.lines[0].met);
  CHECK_FALSE(report.lines[1].met);
  // Policies are promised the first token, where both are bounded.
  CHECK(sim::promise_of(bounds).ttft_s == 0.5);
  CHECK(sim::promise_of(sim::parse_slo("ttft_p99=2,first_token_p95=0.5")).ttft_s == 0.5);
  CHECK(sim::promise_of(sim::parse_slo("first_token=0.5")).ttft_s == 0.5);
}

TEST_CASE("slo: what no request has is met without a value", "[sim]") {
  const std::vector<sim::request_record> one{served(0, 1, 0, 1), served(1, 1, 0, 1)};
  const auto report = sim::evaluate_slo(sim::parse_slo("tpot_p99=0.1"), one, {.from = 0, .to = 1});
  CHECK(report.met);
  CHECK(std::isnan(report.lines[0].value));
}

TEST_CASE("slo: a value has as many digits as tell it from its bound", "[sim]") {
  CHECK(sim::show_beside(1.503, 1.5) == "1.503");
  CHECK(sim::show_beside(1.50003, 1.5) == "1.50003");
  CHECK(sim::show_beside(1.5, 1.5) == "1.5");
  CHECK(sim::show_beside(33.333333, 1.5) == "33.33");
}

TEST_CASE("slo: what policies are told of it", "[sim]") {
  const sim::promise both = sim::promise_of(sim::parse_slo("tpot_p99=0.05,e2e=30,ttft_p99=2"));
  CHECK(both.ttft_s == 2);
  CHECK(both.tpot_s == 0.05);
  CHECK(sim::promises(both));
  const sim::promise one = sim::promise_of(sim::parse_slo("tpot=0.1"));
  CHECK(one.ttft_s == 0);
  CHECK(sim::promises(one));
  CHECK_FALSE(sim::promises(sim::promise_of(sim::parse_slo("e2e_p50=30,normalized_latency=1"))));
}

TEST_CASE("slo: agrees with counting by hand", "[sim]") {
  sim::random_engine rng{7};
  for (int round = 0; round != 200; ++round) {
    std::vector<sim::request_record> requests;
    const auto n = 1 + sim::uniform_below(rng, 60);
    for (std::uint64_t i = 0; i != n; ++i) {
      requests.push_back(served(static_cast<double>(i), sim::exponential(rng), 0.01 * sim::exponential(rng),
                                1 + static_cast<std::int64_t>(sim::uniform_below(rng, 4))));
      if (sim::uniform_below(rng, 5) == 0) requests.back().finish = sim::never;
    }
    const double percent = 1 + static_cast<double>(sim::uniform_below(rng, 99));
    const double most = 0.1 + 2 * sim::uniform(rng);
    const auto r = sim::evaluate_slo({{{.metric = sim::slo_metric::ttft, .part = percent / 100, .seconds = most}}},
                                     requests, {.from = 0, .to = static_cast<double>(n)});
    std::uint64_t within = 0;
    for (const auto& q : requests) within += q.completed() && q.ttft() <= most ? 1U : 0U;
    CHECK(r.attainment == approx(static_cast<double>(within) / static_cast<double>(n)));
    CHECK(r.met == (100 * within >= static_cast<std::uint64_t>(percent) * n));
  }
}

}  // namespace
