// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/due_first.hpp>
#include <tessera/compose/pars.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/compose/pascal_paced.hpp>
#include <tessera/compose/round_robin.hpp>
#include <tessera/order/fcfs.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/queue/fcfs.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <type_traits>

namespace {

using namespace tessera;
using namespace tessera::literals;

// An order that is not used costs nothing.
static_assert(sizeof(request_state<seconds_clock>) == 80);
static_assert(sizeof(request_hook) <= 128);
static_assert(sizeof(request_hook_for<order::fcfs>) == sizeof(request_hook));
static_assert(sizeof(request_hook_for<order::round_robin>) <= sizeof(request_hook) + 16);
static_assert(sizeof(request_hook_for<order::two_phase>) <= sizeof(request_hook) + 24);
static_assert(sizeof(pascal_request) == sizeof(request_hook_for<order::two_phase>));
static_assert(sizeof(round_robin_request) == sizeof(request_hook_for<order::round_robin>));
// Those that age have the links of a second tree.
static_assert(sizeof(request_hook_for<order::ranked<>>) <= sizeof(request_hook) + 3 * sizeof(void*) + 16);
static_assert(sizeof(request_hook_for<order::paced<>>) <= sizeof(request_hook) + 3 * sizeof(void*) + 40);
static_assert(sizeof(due_first_request) <= sizeof(request_hook) + 3 * sizeof(void*) + 56);
// Several orders share the room of the largest.
static_assert(sizeof(request_hook_for<order::round_robin, order::two_phase>) == sizeof(pascal_request));
static_assert(sizeof(request_hook_for<order::round_robin, order::two_phase, order::paced<>>) ==
              sizeof(pascal_paced_request));

// What a request can be in.
struct plain : request_hook {};
struct turns : request_hook_for<order::round_robin> {};
struct any : request_hook_for<order::round_robin, order::two_phase, order::ranked<>> {
  float score = 0;
};
static_assert(queue_discipline<order::fcfs, plain>);
static_assert(!queue_discipline<order::round_robin, plain>);
static_assert(!queue_discipline<order::ranked<>, plain>);
static_assert(queue_discipline<order::round_robin, turns>);
static_assert(queue_discipline<order::fcfs, turns>);
static_assert(!queue_discipline<order::two_phase, turns>);
static_assert(queue_discipline<order::fcfs, any> && queue_discipline<order::round_robin, any> &&
              queue_discipline<order::two_phase, any> && queue_discipline<order::ranked<>, any>);
static_assert(!any::can_be_in<order::paced<>>);
static_assert(plain::can_be_in<order::fcfs> && !plain::can_age && any::can_age && !turns::can_age);

// It is the same request, whichever order scores it.
struct by_prompt {
  template <schedulable R>
  [[nodiscard]] float operator()(const R& r) const noexcept {
    return static_cast<float>(r.prompt.count());
  }
};
struct scored : pars_request {};
static_assert(queue_discipline<order::ranked<by_prompt>, scored>);

}  // namespace

TEST_CASE("hook: a copy is a description") {
  any a;
  a.prompt = 7_tok;
  a.max_output = 8_tok;
  a.priority = 3;
  a.starts_in = phase::answering;
  fcfs_queue<any> queue;
  queue.push(a, time_point::at_seconds(5));
  const any b = a;
  CHECK(b.prompt == 7_tok);
  CHECK(b.max_output == 8_tok);
  CHECK(b.priority == 3);
  CHECK(b.starts_in == phase::answering);
  CHECK(b.state().length == 0_tok);
  CHECK(b.state().sequence == 0);
  CHECK(b.generated() == 0_tok);
  any c;
  c = a;
  CHECK(c.prompt == 7_tok);
  CHECK_FALSE(queue.contains(c));
  queue.erase(a);
}

TEST_CASE("hook: one type of request goes from a scheduler of one order to one of another, its place begun anew") {
  const scheduler_limits limits{.blocks = 8, .block_size = 4_tok, .residents = 2};
  auto one = storage_for<round_robin<any>>(limits);
  auto two = storage_for<pascal<any>>(limits);
  auto three = storage_for<pars<any>>(limits);
  any r;
  r.prompt = 4_tok;
  r.score = 9;
  {
    round_robin<any> s{one};
    REQUIRE(s.submit(r, time_point{}) == status::accepted);
    CHECK(order_state<order::round_robin>(r).quantum_used == 0_tok);
    REQUIRE(s.evacuate(r) == status::ok);
  }
  {
    pascal<any> s{two, {.demote_above = 3_tok}};
    REQUIRE(s.adopt(r, {.length = 5_tok, .computed = 4_tok}) == status::accepted);
    CHECK(order_state<order::two_phase>(r).level == 1);
    CHECK(order::two_phase::is_demoted(r));
    CHECK(r.progress().carried != 0);
    REQUIRE(s.cancel(r) == status::ok);
  }
  pars<any> s{three};
  REQUIRE(s.submit(r, time_point{}) == status::accepted);
  CHECK(order_state<order::ranked<>>(r).rank == 9);
  CHECK_FALSE(order_state<order::ranked<>>(r).boosted);
  CHECK(r.state().carried == 0);
  REQUIRE(s.cancel(r) == status::ok);
}
