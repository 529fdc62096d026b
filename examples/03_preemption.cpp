// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// 3. Preemption. Three requests fit at the start and outgrow the memory later. The request that came last gives up its
// blocks: they are copied to the host, or dropped and computed again. The policy says which; the tokens that come out
// are the same.
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/cheapest.hpp>
#include <tessera/preempt/recompute.hpp>
#include <tessera/preempt/swap.hpp>

#include <array>
#include <cstdio>
#include <vector>

using namespace tessera::literals;

struct my_request : tessera::request_hook {};

/// A policy is a type with one member function. This one asks how much there is to lose.
struct swap_the_long {
  template <tessera::schedulable R>
  tessera::preemption_mode mode(const R& victim, tessera::blocks /*to_copy*/) const noexcept {
    return victim.state().length > 64_tok ? tessera::preemption_mode::swap : tessera::preemption_mode::recompute;
  }
};

template <class Preempt>
void serve(const char* title, const Preempt& preempt = {}) {
  using scheduler_type = tessera::iteration_scheduler<my_request, tessera::order::fcfs, Preempt>;
  std::array<my_request, 3> requests;
  // 14 blocks of 16 tokens on the device. Without host blocks, every swap would become a recomputation.
  auto storage = tessera::storage_for<scheduler_type>({.blocks = 14, .residents = 3, .host_blocks = 14});
  scheduler_type scheduler{storage, {.preempt = preempt}};
  for (my_request& r : requests) {
    r.prompt = &r == &requests.back() ? 30_tok : 80_tok;  // 2 or 5 blocks, 3 more at the end
    r.max_output = 48_tok;
    if (!ok(scheduler.submit(r, {}))) return;
  }

  std::vector<tessera::outcome> outcomes;
  tessera::tokens computed{};
  std::size_t copied = 0;
  int steps = 0;
  for (; !scheduler.idle(); ++steps) {
    const auto plan = scheduler.plan({}, {.max_batch = 3, .token_budget = 256_tok});
    computed += plan.computed;
    for (const auto& t : plan.swap_out) copied += t.device.size();
    for (const auto& t : plan.swap_in) copied += t.device.size();
    outcomes.assign(plan.size(), {});
    for (std::size_t i = 0; i < plan.size(); ++i) {
      outcomes[i].finished = plan[i].samples && plan[i].request->generated() + 1_tok == plan[i].request->max_output;
    }
    scheduler.commit(plan, outcomes, {});
  }
  std::printf("%-14s %d steps, preempted %u and %u times, %3lld tokens computed, %2zu blocks copied\n", title, steps,
              requests[1].state().preemptions, requests[2].state().preemptions,
              static_cast<long long>(computed.count()), copied);
}

int main() {
  serve<tessera::preempt::swap>("swap");
  serve<tessera::preempt::recompute>("recompute");
  serve<tessera::preempt::cheapest>("cheapest");
  serve<swap_the_long>("swap the long");
}

/* output:
swap           93 steps, preempted 1 and 1 times, 331 tokens computed, 18 blocks copied
recompute      93 steps, preempted 1 and 1 times, 475 tokens computed,  0 blocks copied
cheapest       93 steps, preempted 1 and 1 times, 331 tokens computed, 18 blocks copied
swap the long  93 steps, preempted 1 and 1 times, 363 tokens computed, 14 blocks copied
*/
