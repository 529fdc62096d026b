// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/order/paced.hpp>
#include <tessera/pacing/token_pacer.hpp>
#include <tessera/queue/ordered_queue.hpp>

#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using namespace tessera;

struct request : request_hook_for<order::paced<>> {
  token_pacer pacer{};
};
using paced = order::paced<>;
using queue = ordered_queue<request, paced>;

request::state_type& state(request& r) { return request_access::state(r); }
template <class R>
const auto& place(const R& r) {
  return order_state<paced>(r);
}
/// What a container does with a request that joins it.
template <class D, class R>
void join(D&& d, R& r, typename R::time_point now) {
  request_access::begin_order_state<paced>(r);
  d.enter(r, now);
}
time_point at(double s) { return time_point::at_seconds(s); }

/// An answer that was given `n` tokens at once, at `s`: its reader runs dry n / 10 seconds later.
void make_answer(request& r, double s, std::int64_t n) {
  r.starts_in = phase::answering;
  r.pacer = token_pacer{};
  if (n > 0) r.pacer.on_token(at(s), tokens{n});
}

TEST_CASE("paced: reasoning before an answer that can wait, after one that cannot") {
  queue q;
  request reasons;
  request reads;
  make_answer(reads, 0, 100);  // dry at 10, urgent from 9 on
  q.push(reads, at(1));
  q.push(reasons, at(2));
  q.advance(at(8.99));
  CHECK(q.front() == &reasons);
  CHECK(paced::displaces(reasons, reads));
  CHECK_FALSE(paced::displaces(reads, reasons));
  q.advance(at(9));
  CHECK(q.front() == &reads);
  CHECK(paced::displaces(reads, reasons));
  CHECK_FALSE(paced::displaces(reasons, reads));
  while (!q.empty()) q.pop_front();
}

TEST_CASE("paced: an answer without a token is urgent at once, waiting or resident") {
  queue q;
  request reasons;
  request waits;
  make_answer(waits, 0, 0);
  q.push(reasons, at(0));
  q.push(waits, at(5));
  q.advance(at(5));
  CHECK(q.front() == &waits);
  while (!q.empty()) q.pop_front();

  paced d;
  request resident;
  join(d, resident, at(0));
  state(resident).phase = phase::answering;
  state(resident).answering_since = at(7);
  d.change_phase(resident);
  CHECK(place(resident).level == 0);
  CHECK(place(resident).urgent_at == at(7));
}

TEST_CASE("paced: answers go by their readers' deadlines, urgent and calm ones alike") {
  queue q;
  std::vector<request> r(6);
  const std::int64_t stored[] = {300, 20, 150, 40, 200, 90};
  for (std::size_t i = 0; i != r.size(); ++i) {
    make_answer(r[i], 0, stored[i]);
    q.push(r[i], at(0));
  }
  q.advance(at(10));  // those with less than 11 s to read are urgent
  std::vector<std::int64_t> order;
  std::vector<bool> urgent;
  while (const request* next = q.front()) {
    order.push_back(next->pacer.delivered().count());
    urgent.push_back(place(*next).level == 0);
    q.pop_front();
  }
  CHECK(order == std::vector<std::int64_t>{20, 40, 90, 150, 200, 300});
  CHECK(urgent == std::vector<bool>{true, true, true, false, false, false});
}

TEST_CASE("paced: among answers none displaces a resident unless it is urgent and the other is not") {
  request a;
  request b;
  make_answer(a, 0, 50);
  make_answer(b, 0, 500);
  paced d;
  state(a).phase = state(b).phase = phase::answering;
  join(d, a, at(0));
  join(d, b, at(0));
  CHECK(paced::before(a, b));
  CHECK_FALSE(paced::displaces(a, b));
  d.age(a);
  CHECK(paced::displaces(a, b));
  d.age(b);
  CHECK_FALSE(paced::displaces(a, b));
  CHECK_FALSE(paced::displaces(b, a));
}

TEST_CASE("paced: an urgent answer stays so for a slice, then its reader is asked again") {
  paced d{.slice = tokens{100}};
  request r;
  make_answer(r, 0, 10);
  state(r).phase = phase::answering;
  join(d, r, at(0));
  d.age(r);
  CHECK_FALSE(d.charge(r, tokens{99}));
  CHECK(place(r).level == 0);
  r.pacer.on_token(at(0.5), tokens{100});  // dry at 11 now
  CHECK(d.charge(r, tokens{1}));
  d.requeue(r);
  CHECK(place(r).level == 2);
  CHECK(place(r).urgent_at.seconds() == Catch::Detail::Approx(10.0));
  CHECK(place(r).quantum_used == tokens{0});
}

TEST_CASE("paced: young reasoning first, up to so many quanta; then by age") {
  paced d{.quantum = tokens{10}, .young_quanta = 2};
  std::vector<request> r(4);
  for (std::size_t i = 0; i != r.size(); ++i) {
    state(r[i]).sequence = i + 1;
    join(d, r[i], at(0));
  }
  const auto use_quanta = [&](std::size_t i, int n) {
    for (int k = 0; k != n; ++k) {
      CHECK_FALSE(d.charge(r[i], tokens{9}));
      REQUIRE(d.charge(r[i], tokens{1}));
      d.requeue(r[i]);
    }
  };
  use_quanta(0, 7);
  use_quanta(1, 2);
  use_quanta(2, 1);
  // r[3] has used none, r[2] one; r[0] and r[1] are both old, and r[0] came first.
  CHECK(paced::before(r[3], r[2]));
  CHECK(paced::before(r[2], r[0]));
  CHECK(paced::before(r[0], r[1]));
  CHECK(paced::displaces(r[3], r[0]));
  CHECK(paced::displaces(r[0], r[1]));
  CHECK_FALSE(paced::displaces(r[1], r[0]));
}

TEST_CASE("paced: nothing is demoted, and a priority comes before everything") {
  paced d;
  request r;
  join(d, r, at(0));
  state(r).computed = tokens{1'000'000};
  CHECK_FALSE(d.charge(r, tokens{1}));
  CHECK(r.state().carried == 0);
  request urgent;
  make_answer(urgent, 0, 1);
  state(urgent).phase = phase::answering;
  join(d, urgent, at(0));
  d.age(urgent);
  r.priority = 1;
  CHECK(paced::before(r, urgent));
  CHECK(paced::displaces(r, urgent));
}

TEST_CASE("paced: a clock of ticks, and a deadline that is not a pacer's") {
  struct tick_request : basic_request_hook<nanoseconds_clock, order::paced<>> {
    std::int64_t dry_at_ms = 0;
  };
  struct dry_at {
    basic_time_point<nanoseconds_clock> operator()(const tick_request& r) const noexcept {
      return basic_time_point<nanoseconds_clock>::at_seconds(static_cast<double>(r.dry_at_ms) / 1000);
    }
  };
  order::paced<dry_at> d{.margin = duration{0.25}};
  tick_request r;
  r.dry_at_ms = 1500;
  request_access::state(r).phase = phase::answering;
  join(d, r, basic_time_point<nanoseconds_clock>{});
  CHECK(place(r).urgent_at == basic_time_point<nanoseconds_clock>::at_seconds(1.25));
}

TEST_CASE("paced: whatever the margin, no clock overflows") {
  struct tick_request : basic_request_hook<nanoseconds_clock, order::paced<>> {
    basic_token_pacer<nanoseconds_clock> pacer{};
  };
  const auto seconds = [](double s) { return basic_time_point<nanoseconds_clock>::at_seconds(s); };
  const auto boost_at = [&](duration margin) {
    tick_request r;
    r.pacer.on_token(seconds(5));  // dry at 5.1
    request_access::state(r).phase = phase::answering;
    join(order::paced<>{.margin = margin}, r, seconds(5));
    return place(r).urgent_at;
  };
  CHECK(boost_at(duration{1.0}) == seconds(4.1));
  for (const duration longest : {duration::forever(), duration{1e30}, duration{9.3e9}}) {
    CHECK(boost_at(longest) < seconds(-9e9));  // always urgent
    CHECK(boost_at(duration{-longest.seconds()}) == basic_time_point<nanoseconds_clock>::never());
  }
  CHECK(boost_at(duration{9e9}) < seconds(-8.9e9));

  ordered_queue<tick_request, paced> q{paced{.margin = duration::forever()}};
  tick_request r;
  r.starts_in = phase::answering;
  r.pacer.on_token(seconds(5));
  q.push(r, seconds(5));
  q.advance(seconds(5));
  CHECK(q.front() == &r);
  CHECK(place(r).level == 0);
  q.erase(r);

  request with_doubles;
  make_answer(with_doubles, 0, 10);
  state(with_doubles).phase = phase::answering;
  join(paced{.margin = duration::forever()}, with_doubles, at(0));
  CHECK(place(with_doubles).urgent_at < at(-1e300));
}

}  // namespace
