// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// How many blocks would become free if a row went.

#include <tessera/kv/block_pool.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/pipeline/exclusive_blocks.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace {

using namespace tessera;
using kv::block_id;
using counts = detail::exclusive_blocks<true>;

constexpr std::size_t rows = 6;
constexpr std::size_t blocks_in_all = 24;

struct world {
  std::vector<std::byte> memory = std::vector<std::byte>(kv::prefix_cache::required_bytes({.blocks = blocks_in_all}) +
                                                         counts::required_bytes(rows, blocks_in_all) + 64);
  arena a{memory};
  kv::prefix_cache store{a, {.blocks = blocks_in_all}};
  counts own{a, rows, blocks_in_all};
  std::vector<std::vector<block_id>> row = std::vector<std::vector<block_id>>(rows);

  void take(std::uint32_t r, std::size_t n) {
    std::vector<block_id> ids(n);
    REQUIRE(store.allocate(ids) == status::ok);
    own.taken(r, ids);
    row[r].insert(row[r].end(), ids.begin(), ids.end());
  }
  void share(std::uint32_t r, const std::vector<block_id>& ids) {
    REQUIRE(store.share(ids) == status::ok);
    own.joined(r, ids, store);
    row[r].insert(row[r].end(), ids.begin(), ids.end());
  }
  void release(std::uint32_t r) {
    REQUIRE(store.release(row[r]) == status::ok);
    own.left(r, row[r], store);
    row[r].clear();
  }
  /// By looking at everything.
  void check() const {
    std::size_t shared = 0;
    for (block_id id = 0; id != blocks_in_all; ++id) shared += store.references(id) > 1 ? 1U : 0U;
    REQUIRE(own.shared() == shared);
    for (std::uint32_t r = 0; r != rows; ++r) {
      const auto mine =
          std::count_if(row[r].begin(), row[r].end(), [&](block_id id) { return store.references(id) == 1; });
      REQUIRE(own.of(r) == static_cast<std::uint32_t>(mine));
      REQUIRE(own.by_row()[r] == own.of(r));
    }
  }
};

}  // namespace

TEST_CASE("exclusive_blocks: shared with one, with two, and alone again, whichever goes first") {
  world w;
  w.take(0, 3);
  CHECK(w.own.of(0) == 3);
  CHECK(w.own.shared() == 0);
  const std::vector<block_id> front{w.row[0][0], w.row[0][1]};
  w.share(1, front);
  w.take(1, 1);
  CHECK(w.own.of(0) == 1);
  CHECK(w.own.of(1) == 1);
  CHECK(w.own.shared() == 2);
  w.share(2, front);
  CHECK(w.own.of(2) == 0);
  CHECK(w.own.shared() == 2);
  const bool first_goes = GENERATE(true, false);
  w.release(first_goes ? 0 : 2);
  w.check();
  w.release(1);
  w.check();
  CHECK(w.own.of(first_goes ? 2 : 0) == (first_goes ? 2 : 3));
  CHECK(w.own.shared() == 0);
}

TEST_CASE("exclusive_blocks: one that was only cached is its first sharer's") {
  world w;
  w.take(0, 2);
  const std::vector<block_id> ids = w.row[0];
  for (const block_id id : ids) REQUIRE(w.store.publish(id, 100 + id) == status::ok);
  w.release(0);
  w.check();
  w.share(3, ids);
  CHECK(w.own.of(3) == 2);
  w.share(4, ids);
  CHECK(w.own.of(3) == 0);
  CHECK(w.own.shared() == 2);
  w.check();
}

TEST_CASE("exclusive_blocks: as by looking at everything, over random calls that are partly undone") {
  for (unsigned seed = 1; seed != 9; ++seed) {
    std::mt19937 random{seed};
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    world w;
    std::uint64_t next_hash = 1;
    for (int step = 0; step != 3000; ++step) {
      const auto r = static_cast<std::uint32_t>(below(rows));
      switch (below(7)) {
        case 0:
        case 1: w.take(r, std::min(below(4), w.store.free())); break;
        case 2: {  // the front of another's row
          const auto& other = w.row[below(rows)];
          if (!w.row[r].empty() || other.empty()) break;
          const auto n = static_cast<std::ptrdiff_t>(1 + below(other.size()));
          w.share(r, {other.begin(), other.begin() + n});
          break;
        }
        case 3: w.release(r); break;
        case 4: {  // a growth that is undone
          std::vector<block_id> ids(std::min(below(4), w.store.free()));
          REQUIRE(w.store.allocate(ids) == status::ok);
          w.own.taken(r, ids);
          w.store.undo_allocate(ids);
          w.own.untaken(r, ids.size());
          break;
        }
        case 5: {  // a release, and a share of what another has, undone
          REQUIRE(w.store.release(w.row[r]) == status::ok);
          w.own.left(r, w.row[r], w.store);
          const auto other = static_cast<std::uint32_t>(below(rows));
          const auto& front = w.row[other];
          if (other != r) {
            REQUIRE(w.store.share(front) == status::ok);
            w.own.joined(r, front, w.store);
            w.store.undo_share(front);
            w.own.left(r, front, w.store);
          }
          w.store.undo_release(w.row[r]);
          w.own.joined(r, w.row[r], w.store);
          break;
        }
        default:
          if (!w.row[r].empty() && !w.store.published(w.row[r][0])) {
            REQUIRE(w.store.publish(w.row[r][0], next_hash++) == status::ok);
          }
      }
      w.check();
    }
  }
}

TEST_CASE("exclusive_blocks: without sharing in the ordinary course of things a row's blocks are its own") {
  using plain = detail::exclusive_blocks<false>;
  static_assert(plain::required_bytes(4, 1000) == plain::required_bytes(4, 0));
  std::vector<std::byte> memory(plain::required_bytes(4, 9) + kv::block_pool::required_bytes({.blocks = 9}) + 64);
  arena a{memory};
  kv::block_pool store{a, {.blocks = 9}};
  plain own{a, 4, 9};
  const tessera_test::no_allocation guard;
  const block_id ids[] = {0, 1, 2};
  own.taken(1, ids);
  own.taken(2, ids);
  own.untaken(2, 1);
  own.left(1, std::span{ids}.first(2), store);
  own.joined(3, ids, store);
  const std::size_t allocations = guard.allocations();
  CHECK(allocations == 0);
  CHECK(own.of(1) == 1);
  CHECK(own.of(2) == 2);
  CHECK(own.of(3) == 3);
  CHECK(own.shared() == 0);
}
