// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/queue/fcfs.hpp>
#include <tessera/queue/ordered_queue.hpp>
#include <tessera/queue/ranked.hpp>
#include <tessera/queue/two_phase.hpp>

#include "support/catch.hpp"

#include <type_traits>
#include <vector>

// That it keeps the order of every discipline is shown by the conformance suite; here is what is the queue's own.

namespace {

using namespace tessera;

struct request : request_hook_for<order::two_phase, order::ranked<>> {
  int id = 0;
  float score = 0;
};

static_assert(!std::is_copy_constructible_v<fcfs_queue<request>>);
static_assert(!std::is_move_constructible_v<fcfs_queue<request>>);

TEST_CASE("ordered_queue: push starts a request anew", "[queue]") {
  request r;
  r.prompt = tokens{12};
  r.starts_in = phase::answering;
  auto& s = request_access::state(r);
  s.computed = tokens{99};
  s.carried = 1;
  request_access::begin_order_state<order::two_phase>(r);
  request_access::order_state<order::two_phase>(r).quantum_used = tokens{9};
  s.preemptions = 3;
  two_phase_queue<request> queue;
  const time_point now = time_point::at_seconds(4);
  queue.push(r, now);
  CHECK(s.computed == tokens{0});
  CHECK(s.length == tokens{12});
  CHECK(order_state<order::two_phase>(r).quantum_used == tokens{0});
  CHECK(s.phase == phase::answering);
  CHECK(order_state<order::two_phase>(r).level == 1);
  CHECK_FALSE(order::two_phase::is_demoted(r));
  CHECK(s.preemptions == 0);
  CHECK(s.arrived == now);
  CHECK(s.answering_since == now);
  queue.erase(r);
  const auto first = s.sequence;
  queue.push(r, now);
  CHECK(s.sequence > first);
}

TEST_CASE("ordered_queue: contains knows its own from another's", "[queue]") {
  request a;
  request b;
  request c;
  fcfs_queue<request> one;
  fcfs_queue<request> other;
  one.push(a, time_point{});
  other.push(b, time_point{});
  CHECK(one.contains(a));
  CHECK_FALSE(one.contains(b));
  CHECK_FALSE(one.contains(c));
  CHECK(other.contains(b));
  one.erase(a);
  CHECK_FALSE(one.contains(a));
  other.insert(a);
  CHECK(other.contains(a));
  CHECK(other.size() == 2);
}

TEST_CASE("ordered_queue: a queue that ends leaves its requests free", "[queue]") {
  std::vector<request> r(3);
  {
    ranked_queue<request> queue;
    for (request& one : r) queue.push(one, time_point{});
  }
  ranked_queue<request> queue;
  for (request& one : r) {
    CHECK_FALSE(queue.contains(one));
    queue.push(one, time_point{});
  }
  CHECK(queue.size() == 3);
}

TEST_CASE(
    "ordered_queue: those who are due are boosted when it comes to them, and no others, in any order of insertion",
    "[queue]") {
  std::vector<request> r(100);
  ranked_queue<request> queue{order::ranked<>{.threshold = 50_s}};
  for (std::size_t i = 0; i != r.size(); ++i) {
    const std::size_t k = i * 37 % r.size();
    r[k].id = static_cast<int>(k);
    r[k].score = static_cast<float>(k);
    request_access::begin_order_state<order::ranked<>>(r[k]);
    queue.discipline().enter(r[k], time_point::at_seconds(static_cast<double>(k)));
    request_access::state(r[k]).sequence = k;
    queue.insert(r[k]);
  }
  const auto boosted = [](const request& one) { return order_state<order::ranked<>>(one).boosted; };
  for (int now = 40; now != 160; ++now) {
    queue.advance(time_point::at_seconds(now));
    int known = 0;
    for (const request& one : r) known += boosted(one) ? 1 : 0;
    CHECK(known <= (now <= 50 ? 0 : now - 50));  // time alone moves none
    int seen = 0;
    for (request* one = queue.front(); one != nullptr; one = queue.next(*one)) {
      CHECK(boosted(*one) == (one->id + 50 <= now));
      seen += boosted(*one) ? 1 : 0;
      CHECK((seen == 0 || one->id == seen - 1 || !boosted(*one)));  // the oldest first
    }
    CHECK(seen == (now < 50 ? 0 : now >= 149 ? 100 : now - 49));
  }
}

TEST_CASE("ordered_queue: an empty queue", "[queue]") {
  ranked_queue<request> queue;
  CHECK(queue.empty());
  CHECK(queue.front() == nullptr);
  CHECK(queue.back() == nullptr);
  CHECK(queue.pop_front() == nullptr);
  queue.advance(time_point::never());
  CHECK(queue.size() == 0);
}

TEST_CASE("ordered_queue: copying a queued request copies no links", "[queue]") {
  request a;
  a.id = 7;
  fcfs_queue<request> queue;
  queue.push(a, time_point{});
  request b = a;
  CHECK(b.id == 7);
  CHECK_FALSE(queue.contains(b));
  CHECK(queue.size() == 1);
}

}  // namespace
