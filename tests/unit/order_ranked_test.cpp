// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/order/ranked.hpp>
#include <tessera/queue/ranked.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <limits>
#include <vector>

namespace {

using namespace tessera;

struct request : request_hook_for<order::ranked<>> {
  float score = 0;
  int id = 0;
};
struct tick_request : basic_request_hook<nanoseconds_clock, order::ranked<>> {
  float score = 0;
};

template <class R>
const auto& place(const R& r) {
  return order_state<order::ranked<>>(r);
}
/// What a container does with a request that joins it.
template <class R>
void join(order::ranked<>& d, R& r, typename R::time_point now) {
  request_access::begin_order_state<order::ranked<>>(r);
  d.enter(r, now);
}

constexpr time_point at(double s) { return time_point::at_seconds(s); }

template <class Queue>
std::vector<int> drain(Queue& queue) {
  std::vector<int> ids;
  while (request* const r = queue.pop_front()) ids.push_back(r->id);
  return ids;
}

TEST_CASE("ranked: smallest score first, NaN last, ties by arrival", "[order][ranked]") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float scores[] = {3, nan, -inf, inf, 0, -0.0F, 3, nan, -2};
  std::vector<request> r(std::size(scores));
  ranked_queue<request> queue;
  for (std::size_t i = 0; i != r.size(); ++i) {
    r[i].id = static_cast<int>(i);
    r[i].score = scores[i];
    queue.push(r[i], time_point{});
  }
  CHECK(drain(queue) == std::vector<int>{2, 8, 4, 5, 0, 6, 1, 3, 7});
}

TEST_CASE("ranked: a changed threshold counts for all, also for those that were boosted", "[order][ranked]") {
  std::vector<request> r(3);
  ranked_queue<request> queue{order::ranked<>{.threshold = duration{10}}};
  for (int i = 0; i != 3; ++i) {
    r[static_cast<std::size_t>(i)].id = i;
    r[static_cast<std::size_t>(i)].score = static_cast<float>(-i);
    queue.push(r[static_cast<std::size_t>(i)], at(i));
  }
  const auto retune = [&](double threshold) {
    queue.discipline().threshold = duration{threshold};
    for (request& x : r) queue.update(x, [&](request& q) { queue.discipline().retune(q); });
  };
  queue.advance(at(11.5));
  CHECK(queue.front()->id == 0);
  CHECK(place(r[0]).boosted);
  retune(100);
  CHECK(queue.front()->id == 2);
  CHECK_FALSE(place(r[0]).boosted);
  retune(0);
  CHECK(drain(queue) == std::vector<int>{0, 1, 2});
}

TEST_CASE("ranked: a request that has waited the threshold is boosted, oldest first", "[order][ranked]") {
  std::vector<request> r(5);
  ranked_queue<request> queue;  // 120 s
  for (std::size_t i = 0; i != r.size(); ++i) {
    r[i].id = static_cast<int>(i);
    r[i].score = static_cast<float>(10 - i);
    queue.push(r[i], at(static_cast<double>(i)));
  }
  queue.advance(at(119.999));
  CHECK(queue.front()->id == 4);
  queue.advance(at(120));
  CHECK(queue.front()->id == 0);
  CHECK(place(r[0]).boosted);
  CHECK_FALSE(place(r[1]).boosted);
  queue.advance(at(122.5));
  CHECK(drain(queue) == std::vector<int>{0, 1, 2, 4, 3});
}

TEST_CASE("ranked: priority stands above ageing", "[order][ranked]") {
  std::vector<request> r(2);
  r[0].id = 0;
  r[1].id = 1;
  r[1].priority = 1;
  r[1].score = 9;
  ranked_queue<request> queue;
  queue.push(r[0], at(0));
  queue.push(r[1], at(1000));
  queue.advance(at(1000));
  CHECK(drain(queue) == std::vector<int>{1, 0});
  CHECK(place(r[0]).boosted);
}

TEST_CASE("ranked: one that is put back keeps its score and its age", "[order][ranked]") {
  std::vector<request> r(3);
  for (int i = 0; i != 3; ++i) r[static_cast<std::size_t>(i)].id = i;
  r[0].score = 5;
  r[1].score = 1;
  r[2].score = 2;
  ranked_queue<request> queue;
  queue.push(r[0], at(0));
  queue.erase(r[0]);
  queue.push(r[1], at(100));
  queue.push(r[2], at(110));
  r[0].score = 0;  // what it was queued with counts
  queue.insert(r[0]);
  CHECK(queue.back() == &r[0]);
  queue.erase(r[0]);
  queue.advance(at(130));
  queue.insert(r[0]);  // its time came while it was away
  CHECK_FALSE(place(r[0]).boosted);
  CHECK(queue.front() == &r[0]);
  CHECK(place(r[0]).boosted);
  queue.erase(r[0]);
  queue.insert(r[0]);  // still boosted
  CHECK(drain(queue) == std::vector<int>{0, 1, 2});
}

TEST_CASE("ranked: the threshold to the nanosecond, and its extremes", "[order][ranked]") {
  using ns = basic_time_point<nanoseconds_clock>;
  const auto ticks = [](std::int64_t n) { return ns{basic_duration<nanoseconds_clock>{n}}; };
  tick_request a;
  tick_request b;
  {
    ranked_queue<tick_request> queue{order::ranked<>{.threshold = 0.25_s}};
    a.score = 2;
    b.score = 1;
    queue.push(a, ticks(1));
    queue.push(b, ticks(2));
    queue.advance(ticks(250'000'000));
    CHECK(queue.front() == &b);
    queue.advance(ticks(250'000'001));
    CHECK(queue.front() == &a);
    CHECK_FALSE(place(b).boosted);
  }
  for (const duration never :
       {duration::forever(), duration{1e30}, duration{std::numeric_limits<double>::quiet_NaN()}}) {
    order::ranked<> d{.threshold = never};
    join(d, a, ticks(5));
    CHECK(place(a).boost_at == ns::never());
  }
  order::ranked<> at_once{.threshold = 0_s};
  join(at_once, a, ticks(5));
  CHECK(place(a).boost_at == ticks(5));

  request r;
  order::ranked<> forever{.threshold = duration::forever()};
  join(forever, r, at(5));
  CHECK(place(r).boost_at == time_point::never());
}

TEST_CASE("ranked: a scorer of one's own", "[order][ranked]") {
  struct longest_prompt {
    float operator()(const request& r) const noexcept { return -static_cast<float>(r.prompt.count()); }
  };
  std::vector<request> r(3);
  ranked_queue<request, longest_prompt> queue;
  for (int i = 0; i != 3; ++i) {
    r[static_cast<std::size_t>(i)].id = i;
    r[static_cast<std::size_t>(i)].prompt = tokens{i * i};
    queue.push(r[static_cast<std::size_t>(i)], time_point{});
  }
  CHECK(drain(queue) == std::vector<int>{2, 1, 0});
}

TEST_CASE("ranked: nothing but a higher priority displaces", "[order][ranked]") {
  order::ranked<> d;
  request waiting;
  request resident;
  resident.score = 7;
  join(d, waiting, time_point{});
  join(d, resident, time_point{});
  d.age(waiting);
  CHECK(order::ranked<>::before(waiting, resident));
  CHECK_FALSE(order::ranked<>::displaces(waiting, resident));
  waiting.priority = 1;
  CHECK(order::ranked<>::displaces(waiting, resident));
}

}  // namespace
