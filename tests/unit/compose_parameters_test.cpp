// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A composition hands on what it is told of its gate and its drafts.

#include <tessera/compose/due_first.hpp>
#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/hrrn.hpp>
#include <tessera/compose/pars.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/compose/pascal_paced.hpp>
#include <tessera/compose/round_robin.hpp>
#include <tessera/draft/unless_busy.hpp>
#include <tessera/gate/fair_tenants.hpp>
#include <tessera/pacing/token_pacer.hpp>

#include "support/catch.hpp"
#include "support/step_engine.hpp"

#include <utility>

namespace {

using namespace tessera;
using namespace tessera::literals;

struct request
    : tessera_test::prompt_request<request_hook_for<order::round_robin, order::two_phase, order::ranked<>,
                                                    order::paced<>, order::earliest_due<>, order::response_ratio<>>> {
  std::uint32_t tenant = 0;
  float score = 0;
  token_pacer pacer{};
  tokens expected_output{};
};

using gate_type = gate::basic_fair_tenants<2>;
using draft_type = draft::unless_busy<>;

template <template <class...> class Composition, class... Parameters>
using shared = Composition<request, Parameters..., kv::block_pool, kv::csr_tables, gate_type, draft_type>;

}  // namespace

TEMPLATE_TEST_CASE("compositions: parameters of the gate and of the drafts", "", shared<fcfs>,
                   (shared<pars, order::score_member>), shared<pascal>, (shared<pascal_paced, order::pacer_member>),
                   shared<round_robin>, (shared<hrrn, order::expected_output_member>),
                   (shared<due_first, order::expected_output_member, order::pacer_member>)) {
  typename TestType::config config;
  config.gate.weights = {1, 3};
  config.draft.waiting = 0;  // never any
  tessera_test::step_engine<TestType> e{
      {.requests = 40, .blocks = 64, .block_size = 4_tok, .residents = 1, .max_length = 40_tok}, config};
  // One after the other, for there is room for one: of four that start three are the second tenant's.
  for (int i = 0; i != 32; ++i) {
    request& r = e.add(4, 4);
    r.tenant = i < 16 ? 0 : 1;
    e.submit(r);
  }
  std::int64_t served[2] = {};
  for (int i = 0; i != 32 * 4; ++i) {
    if (i == 16 * 4) {
      CHECK(served[0] == 16);
      CHECK(served[1] == 48);
    }
    const auto p = e.plan({.lookahead = 2_tok});
    REQUIRE(p.size() == 1);
    CHECK(p[0].lookahead == 0_tok);
    served[p[0].request->tenant] += 1;
    e.commit(p);
  }
  CHECK(served[0] == served[1]);
}

TEMPLATE_TEST_CASE("compositions: the scheduler's switches", "", shared<fcfs>, (shared<pars, order::score_member>),
                   shared<pascal>, (shared<pascal_paced, order::pacer_member>), shared<round_robin>,
                   (shared<hrrn, order::expected_output_member>),
                   (shared<due_first, order::expected_output_member, order::pacer_member>)) {
  const auto first_chunk = [](const typename TestType::config& config) {
    tessera_test::step_engine<TestType> e{
        {.requests = 4, .blocks = 64, .block_size = 4_tok, .residents = 2, .max_length = 60_tok}, config};
    request& r = e.add(32, 8);
    e.submit(r);
    const auto p = e.plan({.token_budget = 8_tok});
    REQUIRE(p.size() == 1);
    const std::pair found{p[0].count, e.scheduler.blocks_held(r)};
    e.commit(p);
    return found;
  };
  CHECK(first_chunk({}) == std::pair{8_tok, 2_blk});
  CHECK(first_chunk({.reserve = reservation::whole_sequence}) == std::pair{8_tok, 8_blk});
  CHECK(first_chunk({.chunked_prefill = false}) == std::pair{32_tok, 8_blk});
  // Beside one that decodes, a step of 32 tokens has no room for a prompt of 32.
  const auto beside = [](bool firm) {
    tessera_test::step_engine<TestType> e{
        {.requests = 4, .blocks = 64, .block_size = 4_tok, .residents = 2, .max_length = 60_tok},
        {.chunked_prefill = false, .firm_budget = firm}};
    e.submit(e.add(8, 8));
    e.commit(e.plan({.token_budget = 32_tok}));
    e.submit(e.add(32, 8));
    const auto p = e.plan({.token_budget = 32_tok});
    const std::size_t prompts = p.prefill.size();
    e.commit(p);
    return prompts;
  };
  CHECK(beside(false) == 1);
  CHECK(beside(true) == 0);
  const auto kept = [](bool keeps) {
    typename TestType::config config;
    config.keep_draft_blocks = keeps;
    config.draft.waiting = 100;
    tessera_test::step_engine<TestType> e{
        {.requests = 4, .blocks = 64, .block_size = 4_tok, .residents = 2, .max_length = 60_tok}, config};
    request& r = e.add(8, 20);
    e.submit(r);
    e.commit(e.plan());
    e.commit(e.plan({.lookahead = 7_tok}));  // all of them refused
    return e.scheduler.blocks_held(r);
  };
  CHECK(kept(false) == 3_blk);
  CHECK(kept(true) == 4_blk);
}
