// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/kv/prefix_cache.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <random>
#include <span>
#include <vector>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

namespace {

using tessera::no_index;
using tessera::status;
using tessera::kv::block_id;
using tessera::kv::prefix_cache;

struct cache_on_heap {
  explicit cache_on_heap(std::size_t n) : storage{tessera::storage_for<prefix_cache>({.blocks = n})} {}
  tessera::owned_storage<prefix_cache::limits> storage;
  tessera::arena memory{storage.memory()};
  prefix_cache cache{memory, storage.limits()};
};

bool knows(const prefix_cache& c, std::uint64_t hash) {
  block_id out = no_index;
  return c.match(std::span{&hash, 1}, std::span{&out, 1}) == 1;
}

std::vector<block_id> match(const prefix_cache& c, std::initializer_list<std::uint64_t> hashes, std::size_t room = 16) {
  std::vector<block_id> out(room);
  out.resize(c.match(std::span{hashes.begin(), hashes.size()}, out));
  return out;
}

/// Everything again with the slowest containers there are. Refusals return false and change nothing.
struct model {
  explicit model(std::size_t n) : references(n, 0), hash_of(n), published(n, false) {
    for (std::size_t i = n; i-- != 0;) stack.push_back(static_cast<block_id>(i));
  }

  std::vector<block_id> stack;                         // back is next
  std::list<block_id> lru;                             // front is coldest
  std::map<std::uint64_t, std::list<block_id>> known;  // the blocks with a hash, in the order of their publishing
  std::vector<std::uint32_t> references;
  std::vector<std::uint64_t> hash_of;
  std::vector<bool> published;

  block_id allocate() {
    block_id id = no_index;
    if (!stack.empty()) {
      id = stack.back();
      stack.pop_back();
    } else if (!lru.empty()) {
      id = lru.front();
      lru.pop_front();
      const auto with_it = known.find(hash_of[id]);
      with_it->second.remove(id);
      if (with_it->second.empty()) known.erase(with_it);
      published[id] = false;
    } else {
      return id;
    }
    references[id] = 1;
    return id;
  }
  bool share(block_id id) {
    if (id >= references.size() || (references[id] == 0 && !published[id])) return false;
    if (references[id]++ == 0) lru.remove(id);
    return true;
  }
  bool release(block_id id) {
    if (id >= references.size() || references[id] == 0) return false;
    if (--references[id] == 0) {
      if (published[id]) {
        lru.push_back(id);
      } else {
        stack.push_back(id);
      }
    }
    return true;
  }
  void publish(block_id id, std::uint64_t hash) {
    if (references[id] == 0 || published[id]) return;
    known[hash].push_back(id);
    hash_of[id] = hash;
    published[id] = true;
  }
  /// Among the blocks with a hash, returns the first of a few that is in use; else the first.
  block_id match(std::uint64_t hash) const {
    const auto with_it = known.find(hash);
    if (with_it == known.end()) return no_index;
    std::size_t looked = 0;
    for (const block_id id : with_it->second) {
      if (++looked > 5) break;
      if (references[id] != 0) return id;
    }
    return with_it->second.front();
  }
};

TEST_CASE("prefix_cache: without publishing it is a pool", "[kv]") {
  cache_on_heap c{4};
  std::array<block_id, 4> ids{};
  CHECK(c.cache.capacity() == 4);
  REQUIRE(c.cache.allocate(ids) == status::ok);
  CHECK(ids == std::array<block_id, 4>{0, 1, 2, 3});
  CHECK(c.cache.allocate() == no_index);
  block_id one = 7;
  CHECK(c.cache.allocate(std::span{&one, 1}) == status::exhausted);
  CHECK(one == 7);
  REQUIRE(c.cache.release(ids) == status::ok);
  CHECK(c.cache.cached() == 0);
  CHECK(c.cache.allocate() == 0);
}

TEST_CASE("prefix_cache: edges of capacity", "[kv]") {
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{3}}) {
    cache_on_heap c{n};
    for (std::size_t want = 0; want != n + 2; ++want) {
      std::vector<block_id> out(want);
      CHECK(c.cache.allocate(out) == (want <= n ? status::ok : status::exhausted));
      if (want <= n) CHECK(c.cache.release(out) == status::ok);
      CHECK(c.cache.free() == n);
    }
    CHECK(c.cache.release(static_cast<block_id>(n)) == status::foreign);
    CHECK(c.cache.share(static_cast<block_id>(n)) == status::foreign);
    CHECK(c.cache.publish(static_cast<block_id>(n), 1) == status::foreign);
    CHECK_FALSE(knows(c.cache, 1));
  }
}

TEST_CASE("prefix_cache: finds the longest prefix of known blocks", "[kv]") {
  cache_on_heap c{8};
  std::array<block_id, 4> ids{};
  REQUIRE(c.cache.allocate(ids) == status::ok);
  for (std::size_t i = 0; i != 4; ++i) REQUIRE(c.cache.publish(ids[i], 100 + i) == status::ok);

  CHECK(match(c.cache, {100, 101, 102, 103, 104}) == std::vector<block_id>{0, 1, 2, 3});
  CHECK(match(c.cache, {100, 101}) == std::vector<block_id>{0, 1});
  CHECK(match(c.cache, {100, 101, 102}, 2) == std::vector<block_id>{0, 1});
  CHECK(match(c.cache, {100, 999, 102}) == std::vector<block_id>{0});
  CHECK(match(c.cache, {999, 100}).empty());
  CHECK(match(c.cache, {}).empty());
  CHECK(match(c.cache, {100}, 0).empty());
}

TEST_CASE("prefix_cache: extreme hashes are hashes like any other", "[kv]") {
  cache_on_heap c{4};
  std::array<block_id, 2> ids{};
  REQUIRE(c.cache.allocate(ids) == status::ok);
  CHECK_FALSE(knows(c.cache, 0));
  CHECK_FALSE(knows(c.cache, ~std::uint64_t{0}));
  REQUIRE(c.cache.publish(ids[0], 0) == status::ok);
  REQUIRE(c.cache.publish(ids[1], ~std::uint64_t{0}) == status::ok);
  CHECK(match(c.cache, {0, ~std::uint64_t{0}}) == std::vector<block_id>{0, 1});
}

TEST_CASE("prefix_cache: publishing", "[kv]") {
  cache_on_heap c{4};
  const block_id a = c.cache.allocate();
  const block_id b = c.cache.allocate();
  CHECK(c.cache.publish(3, 1) == status::not_allocated);
  REQUIRE(c.cache.publish(a, 1) == status::ok);
  CHECK(c.cache.published(a));
  CHECK(c.cache.publish(a, 1) == status::ok);
  CHECK(c.cache.publish(a, 2) == status::invalid);
  CHECK_FALSE(knows(c.cache, 2));

  // A cached block cannot be published anew.
  REQUIRE(c.cache.release(a) == status::ok);
  CHECK(c.cache.cached() == 1);
  CHECK(c.cache.publish(a, 5) == status::not_allocated);
  CHECK(c.cache.publish(a, 1) == status::not_allocated);
  REQUIRE(c.cache.release(b) == status::ok);
  CHECK(c.cache.cached() == 1);
}

TEST_CASE("prefix_cache: blocks published together; those that cannot be are left out", "[kv]") {
  cache_on_heap c{6};
  std::array<block_id, 6> ids{};
  REQUIRE(c.cache.allocate(ids) == status::ok);
  const std::array<std::uint64_t, 6> hashes{10, 11, 12, 11, 14, 15};
  REQUIRE(c.cache.publish(ids[1], 99) == status::ok);
  REQUIRE(c.cache.release(ids[2]) == status::ok);
  // The second is known by another hash, and the third is free. The fourth has no duplicate then.
  CHECK(c.cache.publish(ids, hashes) == status::invalid);
  for (const std::size_t i : {0U, 3U, 4U, 5U}) {
    CHECK(c.cache.published(ids[i]));
    block_id found = no_index;
    CHECK(c.cache.match(std::span{hashes}.subspan(i, 1), {&found, 1}) == 1);
    CHECK(found == ids[i]);
  }
  CHECK(c.cache.knows(99));
  CHECK_FALSE(c.cache.knows(12));
  CHECK(c.cache.publish(ids, hashes) == status::invalid);  // and changes nothing
  CHECK(c.cache.publish(std::span{ids}.subspan(2, 1), std::span{hashes}.subspan(2)) == status::not_allocated);
  CHECK(c.cache.publish(std::span{ids}.last(3), std::span{hashes}.last(3)) == status::ok);
  CHECK(c.cache.publish(std::span<const block_id>{}, std::span<const std::uint64_t>{}) == status::ok);
}

TEST_CASE("prefix_cache: two blocks with one hash are both there to be found, each until it goes", "[kv]") {
  cache_on_heap c{4};
  const block_id a = c.cache.allocate();
  const block_id b = c.cache.allocate();
  REQUIRE(c.cache.publish(a, 1) == status::ok);
  REQUIRE(c.cache.publish(b, 1) == status::ok);
  CHECK(c.cache.published(a));
  CHECK(c.cache.published(b));
  CHECK(c.cache.publish(b, 2) == status::invalid);
  const auto found = [&] { return match(c.cache, {1}); };
  CHECK((found() == std::vector{a} || found() == std::vector{b}));

  SECTION("the one in use is found: it costs no free block") {
    const bool first = GENERATE(true, false);
    const block_id goes = first ? a : b;
    const block_id stays = first ? b : a;
    REQUIRE(c.cache.release(goes) == status::ok);
    CHECK(c.cache.cached() == 1);
    CHECK(found() == std::vector{stays});
    // The cached one is evicted, the other is still known.
    std::array<block_id, 3> all{};
    REQUIRE(c.cache.allocate(all) == status::ok);
    CHECK(std::count(all.begin(), all.end(), goes) == 1);
    CHECK_FALSE(c.cache.published(goes));
    CHECK(c.cache.published(stays));
    CHECK(found() == std::vector{stays});
    // And taken back: both are known again.
    c.cache.undo_allocate(all);
    CHECK(c.cache.published(goes));
    CHECK(c.cache.cached() == 1);
    REQUIRE(c.cache.release(stays) == status::ok);
    CHECK(c.cache.cached() == 2);
    CHECK(c.cache.knows(1));
    std::array<block_id, 3> but_one{};
    REQUIRE(c.cache.allocate(but_one) == status::ok);
    CHECK(found() == std::vector{stays});  // `goes` was colder
    CHECK(c.cache.allocate() == stays);
    CHECK_FALSE(c.cache.knows(1));
  }
  SECTION("clear forgets both") {
    REQUIRE(c.cache.release(a) == status::ok);
    c.cache.clear();
    CHECK_FALSE(c.cache.knows(1));
    CHECK(c.cache.free() == 3);
    CHECK(c.cache.cached() == 0);
    REQUIRE(c.cache.publish(b, 1) == status::ok);
    CHECK(found() == std::vector{b});
  }
}

TEST_CASE("prefix_cache: evicts the least recently used, the end of a sequence first, never a pinned block", "[kv]") {
  cache_on_heap c{6};
  std::array<block_id, 3> first{};
  std::array<block_id, 3> second{};
  REQUIRE(c.cache.allocate(first) == status::ok);
  REQUIRE(c.cache.allocate(second) == status::ok);
  for (std::size_t i = 0; i != 3; ++i) {
    REQUIRE(c.cache.publish(first[i], 10 + i) == status::ok);
    REQUIRE(c.cache.publish(second[i], 20 + i) == status::ok);
  }
  REQUIRE(c.cache.release(first) == status::ok);
  CHECK(c.cache.free() == 3);
  CHECK(c.cache.cached() == 3);

  SECTION("the order") {
    REQUIRE(c.cache.release(second) == status::ok);
    CHECK(c.cache.allocate() == first[2]);
    CHECK(match(c.cache, {10, 11, 12}) == std::vector<block_id>{first[0], first[1]});
    CHECK(c.cache.allocate() == first[1]);
    CHECK(c.cache.allocate() == first[0]);
    CHECK(c.cache.allocate() == second[2]);
    CHECK(match(c.cache, {20, 21, 22}) == std::vector<block_id>{second[0], second[1]});
  }
  SECTION("pinned blocks stay, and stay findable") {
    CHECK(c.cache.allocate() == first[2]);
    REQUIRE(c.cache.share(first[1]) == status::ok);
    CHECK(c.cache.references(first[1]) == 1);
    CHECK(c.cache.allocate() == first[0]);
    CHECK(c.cache.free() == 0);
    CHECK(c.cache.allocate() == no_index);
    CHECK(knows(c.cache, 11));
    CHECK(match(c.cache, {20, 21, 22}).size() == 3);
  }
  SECTION("use makes warm") {
    REQUIRE(c.cache.share(first[2]) == status::ok);
    REQUIRE(c.cache.release(first[2]) == status::ok);
    CHECK(c.cache.allocate() == first[1]);
    CHECK(c.cache.allocate() == first[0]);
    CHECK(c.cache.allocate() == first[2]);
  }
  SECTION("free blocks are taken before cached ones") {
    REQUIRE(c.cache.release(second) == status::ok);
    const block_id taken = c.cache.allocate();
    REQUIRE(taken == first[2]);
    REQUIRE(c.cache.release(taken) == status::ok);  // unpublished by now: free
    CHECK(c.cache.cached() == 5);
    CHECK(c.cache.allocate() == taken);
    CHECK(c.cache.cached() == 5);
  }
}

TEST_CASE("prefix_cache: wrong blocks have defined outcomes and change nothing", "[kv]") {
  cache_on_heap c{4};
  std::array<block_id, 3> ids{};
  REQUIRE(c.cache.allocate(ids) == status::ok);
  REQUIRE(c.cache.publish(ids[0], 1) == status::ok);
  REQUIRE(c.cache.publish(ids[1], 2) == status::ok);
  REQUIRE(c.cache.release(ids[0]) == status::ok);
  REQUIRE(c.cache.release(ids[1]) == status::ok);
  CHECK(c.cache.release(ids[0]) == status::not_allocated);
  CHECK(c.cache.release(no_index) == status::foreign);
  CHECK(c.cache.share(3) == status::not_allocated);

  CHECK(c.cache.share(std::array{ids[1], ids[0], block_id{3}}) == status::not_allocated);
  CHECK(c.cache.share(std::array{ids[1], ids[0], block_id{4}}) == status::foreign);
  CHECK(c.cache.release(std::array{ids[0], ids[2]}) == status::not_allocated);
  CHECK(c.cache.references(ids[2]) == 1);
  CHECK(c.cache.cached() == 2);
  CHECK(c.cache.allocate() == 3);
  CHECK(c.cache.allocate() == ids[0]);  // the coldest still
  CHECK(c.cache.allocate() == ids[1]);
}

TEST_CASE("prefix_cache: clear forgets the hashes and frees what was only cached", "[kv]") {
  cache_on_heap c{4};
  std::array<block_id, 3> ids{};
  REQUIRE(c.cache.allocate(ids) == status::ok);
  for (std::size_t i = 0; i != 3; ++i) REQUIRE(c.cache.publish(ids[i], 50 + i) == status::ok);
  REQUIRE(c.cache.release(ids[0]) == status::ok);
  c.cache.clear();
  CHECK(c.cache.cached() == 0);
  CHECK(c.cache.free() == 2);
  CHECK(c.cache.references(ids[1]) == 1);
  for (std::size_t i = 0; i != 3; ++i) CHECK_FALSE(knows(c.cache, 50 + i));
  CHECK(c.cache.publish(ids[1], 60) == status::ok);
  REQUIRE(c.cache.release(std::array{ids[1], ids[2]}) == status::ok);
  CHECK(c.cache.cached() == 1);
  CHECK(c.cache.free() == 4);
  for (int i = 0; i != 4; ++i) CHECK(c.cache.allocate() != no_index);
  CHECK(c.cache.allocate() == no_index);
}

TEST_CASE("prefix_cache: a dropped step puts evicted and shared blocks back in their places", "[kv]") {
  cache_on_heap c{5};
  std::array<block_id, 5> ids{};
  REQUIRE(c.cache.allocate(ids) == status::ok);
  for (std::size_t i = 0; i != 5; ++i) REQUIRE(c.cache.publish(ids[i], i) == status::ok);
  for (const block_id id : ids) REQUIRE(c.cache.release(id) == status::ok);  // 0 is the coldest

  const std::array<block_id, 2> shared{2, 1};
  REQUIRE(c.cache.share(shared) == status::ok);
  std::array<block_id, 2> taken{};
  REQUIRE(c.cache.allocate(taken) == status::ok);
  CHECK(taken == std::array<block_id, 2>{0, 3});
  REQUIRE(c.cache.release(shared) == status::ok);  // warm now
  REQUIRE(c.cache.share(shared) == status::ok);    // and away again
  std::array<block_id, 1> last{};
  REQUIRE(c.cache.allocate(last) == status::ok);
  REQUIRE(c.cache.release(last) == status::ok);  // evicted, then free
  std::array<block_id, 1> again{};
  REQUIRE(c.cache.allocate(again) == status::ok);  // and taken from the stack
  CHECK(again == last);
  c.cache.undo_allocate(again);
  c.cache.undo_release(last);
  c.cache.undo_allocate(last);
  c.cache.undo_share(shared);
  c.cache.undo_release(shared);
  c.cache.undo_allocate(taken);
  c.cache.undo_share(shared);

  CHECK(c.cache.cached() == 5);
  CHECK(match(c.cache, {0, 1, 2, 3, 4}) == std::vector<block_id>{0, 1, 2, 3, 4});
  for (block_id i = 0; i != 5; ++i) CHECK(c.cache.allocate() == i);
}

// Random windows of operations, wholly or partly undone, in lockstep with the model: every outcome, every count and
// every hash after every step. Allocations are compared too, and with them the orders of the stack and of the list.
TEST_CASE("prefix_cache: agrees with a reference model through random operations and undo", "[kv]") {
  struct operation {
    char kind;
    std::vector<block_id> ids;
    model before;
  };
  for (std::uint32_t seed = 1; seed != 13; ++seed) {
    std::mt19937 random{seed};
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    const std::size_t n = 1 + below(20);
    cache_on_heap c{n};
    model m{n};
    // Few distinct hashes, some of them close together and some equal in their low or high bits.
    std::vector<std::uint64_t> hashes;
    for (std::uint64_t h = 0; h != 24; ++h)
      hashes.push_back(h % 3 == 0 ? h : h % 3 == 1 ? h << 40 : h * 0x123456789abcdefULL);

    const auto check = [&] {
      REQUIRE(c.cache.free() == m.stack.size() + m.lru.size());
      REQUIRE(c.cache.cached() == m.lru.size());
      std::size_t pinned = 0;
      for (std::size_t i = 0; i != n; ++i) {
        REQUIRE(c.cache.references(static_cast<block_id>(i)) == m.references[i]);
        REQUIRE(c.cache.published(static_cast<block_id>(i)) == m.published[i]);
        pinned += m.references[i] != 0;
      }
      REQUIRE(pinned + m.stack.size() + m.lru.size() == n);
      for (const std::uint64_t h : hashes) {
        block_id out = no_index;
        const block_id expected = m.match(h);
        REQUIRE(c.cache.match(std::span{&h, 1}, std::span{&out, 1}) == (expected != no_index ? 1 : 0));
        REQUIRE(out == expected);
        REQUIRE(c.cache.knows(h) == (expected != no_index));
      }
    };

    std::vector<operation> window;
    for (int step = 0; step != 1500; ++step) {
      operation op{'?', {}, m};
      const std::size_t what = below(10);
      if (what < 2) {
        op.kind = 'a';
        op.ids.resize(below(5));
        const status s = c.cache.allocate(op.ids);
        REQUIRE(s == (op.ids.size() <= m.stack.size() + m.lru.size() ? status::ok : status::exhausted));
        if (s != status::ok) continue;
        for (const block_id id : op.ids) REQUIRE(id == m.allocate());
      } else if (what < 7) {
        const bool share = what < 4;
        op.kind = share ? 's' : 'r';
        op.ids.resize(below(4));
        for (block_id& id : op.ids) id = static_cast<block_id>(below(n));
        bool valid = true;
        if (share) {
          for (const block_id id : op.ids) valid = valid && m.share(id);
        } else {
          for (std::size_t k = op.ids.size(); k-- != 0;) valid = valid && m.release(op.ids[k]);
        }
        const status s = share ? c.cache.share(op.ids) : c.cache.release(op.ids);
        REQUIRE(s == (valid ? status::ok : status::not_allocated));
        if (!valid) {
          m = op.before;
          check();
          continue;
        }
      } else {  // the window ends: undo none, some or all of it, then publish a few
        std::size_t undo = below(3) == 0 ? 0 : below(window.size() + 1);
        while (undo-- != 0) {
          const operation& last = window.back();
          if (last.kind == 'a') c.cache.undo_allocate(last.ids);
          if (last.kind == 's') c.cache.undo_share(last.ids);
          if (last.kind == 'r') c.cache.undo_release(last.ids);
          m = last.before;
          window.pop_back();
          check();
        }
        if (below(3) != 0) continue;  // the same window goes on
        window.clear();
        for (std::size_t k = below(6); k-- != 0;) {
          const auto id = static_cast<block_id>(below(n));
          const std::uint64_t h = hashes[below(hashes.size())];
          const status s = c.cache.publish(id, h);
          const status expected = m.references[id] == 0                   ? status::not_allocated
                                  : m.published[id] && m.hash_of[id] != h ? status::invalid
                                                                          : status::ok;
          REQUIRE(s == expected);
          m.publish(id, h);
          check();
        }
        continue;
      }
      window.push_back(std::move(op));
      // No more than 2 x capacity departures from the list can be undone.
      if (window.size() > n / 2) window.clear();
      check();
    }
  }
}

// The table at its fullest, with hashes that fall into one another's way, against a map.
TEST_CASE("prefix_cache: the hash table survives long runs of collisions", "[kv]") {
  for (std::uint32_t seed = 1; seed != 5; ++seed) {
    std::mt19937_64 random{seed};
    constexpr std::size_t n = 256;
    cache_on_heap c{n};
    std::map<std::uint64_t, block_id> known;
    std::vector<std::uint64_t> hash_of(n, 0);
    // The inverse of the multiplier makes hashes with chosen home slots: only 8 of them, some at the wrap-around.
    std::uint64_t inverse = 1;
    for (int i = 0; i != 6; ++i) inverse *= 2 - 0x9e37'79b9'7f4a'7c15ULL * inverse;
    REQUIRE(inverse * 0x9e37'79b9'7f4a'7c15ULL == 1);

    std::vector<block_id> held;
    for (int step = 0; step != 4000; ++step) {
      if (held.size() < n && random() % 3 != 0) {
        const block_id id = c.cache.allocate();
        REQUIRE(id != no_index);
        if (hash_of[id] != 0) known.erase(hash_of[id]);
        const std::uint64_t slot = (random() % 8 - 4) & 511;
        const std::uint64_t hash = ((slot << 55) | (random() % 1'000'000'007)) * inverse;
        REQUIRE(c.cache.publish(id, hash) == status::ok);
        const bool added = known.emplace(hash, id).second;
        hash_of[id] = added ? hash : 0;
        held.push_back(id);
      } else if (!held.empty()) {
        std::swap(held[random() % held.size()], held.back());
        REQUIRE(c.cache.release(held.back()) == status::ok);
        held.pop_back();
      }
      if (step % 16 == 0) {
        for (const auto& [hash, id] : known) {
          block_id out = no_index;
          REQUIRE(c.cache.match(std::span{&hash, 1}, std::span{&out, 1}) == 1);
          REQUIRE(out == id);
        }
      }
    }
    CHECK(known.size() > n / 2);
  }
}

TEST_CASE("prefix_cache: works in unaligned memory of exactly required_bytes", "[kv]") {
  for (std::size_t offset = 0; offset != 65; ++offset) {
    const prefix_cache::limits limits{.blocks = 17};
    std::vector<std::byte> buffer(prefix_cache::required_bytes(limits) + offset);
    tessera::arena memory{std::span{buffer}.subspan(offset)};
    prefix_cache cache{memory, limits};
    std::array<block_id, 17> ids{};
    REQUIRE(cache.allocate(ids) == status::ok);
    for (const block_id id : ids) REQUIRE(cache.publish(id, id) == status::ok);
    REQUIRE(cache.release(ids) == status::ok);
    REQUIRE(cache.share(ids) == status::ok);
    cache.undo_share(ids);
    CHECK(cache.cached() == 17);
  }
}

TEST_CASE("prefix_cache: no call allocates, refused ones included", "[kv]") {
  cache_on_heap c{8};
  std::array<block_id, 6> ids{};
  std::array<block_id, 4> more{};
  const std::array<std::uint64_t, 3> hashes{3, 4, 5};
  bool fine = true;
  tessera_test::no_allocation guard;
  fine &= c.cache.allocate(ids) == status::ok;
  for (std::size_t i = 0; i != 6; ++i) fine &= c.cache.publish(ids[i], i) == status::ok;
  fine &= c.cache.publish(ids[0], 9) == status::invalid;
  fine &= c.cache.release(ids) == status::ok;
  fine &= c.cache.allocate(more) == status::ok;  // two evictions
  fine &= c.cache.match(hashes, more) == 1;
  fine &= c.cache.share(std::array{ids[0], ids[1]}) == status::ok;
  fine &= c.cache.share(99) == status::foreign;
  c.cache.undo_share(std::array{ids[0], ids[1]});
  fine &= c.cache.allocate() != no_index;
  c.cache.clear();
  const std::size_t allocations = guard.allocations();
  CHECK(allocations == 0);
  CHECK(fine);
}

}  // namespace
