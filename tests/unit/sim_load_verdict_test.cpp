// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/measure/load_verdict.hpp>

#include <tessera/sim/random.hpp>

#include "support/catch.hpp"
#include "support/is_slow.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

namespace sim = tessera::sim;
using tessera_test::approx;

/// A queue with `servers`, each serving one request a second in the mean, at `load` of what they can: sampled each
/// second.
std::vector<sim::timeline_point> queue(std::uint64_t seed, std::size_t servers, double load, double seconds) {
  sim::random_engine rng{seed};
  const double arrivals = load * static_cast<double>(servers);
  std::vector<sim::timeline_point> line;
  double now = 0;
  std::size_t here = 0;
  double next_sample = 0;
  while (now < seconds) {
    const auto busy = static_cast<double>(std::min(here, servers));
    const double gap = sim::exponential(rng, arrivals + busy);
    for (; next_sample <= now + gap && next_sample <= seconds; next_sample += 1) {
      line.push_back({.time = next_sample, .running = busy, .waiting = static_cast<double>(here) - busy});
    }
    now += gap;
    if (sim::uniform(rng) * (arrivals + busy) < arrivals) {
      ++here;
    } else {
      --here;
    }
  }
  return line;
}

constexpr std::size_t runs = tessera_test::is_slow ? 20 : 200;

std::size_t overloads(std::size_t servers, double load, double seconds) {
  std::size_t n = 0;
  for (std::uint64_t seed = 0; seed != runs; ++seed) {
    const auto v = sim::judge_load(queue(seed, servers, load, seconds), {.from = 0, .to = seconds},
                                   load * static_cast<double>(servers));
    n += v.state == sim::load_state::overload ? 1U : 0U;
  }
  return n;
}

TEST_CASE("load: a trend is as Mann and Kendall's, and Sen's", "[sim]") {
  // Ten values in order: S = 45, of a variance of 10 * 9 * 25 / 18 = 125.
  const std::vector<double> rising{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  CHECK(sim::find_trend(rising).z == approx(44 / std::sqrt(125.0)));
  CHECK(sim::find_trend(rising).slope == 1);
  std::vector<double> falling{rising.rbegin(), rising.rend()};
  CHECK(sim::find_trend(falling).z == approx(-44 / std::sqrt(125.0)));
  CHECK(sim::find_trend(falling).slope == -1);
  CHECK(sim::find_trend(std::vector<double>(9, 3.0)).z == 0);
  CHECK(sim::find_trend(std::vector<double>{1}).z == 0);
  // One that is far off does not move the slope.
  const std::vector<double> outlier{0, 1, 2, 3, 1000, 5, 6, 7, 8};
  CHECK(sim::find_trend(outlier).slope == approx(1).epsilon(0.01));
}

TEST_CASE("load: what is carried, and what is not", "[sim]") {
  // Each line counts 200 runs (20, where that takes too long). The judgement is about long runs: an hour of 16 servers
  // that take a second for a request.
  CHECK(overloads(16, 0.5, 3600) == 0);
  CHECK(overloads(16, 0.8, 3600) == 0);
  CHECK(overloads(16, 0.9, 3600) <= 2);
  CHECK(overloads(16, 1.05, 3600) >= runs - 2);
  CHECK(overloads(16, 1.2, 3600) == runs);
  // Less is known of a short run, but an overload of a fifth shows.
  CHECK(overloads(16, 0.8, 60) <= 4);
  CHECK(overloads(16, 1.2, 60) >= 3 * runs / 4);
}

TEST_CASE("load: says how much is left behind", "[sim]") {
  for (std::uint64_t seed = 0; seed != 20; ++seed) {
    const auto v = sim::judge_load(queue(seed, 16, 1.25, 3600), {.from = 0, .to = 3600}, 20);
    REQUIRE(v.state == sim::load_state::overload);
    CHECK(v.left_behind == approx(0.2).margin(0.02));  // 4 of 20 a second
  }
}

/// Fluid: what arrives at `rate(t)` and what `servers` leave over.
template <class Rate>
std::vector<sim::timeline_point> fluid(Rate rate, double servers, double seconds, double& arrived) {
  std::vector<sim::timeline_point> line;
  double waiting = 0;
  for (double t = 0; t <= seconds; t += 1) {
    arrived += rate(t);
    waiting = std::max(0.0, waiting + rate(t) - servers);
    line.push_back({.time = t, .running = std::min(rate(t), servers), .waiting = waiting});
  }
  return line;
}

TEST_CASE("load: a queue that grows late, or grows and is worked off, is not carried", "[sim]") {
  struct wave {
    double low, high, from, to;
    double operator()(double t) const { return t >= from && t < to ? high : low; }
  };
  const auto judge = [](const wave& w) {
    double arrived = 0;
    const auto line = fluid(w, 16, 3600, arrived);
    return sim::judge_load(line, {.from = 0, .to = 3600}, arrived / 3600);
  };
  // Late: nothing waits for three quarters of the time. In the middle: nothing waits at either end.
  for (const wave w : {wave{8, 32, 3000, 3600}, wave{8, 40, 1500, 1900}}) {
    const auto v = judge(w);
    CHECK(v.state == sim::load_state::overload);
    CHECK(v.left_behind > 0.1);
  }
  // A short burst is no overload, nor one that waits for no more than others take.
  CHECK(judge({8, 32, 2000, 2020}).state == sim::load_state::carried);
  CHECK(judge({8, 16, 1500, 1900}).state == sim::load_state::carried);
  // In a closed loop the number that waits is always the same.
  std::vector<sim::timeline_point> line;
  for (int t = 0; t <= 100; ++t) line.push_back({.time = 1.0 * t, .running = 16, .waiting = 200});
  CHECK(sim::judge_load(line, {.from = 0, .to = 100}, 16, false).state == sim::load_state::carried);
  CHECK(sim::judge_load(line, {.from = 0, .to = 100}, 16).state == sim::load_state::overload);
}

TEST_CASE("load: a batch that still grows is not settled; too few samples say nothing", "[sim]") {
  std::vector<sim::timeline_point> line;
  for (int t = 0; t <= 40; ++t)
    line.push_back({.time = 1.0 * t, .running = 10.0 * t, .waiting = t % 2 == 0 ? 1.0 : 0.0});
  CHECK(sim::judge_load(line, {.from = 0, .to = 40}, 10).state == sim::load_state::unsettled);
  for (auto& p : line) p.running = 100;
  CHECK(sim::judge_load(line, {.from = 0, .to = 40}, 10).state == sim::load_state::carried);
  CHECK(sim::judge_load(line, {.from = 0, .to = 400}, 10).state == sim::load_state::unknown);
  CHECK(sim::judge_load({}, {.from = 0, .to = 40}, 10).state == sim::load_state::unknown);
  CHECK(sim::judge_load(line, {}, 10).state == sim::load_state::unknown);
  CHECK(sim::judge_load(line, {.from = 30, .to = 20}, 10).state == sim::load_state::unknown);
  CHECK(sim::judge_load(line, {.from = 0, .to = 40}, 0).state == sim::load_state::unknown);
}

}  // namespace
