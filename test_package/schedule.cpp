// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Two requests through a scheduler to their ends, and what it must have decided on the way.
#include <tessera/compose/fcfs.hpp>

#include <array>
#include <cstdio>
#include <vector>

#ifdef WITH_CUDA
#  include <cuda_runtime_api.h>
static_assert(CUDART_VERSION >= 12000);
#endif

using namespace tessera::literals;

struct request : tessera::request_hook {};

int main() {
  request a, b;
  a.prompt = 100_tok, a.max_output = 2_tok;
  b.prompt = 20_tok, b.max_output = 3_tok;

  auto storage = tessera::storage_for<tessera::fcfs<request>>({.requests = 4, .blocks = 16, .residents = 4});
  tessera::fcfs<request> scheduler{storage};
  tessera::time_point now{};
  if (!ok(scheduler.submit(a, now)) || !ok(scheduler.submit(b, now))) return 1;

  // Tokens computed in each step: a's prompt in chunks, b's as soon as the budget of 64 tokens has room; then one token
  // each for who still decodes. The first output token comes from the step that ends the prompt.
  constexpr std::array expected{64, 56, 2, 1};

  std::vector<tessera::outcome> outcomes;
  std::size_t step = 0;
  for (; !scheduler.idle(); ++step) {
    const auto plan = scheduler.plan(now, {.max_batch = 4, .token_budget = 64_tok});
    const auto computed = static_cast<long long>(plan.computed.count());
    std::printf("step %zu: %lld tokens\n", step, computed);
    if (step >= expected.size() || computed != expected[step]) return 1;
    outcomes.assign(plan.size(), {});
    for (std::size_t i = 0; i < plan.size(); ++i) {
      const request& r = *plan[i].request;
      outcomes[i].finished = plan[i].samples && r.generated() + 1_tok == r.max_output;
    }
    now += 20_ms;
    scheduler.commit(plan, outcomes, now);
  }
  if (step != expected.size()) return 1;
  std::printf("tessera %d.%d.%d: ok\n", TESSERA_VERSION_MAJOR, TESSERA_VERSION_MINOR, TESSERA_VERSION_PATCH);
}
