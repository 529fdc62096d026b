// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A prompt leaves a token of the budget to residents behind it of no lower priority, and to no others.

#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/compose/round_robin.hpp>
#include <tessera/preempt/recompute.hpp>

#include "support/catch.hpp"
#include "support/step_engine.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>

namespace {

using namespace tessera;
using namespace tessera::literals;

using request = tessera_test::prompt_request<request_hook_for<order::round_robin, order::two_phase>>;
template <class Scheduler>
using engine_of = tessera_test::step_engine<Scheduler>;
constexpr scheduler_limits many{.blocks = 40'000, .residents = 256, .max_length = 32'768_tok};

/// Steps until a prompt of 4,000 tokens has its first token next to 255 decodes of priority 0.
template <class Scheduler>
std::size_t steps_to_first_token(std::int64_t budget, int priority, std::size_t most) {
  engine_of<Scheduler> e{many};
  const step_limits limits{.max_batch = 256, .token_budget = tokens{budget}};
  for (int i = 0; i != 255; ++i) e.submit(1, 0);
  for (int i = 0; i != 4; ++i) e.step(limits);
  const request& prompt = e.submit(4000, 10, priority);
  e.count_from_here();
  while (prompt.generated() == 0_tok && e.steps != most) e.step(limits);
  return e.steps;
}

}  // namespace

TEMPLATE_TEST_CASE("chunks: an urgent prompt is computed as if it were alone, whatever decodes below it", "",
                   fcfs<request>, round_robin<request>, pascal<request>) {
  CHECK(steps_to_first_token<TestType>(256, 10, 100) == 16);
  CHECK(steps_to_first_token<TestType>(257, 10, 100) == 16);
  CHECK(steps_to_first_token<TestType>(288, 10, 100) == 14);
  CHECK(steps_to_first_token<TestType>(512, 10, 100) == 8);
}

TEST_CASE("chunks: among equals decodes go on, and the prompt has what they leave") {
  CHECK(steps_to_first_token<fcfs<request>>(257, 0, 3000) == 2000);
  CHECK(steps_to_first_token<fcfs<request>>(288, 0, 3000) == 122);
  CHECK(steps_to_first_token<fcfs<request>>(512, 0, 3000) == 16);
  CHECK(steps_to_first_token<fcfs<request>>(288, -1, 3000) == 122);
}

TEST_CASE("chunks: those of lower priority stop for the length of the prompt, and then go on") {
  engine_of<fcfs<request>> e{many};
  const step_limits limits{.max_batch = 256, .token_budget = 256_tok};
  for (int i = 0; i != 255; ++i) e.submit(1, 0);
  for (int i = 0; i != 4; ++i) e.step(limits);
  request& prompt = e.submit(4000, 0, 10);
  for (int i = 0; i != 15; ++i) CHECK(e.step(limits) == 1);
  CHECK(e.step(limits) == 97);  // 160 tokens of the prompt, and 96 decodes
  CHECK(prompt.generated() == 1_tok);
  CHECK(e.step(limits) == 256);
}

TEST_CASE("chunks: a token is left to each that a scan counts, over random priorities and restarts") {
  using scheduler = iteration_scheduler<request, order::fcfs, preempt::recompute>;
  std::size_t cut = 0;
  std::size_t mixed = 0;
  for (unsigned seed = 0; seed != 300; ++seed) {
    std::mt19937 random{seed};
    engine_of<scheduler> e{{.blocks = 4000, .residents = 40, .max_length = 4096_tok}};
    const step_limits all{.max_batch = 40, .token_budget = 8192_tok};
    for (int i = 0; i != 30; ++i) e.submit(1, 0, static_cast<int>(random() % 4));
    e.step(all);
    // Some lose their KV, and go before all until they have made up for it.
    for (int i = 0; i != 30; ++i) {
      request& r = e.requests[static_cast<std::size_t>(i)];
      if (random() % 8 == 0) REQUIRE(e.scheduler.preempt(r) == status::ok);
    }
    request& prompt = e.submit(3000, 0, static_cast<int>(random() % 4));
    const std::int64_t budget = 40 + static_cast<std::int64_t>(random() % 60);
    const auto p = e.plan({.max_batch = 40, .token_budget = tokens{budget}});
    const auto entry =
        std::find_if(p.prefill.begin(), p.prefill.end(), [&](const auto& s) { return s.request == &prompt; });
    if (entry == p.prefill.end()) {
      e.commit(p);
      continue;
    }
    // What had been planned when its turn came: all of higher or equal priority that were there before it. Requests
    // that wait again and rank behind it are left out.
    std::int64_t before = 0;
    std::int64_t owed = 0;
    for (const request* r : e.scheduler.residents()) {
      (r->priority >= prompt.priority ? before : owed) += 1;
    }
    mixed += before != 0 && owed != 0 ? 1U : 0U;
    std::int64_t waited = 0;  // waiting ones that went before it, and took their tokens
    for (const auto& s : p.prefill) {
      if (s.request != &prompt && s.request->priority >= prompt.priority) waited += s.count.count();
    }
    for (const auto& s : p.decode) {
      if (s.request->state().life == lifecycle::waiting && s.request->priority >= prompt.priority) ++waited;
    }
    CAPTURE(seed, budget, before, owed, waited);
    CHECK(entry->count.count() == std::max<std::int64_t>(budget - before - waited, 1));
    cut += entry->count < 3000_tok ? 1U : 0U;
    e.commit(p);
  }
  CHECK(cut > 200);
  CHECK(mixed > 150);
}
