// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/order/earliest_due.hpp>
#include <tessera/pacing/token_pacer.hpp>
#include <tessera/queue/ordered_queue.hpp>
#include <tessera/rank/program_length.hpp>

#include "support/catch.hpp"
#include "unit/order_earliest_due.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
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
using tessera_test::earliest_due_requests::served;
using tessera_test::earliest_due_requests::state;

TEST_CASE("earliest_due: a request without a reader goes by arrival plus expected output, reasoning or not") {
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

TEST_CASE("earliest_due: a changed pace counts for all that have no reader") {
  queue q{earliest_due{.pace = duration{1.0}, .patience = duration::forever()}};
  std::vector<request> r(3);
  const std::int64_t expected[] = {100, 4, 30};
  for (std::size_t i = 0; i != r.size(); ++i) {
    r[i].expected_output = tokens{expected[i]};
    q.push(r[i], at(static_cast<double>(i)));
  }
  const auto retune = [&](double pace) {
    q.discipline().pace = duration{pace};
    for (request& x : r) q.update(x, [&](request& y) { q.discipline().retune(y); });
  };
  CHECK(q.front() == &r[1]);
  retune(1e-6);
  CHECK(q.front() == &r[0]);  // by arrival
  // A request with a reader keeps its place.
  const auto before = place(r[2]);
  q.update(r[2], [&](request& y) { place(y).level = 2; });
  retune(1.0);
  CHECK(place(r[2]).turn == before.turn);
  CHECK(served(q, r) == std::vector<std::size_t>{1, 0, 2});
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

TEST_CASE("earliest_due: none is overtaken by one that comes its expected time later, or by one that expects more") {
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
      for (request& x : others) CHECK_FALSE(d.charge(x, tokens{}));  // a request that has begun does not begin again
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

TEST_CASE("earliest_due: readers before requests without one, those before readers that can wait") {
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
  // On one level no request takes another's blocks, however early it is due.
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
