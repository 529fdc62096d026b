// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/order/round_robin.hpp>
#include <tessera/queue/round_robin.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <deque>
#include <random>
#include <vector>

namespace {

using namespace tessera;

struct request : request_hook_for<order::round_robin> {
  std::size_t id = 0;
};

/// What a container does with a request that joins it.
void join(order::round_robin& d, request& r) {
  request_access::begin_order_state<order::round_robin>(r);
  d.enter(r, time_point{});
}

TEST_CASE("round_robin: due at the quantum, not before", "[order][round_robin]") {
  for (const std::int64_t quantum : {1, 2, 500}) {
    order::round_robin d{.quantum = tokens{quantum}};
    request r;
    join(d, r);
    if (quantum > 1) {
      CHECK_FALSE(d.charge(r, tokens{quantum - 1}));
      CHECK(order_state<order::round_robin>(r).quantum_used == tokens{quantum - 1});
    }
    CHECK(d.charge(r, tokens{1}));
    d.requeue(r);
    CHECK(order_state<order::round_robin>(r).quantum_used == tokens{0});
    CHECK(d.charge(r, tokens{quantum + 1}));
  }
}

TEST_CASE("round_robin: prefill alone uses no quantum", "[order][round_robin]") {
  order::round_robin d{.quantum = tokens{4}};
  request r;
  join(d, r);
  request_access::state(r).computed = tokens{4096};
  CHECK_FALSE(d.charge(r, tokens{0}));
}

TEST_CASE("round_robin: serves as a circle of deques does", "[order][round_robin]") {
  // The textbook version: one deque. A served request runs some tokens and goes behind once its quantum is used.
  std::mt19937 random{5};
  std::vector<request> requests(20);
  round_robin_queue<request> queue{order::round_robin{.quantum = tokens{7}}};
  struct runner {
    std::size_t id;
    std::int64_t used;
  };
  std::deque<runner> circle;
  std::size_t next = 0;
  for (int step = 0; step != 3'000; ++step) {
    if (next != requests.size() && random() % 8 == 0) {
      requests[next].id = next;
      requests[next].starts_in = random() % 2 == 0 ? phase::reasoning : phase::answering;
      queue.push(requests[next], time_point{});
      circle.push_back({next++, 0});
    }
    if (circle.empty()) continue;
    REQUIRE(queue.front()->id == circle.front().id);
    REQUIRE(queue.back()->id == circle.back().id);
    const std::int64_t ran = 1 + static_cast<std::int64_t>(random() % 4);
    circle.front().used += ran;
    const bool due = circle.front().used >= 7;
    REQUIRE(queue.charge(*queue.front(), tokens{ran}) == due);
    if (due) {
      circle.push_back({circle.front().id, 0});
      circle.pop_front();
    }
  }
  CHECK(next == requests.size());
}

TEST_CASE("round_robin: the earlier turn displaces the later, both phases alike", "[order][round_robin]") {
  order::round_robin d;
  request a;
  request b;
  join(d, a);
  join(d, b);
  request_access::state(a).phase = phase::answering;
  d.change_phase(a);
  CHECK(order::round_robin::displaces(a, b));
  CHECK_FALSE(order::round_robin::displaces(b, a));
  d.requeue(a);
  CHECK(order::round_robin::displaces(b, a));
  a.priority = 1;
  CHECK(order::round_robin::displaces(a, b));
}

TEST_CASE("round_robin: by quanta, the fewest used first, then by age; as sorting by them", "[order][round_robin]") {
  std::mt19937 random{9};
  std::vector<request> requests(40);
  round_robin_queue<request> queue{order::round_robin{.quantum = tokens{7}, .fewest_quanta_first = true}};
  std::vector<std::int64_t> ran(requests.size());
  std::size_t next = 0;
  for (int step = 0; step != 3'000; ++step) {
    if (next != requests.size() && random() % 8 == 0) {
      requests[next].id = next;
      queue.push(requests[next], time_point{});
      // One that arrives goes ahead of all that have used a quantum.
      for (std::size_t i = 0; i != next; ++i)
        CHECK((ran[i] < 7) == order::round_robin::before(requests[i], requests[next]));
      ++next;
    }
    if (queue.empty()) continue;
    // Tokens one at a time, so that a quantum is used up exactly.
    request& r = requests[random() % next];
    CHECK(queue.charge(r, tokens{1}) == (++ran[r.id] % 7 == 0));
    std::size_t best = 0;
    for (std::size_t i = 1; i != next; ++i) {
      if (ran[i] / 7 < ran[best] / 7) best = i;
    }
    REQUIRE(queue.front() == &requests[best]);
  }
  while (!queue.empty()) queue.pop_front();
}

}  // namespace
