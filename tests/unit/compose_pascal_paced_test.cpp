// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/pascal.hpp>
#include <tessera/compose/pascal_paced.hpp>
#include <tessera/core/owned_storage.hpp>

#include "support/catch.hpp"
#include "support/read_engine.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

using request = tessera_test::read_request;
using tessera_test::job;
using tessera_test::run;

}  // namespace

TEST_CASE("pascal_paced: an answer with a store gives way to reasoning and is back before its reader notices") {
  // Memory for one. A answers with 300 tokens: 30 s to read, made in 7.5 s if no other comes. B comes at 5 s, when A's
  // reader has 200 - 50 tokens to go, and reasons for 20 s.
  const std::vector<job> jobs{{0, 0, 300}, {5, 800, 1}};
  const auto paced = run<pascal_paced<request>>(jobs, 1, {.slice = 100_tok, .watermark = 0});
  CHECK(paced[0].qoe.value() == 1.0);
  // B is interrupted once, for the 100 tokens that A still lacks: 2.5 s.
  CHECK(paced[0].state().preemptions == 1);
  CHECK(paced[1].state().preemptions == 1);
  CHECK(paced[1].first_answer == Catch::Detail::Approx(5 + 800 * 0.025 + 2.5 + 0.025).margin(0.1));
  // PASCAL's order leaves A's reader dry from 20 s to the end of B's reasoning at 25 s.
  const auto faithful = run<pascal<request>>(jobs, 1, {.watermark = 0});
  CHECK(faithful[0].qoe.value() < 0.98);
  CHECK(faithful[1].state().reasoning == tokens{800});
}

TEST_CASE("pascal_paced: answers share memory for fewer than they are, and every reader is served") {
  // Twelve answers of 400 tokens in memory for six. All at reading speed need a quarter of the time each: 3 of 6
  // places.
  std::vector<job> jobs(12, job{0, 0, 400});
  for (std::size_t i = 0; i != jobs.size(); ++i) jobs[i].arrives = 3.0 * static_cast<double>(i);
  const auto all = run<pascal_paced<request>>(jobs, 6, {.watermark = 0});
  for (std::size_t i = 0; i != all.size(); ++i) {
    CAPTURE(i);
    CHECK(all[i].qoe.value() == 1.0);
    CHECK(all[i].first_answer - jobs[i].arrives < 0.25);
  }
}

TEST_CASE("pascal_paced: past saturation answers go on, where PASCAL's starve") {
  // Reasoning comes faster than it can be served, in memory for two; one answer is read all the while.
  std::vector<job> jobs{{0, 0, 600}};
  for (int i = 0; i != 60; ++i) jobs.push_back({1.0 + i, 100, 1});
  const auto paced = run<pascal_paced<request>>(jobs, 2, {.watermark = 0});
  CHECK(paced[0].qoe.value() == 1.0);
  const auto faithful = run<pascal<request>>(jobs, 2, {.watermark = 0});
  CHECK(faithful[0].qoe.value() < 0.95);
}

TEST_CASE("pascal_paced: a calm answer that holds its blocks is back in time when reasoning fills the batch") {
  // Blocks for all, and two places in the batch: one request answers, and when it has some in store, two reason for
  // ever.
  const scheduler_limits limits{.blocks = 100'000, .residents = 8};
  auto storage = storage_for<pascal_paced<request>>(limits);
  std::deque<request> all(3);
  pascal_paced<request> scheduler{storage};
  for (request& r : all) r.prompt = 16_tok;
  request& answers = all[0];
  answers.starts_in = phase::answering;
  REQUIRE(scheduler.submit(answers, time_point{}) == status::accepted);
  std::vector<outcome> outcomes;
  bool crowded = false;
  double calm_steps = 0;
  double dry_s = 0;
  for (int step = 1; step != 5'000; ++step) {
    const time_point now = time_point::at_seconds(step * 0.02);
    if (!crowded && order_state<order::paced<>>(answers).level == 2) {
      crowded = true;
      for (int i : {1, 2}) {
        REQUIRE(scheduler.submit(all[static_cast<std::size_t>(i)], now) == status::accepted);
      }
    }
    const auto plan = scheduler.plan(now, {.max_batch = 2});
    for (const auto list : {plan.decode, plan.prefill}) {
      for (const auto& e : list) {
        if (e.request == &answers) answers.pacer.on_token(now);
      }
    }
    outcomes.assign(plan.size(), {});
    scheduler.commit(plan, outcomes, now);
    calm_steps += crowded && order_state<order::paced<>>(answers).level == 2 ? 1 : 0;
    if (step > 1) dry_s = std::max(dry_s, answers.pacer.behind(now).seconds());
  }
  CHECK(crowded);
  CHECK(calm_steps > 1'000);  // most of the time the others have the batch
  CHECK(dry_s == 0);
  CHECK(answers.state().preemptions == 0);
  CHECK(answers.state().life == lifecycle::resident);
  for (request& r : all) CHECK(scheduler.cancel(r) == status::ok);
}
