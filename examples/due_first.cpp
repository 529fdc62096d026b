// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// `due-first` asks four things of an engine:
// - a token pacer in each request,
// - how long its output is expected to be,
// - in which phase it starts,
// - a prefill budget that bounds what prompts add to a step.
//
// Here are all four, in a loop that counts seconds instead of running a model. First come, first served runs under the
// same load next to it: a burst of 96 requests, the long ones first. Short requests are through sooner. All together
// take longer, because long ones are left at the end.
#include <tessera/compose/due_first.hpp>
#include <tessera/compose/fcfs.hpp>
#include <tessera/headroom/prefill_cost.hpp>
#include <tessera/pacing/token_pacer.hpp>
#include <tessera/rank/length_calibrator.hpp>

#include <cstdio>
#include <deque>
#include <vector>

using namespace tessera::literals;

struct my_request : tessera::due_first_request {
  float score = 0;
  tessera::token_pacer pacer{};
  tessera::tokens expected_output{};
  tessera::tokens output{};  // what the model will do, which no scheduler knows
};

/// What a device computes in a second, and what a prompt costs: fitted by `headroom::calibrate` to times of your own.
constexpr double flops = 1e14;
constexpr tessera::headroom::prefill_cost prompt_cost{.alpha = 2e5, .beta = 1.6e10};
constexpr double decode_s = 0.02;  // a step without prompts

template <class Scheduler>
void serve(const char* name, const tessera::rank::length_calibrator& expected) {
  auto storage = tessera::storage_for<Scheduler>({.blocks = 1000, .residents = 24});
  Scheduler scheduler{storage};
  std::deque<my_request> all(96);
  for (std::size_t i = 0; i != all.size(); ++i) {
    my_request& r = all[i];
    const bool is_long = i < 24;
    r.prompt = 300_tok;
    r.output = is_long ? 600_tok : 60_tok;
    r.score = is_long ? 3.5F : -1.25F;  // of a ranking model: only their order means something
    r.expected_output = expected(r.score);
    r.starts_in = tessera::phase::answering;  // this model does not reason; the default is that it does
    if (!ok(scheduler.submit(r, tessera::time_point{}))) return;
  }
  std::vector<tessera::outcome> outcomes;
  double now = 0, longest_step = 0, per_token = 0;
  while (!scheduler.idle()) {
    // Half of 0.1 s a token. At least a block: where decodes take all the time, prompts are slow, but do not stand
    // still.
    const tessera::tokens prompts = max(prompt_cost.within((0.05 - decode_s) * flops), 16_tok);
    const auto plan =
        scheduler.plan(tessera::time_point::at_seconds(now), {.max_batch = 24, .prefill_budget = prompts});
    double step = decode_s;
    for (const auto& e : plan.prefill) step += prompt_cost.flops(e.first + e.count, e.first) / flops;
    now += step;
    if (step > longest_step) longest_step = step;
    outcomes.clear();
    for (std::size_t i = 0; i != plan.size(); ++i) {
      my_request& r = *plan[i].request;
      // Before `commit`, and for answering tokens alone: reasoning is not read.
      if (plan[i].samples) r.pacer.on_token(tessera::time_point::at_seconds(now));
      const bool finished = plan[i].samples && r.generated() + 1_tok == r.output;
      if (finished) per_token += now / static_cast<double>(r.output.count());
      outcomes.push_back({.finished = finished});
    }
    scheduler.commit(plan, outcomes, tessera::time_point::at_seconds(now));
  }
  std::printf("%-10s%5.1f s in all, %5.0f ms a token, longest step %2.0f ms\n", name, now,
              1000 * per_token / static_cast<double>(all.size()), 1000 * longest_step);
}

int main() {
  // What became of earlier requests, with the scores that they had.
  auto memory = tessera::storage_for<tessera::rank::length_calibrator>({.window = 512, .groups = 16});
  tessera::rank::length_calibrator expected{memory};
  for (int i = 0; i != 512; ++i) {
    const bool is_long = i % 8 == 0;
    expected.observe(is_long ? 3.0F + 0.25F * static_cast<float>(i % 5) : -1.0F - 0.25F * static_cast<float>(i % 3),
                     is_long ? 500_tok + tessera::tokens{i % 200} : 50_tok + tessera::tokens{i % 20});
  }
  expected.fit();
  std::printf("a score of -1.25 is expected to mean %lld tokens, one of 3.5 %lld\n",
              static_cast<long long>(expected(-1.25F).count()), static_cast<long long>(expected(3.5F).count()));

  serve<tessera::fcfs<my_request>>("fcfs", expected);
  serve<tessera::due_first<my_request>>("due-first", expected);
}

/* output:
a score of -1.25 is expected to mean 60 tokens, one of 3.5 586
fcfs       23.3 s in all,   261 ms a token, longest step 50 ms
due-first  26.6 s in all,    80 ms a token, longest step 50 ms
*/
