// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/fcfs.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/input/archetypes.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/policies/due_first.hpp>
#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/systems/replanning.hpp>

#include "sim/profile_cluster.hpp"
#include "sim/served.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"
#include "support/is_slow.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using sim::instance_layout;
using sim::replanning;
using sim::request;
using sim::run_result;
using sim::seen_output;
using sim::trace_row;
using tessera_test::check_served;
using tessera_test::profile_cluster;

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
    CHECK(lengths.expected_of(nan, {}) == 0);
    lengths.learn(seen);
    const auto expected = static_cast<double>(lengths.expected_of(nan, {}));
    CAPTURE(seen_part, all, ended / count, expected);
    CHECK(ended / count < 0.7 * all);  // what a mean of those that have ended says
    CHECK(expected > 1.3 * ended / count);
    CHECK(expected < 1.1 * all);
    // And who has run for longest is expected to run on.
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
  const auto shift = window.find_shift(all, lengths);
  CHECK(std::abs(shift.outputs) < 4);
  CHECK(shift.prompts == 0);
  window.forget_half();
  CHECK(window.size() == 500);
  CHECK(window.from_s() == 625);
  const std::size_t half = window.ended();
  CHECK((half == 333 || half == 334));
  window.ended(all[2700]);  // which is a multiple of 3
  window.ended(all[100]);   // which is forgotten
  CHECK(window.ended() == half + 1);
  CHECK(window.rows(all, lengths, true).size() == 500);
}

TEST_CASE("replanning: in a window's rows who reasons does so as long as is known, and nobody for longer than he may") {
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
  lengths.learn(window.outputs(all));
  const auto rows = window.rows(all, lengths, true);
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

/// Of the outputs.
double mean_of(const std::vector<trace_row>& rows) {
  double sum = 0;
  for (const trace_row& r : rows) sum += static_cast<double>(r.output_tokens);
  return sum / static_cast<double>(rows.size());
}

TEST_CASE("replanning: while the long ones wait, nothing has shifted, and they are known to be long") {
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
  lengths.learn(window.outputs(all));
  CHECK(mean_of(window.rows(all, lengths, true)) == Catch::Detail::Approx(mean).epsilon(0.15));
  CHECK(mean_of(window.rows(all, lengths, false)) < 0.5 * mean);
  const auto shift = window.find_shift(all, lengths);
  CHECK(std::abs(shift.outputs) < rank::surely_shifted);
  CHECK(std::abs(shift.scores) < 4);
  CHECK(std::abs(window.find_shift(all, lengths, false).outputs) > rank::surely_shifted);
  // Longer ones from the middle on show in their scores.
  sim::traffic_window other{n};
  other.starts(n);
  for (std::size_t i = 0; i != n; ++i) {
    const double score = (i < n / 2 ? 1.0 : 1.5) * spread(random);
    other.arrived(all[i], static_cast<float>(score), static_cast<double>(i));
  }
  CHECK(other.find_shift(all, lengths).scores > rank::surely_shifted);
  CHECK(other.find_shift(all, lengths, false).scores == 0);
}

TEST_CASE("replanning: without scores, while those with long prompts wait, nothing has shifted either") {
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
  CHECK(std::abs(window.find_shift(all, nothing).outputs) > rank::surely_shifted);  // all one class
  sim::learned_lengths lengths;
  lengths.learn(window.outputs(all));
  CHECK(std::abs(window.find_shift(all, lengths).outputs) < 3);
  // Those that wait come to what others of their class have come to.
  CHECK(mean_of(window.rows(all, lengths, true)) == Catch::Detail::Approx(mean).epsilon(0.1));
}

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

TEST_CASE("replanning: nothing is planned from requests of which none has ended") {
  // Long prompts from the middle on, whose outputs take longer than the window lasts.
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
                       [&](const sim::seen_traffic& seen, const instance_layout& now) {
                         std::size_t known = 0;
                         for (const trace_row& t : seen.rows) known += t.output_tokens >= 20 ? 1U : 0U;
                         CHECK(known > seen.rows.size() / 2);
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

TEST_CASE("replanning: layouts that change at any moment, while instances die, lose nobody") {
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
    const auto some_layout = [&](const sim::seen_traffic&, const instance_layout&) {
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
  const run_result together = sim::run_due_first(h20, rows, {}, {.stages = false, .pools = false}, quiet);
  check_served(knows, rows);
  check_served(together, rows);
  CHECK(knows.numbers.placement == "stages");
  CHECK(together.numbers.placement == "headroom");
  CHECK(learns.numbers.tpot.mean < 0.9 * together.numbers.tpot.mean);
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

TEST_CASE("replanning: pools come and go with the load, and nobody is lost or served twice") {
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

TEST_CASE("replanning: traffic that always has as many requests here is told from traffic that comes as it likes") {
  const auto rows = sim::generate(sim::find_workload("alpaca-chat"), 3000, 12, 1);
  const auto seen = [&](std::size_t in_flight) {
    auto o = profile_cluster("h100-96gb-qwen-32b", 4, 0, 256);
    o.in_flight = in_flight;
    sim::learned_lengths lengths;
    std::vector<sim::seen_traffic> all;
    replanning control{
        {.model = sim::calibrate_prefill(o.instance.timer, sim::default_ttft_target), .bounds = std::vector<tokens>(4)},
        lengths,
        {},
        [&](const sim::seen_traffic& s, const instance_layout& now) {
          all.push_back(s);
          CHECK(s.ended <= s.rows.size());
          return now;
        }};
    check_served(sim::cluster_of<fcfs<request>, replanning>{o, {}, std::move(control)}.run(rows, quiet), rows);
    return all;
  };
  for (const std::size_t n : {40U, 300U}) {
    CAPTURE(n);
    std::size_t held = 0;
    for (const sim::seen_traffic& s : seen(n)) {
      held += s.held ? 1U : 0U;
      if (s.held) CHECK(s.here == n);
    }
    CHECK(held >= 2);
  }
  for (const sim::seen_traffic& s : seen(0)) CHECK(!s.held);
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
  // Few steps of scores would be a line of which half is in arrival order. `pars` goes by the scores themselves.
  const run_result pars =
      sim::select_policies(sim::published_policies(), "pars-unboosted").front().run(one, rows, quiet);
  // It was 5 %, and is 10 since requests that wait for long go first; whether that is the cause was not measured.
  CHECK(by_scores.numbers.normalized_latency.mean < 1.12 * pars.numbers.normalized_latency.mean);
}

}  // namespace
