// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/order/two_phase.hpp>
#include <tessera/queue/two_phase.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <utility>
#include <vector>

namespace {

using namespace tessera;

struct request : request_hook_for<order::two_phase> {
  std::size_t id = 0;
};

request::state_type& state(request& r) { return request_access::state(r); }
const auto& place(const request& r) { return order_state<order::two_phase>(r); }

/// What a container does with a request that joins it.
void join(order::two_phase& d, request& r) {
  request_access::begin_order_state<order::two_phase>(r);
  d.enter(r, time_point{});
}

void answer(order::two_phase& d, request& r) {
  state(r).phase = phase::answering;
  d.change_phase(r);
}

TEST_CASE("two_phase: due at the quantum, not before", "[order][two_phase]") {
  for (const phase p : {phase::reasoning, phase::answering}) {
    order::two_phase d{.quantum = tokens{500}};
    request r;
    state(r).phase = p;
    join(d, r);
    CHECK(place(r).level == (p == phase::reasoning ? 0 : 1));
    CHECK_FALSE(d.charge(r, tokens{499}));
    CHECK(d.charge(r, tokens{1}));
    const auto turn = place(r).turn;
    d.requeue(r);
    CHECK(place(r).turn > turn);
    CHECK(place(r).level == (p == phase::reasoning ? 0 : 1));
    CHECK(place(r).quantum_used == tokens{0});
  }
}

TEST_CASE("two_phase: demoted above the threshold, not at it", "[order][two_phase]") {
  for (const std::int64_t kv : {4999, 5000, 5001}) {
    order::two_phase d{.demote_above = tokens{5000}};
    request r;
    join(d, r);
    state(r).computed = tokens{kv};
    const bool due = d.charge(r, tokens{1});
    CHECK(due == (kv > 5000));
    if (!due) continue;
    d.requeue(r);
    CHECK(order::two_phase::is_demoted(r));
    CHECK(place(r).level == 1);
    CHECK(place(r).quantum_used == tokens{0});
    CHECK_FALSE(d.charge(r, tokens{1}));  // once
    state(r).computed = tokens{0};        // preempted, to be computed anew
    CHECK(d.charge(r, tokens{499}));
    d.requeue(r);
    CHECK(place(r).level == 1);
  }
}

TEST_CASE("two_phase: an answering request is never demoted, however long", "[order][two_phase]") {
  order::two_phase d{.demote_above = tokens{10}};
  request r;
  state(r).phase = phase::answering;
  join(d, r);
  state(r).computed = tokens{1000};
  CHECK_FALSE(d.charge(r, tokens{1}));
  CHECK_FALSE(order::two_phase::is_demoted(r));
}

TEST_CASE("two_phase: the quantum restarts when a request enters the low queue", "[order][two_phase]") {
  order::two_phase d{.quantum = tokens{500}, .demote_above = tokens{100}};
  request r;
  join(d, r);
  CHECK_FALSE(d.charge(r, tokens{300}));

  SECTION("by its phase change") {
    const auto turn = place(r).turn;
    answer(d, r);
    CHECK(place(r).level == 1);
    CHECK(place(r).turn > turn);
    CHECK(place(r).quantum_used == tokens{0});
  }
  SECTION("by demotion; its phase change then changes nothing") {
    state(r).computed = tokens{101};
    REQUIRE(d.charge(r, tokens{1}));
    d.requeue(r);
    CHECK(place(r).quantum_used == tokens{0});
    CHECK_FALSE(d.charge(r, tokens{200}));
    const auto turn = place(r).turn;
    answer(d, r);
    CHECK(place(r).level == 1);
    CHECK_FALSE(order::two_phase::is_demoted(r));
    CHECK(place(r).turn == turn);
    CHECK(place(r).quantum_used == tokens{200});
  }
}

TEST_CASE("two_phase: a request that joins in the middle of its life", "[order][two_phase]") {
  order::two_phase d{.demote_above = tokens{100}};
  request r;
  state(r).computed = tokens{101};
  join(d, r);
  CHECK(order::two_phase::is_demoted(r));
  CHECK(place(r).level == 1);
  state(r).computed = tokens{0};  // its KV is elsewhere, but it was demoted before
  join(d, r);
  CHECK(place(r).level == 1);
  state(r).phase = phase::answering;
  join(d, r);
  CHECK_FALSE(order::two_phase::is_demoted(r));
  CHECK(place(r).level == 1);
}

TEST_CASE("two_phase: high displaces low, never the reverse, unless it is more urgent", "[order][two_phase]") {
  order::two_phase d;
  request low;
  request high;
  state(low).phase = phase::answering;
  join(d, low);
  join(d, high);
  CHECK(order::two_phase::displaces(high, low));
  CHECK_FALSE(order::two_phase::displaces(low, high));
  low.priority = 1;
  CHECK(order::two_phase::displaces(low, high));
}

TEST_CASE("two_phase: as two deques, over random operations", "[order][two_phase]") {
  // The paper's two queues, literally. Requests are charged in any order, as residents are.
  struct runner {
    std::size_t id;
    std::int64_t used = 0;
    std::int64_t kv = 0;
    bool reasoning = true;
  };
  const std::int64_t quantum = 20;
  const std::int64_t demote_above = 70;
  for (const unsigned seed : {1U, 2U, 3U}) {
    std::mt19937 random{seed};
    std::vector<request> requests(60);
    two_phase_queue<request> queue{order::two_phase{.quantum = tokens{quantum}, .demote_above = tokens{demote_above}}};
    std::deque<runner> high;
    std::deque<runner> low;
    std::size_t next = 0;
    std::size_t demotions = 0;
    std::size_t changes = 0;
    for (int step = 0; step != 4'000; ++step) {
      if (next != requests.size() && random() % 12 == 0) {
        requests[next].id = next;
        const bool reasoning = random() % 4 != 0;
        requests[next].starts_in = reasoning ? phase::reasoning : phase::answering;
        queue.push(requests[next], time_point{});
        (reasoning ? high : low).push_back({.id = next, .reasoning = reasoning});
        ++next;
      }
      if (next == 0) continue;
      const std::size_t id = random() % next;
      const auto in = [id](std::deque<runner>& q) {
        return std::find_if(q.begin(), q.end(), [id](const runner& r) { return r.id == id; });
      };
      const bool is_high = in(high) != high.end();
      std::deque<runner>& home = is_high ? high : low;
      const auto at = in(home);
      runner one = *at;
      if (one.reasoning && random() % 40 == 0) {
        one.reasoning = false;
        ++changes;
        if (is_high) {
          home.erase(at);
          one.used = 0;
          low.push_back(one);
        } else {
          *at = one;
        }
        queue.update(requests[id], [&queue](request& r) { answer(queue.discipline(), r); });
      } else {
        const std::int64_t ran = static_cast<std::int64_t>(random() % 6);
        one.used += ran;
        one.kv += ran;
        const bool demote = is_high && one.kv > demote_above;
        const bool due = demote || one.used >= quantum;
        if (due) {
          one.used = 0;
          home.erase(at);
          (demote ? low : home).push_back(one);
          demotions += demote ? 1 : 0;
        } else {
          *at = one;
        }
        state(requests[id]).computed += tokens{ran};
        REQUIRE(queue.charge(requests[id], tokens{ran}) == due);
      }
      std::vector<std::size_t> expected;
      for (const runner& r : high) expected.push_back(r.id);
      for (const runner& r : low) expected.push_back(r.id);
      std::vector<std::size_t> actual;
      for (request* r = queue.front(); r != nullptr; r = queue.next(*r)) actual.push_back(r->id);
      REQUIRE(actual == expected);
    }
    CHECK(demotions > 0);
    CHECK(changes > 0);
  }
}

TEST_CASE("two_phase: by quanta, the fewest used on the level first, then by age", "[order][two_phase]") {
  // Level, quanta used on it, age: kept apart, sorted for each look.
  struct runner {
    std::size_t level = 0;
    std::int64_t quanta = 0;
    std::int64_t used = 0;
    std::int64_t kv = 0;
    bool demoted = false;
  };
  std::mt19937 random{17};
  std::vector<request> requests(50);
  two_phase_queue<request> queue{
      order::two_phase{.quantum = tokens{20}, .demote_above = tokens{70}, .fewest_quanta_first = true}};
  std::vector<runner> runners(requests.size());
  std::size_t next = 0;
  std::size_t demotions = 0;
  for (int step = 0; step != 5'000; ++step) {
    if (next != requests.size() && random() % 20 == 0) {
      requests[next].id = next;
      requests[next].starts_in = random() % 3 == 0 ? phase::answering : phase::reasoning;
      runners[next].level = requests[next].starts_in == phase::answering ? 1 : 0;
      queue.push(requests[next++], time_point{});
    }
    if (next == 0) continue;
    const std::size_t i = random() % next;
    runner& x = runners[i];
    if (random() % 40 == 0 && requests[i].state().phase == phase::reasoning) {
      queue.update(requests[i], [&](request& r) { answer(queue.discipline(), r); });
      if (x.level == 0) x = {.level = 1, .quanta = 0, .used = 0, .kv = x.kv, .demoted = false};
      x.demoted = false;
    } else {
      const auto n = static_cast<std::int64_t>(1 + random() % 9);
      state(requests[i]).computed += tokens{n};
      x.kv += n;
      x.used += n;
      queue.charge(requests[i], tokens{n});
      if (x.level == 0 && x.kv > 70) {
        x = {.level = 1, .quanta = 0, .used = 0, .kv = x.kv, .demoted = true};
        ++demotions;
      } else if (x.used >= 20) {
        ++x.quanta;
        x.used = 0;
      }
    }
    std::size_t best = 0;
    for (std::size_t k = 1; k != next; ++k) {
      if (std::pair{runners[k].level, runners[k].quanta} < std::pair{runners[best].level, runners[best].quanta})
        best = k;
    }
    REQUIRE(queue.front() == &requests[best]);
  }
  CHECK(demotions > 0);
  while (!queue.empty()) queue.pop_front();
}

}  // namespace
