// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// 4. Admission, or when to let a request start: the same twelve requests under four admission policies, one of them our
// own. One that starts too early is preempted later and has to compute its KV again; one that starts too late leaves
// memory unused.
#include <tessera/admit/future_peak.hpp>
#include <tessera/admit/watermark.hpp>
#include <tessera/order/fcfs.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/recompute.hpp>

#include <array>
#include <cstdio>
#include <vector>

using namespace tessera::literals;

struct my_request : tessera::request_hook {};

/// A fixed number at a time. True when nothing runs, or the instance would idle for ever.
struct at_most {
  std::size_t running = 4;

  template <tessera::schedulable R>
  bool admits(const R& /*candidate*/, const tessera::admission_view<R>& view) const noexcept {
    return view.residents.size() + view.admitted.size() < running;
  }
};

template <class Admit>
void serve(const char* title, const Admit& admit) {
  using scheduler_type =
      tessera::iteration_scheduler<my_request, tessera::order::fcfs, tessera::preempt::recompute, Admit>;
  std::array<my_request, 12> requests;
  auto storage = tessera::storage_for<scheduler_type>({.blocks = 64, .residents = 16});
  scheduler_type scheduler{storage, {.admit = admit}};
  for (std::size_t i = 0; i < requests.size(); ++i) {
    my_request& r = requests[i];
    r.prompt = 100_tok;  // 7 blocks at the start, so nine could start at once; up to 19 at the end
    r.max_output = i % 3 == 0 ? 200_tok : 20_tok;
    if (!ok(scheduler.submit(r, {}))) return;
  }

  std::vector<tessera::outcome> outcomes;
  int steps = 0;
  tessera::tokens computed{};
  for (; !scheduler.idle(); ++steps) {
    const auto plan = scheduler.plan({}, {.max_batch = 16, .token_budget = 1024_tok});
    computed += plan.computed;
    outcomes.assign(plan.size(), {});
    for (std::size_t i = 0; i < plan.size(); ++i) {
      const my_request& r = *plan[i].request;
      outcomes[i].finished = plan[i].samples && r.generated() + 1_tok == r.max_output;
    }
    scheduler.commit(plan, outcomes, {});
  }
  unsigned preemptions = 0;
  for (const my_request& r : requests) preemptions += r.state().preemptions;
  std::printf("%-14s %3d steps, %2u preemptions, %lld tokens computed\n", title, steps, preemptions,
              static_cast<long long>(computed.count()));
}

int main() {
  serve("always", tessera::admit::always{});
  serve("watermark 10%", tessera::admit::watermark{.fraction = 0.1});
  serve("at most 4", at_most{.running = 4});
  serve("future peak", tessera::admit::future_peak{});
}

/* output:
always         263 steps,  2 preemptions, 2496 tokens computed
watermark 10%  263 steps,  1 preemptions, 2384 tokens computed
at most 4      299 steps,  1 preemptions, 2348 tokens computed
future peak    400 steps,  0 preemptions, 2148 tokens computed
*/
