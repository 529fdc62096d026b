// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Adapters in slots, next to a few lines that do the same in the plainest way.

#include <tessera/gate/adapter_slots.hpp>
#include <tessera/gate/all.hpp>
#include <tessera/gate/fair_tenants.hpp>
#include <tessera/gate/tenant_deficits.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/catch.hpp"
#include "unit/gate_start_or_skip.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;
using tessera_test::start_or_skip::fixture;
using tessera_test::start_or_skip::request;
using tessera_test::start_or_skip::roomy;

}  // namespace

TEST_CASE("adapter_slots: a request that needs another adapter is skipped, and the others are not held up") {
  fixture<gate::adapter_slots> f{roomy, {.slots = 2}};
  request& a = f.submit(4, 3, 1);
  request& b = f.submit(4, 1, 2);
  request& c = f.submit(4, 1, 3);
  request& d = f.submit(4, 1, 1);
  request& e = f.submit(4, 1);
  CHECK(f.plan() == std::vector{&a, &b, &d, &e});
  CHECK(f.scheduler.why(c) == wait_reason::gated);
  REQUIRE(f.scheduler.abandon(f.p) == status::ok);
  CHECK(f.scheduler.gate().users(1) == 0);
  CHECK(f.step() == std::vector{&a, &b, &d, &e});  // b ends
  CHECK(f.scheduler.gate().users(1) == 1);
  CHECK(f.scheduler.gate().users(2) == 0);
  CHECK(f.step() == std::vector{&c});
  f.step();
  f.step();
  CHECK(f.scheduler.idle());
  CHECK(f.scheduler.gate().users(1) + f.scheduler.gate().users(3) == 0);
}

TEST_CASE("adapter_slots: starts what a plain list would start") {
  std::mt19937_64 random{7};
  const auto below = [&](std::uint64_t n) { return random() % n; };
  std::size_t skipped_in_all = 0;
  std::size_t held_back = 0;
  const auto fewest_of = [](const std::vector<request*>& running) {
    std::map<std::uint32_t, std::size_t> users;
    for (const request* r : running) {
      if (r->adapter != 0) ++users[r->adapter];
    }
    const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto least = std::min_element(users.begin(), users.end(), fewer);
    return least == users.end() ? 0 : least->first;
  };
  for (int round = 0; round != 60; ++round) {
    const std::size_t slots = 1 + below(4);
    const std::size_t overtake = 1 + below(4);
    fixture<gate::basic_adapter_slots<4>> f{roomy, {.slots = slots, .most_overtaken = overtake}};
    std::vector<request*> line;
    // The request that is watched, and how many adapters' requests have started behind it.
    const request* watched = nullptr;
    std::size_t overtaken = 0;
    std::vector<request*> running;
    for (int step = 0; step != 60; ++step) {
      for (std::uint64_t n = below(3); n != 0; --n) {
        const auto adapter = static_cast<std::uint32_t>(below(7));
        const auto output = static_cast<std::int64_t>(1 + below(8));
        line.push_back(&f.submit(4, output, adapter));
      }
      std::set<std::uint32_t> used;
      for (const request* r : running) used.insert(r->adapter);
      used.erase(0);
      std::vector<request*> expected;
      std::vector<request*> left;
      std::size_t skipped = 0;
      bool stopped = false;
      const request* behind = nullptr;
      std::uint32_t closing = 0;
      std::size_t more = 0;
      bool is_watched = watched != nullptr;  // a request that does not start now
      for (request* r : line) {
        const bool has_slot = r->adapter == 0 || used.count(r->adapter) != 0 || used.size() < slots;
        const std::size_t so_far = more + (is_watched ? overtaken : 0);
        const bool is_held_back = r->adapter != 0 && r->adapter == closing && so_far >= overtake;
        const bool may = has_slot && !is_held_back;
        stopped = stopped || running.size() + expected.size() == 16;
        if (may && !stopped) {
          expected.push_back(r);
          if (r->adapter != 0) used.insert(r->adapter);
          if (r->adapter != 0 && behind != nullptr) ++more;
          if (r == watched) is_watched = false;
        } else {
          skipped += !stopped;
          held_back += !stopped && has_slot;
          if (!stopped && !has_slot && (is_watched ? r == watched : behind == nullptr)) behind = r;
          if (!stopped && !has_slot) closing = fewest_of(running);
          left.push_back(r);
        }
      }
      skipped_in_all += skipped;
      if (below(4) == 0) {
        CHECK(f.plan() == expected);
        REQUIRE(f.scheduler.abandon(f.p) == status::ok);
      }
      REQUIRE(f.step() == expected);
      if (std::count(expected.begin(), expected.end(), watched) != 0) watched = nullptr, overtaken = 0;
      if (more != 0) watched = behind, overtaken += more;
      line = left;
      if (!line.empty() && below(20) == 0) {
        request* const r = line[below(line.size())];
        if (r == watched) watched = nullptr, overtaken = 0;
        std::erase(line, r);
        REQUIRE(f.scheduler.cancel(*r) == status::ok);
      }
      running.insert(running.end(), expected.begin(), expected.end());
      std::erase_if(running, [](const request* r) { return !is_live(r->state().life); });
    }
    for (request& r : f.requests) static_cast<void>(f.scheduler.cancel(r));
  }
  CHECK(skipped_in_all > 1000);
  CHECK(held_back > 40);
}

TEST_CASE("adapter_slots: none waits for ever behind a stream that keeps a slot") {
  // Two slots, with adapters that always have a running request, and two more requests that come in each step.
  for (const std::size_t most : {std::size_t{0}, std::size_t{1}, std::size_t{10}, ~std::size_t{0}}) {
    fixture<gate::adapter_slots> f{roomy, {.slots = 2, .most_overtaken = most}};
    f.submit(4, 3, 1);
    f.submit(4, 3, 2);
    f.step();
    const request& first = f.submit(4, 2, 3);
    const request& second = f.submit(4, 2, 4);
    std::size_t before_first = 0;
    std::size_t before_second = 0;
    for (int i = 0; i != 200 && second.state().life == lifecycle::waiting; ++i) {
      for (const std::uint32_t adapter : {1U, 2U}) f.submit(4, 3, adapter);
      // A plan that was not run counts nothing.
      if (i % 3 == 0) {
        f.plan();
        REQUIRE(f.scheduler.abandon(f.p) == status::ok);
      }
      const bool first_waited = first.state().life == lifecycle::waiting;
      const bool second_waited = second.state().life == lifecycle::waiting;
      for (const request* r : f.step()) {
        if (r->adapter > 2) continue;
        before_first += first_waited && first.state().life == lifecycle::waiting;
        before_second += second_waited && second.state().life == lifecycle::waiting;
      }
    }
    if (most == ~std::size_t{0}) {
      CHECK(first.state().life == lifecycle::waiting);  // what happens without a bound
      CHECK(before_first > 300);
    } else {
      CHECK(first.state().life != lifecycle::waiting);
      CHECK(second.state().life != lifecycle::waiting);
      // Requests of the other adapter go on, until the three that hold the slot have ended.
      CHECK(before_first >= most);
      CHECK(before_first <= most + 4);
      CHECK(before_second <= 2 * (most + 4));
    }
    for (request& r : f.requests) static_cast<void>(f.scheduler.cancel(r));
  }
}

TEST_CASE("adapter_slots: the watched request may leave, in a plan that is open, too") {
  fixture<gate::adapter_slots> f{roomy, {.slots = 1, .most_overtaken = 2}};
  f.submit(4, 100, 1);
  f.step();
  request& a = f.submit(4, 1, 2);
  request& b = f.submit(4, 1, 3);
  for (int i = 0; i != 2; ++i) f.submit(4, 1, 1);
  CHECK(f.plan().size() == 2);
  REQUIRE(f.scheduler.cancel(a) == status::ok);
  f.commit();
  CHECK(f.scheduler.gate().limit.watched == 0);
  for (int i = 0; i != 3; ++i) f.submit(4, 1, 1);
  CHECK(f.step().size() == 2);
  CHECK(f.scheduler.gate().limit.watched == b.state().sequence);
  CHECK(f.step().empty());
  REQUIRE(f.scheduler.park(b, time_point::never()) == status::ok);
  CHECK(f.step().size() == 1);  // it holds up no other
  for (request& r : f.requests) static_cast<void>(f.scheduler.cancel(r));
}
