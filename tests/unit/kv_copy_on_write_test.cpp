// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/kv/block_pool.hpp>
#include <tessera/kv/copy_on_write.hpp>
#include <tessera/kv/prefix_cache.hpp>

#include <array>
#include <map>
#include <random>
#include <span>
#include <vector>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

namespace {

using tessera::no_index;
using tessera::status;
using tessera::tokens;
using tessera::kv::block_copy;
using tessera::kv::block_id;
using tessera::kv::block_pool;
using tessera::kv::block_table;
using tessera::kv::copy_on_write;
using tessera::kv::prefix_cache;

template <class Store>
struct fixture {
  explicit fixture(std::size_t blocks, std::size_t rows = 4, std::size_t per_row = 8)
      : store_storage{tessera::storage_for<Store>({.blocks = blocks})},
        table_storage{
            tessera::storage_for<block_table>({.rows = rows, .blocks_per_row = per_row, .block_size = tokens{4}})} {}
  tessera::owned_storage<typename Store::limits> store_storage;
  tessera::owned_storage<block_table::limits> table_storage;
  tessera::arena store_memory{store_storage.memory()};
  tessera::arena table_memory{table_storage.memory()};
  Store store{store_memory, store_storage.limits()};
  block_table table{table_memory, table_storage.limits()};
  copy_on_write<Store> cow{store, table};

  std::uint32_t sequence(std::size_t blocks) {
    const auto r = table.acquire_row();
    REQUIRE(store.allocate(table.extend(r, blocks)) == status::ok);
    return r;
  }
  std::vector<block_id> row(std::uint32_t r) const {
    const auto s = table.row(r);
    return {s.begin(), s.end()};
  }
};

TEMPLATE_TEST_CASE("copy_on_write: a fork shares all blocks", "[kv]", block_pool, prefix_cache) {
  fixture<TestType> f{8, 2};
  const auto parent = f.sequence(3);
  const auto child = f.cow.fork(parent);
  REQUIRE(child != no_index);
  CHECK(child != parent);
  CHECK(f.row(child) == f.row(parent));
  CHECK(f.store.free() == 5);
  for (const block_id id : f.row(parent)) CHECK(f.store.references(id) == 2);

  // No row left: nothing changes.
  CHECK(f.cow.fork(parent) == no_index);
  for (const block_id id : f.row(parent)) CHECK(f.store.references(id) == 2);

  // Either may go first.
  REQUIRE(f.store.release(f.table.row(parent)) == status::ok);
  REQUIRE(f.table.release_row(parent) == status::ok);
  CHECK(f.store.free() == 5);
  REQUIRE(f.store.release(f.table.row(child)) == status::ok);
  CHECK(f.store.free() == 8);
}

TEMPLATE_TEST_CASE("copy_on_write: the first writer copies, the last owner does not", "[kv]", block_pool,
                   prefix_cache) {
  fixture<TestType> f{8};
  const auto parent = f.sequence(2);
  const auto child = f.cow.fork(parent);
  const auto shared = f.row(parent);

  block_copy copy{no_index, no_index};
  auto result = f.cow.ensure_writable(child, tokens{5}, copy);
  CHECK(result.outcome == status::ok);
  REQUIRE(result.copies == 1);
  CHECK(copy.from == shared[1]);
  CHECK(copy.to == f.row(child)[1]);
  CHECK(copy.to != shared[1]);
  CHECK(f.row(child)[0] == shared[0]);
  CHECK(f.row(parent) == shared);
  CHECK(f.store.references(shared[1]) == 1);
  CHECK(f.store.references(copy.to) == 1);

  result = f.cow.ensure_writable(child, tokens{5}, copy);
  CHECK(result.outcome == status::ok);
  CHECK(result.copies == 0);
  result = f.cow.ensure_writable(parent, tokens{7}, copy);
  CHECK(result.outcome == status::ok);
  CHECK(result.copies == 0);
}

TEMPLATE_TEST_CASE("copy_on_write: a range is made writable as a whole or not at all", "[kv]", block_pool,
                   prefix_cache) {
  fixture<TestType> f{8};
  const auto parent = f.sequence(4);
  const auto child = f.cow.fork(parent);
  const auto shared = f.row(parent);
  std::array<block_copy, 4> out{};

  SECTION("tokens 3 to 12 lie in blocks 0 to 3") {
    const auto result = f.cow.ensure_writable(child, tokens{3}, tokens{10}, out);
    CHECK(result.outcome == status::ok);
    CHECK(result.copies == 4);
  }
  SECTION("tokens 4 to 11 lie in blocks 1 and 2") {
    const auto result = f.cow.ensure_writable(child, tokens{4}, tokens{8}, out);
    REQUIRE(result.copies == 2);
    CHECK(out[0].from == shared[1]);
    CHECK(out[1].from == shared[2]);
    CHECK(f.row(child) == std::vector<block_id>{shared[0], out[0].to, out[1].to, shared[3]});
  }
  SECTION("no tokens") {
    const auto result = f.cow.ensure_writable(child, tokens{0}, tokens{0}, out);
    CHECK(result.outcome == status::ok);
    CHECK(result.copies == 0);
  }
  SECTION("refusals change nothing") {
    std::array<block_id, 2> taken{};
    REQUIRE(f.store.allocate(taken) == status::ok);  // two blocks are left
    CHECK(f.cow.ensure_writable(child, tokens{0}, tokens{12}, out).outcome == status::exhausted);
    CHECK(f.cow.ensure_writable(child, tokens{0}, tokens{8}, std::span{out}.first(1)).outcome == status::invalid);
    CHECK(f.cow.ensure_writable(child, tokens{12}, tokens{5}, out).outcome == status::invalid);
    CHECK(f.cow.ensure_writable(child, tokens{-1}, tokens{1}, out).outcome == status::invalid);
    CHECK(f.cow.ensure_writable(child, tokens{1}, tokens{-1}, out).outcome == status::invalid);
    CHECK(f.row(child) == shared);
    CHECK(f.store.free() == 2);
    for (const block_id id : shared) CHECK(f.store.references(id) == 2);
    CHECK(f.cow.ensure_writable(child, tokens{0}, tokens{8}, out).outcome == status::ok);
    CHECK(f.store.free() == 0);
  }
}

TEST_CASE("copy_on_write: blocks that are cached for others are evicted for a copy", "[kv]") {
  fixture<prefix_cache> f{3};
  const auto parent = f.sequence(2);
  std::array<block_id, 1> old{};
  REQUIRE(f.store.allocate(old) == status::ok);
  REQUIRE(f.store.publish(old[0], 9) == status::ok);
  REQUIRE(f.store.release(old) == status::ok);
  const auto child = f.cow.fork(parent);
  block_copy copy{};
  CHECK(f.cow.ensure_writable(child, tokens{4}, copy).copies == 1);
  CHECK(copy.to == old[0]);
  CHECK_FALSE(f.store.published(old[0]));
}

// Sequences as plain strings of values, copied in full at every fork; device blocks as real memory.
TEMPLATE_TEST_CASE("copy_on_write: forked sequences never see one another's writes", "[kv]", block_pool, prefix_cache) {
  for (std::uint32_t seed = 1; seed != 5; ++seed) {
    std::mt19937 random{seed};
    fixture<TestType> f{40, 10, 6};
    std::map<block_id, std::array<int, 4>> device;
    std::map<std::uint32_t, std::vector<int>> model;
    std::array<block_copy, 6> out{};
    for (int step = 0; step != 1500; ++step) {
      const auto what = random() % 10;
      auto it = model.begin();
      if (!model.empty()) std::advance(it, static_cast<std::ptrdiff_t>(random() % model.size()));
      if (model.empty() || what == 0) {
        const auto r = f.table.acquire_row();
        if (r != no_index) model[r] = {};
      } else if (what == 1) {
        const auto child = f.cow.fork(it->first);
        if (child != no_index) model[child] = it->second;
      } else if (what == 2) {
        REQUIRE(f.store.release(f.table.row(it->first)) == status::ok);
        REQUIRE(f.table.release_row(it->first) == status::ok);
        model.erase(it);
      } else {  // overwrite or append at most three tokens at the end
        auto& text = it->second;
        const std::size_t first = text.size() - (text.size() < 3 ? 0 : random() % 3);
        const std::size_t count = 1 + random() % 3;
        const std::size_t need = (first + count + 3) / 4;
        const std::size_t have = f.table.row(it->first).size();
        if (need > have) {
          const auto added = f.table.extend(it->first, need - have);
          if (added.empty()) continue;
          if (f.store.allocate(added) != status::ok) {
            f.table.truncate(it->first, have);
            continue;
          }
        }
        const auto result = f.cow.ensure_writable(it->first, tokens{static_cast<std::int64_t>(first)},
                                                  tokens{static_cast<std::int64_t>(count)}, out);
        REQUIRE((result.outcome == status::ok || result.outcome == status::exhausted));
        if (result.outcome != status::ok) continue;
        for (std::size_t i = 0; i != result.copies; ++i) device[out[i].to] = device[out[i].from];
        if (text.size() < first + count) text.resize(first + count);
        for (std::size_t i = first; i != first + count; ++i) {
          text[i] = static_cast<int>(random());
          device[f.table.row(it->first)[i / 4]][i % 4] = text[i];
        }
      }
      std::map<block_id, std::uint32_t> owners;
      for (const auto& [r, text] : model) {
        const auto ids = f.table.row(r);
        for (const block_id id : ids) ++owners[id];
        for (std::size_t i = 0; i != text.size(); ++i) REQUIRE(device[ids[i / 4]][i % 4] == text[i]);
      }
      for (block_id id = 0; id != 40; ++id) {
        REQUIRE(f.store.references(id) == (owners.count(id) != 0 ? owners[id] : 0));
      }
      REQUIRE(f.store.free() == 40 - owners.size());
    }
  }
}

TEST_CASE("copy_on_write: no call allocates", "[kv]") {
  fixture<prefix_cache> f{8};
  const auto parent = f.sequence(2);
  std::array<block_copy, 4> out{};
  tessera_test::no_allocation guard;
  const auto child = f.cow.fork(parent);
  const auto done = f.cow.ensure_writable(child, tokens{0}, tokens{8}, out);
  const auto refused = f.cow.ensure_writable(child, tokens{0}, tokens{9}, out);
  const std::size_t allocations = guard.allocations();
  CHECK(allocations == 0);
  CHECK(done.copies == 2);
  CHECK(refused.outcome == status::invalid);
}

}  // namespace
