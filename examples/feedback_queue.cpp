// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// An order whose places change while requests run: a multi-level feedback queue. Nobody knows how long an answer will
// be, so everyone starts at the top, and whoever has used the quantum of a level goes down one, where the quantum is
// twice as long. Short answers get through; long ones are interrupted less and less often.
#include <tessera/pipeline/iteration_scheduler.hpp>

#include <array>
#include <cstdio>

using namespace tessera::literals;

struct my_request : tessera::request_hook {
  char name = '?';
};

/// `charge` says when a place is due to change, `requeue` changes it, and both write only what `before` and they
/// themselves read. A waiting request of a higher level takes the place of a running one: `displaces`.
struct feedback_queue : tessera::order::fcfs {
  tessera::tokens quantum{2};  ///< Tokens generated at the top.

  template <tessera::schedulable R>
  void enter(R& r, typename R::time_point /*now*/) noexcept {
    auto& s = tessera::request_access::state(r);
    s.level = 0;
    s.quantum_used = tessera::tokens{};
  }
  template <tessera::schedulable R>
  [[nodiscard]] bool charge(R& r, tessera::tokens ran) noexcept {
    auto& s = tessera::request_access::state(r);
    s.quantum_used += ran;
    return s.level < lowest && s.quantum_used >= quantum * (1 << s.level);
  }
  template <tessera::schedulable R>
  void requeue(R& r) noexcept {
    auto& s = tessera::request_access::state(r);
    ++s.level;
    s.quantum_used = tessera::tokens{};
  }
  template <tessera::schedulable R>
  [[nodiscard]] static bool before(const R& a, const R& b) noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    if (a.state().level != b.state().level) return a.state().level < b.state().level;
    return a.state().sequence < b.state().sequence;
  }
  template <tessera::schedulable R>
  [[nodiscard]] static bool displaces(const R& waiting, const R& resident) noexcept {
    return before(waiting, resident);
  }

 private:
  static constexpr int lowest = 4;
};

template <class Scheduler>
void serve(const char* title) {
  std::array<my_request, 3> requests;
  const int answers[] = {9, 5, 1};
  auto storage = tessera::storage_for<Scheduler>({.blocks = 64, .residents = 1, .host_blocks = 64});
  Scheduler scheduler{storage};
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].name = static_cast<char>('A' + i);
    requests[i].prompt = 40_tok;
    requests[i].max_output = tessera::tokens{answers[i]};
    if (!ok(scheduler.submit(requests[i], {}))) return;
  }

  std::printf("%-10s", title);
  while (!scheduler.idle()) {  // one sequence at a time, so that the order is all there is to see
    const auto plan = scheduler.plan({}, {.max_batch = 1, .token_budget = 64_tok});
    const my_request& r = *plan[0].request;
    std::printf(" %c", r.name);
    const tessera::outcome o{.finished = r.generated() + 1_tok == r.max_output};
    scheduler.commit(plan, {&o, 1}, {});
  }
  std::printf("\n");
}

int main() {
  serve<tessera::iteration_scheduler<my_request>>("in order:");
  serve<tessera::iteration_scheduler<my_request, feedback_queue>>("feedback:");
}

/* output:
in order:  A A A A A A A A A B B B B B C
feedback:  A A B B C A A A A B B B A A A
*/
