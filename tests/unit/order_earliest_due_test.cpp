// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/order/earliest_due.hpp>
#include <tessera/pacing/token_pacer.hpp>
#include <tessera/queue/ordered_queue.hpp>
#include <tessera/rank/expected_rest.hpp>
#include <tessera/rank/length_distribution.hpp>
#include <tessera/rank/program_length.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace {

using namespace tessera;

struct request : request_hook_for<order::earliest_due<>> {
  token_pacer pacer{};
  tokens expected_output{};
};
using earliest_due = order::earliest_due<>;
using queue = ordered_queue<request, earliest_due>;

request::state_type& state(request& r) { return request_access::state(r); }
template <class R>
auto& place(R& r) {
  return request_access::order_state<earliest_due>(r);
}
/// A place on level 1, in seconds.
double seconds_of(std::uint64_t turn) {
  return static_cast<double>(static_cast<std::int64_t>(turn ^ (std::uint64_t{1} << 63U))) / 1e6;
}
/// What a container does with a request that joins it.
template <class Order, class R>
void join(Order& d, R& r, typename R::time_point now) {
  request_access::state(r).arrived = now;
  request_access::begin_order_state<Order>(r);
  d.enter(r, now);
}
time_point at(double s) { return time_point::at_seconds(s); }

/// The requests in the order in which the queue gives them out.
std::vector<std::size_t> served(queue& q, const std::vector<request>& all) {
  std::vector<std::size_t> out;
  for (; !q.empty(); q.pop_front()) out.push_back(static_cast<std::size_t>(q.front() - all.data()));
  return out;
}

TEST_CASE("earliest_due: who nobody reads goes by arrival plus expected output, reasoning or not") {
  queue q{earliest_due{.patience = duration::forever()}};
  std::vector<request> r(5);
  // At 0.1 s a token: due at 10, 5, 2, 53, 9; by the clock of the crowd earlier, in the same order.
  const std::int64_t expected[] = {100, 40, 0, 500, 50};
  for (std::size_t i = 0; i != r.size(); ++i) {
    r[i].expected_output = tokens{expected[i]};
    r[i].starts_in = i % 2 == 0 ? phase::reasoning : phase::answering;
    q.push(r[i], at(static_cast<double>(i)));
  }
  q.advance(at(1000));  // without a patience nothing is served for its age
  CHECK(served(q, r) == std::vector<std::size_t>{2, 1, 4, 0, 3});
}

TEST_CASE("earliest_due: without predictions, and for requests that are alike, it is arrival order") {
  for (const std::int64_t expected : {0, 7, 1'000'000}) {
    queue q;
    std::vector<request> r(20);
    std::vector<std::size_t> arrival;
    for (std::size_t i = 0; i != r.size(); ++i) {
      r[i].expected_output = tokens{expected};
      q.push(r[i], at(0.25 * static_cast<double>(i / 3)));  // three at a time
      arrival.push_back(i);
    }
    CHECK(served(q, r) == arrival);
  }
}

TEST_CASE("earliest_due: nobody is overtaken by who comes its own expected time later, nor by who expects more") {
  const double prompt_pace = GENERATE(0.0, 0.05);
  std::mt19937 random{7};
  queue q{earliest_due{.prompt_pace = duration{prompt_pace}, .patience = duration::forever()}};
  std::vector<request> r(300);
  std::vector<double> arrived;
  double now = 0;
  for (request& x : r) {
    now += static_cast<double>(random() % 100) / 100;
    arrived.push_back(now);
    x.expected_output = tokens{static_cast<std::int64_t>(random() % 400)};
    x.prompt = tokens{static_cast<std::int64_t>(random() % 2000)};
    q.push(x, at(now));
    q.advance(at(now));
  }
  for (std::size_t i = 0; i <= r.size() / queue::most_aged; ++i) q.advance(at(now + 1000));
  const auto out = served(q, r);
  for (std::size_t i = 0; i != out.size(); ++i) {
    for (std::size_t j = i + 1; j != out.size(); ++j) {
      const std::size_t first = out[i];
      const std::size_t later = out[j];
      const double whole = 0.1 * static_cast<double>(r[later].expected_output.count());
      CHECK(place(r[first]).entered <= place(r[later]).entered + whole + 1e-6);
      const double held = prompt_pace * static_cast<double>(r[later].prompt.count());
      CHECK(arrived[first] <= arrived[later] + held + whole / order::crowd_clock::slowest + 1e-6);
      if (first <= later) continue;
      CHECK((r[first].expected_output < r[later].expected_output ||
             (prompt_pace > 0 && r[first].prompt < r[later].prompt)));
    }
  }
}

TEST_CASE("earliest_due: the first token makes an answer a reader's, and frees its place") {
  earliest_due d{.slice = tokens{100}};
  request r;
  r.starts_in = state(r).phase = phase::answering;
  join(d, r, at(3));
  CHECK(place(r).level == 1);
  CHECK(place(r).urgent_at == time_point::never());
  CHECK_FALSE(d.charge(r, tokens{}));  // a chunk of its prompt
  r.pacer.on_token(at(5), tokens{30});
  state(r).length += tokens{30};
  REQUIRE(d.charge(r, tokens{30}));
  d.requeue(r);
  CHECK(place(r).level == 2);
  CHECK(place(r).urgent_at == at(7));  // read until 8, less the margin
  CHECK_FALSE(d.charge(r, tokens{99}));
  r.pacer.on_token(at(6), tokens{100});
  REQUIRE(d.charge(r, tokens{1}));
  d.requeue(r);
  CHECK(place(r).urgent_at == at(17));
}

TEST_CASE("earliest_due: reasoning keeps its place however long it takes, and is urgent when it ends") {
  earliest_due d{.slice = tokens{100}};
  request r;
  r.expected_output = tokens{50};
  state(r).phase = phase::reasoning;
  join(d, r, at(1));
  const std::uint64_t turn = place(r).turn;
  for (int i = 0; i != 1000; ++i) CHECK_FALSE(d.charge(r, tokens{50}));
  CHECK(place(r).turn == turn);
  CHECK(place(r).level == 1);
  state(r).phase = phase::answering;
  state(r).length = tokens{50'000};
  state(r).answering_since = at(9);
  d.change_phase(r);
  CHECK(place(r).level == 0);
  CHECK(place(r).urgent_at == at(9));
  // It stays so for a slice, with a reader or without.
  CHECK_FALSE(d.charge(r, tokens{99}));
  r.pacer.on_token(at(9.5), tokens{100});
  CHECK(d.charge(r, tokens{1}));
  d.requeue(r);
  CHECK(place(r).level == 2);
}

TEST_CASE("earliest_due: the longer the line, the longer the short ones overtake") {
  for (const bool crowded : {false, true}) {
    earliest_due d;
    std::vector<request> others(4);
    for (request& x : others) join(d, x, at(0));
    request slow;
    slow.expected_output = tokens{100};
    join(d, slow, at(0));
    d.advance(at(0));
    if (!crowded) {
      CHECK_FALSE(d.charge(slow, tokens{}));
      for (request& x : others) CHECK_FALSE(d.charge(x, tokens{}));
      for (request& x : others) CHECK_FALSE(d.charge(x, tokens{}));  // who has begun does not begin again
    }
    // Due at 10. All have begun, and the clock is the engine's; or none has, and it all but stands.
    d.advance(at(8));
    request quick;
    quick.expected_output = tokens{30};
    join(d, quick, at(12));
    CHECK(place(quick).entered == Catch::Detail::Approx(crowded ? 12 * order::crowd_clock::slowest : 12));
    CHECK(earliest_due::before(quick, slow) == crowded);
    for (request& x : others) d.leave(x);
    d.leave(slow);
    d.leave(quick);
    CHECK(d.clock.rate() == 1);
  }
}

TEST_CASE("earliest_due: who has a longer prompt than others arrives later, by the engine's clock") {
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
    // The mean does not rise, for no time passes. So it is 1000 tokens more: 10 s by the engine's clock, which are so
    // many by that of the crowd if the line stays as it is.
    const double guess = (crowded ? order::crowd_clock::slowest : 1) * 10;
    join(d, slow, at(0));
    CHECK(d.prompts.value() == 0);
    CHECK(place(slow).level == 1);
    CHECK(earliest_due::due_at(slow) == at(10));
    CHECK(seconds_of(place(slow).turn) == Catch::Detail::Approx(guess));

    // It does not: from 5 on nobody waits, or many do. What counts is what the clock shows when the time is over.
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

TEST_CASE("earliest_due: whoever was out of sight has come no later than by the engine's clock") {
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

TEST_CASE("earliest_due: who has been held, and has generated nothing, is expected to be as long as when it came") {
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

TEST_CASE("earliest_due: who has ended its reasoning is not held") {
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

TEST_CASE("earliest_due: who comes with a reader is not held, however early he is looked after") {
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

TEST_CASE("earliest_due: of those who are alike and have been held who came first is first") {
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

TEST_CASE("earliest_due: who comes with its KV waits for no prompt, and none counts it again") {
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

/// Twice what it has, and 10 at first: nobody knows before.
struct expects_twice {
  template <schedulable R>
  [[nodiscard]] tokens operator()(const R& r) const noexcept {
    return tokens{10} + 2 * r.generated();
  }
};

TEST_CASE("earliest_due: who reasons on is expected anew once a slice, up to so many times what was expected first") {
  using by_age = order::earliest_due<expects_twice>;
  by_age d{.pace = duration{1.0}, .slice = tokens{5}, .revised = 4};
  request r;
  state(r).phase = phase::reasoning;
  join(d, r, at(100));
  const std::uint64_t first = place(r).turn;
  const auto seconds = [&] { return static_cast<double>(place(r).turn - first) / 1e6; };
  const auto generate = [&](std::int64_t n) {
    state(r).length += tokens{n};
    const std::uint64_t before = place(r).turn;
    const bool due = d.charge(r, tokens{n});
    CHECK(place(r).turn == before);  // its place is as it was until it is given another
    if (due) d.requeue(r);
    return due;
  };
  CHECK_FALSE(generate(4));
  CHECK(generate(1));
  CHECK(seconds() == 10);
  CHECK_FALSE(generate(3));
  CHECK(generate(4));
  CHECK(seconds() == 24);
  CHECK(generate(5));
  CHECK(seconds() == 30);
  // There it stays: it is not overtaken by who comes 40 s after it.
  for (int i = 0; i != 100; ++i) CHECK_FALSE(generate(5));
  request later;
  state(later).phase = phase::reasoning;
  join(d, later, at(129));
  CHECK(by_age::before(later, r));
  d.leave(later);  // so that nobody slows the clock
  join(d, later, at(131));
  CHECK(by_age::before(r, later));
}

TEST_CASE("earliest_due: the young overtake who has reasoned for long, and take no place of his") {
  order::earliest_due<expects_twice> d{.slice = tokens{100}};
  request old;
  state(old).phase = phase::reasoning;
  join(d, old, at(0));
  state(old).length = tokens{100};
  REQUIRE(d.charge(old, tokens{100}));
  d.requeue(old);
  request young;
  state(young).phase = phase::reasoning;
  join(d, young, at(0.5));
  CHECK(decltype(d)::before(young, old));
  CHECK_FALSE(d.displaces(young, old));
}

TEST_CASE(
    "earliest_due: with a distribution of lengths, short ones and long ones part when the short ones have ended") {
  auto storage = storage_for<rank::length_distribution>({.window = 1024, .groups = 1});
  rank::length_distribution lengths{storage};
  struct scored : request_hook_for<order::earliest_due<>> {
    token_pacer pacer{};
    float score = 0;
  };
  order::earliest_due<rank::expected_length<>> d{.expected = {&lengths}};
  const auto seconds = [&](std::int64_t generated) {
    scored r;
    r.prompt = tokens{5};
    request_access::state(r).phase = phase::reasoning;
    request_access::state(r).length = r.prompt;
    join(d, r, at(0));
    const std::uint64_t arrival =
        place(r).turn - static_cast<std::uint64_t>(1e5) * static_cast<std::uint64_t>(place(r).first.count());
    request_access::state(r).length += tokens{generated};
    if (d.charge(r, tokens{generated})) d.requeue(r);
    return static_cast<double>(place(r).turn - arrival) / 1e6;
  };
  CHECK(seconds(0) == 0);  // nothing is known
  CHECK(seconds(500) == 0);
  for (int i = 0; i != 1000; ++i) lengths.observe(0, tokens{i % 2 == 0 ? 60 : 1000});
  lengths.fit();
  CHECK(seconds(0) == Catch::Detail::Approx(53).epsilon(0.05));
  CHECK(seconds(249) == seconds(0));
  CHECK(seconds(250) == Catch::Detail::Approx(100).epsilon(0.05));
  CHECK(seconds(5000) == 2 * seconds(0));
}

TEST_CASE("earliest_due: the heavier the tail, the longer who reasons on is overtaken") {
  auto storage = storage_for<rank::length_distribution>({.window = 1024, .groups = 1});
  rank::length_distribution lengths{storage};
  for (int i = 0; i != 1000; ++i) lengths.observe(0, tokens{i % 100 == 0 ? 12'000 : 60});
  lengths.fit();
  const double bias = lengths.length_bias(0);
  REQUIRE(bias > 30);
  struct scored : request_hook_for<order::earliest_due<>> {
    token_pacer pacer{};
    float score = 0;
    order::program_service* program = nullptr;
  };
  // Of who has reasoned for 1,000 tokens nearly 12,000 are expected, a hundred times what was expected first.
  const auto counts = [&](auto order) {
    scored r;
    r.prompt = tokens{5};
    request_access::state(r).phase = phase::reasoning;
    request_access::state(r).length = r.prompt;
    join(order, r, at(0));
    const std::uint64_t first = place(r).turn;
    request_access::state(r).length += tokens{1000};
    if (order.charge(r, tokens{1000})) order.requeue(r);
    const auto expected_first = static_cast<double>(place(r).first.count());
    return 1 + static_cast<double>(place(r).turn - first) / 1e5 / expected_first;
  };
  using by_length = order::earliest_due<rank::expected_length<>>;
  using by_program = order::earliest_due<rank::program_length<>>;
  CHECK(counts(by_length{.expected = {&lengths}}) == Catch::Detail::Approx(bias));
  CHECK(counts(by_length{.revised = 1.5, .expected = {&lengths}}) == Catch::Detail::Approx(1 + (bias - 1) / 2));
  CHECK(counts(by_length{.revised = 1, .expected = {&lengths}}) == 1);
  CHECK(counts(by_program{.expected = {.expected = {&lengths}}}) == Catch::Detail::Approx(bias));
}

/// So much, and twice what there is; of lengths of which one is as long as all.
struct without_end {
  std::int64_t first = 0;
  template <schedulable R>
  [[nodiscard]] tokens operator()(const R& r) const noexcept {
    return tokens{first} + 2 * r.generated();
  }
  template <schedulable R>
  [[nodiscard]] double length_bias(const R&) const noexcept {
    return std::numeric_limits<double>::infinity();
  }
};

TEST_CASE("earliest_due: no bound is no bound, and never more is never more, whatever the tail") {
  const auto later = [&](std::int64_t first, double revised) {
    order::earliest_due<without_end> d{.pace = duration{1.0}, .revised = revised, .expected = {first}};
    request r;
    state(r).phase = phase::reasoning;
    join(d, r, at(100));
    const std::uint64_t turn = place(r).turn;
    state(r).length += tokens{1000};
    if (d.charge(r, tokens{1000})) d.requeue(r);
    return static_cast<double>(place(r).turn - turn) / 1e6;
  };
  for (const double revised : {2.0, std::numeric_limits<double>::infinity()}) {
    CHECK(later(40, revised) == 2000);
    CHECK(later(0, revised) == 0);
  }
  CHECK(later(40, 1) == 0);
  CHECK(later(0, 1) == 0);
}

TEST_CASE("earliest_due: who has reasoned elsewhere and comes to answer is urgent at once, whatever is due before") {
  queue q;
  request early;
  q.push(early, at(0));
  request moved;
  moved.expected_output = tokens{1'000'000};
  earliest_due d;
  state(moved).phase = phase::answering;
  state(moved).length = moved.prompt + tokens{80};
  state(moved).answering_since = at(4);
  join(d, moved, at(1));
  q.insert(moved);
  q.advance(at(4));
  CHECK(q.front() == &moved);
  CHECK(place(moved).level == 0);
  // And one that was being read goes on by its reader's deadline.
  q.erase(moved);
  moved.pacer.on_token(at(4), tokens{100});
  join(d, moved, at(1));
  CHECK(place(moved).level == 2);
  CHECK(place(moved).urgent_at == at(13));
  while (!q.empty()) q.pop_front();
}

TEST_CASE("earliest_due: readers before those that nobody reads, those before readers who can wait") {
  const earliest_due d;
  request dry;
  request unread;
  request calm;
  place(dry).level = 0;
  place(unread).level = 1;
  place(calm).level = 2;
  CHECK(d.displaces(dry, unread));
  CHECK(d.displaces(unread, calm));
  CHECK_FALSE(d.displaces(unread, dry));
  // A prompt without reasoning is served before calm answers, and takes nothing from them.
  request prompt;
  place(prompt).level = 1;
  state(prompt).phase = phase::answering;
  CHECK(earliest_due::before(prompt, calm));
  CHECK_FALSE(d.displaces(prompt, calm));
  // On one level nobody takes another's blocks, however early he is due.
  request sooner;
  place(sooner).level = 1;
  place(unread).turn = 10;
  CHECK(earliest_due::before(sooner, unread));
  CHECK_FALSE(d.displaces(sooner, unread));
  // Priority is above all.
  unread.priority = 1;
  CHECK(d.displaces(unread, dry));
  CHECK(earliest_due::before(unread, dry));
}

TEST_CASE("earliest_due: where moves cost all who are here, reasoning displaces those whose readers can wait longer") {
  earliest_due d{.move_pace = duration{0.001}};
  d.advance(at(100));
  request reasoning;
  reasoning.starts_in = phase::reasoning;
  state(reasoning).phase = phase::reasoning;
  state(reasoning).length = tokens{500};
  join(d, reasoning, at(100));
  request calm;
  place(calm).level = 2;
  // Half a second for each who is here: itself, then ten.
  const auto can_wait = [&](double s) {
    place(calm).urgent_at = at(100 + s);
    return d.displaces(reasoning, calm);
  };
  CHECK(can_wait(0.501));
  CHECK_FALSE(can_wait(0.499));
  std::vector<request> others(9);
  for (request& r : others) join(d, r, at(100));
  CHECK(can_wait(5.01));
  CHECK_FALSE(can_wait(4.99));
  // Whether they wait or are served; until they leave.
  for (request& r : others) (void)d.charge(r, tokens{1});
  CHECK_FALSE(can_wait(4.99));
  for (request& r : others) d.leave(r);
  CHECK(can_wait(0.501));
  CHECK_FALSE(can_wait(0.499));
  // The longer it takes until it begins, the less of the reader's time is left.
  d.advance(at(101));
  CHECK_FALSE(can_wait(1.499));
  CHECK(can_wait(1.501));
  // One whose reader runs dry asks nobody, nor do priorities.
  place(calm).urgent_at = at(101);
  request dry;
  CHECK(d.displaces(dry, calm));
  reasoning.priority = 1;
  CHECK(d.displaces(reasoning, calm));
  // Moves that cost nothing are made for however little.
  d.move_pace = {};
  reasoning.priority = 0;
  CHECK(can_wait(-50));
}

TEST_CASE("earliest_due: any clock's origin, any prediction") {
  const auto turn_of = [](double arrived, std::int64_t expected) {
    earliest_due d;
    request r;
    r.expected_output = tokens{expected};
    join(d, r, at(arrived));
    return place(r).turn;
  };
  // A second apart in the year 2026 is still a second apart; before the origin is before it.
  CHECK(turn_of(1.8e9 + 1, 0) - turn_of(1.8e9, 0) == 1'000'000);
  CHECK(turn_of(-5, 0) < turn_of(-4, 0));
  CHECK(turn_of(-1e-3, 0) < turn_of(0, 0));
  CHECK(turn_of(0, -7) == turn_of(0, 0));
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  CHECK(turn_of(0, most) > turn_of(1e9, 1'000'000));
  CHECK(turn_of(1e300, 0) >= turn_of(0, most));
  CHECK(turn_of(-1e300, 0) < turn_of(-1e9, 0));
}

TEST_CASE("earliest_due: a program's call is put off by what the program has had, times a weight") {
  struct call : request_hook_for<order::earliest_due<>> {
    token_pacer pacer{};
    tokens expected_output{};
    order::program_service* program = nullptr;
  };
  using length = rank::program_length<order::expected_output_member>;
  order::program_service old{.attained = tokens{1000}};
  const auto entered = [&](double weight, order::program_service* program, double arrived) {
    order::earliest_due<length> d{.expected = {.weight = weight}};
    call r;
    r.prompt = tokens{5};
    r.expected_output = tokens{80};
    r.program = program;
    request_access::state(r).phase = phase::reasoning;
    request_access::state(r).length = r.prompt;
    join(d, r, at(arrived));
    CHECK(length{.weight = weight}(r) == tokens{80 + (program == nullptr ? 0 : static_cast<int>(weight * 1000))});
    return place(r).turn;
  };
  // At 0.1 s a token: half of 1000 tokens are worth 50 s.
  CHECK(entered(0.5, &old, 0) > entered(0.5, nullptr, 49.9));
  CHECK(entered(0.5, &old, 0) < entered(0.5, nullptr, 50.1));
  CHECK(entered(0, &old, 0) == entered(0, nullptr, 0));
}

}  // namespace
