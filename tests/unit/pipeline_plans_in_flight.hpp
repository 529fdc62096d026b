// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Engines that plan a step while others run.

#include <tessera/order/round_robin.hpp>
#include <tessera/order/two_phase.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/step_engine.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

namespace tessera_test::in_flight {

using namespace tessera;
using namespace tessera::literals;

using request = tessera_test::prompt_request<request_hook_for<order::two_phase, order::round_robin>>;
template <class Order = order::fcfs, class BlockStore = kv::block_pool>
using engine_of =
    tessera_test::step_engine<iteration_scheduler<request, Order, preempt::swap, admit::always, BlockStore>>;

inline constexpr scheduler_limits two{.requests = 16,
                                      .blocks = 32,
                                      .block_size = 4_tok,
                                      .residents = 4,
                                      .host_blocks = 32,
                                      .max_length = 100_tok,
                                      .plans_in_flight = 2};
inline constexpr scheduler_limits with_blocks(std::size_t n) {
  scheduler_limits l = two;
  l.blocks = n;
  return l;
}

inline constexpr scheduler_limits stages(std::size_t in_flight, std::size_t apart) {
  scheduler_limits l = two;
  l.plans_in_flight = in_flight;
  l.plans_apart = apart;
  return l;
}

/// The plans of an engine that are in flight, the oldest first.
template <class Engine>
struct flights {
  using plan_type = typename Engine::plan_type;

  Engine& engine;
  std::deque<plan_type> plans{};

  /// If as many are in flight as can be, settles the oldest.
  void add(const plan_type& p) {
    plans.push_back(p);
    if (plans.size() == engine.scheduler.size_limits().plans_in_flight) settle();
  }
  void settle() {
    engine.commit(plans.front());
    plans.pop_front();
  }
  void settle_all() {
    while (!plans.empty()) settle();
  }
};

/// Runs 12 random requests to their ends. Returns the tokens generated for each. `look(p, plans)` is given each plan,
/// and those in flight before it.
template <class Engine, class Look>
[[nodiscard]] std::vector<std::int64_t> run_random(Engine& e, unsigned seed, Look look) {
  std::mt19937 random{seed};
  for (int i = 0; i != 12; ++i) {
    const auto prompt = static_cast<std::int64_t>(1 + random() % 20);
    const auto output = static_cast<std::int64_t>(1 + random() % 20);
    static_cast<void>(e.submit_hashed(prompt, output, static_cast<std::size_t>(prompt) / 4, random() % 2));
  }
  flights<Engine> all{e};
  std::size_t heap = 0;
  while (!e.scheduler.idle()) {
    const no_allocation guard;
    const auto p = e.plan({.token_budget = 12_tok});
    heap += guard.allocations();
    look(p, all.plans);
    all.add(p);
    REQUIRE(e.steps < 10'000);
  }
  all.settle_all();
  CHECK(heap == 0);
  CHECK(e.scheduler.device_blocks_held() == blocks{0});
  CHECK(e.scheduler.host_blocks_held() == blocks{0});
  CHECK(e.scheduler.tables().free_rows() == e.scheduler.tables().rows());
  std::vector<std::int64_t> made;
  for (const auto& r : e.requests) {
    CHECK(r.state().life == lifecycle::finished);
    made.push_back(r.generated().count());
  }
  return made;
}

}  // namespace tessera_test::in_flight
