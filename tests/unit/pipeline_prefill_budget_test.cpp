// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A budget for prefill next to decode, in tokens, and how many tokens a time is. Random sequences are in
// tests/property.

#include <tessera/cost/learned_steps.hpp>
#include <tessera/cost/prefill_budget.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <array>
#include <cmath>
#include <deque>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

struct fixture {
  using scheduler_type = iteration_scheduler<request_hook>;
  explicit fixture(bool chunked = true)
      : storage{storage_for<scheduler_type>({.blocks = 64, .block_size = 16_tok, .residents = 8})},
        scheduler{storage, {.chunked_prefill = chunked}} {}
  request_hook& submit(std::int64_t prompt) {
    request_hook& r = requests.emplace_back();
    r.prompt = tokens{prompt};
    REQUIRE(scheduler.submit(r, time_point{}) == status::accepted);
    return r;
  }
  auto plan(tokens prefill) { return scheduler.plan(time_point{}, {.prefill_budget = prefill}); }
  void commit(const step_plan<request_hook>& p) {
    const std::vector<outcome> outcomes(p.size());
    REQUIRE(scheduler.commit(p, outcomes, time_point{}) == status::ok);
  }
  ~fixture() {
    for (request_hook& r : requests) static_cast<void>(scheduler.cancel(r));
  }
  std::deque<request_hook> requests;
  owned_storage<scheduler_limits> storage;
  scheduler_type scheduler;
};

}  // namespace

TEST_CASE("prefill_budget: prompts share it, and decoding requests are not held up") {
  fixture f;
  request_hook& a = f.submit(10);
  f.commit(f.plan(0_tok));
  request_hook& b = f.submit(50);
  request_hook& c = f.submit(10);
  for (int i = 0; i != 3; ++i) {
    const auto p = f.plan(16_tok);
    REQUIRE(p.decode.size() == 1);
    CHECK(p.decode[0].request == &a);
    REQUIRE(p.prefill.size() == 1);
    CHECK(p.prefill[0].request == &b);
    CHECK(p.prefill[0].count == 16_tok);
    CHECK(f.scheduler.why(c) == wait_reason::budget_spent);
    f.commit(p);
  }
  const auto p = f.plan(16_tok);  // 2 of the first, 10 of the second
  REQUIRE(p.prefill.size() == 2);
  CHECK(p.prefill[0].count == 2_tok);
  CHECK(p.prefill[1].count == 10_tok);
  f.commit(p);
}

TEST_CASE("prefill_budget: a resident with a prompt that goes on later lets those behind it decode") {
  fixture f;
  request_hook& a = f.submit(40);
  request_hook& b = f.submit(40);
  f.commit(f.scheduler.plan(time_point{}, {.max_chunk = 20_tok}));  // half of each
  const auto p = f.plan(8_tok);
  REQUIRE(p.size() == 1);
  CHECK(p.prefill[0].request == &a);
  CHECK(f.scheduler.why(a) == wait_reason::none);
  CHECK(f.scheduler.why(b) == wait_reason::budget_spent);
  f.commit(p);
  CHECK(f.scheduler.why(b) == wait_reason::budget_spent);
}

TEST_CASE("prefill_budget: without chunks one prompt may exceed it") {
  fixture f{false};
  request_hook& a = f.submit(40);
  request_hook& b = f.submit(4);
  const auto p = f.plan(8_tok);
  REQUIRE(p.size() == 1);
  CHECK(p.prefill[0].request == &a);
  CHECK(p.prefill[0].count == 40_tok);
  CHECK(f.scheduler.why(b) == wait_reason::budget_spent);
  f.commit(p);
}

TEST_CASE("prefill_in_time: what a step of decodes leaves of the target") {
  const cost::prefill_in_time budget{.target_s = 0.050,
                                     .step_s = 0.010,
                                     .per_decode_s = 0.0001,
                                     .per_context_s = 1e-7,
                                     .per_prefill_s = 0.0001,
                                     .least = 32_tok};
  CHECK(budget(0, 0_tok) >= 399_tok);
  CHECK(budget(0, 0_tok) <= 400_tok);
  CHECK(budget(100, 100'000_tok) >= 199_tok);  // 10 ms for them, 10 ms for what they read
  CHECK(budget(100, 100'000_tok) <= 200_tok);
  CHECK(budget(1000, 0_tok) == 32_tok);                      // too late already: prompts go on all the same
  CHECK(cost::prefill_in_time{}(1, 1_tok) > 1'000'000_tok);  // without coefficients it does not bind
  CHECK(cost::prefill_in_time{.target_s = 0, .step_s = 1, .per_prefill_s = 1, .least = 0_tok}(1, 1_tok) == 1_tok);
}

TEST_CASE("learned_steps: the coefficients are those of the steps that ran, also after they have changed") {
  std::mt19937 random{3};
  cost::learned_steps learned;
  CHECK(learned.budget(0.05)(64, 4096_tok) > 1'000'000_tok);  // nothing is known: nothing is bounded
  std::size_t allocations = 0;
  for (const double slower : {1.0, 1.7, 0.6}) {
    const auto seconds = [&](std::size_t decodes, tokens context, tokens prefill) {
      return slower * (0.008 + 5e-5 * static_cast<double>(decodes) + 2e-8 * static_cast<double>(context.count()) +
                       6e-5 * static_cast<double>(prefill.count()));
    };
    for (int i = 0; i != 6000; ++i) {
      const std::size_t decodes = random() % 200;
      const tokens context{static_cast<std::int64_t>(decodes * (100 + random() % 4000))};
      const tokens prefill{i % 3 == 0 ? static_cast<std::int64_t>(random() % 2048) : 0};
      // Noise of 5 %, and a pause now and then, which says nothing of a step.
      double took = seconds(decodes, context, prefill) * (0.95 + 0.1 * static_cast<double>(random() % 1001) / 1000);
      if (i % 50 == 7) took += 20;
      const tessera_test::no_allocation guard;
      learned.ran(decodes, context, prefill, took);
      allocations += guard.allocations();
    }
    learned.ran(1, 1_tok, 1_tok, 0);  // clocks that stand still or go back teach nothing
    learned.ran(1, 1_tok, 1_tok, -3);
    INFO("slower " << slower);
    for (const std::size_t decodes : {0U, 40U, 150U}) {
      const tokens context{static_cast<std::int64_t>(decodes) * 2000};
      const tokens n = learned.budget(0.05)(decodes, context);
      CHECK(seconds(decodes, context, n) > 0.047);
      CHECK(seconds(decodes, context, n) < 0.053);
    }
  }
  CHECK(allocations == 0);
}

TEST_CASE("least_squares: faded rows count as rows that were shorter from the start") {
  std::mt19937 random{4};
  std::uniform_real_distribution<double> any{0.5, 8};
  cost::least_squares<3> faded;
  cost::least_squares<3> shorter;
  for (int i = 9; i >= 0; --i) {
    const std::array<double, 3> a{any(random), any(random), any(random)};
    const double b = any(random);
    const double length = std::pow(0.7, i);
    faded.fade(0.7);
    faded.add(a, b);
    shorter.add({length * a[0], length * a[1], length * a[2]}, length * b);
  }
  const auto x = faded.solve_nonnegative();
  const auto y = shorter.solve_nonnegative();
  for (std::size_t c = 0; c != 3; ++c) CHECK(x[c] == tessera_test::approx(y[c]).epsilon(1e-9));
  CHECK(faded.residual({}) == tessera_test::approx(shorter.residual({})).epsilon(1e-9));
}
