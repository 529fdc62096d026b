// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Requests that arrive later than they came: long prompts, requests that were held or out of sight.

#include <tessera/order/earliest_due.hpp>
#include <tessera/pacing/token_pacer.hpp>
#include <tessera/queue/ordered_queue.hpp>
#include <tessera/rank/length_distribution.hpp>

#include "support/catch.hpp"
#include "unit/order_earliest_due.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using tessera_test::earliest_due_requests::at;
using tessera_test::earliest_due_requests::earliest_due;
using tessera_test::earliest_due_requests::join;
using tessera_test::earliest_due_requests::place;
using tessera_test::earliest_due_requests::queue;
using tessera_test::earliest_due_requests::request;
using tessera_test::earliest_due_requests::seconds_of;
using tessera_test::earliest_due_requests::served;
using tessera_test::earliest_due_requests::state;

TEST_CASE("earliest_due: a request with a longer prompt than others arrives later, by the engine's clock") {
  for (const bool crowded : {false, true}) {
    earliest_due d{.prompt_pace = duration{0.01}, .patience = duration::forever()};
    std::vector<request> others(4);
    for (request& x : others) join(d, x, at(0));
    const auto serve_all = [&] {
      for (request& x : others) CHECK_FALSE(d.charge(x, tokens{}));
    };
    if (!crowded) serve_all();
    d.advance(at(0));
    request slow;
    slow.prompt = tokens{1000};
    // The mean does not rise, because no time passes. So it is 1000 tokens more: 10 s by the engine's clock. The
    // congestion clock shows `guess` then, if the queue stays as it is.
    const double guess = (crowded ? order::crowd_clock::slowest : 1) * 10;
    join(d, slow, at(0));
    CHECK(d.prompts.value() == 0);
    CHECK(place(slow).level == 1);
    CHECK(earliest_due::due_at(slow) == at(10));
    CHECK(seconds_of(place(slow).turn) == Catch::Detail::Approx(guess));

    // It does not: from 5 on no request waits, or many do. What counts is what the clock shows when the time is over.
    d.advance(at(5));
    std::vector<request> more(30);
    if (crowded) {
      serve_all();
      CHECK_FALSE(d.charge(slow, tokens{}));
    } else {
      for (request& x : more) join(d, x, at(5));
    }
    d.advance(at(10.25));
    d.age(slow);
    CHECK(place(slow).level == 1);
    CHECK(earliest_due::due_at(slow) == time_point::never());
    CHECK(place(slow).entered == d.clock.now());
    CHECK(seconds_of(place(slow).turn) == Catch::Detail::Approx(d.clock.now()));
    CHECK((crowded ? d.clock.now() > 5 : d.clock.now() < 6));
  }
}

TEST_CASE("earliest_due: a request that was out of sight has come no later than by the engine's clock") {
  earliest_due d{.prompt_pace = duration{0.01}};
  request first, slow;
  join(d, first, at(0));
  CHECK_FALSE(d.charge(first, tokens{}));
  d.advance(at(1));
  slow.prompt = tokens{1000};
  join(d, slow, at(1));
  const double held = (earliest_due::due_at(slow) - at(1)).seconds();
  CHECK(held == Catch::Detail::Approx(9));  // the mean has risen by 100, as far as it may in a second
  CHECK_FALSE(d.charge(slow, tokens{}));
  d.advance(at(900));  // it was suspended meanwhile, say
  d.age(slow);
  CHECK(d.clock.now() > 800);
  CHECK(place(slow).entered == Catch::Detail::Approx(1 + held));
}

/// What it says may change.
struct expects_what_is_said {
  const std::int64_t* said = nullptr;
  template <schedulable R>
  [[nodiscard]] tokens operator()(const R& /*r*/) const noexcept {
    return tokens{*said};
  }
};

TEST_CASE("earliest_due: a held request that has generated nothing is expected to be as long as when it came") {
  using by_word = order::earliest_due<expects_what_is_said>;
  std::int64_t said = 50;
  by_word d{.slice = tokens{10}, .prompt_pace = duration{0.01}, .expected = {&said}};
  std::vector<request> short_ones(2);
  for (request& x : short_ones) join(d, x, at(0));
  request held, reasons;
  for (request* x : {&held, &reasons}) {
    x->prompt = tokens{100};
    state(*x).phase = phase::reasoning;
    state(*x).length = x->prompt;
    join(d, *x, at(0));
  }
  said = 90;
  state(reasons).length += tokens{10};
  CHECK(d.charge(reasons, tokens{10}));
  d.requeue(reasons);
  CHECK(by_word::due_at(reasons) == at(1));  // it is held on
  d.advance(at(1));
  for (request* x : {&held, &reasons}) {
    REQUIRE(by_word::due_at(*x) == at(1));
    d.age(*x);
  }
  CHECK(seconds_of(place(held).turn) == Catch::Detail::Approx(d.clock.now() + 5));
  CHECK(seconds_of(place(reasons).turn) == Catch::Detail::Approx(d.clock.now() + 9));
}

TEST_CASE("earliest_due: a request that has ended its reasoning is not held") {
  earliest_due d{.prompt_pace = duration{1.0}, .patience = duration::forever()};
  request other, r;
  join(d, other, at(0));
  r.prompt = tokens{20};
  state(r).phase = phase::reasoning;
  state(r).length = r.prompt;
  join(d, r, at(0));
  REQUIRE(earliest_due::due_at(r) == at(20));
  state(r).length += tokens{1};
  state(r).phase = phase::answering;
  d.change_phase(r);
  CHECK(place(r).level == 0);
  CHECK(earliest_due::due_at(r) == time_point::never());
}

TEST_CASE("earliest_due: a request that comes with a reader is not held, however early it is looked after") {
  struct ticking : basic_request_hook<nanoseconds_clock, order::earliest_due<>> {
    basic_token_pacer<nanoseconds_clock> pacer{};
    tokens expected_output{};
  } r;
  order::earliest_due<> d{.margin = duration::forever(), .prompt_pace = duration{0.01}};
  auto& s = request_access::state(r);
  s.phase = phase::answering;
  s.length = tokens{3};
  r.pacer.on_token(ticking::time_point::at_seconds(5), tokens{3});
  join(d, r, ticking::time_point::at_seconds(5));
  CHECK(order_state<order::earliest_due<>>(r).level == 2);
  CHECK(d.due_at(r) < ticking::time_point::at_seconds(0));  // no overflow: sanitizers look at it
}

TEST_CASE("earliest_due: of alike requests that have been held the one that came first is first") {
  std::size_t held_meanwhile = 0;
  for (unsigned seed = 0; seed != 100; ++seed) {
    std::mt19937 random{seed};
    queue q{earliest_due{.prompt_pace = duration{0.002}}};
    std::vector<request> r(400);
    double now = 0;
    std::size_t next = 0;
    std::size_t served = 0;
    while (served != r.size()) {
      now += 0.05;
      q.advance(at(now));
      q.for_each([&](const request& x) { REQUIRE(at(now) < earliest_due::due_at(x)); });
      for (std::size_t n = random() % 5; n-- != 0 && !q.empty(); ++served) {
        request* const first = q.pop_front();
        const bool is_held = earliest_due::due_at(*first) != time_point::never();
        q.for_each([&](const request& x) {
          if (x.prompt != first->prompt || x.state().sequence > first->state().sequence) return;
          INFO("seed " << seed << ", at " << now);
          CHECK((is_held || earliest_due::due_at(x) != time_point::never()));
          ++held_meanwhile;
        });
        CHECK_FALSE(q.discipline().charge(*first, tokens{}));
        if (random() % 2 == 0) q.discipline().leave(*first);
      }
      for (std::size_t n = random() % (next < 150 ? 8 : 3), i = 0; i != n && next != r.size(); ++next, ++i) {
        r[next].starts_in = phase::answering;
        r[next].prompt = tokens{random() % 3 == 0 ? 3000 : 50};
        r[next].expected_output = tokens{100};
        q.push(r[next], at(now + 0.005 * static_cast<double>(i)));
      }
    }
  }
  CHECK(held_meanwhile != 0);  // as the text says
}

TEST_CASE("earliest_due: prompts that are alike change no order, nor do any if they count for nothing") {
  for (const double pace : {0.0, 0.5}) {
    std::mt19937 random{11};
    queue q{earliest_due{.prompt_pace = duration{pace}}};
    std::vector<request> r(50);
    std::vector<std::size_t> arrival;
    for (std::size_t i = 0; i != r.size(); ++i) {
      r[i].prompt = tokens{pace > 0 ? 300 : static_cast<std::int64_t>(random() % 5000)};
      q.push(r[i], at(0.1 * static_cast<double>(i)));
      arrival.push_back(i);
    }
    CHECK(served(q, r) == arrival);
  }
}

TEST_CASE("earliest_due: a request that comes with its KV waits for no prompt, and none counts it again") {
  earliest_due d{.prompt_pace = duration{0.01}};
  std::vector<request> others(4);
  for (request& x : others) join(d, x, at(0));
  request moved;
  moved.prompt = tokens{9000};
  state(moved).length = tokens{9100};
  state(moved).computed = tokens{9099};
  state(moved).phase = phase::reasoning;
  const double now = d.clock.at(3);
  join(d, moved, at(3));
  CHECK(place(moved).entered == now);
  CHECK(d.prompts.value() == 0);
}

TEST_CASE("earliest_due: the mean prompt is that of all, then of the last thousand") {
  order::recent_mean m;
  CHECK(m.value() == 0);
  CHECK(m.excess(6, 1, 100) == 0);
  CHECK(m.excess(0, 2, 100) == -3);
  CHECK(m.value() == 3);
  for (int i = 0; i != 20'000; ++i) m.excess(5, 2 + i, 100);
  CHECK(m.value() == Catch::Detail::Approx(5));
  CHECK(m.excess(1005, 30'000, 100) == Catch::Detail::Approx(999));
}

TEST_CASE("earliest_due: the mean prompt rises no faster than it may, so that no later one is through sooner") {
  order::recent_mean m;
  CHECK(m.excess(10, 4, 0) == 0);  // the first is the mean
  CHECK(m.excess(1000, 5, 20) == 970);
  CHECK(m.excess(1000, 5, 20) == 970);                                  // no time has passed
  CHECK(m.excess(1000, 3, 20) == 970);                                  // nor then,
  CHECK(m.excess(1000, 6, 20) == 950);                                  // and none of it counts twice
  CHECK(m.excess(0, 100, 1000) == Catch::Detail::Approx(-4010.0 / 6));  // what it has not risen is not forgotten
  CHECK(m.excess(0, 100, 20) == Catch::Detail::Approx(-4010.0 / 7));    // it falls at once

  std::mt19937 random{3};
  order::recent_mean of;
  double now = 0;
  std::array<double, 3> through{};
  for (int i = 0; i != 5000; ++i) {
    now += static_cast<double>(random() % 100) / 1000;
    const double mean = 100 * static_cast<double>(1 + random() % 90);
    of.excess(mean, now, 1 / 0.002);
    for (const double length : {1000.0, 5000.0, 9000.0}) {
      const double until = now + 0.002 * std::max(length - of.value(), 0.0);
      double& last = through[static_cast<std::size_t>(length / 4000)];
      CHECK(until >= last - 1e-9);
      last = until;
    }
  }
}

}  // namespace
