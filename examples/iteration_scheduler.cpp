// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A scheduler from five parts: shortest predicted output first, victims swapped or recomputed as is cheaper, admission
// by future memory, blocks in a prefix cache. Three requests share a system prompt of 64 tokens.
#include <tessera/admit/future_peak.hpp>
#include <tessera/kv/hash_chain.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/cheapest.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

using namespace tessera::literals;

constexpr std::size_t block_size = 16;

struct my_request : tessera::request_hook_for<tessera::order::ranked<>> {  // with room for what the order keeps
  const char* name = "";
  float score = 0;
  std::vector<std::uint64_t> hashes;  // one per full block of the prompt

  // A prefix cache asks for this; a plain block pool shares nothing.
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }
};

using my_scheduler = tessera::iteration_scheduler<my_request, tessera::order::ranked<>, tessera::preempt::cheapest,
                                                  tessera::admit::future_peak, tessera::kv::prefix_cache>;

/// `question` tokens after the common system prompt. `score`: smaller is expected to end sooner.
void describe(my_request& r, const char* name, int question, float score) {
  std::vector<std::int32_t> prompt(64, 7);
  for (int i = 0; i < question; ++i) prompt.push_back(name[0] * 1000 + i);
  r.name = name;
  r.prompt = tessera::tokens{static_cast<std::int64_t>(prompt.size())};
  r.max_output = 3_tok;
  r.score = score;
  r.hashes.resize(prompt.size() / block_size);
  tessera::kv::hash_chain(prompt, block_size, r.hashes);
}

/// One step of an engine that finishes every answer at its limit.
void step(my_scheduler& scheduler, tessera::time_point& now) {
  const auto plan = scheduler.plan(now, {.max_batch = 8, .token_budget = 256_tok});
  std::vector<tessera::outcome> outcomes(plan.size());
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const auto& e = plan[i];
    outcomes[i].finished = e.samples && e.request->generated() + 1_tok == e.request->max_output;
    std::printf("  %s [%d, %d)", e.request->name, static_cast<int>(e.first.count()),
                static_cast<int>((e.first + e.count).count()));
  }
  now += 20_ms;
  scheduler.commit(plan, outcomes, now);
  std::printf("   %d blocks held, %zu cached\n", static_cast<int>(scheduler.device_blocks_held().count()),
              scheduler.store().cached());
}

int main() {
  std::array<my_request, 3> requests;
  describe(requests[0], "essay", 30, 900);
  describe(requests[1], "proof", 20, 400);
  describe(requests[2], "fact", 10, 12);

  auto storage = tessera::storage_for<my_scheduler>({.blocks = 32, .residents = 8, .host_blocks = 32});
  my_scheduler scheduler{storage, {.order = {.threshold = 60_s}, .preempt = {.seconds_per_block = 50e-6}}};

  tessera::time_point now{};
  if (!ok(scheduler.submit(requests[0], now))) return 1;
  step(scheduler, now);  // computes the system prompt: tokens [0, 94)

  for (std::size_t i : {1U, 2U}) {
    if (!ok(scheduler.submit(requests[i], now))) return 1;
  }
  while (!scheduler.idle()) step(scheduler, now);  // the other two start at token 64, the shorter one first
  for (const my_request& r : requests) std::printf("%s: %u blocks found\n", r.name, r.state().shared_blocks);
}

/* output:
  essay [0, 94)   6 blocks held, 0 cached
  essay [94, 95)  fact [64, 74)  proof [64, 84)   9 blocks held, 0 cached
  fact [74, 75)  proof [84, 85)  essay [95, 96)   7 blocks held, 1 cached
  fact [75, 76)  proof [85, 86)   0 blocks held, 6 cached
essay: 0 blocks found
proof: 4 blocks found
fact: 4 blocks found
*/
