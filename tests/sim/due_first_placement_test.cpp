// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Where a request goes, and what it is expected to come to.

#include <tessera/compose/due_first.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/round_robin.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/planning/step_bounds.hpp>
#include <tessera/sim/systems/by_headroom.hpp>

#include "sim/due_first_inputs.hpp"
#include "sim/profile_cluster.hpp"
#include "sim/served.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using sim::request;
using sim::run_result;
using sim::trace_row;
using tessera_test::check_served;
using tessera_test::profile_cluster;
using tessera_test::row;
using tessera_test::toy_cluster;
using tessera_test::due_first_inputs::cluster;
using tessera_test::due_first_inputs::numbers;
using tessera_test::due_first_inputs::quiet;
using tessera_test::due_first_inputs::score;

TEST_CASE("due_first: while little is to be done, requests go to all instances in turn") {
  std::vector<trace_row> rows;
  for (int i = 0; i < 12; ++i) rows.push_back(row(100.0 * i, 20, 0, 5));
  const auto o = profile_cluster("h100-96gb-qwen-32b", 4, 0, 64);
  const sim::by_headroom control{sim::calibrate_prefill(o.instance.timer, sim::default_ttft_target)};
  const run_result result = cluster{o, {}, control}.run(rows, quiet);
  check_served(result, rows);
  for (const sim::request_record& r : result.requests) CHECK(r.instance == r.id % 4);
}

TEST_CASE("due_first: and in turn again when a burst of all sizes is over") {
  std::mt19937 random{7};
  std::vector<trace_row> rows;
  for (int i = 0; i != 200; ++i) rows.push_back(row(0, 20 + static_cast<std::int64_t>(random() % 3000), 0, 20));
  for (int i = 0; i != 80; ++i) rows.push_back(row(1000 + 100.0 * i, 20, 0, 5));
  const auto o = profile_cluster("h100-96gb-qwen-32b", 4, 0, 64);
  const sim::by_headroom control{sim::calibrate_prefill(o.instance.timer, sim::default_ttft_target)};
  std::array<int, 4> times{};
  for (const sim::request_record& r : cluster{o, {}, control}.run(rows, quiet).requests) {
    if (r.arrival > 0) ++times[r.instance];
  }
  CHECK(times == std::array<int, 4>{20, 20, 20, 20});
}

TEST_CASE("due_first: no herd of short requests where there is no long one") {
  std::mt19937 random{11};
  std::vector<trace_row> rows;
  for (int i = 0; i != 2000; ++i) {
    rows.push_back(row(i / 60.0, 200, 0, random() % 30 == 0 ? 20'000 : 200));
    rows.back().score = static_cast<float>(rows.back().output_tokens);
  }
  const auto o = profile_cluster("h20-llama-3.2-3b", 8, 0, 256);
  const sim::by_headroom control{sim::calibrate_prefill(o.instance.timer, sim::default_ttft_target)};
  const run_result r = cluster{o, {}, control}.run(rows, quiet);
  // If nothing else counts, eight of 64 that arrive one after the other go to each.
  double largest = 0;
  for (std::size_t i = 1000; i + 64 <= rows.size(); i += 64) {
    std::array<int, 8> times{};
    for (std::size_t k = i; k != i + 64; ++k) ++times[r.requests[k].instance];
    largest += *std::max_element(times.begin(), times.end()) / 15.0;
  }
  CHECK(largest < 64 * 0.35);
}

TEST_CASE("due_first: a request without a score expects nothing, one with a score that many tokens") {
  request r;
  r.score = std::numeric_limits<float>::quiet_NaN();
  CHECK(sim::scored_length{}(r) == tokens{});
  r.score = -3;
  CHECK(sim::scored_length{}(r) == tokens{});
  r.score = 412.7F;
  CHECK(sim::scored_length{}(r) == tokens{412});
  r.score = std::numeric_limits<float>::infinity();
  CHECK(sim::scored_length{}(r) == tokens{1'000'000'000});
}

TEST_CASE("due_first: expected lengths rise with the score, and keep the mean") {
  std::vector<trace_row> rows;
  std::mt19937 random{1};
  double sum = 0;
  for (int i = 0; i != 640; ++i) {
    rows.push_back(row(i, 10, 0, 1 + static_cast<std::int64_t>(random() % 1000)));
    sum += static_cast<double>(rows.back().output_tokens);
  }
  auto scored = rows;
  score(scored, 0.5);
  auto expecting = scored;
  sim::expect_lengths(expecting, scored, true);
  double expected = 0;
  std::size_t kinds = 0;
  for (std::size_t i = 0; i != rows.size(); ++i) {
    expected += static_cast<double>(expecting[i].score);
    for (std::size_t j = 0; j != i; ++j) {
      if (scored[i].score < scored[j].score) CHECK(expecting[i].score <= expecting[j].score);
    }
    if (expecting[i].score != expecting[0].score) ++kinds;
  }
  CHECK(kinds > 100);
  CHECK(expected == Catch::Detail::Approx(sum).margin(1.0 * 640));
  // Without a history nothing is expected, whatever the scores.
  auto unknown = scored;
  sim::expect_lengths(unknown, {}, true);
  for (const trace_row& r : unknown) CHECK(r.score == 0);
  // Without predictions, and without scores, all expect the mean.
  for (const bool predicts : {false, true}) {
    auto same = predicts ? rows : scored;
    const auto history = same;
    sim::expect_lengths(same, history, predicts);
    for (const trace_row& r : same) CHECK(r.score == std::round(sum / 640));
  }
}

TEST_CASE("due_first: a new request goes where most room is left when all have their expected length") {
  auto o = toy_cluster(2, 100);
  const sim::prefill_model model = sim::calibrate_prefill(o.instance.timer, duration{1e9});
  const auto places = [&](std::vector<trace_row> rows) {
    std::vector<std::uint32_t> out;
    const run_result r = cluster{o, {}, sim::by_headroom{model}}.run(rows, quiet);
    for (const sim::request_record& q : r.requests) out.push_back(q.instance);
    return out;
  };
  // The first expects 800 tokens more than it has yet, the second none. The third and the fourth go to the second's
  // instance, though that has more in memory.
  std::vector<trace_row> rows{row(0, 16, 0, 60), row(0.01, 160, 0, 60), row(0.02, 160, 0, 60), row(0.03, 16, 0, 60)};
  rows[0].score = 800;
  CHECK(places(rows) == std::vector<std::uint32_t>{0, 1, 1, 1});
  for (trace_row& r : rows) r.score = 0;
  CHECK(places(rows) == std::vector<std::uint32_t>{0, 1, 0, 1});
}

TEST_CASE("due_first: what has ended, was refused or has moved weighs nothing where it was") {
  auto o = toy_cluster(2, 100);
  o.instance.limits.max_length = tokens{800};
  const sim::prefill_model model = sim::calibrate_prefill(o.instance.timer, duration{1e9});
  // One too long, one that ends with its first token, one that ends after some. Then, when all is empty again, two
  // equals take turns. Anything left on the first would send all to the second.
  for (const auto& [prompt, output] : {std::pair{900, 5}, std::pair{700, 1}, std::pair{300, 40}}) {
    CAPTURE(prompt);
    std::vector<trace_row> rows{row(0, prompt, 0, output), row(1000, 16, 0, 2), row(2000, 16, 0, 2),
                                row(3000, 16, 0, 2)};
    rows[0].score = 50;
    const run_result r = cluster{o, {}, sim::by_headroom{model}}.run(rows, quiet);
    for (const sim::request_record& q : r.requests) {
      if (q.prompt_tokens == 16) CHECK(q.instance == q.id % 2);
      if (q.prompt_tokens == 900) CHECK(q.rejected);
    }
  }
  // The first expects much and reasons on 0. Four of the next six go to 1 and end soon; two come to 0 and stay until
  // memory is tight there. It answers on 1, for long. The last one, which comes when the others have ended, goes to 0.
  o.fabric_bytes_per_s = 1e6;
  std::vector<trace_row> rows{row(0, 160, 30, 500)};
  rows[0].score = 1000;
  for (const std::int64_t output : {2, 2, 2, 60, 2, 60}) rows.push_back(row(0.005, 450, 0, output));
  rows.push_back(row(100, 16, 0, 2));
  const run_result r = cluster{o, {}, sim::by_headroom{model}}.run(rows, quiet);
  REQUIRE(r.numbers.migrations >= 1);
  const auto moved = std::find_if(r.requests.begin(), r.requests.end(), [](auto& q) { return q.migrations > 0; });
  for (const sim::request_record& q : r.requests) {
    if (q.arrival == 100) CHECK(q.instance == 1 - moved->instance);
  }
}

TEST_CASE("due_first: and where prompts wait least, if that is the tighter of both") {
  const auto o = profile_cluster("v100-qwen2.5-7b", 2, 0, 256);
  const sim::prefill_model model = sim::calibrate_prefill(o.instance.timer, duration{1.0});
  // One prompt of 4,000 tokens is half a second of the second that is promised, and a sixtieth of the memory.
  std::vector<trace_row> rows{row(0, 4000, 0, 5)};
  for (int i = 1; i != 5; ++i) rows.push_back(row(0.001 * i, 100, 0, 5));
  for (trace_row& r : rows) r.score = 5;
  const run_result r = cluster{o, {}, sim::by_headroom{model}}.run(rows, quiet);
  CHECK(r.requests.size() == rows.size());
  for (const sim::request_record& q : r.requests) CHECK(q.instance == (q.prompt_tokens == 4000 ? 0 : 1));
}

TEST_CASE("due_first: behind no prompt for the sake of memory that is plenty, by what lengths may err") {
  // When the last two come, the first has ended on 0 and the second is on 1. All expect 50 tokens.
  std::vector<trace_row> rows{row(0, 160, 0, 2), row(0.001, 1200, 0, 300), row(1, 1000, 0, 5), row(1.0001, 800, 0, 5)};
  for (trace_row& r : rows) r.score = 50;
  const auto places = [&](const sim::cluster_options& o) {
    const sim::by_headroom control{sim::calibrate_prefill(o.instance.timer, duration{1e9})};
    std::vector<std::uint32_t> out;
    for (const auto& q : cluster{o, {}, control}.run(rows, quiet).requests) out.push_back(q.instance);
    return out;
  };
  auto o = toy_cluster(2, 1000);
  CHECK(places(o) == std::vector<std::uint32_t>{0, 1, 0, 1});
  o.each.assign(2, o.instance);
  CHECK(places(o) == std::vector<std::uint32_t>{0, 1, 0, 1});
  // A slower one with an empty queue is no equal: headroom counts, and the last goes to 0, behind the third.
  sim::profile slow = tessera_test::toy_profile();
  slow.measured.decode = {{1, 1, 0.375}};
  o.each[1].timer = sim::step_timer{slow};
  CHECK(places(o) == std::vector<std::uint32_t>{0, 1, 0, 0});
  // And where less than half would be free.
  CHECK(places(toy_cluster(2, 100)) == std::vector<std::uint32_t>{0, 1, 0, 0});
}

TEST_CASE("due_first: where decoding takes least while memory is plenty, unless prompts in line take longer") {
  // One that holds 30,000 tokens decodes on 0 all the time: of 400,000, so that memory counts for nothing, but each
  // step reads them. Those that come when no prompt waits go to 1.
  const auto o = profile_cluster("h100-80gb-llama-3.1-8b", 2, 0, 256);
  std::vector<trace_row> rows{row(0, 30'000, 0, 5000)};
  for (int i = 0; i != 4; ++i) rows.push_back(row(10 + 5 * i, 100, 0, 100));
  // Then one to 1 with a prompt of a second, and another right after it.
  rows.push_back(row(40, 15'000, 0, 50));
  rows.push_back(row(40.001, 100, 0, 50));
  const auto places = [&](float expected) {
    for (trace_row& r : rows) r.score = expected;
    rows[0].score = 5000;
    const sim::by_headroom control{sim::calibrate_prefill(o.instance.timer, duration{60})};
    std::vector<std::uint32_t> out;
    for (const auto& q : cluster{o, {}, control}.run(rows, quiet).requests) out.push_back(q.instance);
    return out;
  };
  CHECK(places(100) == std::vector<std::uint32_t>{0, 1, 1, 1, 1, 1, 0});
  // Without an expected output it goes where no request waits for its prompt.
  CHECK(places(0) == std::vector<std::uint32_t>{0, 1, 1, 1, 1, 1, 0});
  // With that much expected output the wait for that prompt is worth it.
  CHECK(places(20'000) == std::vector<std::uint32_t>{0, 1, 1, 1, 1, 1, 1});
}

TEST_CASE("due_first: not where decoding takes least, if later requests would wait there for each other") {
  // One that holds 70,000 tokens decodes on 0 all the time. With so many prompts as come the others would be slower
  // on 1 alone, or have to wait there for a place in its batch.
  struct all {
    double e2e_s = 0;
    std::array<int, 2> times{};
  };
  const auto serve = [&](const sim::cluster_options& o, double rate, std::int64_t prompt, std::int64_t output,
                         auto control) {
    std::vector<trace_row> rows{row(0, 70'000, 0, 12'000)};
    sim::random_engine random{3};
    for (double at = 10; rows.size() != 800;) {
      at += sim::exponential(random, rate);
      rows.push_back(row(at, prompt, 0, output));
    }
    for (trace_row& r : rows) r.score = static_cast<float>(r.output_tokens);
    all found;
    using placed_cluster = sim::cluster_of<tessera::due_first<request, sim::scored_length>, decltype(control)>;
    for (const auto& q : placed_cluster{o, {}, control}.run(rows, quiet).requests) {
      if (q.arrival == 0) continue;
      found.e2e_s += q.e2e();
      ++found.times[q.instance];
    }
    return found;
  };
  const auto compare = [&](std::size_t batch, double rate, std::int64_t prompt, std::int64_t output) {
    auto o = profile_cluster("h100-80gb-llama-3.1-8b", 2, 0, batch);
    const sim::prefill_model model = sim::calibrate_prefill(o.instance.timer, duration{1});
    o = sim::bounded_steps(o, sim::step_bounds(o, model, 0.05));
    const all ours = serve(o, rate, prompt, output, sim::by_headroom{model});
    CHECK(ours.times[0] < ours.times[1]);
    // In turn, which is what the least prefill backlog comes to, and by what is held.
    CHECK(ours.e2e_s < 1.02 * serve(o, rate, prompt, output, sim::placed<placement::round_robin>{}).e2e_s);
    CHECK(ours.e2e_s < 1.02 * serve(o, rate, prompt, output, sim::placed<placement::least_load>{}).e2e_s);
  };
  compare(256, 10, 1000, 100);
  compare(256, 30, 1000, 100);
  compare(16, 16, 50, 200);
  compare(64, 48, 50, 200);
  compare(4, 4, 50, 200);
}

}  // namespace
