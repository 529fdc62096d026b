// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// An engine that plans a step while another runs: two steps in flight. The host does not know the tokens of the running
// step when it plans the next one. They are on the device, where that step finds them. The end of a request is known
// one step late, and what the step in between computed for it is void. The answers are the same, and the device does
// not wait for the host.
#include <tessera/compose/fcfs.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <utility>
#include <vector>

using namespace tessera::literals;

struct my_request : tessera::request_hook {
  std::vector<std::int32_t> answer;     // what the client has
  std::vector<std::int32_t> on_device;  // prompt and sampled tokens, where the kernels read them
  bool ended = false;
};
using scheduler_type = tessera::fcfs<my_request>;

constexpr std::size_t block_size = 16;
constexpr std::int32_t end_of_sequence = 3;
constexpr int planning_ms = 1, step_ms = 4;

/// A step that was launched. What it sampled is on the device until it has run.
struct launched_step {
  scheduler_type::plan_type plan;
  std::vector<std::int32_t> sampled;
  int done_ms;
};

/// Runs steps in the order in which they are launched: copies and kernels of one after those of the one before. This
/// order is what a scheduler with several plans in flight relies on.
struct toy_engine {
  std::vector<std::int32_t> kv;  // [blocks][block_size]; the "KV" of a token is the token itself
  int free_ms = 0;               // when the device has run what was launched
  int idle_ms = 0;               // so long it has had nothing to run

  launched_step launch(const scheduler_type::plan_type& plan, int now_ms) {
    launched_step step{.plan = plan, .sampled = std::vector<std::int32_t>(plan.size()), .done_ms = 0};
    for (std::size_t i = 0; i != plan.size(); ++i) {
      const auto& e = plan[i];
      std::vector<std::int32_t>& tokens = e.request->on_device;
      // Block tables change with the next plan: kernels take a copy.
      const std::int32_t* const blocks = plan.tables.indices.data() + plan.tables.indptr[i];
      const auto slot = [&](std::size_t p) -> std::int32_t& {
        return kv[static_cast<std::size_t>(blocks[p / block_size]) * block_size + p % block_size];
      };
      const auto end = static_cast<std::size_t>((e.first + e.count).count());
      for (auto p = static_cast<std::size_t>(e.first.count()); p != end; ++p) slot(p) = tokens[p];
      std::uint32_t attention = 7;
      for (std::size_t p = 0; p != end; ++p) attention = attention * 31 + static_cast<std::uint32_t>(slot(p));
      step.sampled[i] = static_cast<std::int32_t>(attention % 61);
      if (e.samples) tokens.push_back(step.sampled[i]);
    }
    const int start = std::max(now_ms, free_ms);
    idle_ms += start - free_ms;
    step.done_ms = free_ms = start + (plan.empty() ? 0 : step_ms);
    return step;
  }
};

std::vector<std::vector<std::int32_t>> serve(std::size_t steps_in_flight) {
  std::deque<my_request> requests(12);
  auto storage = tessera::storage_for<scheduler_type>(
      {.blocks = 24, .residents = 4, .max_length = 128_tok, .plans_in_flight = steps_in_flight});
  scheduler_type scheduler{storage};
  toy_engine engine{.kv = std::vector<std::int32_t>(24 * block_size)};
  std::int32_t number = 0;
  for (my_request& r : requests) {
    ++number;
    for (std::int32_t i = 0; i != 30; ++i) r.on_device.push_back(i * number);
    r.prompt = 30_tok, r.max_output = 60_tok;
    if (!ok(scheduler.submit(r, {}))) return {};
  }

  std::deque<launched_step> in_flight;
  std::vector<tessera::outcome> outcomes;
  int now_ms = 0;
  int in_vain = 0;
  const auto now = [&] { return tessera::time_point::at_seconds(now_ms * 1e-3); };
  while (!scheduler.idle() || !in_flight.empty()) {
    if (in_flight.size() < steps_in_flight && !scheduler.idle()) {
      const auto plan = scheduler.plan(now(), {.max_batch = 4, .token_budget = 64_tok});
      now_ms += planning_ms;
      in_flight.push_back(engine.launch(plan, now_ms));
      if (in_flight.size() < steps_in_flight) continue;  // another one, while this one runs
    }
    const launched_step step = std::move(in_flight.front());
    in_flight.pop_front();
    now_ms = std::max(now_ms, step.done_ms);
    outcomes.assign(step.plan.size(), {});
    for (std::size_t i = 0; i != step.plan.size(); ++i) {
      my_request& r = *step.plan[i].request;
      if (!step.plan[i].samples) continue;
      if (r.ended) {
        ++in_vain;  // planned before it was known: whatever the outcome says is ignored
        continue;
      }
      r.answer.push_back(step.sampled[i]);
      r.ended = outcomes[i].finished = step.sampled[i] == end_of_sequence || r.answer.size() == 60;
    }
    scheduler.commit(step.plan, outcomes, now());
  }

  std::vector<std::vector<std::int32_t>> answers;
  for (const my_request& r : requests) answers.push_back(r.answer);
  std::printf("%zu in flight: %3d ms, the device waited for %2d of them; %d tokens in vain\n", steps_in_flight, now_ms,
              engine.idle_ms, in_vain);
  return answers;
}

int main() {
  const auto one = serve(1);
  const auto two = serve(2);
  std::printf("the answers are %s\n", one == two ? "the same" : "different");
}

/* output:
1 in flight: 605 ms, the device waited for 121 of them; 0 tokens in vain
2 in flight: 493 ms, the device waited for  1 of them; 9 tokens in vain
the answers are the same
*/
