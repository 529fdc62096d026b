// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// How an engine uses a scheduler, with an engine small enough to check. Its "KV" of a token is the token itself, and
// the next token is computed from all the KV that the block tables point to. So an answer is right only if every block
// was copied and read as the plan says. The same prompts are served with plenty of memory and with little of it.
#include <tessera/compose/pascal.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <vector>

using namespace tessera::literals;

struct my_request : tessera::pascal_request {
  std::vector<std::int32_t> sequence;  // prompt and generated tokens; the engine's own
};

using my_scheduler = tessera::pascal<my_request>;

constexpr std::size_t block_size = 16;
constexpr std::int32_t vocabulary = 1000;
constexpr std::int32_t end_of_reasoning = 7;

struct toy_engine {
  std::vector<std::int32_t> device;  // [blocks][block_size]
  std::vector<std::int32_t> host;    // [host_blocks][block_size]
  std::vector<tessera::outcome> outcomes;
  std::vector<std::int32_t> sampled;

  static void copy(std::vector<std::int32_t>& to, std::uint32_t to_block, const std::vector<std::int32_t>& from,
                   std::uint32_t from_block) {
    for (std::size_t i = 0; i < block_size; ++i) to[to_block * block_size + i] = from[from_block * block_size + i];
  }

  /// The slot of one position of batch entry `i`: what a paged attention kernel computes.
  std::int32_t& slot(const tessera::kv::csr_view& tables, std::size_t i, std::size_t position) {
    const auto begin = static_cast<std::size_t>(tables.indptr[i]);
    const auto block = static_cast<std::size_t>(tables.indices[begin + position / block_size]);
    return device[block * block_size + position % block_size];
  }

  /// Computes the KV of an entry's tokens and, if asked to, the token that follows.
  std::int32_t compute(const tessera::scheduled<my_request>& e, const tessera::kv::csr_view& tables, std::size_t i) {
    const auto first = static_cast<std::size_t>(e.first.count());
    const auto end = static_cast<std::size_t>((e.first + e.count).count());
    for (std::size_t p = first; p < end; ++p) slot(tables, i, p) = e.request->sequence[p];
    std::uint32_t attention = 0;
    for (std::size_t p = 0; p < end; ++p) {
      attention = attention * 31 + static_cast<std::uint32_t>(slot(tables, i, p));
    }
    return static_cast<std::int32_t>(attention % vocabulary);
  }

  void run(const my_scheduler::plan_type& plan) {
    // 1. Copies first, out before in: a block given up here may be given to another request further down.
    for (const auto& c : plan.copies) copy(device, c.to, device, c.from);  // forks: this engine makes none
    for (const auto& t : plan.swap_out) {
      for (std::size_t i = 0; i < t.device.size(); ++i) copy(host, t.host[i], device, t.device[i]);
    }
    for (const auto& d : plan.demoted) copy(host, d.host, device, d.device);  // a two_level_cache: not here
    for (const auto& t : plan.swap_in) {
      for (std::size_t i = 0; i < t.device.size(); ++i) copy(device, t.device[i], host, t.host[i]);
    }
    // 2. The batch: decode entries, then prefill entries, in the order of the tables and of the outcomes.
    outcomes.assign(plan.size(), {});
    sampled.assign(plan.size(), 0);
    for (std::size_t i = 0; i < plan.size(); ++i) {
      sampled[i] = compute(plan[i], plan.tables, i);
      if (!plan[i].samples) continue;  // the middle of a prompt: nothing to sample yet
      const my_request& r = *plan[i].request;
      outcomes[i].end_of_reasoning = sampled[i] % 10 == end_of_reasoning;
      outcomes[i].finished = r.generated() + 1_tok == r.max_output;
    }
  }
};

/// Serves all prompts, one arriving per step, and returns the answers.
std::vector<std::vector<std::int32_t>> serve(std::size_t blocks) {
  std::deque<my_request> requests(8);  // they stay where they are: a deque, a pool, a list of unique_ptr
  auto storage = tessera::storage_for<my_scheduler>({.blocks = blocks, .residents = 8, .host_blocks = 256});
  my_scheduler scheduler{storage, {.quantum = 16_tok}};
  toy_engine engine{
      std::vector<std::int32_t>(blocks * block_size), std::vector<std::int32_t>(256 * block_size), {}, {}};

  tessera::time_point now{};
  std::size_t arrived = 0;
  std::size_t steps = 0;
  while (arrived < requests.size() || !scheduler.idle()) {
    if (arrived < requests.size()) {
      my_request& r = requests[arrived];
      for (std::size_t i = 0; i < 50 + arrived; ++i) r.sequence.push_back(static_cast<std::int32_t>(i * arrived));
      r.prompt = tessera::tokens{static_cast<std::int64_t>(r.sequence.size())};
      r.max_output = 60_tok;
      if (!ok(scheduler.submit(r, now))) return {};
      ++arrived;
    }

    const auto plan = scheduler.plan(now, {.max_batch = 8, .token_budget = 96_tok});
    engine.run(plan);
    for (std::size_t i = 0; i < plan.size(); ++i) {
      if (plan[i].samples) plan[i].request->sequence.push_back(engine.sampled[i]);
    }
    now += 20_ms;
    scheduler.commit(plan, engine.outcomes, now);
    ++steps;
  }

  std::vector<std::vector<std::int32_t>> answers;
  for (const my_request& r : requests) answers.push_back(r.sequence);
  const tessera::scheduler_counters c = scheduler.counters();
  std::printf("%3zu blocks: %zu steps, %d preemptions\n", blocks, steps, static_cast<int>(c.swapped + c.recomputed));
  return answers;
}

int main() {
  const auto with_plenty = serve(128);
  const auto with_little = serve(24);
  std::printf("the answers are %s\n", with_plenty == with_little ? "the same" : "different");
}

/* output:
128 blocks: 67 steps, 0 preemptions
 24 blocks: 166 steps, 24 preemptions
the answers are the same
*/
