// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Gates that are asked of each who waits: adapters, tenants' shares, groups that start together, and several of them
// at once, each beside a few lines that do the same in the plainest way. Random sequences of everything, with plans
// that are abandoned, are in tests/property.

#include <tessera/gate/adapter_slots.hpp>
#include <tessera/gate/all.hpp>
#include <tessera/gate/backfill.hpp>
#include <tessera/gate/fair_tenants.hpp>
#include <tessera/gate/groups.hpp>
#include <tessera/gate/tenant_deficits.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/gate_engine.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

struct request : request_hook {
  std::uint32_t adapter = 0;
  std::uint32_t tenant = 0;
  std::uint32_t forks_due = 0;
  std::int64_t output = 1;
};

template <class Gate>
struct fixture : tessera_test::gate_engine<request, Gate> {
  using tessera_test::gate_engine<request, Gate>::gate_engine;
  using tessera_test::gate_engine<request, Gate>::requests;
  using tessera_test::gate_engine<request, Gate>::scheduler;

  request& submit(std::int64_t prompt, std::int64_t output, std::uint32_t adapter = 0, std::uint32_t tenant = 0) {
    request& r = requests.emplace_back();
    r.prompt = tokens{prompt};
    r.max_output = tokens{output};
    r.output = output;
    r.adapter = adapter;
    r.tenant = tenant;
    REQUIRE(scheduler.submit(r, time_point{}) == status::accepted);
    return r;
  }
};

constexpr scheduler_limits roomy{.blocks = 1000, .block_size = 16_tok, .residents = 16};

}  // namespace

TEST_CASE("adapter_slots: who needs another adapter is skipped, and the others are not held up") {
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

TEST_CASE("adapter_slots: starts whom a plain list would start") {
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
    // Who is watched, and how many adapters' requests have started behind it.
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
      bool is_watched = watched != nullptr;  // somebody, who does not start now
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

TEST_CASE("adapter_slots: nobody waits for ever behind a stream that keeps a slot") {
  // Two slots, whose adapters always have somebody who runs, and two more who come in each step.
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
      // Those of the other adapter go on, until the three who hold the slot have ended.
      CHECK(before_first >= most);
      CHECK(before_first <= most + 4);
      CHECK(before_second <= 2 * (most + 4));
    }
    for (request& r : f.requests) static_cast<void>(f.scheduler.cancel(r));
  }
}

TEST_CASE("adapter_slots: who is watched may leave, in a plan that is open, too") {
  fixture<gate::adapter_slots> f{roomy, {.slots = 1, .most_overtaken = 2}};
  f.submit(4, 100, 1);
  f.step();
  request& a = f.submit(4, 1, 2);
  request& b = f.submit(4, 1, 3);
  for (int i = 0; i != 2; ++i) f.submit(4, 1, 1);
  CHECK(f.plan().size() == 2);
  REQUIRE(f.scheduler.cancel(a) == status::ok);
  f.commit();
  CHECK(f.scheduler.gate().line.watched == 0);
  for (int i = 0; i != 3; ++i) f.submit(4, 1, 1);
  CHECK(f.step().size() == 2);
  CHECK(f.scheduler.gate().line.watched == b.state().sequence);
  CHECK(f.step().empty());
  REQUIRE(f.scheduler.park(b, time_point::never()) == status::ok);
  CHECK(f.step().size() == 1);  // whom does it hold up?
  for (request& r : f.requests) static_cast<void>(f.scheduler.cancel(r));
}

TEST_CASE("fair_tenants: one start in a plan is the textbook's") {
  std::mt19937_64 random{11};
  const auto below = [&](std::uint64_t n) { return random() % n; };
  std::size_t overtakes = 0;
  for (int round = 0; round != 40; ++round) {
    gate::basic_fair_tenants<4> gate{};
    for (std::int64_t& w : gate.weights) w = std::int64_t{1} << below(3);
    fixture<gate::basic_fair_tenants<4>> f{roomy, gate};
    // Virtual counters, in quarters, so that the division by weights is exact. One that is lifted has whole parts of
    // its own weight.
    constexpr std::int64_t unit = 4;
    std::array<std::int64_t, 4> counter{};
    std::size_t last = 0;
    std::vector<request*> line;
    std::vector<request*> running;
    const auto waits = [&](std::size_t u) {
      return std::any_of(line.begin(), line.end(), [&](const request* r) { return r->tenant == u; });
    };
    for (int step = 0; step != 120; ++step) {
      for (std::uint64_t n = below(round % 2 == 0 ? 2 : 3); n != 0; --n) {
        const auto u = static_cast<std::uint32_t>(below(2) == 0 ? 0 : below(4));
        const auto prompt = static_cast<std::int64_t>(1 + below(40));
        const auto output = static_cast<std::int64_t>(1 + below(12));
        if (!waits(u)) {
          std::int64_t lift = counter[last];
          if (!line.empty()) {
            lift = counter[line.front()->tenant];
            for (const request* r : line) lift = std::min(lift, counter[r->tenant]);
          }
          const std::int64_t part = unit / gate.weights[u];
          if (counter[u] < lift) counter[u] = lift / part * part;
        }
        line.push_back(&f.submit(prompt, output, 0, u));
      }
      std::vector<request*> expected;
      if (!line.empty() && running.size() < 16) {
        auto next = line.begin();
        for (auto i = line.begin(); i != line.end(); ++i) {
          if (counter[(*i)->tenant] < counter[(*next)->tenant]) next = i;
        }
        overtakes += next != line.begin();
        request* const r = *next;
        line.erase(next);
        expected.push_back(r);
        running.push_back(r);
        counter[r->tenant] += r->prompt.count() * unit / gate.weights[r->tenant];
        last = r->tenant;
      }
      if (below(4) == 0) {
        CHECK(f.plan({.max_starts = 1}) == expected);
        REQUIRE(f.scheduler.abandon(f.p) == status::ok);
      }
      REQUIRE(f.step({.max_starts = 1}) == expected);
      for (const request* r : running) counter[r->tenant] += 2 * unit / gate.weights[r->tenant];
      std::erase_if(running, [](const request* r) { return !is_live(r->state().life); });
      for (std::size_t u = 0; u != 4; ++u) REQUIRE(f.scheduler.gate().had(u) == counter[u] / unit);
    }
    for (request& r : f.requests) static_cast<void>(f.scheduler.cancel(r));
  }
  CHECK(overtakes > 300);
}

TEST_CASE("fair_tenants: a tenant who floods the queue gets no more than another") {
  fixture<gate::fair_tenants> f{{.requests = 4096, .blocks = 1000, .block_size = 16_tok, .residents = 4}, {}};
  for (int i = 0; i != 300; ++i) f.submit(32, 16, 0, 1);
  for (int i = 0; i != 30; ++i) f.submit(32, 16, 0, 2);
  std::size_t of_one = 0;
  std::size_t of_two = 0;
  while (of_two != 30) {
    for (const request* r : f.step()) (r->tenant == 1 ? of_one : of_two) += 1;
  }
  CHECK(of_one >= 28);
  CHECK(of_one <= 34);
}

TEST_CASE("fair_tenants: a fork does not pay for its parent's prompt, though nothing has been generated yet") {
  fixture<gate::fair_tenants> f{roomy, {}};
  const auto had = [&f] { return f.scheduler.gate().had(1); };
  request& parent = f.submit(100, 2, 0, 1);
  f.step({.token_budget = 64_tok});
  REQUIRE(parent.generated() == 0_tok);
  CHECK(had() == 100);
  for (int i = 0; i != 3; ++i) REQUIRE(f.scheduler.fork(parent, f.requests.emplace_back(parent)) == status::ok);
  CHECK(had() == 100);
  f.step();
  f.step();
  REQUIRE(f.scheduler.idle());
  CHECK(had() == 100 + 4 * 2 * 2);
}

TEST_CASE("fair_tenants: who is parked holds nobody up") {
  fixture<gate::fair_tenants> f{roomy, {}};
  request& a = f.submit(100, 1, 0, 1);
  f.step();  // the first has had something
  request& b = f.submit(4, 1, 0, 2);
  REQUIRE(f.scheduler.park(b, time_point::never()) == status::ok);
  request& c = f.submit(4, 1, 0, 1);
  CHECK(f.step() == std::vector{&c});
  REQUIRE(f.scheduler.ready(b) == status::ok);
  CHECK(f.step() == std::vector{&b});
  CHECK(a.state().life == lifecycle::finished);
}

namespace {

/// DLPM's counters as the paper has them: one round at a time, by tenant.
struct textbook_deficits {
  std::array<std::int64_t, 4> credit{};
  std::array<std::int64_t, 4> quantum{};

  template <class Line>
  void refill(const Line& line) {
    const auto nobody = [&] {
      return std::none_of(line.begin(), line.end(), [&](const request* r) { return credit[r->tenant] > 0; });
    };
    while (!line.empty() && nobody()) {
      for (std::size_t u = 0; u != 4; ++u) credit[u] += credit[u] > 0 ? 0 : quantum[u];
    }
  }
  /// Ours: what is used while no other tenant waits makes no debt.
  template <class Line>
  void spend(std::size_t tenant, std::int64_t cost, const Line& line) {
    credit[tenant] -= cost;
    const auto is_other = [&](const request* r) { return r->tenant != tenant; };
    if (std::none_of(line.begin(), line.end(), is_other)) credit[tenant] = std::max<std::int64_t>(credit[tenant], 0);
  }
};

}  // namespace

TEST_CASE("tenant_deficits: starts whom the textbook starts, several in a plan") {
  std::mt19937_64 random{17};
  const auto below = [&](std::uint64_t n) { return random() % n; };
  std::size_t overtakes = 0;
  for (int round = 0; round != 40; ++round) {
    gate::basic_tenant_deficits<4> gate{.quantum = static_cast<std::int64_t>(1 + below(60))};
    textbook_deficits book;
    for (std::size_t u = 0; u != 4; ++u) {
      gate.weights[u] = static_cast<std::int64_t>(1 + below(3));
      book.quantum[u] = gate.quantum * gate.weights[u];
    }
    fixture<gate::basic_tenant_deficits<4>> f{roomy, gate};
    std::vector<request*> line;
    std::vector<request*> running;
    for (int step = 0; step != 120; ++step) {
      for (std::uint64_t n = below(round % 2 == 0 ? 2 : 4); n != 0; --n) {
        const auto u = static_cast<std::uint32_t>(below(2) == 0 ? 0 : below(4));
        const auto prompt = static_cast<std::int64_t>(2 + below(40));  // a plan lists one token among the decodes
        const auto output = static_cast<std::int64_t>(1 + below(12));
        line.push_back(&f.submit(prompt, output, 0, u));
      }
      const std::size_t most = 1 + below(3);
      std::vector<request*> expected;
      auto i = line.begin();
      while (i != line.end() && expected.size() != most && running.size() != 16) {
        textbook_deficits refilled = book;  // for good if somebody starts
        refilled.refill(line);
        if (refilled.credit[(*i)->tenant] <= 0) {
          ++i;
          ++overtakes;
          continue;
        }
        book = refilled;
        request* const r = *i;
        line.erase(i);
        i = line.begin();
        expected.push_back(r);
        running.push_back(r);
        book.spend(r->tenant, r->prompt.count(), line);
      }
      if (below(4) == 0) {
        CHECK(f.plan({.max_starts = most}) == expected);
        REQUIRE(f.scheduler.abandon(f.p) == status::ok);
      }
      REQUIRE(f.step({.max_starts = most}) == expected);
      for (const request* r : running) book.spend(r->tenant, 2, line);
      std::erase_if(running, [](const request* r) { return !is_live(r->state().life); });
      for (std::size_t u = 0; u != 4; ++u) REQUIRE(f.scheduler.gate().credit(u) == book.credit[u]);
    }
    for (request& r : f.requests) static_cast<void>(f.scheduler.cancel(r));
  }
  CHECK(overtakes > 300);
}

TEST_CASE("tenant_deficits: those who always wait are charged alike, for their weights") {
  std::mt19937_64 random{23};
  for (const std::int64_t quantum : {1, 64, 1000}) {
    gate::basic_tenant_deficits<4> gate{.quantum = quantum};
    gate.weights[1] = 2;
    fixture<gate::basic_tenant_deficits<4>> f{{.requests = 4096, .blocks = 1000, .block_size = 16_tok, .residents = 8},
                                              gate};
    std::array<std::int64_t, 2> charged{};
    constexpr std::int64_t longest_prompt = 40;
    constexpr std::int64_t longest_output = 9;
    for (int step = 0; step != 800; ++step) {
      for (std::uint32_t u = 0; u != 2; ++u) {
        while (f.scheduler.gate().accounts[u].waiting < 12) {
          const auto prompt = static_cast<std::int64_t>(1 + random() % longest_prompt);
          const auto output = static_cast<std::int64_t>(1 + random() % longest_output);
          f.submit(prompt, output, 0, u);
        }
      }
      for (const request* r : f.step()) charged[r->tenant] += r->prompt.count();
      for (std::size_t i = 0; i != f.p.size(); ++i) charged[f.p[i].request->tenant] += f.p[i].samples ? 2 : 0;
      // What eight who run may be charged between two questions is the other part of the bound.
      const std::int64_t bound = 2 * 2 * quantum + 2 * 8 * (longest_prompt + 2 * longest_output);
      REQUIRE(std::abs(charged[0] - charged[1] / 2) <= bound);
    }
    CHECK(charged[0] > 10'000);
    for (request& r : f.requests) static_cast<void>(f.scheduler.cancel(r));
  }
}

TEST_CASE("tenant_deficits: what the cache has is not charged") {
  struct caching : request {
    std::array<std::uint64_t, 4> hashes{11, 12, 13, 14};
    std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }
  };
  using scheduler_type = iteration_scheduler<caching, order::fcfs, preempt::swap, admit::always, kv::prefix_cache,
                                             kv::csr_tables, gate::tenant_deficits>;
  const scheduler_limits limits{.blocks = 64, .block_size = 4_tok, .residents = 4};
  auto storage = storage_for<scheduler_type>(limits);
  scheduler_type scheduler{storage, {.gate = {.quantum = 100}}};
  const auto serve = [&](caching& r) {
    REQUIRE(scheduler.submit(r, time_point{}) == status::accepted);
    auto p = scheduler.plan(time_point{}, {});
    REQUIRE(p.size() == 1);
    REQUIRE(scheduler.commit(p, std::array{outcome{.finished = true}}, time_point{}) == status::ok);
  };
  std::array<caching, 2> requests;
  for (caching& r : requests) {
    r.prompt = 18_tok;
    r.max_output = 1_tok;
    r.tenant = 3;
  }
  serve(requests[0]);
  CHECK(scheduler.gate().credit(3) == 100 - 18 - 2);
  serve(requests[1]);
  CHECK(scheduler.gate().credit(3) == 100 - 18 - 2 - 2 - 2);  // four blocks of four were found
}

TEST_CASE("groups: all of a group have room before the first of them starts") {
  fixture<gate::groups> f{{.blocks = 1000, .block_size = 16_tok, .residents = 4}, {}};
  request& a = f.submit(4, 6);
  request& b = f.submit(20, 4);
  b.forks_due = 3;
  request& c = f.submit(4, 1);
  CHECK(f.step() == std::vector{&a});
  CHECK(f.scheduler.why(b) == wait_reason::gated);
  CHECK(f.scheduler.why(c) == wait_reason::behind_others);  // the places are kept for the group
  for (int i = 0; i != 6; ++i) f.step();
  CHECK(a.state().life == lifecycle::finished);
  CHECK(b.state().life == lifecycle::resident);
  CHECK(c.state().life == lifecycle::waiting);
  for (int i = 0; i != 3; ++i) {
    request& child = f.requests.emplace_back(b);
    child.forks_due = 0;
    REQUIRE(f.scheduler.fork(b, child) == status::ok);
    --b.forks_due;
  }
  CHECK(f.scheduler.resident_count() == 4);
  while (!f.scheduler.idle()) f.step();
  CHECK(c.state().life == lifecycle::finished);
}

TEST_CASE("groups: with two plans in flight none goes on with one that is to be forked yet") {
  fixture<gate::groups> f{{.blocks = 1000, .block_size = 16_tok, .residents = 4, .plans_in_flight = 2}, {}};
  request& parent = f.submit(20, 4);
  parent.forks_due = 2;
  f.plan();
  const auto first = f.p;
  f.plan();
  const auto second = f.p;
  REQUIRE(first.size() == 1);
  CHECK(second.empty());
  CHECK(f.scheduler.why(parent) == wait_reason::in_flight);
  f.p = first;
  f.commit();
  for (int i = 0; i != 2; ++i) {
    request& child = f.requests.emplace_back(parent);
    child.forks_due = 0;
    REQUIRE(f.scheduler.fork(parent, child) == status::ok);
    --parent.forks_due;
  }
  // From now on it goes on as anybody.
  f.plan();
  const auto third = f.p;
  CHECK(third.size() == 3);
  f.p = second;
  f.commit();
  f.plan();
  const auto fourth = f.p;
  CHECK(fourth.size() == 3);
  f.p = third;
  f.commit();
  f.p = fourth;
  f.commit();
  CHECK(parent.generated() == 3_tok);
  while (!f.scheduler.idle()) f.step();
  for (const request& r : f.requests) CHECK(r.state().life == lifecycle::finished);
}

TEST_CASE("groups: a group that is larger than the instance does not wait for ever") {
  fixture<gate::groups> f{{.blocks = 1000, .block_size = 16_tok, .residents = 4}, {}};
  request& a = f.submit(4, 2);
  request& b = f.submit(4, 1);
  b.forks_due = 9;
  CHECK(f.step() == std::vector{&a});
  f.step();
  CHECK(f.step() == std::vector{&b});
}

TEST_CASE("all: the strictest answer counts, and each hears of everything") {
  using both = gate::all<gate::adapter_slots, gate::fair_tenants, gate::in_line>;
  static_assert(gate_policy<both, request> && !both::passes && both::screens && both::counts);
  static_assert(gate_policy<gate::all<gate::in_line>, request> && !gate::all<gate::in_line>::screens);
  static_assert(gate::all<gate::adapter_slots, gate::backfill>::passes);
  both gates{};
  std::get<0>(gates.gates).slots = 1;
  fixture<both> f{roomy, gates};
  request& a = f.submit(4, 9, 1, 1);
  request& b = f.submit(4, 1, 2, 2);  // its tenant's turn, but another adapter
  request& c = f.submit(4, 1, 1, 1);  // its adapter, but not its tenant's turn: it starts when no other can
  request& d = f.submit(4, 1, 0, 3);
  CHECK(f.plan() == std::vector{&a, &d, &c});
  CHECK(f.scheduler.why(b) == wait_reason::gated);
  f.commit();
  CHECK(std::get<0>(f.scheduler.gate().gates).users(1) == 1);
  CHECK(std::get<1>(f.scheduler.gate().gates).had(3) > 0);
  while (!f.scheduler.idle()) f.step();
  CHECK(std::get<0>(f.scheduler.gate().gates).users(1) == 0);
}

TEST_CASE("all: backfilling among others is as backfilling alone") {
  const scheduler_limits tight{.blocks = 40, .block_size = 4_tok, .residents = 8};
  for (std::uint64_t seed = 0; seed != 40; ++seed) {
    fixture<gate::backfill> alone{tight, {}};
    fixture<gate::all<gate::adapter_slots, gate::backfill>> among{tight, {}};
    std::mt19937_64 random{seed};
    for (int step = 0; step != 60; ++step) {
      for (std::uint64_t n = random() % 3; n != 0; --n) {
        const auto prompt = static_cast<std::int64_t>(1 + random() % 60);
        const auto output = static_cast<std::int64_t>(1 + random() % 30);
        alone.submit(prompt, output);
        among.submit(prompt, output);
      }
      const auto one = alone.step();
      const auto other = among.step();
      REQUIRE(one.size() == other.size());
      for (std::size_t i = 0; i != one.size(); ++i) REQUIRE(one[i]->state().sequence == other[i]->state().sequence);
    }
    for (request& r : alone.requests) static_cast<void>(alone.scheduler.cancel(r));
    for (request& r : among.requests) static_cast<void>(among.scheduler.cancel(r));
  }
}

TEST_CASE("gates allocate nothing") {
  using some = gate::all<gate::adapter_slots, gate::fair_tenants, gate::groups, gate::backfill>;
  fixture<some> f{roomy, {}};
  std::vector<request*> all;
  for (std::uint32_t i = 0; i != 12; ++i) all.push_back(&f.submit(20, 4, 1 + i, i % 3));
  std::array<outcome, 16> outcomes{};
  const tessera_test::no_allocation guard;
  for (int i = 0; i != 30; ++i) {
    auto p = f.scheduler.plan(time_point{}, {});
    if (i % 3 == 0) {
      f.scheduler.abandon(p);
      p = f.scheduler.plan(time_point{}, {});
    }
    f.scheduler.commit(p, std::span{outcomes}.first(p.size()), time_point{});
    if (i > 10) f.scheduler.cancel(*all[static_cast<std::size_t>(i) % 12]);
  }
  const auto allocations = guard.allocations();
  CHECK(allocations == 0);
  for (request* r : all) static_cast<void>(f.scheduler.cancel(*r));
}
