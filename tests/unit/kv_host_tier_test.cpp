// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/kv/host_tier.hpp>

#include <array>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

namespace {

using tessera::no_index;
using tessera::status;
using tessera::kv::block_id;
using tessera::kv::host_tier;

struct tier_on_heap {
  explicit tier_on_heap(std::size_t n) : storage{tessera::storage_for<host_tier>({.host_blocks = n})} {}
  tessera::owned_storage<host_tier::limits> storage;
  tessera::arena memory{storage.memory()};
  host_tier tier{memory, storage.limits()};
};

std::vector<block_id> chain(const host_tier& t, block_id head) {
  std::vector<block_id> ids(t.size(head));
  CHECK(t.copy(head, ids) == ids.size());
  return ids;
}

TEST_CASE("host_tier: a tier of no blocks refuses everything", "[kv]") {
  tier_on_heap t{0};
  block_id head = 77;
  CHECK(t.tier.capacity() == 0);
  CHECK(t.tier.free() == 0);
  CHECK(t.tier.store(1, head) == status::exhausted);
  CHECK(t.tier.store(0, head) == status::invalid);
  CHECK(head == 77);
  CHECK(t.tier.release(0) == status::foreign);
}

TEST_CASE("host_tier: stores n - 1 and n blocks, refuses n + 1", "[kv]") {
  for (const std::size_t want : {std::size_t{4}, std::size_t{5}, std::size_t{6}}) {
    tier_on_heap t{5};
    block_id head = no_index;
    CHECK(t.tier.store(want, head) == (want <= 5 ? status::ok : status::exhausted));
    CHECK(t.tier.free() == (want <= 5 ? 5 - want : 5));
    CHECK(t.tier.size(head) == (want <= 5 ? want : 0));
  }
}

TEST_CASE("host_tier: a chain is walked in one order by copy and for_each", "[kv]") {
  tier_on_heap t{10};
  block_id a = no_index;
  block_id b = no_index;
  REQUIRE(t.tier.store(4, a) == status::ok);
  REQUIRE(t.tier.store(3, b) == status::ok);
  std::vector<block_id> walked;
  t.tier.for_each(b, [&](block_id id) { walked.push_back(id); });
  CHECK(walked == chain(t.tier, b));
  CHECK(walked.size() == 3);
  CHECK(walked.front() == b);
  std::array<block_id, 2> short_out{99, 99};
  CHECK(t.tier.copy(a, short_out) == 2);
  CHECK(short_out[0] == chain(t.tier, a)[0]);
  CHECK(short_out[1] == chain(t.tier, a)[1]);
}

TEST_CASE("host_tier: a wrong head has a defined outcome", "[kv]") {
  tier_on_heap t{6};
  block_id head = no_index;
  REQUIRE(t.tier.store(3, head) == status::ok);
  const auto ids = chain(t.tier, head);
  CHECK(t.tier.release(6) == status::foreign);
  CHECK(t.tier.release(no_index) == status::foreign);
  CHECK(t.tier.release(ids[1]) == status::not_allocated);
  CHECK(t.tier.release(5) == status::not_allocated);
  CHECK(t.tier.size(ids[1]) == 0);
  CHECK(t.tier.size(no_index) == 0);
  CHECK(t.tier.free() == 3);
  CHECK(t.tier.release(head) == status::ok);
  CHECK(t.tier.release(head) == status::not_allocated);
  CHECK(t.tier.free() == 6);
}

TEST_CASE("host_tier: opposites in reverse order restore the ids of later chains", "[kv]") {
  tier_on_heap t{8};
  block_id a = no_index;
  block_id b = no_index;
  REQUIRE(t.tier.store(3, a) == status::ok);
  REQUIRE(t.tier.store(2, b) == status::ok);
  const auto of_a = chain(t.tier, a);
  // A step that brings `a` back and stores something else, then is dropped.
  REQUIRE(t.tier.release(a) == status::ok);
  block_id c = no_index;
  REQUIRE(t.tier.store(5, c) == status::ok);
  REQUIRE(t.tier.release(c) == status::ok);
  block_id again = no_index;
  REQUIRE(t.tier.store(3, again) == status::ok);
  CHECK(again == a);
  CHECK(chain(t.tier, again) == of_a);
}

TEST_CASE("host_tier: random chains never overlap and never lose a block", "[kv]") {
  for (std::uint32_t seed = 1; seed != 6; ++seed) {
    std::mt19937 random{seed};
    tier_on_heap t{40};
    std::vector<std::vector<block_id>> live;
    std::size_t held = 0;
    for (int step = 0; step != 2000; ++step) {
      if (random() % 2 == 0) {
        const std::size_t n = random() % 9;
        block_id head = no_index;
        const status s = t.tier.store(n, head);
        REQUIRE(s == (n == 0 ? status::invalid : n <= 40 - held ? status::ok : status::exhausted));
        if (s == status::ok) {
          live.push_back(chain(t.tier, head));
          held += n;
        }
      } else if (!live.empty()) {
        const std::size_t i = random() % live.size();
        REQUIRE(t.tier.release(live[i].front()) == status::ok);
        held -= live[i].size();
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
      }
      REQUIRE(t.tier.free() == 40 - held);
      std::set<block_id> seen;
      for (const auto& ids : live) {
        REQUIRE(chain(t.tier, ids.front()) == ids);
        for (const block_id id : ids) {
          REQUIRE(id < 40);
          REQUIRE(seen.insert(id).second);
        }
      }
    }
  }
}

TEST_CASE("host_tier: a chain is shortened to its first blocks, and the others are free", "[kv]") {
  for (std::size_t keep = 1; keep != 6; ++keep) {
    tier_on_heap t{8};
    block_id head = no_index;
    REQUIRE(t.tier.store(5, head) == status::ok);
    const auto before = chain(t.tier, head);
    t.tier.shorten(head, keep);
    CHECK(t.tier.size(head) == keep);
    CHECK(t.tier.free() == 8 - keep);
    CHECK(chain(t.tier, head) == std::vector<block_id>(before.begin(), before.begin() + static_cast<int>(keep)));
    // All of the free ones can be had, and given back.
    block_id rest = no_index;
    REQUIRE(t.tier.store(8 - keep, rest) == status::ok);
    std::set<block_id> all;
    for (const block_id id : chain(t.tier, head)) all.insert(id);
    for (const block_id id : chain(t.tier, rest)) all.insert(id);
    CHECK(all.size() == 8);
    CHECK(t.tier.release(head) == status::ok);
    CHECK(t.tier.release(rest) == status::ok);
    CHECK(t.tier.free() == 8);
  }
}

TEST_CASE("host_tier: no call allocates", "[kv]") {
  tier_on_heap t{8};
  std::array<block_id, 4> ids{};
  block_id head = no_index;
  std::size_t sum = 0;
  tessera_test::no_allocation guard;
  const bool stored = t.tier.store(4, head) == status::ok;
  const bool refused = t.tier.store(5, head) == status::exhausted;
  t.tier.copy(head, ids);
  t.tier.for_each(head, [&](block_id id) { sum += id; });
  const bool released = t.tier.release(head) == status::ok;
  const std::size_t allocations = guard.allocations();
  CHECK(allocations == 0);
  CHECK((stored && refused && released));
  CHECK(sum == std::size_t{ids[0]} + ids[1] + ids[2] + ids[3]);
}

}  // namespace
