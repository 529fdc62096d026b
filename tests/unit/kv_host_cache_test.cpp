// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/kv/host_cache.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <vector>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/is_slow.hpp"

namespace {

using tessera::no_index;
using tessera::status;
using tessera::kv::block_id;
using host_cache = tessera::kv::host_cache<>;

struct on_heap {
  explicit on_heap(std::size_t n) : storage{tessera::storage_for<host_cache>({.host_blocks = n})} {}
  tessera::owned_storage<host_cache::limits> storage;
  tessera::arena memory{storage.memory()};
  host_cache host{memory, storage.limits()};
};

std::vector<block_id> chain(const host_cache& h, block_id head) {
  std::vector<block_id> ids(h.size(head));
  CHECK(h.copy(head, ids) == ids.size());
  std::vector<block_id> each;
  h.for_each(head, [&](block_id id) { each.push_back(id); });
  CHECK(each == ids);
  return ids;
}

TEST_CASE("host_cache: a chain that is given back stays findable, its end goes first", "[kv]") {
  on_heap c{4};
  block_id head = no_index;
  CHECK(c.host.store(0, head) == status::invalid);
  CHECK(c.host.store(5, head) == status::exhausted);
  CHECK(head == no_index);
  REQUIRE(c.host.store(3, head) == status::ok);
  const auto ids = chain(c.host, head);
  for (std::size_t i = 0; i != 3; ++i) c.host.publish(ids[i], 10 + i);
  CHECK(c.host.free() == 1);
  REQUIRE(c.host.release(head) == status::ok);
  CHECK(c.host.release(head) == status::not_allocated);
  CHECK(c.host.release(9) == status::foreign);
  CHECK(c.host.free() == 4);
  CHECK(c.host.cached() == 3);
  std::vector<block_id> out(3);
  const std::vector<std::uint64_t> hashes{10, 11, 12};
  CHECK(c.host.match(hashes, out) == 3);
  CHECK(out == ids);

  SECTION("what is pinned is not stored to") {
    c.host.pin(std::span{ids}.first(2));
    REQUIRE(c.host.store(2, head) == status::ok);
    CHECK(chain(c.host, head)[1] == ids[2]);
    CHECK(c.host.store(1, head) == status::exhausted);
    c.host.unpin(std::span{ids}.first(2));
    CHECK(c.host.match(hashes, out) == 2);
  }
  SECTION("the end goes first, and comes back when that is undone") {
    REQUIRE(c.host.store(2, head) == status::ok);
    CHECK(c.host.match(hashes, out) == 2);
    c.host.undo_store(head);
    CHECK(c.host.match(hashes, out) == 3);
    CHECK(c.host.size(head) == 0);
  }
  SECTION("a block from the device can be found when that stands") {
    const block_id id = c.host.take();
    CHECK_FALSE(c.host.knows(20));
    c.host.settle(id, 20);
    CHECK(c.host.knows(20));
    CHECK(c.host.cached() == 4);
  }
  SECTION("forgotten") {
    c.host.clear();
    CHECK(c.host.match(hashes, out) == 0);
    CHECK(c.host.free() == 4);
    CHECK(c.host.cached() == 0);
  }
}

/// As slowly as it can be said.
struct model {
  struct block {
    std::uint32_t owners = 0;
    std::uint64_t hash = 0;  // 0: none
    std::uint64_t since = 0;
  };
  explicit model(std::size_t n) : blocks(n) {}
  std::vector<block> blocks;
  std::map<block_id, std::vector<block_id>> chains;
  std::uint64_t turns = 0;

  [[nodiscard]] std::size_t free() const {
    return static_cast<std::size_t>(std::count_if(blocks.begin(), blocks.end(), [](auto& b) { return b.owners == 0; }));
  }
  [[nodiscard]] bool may_take(block_id id) const {
    if (blocks[id].owners != 0) return false;
    const bool any_empty =
        std::any_of(blocks.begin(), blocks.end(), [](auto& b) { return b.owners == 0 && b.hash == 0; });
    if (any_empty) return blocks[id].hash == 0;
    return std::none_of(blocks.begin(), blocks.end(),
                        [&](auto& b) { return b.owners == 0 && b.since < blocks[id].since; });
  }
  void take(block_id id) {
    REQUIRE(may_take(id));
    blocks[id].hash = 0;
    blocks[id].owners = 1;
  }
  void give(block_id id) {
    if (--blocks[id].owners == 0) blocks[id].since = ++turns;
  }
};

TEST_CASE("host_cache: agrees with a slow model through random operations and undo", "[kv]") {
  const std::uint32_t seeds = tessera_test::is_slow ? 20 : 150;
  for (std::uint32_t seed = 1; seed != seeds; ++seed) {
    std::mt19937 random{seed};
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    const std::size_t n = 1 + below(14);
    on_heap c{n};
    model m{n};
    const auto check = [&] {
      REQUIRE(c.host.free() == m.free());
      for (const auto& [head, ids] : m.chains) REQUIRE(chain(c.host, head) == ids);
      for (std::uint64_t h = 1; h != 12; ++h) {
        REQUIRE(c.host.knows(h) == std::any_of(m.blocks.begin(), m.blocks.end(), [&](auto& b) { return b.hash == h; }));
      }
    };
    for (int step = 0; step != 300; ++step) {
      // A plan: stores, single blocks, pins; then it stands or is undone.
      struct done {
        char kind;
        block_id id;
        std::vector<block_id> ids;
        model before;
      };
      std::vector<done> plan;
      for (std::size_t k = below(4); k-- != 0;) {
        const model before = m;
        const std::size_t what = below(3);
        if (what == 0) {
          const std::size_t size = 1 + below(4);
          block_id head = no_index;
          if (c.host.store(size, head) == status::exhausted) {
            REQUIRE(size > m.free());
            continue;
          }
          const auto ids = chain(c.host, head);
          REQUIRE(ids.size() == size);
          for (const block_id id : ids) m.take(id);
          m.chains.emplace(head, ids);
          plan.push_back({'s', head, ids, before});
        } else if (what == 1) {
          const block_id id = c.host.take();
          if (id == no_index) {
            REQUIRE(m.free() == 0);
            continue;
          }
          m.take(id);
          plan.push_back({'t', id, {}, before});
        } else {
          std::vector<std::uint64_t> hashes(1 + below(3));
          for (std::uint64_t& h : hashes) h = 1 + below(11);
          std::vector<block_id> out(hashes.size());
          out.resize(c.host.match(hashes, out));
          for (std::size_t i = 0; i != out.size(); ++i) REQUIRE(m.blocks[out[i]].hash == hashes[i]);
          REQUIRE((out.size() == hashes.size() || !c.host.knows(hashes[out.size()])));
          c.host.pin(out);
          for (const block_id id : out) ++m.blocks[id].owners;
          plan.push_back({'p', 0, out, before});
        }
        check();
      }
      if (below(3) == 0) {
        for (; !plan.empty(); plan.pop_back()) {
          done& d = plan.back();
          if (d.kind == 's') c.host.undo_store(d.id);
          if (d.kind == 't') c.host.undo_take(d.id);
          if (d.kind == 'p') c.host.undo_pin(d.ids);
          m = std::move(d.before);
          check();
        }
        continue;
      }
      for (const done& d : plan) {
        if (d.kind == 's') {
          for (const block_id id : d.ids) {
            if (below(3) == 0) continue;
            const std::uint64_t h = 1 + below(11);
            c.host.publish(id, h);
            m.blocks[id].hash = h;
          }
        } else if (d.kind == 't') {
          const std::uint64_t h = 1 + below(11);
          c.host.settle(d.id, h);
          m.blocks[d.id].hash = h;
          m.give(d.id);
        } else {
          c.host.unpin(d.ids);
          for (std::size_t i = d.ids.size(); i-- != 0;) m.give(d.ids[i]);
        }
      }
      if (!m.chains.empty() && below(2) == 0) {
        const auto at = std::next(m.chains.begin(), static_cast<std::ptrdiff_t>(below(m.chains.size())));
        auto& ids = at->second;
        const std::size_t keep = below(ids.size() + 1);
        if (keep == 0) {
          REQUIRE(c.host.release(at->first) == status::ok);
        } else {
          c.host.shorten(at->first, keep);
        }
        for (; ids.size() != keep; ids.pop_back()) m.give(ids.back());
        if (keep == 0) m.chains.erase(at);
      }
      if (below(50) == 0) {
        c.host.clear();
        for (auto& b : m.blocks) b.hash = 0;
      }
      check();
    }
  }
}

TEST_CASE("host_cache: no call allocates", "[kv]") {
  on_heap c{8};
  bool fine = true;
  block_id head = no_index;
  std::vector<block_id> ids(8);
  const std::uint64_t hash = 3;
  const tessera_test::no_allocation guard;
  fine &= c.host.store(4, head) == status::ok;
  c.host.publish(head, hash);
  c.host.shorten(head, 2);
  fine &= c.host.copy(head, ids) == 2;
  fine &= c.host.release(head) == status::ok;
  fine &= c.host.match({&hash, 1}, ids) == 1;
  c.host.pin(std::span{ids}.first(1));
  c.host.unpin(std::span{ids}.first(1));
  c.host.settle(c.host.take(), 4);
  c.host.clear();
  const std::size_t allocations = guard.allocations();
  CHECK(allocations == 0);
  CHECK(fine);
}

}  // namespace
