// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Gates that see classes: a class that is skipped holds up no other, however many of its requests wait. Skipping costs
// a look at each class. The scheduler is compared with a few lines that ask in order, without a limit.

#include <tessera/compose/fcfs.hpp>
#include <tessera/gate/adapter_slots.hpp>
#include <tessera/gate/all.hpp>
#include <tessera/gate/backfill.hpp>
#include <tessera/gate/encoder_cache.hpp>
#include <tessera/gate/fair_tenants.hpp>
#include <tessera/gate/groups.hpp>
#include <tessera/gate/tenant_deficits.hpp>
#include <tessera/kv/row_tables.hpp>
#include <tessera/order/ranked.hpp>

#include "support/catch.hpp"
#include "support/is_slow.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <set>
#include <span>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

struct request : request_hook_for<order::ranked<>> {
  std::uint32_t tenant = 0;
  std::uint32_t adapter = 0;
  std::uint32_t forks_due = 0;
  float score = 0;
  mutable gate::encoder_input image{};
  std::size_t images = 0;
  [[nodiscard]] std::span<gate::encoder_input> encoder_inputs() const noexcept { return {&image, images}; }
};

template <class Gate, class Order = order::fcfs>
using scheduler_of =
    iteration_scheduler<request, Order, preempt::swap, admit::always, kv::block_pool, kv::row_tables, Gate>;

/// Runs one step in which requests end that have generated what they were to. Returns how many entries it has.
template <class Scheduler>
std::size_t step(Scheduler& s, const step_limits& l, double now = 0) {
  const auto p = s.plan(time_point::at_seconds(now), l);
  std::vector<outcome> outcomes(p.size());
  for (std::size_t i = 0; i != p.size(); ++i) {
    const request& r = *p[i].request;
    outcomes[i].finished = p[i].samples && r.generated() + 1_tok >= r.max_output;
  }
  REQUIRE(s.commit(p, outcomes, time_point::at_seconds(now)) == status::ok);
  return p.size();
}

/// In how many steps 50 requests that need nothing end, behind `n` that lack what 8 others hold for 2,000 steps. 120 of
/// 128 places are free.
template <class Gate>
int steps_behind(int n) {
  auto storage = storage_for<scheduler_of<Gate>>({.blocks = 40'000, .residents = 128});
  scheduler_of<Gate> s{storage};
  std::deque<request> requests;
  const auto submit = [&](std::int64_t output, std::uint32_t what) -> request& {
    request& r = requests.emplace_back();
    r.prompt = 16_tok;
    r.max_output = tokens{output};
    r.adapter = what == 0 ? 0 : what <= 8 ? what : 9 + what % 4;
    REQUIRE(s.submit(r, time_point{}) == status::accepted);
    return r;
  };
  std::uint32_t what = 0;
  for (int i = 0; i != 8; ++i) submit(2000, ++what);
  for (int i = 0; i != 9; ++i) step(s, {.max_batch = 128});
  CHECK(s.resident_count() == 8);
  for (int i = 0; i != n; ++i) submit(50, ++what);
  const std::size_t first = requests.size();
  for (int i = 0; i != 50; ++i) submit(20, 0);
  int steps = 0;
  const auto all_ended = [&] {
    return std::none_of(requests.begin() + static_cast<std::ptrdiff_t>(first), requests.end(),
                        [](const request& r) { return is_live(r.state().life); });
  };
  while (!all_ended() && steps != 100) step(s, {.max_batch = 128}), ++steps;
  for (request& r : requests) s.cancel(r);
  return steps;
}

}  // namespace

TEST_CASE("n skipped requests at the head do not stop requests without an adapter") {
  for (const int n : {0, 8, 9, 1000}) CHECK(steps_behind<gate::adapter_slots>(n) == 20);
}

namespace {

/// The mean batch, of 64, over all steps, in which 300 requests wait with adapters and tenants drawn from 12.
template <class Gate>
double mean_batch() {
  auto storage = storage_for<scheduler_of<Gate>>({.requests = 1000, .blocks = 65'536, .residents = 64});
  scheduler_of<Gate> s{storage};
  std::deque<request> requests;
  std::mt19937_64 random{1};
  std::size_t entries = 0;
  constexpr int steps = tessera_test::is_slow ? 1000 : 3000;
  for (int i = 0; i != steps; ++i) {
    while (s.waiting_count() < 300) {
      request& r = requests.emplace_back();
      r.tenant = static_cast<std::uint32_t>(random() % 12);
      r.adapter = r.tenant + 1;
      r.prompt = 16_tok;
      r.max_output = tokens{20 + static_cast<std::int64_t>(random() % 380)};
      REQUIRE(s.submit(r, time_point{}) == status::accepted);
    }
    entries += step(s, {.max_batch = 64});
  }
  for (request& r : requests) s.cancel(r);
  return static_cast<double>(entries) / steps;
}

}  // namespace

TEST_CASE("requests of 12 adapters on 8 slots, of 12 tenants, and both, fill the batch") {
  CHECK(mean_batch<gate::adapter_slots>() > 63.9);
  CHECK(mean_batch<gate::fair_tenants>() > 63.9);
  CHECK(mean_batch<gate::tenant_deficits>() > 63.9);
  CHECK(mean_batch<gate::all<gate::adapter_slots, gate::fair_tenants>>() > 63.9);
  CHECK(mean_batch<gate::all<gate::adapter_slots, gate::tenant_deficits>>() > 63.9);
}

namespace {

/// The longest wait for a first token, in steps, of a tenant that sends one request in 100 steps. Another tenant has
/// 2,000 requests of 200 tokens waiting and holds all places.
template <class Gate>
int longest_wait_beside_a_flood() {
  auto storage = storage_for<scheduler_of<Gate>>({.requests = 1 << 14, .blocks = 4096, .residents = 32});
  scheduler_of<Gate> s{storage};
  std::deque<request> requests;
  int longest = 0;
  request* mine = nullptr;
  int since = 0;
  for (int i = 0; i != 3000; ++i) {
    const auto submit = [&](std::uint32_t tenant, std::int64_t output) -> request& {
      request& r = requests.emplace_back();
      r.prompt = 16_tok;
      r.max_output = tokens{output};
      r.tenant = tenant;
      REQUIRE(s.submit(r, time_point{}) == status::accepted);
      return r;
    };
    while (s.waiting_count() < 2000) submit(0, 200);
    if (i % 100 == 0 && mine == nullptr) mine = &submit(1, 20), since = i;
    step(s, {.max_batch = 32});
    if (mine == nullptr) continue;
    longest = std::max(longest, i - since);
    if (mine->generated() > 0_tok) mine = nullptr;
  }
  for (request& r : requests) s.cancel(r);
  return longest;
}

}  // namespace

TEST_CASE("a flood of one tenant keeps another waiting for one place, not for the flood") {
  CHECK(longest_wait_beside_a_flood<gate::in_line>() > 2000);
  CHECK(longest_wait_beside_a_flood<gate::fair_tenants>() <= 200);
  CHECK(longest_wait_beside_a_flood<gate::tenant_deficits>() <= 200);
}

namespace {

std::size_t asked = 0;

template <class Gate>
struct counting : Gate {
  [[nodiscard]] passage ask(const request& r, const gate_view<request>& view) const noexcept {
    ++asked;
    return Gate::ask(r, view);
  }
};

/// How often a gate is asked in a plan, at most. 20,000 requests of one class wait before 2,000 of 64 tenants and, with
/// `of_one_adapter`, 12 adapters.
template <class Gate>
std::size_t count_asks(bool of_one_adapter) {
  auto storage = storage_for<scheduler_of<counting<Gate>>>({.requests = 1 << 15, .blocks = 1 << 14, .residents = 32});
  scheduler_of<counting<Gate>> s{storage};
  std::deque<request> requests;
  const auto submit = [&](std::uint32_t tenant, std::uint32_t adapter) {
    request& r = requests.emplace_back();
    r.prompt = 16_tok;
    r.max_output = tokens{3 + static_cast<std::int64_t>(requests.size() % 7)};
    r.tenant = tenant;
    r.adapter = adapter;
    REQUIRE(s.submit(r, time_point{}) == status::accepted);
  };
  for (std::uint32_t i = 0; i != 20'000; ++i) submit(0, of_one_adapter ? 12 : 0);
  for (std::uint32_t i = 0; i != 2'000; ++i) submit(i % 64, of_one_adapter ? i % 12 : 0);
  std::size_t most = 0;
  for (int i = 0; i != 200; ++i) {
    asked = 0;
    step(s, {.max_starts = i % 4 == 0 ? 1U : 32U});
    most = std::max(most, asked);
  }
  for (request& r : requests) s.cancel(r);
  return most;
}

}  // namespace

TEST_CASE("a gate is asked once for each class and start, however many requests wait") {
  // Adapters and tenants: each class is asked once, and after a start those again that did not have their turn.
  CHECK(count_asks<gate::adapter_slots>(true) <= 13 + 32);
  CHECK(count_asks<gate::fair_tenants>(false) <= 64 * (1 + 32));
  CHECK(count_asks<gate::tenant_deficits>(false) <= 64 * (1 + 32));
  using both = gate::all<gate::adapter_slots, gate::fair_tenants>;
  CHECK(count_asks<both>(true) <= 64 * 13 * (1 + 32));
}

TEST_CASE("a plan in which nothing starts asks once for each class") {
  using gate_type = counting<gate::adapter_slots>;
  auto storage = storage_for<scheduler_of<gate_type>>({.requests = 1 << 15, .blocks = 1 << 14, .residents = 128});
  scheduler_of<gate_type> s{storage};
  std::deque<request> requests;
  for (std::uint32_t i = 0; i != 20'000; ++i) {
    request& r = requests.emplace_back();
    r.prompt = 16_tok;
    r.max_output = 100_tok;
    r.adapter = i < 8 ? 1 + i : 9 + i % 4;
    REQUIRE(s.submit(r, time_point{}) == status::accepted);
  }
  step(s, {.max_starts = 8});
  for (int i = 0; i != 20; ++i) {
    asked = 0;
    CHECK(step(s, {}) == 8);
    CHECK(asked == 4);
  }
  for (request& r : requests) s.cancel(r);
}

namespace {

/// Which requests start, by a gate's answers alone. The first in order with an open class is asked. A class that is
/// skipped is closed; one that is deferred waits until another starts, or until no other can.
template <class Gate>
std::vector<request*> plainly(Gate gate, const std::vector<request*>& line, std::size_t places) {
  std::vector<request*> started;
  std::set<std::uint64_t> closed;
  std::vector<std::uint64_t> deferred;
  const auto first_of = [&](auto&& wanted) {
    const auto i = std::find_if(line.begin(), line.end(), [&](const request* r) {
      return std::find(started.begin(), started.end(), r) == started.end() && wanted(gate.class_of(*r));
    });
    return i == line.end() ? nullptr : *i;
  };
  gate.begin();
  const auto start = [&](request* r) {
    started.push_back(r);
    gate.starts(*r);
    deferred.clear();
  };
  while (started.size() != places) {
    request* const r = first_of([&](std::uint64_t c) {
      return closed.count(c) == 0 && std::find(deferred.begin(), deferred.end(), c) == deferred.end();
    });
    if (r != nullptr) {
      const passage answer = gate.ask(*r, {});
      if (answer == passage::start) {
        start(r);
        continue;
      }
      if constexpr (detail::gate_hears_skips<Gate, request>) gate.skips(*r);
      if (answer == passage::skip) closed.insert(gate.class_of(*r));
      if (answer == passage::defer) deferred.push_back(gate.class_of(*r));
      continue;
    }
    request* best = nullptr;
    for (const std::uint64_t c : deferred) {
      request* const one = first_of([c](std::uint64_t d) { return d == c; });
      if constexpr (detail::gate_prefers<Gate, request>) {
        if (best == nullptr || gate.prefers(*one, *best)) best = one;
      }
    }
    if (best == nullptr) break;
    start(best);
  }
  return started;
}

struct tally {
  std::size_t starts = 0;
  std::size_t overtakes = 0;
};

template <class Gate, class Order>
void compare(std::uint64_t seed, const Gate& gate, const Order& order, tally& t) {
  std::mt19937_64 random{seed};
  const auto below = [&](std::uint64_t n) { return random() % n; };
  constexpr std::size_t places = 12;
  auto storage = storage_for<scheduler_of<Gate, Order>>({.blocks = 4000, .residents = places});
  scheduler_of<Gate, Order> s{storage, {.order = order, .gate = gate}};
  std::deque<request> requests;
  std::vector<request*> waiting;
  double now = 0;
  for (int i = 0; i != 120; ++i) {
    now += static_cast<double>(below(3));
    for (auto n = below(i < 60 ? 6 : 2); n != 0; --n) {
      request& r = requests.emplace_back();
      r.prompt = tokens{2 + static_cast<std::int64_t>(below(30))};
      r.max_output = tokens{1 + static_cast<std::int64_t>(below(9))};
      r.priority = below(8) == 0 ? 1 : 0;
      r.score = static_cast<float>(below(20));
      r.tenant = static_cast<std::uint32_t>(below(3) == 0 ? below(4) : 0);
      r.adapter = static_cast<std::uint32_t>(below(6));
      REQUIRE(s.submit(r, time_point::at_seconds(now)) == status::accepted);
      waiting.push_back(&r);
    }
    if (!waiting.empty() && below(6) == 0) {
      request& r = *waiting[below(waiting.size())];
      std::erase(waiting, &r);
      REQUIRE(s.cancel(r) == status::ok);
    }
    if (!waiting.empty() && below(6) == 0) {
      request& r = *waiting[below(waiting.size())];
      REQUIRE(s.update(r, [](request& one) noexcept { one.priority = 1 - one.priority; }) == status::ok);
    }
    // In order, aged: by priority, then requests that have waited for long enough, then by score, where the order does
    // so.
    std::vector<request*> line = waiting;
    std::sort(line.begin(), line.end(), [&](const request* a, const request* b) {
      if (a->priority != b->priority) return a->priority > b->priority;
      if constexpr (Order::ages) {
        const auto is_old = [&](const request* r) {
          return r->state().arrived.seconds() + order.threshold.seconds() <= now;
        };
        if (is_old(a) != is_old(b)) return is_old(a);
        if (!is_old(a) && a->score != b->score) return a->score < b->score;
        if (is_old(a) && a->state().arrived != b->state().arrived) return a->state().arrived < b->state().arrived;
      }
      return a->state().sequence < b->state().sequence;
    });
    const std::size_t free = places - s.resident_count();
    const std::vector<request*> expected = plainly(s.gate(), line, free);
    for (const bool is_run : {false, true}) {
      if (!is_run && below(3) != 0) continue;
      const auto p = s.plan(time_point::at_seconds(now), {.max_batch = places});
      std::vector<request*> started;
      std::set<const request*> in_plan;
      for (std::size_t k = 0; k != p.size(); ++k) in_plan.insert(p[k].request);
      for (request* r : waiting) {
        if (in_plan.count(r) != 0) started.push_back(r);
      }
      if (p.preempted.empty()) {  // else a higher priority has taken a resident's place, and there are no free ones
        std::vector<request*> wanted = expected;
        std::sort(wanted.begin(), wanted.end());
        std::sort(started.begin(), started.end());
        REQUIRE(started == wanted);
      }
      if (!is_run) {
        REQUIRE(s.abandon(p) == status::ok);
        continue;
      }
      t.starts += started.size();
      t.overtakes += !expected.empty() && expected.back() != line[expected.size() - 1];
      std::vector<outcome> outcomes(p.size());
      for (std::size_t k = 0; k != p.size(); ++k) {
        const request& r = *p[k].request;
        outcomes[k].finished = p[k].samples && r.generated() + 1_tok >= r.max_output;
      }
      std::vector<request*> victims;
      for (const auto& v : p.preempted) victims.push_back(v.request);
      REQUIRE(s.commit(p, outcomes, time_point::at_seconds(now)) == status::ok);
      std::erase_if(waiting, [&](const request* r) { return r->state().life != lifecycle::waiting; });
      waiting.insert(waiting.end(), victims.begin(), victims.end());
    }
  }
  for (request& r : requests) s.cancel(r);
}

template <class Gate>
void compare_all(const Gate& gate) {
  tally t;
  for (std::uint64_t seed = 0; seed != 10; ++seed) {
    CAPTURE(seed);
    compare(seed, gate, order::fcfs{}, t);
    compare(seed, gate, order::ranked<>{.threshold = 12_s}, t);
  }
  CHECK(t.starts > 2000);
  CHECK(t.overtakes > 100);
}

}  // namespace

TEST_CASE("a scheduler with classes starts what a plain list starts: adapters") {
  compare_all(gate::adapter_slots{.slots = 2, .most_overtaken = 5});
}
TEST_CASE("a scheduler with classes starts what a plain list starts: tenants") {
  gate::fair_tenants gate{};
  gate.weights[1] = 3;
  gate.weights[2] = 1'000'000'007;
  compare_all(gate);
}
TEST_CASE("a scheduler with classes starts what a plain list starts: deficits") {
  gate::tenant_deficits gate{.quantum = 20};
  gate.weights[1] = 3;
  compare_all(gate);
}
TEST_CASE("a scheduler with classes starts what a plain list starts: several gates") {
  gate::all<gate::adapter_slots, gate::fair_tenants> gates{};
  std::get<0>(gates.gates).slots = 2;
  compare_all(gates);
  gate::all<gate::adapter_slots, gate::tenant_deficits> other{};
  std::get<0>(other.gates).slots = 2;
  std::get<1>(other.gates).quantum = 20;
  compare_all(other);
}

TEST_CASE("all: a class of several gates is a class of each") {
  const gate::all<gate::in_line, gate::adapter_slots, gate::groups> one{};
  request r;
  r.adapter = 7;
  CHECK(one.class_of(r) == 7);
  const gate::all<gate::adapter_slots, gate::fair_tenants, gate::encoder_cache> several{};
  std::set<std::uint64_t> seen;
  for (r.adapter = 0; r.adapter != 30; ++r.adapter) {
    for (r.tenant = 0; r.tenant != 64; ++r.tenant) {
      for (r.images = 0; r.images != 2; ++r.images) seen.insert(several.class_of(r));
    }
  }
  CHECK(seen.size() == 30 * 64 * 2);
  static_assert(!detail::gate_has_classes<gate::all<gate::groups, gate::backfill>, request>);
  static_assert(!detail::gate_has_classes<gate::groups, request>);
}
