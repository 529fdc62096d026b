// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What a server knows of the outputs that come, and of the rate.

#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/systems/replanning.hpp>

#include "sim/replanning_runs.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using sim::request;
using sim::seen_output;
using sim::trace_row;
using tessera_test::replanning_runs::nan;

TEST_CASE("replanning: while most still run, the short ones that have ended are not taken for all") {
  std::mt19937 random{1};
  std::exponential_distribution<double> spread{1};
  for (const double seen_part : {0.5, 1.0, 2.0}) {
    std::vector<seen_output> seen;
    double all = 0;
    double ended = 0;
    double count = 0;
    for (int i = 0; i != 4000; ++i) {
      const auto length = 1 + static_cast<std::int64_t>(500 * spread(random));
      const auto age = static_cast<std::int64_t>(500 * seen_part * static_cast<double>(i) / 4000);
      all += static_cast<double>(length) / 4000;
      if (length <= age) {
        ended += static_cast<double>(length);
        count += 1;
      }
      seen.push_back({nan, tokens{std::min(length, age)}, length <= age});
    }
    sim::learned_lengths lengths;
    CHECK(lengths.expected_of(nan, {}) == 0);
    lengths.learn(seen);
    const auto expected = static_cast<double>(lengths.expected_of(nan, {}));
    CAPTURE(seen_part, all, ended / count, expected);
    CHECK(ended / count < 0.7 * all);  // what a mean of those that have ended says
    CHECK(expected > 1.3 * ended / count);
    CHECK(expected < 1.1 * all);
    // And a request that has run for longest is expected to run on.
    CHECK(lengths.distributions().expected_rest(lengths.expected_of(nan, {}), tokens{100}) > tokens{50});
  }
}

TEST_CASE("replanning: scores are learned as from a history, when all has ended") {
  std::mt19937 random{2};
  std::vector<trace_row> rows;
  std::vector<seen_output> seen;
  for (int i = 0; i != 2000; ++i) {
    trace_row r;
    r.output_tokens = 1 + static_cast<std::int64_t>(random() % 1000);
    const auto noise = static_cast<double>(random() % 300);
    r.score = static_cast<float>(static_cast<double>(r.output_tokens) + noise);
    rows.push_back(r);
    seen.push_back({r.score, tokens{r.output_tokens}, true});
  }
  sim::learned_lengths lengths;
  lengths.learn(seen);
  auto expecting = rows;
  sim::expect_lengths(expecting, rows, true);
  for (std::size_t i = 0; i != rows.size(); ++i) CHECK(lengths.expected_of(rows[i].score, {}) == expecting[i].score);
  lengths.learn(seen, false);
  for (const trace_row& r : rows) CHECK(lengths.expected_of(r.score, {}) == lengths.expected_of(nan, {}));
}

TEST_CASE("replanning: without scores a class of prompts says what is expected, with scores they do") {
  std::mt19937 random{7};
  std::exponential_distribution<double> spread{1};
  std::vector<seen_output> seen;
  for (int i = 0; i != 1000; ++i) {
    const bool question = i % 2 == 0;
    const auto length = 1 + static_cast<std::int64_t>((question ? 40 : 1600) * spread(random));
    const auto prompt = question ? 20 + random() % 50 : 2000 + random() % 3000;
    // One of five runs yet; those are not taken for short.
    const bool ended = i % 5 != 0 || length < 30;
    seen.push_back({nan, tokens{ended ? length : 30}, ended, tokens{static_cast<std::int64_t>(prompt)}});
  }
  sim::learned_lengths lengths;
  CHECK(lengths.expected_of(nan, tokens{30}) == 0);
  lengths.learn(seen);
  CHECK(lengths.expected_of(nan, tokens{30}) < 80);
  CHECK(lengths.expected_of(nan, tokens{30}) > 25);
  CHECK(lengths.expected_of(nan, tokens{2500}) > 1300);
  CHECK(lengths.expected_of(nan, tokens{2500}) < 2200);
  // How long those will be that have come so far is learned by class, too.
  const auto rest_of = [&](std::int64_t prompt) {
    return lengths.distributions().expected_rest(lengths.expected_of(nan, tokens{prompt}), tokens{60}).count();
  };
  CHECK(10 * rest_of(30) < rest_of(2500));
  // A request with a score is expected to be what the score says.
  for (seen_output& o : seen) o.score = 1;
  lengths.learn(seen);
  CHECK(lengths.expected_of(1, tokens{30}) == lengths.expected_of(1, tokens{2500}));
  CHECK(lengths.expected_of(nan, tokens{30}) == lengths.expected_of(nan, tokens{2500}));
  // Where scores are not looked at, it is as if there were none.
  lengths.learn(seen, false);
  CHECK(10 * lengths.expected_of(nan, tokens{30}) < lengths.expected_of(nan, tokens{2500}));
}

TEST_CASE("replanning: kinds are told apart however many wait") {
  std::mt19937 random{9};
  std::exponential_distribution<double> spread{1};
  for (const std::size_t waiting : {0U, 5U, 8U}) {
    std::vector<seen_output> seen;
    for (std::size_t i = 0; i != 1000; ++i) {
      const bool question = i % 2 == 0;
      const bool waits = i / 2 % 10 < waiting;
      const auto length = 1 + static_cast<std::int64_t>((question ? 60 : 1500) * spread(random));
      seen.push_back({nan, tokens{waits ? 0 : length}, !waits, tokens{question ? 50 : 3000}});
    }
    sim::learned_lengths lengths;
    lengths.learn(seen);
    CAPTURE(waiting);
    CHECK(lengths.expected_of(nan, tokens{50}) < 90);
    CHECK(lengths.expected_of(nan, tokens{3000}) > 1000);
  }
}

TEST_CASE("replanning: a window has the last requests, and for those that run a length that they may come to") {
  constexpr std::size_t n = 3000;
  std::vector<request> all(n);
  std::mt19937 random{4};
  std::exponential_distribution<double> spread{1};
  sim::traffic_window window{1000};
  window.starts(n);
  CHECK(window.rate() == 0);
  for (std::size_t i = 0; i != n; ++i) {
    all[i].index = i;
    all[i].prompt = tokens{100};
    window.arrived(all[i], nan, 0.25 * static_cast<double>(i));
    window.arrived(all[i], nan, 1e9);  // placed anew
    if (i == 10) window.refused(all[i]);
  }
  CHECK(window.size() == 1000);
  CHECK(window.rate() == Catch::Detail::Approx(4));
  CHECK(window.from_s() == 500);
  // Exponential lengths of 300, of which those below 300 have ended; the others wait with nothing yet.
  double mean = 0;
  sim::learned_lengths lengths;
  for (request& r : all) {
    r.output = tokens{1 + static_cast<std::int64_t>(300 * spread(random))};
    if (r.index % 3 != 0) window.ended(r);
    if (r.index >= 2000) mean += static_cast<double>(r.output.count()) / 1000;
  }
  CHECK(window.ended() == 667);  // of those that are remembered
  const auto seen = sim::known_outputs(window.sample(all));
  CHECK(std::count_if(seen.begin(), seen.end(), [](const seen_output& o) { return o.ended; }) == 667);
  lengths.learn(seen);
  const auto rows = sim::rows_of(window.sample(all), lengths, true);
  REQUIRE(rows.size() == 1000);
  CHECK(rows.front().arrival_s == 0);
  CHECK(rows.back().arrival_s == Catch::Detail::Approx(249.75));
  double sum = 0;
  for (const trace_row& r : rows) sum += static_cast<double>(r.output_tokens) / 1000;
  CHECK(sum == Catch::Detail::Approx(mean).epsilon(0.1));
  const auto drift = sim::find_drift(window.sample(all), lengths);
  CHECK(std::abs(drift.outputs) < 4);
  CHECK(drift.prompts == 0);
  window.forget_half();
  CHECK(window.size() == 500);
  CHECK(window.from_s() == 625);
  const std::size_t half = window.ended();
  CHECK((half == 333 || half == 334));
  window.ended(all[2700]);  // which is a multiple of 3
  window.ended(all[100]);   // which is forgotten
  CHECK(window.ended() == half + 1);
  CHECK(sim::rows_of(window.sample(all), lengths, true).size() == 500);
}

TEST_CASE("replanning: in a window's rows a request reasons as long as is known, and none for longer than it may") {
  std::vector<request> all(6);
  double served = 0;
  sim::traffic_window window{100};
  window.starts(all.size());
  for (std::size_t i = 0; i != all.size(); ++i) {
    request& r = all[i];
    r.index = i;
    r.prompt = tokens{100};
    if (i == 1) {
      r.tenant = 3;
      r.service = &served;
    }
    CHECK(window.arrived(r, nan, static_cast<double>(i)));
    CHECK(!window.arrived(r, nan, 1e9));  // placed anew
  }
  // Two have ended, one of which reasoned. Two wait, one of which will. One may not be as long as they are; one was
  // refused.
  all[0].output = tokens{1000};
  all[0].reasoning = tokens{800};
  all[1].output = tokens{1000};
  window.ended(all[0]);
  window.ended(all[1]);
  for (const std::size_t i : {2U, 4U}) all[i].starts_in = phase::reasoning;
  all[3].starts_in = phase::answering;
  all[4].max_output = tokens{50};
  window.refused(all[5]);
  sim::learned_lengths lengths;
  lengths.learn(sim::known_outputs(window.sample(all)));
  const auto rows = sim::rows_of(window.sample(all), lengths, true);
  REQUIRE(rows.size() == 5);
  for (const trace_row& r : rows) CHECK(r.output_tokens == r.reasoning_tokens + r.answer_tokens);
  CHECK(rows[0].reasoning_tokens == 800);
  CHECK(rows[1].reasoning_tokens == 0);
  CHECK(rows[2].output_tokens >= 1000);
  CHECK(rows[2].reasoning_tokens == std::llround(0.8 * static_cast<double>(rows[2].output_tokens)));
  CHECK(rows[3].reasoning_tokens == 0);
  CHECK(rows[4].output_tokens == 50);
  CHECK(rows[4].reasoning_tokens == 40);
  CHECK(rows[0].tenant == -1);
  CHECK(rows[1].tenant == 3);
  std::vector<std::size_t> here;
  window.each_here([&](std::size_t i, float, tokens) { here.push_back(i); });
  CHECK(here == std::vector<std::size_t>{2, 3, 4});
}

TEST_CASE("replanning: the rate is that of the traffic, not that of the night before it") {
  std::vector<request> all(4000);
  for (std::size_t i = 0; i != all.size(); ++i) all[i].index = i;
  sim::traffic_window window{2000};
  window.starts(all.size());
  std::mt19937 random{9};
  std::exponential_distribution<double> spread{20};
  double at = 1e9;
  for (std::size_t i = 0; i != all.size(); ++i) {
    at += i == 2000 ? 7200 : i == 3500 ? 30 : spread(random);
    window.arrived(all[i], nan, at);
    CAPTURE(i);
    if (i > 1000 && i < 3500) CHECK(window.rate() == Catch::Detail::Approx(20).epsilon(0.2));
    // A short one is part of the traffic: 1,023 of them in 51 s and these 30.
    if (i == 3600) CHECK(window.rate() == Catch::Detail::Approx(1023 / 81.0).epsilon(0.2));
  }
  // Bursts are what they are on average.
  sim::traffic_window bursts{2000};
  bursts.starts(all.size());
  for (std::size_t i = 0; i != 1000; ++i) bursts.arrived(all[i], nan, static_cast<double>(i / 100) * 100);
  CHECK(bursts.rate() == Catch::Detail::Approx(1.11).epsilon(0.01));
  // Two at all: nothing but a pause.
  sim::traffic_window two{2000};
  two.starts(all.size());
  two.arrived(all[0], nan, 0);
  two.arrived(all[1], nan, 1000);
  CHECK(two.rate() == Catch::Detail::Approx(1e-3));
}

}  // namespace
