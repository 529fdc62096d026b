// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/control/flow_controller.hpp>
#include <tessera/core/owned_storage.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::control;
using tessera_test::approx;

/// A worker with so much of both kinds of freeness: in blocks of a ten-thousandth.
worker make(role r, double time_phi, double space_phi, bool elastic = false) {
  worker w;
  w.role = r;
  w.elastic = elastic;
  w.time_phi = time_phi;
  w.total = blocks{10'000};
  w.free = blocks{static_cast<std::int64_t>(std::llround(std::clamp(space_phi, 0.0, 1.0) * 10'000))};
  return w;
}

struct fixture {
  explicit fixture(std::size_t workers, const flow_controller::settings& s = {})
      : storage{storage_for<flow_controller>({.workers = workers})},
        memory{storage.memory()},
        controller{memory, storage.limits(), s} {}
  owned_storage<flow_controller::limits> storage;
  arena memory;
  flow_controller controller;
};

// --- the comparison -------------------------------------------------------------------------------------------------

TEST_CASE("starved: the paper's rule where the other pool has headroom") {
  for (double a = -2; a <= 2; a += 0.125) {
    for (double b = 0; b <= 2; b += 0.125) CHECK(starved(a, b, 0.62) == (a < 0.62 * b));
  }
}

TEST_CASE("starved: with both overloaded, the more overloaded pool, by the same ratio") {
  CHECK_FALSE(starved(-1, -1, 0.62));  // the paper's rule says both are: -1 < -0.62
  CHECK(starved(-2, -1, 0.62));
  CHECK_FALSE(starved(-1, -2, 0.62));
  CHECK_FALSE(starved(-1.6, -1, 0.62));  // 1 / 1.6 = 0.625
  CHECK(starved(-1.65, -1, 0.62));       // 1 / 1.65 = 0.606
  CHECK_FALSE(starved(0, 0, 0.62));
  CHECK(starved(-0.001, 0, 0.62));
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(starved(-inf, -5, 0.62));
  CHECK_FALSE(starved(-inf, -inf, 0.62));
  CHECK_FALSE(starved(-5, -inf, 0.62));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(starved(nan, 1, 0.62));
  CHECK_FALSE(starved(1, nan, 0.62));
}

TEST_CASE("starved: monotone, never both, only the pool with less; unit-free; mirrored by overload") {
  std::mt19937_64 random{1};
  std::uniform_real_distribution<double> wide{-3, 3};
  std::uniform_real_distribution<double> unit{0, 1};
  for (int i = 0; i != 200'000; ++i) {
    const double theta = 0.05 + 0.95 * unit(random);
    const double a = i % 17 == 0 ? 0.0 : wide(random);
    const double b = i % 19 == 0 ? a : wide(random);
    const bool is = starved(a, b, theta);
    if (is) {
      REQUIRE(a < b);
      REQUIRE_FALSE(starved(b, a, theta));
      REQUIRE(starved(a - unit(random), b, theta));
      REQUIRE(starved(a, b + unit(random), theta));
    }
    REQUIRE(starved(4 * a, 4 * b, theta) == is);
    // Away from the bound by more than a rounding.
    if (std::fabs(a - (b >= 0 ? theta * b : b / theta)) > 1e-9) REQUIRE(starved(-b, -a, theta) == is);
  }
}

// --- means ----------------------------------------------------------------------------------------------------------

TEST_CASE("flow: means of the pools; a pool of none has less than any") {
  std::vector<worker> w{make(role::prefill, 0.5, 1), make(role::prefill, -0.1, 1), make(role::decode, 1, 0.3),
                        make(role::mixed, 0, 0), make(role::decode, 1, 0.7)};
  w[4].available = false;
  const pool_means m = mean_freeness(w);
  CHECK(m.prefill == approx(0.2));
  CHECK(m.decode == approx(0.3));
  CHECK(m.prefill_workers == 2);
  CHECK(m.decode_workers == 1);
  CHECK(mean_freeness({}).prefill == -std::numeric_limits<double>::infinity());
  // Loads 0.2, 0.4 and 0.9 of three workers, spread over two: 0.75 each.
  CHECK(mean_without_one(1 - (0.2 + 0.4 + 0.9) / 3, 3) == approx(0.25));
  CHECK(mean_without_one(0.5, 1) == -std::numeric_limits<double>::infinity());
}

// --- algorithm 1 ----------------------------------------------------------------------------------------------------

/// Lines 12 to 18 as printed, for positive means: M is a queue of idle workers in order of their ids.
std::optional<role_change> algorithm_1(const std::vector<worker>& workers, double theta) {
  double sum_p = 0, n_p = 0, sum_d = 0, n_d = 0;
  std::vector<std::uint32_t> mixed;
  for (std::uint32_t i = 0; i != workers.size(); ++i) {
    if (workers[i].role == role::prefill) sum_p += workers[i].time_phi, ++n_p;
    if (workers[i].role == role::decode) sum_d += space_phi(workers[i]), ++n_d;
    if (workers[i].role == role::mixed) mixed.push_back(i);
  }
  const double phi_p = sum_p / n_p;
  const double phi_d = sum_d / n_d;
  if (phi_p < theta * phi_d && !mixed.empty()) return role_change{mixed.front(), role::mixed, role::prefill};
  if (phi_d < theta * phi_p && !mixed.empty()) return role_change{mixed.front(), role::mixed, role::decode};
  return std::nullopt;
}

TEST_CASE("flow: without recall exactly the printed algorithm, for positive means") {
  std::mt19937_64 random{2};
  std::uniform_real_distribution<double> positive{0.01, 1};
  int promotions[2] = {0, 0};
  for (int round = 0; round != 300; ++round) {
    const std::size_t n = 3 + random() % 12;
    std::vector<worker> workers(n);
    for (std::size_t i = 0; i != n; ++i) {
      const role r = i == 0 ? role::prefill : i == 1 ? role::decode : static_cast<role>(random() % 3);
      workers[i] = make(r, 1, 1, r == role::mixed);
    }
    fixture f{n, {.recall = false}};
    for (int epoch = 0; epoch != 60; ++epoch) {
      const double p = positive(random);
      const double d = positive(random);
      for (worker& w : workers) {
        const double elastic = w.role == role::mixed ? 1.0 : 0.0;
        const bool has = w.role == role::prefill;
        w.time_phi = elastic + (1 - elastic) * (has ? p : 1.0);
        w.free = blocks{static_cast<std::int64_t>(w.role == role::decode ? d * 10'000 : 10'000)};
      }
      const auto want = algorithm_1(workers, 0.62);
      const auto got = f.controller.decide(workers);
      REQUIRE(got == want);
      if (got) {
        workers[got->worker].role = got->to;
        ++promotions[got->to == role::prefill ? 0 : 1];
      }
    }
    CHECK(f.controller.epochs() == 60);
  }
  CHECK(promotions[0] > 100);
  CHECK(promotions[1] > 100);
}

// --- promotion and recall, step by step -----------------------------------------------------------------------------

TEST_CASE("flow: a burst promotes, the cool-down holds, and the worker is recalled when it can be spared") {
  fixture f{4, {.cooldown = 3}};
  std::vector<worker> w{make(role::prefill, 0.2, 1), make(role::decode, 1, 0.6), make(role::mixed, 0.9, 0.5, true),
                        make(role::mixed, 0.9, 0.7, true)};
  // 0.2 < 0.62 * 0.6: the mixed worker with the most of what it has least.
  auto change = f.controller.decide(w);
  REQUIRE(change == role_change{3, role::mixed, role::prefill});
  w[3].role = role::prefill;
  w[3].time_phi = 1;
  CHECK(f.controller.means().prefill == approx(0.2));
  CHECK(f.controller.cooling(3));
  // Loads 0.1 and 0.1 would be 0.2 on one: 0.8 >= 0.6, so it could be spared at once. It is held for two more epochs.
  w[0].time_phi = w[3].time_phi = 0.9;
  CHECK_FALSE(f.controller.decide(w));
  CHECK_FALSE(f.controller.decide(w));
  CHECK_FALSE(f.controller.cooling(3));
  change = f.controller.decide(w);
  REQUIRE(change == role_change{3, role::prefill, role::mixed});
  w[3].role = role::mixed;
  // And stays for three epochs where it is, even if prefill starves; the other one goes.
  w[0].time_phi = -1;
  change = f.controller.decide(w);
  CHECK(change == role_change{2, role::mixed, role::prefill});
}

TEST_CASE("flow: none is recalled if its pool would be the worse for it") {
  fixture f{3, {.cooldown = 1}};
  // Alone, worker 0 would be at 0.4 next to 0.5: 0.7 is above 0.5, and yet the worker stays.
  const std::vector<worker> w{make(role::prefill, 0.7, 1), make(role::prefill, 0.7, 1, true),
                              make(role::decode, 1, 0.5)};
  for (int i = 0; i != 10; ++i) CHECK_FALSE(f.controller.decide(w));
}

TEST_CASE("flow: with no mixed worker left, a spare elastic one goes straight over") {
  fixture f{4, {.cooldown = 5}};
  std::vector<worker> w{make(role::prefill, -2, 1), make(role::decode, 1, 0.9), make(role::decode, 1, 0.9, true),
                        make(role::decode, 1, 0.95)};
  // Worker 3 has more headroom but is no elastic worker.
  CHECK(f.controller.decide(w) == role_change{2, role::decode, role::prefill});
  w[2].role = role::prefill;
  for (int i = 0; i != 4; ++i) CHECK_FALSE(f.controller.decide(w));
  // Without `recall` nothing ever leaves a pool.
  fixture g{4, {.recall = false}};
  w[2].role = role::decode;
  CHECK_FALSE(g.controller.decide(w));
}

TEST_CASE("flow: a pool does not give its last worker, and a pool of none gets one first") {
  fixture f{2};
  std::vector<worker> w{make(role::decode, 1, 1, true), make(role::mixed, 1, 1, true)};
  CHECK(f.controller.decide(w) == role_change{1, role::mixed, role::prefill});
  w[1].role = role::prefill;
  for (int i = 0; i != 100; ++i) CHECK_FALSE(f.controller.decide(w));
  // Prefill empty, nothing mixed, one decode worker: it stays.
  fixture g{1};
  for (int i = 0; i != 3; ++i) CHECK_FALSE(g.controller.decide(std::span{w}.first(1)));
  fixture h{3};
  // Neither pool has any: nothing says which is short, and mixed workers do both.
  std::vector<worker> mixed(3, make(role::mixed, -5, 0, true));
  CHECK_FALSE(h.controller.decide(mixed));
  mixed[0].role = role::decode;
  CHECK(h.controller.decide(mixed) == role_change{1, role::mixed, role::prefill});
  CHECK_FALSE(h.controller.decide({}));
}

TEST_CASE("flow: workers that are not available count for nothing") {
  fixture f{4};
  std::vector<worker> w{make(role::prefill, 0.1, 1), make(role::prefill, 1, 1), make(role::decode, 1, 0.6),
                        make(role::mixed, 1, 1, true)};
  CHECK_FALSE(f.controller.decide(w));  // 0.55 >= 0.62 * 0.6
  w[1].available = false;
  w[3].available = false;
  CHECK_FALSE(f.controller.decide(w));  // starved, but no worker is there
  w[3].available = true;
  CHECK(f.controller.decide(w) == role_change{3, role::mixed, role::prefill});
}

TEST_CASE("flow: a change that takes several epochs is made once") {
  // Proved on this cluster: reported as not available while it lasted, a change was made in each of four epochs.
  fixture f{8};
  std::vector<worker> w(8, make(role::mixed, 1, 1, true));
  w[0] = w[1] = make(role::prefill, 0.5, 1);
  w[2] = w[3] = make(role::decode, 1, 1);
  const auto change = f.controller.decide(w);
  REQUIRE(change == role_change{4, role::mixed, role::prefill});
  w[4].role = role::prefill;
  w[4].changing = true;
  for (int epoch = 0; epoch != 50; ++epoch) CHECK_FALSE(f.controller.decide(w));  // (0.5 + 0.5 + 1) / 3 >= 0.62
  CHECK(f.controller.means().prefill == approx(2.0 / 3));
  CHECK(f.controller.means().prefill_workers == 3);
  CHECK(f.controller.means().prefill_coming == 1);
  // A pool that is still starved with it gets another one.
  w[0].time_phi = w[1].time_phi = -1;
  CHECK(f.controller.decide(w) == role_change{5, role::mixed, role::prefill});
}

TEST_CASE("flow: a changing worker is not changed again, and is the last worker of no pool") {
  fixture f{3, {.cooldown = 0}};
  std::vector<worker> w{make(role::prefill, 1, 1, true), make(role::prefill, 1, 1, true), make(role::decode, 1, 0.9)};
  CHECK(f.controller.decide(w) == role_change{0, role::prefill, role::mixed});
  w[0].changing = true;
  CHECK_FALSE(f.controller.decide(w));  // the other one is the only one that prefills
  w[0].changing = false;
  w[1].changing = true;
  CHECK_FALSE(f.controller.decide(w));
  // The same of the decode pool.
  w[0] = w[1] = make(role::decode, 1, 0.9, true);
  w[2] = make(role::prefill, 0.7, 1);
  CHECK(f.controller.decide(w) == role_change{0, role::decode, role::mixed});
  w[0].changing = true;
  CHECK_FALSE(f.controller.decide(w));
  CHECK(f.controller.means().decode_coming == 1);
}

TEST_CASE("flow: a cool-down of any length") {
  constexpr std::uint64_t always = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t cooldown : {always, always - 1}) {
    fixture f{3, {.cooldown = cooldown}};
    std::vector<worker> w{make(role::prefill, 1, 1), make(role::decode, 1, 1), make(role::mixed, 1, 1, true)};
    for (int epoch = 0; epoch != 3; ++epoch) CHECK_FALSE(f.controller.decide(w));
    w[0].time_phi = -1;
    REQUIRE(f.controller.decide(w) == role_change{2, role::mixed, role::prefill});
    CHECK(f.controller.cooling(2));
    CHECK_FALSE(f.controller.decide(w));  // it keeps its role, though the report does not say so
  }
}

TEST_CASE("flow: ties go to the first; decisions repeat; nothing is allocated") {
  const auto run = [] {
    fixture f{6, {.cooldown = 2}};
    std::vector<worker> w(6, make(role::mixed, 1, 1, true));
    w[0] = make(role::prefill, -1, 1);
    w[1] = make(role::decode, 1, 0.5);
    std::vector<role_change> all;
    all.reserve(64);
    const tessera_test::no_allocation guard;
    for (int epoch = 0; epoch != 40; ++epoch) {
      w[0].time_phi = epoch % 10 < 5 ? -1 : 1;
      if (const auto c = f.controller.decide(w)) {
        w[c->worker].role = c->to;
        all.push_back(*c);
      }
    }
    CHECK(guard.allocations() == 0);
    return all;
  };
  const auto first = run();
  REQUIRE_FALSE(first.empty());
  CHECK(first.front() == role_change{2, role::mixed, role::prefill});
  CHECK(first == run());
}

// --- properties -----------------------------------------------------------------------------------------------------

/// Counts changes and checks that no worker changes twice within `cooldown` epochs.
class witness {
 public:
  witness(std::size_t workers, std::uint64_t cooldown) : last_(workers), cooldown_{cooldown} {}
  void see(std::uint64_t epoch, const std::optional<role_change>& c) {
    if (!c) return;
    ++changes;
    if (last_[c->worker]) REQUIRE(epoch - *last_[c->worker] >= cooldown_);
    last_[c->worker] = epoch;
  }
  std::size_t changes = 0;

 private:
  std::vector<std::optional<std::uint64_t>> last_;
  std::uint64_t cooldown_;
};

TEST_CASE("flow: at most one change per worker in any cool-down, whatever the telemetry") {
  std::mt19937_64 random{3};
  std::size_t changes = 0;
  for (int round = 0; round != 250; ++round) {
    const std::size_t n = 1 + random() % 12;
    const flow_controller::settings s{.theta = 0.05 + static_cast<double>(random() % 96) / 100,
                                      .cooldown = random() % 25,
                                      .recall = random() % 4 != 0};
    fixture f{n, s};
    witness seen{n, s.cooldown};
    std::vector<worker> w(n);
    const auto extreme = [&]() -> double {
      switch (random() % 9) {
        case 0: return 0.0;
        case 1: return 1e308;
        case 2: return -1e308;
        case 3: return std::numeric_limits<double>::infinity();
        case 4: return -std::numeric_limits<double>::infinity();
        case 5: return 5e-324;
        default: return static_cast<double>(random() % 2001) / 1000 - 1;
      }
    };
    for (worker& v : w) v = make(static_cast<role>(random() % 3), 1, 1, random() % 4 != 0);
    for (std::uint64_t epoch = 0; epoch != 300; ++epoch) {
      for (worker& v : w) {
        v.time_phi = extreme();
        v.total = blocks{static_cast<std::int64_t>(random() % 3) * 100};
        v.free = v.total == blocks{} ? blocks{} : blocks{static_cast<std::int64_t>(random() % 101)};
        v.demand = blocks{static_cast<std::int64_t>(random() % 50)};
        v.available = random() % 10 != 0;
        v.changing = random() % 10 == 0;
        // The cluster need not even do what it is told.
        if (random() % 20 == 0) v.role = static_cast<role>(random() % 3);
        if (random() % 50 == 0) v.elastic = !v.elastic;
      }
      const auto c = f.controller.decide(w);
      seen.see(epoch, c);
      if (!c) continue;
      REQUIRE(c->worker < n);
      REQUIRE(w[c->worker].role == c->from);
      REQUIRE(c->from != c->to);
      REQUIRE(w[c->worker].available);
      REQUIRE_FALSE(w[c->worker].changing);
      REQUIRE((c->from == role::mixed || w[c->worker].elastic));
      if (random() % 8 != 0) w[c->worker].role = c->to;
    }
    changes += seen.changes;
  }
  CHECK(changes > 1000);
}

TEST_CASE("flow: noise around either threshold moves no worker to and fro") {
  std::mt19937_64 random{4};
  std::uniform_real_distribution<double> noise{-0.08, 0.08};
  for (const double level : {0.8, 0.4, 0.05, 0.0, -0.05, -0.5, -2.0}) {
    // Means about theta times the other pool's; about equal to it.
    for (const bool about_theta : {true, false}) {
      fixture f{8};
      std::vector<worker> w(8, make(role::mixed, 1, 1, true));
      w[0] = w[1] = make(role::prefill, 1, 1);
      w[2] = w[3] = make(role::decode, 1, 1);
      w[2].total = w[3].total = blocks{1'000'000};
      std::size_t changes = 0;
      for (int epoch = 0; epoch != 4000; ++epoch) {
        // Space-bound freeness is not negative here, so a negative level is the prefill pool's alone.
        const double d = std::max(level, 0.0);
        const double p = (about_theta ? (level >= 0 ? 0.62 * level : level / 0.62) : level) + noise(random);
        for (worker& v : w) {
          v.time_phi = v.role == role::prefill ? p : 1.0;
          v.free = v.total * static_cast<std::int64_t>(1000 * d) / 1000;
          if (v.role == role::mixed) v.free = v.total;
        }
        if (const auto c = f.controller.decide(w)) {
          w[c->worker].role = c->to;
          ++changes;
        }
      }
      // Each of the four mixed workers goes over at most once, and stays: 4000 epochs are 200 cool-downs.
      CHECK(changes <= 4);
    }
  }
}

TEST_CASE("flow: under a steady load a few changes reach a fixed point") {
  std::mt19937_64 random{5};
  std::uniform_real_distribution<double> load{0.0, 6.0};
  std::size_t most = 0;
  for (int round = 0; round != 500; ++round) {
    const std::size_t elastic = 1 + random() % 6;
    std::vector<worker> w(4 + elastic, make(role::mixed, 1, 1, true));
    w[0] = w[1] = make(role::prefill, 1, 1);
    w[2] = w[3] = make(role::decode, 1, 1);
    // Some start where an earlier load has left them.
    for (std::size_t i = 4; i != w.size(); ++i) w[i].role = static_cast<role>(random() % 3);
    fixture f{w.size(), {.cooldown = random() % 6}};
    const double p = load(random);
    const double d = std::min(load(random), 2.0);  // fits the two workers that are always there
    std::size_t changes = 0;
    int last = 0;
    for (int epoch = 0; epoch != 400; ++epoch) {
      double np = 0, nd = 0;
      for (const worker& v : w) np += v.role == role::prefill, nd += v.role == role::decode;
      for (worker& v : w) {
        v.time_phi = v.role == role::prefill ? 1 - p / np : 1;
        v.total = blocks{1'000'000};
        v.free = v.role == role::decode ? blocks{std::llround(1e6 * (1 - d / nd))} : v.total;
      }
      if (const auto c = f.controller.decide(w)) {
        w[c->worker].role = c->to;
        ++changes;
        last = epoch;
      }
    }
    CHECK(last < 300);
    most = std::max(most, changes);
  }
  CHECK(most <= 20);
}

}  // namespace
