// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A budget for prefill next to decode, in tokens, and how many tokens a time is. Random sequences are in
// tests/property.

#include <tessera/cost/prefill_budget.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/catch.hpp"

#include <deque>
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
