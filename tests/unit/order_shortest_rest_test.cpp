// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/order/shortest_rest.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/rank/expected_rest.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace {

using namespace tessera;

struct request : request_hook_for<order::shortest_rest<>> {
  tokens expected_output{};
  std::size_t id = 0;
};
using scheduler = iteration_scheduler<request, order::shortest_rest<>>;

/// Runs one step of at most `batch` requests; each of them gets a token, and ends with its last.
std::vector<std::size_t> run_step(scheduler& s, std::vector<std::int64_t>& left, std::size_t batch, double& now) {
  const auto plan = s.plan(time_point::at_seconds(now), {.max_batch = batch, .token_budget = tokens{4096}});
  std::vector<std::size_t> ran;
  std::vector<outcome> outcomes;
  for (std::size_t i = 0; i != plan.size(); ++i) {
    const std::size_t id = plan[i].request->id;
    ran.push_back(id);
    outcomes.push_back({.finished = --left[id] == 0});
  }
  now += 1;
  REQUIRE(s.commit(plan, outcomes, time_point::at_seconds(now)) == status::ok);
  return ran;
}

TEST_CASE("shortest_rest: a waiting request displaces a longer one while that is young, and never when it is not",
          "[order][shortest_rest]") {
  for (const std::int64_t age : {30, 70, 90}) {
    auto storage = storage_for<scheduler>({.requests = 4, .blocks = 1000, .block_size = tokens{16}, .residents = 1});
    scheduler s{storage, {.order = {.slice = tokens{10}}}};
    std::vector<request> r(2);
    std::vector<std::int64_t> left{200, 5};
    for (std::size_t i = 0; i != 2; ++i) {
      r[i].id = i;
      r[i].prompt = tokens{16};
      r[i].max_output = tokens{400};
      r[i].expected_output = tokens{i == 0 ? 100 : 5};
    }
    double now = 0;
    REQUIRE(s.submit(r[0], time_point::at_seconds(0)) == status::accepted);
    for (std::int64_t k = 0; k != age; ++k) REQUIRE(run_step(s, left, 1, now) == std::vector<std::size_t>{0});
    REQUIRE(s.submit(r[1], time_point::at_seconds(now)) == status::accepted);
    INFO("age " << age);
    // 80 of the 100 that were expected is where it stops giving way. It has generated 200 in the end.
    CHECK(run_step(s, left, 1, now) == std::vector<std::size_t>{age < 80 ? 1U : 0U});
    CHECK(r[0].state().preemptions == (age < 80 ? 1U : 0U));
    while (!s.idle()) run_step(s, left, 1, now);
  }
}

TEST_CASE("shortest_rest: a request that has generated nothing gives way, however little is expected of it",
          "[order][shortest_rest]") {
  auto storage = storage_for<scheduler>({.requests = 4, .blocks = 1000, .block_size = tokens{16}, .residents = 1});
  scheduler s{storage, {}};
  request r;
  r.prompt = tokens{32};
  r.expected_output = tokens{1};
  REQUIRE(s.submit(r, time_point{}) == status::accepted);
  const auto plan = s.plan({}, {.token_budget = tokens{16}});  // half of its prompt
  const std::vector<outcome> none(plan.size());
  REQUIRE(s.commit(plan, none, time_point{}) == status::ok);
  CHECK_FALSE(order_state<order::shortest_rest<>>(r).keeps);
  CHECK(s.cancel(r) == status::ok);
}

TEST_CASE("shortest_rest: the order is that of what is left, predicted anew after every slice",
          "[order][shortest_rest]") {
  order::shortest_rest<> d{.slice = tokens{10}, .preemptible = 1.0};
  request a, b;
  for (request* r : {&a, &b}) {
    r->prompt = tokens{5};
    request_access::state(*r).length = r->prompt;
    request_access::begin_order_state<order::shortest_rest<>>(*r);
  }
  a.expected_output = tokens{50};
  b.expected_output = tokens{45};
  request_access::state(b).sequence = 1;
  d.enter(a, {});
  d.enter(b, {});
  CHECK(d.before(b, a));
  CHECK(d.displaces(b, a));
  std::size_t turns = 0;
  for (int k = 0; k != 20; ++k) {
    request_access::state(a).length += tokens{1};
    if (!d.charge(a, tokens{1})) continue;
    d.requeue(a);
    ++turns;
  }
  CHECK(turns == 2);
  CHECK(d.before(a, b));  // 30 against 45
  b.priority = 1;
  CHECK(d.before(b, a));
  CHECK(d.displaces(b, a));
}

TEST_CASE("shortest_rest: with no prediction at all it is arrival order, and none is displaced",
          "[order][shortest_rest]") {
  struct scored : request_hook_for<order::shortest_rest<rank::expected_rest<>>> {
    float score = std::numeric_limits<float>::quiet_NaN();
  };
  order::shortest_rest<rank::expected_rest<>> d;
  scored a, b;
  std::uint64_t sequence = 0;
  for (scored* r : {&a, &b}) {
    r->prompt = tokens{5};
    request_access::state(*r).length = r->prompt;
    request_access::state(*r).sequence = sequence++;
    request_access::begin_order_state<order::shortest_rest<rank::expected_rest<>>>(*r);
    d.enter(*r, {});
  }
  CHECK(d.before(a, b));
  CHECK_FALSE(d.displaces(a, b));
  CHECK_FALSE(d.displaces(b, a));
}

TEST_CASE("shortest_rest: a distribution of lengths tells which are nearly done", "[order][shortest_rest]") {
  // Two kinds of lengths that no score tells apart: after 100 tokens one is of the long kind.
  auto storage = storage_for<rank::length_distribution>({.window = 1024, .groups = 1});
  rank::length_distribution lengths{storage};
  std::mt19937 random{3};
  for (int i = 0; i != 1000; ++i) {
    const auto jitter = static_cast<std::int64_t>(random() % 8);
    lengths.observe(0, tokens{(i % 2 == 0 ? 60 : 1000) + jitter});
  }
  lengths.fit();
  struct scored : request_hook_for<order::shortest_rest<rank::expected_rest<>>> {
    float score = 0;
  };
  order::shortest_rest<rank::expected_rest<>> d{.rest_of = {.lengths = &lengths}};
  const auto with = [&](std::int64_t generated) {
    scored r;
    r.prompt = tokens{5};
    request_access::state(r).length = r.prompt + tokens{generated};
    request_access::begin_order_state<order::shortest_rest<rank::expected_rest<>>>(r);
    d.enter(r, {});
    return order_state<order::shortest_rest<rank::expected_rest<>>>(r).rest.count();
  };
  CHECK(with(0) > 450);
  CHECK(with(0) < 600);
  CHECK(with(100) > 850);
  CHECK(with(900) < 140);
}

}  // namespace
