// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A prompt of more than 16,384 tokens leaves half of what it could take to the prompts behind it. It gets back what
// they leave over.

#include <tessera/compose/due_first.hpp>
#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pars.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/compose/pascal_paced.hpp>
#include <tessera/compose/round_robin.hpp>
#include <tessera/gate/backfill.hpp>
#include <tessera/pacing/token_pacer.hpp>

#include "support/catch.hpp"
#include "support/step_engine.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace {

using namespace tessera;
using namespace tessera::literals;

struct request : tessera_test::prompt_request<request_hook_for<order::round_robin, order::two_phase, order::ranked<>,
                                                               order::paced<>, order::earliest_due<>>> {
  float score = 0;
  token_pacer pacer{};
  tokens expected_output{100};
};
template <class Scheduler>
using engine_of = tessera_test::step_engine<Scheduler>;
constexpr scheduler_limits large{.blocks = 30'000, .residents = 8, .max_length = 450'000_tok};

}  // namespace

TEMPLATE_TEST_CASE("long prompts: a short prompt behind one of 400,000 tokens has its first token after one step", "",
                   fcfs<request>, round_robin<request>, pascal<request>, pascal_paced<request>, pars<request>,
                   due_first<request>) {
  engine_of<TestType> e{large};
  const request& big = e.submit(400'000, 100);
  e.step();
  const request& small = e.submit(100, 100);
  e.count_from_here();
  for (; small.generated() == 0_tok && e.steps < 100; e.step()) {
  }
  CHECK(e.steps == 1);
  // The long one has lost what the others computed, and no more.
  for (; big.generated() == 0_tok && e.steps < 100; e.step()) {
  }
  CHECK(e.steps == 48);
}

TEST_CASE("long prompts: alone, or beside decodes, one takes the whole budget") {
  engine_of<fcfs<request>> e{large};
  const request& decodes = e.submit(16, 0);
  e.step();
  const request& big = e.submit(400'000, 1);
  e.count_from_here();
  for (; big.generated() == 0_tok && e.steps < 100; e.step()) {
    if (e.steps > 0) CHECK(e.computed == tokens{8192} * static_cast<std::int64_t>(e.steps));
  }
  CHECK(e.steps == 49);
  CHECK(decodes.generated() == 50_tok);
}

TEST_CASE("long prompts: nothing of a step is lost when those that wait cannot start") {
  engine_of<fcfs<request>> e{{.blocks = 26'000, .residents = 8, .max_length = 450'000_tok}};
  e.submit(400'000, 1);
  const request& waits = e.submit(20'000, 1);
  for (int i = 0; i != 40; ++i) {
    const auto p = e.plan();
    CHECK(p.computed == 8192_tok);
    CHECK(e.why(waits) == wait_reason::no_blocks);
    e.commit(p);
  }
}

TEST_CASE("long prompts: with max_chunk only that binds, and as large as the budget it puts prompts in turn") {
  engine_of<fcfs<request>> e{large};
  const step_limits chunked{.max_chunk = 8192_tok};
  e.submit(400'000, 100);
  e.step(chunked);
  const request& small = e.submit(100, 100);
  e.count_from_here();
  for (; small.generated() == 0_tok && e.steps < 100; e.step(chunked)) {
  }
  CHECK(e.steps == 48);
}

TEST_CASE("long prompts: below 16,384 tokens left prompts are computed in turn") {
  engine_of<fcfs<request>> e{large};
  e.submit(16'384, 1);
  e.submit(100, 1);
  const auto p = e.plan();
  REQUIRE(p.prefill.size() == 1);
  CHECK(p.prefill[0].count == 8192_tok);
  e.commit(p);
}

TEST_CASE("long prompts: prompts of lower priority take nothing from one but in the step that starts it") {
  engine_of<fcfs<request>> e{large};
  e.submit(100'000, 1);
  e.step();
  const request& urgent = e.submit(40'960, 1, 1);
  for (int i = 0; i != 3; ++i) e.submit(20'000, 1);
  e.count_from_here();
  for (; urgent.generated() == 0_tok && e.steps < 100; e.step()) {
  }
  CHECK(e.steps <= 5 + 1);  // 40,960 / 8,192
  // An equal that is resident has its half, whatever waits.
  const request& equal = e.submit(40'000, 1, 1);
  const request& other = e.submit(40'000, 1, 1);
  e.step();
  const tokens before = equal.state().computed;
  const tokens before_other = other.state().computed;
  e.submit(10, 1);
  e.step();
  CHECK((equal.state().computed - before).count() == 4096);
  CHECK((other.state().computed - before_other).count() == 4096);
}

TEST_CASE("long prompts: backfilled requests take nothing from one") {
  using scheduler = fcfs<request, kv::block_pool, kv::csr_tables, gate::backfill>;
  engine_of<scheduler> e{{.blocks = 26'000, .residents = 8, .max_length = 450'000_tok}};
  e.submit(400'000, 1);
  e.submit(20'000, 1);  // has no blocks, and is first in the queue
  e.submit(100, 1);     // could pass it
  for (int i = 0; i != 40; ++i) {
    const auto p = e.plan();
    REQUIRE(p.prefill.size() == 1);
    CHECK(p.prefill[0].count == 8192_tok);
    e.commit(p);
  }
}
