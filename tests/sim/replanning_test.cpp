// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/input/archetypes.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/policies/due_first.hpp>

#include "sim/cluster_of.hpp"
#include "sim/served.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using sim::request;
using sim::run_result;
using sim::seen_output;
using sim::trace_row;
using tessera_test::check_served;
using tessera_test::cluster_of;

constexpr auto quiet = [](std::size_t) {};
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

std::vector<trace_row> long_tailed(std::size_t n, double rate, std::uint64_t seed) {
  auto rows = sim::generate(sim::find_workload("r1-servegen"), n, rate, seed);
  for (trace_row& r : rows) {
    r.reasoning_tokens = 0;
    r.answer_tokens = r.output_tokens;
  }
  return rows;
}

/// Keeps what a run says of no one request.
class listener : public sim::run_watcher {
 public:
  [[nodiscard]] bool asks(std::size_t, double) const override { return false; }
  [[nodiscard]] bool asks_of_steps(double) const override { return false; }
  void tell(sim::request_event) override {}
  void tell(sim::request_step) override {}
  void tell(sim::instance_step) override {}
  void note(double at_s, std::string words) override { said.emplace_back(at_s, std::move(words)); }

  [[nodiscard]] double first(std::string_view part) const {
    const auto at = std::find_if(said.begin(), said.end(),
                                 [part](const auto& s) { return s.second.find(part) != std::string::npos; });
    return at == said.end() ? -1 : at->first;
  }
  std::vector<std::pair<double, std::string>> said;
};

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
    CHECK(lengths.expected_of(nan) == 0);
    lengths.learn(seen);
    const auto expected = static_cast<double>(lengths.expected_of(nan));
    CAPTURE(seen_part, all, ended / count, expected);
    CHECK(ended / count < 0.7 * all);  // what a mean of those that have ended says
    CHECK(expected > 1.3 * ended / count);
    CHECK(expected < 1.1 * all);
    // And who has run for longest is expected to run on.
    CHECK(lengths.distributions().expected_rest(lengths.expected_of(nan), tokens{100}) > tokens{50});
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
  for (std::size_t i = 0; i != rows.size(); ++i) CHECK(lengths.expected_of(rows[i].score) == expecting[i].score);
  lengths.learn(seen, false);
  for (const trace_row& r : rows) CHECK(lengths.expected_of(r.score) == lengths.expected_of(nan));
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
  CHECK(window.ended() == 2000);
  const auto seen = window.outputs(all);
  CHECK(std::count_if(seen.begin(), seen.end(), [](const seen_output& o) { return o.ended; }) == 667);
  lengths.learn(seen);
  const auto rows = window.rows(all, lengths, true);
  REQUIRE(rows.size() == 1000);
  CHECK(rows.front().arrival_s == 0);
  CHECK(rows.back().arrival_s == Catch::Detail::Approx(249.75));
  double sum = 0;
  for (const trace_row& r : rows) sum += static_cast<double>(r.output_tokens) / 1000;
  CHECK(sum == Catch::Detail::Approx(mean).epsilon(0.1));
  const auto shift = window.find_shift(all);
  CHECK(std::abs(shift.outputs) < 4);
  CHECK(shift.prompts == 0);
  window.forget_half();
  CHECK(window.size() == 500);
  CHECK(window.from_s() == 625);
  window.ended(all[2700]);
  CHECK(window.rows(all, lengths, true).size() == 500);
}

TEST_CASE("replanning: a server that knows nothing comes to the stages that one with a history begins with") {
  const auto rows = long_tailed(1500, 60, 1);
  const auto history = long_tailed(1500, 60, 2);
  auto h20 = cluster_of("h20-llama-3.2-3b", 16, 0, 1024);
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
  const run_result together = sim::run_due_first(h20, rows, {}, {.stages = false, .pools = false}, quiet);
  check_served(knows, rows);
  check_served(together, rows);
  CHECK(knows.numbers.placement == "stages");
  CHECK(together.numbers.placement == "headroom");
  CHECK(learns.numbers.tpot.mean < 0.7 * together.numbers.tpot.mean);
  CHECK(learns.numbers.tpot.mean < 1.5 * knows.numbers.tpot.mean);
  // The same again, watched or not.
  CHECK(sim::run_due_first(h20, rows, {}, {}, quiet).numbers.e2e.mean == learns.numbers.e2e.mean);
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
  auto h20 = cluster_of("h20-llama-3.2-3b", 16, 0, 1024);
  listener heard;
  h20.watcher = &heard;
  const run_result r = sim::run_due_first(h20, rows, {}, {.pools = false}, quiet);
  check_served(r, rows);
  CHECK(r.measures.at("shifts") >= 1);
  const double noticed = heard.first("the traffic has changed");
  CHECK(noticed > 60);
  CHECK(noticed < 90);
  const double changed = heard.first("not less than 1.25");
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

TEST_CASE("replanning: pools come and go with the load, and nobody is lost or served twice") {
  const sim::archetype& mix = *std::find_if(sim::archetypes().begin(), sim::archetypes().end(),
                                            [](const sim::archetype& a) { return a.name == "mix"; });
  const auto rows = sim::generate(mix, {{80, 28}, {60, 8}}, 3, 1);
  auto v100 = cluster_of("v100-qwen2.5-7b", 8, 0, 256);
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

TEST_CASE("replanning: of a burst with scores the order is known before anything has ended") {
  auto rows = long_tailed(1200, 1, 3);
  sim::random_engine random{5};
  for (trace_row& r : rows) {
    r.arrival_s = 0;
    r.score = static_cast<float>(std::log(static_cast<double>(r.output_tokens)) + 0.5 * sim::normal(random, 0, 1)) - 9;
  }
  auto one = cluster_of("h200-llama-3.1-8b", 1, 0, 64);
  const run_result by_scores = sim::run_due_first(one, rows, {}, {}, quiet);
  const run_result without = sim::run_due_first(one, rows, {}, {.predicts = false}, quiet);
  check_served(by_scores, rows);
  CHECK(by_scores.numbers.normalized_latency.mean < 0.7 * without.numbers.normalized_latency.mean);
  CHECK(by_scores.numbers.placement == "headroom");
}

}  // namespace
