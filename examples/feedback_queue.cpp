// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// An order with places that change while requests run: a multi-level feedback queue. The length of an answer is not
// known in advance, so every request starts at the top. A request that has used the quantum of a level goes down one,
// where the quantum is twice as long. Short answers get through; long ones are interrupted less and less often.
#include <tessera/pipeline/iteration_scheduler.hpp>

#include <array>
#include <cstdio>

using namespace tessera::literals;

/// `charge` says when a place is due to change, `requeue` changes it, and both write only what `before` and they
/// themselves read. A waiting request of a higher level takes the place of a running one: `displaces`.
struct feedback_queue : tessera::order::fcfs {
  /// What is kept about each request; it begins anew when one joins. The hook below has room for it.
  template <tessera::clock_policy Clock>
  struct state {
    int level = 0;
    tessera::tokens used{};  ///< Tokens generated since it came to that level.
  };

  tessera::tokens quantum{2};  ///< Tokens generated at the top.

  template <tessera::schedulable R>
  [[nodiscard]] bool charge(R& r, tessera::tokens ran) noexcept {
    auto& place = tessera::request_access::order_state<feedback_queue>(r);
    place.used += ran;
    return place.level < lowest && place.used >= quantum * (1 << place.level);
  }
  template <tessera::schedulable R>
  void requeue(R& r) noexcept {
    auto& place = tessera::request_access::order_state<feedback_queue>(r);
    ++place.level;
    place.used = tessera::tokens{};
  }
  template <tessera::schedulable R>
  [[nodiscard]] static bool before(const R& a, const R& b) noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    const int level = tessera::order_state<feedback_queue>(a).level;
    const int other = tessera::order_state<feedback_queue>(b).level;
    if (level != other) return level < other;
    return a.state().sequence < b.state().sequence;
  }
  template <tessera::schedulable R>
  [[nodiscard]] static bool displaces(const R& waiting, const R& resident) noexcept {
    return before(waiting, resident);
  }

 private:
  static constexpr int lowest = 4;
};

struct my_request : tessera::request_hook_for<feedback_queue> {
  char name = '?';
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
    const tessera::outcome o{.finished = plan[0].samples && r.generated() + 1_tok == r.max_output};
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
