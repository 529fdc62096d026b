// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Requests that reason on, and what is expected of them anew.

#include <tessera/core/owned_storage.hpp>
#include <tessera/order/earliest_due.hpp>
#include <tessera/pacing/token_pacer.hpp>
#include <tessera/queue/ordered_queue.hpp>
#include <tessera/rank/expected_rest.hpp>
#include <tessera/rank/length_distribution.hpp>
#include <tessera/rank/program_length.hpp>

#include "support/catch.hpp"
#include "unit/order_earliest_due.hpp"

#include <cstdint>
#include <limits>
#include <vector>

namespace {

using namespace tessera;
using tessera_test::earliest_due_requests::at;
using tessera_test::earliest_due_requests::earliest_due;
using tessera_test::earliest_due_requests::join;
using tessera_test::earliest_due_requests::place;
using tessera_test::earliest_due_requests::queue;
using tessera_test::earliest_due_requests::request;
using tessera_test::earliest_due_requests::state;

/// Twice what it has, and 10 at first: the length is not known before.
struct expects_twice {
  template <schedulable R>
  [[nodiscard]] tokens operator()(const R& r) const noexcept {
    return tokens{10} + 2 * r.generated();
  }
};

TEST_CASE("earliest_due: reasoning that goes on is expected anew once a slice, up to a multiple of the first") {
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
  // There it stays: it is not overtaken by a request that comes 40 s after it.
  for (int i = 0; i != 100; ++i) CHECK_FALSE(generate(5));
  request later;
  state(later).phase = phase::reasoning;
  join(d, later, at(129));
  CHECK(by_age::before(later, r));
  d.leave(later);  // so that no request slows the clock
  join(d, later, at(131));
  CHECK(by_age::before(r, later));
}

TEST_CASE("earliest_due: the young overtake one that has reasoned for long, and take no place of it") {
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

TEST_CASE("earliest_due: the heavier the tail, the longer a request that reasons on is overtaken") {
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
  // A request that has reasoned for 1,000 tokens is expected to need nearly 12,000, a hundred times what was expected
  // first.
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

TEST_CASE("earliest_due: one that reasoned elsewhere and comes to answer is urgent at once, whatever is due before") {
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

TEST_CASE("earliest_due: where moves cost all that are here, reasoning displaces those that can wait longer") {
  earliest_due d{.move_pace = duration{0.001}};
  d.advance(at(100));
  request reasoning;
  reasoning.starts_in = phase::reasoning;
  state(reasoning).phase = phase::reasoning;
  state(reasoning).length = tokens{500};
  join(d, reasoning, at(100));
  request calm;
  place(calm).level = 2;
  // Half a second for each request that is here: itself, then ten.
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
  // A request with a reader that runs dry displaces it regardless, and so does a higher priority.
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

}  // namespace
