// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/order/least_attained_service.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace {

using namespace tessera;

struct request : request_hook_for<order::least_attained_service<>> {
  order::program_service* program = nullptr;
  std::size_t id = 0;
};
using discipline = order::least_attained_service<>;
using scheduler = iteration_scheduler<request, discipline>;

std::size_t level(const request& r) { return order_state<discipline>(r).level; }

/// The level in which so much service lies, by its definition.
std::size_t level_of(std::int64_t service, std::int64_t first, std::size_t levels) {
  std::size_t l = 0;
  for (std::int64_t end = first; l + 1 < levels && service >= end; end *= 2) ++l;
  return l;
}

TEST_CASE("least_attained_service: the level is that of what a program has been given, whichever of its calls got it",
          "[order][least_attained_service]") {
  std::mt19937 random{9};
  for (int round = 0; round != 200; ++round) {
    const auto first = static_cast<std::int64_t>(1 + random() % 40);
    const auto levels = static_cast<std::uint8_t>(1 + random() % 6);
    discipline d{.first = tokens{first}, .levels = levels};
    order::program_service program;
    std::int64_t ended = 0;
    for (int call = 0; call != 12; ++call) {
      request r;
      r.prompt = tokens{5};
      r.program = random() % 5 == 0 ? nullptr : &program;
      request_access::state(r).length = r.prompt + tokens{static_cast<std::int64_t>(random() % 50)};
      request_access::begin_order_state<discipline>(r);
      d.enter(r, {});
      const std::int64_t before = r.program != nullptr ? ended : 0;
      REQUIRE(level(r) == level_of(before, first, levels));
      std::int64_t served = 0;
      const auto steps = static_cast<int>(random() % 60);
      for (int k = 0; k != steps; ++k) {
        const auto ran = static_cast<std::int64_t>(1 + random() % 3);
        served += ran;
        request_access::state(r).length += tokens{ran};
        const bool due = d.charge(r, tokens{ran});
        REQUIRE(due == (level_of(before + served, first, levels) > level(r)));
        if (due) d.requeue(r);
        REQUIRE(level(r) == level_of(before + served, first, levels));
      }
      d.leave(r);
      if (r.program != nullptr) ended += served;
      REQUIRE(program.attained == tokens{ended});
    }
  }
}

// ATLAS: a call begins with what the longest chain of calls has had that ended before it came.
TEST_CASE("least_attained_service: calls side by side count by the longest path", "[order][least_attained_service]") {
  std::mt19937 random{10};
  std::size_t shorter = 0;
  for (int round = 0; round != 300; ++round) {
    const auto first = static_cast<std::int64_t>(1 + random() % 20);
    discipline d{.first = tokens{first}, .levels = 6, .critical_path = true};
    order::program_service program;
    struct call {
      request r;
      std::int64_t before = 0, had = 0;  // along its path, and itself
      bool ended = false;
    };
    std::vector<call> calls(10);
    std::size_t begun = 0;
    std::int64_t all = 0;
    for (int event = 0; event != 80; ++event) {
      const auto which = random() % 4;
      if (which == 0 && begun != calls.size()) {
        call& c = calls[begun++];
        c.r.prompt = tokens{5};
        c.r.program = &program;
        request_access::state(c.r).length = c.r.prompt;
        request_access::begin_order_state<discipline>(c.r);
        d.enter(c.r, {});
        for (const call& k : calls) {
          if (k.ended) c.before = std::max(c.before, k.before + k.had);
        }
        REQUIRE(level(c.r) == level_of(c.before, first, 6));
        continue;
      }
      if (begun == 0) continue;
      call& c = calls[random() % begun];
      if (c.ended) continue;
      if (which == 1) {
        d.leave(c.r);
        c.ended = true;
        all += c.had;
        std::int64_t longest = 0;
        for (const call& k : calls) longest = std::max(longest, k.ended ? k.before + k.had : 0);
        REQUIRE(program.attained == tokens{longest});
        shorter += longest < all ? 1U : 0U;
      } else {
        const auto ran = static_cast<std::int64_t>(1 + random() % 9);
        c.had += ran;
        request_access::state(c.r).length += tokens{ran};
        if (d.charge(c.r, tokens{ran})) d.requeue(c.r);
        REQUIRE(level(c.r) == level_of(c.before + c.had, first, 6));
      }
    }
  }
  CHECK(shorter > 300);
}

TEST_CASE("least_attained_service: a later call of a long program waits for the first calls of short ones",
          "[order][least_attained_service]") {
  auto storage = storage_for<scheduler>({.requests = 16, .blocks = 1000, .block_size = tokens{16}, .residents = 1});
  scheduler s{storage, {.order = {.first = tokens{50}}}};
  order::program_service agent, chats[3];
  std::vector<request> r(5);
  std::vector<std::int64_t> left{120, 200, 10, 10, 10};
  std::vector<std::size_t> ended;
  for (std::size_t i = 0; i != r.size(); ++i) {
    r[i].id = i;
    r[i].prompt = tokens{16};
    r[i].max_output = tokens{400};
    r[i].program = i < 2 ? &agent : &chats[i - 2];
  }
  double now = 0;
  const auto run = [&] {
    const auto plan = s.plan(time_point::at_seconds(now), {.max_batch = 1, .token_budget = tokens{4096}});
    std::vector<outcome> outcomes;
    for (std::size_t i = 0; i != plan.size(); ++i) {
      const std::size_t id = plan[i].request->id;
      outcomes.push_back({.finished = --left[id] == 0});
      if (left[id] == 0) ended.push_back(id);
    }
    now += 1;
    REQUIRE(s.commit(plan, outcomes, time_point::at_seconds(now)) == status::ok);
  };
  REQUIRE(s.submit(r[0], time_point::at_seconds(now)) == status::accepted);
  while (left[0] != 0) run();
  CHECK(agent.attained == tokens{120});
  // Its next call comes before the chats', and begins on the level that it has come to.
  REQUIRE(s.submit(r[1], time_point::at_seconds(now)) == status::accepted);
  for (int k = 0; k != 5; ++k) run();
  for (std::size_t i = 2; i != r.size(); ++i) REQUIRE(s.submit(r[i], time_point::at_seconds(now)) == status::accepted);
  while (!s.idle()) run();
  CHECK(ended == std::vector<std::size_t>{0, 2, 3, 4, 1});
  CHECK(r[1].state().preemptions == 1);
  CHECK(agent.attained == tokens{320});
  CHECK(chats[0].attained == tokens{10});
}

TEST_CASE("least_attained_service: none starves", "[order][least_attained_service]") {
  discipline d{.first = tokens{1}, .threshold = duration{10.0}};
  order::program_service old{.attained = tokens{1'000'000}};
  request a, b;
  a.program = &old;
  request_access::state(b).sequence = 1;
  for (request* r : {&a, &b}) request_access::begin_order_state<discipline>(*r);
  d.enter(a, time_point::at_seconds(0));
  d.enter(b, time_point::at_seconds(9));
  CHECK(d.before(b, a));
  CHECK(d.displaces(b, a));
  CHECK(d.due_at(a) == time_point::at_seconds(10));
  d.age(a);
  CHECK(d.due_at(a) == time_point::never());
  CHECK(d.before(a, b));
  CHECK_FALSE(d.displaces(b, a));
}

}  // namespace
