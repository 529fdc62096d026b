// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/fleet/ledger.hpp>
#include <tessera/placement/join_shortest_queue.hpp>
#include <tessera/placement/least_kv.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/phi.hpp>

#include "support/catch.hpp"
#include "support/ledger_of_alike.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <tuple>
#include <vector>

namespace {

using namespace tessera;
using fleet::replica_id;

struct view {
  blocks kv_held{};
  blocks waiting_blocks{};
  std::size_t requests = 0;
  double phi = 0;
};

/// By sorting: indices by `less`, equals from `next` on and around.
template <class Less>
std::vector<std::uint32_t> sorted(const std::vector<view>& all, std::size_t next, Less less) {
  std::vector<std::uint32_t> order(all.size());
  std::iota(order.begin(), order.end(), 0U);
  if (next < all.size()) std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(next), order.end());
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return less(all[a], all[b]); });
  return order;
}

/// Several choices are the sorted ones, the first is what one choice is, and the turn moves once.
template <class Policy, class Less>
void check_as_sorted(Policy policy, Less less) {
  std::mt19937 random{5};
  for (int round = 0; round < 2000; ++round) {
    const std::size_t n = random() % 10;
    const std::size_t choices = random() % 5;
    std::vector<view> all(n);
    for (view& v : all) {
      v.kv_held = blocks{static_cast<std::int64_t>(random() % 3)};
      v.waiting_blocks = blocks{static_cast<std::int64_t>(random() % 3)};
      v.requests = random() % 3;
      const auto phi = static_cast<int>(random() % 5);
      v.phi = phi == 4 ? std::numeric_limits<double>::quiet_NaN() : phi - 2;
    }
    std::vector<std::uint32_t> expected = sorted(all, policy.ties.next, less);
    if (choices < n) expected.resize(choices);
    Policy alone = policy;
    std::vector<std::uint32_t> best(choices);
    best.resize(policy.rank(all, best));
    CHECK(best == expected);
    if (choices == 0) continue;
    CHECK(alone(all) == (n == 0 ? placement::nowhere : best.front()));
    CHECK(alone.ties.next == policy.ties.next);
  }
}

TEST_CASE("placement: several choices of a policy are the first by its order, as by sorting") {
  check_as_sorted(placement::join_shortest_queue{},
                  [](const view& a, const view& b) { return a.requests < b.requests; });
  check_as_sorted(placement::least_kv{}, [](const view& a, const view& b) {
    return std::tuple{a.kv_held, a.requests} < std::tuple{b.kv_held, b.requests};
  });
  check_as_sorted(placement::least_load{}, [](const view& a, const view& b) {
    return std::tuple{a.kv_held + a.waiting_blocks, a.requests} < std::tuple{b.kv_held + b.waiting_blocks, b.requests};
  });
  check_as_sorted(placement::highest_phi{}, [](const view& a, const view& b) {
    const auto freeness = [](const view& v) {
      return std::isnan(v.phi) ? -std::numeric_limits<double>::infinity() : v.phi;
    };
    return freeness(a) > freeness(b) || (freeness(a) == freeness(b) && a.requests < b.requests);
  });
}

/// The same policy without its order: asked again for each choice.
struct one_by_one {
  placement::least_load policy{};

  template <placement::instance_views V>
  std::size_t operator()(const V& all) noexcept {
    return policy(all);
  }
};

/// How often it is asked.
struct counting {
  placement::least_load policy{};
  int* ones = nullptr;
  int* several = nullptr;

  template <placement::instance_views V>
  std::size_t operator()(const V& all) noexcept {
    ++*ones;
    return policy(all);
  }
  template <placement::instance_views V>
  std::size_t rank(const V& all, std::span<std::uint32_t> best) noexcept {
    ++*several;
    return policy.rank(all, best);
  }
};

TEST_CASE("fleet ledger: a policy that has an order is asked once for several choices") {
  tessera_test::ledger_of_alike f{5};
  int ones = 0;
  int several = 0;
  counting p{.ones = &ones, .several = &several};
  CHECK(f.l.rank(p, 3).size() == 3);
  CHECK((ones == 0 && several == 1));
  CHECK(f.l.rank(p).size() == 1);
  CHECK((ones == 1 && several == 1));
}

TEST_CASE("fleet ledger: several choices in one pass are those that are made one by one") {
  std::mt19937 random{6};
  for (int round = 0; round < 300; ++round) {
    const std::size_t n = 1 + random() % 9;
    tessera_test::ledger_of_alike f{n};
    // All loads differ. Otherwise turns would: a policy that is asked again begins after the one that it has just
    // named.
    std::vector<std::int64_t> loads(n);
    std::iota(loads.begin(), loads.end(), 1);
    std::shuffle(loads.begin(), loads.end(), random);
    for (replica_id id = 0; id != n; ++id) {
      REQUIRE(ok(f.l.reserve(id, id, {.prompt = tokens{16 * loads[id]}}, {})));
    }
    const std::size_t choices = random() % 12;
    const auto may = [](const fleet::view& v) noexcept { return v.id % 3 != 1; };
    placement::least_load fast;
    one_by_one slow;
    const auto named = f.l.rank(slow, choices, may);
    const std::vector<replica_id> expected{named.begin(), named.end()};
    const auto got = f.l.rank(fast, choices, may);
    CHECK(std::vector<replica_id>{got.begin(), got.end()} == expected);
  }
}

}  // namespace
