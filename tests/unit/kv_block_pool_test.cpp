// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/kv/block_pool.hpp>

#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

namespace {

using tessera::no_index;
using tessera::status;
using tessera::kv::block_id;
using tessera::kv::block_pool;

struct pool_on_heap {
  explicit pool_on_heap(std::size_t n) : storage{tessera::storage_for<block_pool>({.blocks = n})} {}
  tessera::owned_storage<block_pool::limits> storage;
  tessera::arena memory{storage.memory()};
  block_pool pool{memory, storage.limits()};
};

TEST_CASE("block_pool: a fresh pool hands out every block once, in ascending order", "[kv]") {
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{63}, std::size_t{64}}) {
    pool_on_heap p{n};
    CHECK(p.pool.capacity() == n);
    for (std::size_t i = 0; i != n; ++i) {
      CHECK(p.pool.free() == n - i);
      CHECK(p.pool.references(static_cast<block_id>(i)) == 0);
      CHECK(p.pool.allocate() == i);
      CHECK(p.pool.references(static_cast<block_id>(i)) == 1);
    }
    CHECK(p.pool.free() == 0);
    CHECK(p.pool.allocate() == no_index);
    CHECK(p.pool.allocate() == no_index);
  }
}

TEST_CASE("block_pool: bulk allocation is all or nothing at n - 1, n and n + 1", "[kv]") {
  for (const std::size_t want : {std::size_t{7}, std::size_t{8}, std::size_t{9}}) {
    pool_on_heap p{8};
    std::vector<block_id> out(want, 1234);
    const status s = p.pool.allocate(out);
    if (want <= 8) {
      CHECK(s == status::ok);
      CHECK(p.pool.free() == 8 - want);
      for (std::size_t i = 0; i != want; ++i) CHECK(out[i] == i);
    } else {
      CHECK(s == status::exhausted);
      CHECK(p.pool.free() == 8);
      for (const block_id id : out) CHECK(id == 1234);
    }
  }
  pool_on_heap p{0};
  CHECK(p.pool.allocate(std::span<block_id>{}) == status::ok);
}

TEST_CASE("block_pool: the block given back last is handed out first", "[kv]") {
  pool_on_heap p{4};
  std::array<block_id, 4> ids{};
  REQUIRE(p.pool.allocate(ids) == status::ok);
  REQUIRE(p.pool.release(ids[1]) == status::ok);
  REQUIRE(p.pool.release(ids[3]) == status::ok);
  CHECK(p.pool.allocate() == ids[3]);
  CHECK(p.pool.allocate() == ids[1]);

  // In bulk, from back to front: the first of the sequence comes back first.
  REQUIRE(p.pool.release(ids) == status::ok);
  std::array<block_id, 4> again{};
  REQUIRE(p.pool.allocate(again) == status::ok);
  CHECK(again == ids);
}

TEST_CASE("block_pool: wrong blocks have defined outcomes and change nothing", "[kv]") {
  pool_on_heap p{4};
  const block_id a = p.pool.allocate();
  const block_id b = p.pool.allocate();
  CHECK(p.pool.release(4) == status::foreign);
  CHECK(p.pool.release(no_index) == status::foreign);
  CHECK(p.pool.share(4) == status::foreign);
  CHECK(p.pool.release(3) == status::not_allocated);
  CHECK(p.pool.share(3) == status::not_allocated);

  SECTION("a double free") {
    REQUIRE(p.pool.release(b) == status::ok);
    CHECK(p.pool.release(b) == status::not_allocated);
    CHECK(p.pool.free() == 3);
  }
  SECTION("in bulk, wherever the wrong one stands") {
    for (const block_id wrong : {block_id{3}, block_id{4}}) {
      const status expected = wrong == 3 ? status::not_allocated : status::foreign;
      for (const auto& ids : {std::array{wrong, a, b}, std::array{a, wrong, b}, std::array{a, b, wrong}}) {
        CHECK(p.pool.release(ids) == expected);
        CHECK(p.pool.share(ids) == expected);
        CHECK(p.pool.references(a) == 1);
        CHECK(p.pool.references(b) == 1);
        CHECK(p.pool.free() == 2);
      }
    }
    // The free order is untouched as well.
    CHECK(p.pool.allocate() == 2);
    CHECK(p.pool.allocate() == 3);
  }
  SECTION("one block twice in a list: as many owners as it has, and no more") {
    CHECK(p.pool.release(std::array{a, a}) == status::not_allocated);
    CHECK(p.pool.references(a) == 1);
    REQUIRE(p.pool.share(std::array{a, a}) == status::ok);
    CHECK(p.pool.references(a) == 3);
    CHECK(p.pool.release(std::array{a, a, a, a}) == status::not_allocated);
    CHECK(p.pool.references(a) == 3);
    CHECK(p.pool.release(std::array{a, a, a}) == status::ok);
    CHECK(p.pool.references(a) == 0);
    CHECK(p.pool.free() == 3);
  }
}

TEST_CASE("block_pool: works in unaligned memory of exactly required_bytes", "[kv]") {
  for (std::size_t offset = 0; offset != 65; ++offset) {
    const block_pool::limits limits{.blocks = 17};
    std::vector<std::byte> buffer(block_pool::required_bytes(limits) + offset);
    tessera::arena memory{std::span{buffer}.subspan(offset)};
    block_pool pool{memory, limits};
    std::array<block_id, 17> ids{};
    CHECK(pool.allocate(ids) == status::ok);
    CHECK(ids[16] == 16);
  }
}

// The pool against a plain vector used as a stack, through random operations with undo.
TEST_CASE("block_pool: agrees with a reference model through random operations and undo", "[kv]") {
  struct model {
    std::vector<block_id> free;  // back is next
    std::vector<std::uint32_t> references;
    bool operator==(const model&) const = default;
  };
  struct operation {
    char kind;
    std::vector<block_id> ids;
    model before;
  };

  for (std::uint32_t seed = 1; seed != 9; ++seed) {
    std::mt19937 random{seed};
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    constexpr std::size_t n = 24;
    pool_on_heap p{n};
    model m{{}, std::vector<std::uint32_t>(n, 0)};
    for (std::size_t i = n; i-- != 0;) m.free.push_back(static_cast<block_id>(i));

    const auto check = [&] {
      REQUIRE(p.pool.free() == m.free.size());
      for (std::size_t i = 0; i != n; ++i) REQUIRE(p.pool.references(static_cast<block_id>(i)) == m.references[i]);
    };

    std::vector<operation> window;
    for (int step = 0; step != 3000; ++step) {
      operation op{'?', {}, m};
      switch (below(4)) {
        case 0: {
          op.kind = 'a';
          op.ids.resize(below(6));
          const status s = p.pool.allocate(op.ids);
          REQUIRE(s == (op.ids.size() <= m.free.size() ? status::ok : status::exhausted));
          if (s != status::ok) continue;
          for (const block_id id : op.ids) {
            REQUIRE(id == m.free.back());
            m.free.pop_back();
            m.references[id] = 1;
          }
          break;
        }
        case 1:
        case 2: {
          const bool share = below(3) == 0;
          op.kind = share ? 's' : 'r';
          op.ids.resize(below(6));
          for (block_id& id : op.ids) id = static_cast<block_id>(below(n));
          model after = m;
          bool valid = true;
          for (std::size_t k = op.ids.size(); k-- != 0;) {
            std::uint32_t& r = after.references[op.ids[k]];
            if (r == 0) {
              valid = false;
              break;
            }
            if (share) {
              ++r;
            } else if (--r == 0) {
              after.free.push_back(op.ids[k]);
            }
          }
          const status s = share ? p.pool.share(op.ids) : p.pool.release(op.ids);
          REQUIRE(s == (valid ? status::ok : status::not_allocated));
          if (valid) m = after;
          if (!valid) {
            check();  // a refused call changes nothing
            continue;
          }
          break;
        }
        default: {  // end of the window: settle it, or undo some or all of it
          std::size_t undo = below(3) == 0 ? 0 : below(window.size() + 1);
          while (undo-- != 0) {
            const operation& last = window.back();
            if (last.kind == 'a') p.pool.undo_allocate(last.ids);
            if (last.kind == 's') p.pool.undo_share(last.ids);
            if (last.kind == 'r') p.pool.undo_release(last.ids);
            m = last.before;
            window.pop_back();
            check();
          }
          if (below(2) == 0) window.clear();
          continue;
        }
      }
      window.push_back(std::move(op));
      check();
    }
  }
}

TEST_CASE("block_pool: no call allocates, refused ones included", "[kv]") {
  pool_on_heap p{8};
  std::array<block_id, 5> ids{};
  std::array<block_id, 5> more{};
  bool as_expected = true;
  tessera_test::no_allocation guard;
  as_expected &= p.pool.allocate(ids) == status::ok;
  as_expected &= p.pool.allocate(more) == status::exhausted;
  as_expected &= p.pool.share(ids) == status::ok;
  as_expected &= p.pool.release(ids) == status::ok;
  as_expected &= p.pool.release(std::array{block_id{7}}) == status::not_allocated;
  as_expected &= p.pool.release(99) == status::foreign;
  p.pool.undo_release(ids);
  p.pool.undo_share(ids);
  p.pool.undo_allocate(ids);
  as_expected &= p.pool.allocate() == 0;
  const std::size_t allocations = guard.allocations();
  CHECK(allocations == 0);
  CHECK(as_expected);
}

}  // namespace
