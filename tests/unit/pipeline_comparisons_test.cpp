// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// How often an order is asked which of two goes first, where many move at once.

#include <tessera/order/ranked.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/recompute.hpp>

#include "support/catch.hpp"
#include "support/step_engine.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

std::size_t comparisons = 0;

/// An order that counts.
template <class Order>
struct counted : Order {
  template <schedulable R>
  [[nodiscard]] bool before(const R& a, const R& b) const noexcept {
    ++comparisons;
    return Order::before(a, b);
  }
  template <schedulable R>
  [[nodiscard]] bool displaces(const R& waiting, const R& resident) const noexcept {
    ++comparisons;
    return Order::displaces(waiting, resident);
  }
};

struct request : tessera_test::prompt_request<request_hook_for<order::ranked<>, order::round_robin>> {
  float score = 0;
};
template <class Order>
using engine_of =
    tessera_test::step_engine<iteration_scheduler<request, counted<Order>, preempt::recompute, admit::always>>;

/// Comparisons in a search among `n`.
std::size_t search(std::size_t n) { return static_cast<std::size_t>(std::bit_width(n)); }

}  // namespace

TEST_CASE("300,000 that become due at once cost a plan no more than those that it starts") {
  constexpr std::size_t n = 300'000;
  engine_of<order::ranked<>> e{
      {.requests = n + 16, .blocks = 25'600, .block_size = 16_tok, .residents = 256, .max_length = 2048_tok},
      {.order = {{.threshold = duration{120.0}}}}};
  std::uint32_t random = 1;
  for (std::size_t i = 0; i != n; ++i) {
    random = random * 1664525U + 1013904223U;
    request& r = e.add(64, 0);
    r.score = static_cast<float>(random >> 8U);
    e.submit(r);
  }
  for (int i = 0; i != 5; ++i) e.step();
  REQUIRE(e.scheduler.resident_count() == 256);
  e.now = time_point::at_seconds(121);

  comparisons = 0;
  e.step();
  // 256 residents age, too: 64 in each plan.
  CHECK(comparisons <= 64 * 2 * (search(256) + 1) + 4 * search(n));
  for (int i = 0; i != 3; ++i) e.step();
  for (int i = 0; i != 5; ++i) {
    comparisons = 0;
    e.step();
    CHECK(comparisons <= 4 * search(n));
  }
  // Ten places become free: ten start, each of them the oldest by then.
  for (std::size_t i = 0; i != 10; ++i) REQUIRE(e.scheduler.cancel(*e.scheduler.residents()[5 * i]) == status::ok);
  comparisons = 0;
  e.step();
  CHECK(comparisons <= 11 * 4 * search(n));
  CHECK(e.scheduler.resident_count() == 256);
  const auto all = e.scheduler.residents();
  const auto started =
      std::count_if(all.begin(), all.end(), [](const request* r) { return r->state().computed == 64_tok; });
  CHECK(started == 10);
  // Waiting requests still wait as they did, except for the few that were looked at.
  const auto aged = std::count_if(e.requests.begin(), e.requests.end(),
                                  [](const request& r) { return order_state<order::ranked<>>(r).boosted; });
  CHECK(aged <= 256 + 10 + 11);  // plans, and starts
}

TEST_CASE("4,096 residents with quanta that end together are put in order with a few comparisons each") {
  constexpr std::size_t n = 4096;
  engine_of<order::round_robin> e{
      {.requests = n, .blocks = n * 4, .block_size = 256_tok, .residents = n, .max_length = 1024_tok},
      {.order = {{.quantum = 100_tok}}}};
  const step_limits all{.max_batch = n, .token_budget = 1'000'000_tok};
  SECTION("all of them") {
    for (std::size_t i = 0; i != n; ++i) e.submit(2, 0);
  }
  SECTION("one half, then the other") {
    for (std::size_t i = 0; i != n / 2; ++i) e.submit(2, 0);
    for (int i = 0; i != 50; ++i) e.step(all);
    while (e.requests.size() != n) e.submit(2, 0);
  }
  std::size_t most = 0;
  bool moved = false;
  for (int i = 0; i != 140; ++i) {
    const auto p = e.plan(all);
    const std::vector<outcome> outcomes(p.size());
    comparisons = 0;
    e.commit(p, outcomes);
    most = std::max(most, comparisons);
    moved = moved || order_state<order::round_robin>(e.requests.back()).turn > n;
  }
  CHECK(moved);
  CHECK(e.scheduler.resident_count() == n);
  // A check that new requests are in order, and a pass that merges them.
  CHECK(most <= 3 * n);
  CHECK(std::is_sorted(e.scheduler.residents().begin(), e.scheduler.residents().end(),
                       [](const request* a, const request* b) { return order::round_robin::before(*a, *b); }));
}
