// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The queue of requests by class, next to a vector that is sorted each time that it is looked at.

#include <tessera/core/storage.hpp>
#include <tessera/order/fcfs.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/queue/class_queue.hpp>

#include "support/catch.hpp"
#include "support/is_slow.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <set>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;
using tessera_test::is_slow;

/// By score, and by its opposite from a time on: those that age do not come to the front.
struct turning : order::fcfs {
  static constexpr bool ages = true;
  static constexpr bool ages_to_front = false;
  template <clock_policy Clock>
  struct state {
    basic_time_point<Clock> turns_at{};
    double score = 0;
  };
  template <schedulable R>
  void enter(R& r, typename R::time_point now) noexcept {
    request_access::order_state<turning>(r) = {now + duration{5}, r.score};
  }
  template <schedulable R>
  [[nodiscard]] static typename R::time_point due_at(const R& r) noexcept {
    return order_state<turning>(r).turns_at;
  }
  template <schedulable R>
  void age(R& r) noexcept {
    auto& s = request_access::order_state<turning>(r);
    s = {R::time_point::never(), -s.score};
  }
  template <schedulable R>
  [[nodiscard]] static bool before(const R& a, const R& b) noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    const double x = order_state<turning>(a).score;
    const double y = order_state<turning>(b).score;
    return x != y ? x < y : a.state().sequence < b.state().sequence;
  }
};

struct request : request_hook_for<order::ranked<>, turning> {
  std::uint64_t kind = 0;
  float score = 0;
};
struct by_kind {
  [[nodiscard]] std::uint64_t class_of(const request& r) const noexcept { return r.kind; }
};

template <class Order>
struct world {
  using queue_type = class_queue<request, Order, by_kind>;
  std::vector<std::byte> memory = std::vector<std::byte>(queue_type::required_bytes(400) + 64);
  arena room{memory};
  by_kind kinds;
  queue_type queue;
  std::deque<request> requests;
  std::vector<request*> plain;  ///< Those that are queued.
  std::uint64_t next_sequence = 1;
  time_point now{};

  explicit world(const Order& o) : queue{room, 400, o, kinds} {}
  ~world() {
    for (request* r : plain) queue.erase(*r);
  }
  /// It has waited for `waited` elsewhere.
  void add(std::uint64_t kind, float score, int priority, duration waited) {
    request& r = requests.emplace_back();
    r.kind = kind;
    r.score = score;
    r.priority = priority;
    request_access::state(r).sequence = next_sequence++;
    request_access::state(r).arrived = now;
    request_access::begin_order_state<Order>(r);
    queue.discipline().enter(r, now - waited);
    queue.insert(r);
    plain.push_back(&r);
  }
  /// All of them in order, each that is due having aged: what `due_at` and `age` say of a copy of its place.
  [[nodiscard]] std::vector<request*> sorted() {
    std::vector<request*> line = plain;
    const auto sort = [&] {
      std::sort(line.begin(), line.end(),
                [&](const request* a, const request* b) { return queue.discipline().before(*a, *b); });
    };
    if constexpr (Order::ages) {
      std::vector<typename Order::template state<seconds_clock>> before;
      for (request* r : plain) {
        before.push_back(order_state<Order>(*r));
        if (!(now < queue.discipline().due_at(*r))) queue.discipline().age(*r);
      }
      sort();
      for (std::size_t i = 0; i != plain.size(); ++i) request_access::order_state<Order>(*plain[i]) = before[i];
    } else {
      sort();
    }
    return line;
  }
};

constexpr std::uint64_t most_kinds = 50;

template <class Order>
void play(std::uint64_t seed, const Order& order) {
  world<Order> w{order};
  std::mt19937_64 random{seed};
  const auto below = [&](std::uint64_t n) { return random() % n; };
  const std::uint64_t kinds = 1 + below(seed % 2 == 0 ? 9 : most_kinds);
  std::size_t most = 0;
  for (int i = 0; i != (is_slow ? 150 : 400); ++i) {
    const auto what = below(8);
    if (what < 4 && w.plain.size() < (is_slow ? 80 : 200)) {
      for (auto n = below(6); n != 0; --n) {
        const auto score = static_cast<float>(below(50));
        const auto priority = static_cast<int>(below(3));
        const duration waited{static_cast<double>(below(4) == 0 ? below(30) : 0)};
        w.add(below(kinds), score, priority, waited);
      }
    } else if (what == 4 && !w.plain.empty()) {
      const auto at = static_cast<std::ptrdiff_t>(below(w.plain.size()));
      w.queue.erase(*w.plain[static_cast<std::size_t>(at)]);
      CHECK_FALSE(w.queue.contains(*w.plain[static_cast<std::size_t>(at)]));
      w.plain.erase(w.plain.begin() + at);
    } else if (what == 5 && !w.plain.empty()) {
      request& r = *w.plain[below(w.plain.size())];
      const auto priority = static_cast<int>(below(3));
      w.queue.update(r, [&](request& one) noexcept { one.priority = priority; });
    } else {
      w.now += duration{static_cast<double>(below(4))};
    }
    // Each look moves a few that are due: here all are moved before the look that counts.
    const std::size_t calls = 1 + (detail::ages_to_front<Order> ? kinds : w.plain.size()) / w.queue.most_aged;
    for (std::size_t k = 0; k != calls; ++k) {
      w.queue.advance(w.now);
      static_cast<void>(w.queue.front());
    }
    std::vector<request*> expected = w.sorted();
    REQUIRE(w.queue.size() == expected.size());
    REQUIRE(w.queue.front() == (expected.empty() ? nullptr : expected.front()));
    // As a plan goes through it: some are taken, some classes are closed or deferred, and those opened again.
    {
      std::array<bool, most_kinds> closed{};
      std::array<bool, most_kinds> deferred{};
      std::vector<request*> rest = expected;
      typename world<Order>::queue_type::line line{w.queue};
      request* r = line.first();
      std::size_t met = 0;
      for (int steps = 0; steps != 60; ++steps) {
        const auto open = [&](const request* one) { return !closed[one->kind] && !deferred[one->kind]; };
        const auto next = std::find_if(rest.begin(), rest.end(), open);
        // No REQUIRE for each of a million looks: in a build with sanitizers it takes longer than the look.
        if (r != (next == rest.end() ? nullptr : *next)) FAIL("step " << i << ", look " << steps);
        const auto act = below(8);
        const bool any_deferred = deferred != std::array<bool, most_kinds>{};
        if (r == nullptr || (act == 0 && any_deferred)) {
          if (!any_deferred) break;
          deferred = {};
          r = line.go_to(0);
        } else if (act < 5) {
          rest.erase(next);
          r = line.take();
        } else if (act < 6) {
          closed[r->kind] = true;
          r = line.close();
        } else {
          deferred[r->kind] = true;
          r = line.defer();
        }
        ++met;
      }
      most = std::max(most, met);
    }
    std::vector<const request*> seen;
    w.queue.for_each([&](const request& one) { seen.push_back(&one); });
    REQUIRE(std::equal(seen.begin(), seen.end(), expected.begin(), expected.end()));
    std::set<std::uint64_t> of;
    for (const request* one : w.plain) of.insert(one->kind);
    REQUIRE(w.queue.classes() == of.size());
  }
  CHECK(most > 20);
}

}  // namespace

TEST_CASE("class_queue: has the order of a sorted vector, whatever classes are closed", "[queue]") {
  for (std::uint64_t seed = 0; seed != 12; ++seed) {
    CAPTURE(seed);
    play(seed, order::fcfs{});
    play(seed, order::ranked<>{.threshold = 20_s});
    play(seed, order::ranked<>{.threshold = duration::forever()});
    play(seed, turning{});
  }
}

TEST_CASE("class_queue: ageing that is not to the front is bounded in each call, the first due first", "[queue]") {
  using queue_type = class_queue<request, turning, by_kind>;
  const std::size_t n = 3 * queue_type::most_aged;
  std::vector<std::byte> memory(queue_type::required_bytes(n) + 64);
  arena room{memory};
  const by_kind kinds;
  std::deque<request> all(n);
  queue_type queue{room, n, turning{}, kinds};
  for (std::size_t i = 0; i != n; ++i) {
    request& r = all[i];
    r.kind = i % 5;
    r.score = 1;
    request_access::state(r).sequence = i;
    request_access::begin_order_state<turning>(r);
    queue.discipline().enter(r, time_point::at_seconds(static_cast<double>(i) * 1e-3));
    queue.insert(r);
  }
  for (std::size_t calls = 1; calls != 4; ++calls) {
    queue.advance(time_point::at_seconds(100));
    for (std::size_t i = 0; i != n; ++i) {
      REQUIRE((order_state<turning>(all[i]).score < 0) == (i < calls * queue_type::most_aged));
    }
  }
  for (request& r : all) queue.erase(r);
}

TEST_CASE("class_queue: a burst of classes that are due changes few first requests in each look", "[queue]") {
  using queue_type = class_queue<request, order::ranked<>, by_kind>;
  const std::size_t kinds = 5 * queue_type::most_aged;
  std::vector<std::byte> memory(queue_type::required_bytes(4 * kinds) + 64);
  arena room{memory};
  const by_kind classes;
  std::deque<request> all(3 * kinds);
  queue_type queue{room, 4 * kinds, order::ranked<>{.threshold = 10_s}, classes};
  std::mt19937_64 random{7};
  for (std::size_t i = 0; i != all.size(); ++i) {
    request& r = all[i];
    r.kind = i % kinds;
    r.score = static_cast<float>(random() % 100);
    request_access::state(r).sequence = i + 1;
    request_access::begin_order_state<order::ranked<>>(r);
    queue.discipline().enter(r, time_point::at_seconds(static_cast<double>(i) * 1e-3));
    queue.insert(r);
  }
  const auto is_old = [](const request& r) { return order_state<order::ranked<>>(r).boosted; };
  for (std::size_t looks = 1; looks != 3; ++looks) {
    queue.advance(time_point::at_seconds(100 + static_cast<double>(looks)));
    REQUIRE(queue.front() == &all[0]);
    // The requests that came first, one of each class. The others of a class age when a plan comes to them.
    for (std::size_t i = 0; i != all.size(); ++i) REQUIRE(is_old(all[i]) == (i < looks * queue_type::most_aged));
  }
  // A plan that takes all of them meets each once, whether its class has aged or not.
  std::set<const request*> met;
  queue_type::line line{queue};
  for (request* r = line.first(); r != nullptr; r = line.take()) REQUIRE(met.insert(r).second);
  REQUIRE(met.size() == all.size());
  for (request& r : all) queue.erase(r);
}

TEST_CASE("class_queue: knows its own from another's, and leaves its requests free", "[queue]") {
  using queue_type = class_queue<request, order::fcfs, by_kind>;
  std::vector<std::byte> memory(queue_type::required_bytes(4) + 64);
  const by_kind kinds;
  std::deque<request> r(2);
  {
    arena room{memory};
    queue_type one{room, 4, {}, kinds};
    CHECK(one.empty());
    CHECK(one.front() == nullptr);
    one.insert(r[0]);
    CHECK(one.contains(r[0]));
    CHECK_FALSE(one.contains(r[1]));
  }
  arena room{memory};
  queue_type other{room, 4, {}, kinds};
  CHECK_FALSE(other.contains(r[0]));
  other.insert(r[0]);
  CHECK(other.contains(r[0]));
  other.erase(r[0]);
}
