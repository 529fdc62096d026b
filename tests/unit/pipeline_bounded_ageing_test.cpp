// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// However many requests are due at once, and however many priorities occur, a plan moves a constant number.

#include <tessera/order/earliest_due.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/pacing/token_pacer.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/pipeline/resident_set.hpp>

#include "support/catch.hpp"
#include "support/step_engine.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

std::size_t asked = 0;  ///< How often an order was asked anything: which of two goes first, or when one is due.
std::size_t aged = 0;

template <class Order>
struct counted : Order {
  template <schedulable R>
  [[nodiscard]] bool before(const R& a, const R& b) const noexcept {
    ++asked;
    return Order::before(a, b);
  }
  template <schedulable R>
  [[nodiscard]] typename R::time_point due_at(const R& r) const noexcept {
    ++asked;
    return Order::due_at(r);
  }
  template <schedulable R>
  void age(R& r) noexcept {
    ++aged;
    Order::age(r);
  }
};

using due = counted<order::earliest_due<>>;
using boosted = counted<order::ranked<>>;
struct request : tessera_test::prompt_request<request_hook_for<order::earliest_due<>, order::ranked<>>> {
  token_pacer pacer{};
  tokens expected_output{100};
  float score = 0;
};
template <class Order>
using engine_of = tessera_test::step_engine<iteration_scheduler<request, Order>>;

std::size_t search(std::size_t n) { return static_cast<std::size_t>(std::bit_width(n)); }
constexpr std::size_t in_line = ordered_queue<request, due>::most_aged;
constexpr std::size_t resident = detail::resident_set<request, due>::most_aged;

/// 64 run, and `n` wait, each of a priority of its own or all of one.
template <class Order>
void fill(engine_of<Order>& e, std::size_t n, bool distinct) {
  for (int i = 0; i != 64; ++i) e.submit(20, 0, std::numeric_limits<int>::max());
  e.step();
  for (std::size_t i = 0; i != n; ++i) {
    request& r = e.add(300, 1, distinct ? -static_cast<int>(i) : 0);
    r.expected_output = tokens{50 + static_cast<std::int64_t>(i * 7919 % 1000)};
    e.submit(r);
  }
}

}  // namespace

TEST_CASE("ageing: a burst of held requests is moved a few in each plan, those first that were due first") {
  constexpr std::size_t n = 20'000;
  engine_of<due> e{{.requests = n + 64, .blocks = 4096, .residents = 64, .max_length = 4096_tok},
                   {.order = {{.prompt_pace = 1_ms, .patience = duration::forever()}}}};
  fill(e, n, false);
  aged = 0;
  std::size_t plans = 0;
  while (aged < n && plans != 2 * n) {
    const std::size_t before = aged;
    asked = 0;
    e.step();
    ++plans;
    REQUIRE(aged - before <= in_line + resident);
    REQUIRE(asked <= (in_line + resident) * 8 * search(n) + 4 * 64);
  }
  // The order is reached when all that are due have been moved: then it is that of the turns.
  CHECK(plans <= n / in_line + 300);
  std::vector<const request*> order;
  e.scheduler.waiting().for_each([&](const request& r) {
    if (r.priority == 0) order.push_back(&r);
  });
  const auto turn = [](const request* r) { return order_state<order::earliest_due<>>(*r).turn; };
  CHECK(std::is_sorted(order.begin(), order.end(), [&](auto* a, auto* b) { return turn(a) < turn(b); }));
  CHECK(std::all_of(order.begin(), order.end(), [](const request* r) {
    return order_state<order::earliest_due<>>(*r).urgent_at == time_point::never();
  }));
}

TEST_CASE("ageing: one that is due and has not been moved is served at the place that it has") {
  constexpr std::size_t n = 1000;
  engine_of<due> e{{.requests = n + 64, .blocks = 40'960, .residents = 512, .max_length = 4096_tok},
                   {.order = {{.prompt_pace = 1_ms}}}};
  fill(e, n, false);
  e.now += 1.0_s;
  // More places are free than one plan moves: all are taken.
  const auto p = e.plan({.max_batch = 512, .token_budget = 1'000'000_tok});
  CHECK(p.size() == 512);
  e.commit(p);
}

TEMPLATE_TEST_CASE("ageing: what is not due costs a plan nothing, whatever the priorities", "", due, boosted) {
  for (const bool distinct : {false, true}) {
    constexpr std::size_t n = 5000;
    typename iteration_scheduler<request, TestType>::config c{};
    if constexpr (requires { c.order.prompt_pace; }) c.order.prompt_pace = 1.0_s;
    if constexpr (requires { c.order.threshold; }) c.order.threshold = duration{1e6};
    engine_of<TestType> e{{.requests = n + 64, .blocks = 4096, .residents = 64, .max_length = 4096_tok}, c};
    fill<TestType>(e, n, distinct);
    e.step();
    for (int i = 0; i != 10; ++i) {
      asked = 0;
      const auto p = e.plan({.max_batch = 64});
      CHECK(asked <= 64);
      e.commit(p);
    }
  }
}

TEST_CASE("ageing: 4,096 residents that are due at once are moved a few in each plan, until they are in order") {
  constexpr std::size_t n = 4096;
  engine_of<boosted> e{{.requests = n, .blocks = n * 8, .residents = n, .max_length = 1024_tok},
                       {.order = {{.threshold = 100.0_s}}}};
  const step_limits all{.max_batch = n, .token_budget = 1'000'000_tok};
  for (std::size_t i = 0; i != n; ++i) {
    request& r = e.add(2, 0);
    r.score = static_cast<float>(i * 7919 % n);
    e.submit(r);
  }
  e.step(all);
  REQUIRE(e.scheduler.resident_count() == n);
  e.now = time_point::at_seconds(200);
  aged = 0;
  for (std::size_t plans = 1; plans <= n / resident; ++plans) {
    asked = 0;
    const auto p = e.plan(all);
    CHECK(p.size() == n);  // served meanwhile
    CHECK(aged == plans * resident);
    CHECK(asked <= resident * 8 * search(n));
    e.commit(p);
  }
  const auto residents = e.scheduler.residents();
  CHECK(std::is_sorted(residents.begin(), residents.end(),
                       [](auto* a, auto* b) { return a->state().sequence < b->state().sequence; }));
}
