// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A model that reasons, under a scheduler that knows its readers. Three things are asked of the engine. `starts_in`
// says that a request reasons, `outcome::end_of_reasoning` when it has ended. The member `pacer` is told of each token
// that a reader will see. Then the scheduler knows how long each reader still has something to read. What no reader
// needs now goes to the requests that reason. Answers begin sooner than with first come, first served, and no reader
// has to wait.
#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pascal_paced.hpp>
#include <tessera/pacing/token_pacer.hpp>
#include <tessera/qoe/integrator.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <vector>

using namespace tessera::literals;

struct my_request : tessera::pascal_paced_request {
  tessera::tokens reasoning{};    // what the model will do, which no scheduler knows
  tessera::token_pacer pacer{};   // a token per 0.1 s is read, from the first answering token on
  tessera::qoe_integrator qoe{};  // how much of that came in time
  double first_answer_s = 0;
};

template <class Scheduler>
void serve(const char* name) {
  auto storage = tessera::storage_for<Scheduler>({.blocks = 400, .residents = 16, .host_blocks = 2000});
  Scheduler scheduler{storage};
  std::deque<my_request> all(60);
  for (std::size_t i = 0; i != all.size(); ++i) {
    my_request& r = all[i];
    r.prompt = 100_tok;
    r.starts_in = tessera::phase::reasoning;
    r.reasoning = i % 6 == 0 ? 1500_tok : 150_tok;  // some think for long
    r.max_output = r.reasoning + 200_tok;
  }
  std::vector<tessera::outcome> outcomes;
  std::size_t arrived = 0;
  double now = 0;
  for (; arrived != all.size() || !scheduler.idle(); now += 0.025) {
    const auto time = tessera::time_point::at_seconds(now);
    for (; arrived != all.size() && static_cast<double>(arrived) <= now * 2; ++arrived) {  // two a second
      if (!ok(scheduler.submit(all[arrived], time))) return;
    }
    const auto plan = scheduler.plan(time, {.max_batch = 16, .token_budget = 512_tok});
    outcomes.assign(plan.size(), {});
    for (std::size_t i = 0; i != plan.size(); ++i) {
      if (!plan[i].samples) continue;
      my_request& r = *plan[i].request;
      if (r.state().phase == tessera::phase::answering) {  // reasoning has no reader
        r.pacer.on_token(time);
        r.qoe.on_token(time);
        if (r.first_answer_s == 0) r.first_answer_s = now;
      }
      outcomes[i].end_of_reasoning = r.generated() + 1_tok == r.reasoning;
      outcomes[i].finished = r.generated() + 1_tok == r.max_output;
      if (outcomes[i].finished) r.qoe.finish();
    }
    scheduler.commit(plan, outcomes, time);
  }
  double sum = 0, last = 0, worst = 1;
  for (std::size_t i = 0; i != all.size(); ++i) {
    const double waited = all[i].first_answer_s - static_cast<double>(i) / 2;
    sum += waited;
    last = std::max(last, waited);
    worst = std::min(worst, all[i].qoe.value());
  }
  std::printf(
      "%-12s first answering token after %4.1f s, at most %4.1f; worst reader: %.2f in time; all done in %.0f s\n",
      name, sum / static_cast<double>(all.size()), last, worst, now);
}

int main() {
  serve<tessera::fcfs<my_request>>("fcfs");
  serve<tessera::pascal_paced<my_request>>("pascal_paced");
}

/* output:
fcfs         first answering token after 24.0 s, at most 72.6; worst reader: 0.88 in time; all done in 105 s
pascal_paced first answering token after 16.1 s, at most 74.0; worst reader: 1.00 in time; all done in 106 s
*/
