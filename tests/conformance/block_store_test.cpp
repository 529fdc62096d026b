// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/kv/block_pool.hpp>
#include <tessera/kv/by_session.hpp>
#include <tessera/kv/keep_until.hpp>
#include <tessera/kv/prefix_cache.hpp>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

// What every model of `kv::block_store` must do, whatever its insides, seen through the concept alone.
// To try a store of your own, add it to the list.
#define BLOCK_STORES tessera::kv::block_pool, tessera::kv::prefix_cache, kept, in_accounts

namespace {

using kept = tessera::kv::basic_prefix_cache<tessera::kv::keep_until<>,
                                             tessera::kv::event_ring<16, tessera::kv::hash128>, tessera::kv::hash128>;
using in_accounts = tessera::kv::basic_prefix_cache<tessera::kv::by_session<3>>;

using tessera::status;
using tessera::kv::block_id;

template <tessera::kv::block_store S>
struct fixture {
  explicit fixture(std::size_t n) : storage{tessera::storage_for<S>(limits_of(n))} {}

  static typename S::limits limits_of(std::size_t n) {
    typename S::limits l{};
    l.blocks = n;
    return l;
  }
  /// All blocks that can be allocated, in the order in which they would be; the store is as before afterwards.
  std::vector<block_id> future() {
    std::vector<block_id> ids;
    block_id id = 0;
    while (store.allocate(std::span{&id, 1}) == status::ok) ids.push_back(id);
    for (std::size_t i = ids.size(); i-- != 0;) store.undo_allocate(std::span{&ids[i], 1});
    return ids;
  }
  std::vector<std::uint32_t> counts() const {
    std::vector<std::uint32_t> c(store.capacity());
    for (std::size_t i = 0; i != c.size(); ++i) c[i] = store.references(static_cast<block_id>(i));
    return c;
  }

  tessera::owned_storage<typename S::limits> storage;
  tessera::arena memory{storage.memory()};
  S store{memory, storage.limits()};
};

TEMPLATE_TEST_CASE("block_store: a fresh store gives each block once", "[kv][conformance]", BLOCK_STORES) {
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{31}, std::size_t{32}, std::size_t{33}}) {
    fixture<TestType> f{n};
    CHECK(f.store.capacity() == n);
    CHECK(f.store.free() == n);
    auto ids = f.future();
    CHECK(f.store.free() == n);
    std::sort(ids.begin(), ids.end());
    std::vector<block_id> all(n);
    std::iota(all.begin(), all.end(), block_id{0});
    CHECK(ids == all);
  }
}

TEMPLATE_TEST_CASE("block_store: exhaustion is a value and changes nothing", "[kv][conformance]", BLOCK_STORES) {
  fixture<TestType> f{8};
  std::array<block_id, 3> held{};
  REQUIRE(f.store.allocate(held) == status::ok);
  const auto future = f.future();
  const auto counts = f.counts();
  std::array<block_id, 6> out{9, 9, 9, 9, 9, 9};
  CHECK(f.store.allocate(out) == status::exhausted);
  CHECK(std::count(out.begin(), out.end(), block_id{9}) == 6);
  CHECK(f.future() == future);
  CHECK(f.counts() == counts);
  CHECK(f.store.allocate(std::span{out}.first(5)) == status::ok);
  CHECK(f.store.free() == 0);
  CHECK(f.store.allocate(std::span<block_id>{}) == status::ok);
}

TEMPLATE_TEST_CASE("block_store: a block is free again after its last owner", "[kv][conformance]", BLOCK_STORES) {
  fixture<TestType> f{4};
  std::array<block_id, 2> ids{};
  REQUIRE(f.store.allocate(ids) == status::ok);
  REQUIRE(f.store.share(ids) == status::ok);
  REQUIRE(f.store.share(std::span{ids}.first(1)) == status::ok);
  CHECK(f.store.references(ids[0]) == 3);
  CHECK(f.store.references(ids[1]) == 2);
  REQUIRE(f.store.release(ids) == status::ok);
  CHECK(f.store.free() == 2);
  REQUIRE(f.store.release(ids) == status::ok);
  CHECK(f.store.free() == 3);
  REQUIRE(f.store.release(std::span{ids}.first(1)) == status::ok);
  CHECK(f.store.free() == 4);
}

TEMPLATE_TEST_CASE("block_store: wrong blocks are refused as a whole", "[kv][conformance]", BLOCK_STORES) {
  fixture<TestType> f{6};
  std::array<block_id, 3> ids{};
  REQUIRE(f.store.allocate(ids) == status::ok);
  const auto future = f.future();
  const auto counts = f.counts();
  for (const block_id wrong : {future.front(), block_id{6}, tessera::no_index}) {
    const status expected = wrong < 6 ? status::not_allocated : status::foreign;
    for (std::size_t at = 0; at != 3; ++at) {
      auto mixed = ids;
      mixed[at] = wrong;
      CHECK(f.store.release(mixed) == expected);
      CHECK(f.store.share(mixed) == expected);
      CHECK(f.future() == future);
      CHECK(f.counts() == counts);
    }
  }
  CHECK(f.store.release(std::array{ids[0], ids[1], ids[0]}) == status::not_allocated);
  CHECK(f.future() == future);
  CHECK(f.counts() == counts);
  REQUIRE(f.store.release(ids) == status::ok);
  CHECK(f.store.release(ids) == status::not_allocated);
}

TEMPLATE_TEST_CASE("block_store: undone in reverse order, it is what it was", "[kv][conformance]", BLOCK_STORES) {
  struct operation {
    char kind;
    std::vector<block_id> ids;
  };
  for (std::uint32_t seed = 1; seed != 21; ++seed) {
    std::mt19937 random{seed};
    constexpr std::size_t n = 20;
    fixture<TestType> f{n};
    for (int window = 0; window != 60; ++window) {
      const auto future = f.future();
      const auto counts = f.counts();
      const bool settle = random() % 2 == 0;
      std::vector<operation> done;
      for (std::size_t k = random() % 12; k-- != 0;) {
        operation op{"asr"[random() % 3], std::vector<block_id>(random() % 5)};
        status s = status::ok;
        if (op.kind == 'a') {
          s = f.store.allocate(op.ids);
        } else {
          for (block_id& id : op.ids) id = static_cast<block_id>(random() % n);
          s = op.kind == 's' ? f.store.share(op.ids) : f.store.release(op.ids);
        }
        if (s == status::ok) done.push_back(op);
      }
      // No block lost, none both free and owned.
      const auto now = f.counts();
      const auto pinned =
          static_cast<std::size_t>(std::count_if(now.begin(), now.end(), [](auto c) { return c != 0; }));
      REQUIRE(pinned + f.store.free() == n);
      for (const block_id id : f.future()) REQUIRE(now[id] == 0);
      if (settle) continue;
      for (; !done.empty(); done.pop_back()) {
        if (done.back().kind == 'a') f.store.undo_allocate(done.back().ids);
        if (done.back().kind == 's') f.store.undo_share(done.back().ids);
        if (done.back().kind == 'r') f.store.undo_release(done.back().ids);
      }
      REQUIRE(f.counts() == counts);
      REQUIRE(f.future() == future);
      REQUIRE(f.store.free() == future.size());
    }
  }
}

TEMPLATE_TEST_CASE("block_store: no call allocates memory", "[kv][conformance]", BLOCK_STORES) {
  fixture<TestType> f{8};
  std::array<block_id, 5> ids{};
  std::array<block_id, 5> more{};
  bool fine = true;
  tessera_test::no_allocation guard;
  fine &= f.store.allocate(ids) == status::ok;
  fine &= f.store.allocate(more) == status::exhausted;
  fine &= f.store.share(ids) == status::ok;
  fine &= f.store.release(ids) == status::ok;
  f.store.undo_release(ids);
  f.store.undo_share(ids);
  fine &= f.store.release(ids) == status::ok;
  fine &= f.store.release(ids) == status::not_allocated;
  f.store.undo_release(ids);
  f.store.undo_allocate(ids);
  fine &= f.store.free() == 8;
  const std::size_t allocations = guard.allocations();
  CHECK(allocations == 0);
  CHECK(fine);
}

}  // namespace
