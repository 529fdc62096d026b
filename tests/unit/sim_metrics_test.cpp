// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/measure/metrics.hpp>
#include <tessera/sim/report/report_json.hpp>

#include <tessera/sim/random.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace {

namespace sim = tessera::sim;
using tessera_test::approx;

/// The piecewise linear function through (i / (n - 1), sorted[i]), found by walking it.
double slow_percentile(const std::vector<double>& sorted, double p) {
  if (sorted.size() == 1) return sorted[0];
  const double step = 1.0 / static_cast<double>(sorted.size() - 1);
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    const double right = static_cast<double>(i) * step;
    if (p <= right || i + 1 == sorted.size()) {
      return sorted[i] - (right - p) / step * (sorted[i] - sorted[i - 1]);
    }
  }
  return sorted.back();
}

TEST_CASE("percentiles are linear between ranks", "[sim]") {
  const std::vector<double> five{1, 2, 3, 4, 10};
  CHECK(sim::percentile(five, 0) == 1);
  CHECK(sim::percentile(five, 0.5) == 3);
  CHECK(sim::percentile(five, 0.9) == approx(7.6));
  CHECK(sim::percentile(five, 1) == 10);
  CHECK(std::isnan(sim::percentile({}, 0.5)));

  sim::random_engine rng{1};
  for (int round = 0; round < 200; ++round) {
    std::vector<double> x;
    const auto n = 1 + sim::uniform_below(rng, 40);
    for (std::uint64_t i = 0; i < n; ++i) x.push_back(std::floor(10 * sim::exponential(rng)));
    std::sort(x.begin(), x.end());
    for (const double p : {0.0, 0.1, 0.5, 0.9, 0.95, 0.99, 1.0, sim::uniform(rng)}) {
      CHECK(sim::percentile(x, p) == approx(slow_percentile(x, p)).margin(1e-9));
    }
  }
}

TEST_CASE("a description leaves NaNs out and does not depend on the order", "[sim]") {
  const auto d = sim::describe({3, sim::never, 1, 2, 10, sim::never, 4});
  CHECK(d.count == 5);
  CHECK(d.mean == 4);
  CHECK(d.p50 == 3);
  CHECK(d.p90 == approx(7.6));
  CHECK(d.p99 == approx(9.76));
  CHECK(d.max == 10);
  CHECK(sim::describe({0.1, 0.2, 0.3, 1e16}).mean == sim::describe({1e16, 0.3, 0.1, 0.2}).mean);
  const auto none = sim::describe({sim::never});
  CHECK(none.count == 0);
  CHECK(std::isnan(none.mean));
  CHECK(std::isnan(none.max));
}

TEST_CASE("an average over time weighs by duration", "[sim]") {
  sim::time_average a;
  CHECK(a.mean() == 0);
  a.add(1, 3);
  a.add(5, 1);
  a.add(100, 0);  // Lasted no time: neither in the mean nor the peak.
  CHECK(a.mean() == 2);
  CHECK(a.peak() == 5);
}

TEST_CASE("a histogram has the exact mean, and quantiles within a bucket", "[sim]") {
  sim::random_engine rng{2};
  sim::count_histogram h;
  sim::count_histogram other;
  CHECK(std::isnan(h.mean()));
  CHECK(std::isnan(h.quantile(0.5)));
  std::vector<double> all;
  double sum = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto x = static_cast<std::uint64_t>(std::exp(20 * sim::uniform(rng)));
    (i % 3 == 0 ? h : other).add(x);
    all.push_back(static_cast<double>(x));
    sum += static_cast<double>(x);
  }
  h.merge(other);
  std::sort(all.begin(), all.end());
  CHECK(h.count() == 20'000);
  CHECK(h.mean() == approx(sum / 20'000));
  for (const double p : {0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const double exact = all[static_cast<std::size_t>(p * 19'999)];
    INFO("p " << p);
    CHECK(h.quantile(p) >= exact);
    CHECK(h.quantile(p) <= exact * (1 + 1.0 / 32) + 1e-9);
  }
}

TEST_CASE("a histogram takes any number", "[sim]") {
  for (unsigned bit = 0; bit < 64; ++bit) {
    for (const std::uint64_t x :
         {(std::uint64_t{1} << bit) - 1, std::uint64_t{1} << bit, (std::uint64_t{1} << bit) + 1}) {
      sim::count_histogram h;
      h.add(x);
      CHECK(h.quantile(0.5) >= static_cast<double>(x));
      CHECK(h.quantile(0.5) <= static_cast<double>(x) * (1 + 1.0 / 32));
    }
  }
  sim::count_histogram h;
  h.add(~std::uint64_t{0});
  CHECK(h.quantile(1) == static_cast<double>(~std::uint64_t{0}));
  tessera_test::no_allocation guard;
  h.add(17);
  const auto allocated = guard.allocations();
  CHECK(allocated == 0);
}

/// A request of PASCAL's kind: reasons, then answers.
sim::request_record answered(double arrival, std::int64_t reasoning, double ttft) {
  sim::request_record r;
  r.arrival = arrival;
  r.prompt_tokens = 10;
  r.reasoning_tokens = reasoning;
  r.answer_tokens = 11;
  r.first_scheduled = arrival;
  r.phase_change = arrival + ttft - 0.5;
  r.answer_scheduled = arrival + ttft - 0.1;
  r.first_answer = arrival + ttft;
  r.finish = arrival + ttft + 1;
  r.qoe = 1;
  return r;
}

TEST_CASE("what follows from a request's moments", "[sim]") {
  const auto r = answered(5, 9, 2);
  CHECK(r.ttft() == approx(2));
  CHECK(r.tpot() == approx(0.1));
  CHECK(r.e2e() == approx(3));
  CHECK(r.normalized_latency() == approx(3.0 / 20));
  CHECK(r.blocking() == approx(0.4));
  CHECK(r.completed());

  sim::request_record single = r;
  single.answer_tokens = 1;
  CHECK(std::isnan(single.tpot()));
  sim::request_record plain = r;
  plain.reasoning_tokens = 0;
  CHECK(std::isnan(plain.blocking()));
  const sim::request_record waiting;
  CHECK_FALSE(waiting.completed());
  CHECK(std::isnan(waiting.ttft()));
  CHECK(std::isnan(waiting.e2e()));
}

TEST_CASE("the tail of TTFT by reasoning length uses the statistic that the samples allow", "[sim]") {
  const auto bins = [](std::size_t n, std::int64_t reasoning) {
    std::vector<sim::request_record> r;
    for (std::size_t i = 0; i < n; ++i) r.push_back(answered(0, reasoning, static_cast<double>(n - i)));
    return sim::tail_by_reasoning(r);
  };
  CHECK(bins(4, 0).empty());
  struct expectation {
    std::size_t n;
    std::string_view stat;
    double p;
  };
  for (const auto& e : {expectation{5, "max", 1},
                        {9, "max", 1},
                        {10, "p90", 0.9},
                        {19, "p90", 0.9},
                        {20, "p95", 0.95},
                        {99, "p95", 0.95},
                        {100, "p99", 0.99},
                        {500, "p99", 0.99}}) {
    INFO(e.n);
    const auto b = bins(e.n, 300);
    REQUIRE(b.size() == 1);
    CHECK(b[0].bin == 256);
    CHECK(b[0].n == e.n);
    CHECK(b[0].stat == e.stat);
    CHECK(b[0].value == approx(1 + e.p * static_cast<double>(e.n - 1)));
  }
  CHECK(bins(5, 255)[0].bin == 0);
  CHECK(bins(5, 256)[0].bin == 256);
  CHECK(bins(5, 5000)[0].bin == 4864);

  // Bins come in order; a request without an answer is in none.
  std::vector<sim::request_record> mixed;
  for (int i = 0; i < 5; ++i) {
    mixed.push_back(answered(0, 1000, 3));
    mixed.push_back(answered(0, 10, 1));
    mixed.push_back(sim::request_record{});
  }
  const auto b = sim::tail_by_reasoning(mixed);
  REQUIRE(b.size() == 2);
  CHECK(b[0].bin == 0);
  CHECK(b[0].n == 5);
  CHECK(b[1].bin == 768);
}

TEST_CASE("a session waits for all its turns, and counts if all were measured and have ended", "[sim]") {
  const auto turn = [](std::int64_t session, double arrival, double took) {
    sim::request_record r = answered(arrival, 4, 1);
    r.session = session;
    r.finish = took < 0 ? sim::never : arrival + took;
    return r;
  };
  const std::vector<sim::request_record> requests{turn(7, 0, 2),  turn(-1, 1, 50), turn(3, 1, 1),  turn(7, 5, 3),
                                                  turn(9, 2, -1), turn(9, 8, 1),   turn(3, 30, 4), turn(-1, 2, 60)};
  CHECK(sim::session_waits(requests) == std::vector<double>{5, 5});
  // A request outside the window excludes its session; a request without a session is in none.
  CHECK(sim::session_waits(requests, {.from = 0, .to = 20}) == std::vector<double>{5});
  CHECK(sim::session_waits(requests, {.from = 2, .to = 40}).empty());
  CHECK(sim::session_waits({}).empty());
  const sim::summary s = sim::summarize(requests, {});
  CHECK(s.session.count == 2);
  CHECK(s.session.mean == 5);
  CHECK(sim::to_json(s).at("session").at("mean") == 5);
  CHECK(sim::summarize(std::vector{answered(0, 9, 2)}, {}).session.count == 0);
  CHECK_FALSE(sim::to_json(sim::summarize(std::vector{answered(0, 9, 2)}, {})).contains("session"));
}

TEST_CASE("a run is summed up", "[sim]") {
  std::vector<sim::request_record> requests{answered(10, 9, 2), answered(12, 19, 4), answered(11, 9, 6)};
  requests[0].preemptions = 2;
  requests[1].migrations = 1;
  requests[1].qoe = 0.94;
  requests[2].qoe = 0.95;  // The target itself is no violation.
  sim::request_record refused;
  refused.rejected = true;
  refused.arrival = 13;
  requests.push_back(refused);
  sim::request_record unfinished = answered(14, 9, 100);
  unfinished.finish = unfinished.qoe = sim::never;
  requests.push_back(unfinished);

  sim::run_facts facts;
  facts.policy = "p";
  facts.kv_transfers = {0.1, 0.3};
  facts.fragmentation.add(0.25, 2);
  facts.scheduler_ns.add(10);
  facts.scheduler_ns.add(20);
  facts.simulated_tokens = 1000;
  facts.wall_seconds = 0.5;
  const auto s = sim::summarize(requests, facts);
  CHECK(s.policy == "p");
  CHECK(s.requests == 5);
  CHECK(s.completed == 3);
  CHECK(s.rejected == 1);
  CHECK(s.ttft.count == 4);  // An answer that has begun counts.
  CHECK(s.ttft.mean == approx((2 + 4 + 6 + 100) / 4.0));
  CHECK(s.ttft.max == approx(100));
  CHECK(s.tpot.mean == approx(0.1));
  CHECK(s.e2e.count == 3);
  CHECK(s.e2e.mean == approx(5));
  CHECK(s.normalized_latency.mean == approx((3 / 20.0 + 5 / 30.0 + 7 / 20.0) / 3));
  CHECK(s.slo_violation_rate == approx(1 / 3.0));
  CHECK(s.qoe_mean == approx((1 + 0.94 + 0.95) / 3));
  CHECK(s.blocking_p99 == approx(0.4));
  CHECK(s.throughput_tokens_per_s == approx((20 + 30 + 20) / 8.0));  // 10 s to 18 s.
  CHECK(s.preemptions == 2);
  CHECK(s.migrations == 1);
  CHECK(s.kv_transfer_p99 == approx(0.298));
  CHECK(s.fragmentation_mean == 0.25);
  CHECK(s.fragmentation_peak == 0.25);
  CHECK(s.scheduler_ns_mean == 15);
  CHECK(s.simulated_tokens_per_wall_s == 2000);
  CHECK(sim::summarize(requests, facts, 0.9).slo_violation_rate == 0);
}

TEST_CASE("a run in which nothing happened has no numbers", "[sim]") {
  const auto s = sim::summarize({}, {});
  CHECK(s.requests == 0);
  CHECK(std::isnan(s.ttft.mean));
  CHECK(std::isnan(s.slo_violation_rate));
  CHECK(s.throughput_tokens_per_s == 0);
  CHECK(s.ttft_by_reasoning_bin.empty());
}

TEST_CASE("prefix hits are a part of the prompts that were measured and served", "[sim]") {
  std::vector<sim::request_record> requests(4);
  for (std::size_t i = 0; i != requests.size(); ++i) {
    requests[i].prompt_tokens = 100;
    requests[i].cached_tokens = 32;
    requests[i].arrival = static_cast<double>(i);
  }
  requests[1].cached_tokens = 0;
  requests[2].rejected = true;
  requests[2].cached_tokens = 0;
  sim::run_facts facts;
  CHECK(sim::summarize(requests, facts).prefix_hit_rate == approx(64.0 / 300));
  facts.window.from = 0.5;
  CHECK(sim::summarize(requests, facts).prefix_hit_rate == approx(32.0 / 200));
  facts.window.from = 1.5;
  facts.window.to = 2.5;
  CHECK(sim::summarize(requests, facts).prefix_hit_rate == 0);
}

}  // namespace
