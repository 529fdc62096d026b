// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Tables that show only what is new. What counts is that a mirror to which the changes of all committed plans are
// applied, and nothing else, has what the rows have.

#include <tessera/kv/changed_tables.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

struct request : request_hook_for<order::round_robin> {
  std::vector<std::uint64_t> hashes;
  std::int64_t output = 1;
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }
};

template <class Store>
using scheduler_of =
    iteration_scheduler<request, order::round_robin, preempt::swap, admit::always, Store, kv::changed_tables>;

constexpr kv::block_id unknown = no_index;

/// The table that an engine keeps.
struct mirror {
  explicit mirror(const kv::block_table& t) : stride{t.blocks_per_row()}, ids(t.rows() * stride, unknown) {}
  void apply(std::span<const kv::table_change> changes) {
    for (const auto& c : changes) ids[c.row * stride + c.index] = c.block;
  }
  [[nodiscard]] bool has(const kv::block_table& t, std::uint32_t row, std::int64_t blocks) const {
    const auto there = t.row(row).first(static_cast<std::size_t>(blocks));
    return std::equal(there.begin(), there.end(), ids.begin() + static_cast<std::ptrdiff_t>(row * stride));
  }

  std::size_t stride;
  std::vector<kv::block_id> ids;
};

}  // namespace

TEST_CASE("changed_tables: an entry's new blocks, in the order of the sequence; nothing for one that stays as it is") {
  const kv::block_table::limits limits{.rows = 3, .blocks_per_row = 4};
  std::vector<std::byte> memory(kv::block_table::required_bytes(limits) + kv::changed_tables::required_bytes(limits));
  arena a{memory};
  kv::block_table table{a, limits};
  kv::changed_tables changed{a, limits};
  const auto fill = [&](std::uint32_t row, std::initializer_list<kv::block_id> ids) {
    std::copy(ids.begin(), ids.end(), table.extend(row, ids.size()).begin());
  };
  const std::uint32_t one = table.acquire_row();
  const std::uint32_t two = table.acquire_row();
  fill(one, {7, 8});
  fill(two, {5});
  changed.begin();
  changed.add(table, two, 1_tok, 1);
  changed.add(table, one, 20_tok, 1);
  const auto view = changed.view(table);
  REQUIRE(view.size() == 2);
  CHECK((view[0].row == two && view[0].index == 0 && view[0].block == 5));
  CHECK((view[1].row == one && view[1].index == 1 && view[1].block == 8));
  changed.begin();
  changed.add(table, one, 21_tok, 0);
  CHECK(changed.view(table).empty());
}

TEMPLATE_TEST_CASE("changed_tables: all changes of all plans that were run make the rows", "", kv::block_pool,
                   kv::prefix_cache) {
  // Preemption, sharing, lookahead that is used in part, plans that are abandoned, forks, requests that end.
  std::size_t dropped = 0;
  std::size_t preempted = 0;
  std::size_t drafts = 0;
  std::size_t forks = 0;
  std::size_t entries = 0;
  for (unsigned seed = 1; seed != 9; ++seed) {
    CAPTURE(seed);
    std::mt19937 random{seed};
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    constexpr scheduler_limits limits{
        .requests = 64, .blocks = 24, .block_size = 4_tok, .residents = 6, .host_blocks = 20, .max_length = 64_tok};
    using scheduler_type = scheduler_of<TestType>;
    auto storage = storage_for<scheduler_type>(limits);
    std::deque<request> all(80);
    scheduler_type s{storage, {.order = {.quantum = 5_tok}}};
    mirror device{s.tables()};
    std::size_t next = 0;
    for (int step = 0; step != 1500; ++step) {
      while (next != all.size() && s.waiting_count() < 3) {
        request& r = all[next++];
        r.prompt = tokens{static_cast<std::int64_t>(1 + below(20))};
        r.output = static_cast<std::int64_t>(1 + below(20));
        r.hashes.clear();  // a fork may have been refused
        for (std::uint64_t b = 0; b != static_cast<std::uint64_t>(r.prompt / 4_tok); ++b) {
          r.hashes.push_back(100 * below(2) + b + 1);
        }
        REQUIRE(s.submit(r, time_point{}) == status::accepted);
      }
      if (below(12) == 0 && next != all.size() && s.resident_count() != 0) {
        request& parent = *s.residents()[below(s.resident_count())];
        request& child = all[next];
        child.prompt = parent.prompt;
        child.hashes = parent.hashes;
        child.output = parent.output + 3;
        if (s.fork(parent, child) == status::ok) {
          ++next;
          ++forks;
        }
      }
      const auto p = s.plan(time_point{}, {.max_batch = 1 + below(6),
                                           .token_budget = tokens{static_cast<std::int64_t>(4 + below(30))},
                                           .lookahead = tokens{static_cast<std::int64_t>(below(9))}});
      if (below(4) == 0) {
        REQUIRE(s.abandon(p) == status::ok);
        ++dropped;
        continue;
      }
      device.apply(p.tables);
      std::size_t news = 0;
      for (std::size_t i = 0; i != p.size(); ++i) news += p[i].new_blocks;
      REQUIRE(p.tables.size() == news);
      preempted += p.preempted.size();
      std::vector<outcome> outcomes;
      for (std::size_t i = 0; i != p.size(); ++i) {
        const auto& e = p[i];
        ++entries;
        const std::int64_t kv = blocks_for(e.first + e.count + e.lookahead, limits.block_size).count();
        REQUIRE(device.has(s.tables(), e.row, kv));
        drafts += e.lookahead > 0_tok ? 1U : 0U;
        const auto made = static_cast<std::uint16_t>(1 + below(static_cast<std::size_t>(e.lookahead.count()) + 1));
        const std::int64_t after = e.request->generated().count() + (e.samples ? made : 0);
        outcomes.push_back({.produced = made, .finished = e.samples && after >= e.request->output});
      }
      REQUIRE(s.commit(p, outcomes, time_point{}) == status::ok);
      for (std::size_t i = p.outgrown.size(); i-- != 0;) REQUIRE(s.finish(*p.outgrown[i]) == status::ok);
    }
    for (request& r : all) static_cast<void>(s.cancel(r));
  }
  // Or this has shown little.
  CHECK(entries > 3000);
  CHECK(dropped > 1000);
  CHECK(preempted > 100);
  CHECK(drafts > 500);
  CHECK(forks > 50);
}

TEST_CASE("changed_tables: no call allocates") {
  const kv::block_table::limits limits{.rows = 2, .blocks_per_row = 3};
  std::vector<std::byte> memory(kv::block_table::required_bytes(limits) + kv::changed_tables::required_bytes(limits));
  const tessera_test::no_allocation guard;
  arena a{memory};
  kv::block_table table{a, limits};
  kv::changed_tables changed{a, limits};
  std::size_t seen = 0;
  for (int i = 0; i != 2; ++i) {
    const std::uint32_t row = table.acquire_row();
    for (kv::block_id& id : table.extend(row, 3)) id = 4;
    changed.begin();
    changed.add(table, row, 48_tok, 3);
    seen += changed.view(table).size();
  }
  const std::size_t allocations = guard.allocations();
  CHECK(allocations == 0);
  CHECK(seen == 6);
}
