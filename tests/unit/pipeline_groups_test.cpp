// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/fcfs.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/kv/changed_tables.hpp>
#include <tessera/kv/lru.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/kv/row_tables.hpp>
#include <tessera/pipeline/grouped_ledger.hpp>
#include <tessera/preempt/swap.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

namespace {

using namespace tessera;
using namespace tessera::literals;
using kv::group;

struct request : request_hook {
  std::array<std::vector<std::uint64_t>, 3> hashes;
  [[nodiscard]] std::array<std::span<const std::uint64_t>, 3> prefix_hashes() const noexcept {
    return {hashes[0], hashes[1], hashes[2]};
  }
};

using scheduler = fcfs<request, kv::groups<3>>;

constexpr std::array<group, 3> layers{group::full(4_tok), group::sliding(4_tok, 10_tok), group::recurrent(8_tok)};

/// As if all prompts were the beginning of one text.
void write(request& r, tokens prompt, tokens max_output = 0_tok) {
  r.prompt = prompt;
  r.max_output = max_output;
  for (std::size_t g = 0; g != 3; ++g) {
    r.hashes[g].clear();
    for (std::int64_t i = 0; i != prompt / layers[g].block_size; ++i) {
      r.hashes[g].push_back(static_cast<std::uint64_t>(1000 * layers[g].block_size.count() + i));
    }
  }
}

/// A step of which every entry that samples produces a token, or `produced`.
template <class Scheduler>
typename Scheduler::plan_type step(Scheduler& s, const step_limits& limits, std::uint16_t produced = 1) {
  const auto plan = s.plan({}, limits);
  std::vector<outcome> outcomes(plan.size(), outcome{.produced = produced});
  s.commit(plan, outcomes, {});
  return plan;
}

}  // namespace

TEST_CASE("groups: a window frees its blocks behind itself, and a state is one block") {
  auto storage = storage_for<scheduler>({{.blocks = 100, .residents = 2, .max_length = 200_tok}, layers});
  scheduler s{storage};
  request r;
  write(r, 40_tok);
  REQUIRE(s.submit(r, {}) == status::accepted);
  auto plan = step(s, {.token_budget = 20_tok});
  CHECK(plan[0].new_blocks == 5 + 5 + 3);
  // With 20 tokens, the next one looks at the last 9, and at the state after the last.
  CHECK(s.blocks_held(r) == blocks{5 + 3 + 1});
  CHECK(s.tables().first_block(0, r.state().row) == 0);
  CHECK(s.tables().first_block(1, r.state().row) == 2);
  CHECK(s.tables().first_block(2, r.state().row) == 2);

  plan = s.plan({}, {.token_budget = 20_tok});
  CHECK(plan.tables[0].tables.indices.size() == 10);
  CHECK(plan.tables[1].tables.indices.size() == 8);
  CHECK(plan.tables[2].tables.indices.size() == 3);
  CHECK(plan.tables[1].first_block[0] == 2);
  CHECK(plan.tables[0].new_blocks[0] == 5);
  CHECK(plan.tables[1].new_blocks[0] == 5);
  CHECK(plan.tables[2].new_blocks[0] == 2);
  const auto ids = s.tables().table(1).row(plan[0].row);
  for (std::size_t i = 0; i != 8; ++i) {
    CHECK(static_cast<kv::block_id>(plan.tables[1].tables.indices[i]) == ids[2 + i]);
  }
  s.commit(plan, std::array{outcome{}}, {});
  CHECK(s.blocks_held(r) == blocks{10 + 3 + 1});
  for (int i = 0; i != 100; ++i) step(s, {});
  CHECK(r.state().computed == 140_tok);
  CHECK(s.blocks_held(r) == blocks{35 + 3 + 1});
}

TEST_CASE("groups: a prefix is found as far as all groups can serve it") {
  auto storage = storage_for<scheduler>({{.blocks = 100, .residents = 2, .max_length = 200_tok}, layers});
  scheduler s{storage};
  std::deque<request> all(3);
  for (request& r : all) write(r, 39_tok);
  REQUIRE(s.submit(all[0], {}) == status::accepted);
  step(s, {});
  REQUIRE(s.finish(all[0]) == status::ok);
  CHECK(s.device_blocks_held() == blocks{});
  REQUIRE(s.submit(all[1], {}) == status::accepted);
  const auto plan = step(s, {});
  CHECK(plan[0].first == 32_tok);       // 36 tokens have full attention; states are 8 apart
  CHECK(s.counters().hit_blocks == 8);  // of the first group
  CHECK(s.counters().all_blocks == 10 + 10);
  CHECK(s.device_blocks_held() == blocks{10 + 3 + 1});
  // What was forgotten is not found, nor what was computed on top of it.
  REQUIRE(s.forget_prefixes() == status::ok);
  step(s, {});
  REQUIRE(s.finish(all[1]) == status::ok);
  REQUIRE(s.submit(all[2], {}) == status::accepted);
  CHECK(step(s, {})[0].first == 0_tok);
}

namespace {

/// The least recently used, and how often a hint was given for a block.
struct heard_of : kv::lru {
  using lru::lru;
  using retention_type = int;
  static inline std::size_t hints = 0;
  template <class R>
  [[nodiscard]] static int retention_of(const R&) noexcept {
    return 0;
  }
  void retain(kv::block_id, int) noexcept { ++hints; }
};

}  // namespace

TEST_CASE("groups: an order of eviction hears of a block when it is findable, and when it is given back") {
  using listening = fcfs<request, kv::groups<3, kv::basic_prefix_cache<heard_of>>>;
  auto storage = storage_for<listening>({{.blocks = 2000, .residents = 2, .max_length = 2000_tok}, layers});
  listening s{storage};
  request r;
  write(r, 1600_tok);
  REQUIRE(s.submit(r, {}) == status::accepted);
  heard_of::hints = 0;
  std::size_t steps = 0;
  for (; r.state().computed < r.prompt - 1_tok && steps != 1000; ++steps) step(s, {.token_budget = 16_tok});
  REQUIRE(steps == 100);
  // 400, 400 and 200 blocks, each once, and not all that there are in each step.
  CHECK(heard_of::hints <= 400 + 400 + 200);
  CHECK(heard_of::hints >= 400 + 400 + 200 - 3);
  heard_of::hints = 0;
  REQUIRE(s.finish(r) == status::ok);
  CHECK(heard_of::hints >= 400);
}

TEST_CASE("groups: a model with a recurrent state has no drafts, one with windows gives back what was refused") {
  for (const bool has_state : {true, false}) {
    auto some = layers;
    if (!has_state) some[2] = group::sliding(8_tok, 16_tok);
    auto storage = storage_for<scheduler>({{.blocks = 100, .residents = 2, .max_length = 200_tok}, some});
    scheduler s{storage};
    request r;
    write(r, 40_tok);
    REQUIRE(s.submit(r, {}) == status::accepted);
    step(s, {});
    const blocks before = s.blocks_held(r);
    const auto plan = step(s, {.lookahead = 9_tok});
    CHECK(plan[0].lookahead == (has_state ? 0_tok : 9_tok));
    CHECK(r.state().computed == 41_tok);
    // Token 40 begins a block in each group. A state gives back the one before; a window of 10 tokens has passed its
    // first one, but keeps it until it begins another.
    CHECK(s.blocks_held(r) == before + blocks{has_state ? 2 : 3});
    for (int i = 0; i != 3; ++i) step(s, {});
    CHECK(r.state().computed == 44_tok);
    CHECK(s.blocks_held(r) == before + blocks{has_state ? 1 : 2});
  }
}

TEST_CASE("groups: a fork has a copy in each group with a last block that is not full") {
  auto storage = storage_for<scheduler>({{.blocks = 100, .residents = 2, .max_length = 200_tok}, layers});
  scheduler s{storage};
  request parent;
  request child;
  write(parent, 38_tok);
  write(child, 38_tok);
  REQUIRE(s.submit(parent, {}) == status::accepted);
  step(s, {});
  const blocks before = s.device_blocks_held();
  REQUIRE(s.fork(parent, child) == status::ok);
  CHECK(s.device_blocks_held() == before + blocks{3});
  CHECK(s.is_in_flight(child) == false);
  const auto plan = step(s, {});
  CHECK(plan.copies.size() == 3);
  CHECK(plan.size() == 2);
  CHECK(step(s, {}).copies.empty());
}

TEST_CASE("groups: a request that loses its blocks computes its KV anew, under a policy that swaps, too") {
  using swapping = iteration_scheduler<request, order::fcfs, preempt::swap, admit::watermark, kv::groups<3>>;
  auto storage = storage_for<swapping>({{.blocks = 26, .residents = 2, .max_length = 60_tok}, layers});
  swapping s{storage};
  std::array<request, 2> r;
  for (request& each : r) write(each, 40_tok, 8_tok);
  for (request& each : r) {
    for (auto& hashes : each.hashes) hashes.clear();
  }
  REQUIRE(s.submit(r[0], {}) == status::accepted);
  CHECK(step(s, {.token_budget = 40_tok}).size() == 1);
  r[1].priority = 1;
  REQUIRE(s.submit(r[1], {}) == status::accepted);
  auto plan = s.plan({}, {.token_budget = 40_tok});
  REQUIRE(plan.preempted.size() == 1);
  CHECK(plan.preempted[0].request == &r[0]);
  CHECK(plan.preempted[0].mode == preemption_mode::recompute);
  CHECK(plan.swap_out.empty());
  REQUIRE(s.commit(plan, std::vector<outcome>(plan.size()), {}) == status::ok);
  REQUIRE(s.finish(r[1]) == status::ok);
  for (int steps = 0; r[0].state().life == lifecycle::waiting && steps != 4; ++steps) {
    plan = s.plan({}, {.token_budget = 64_tok});
    for (const auto& e : plan.prefill) {
      if (e.request != &r[0]) continue;
      CHECK(e.first == 0_tok);
      CHECK(e.origin == entry_origin::resumed);
    }
    CHECK(plan.swap_in.empty());
    std::vector<outcome> outcomes(plan.size());
    REQUIRE(s.commit(plan, outcomes, {}) == status::ok);
  }
  CHECK(r[0].state().life == lifecycle::resident);
}

TEST_CASE("groups: a request may be as long as what it needs at once") {
  // By trying each length: full attention has all blocks, the window three and one that it begins in, the state two.
  for (std::size_t n = 3; n != 60; ++n) {
    std::int64_t longest = 0;
    while (true) {
      const std::int64_t length = longest + 1;
      const std::int64_t quarters = (length + 3) / 4;
      const std::int64_t eighths = (length + 7) / 8;
      if (quarters + std::min<std::int64_t>(quarters, 4) + std::min<std::int64_t>(eighths, 2) >
          static_cast<std::int64_t>(n)) {
        break;
      }
      ++longest;
    }
    auto storage = storage_for<scheduler>({{.blocks = n, .residents = 2}, layers});
    scheduler s{storage};
    INFO(n << " blocks");
    CHECK(s.fits(tokens{longest}, 1_tok));
    CHECK_FALSE(s.fits(tokens{longest + 1}, 1_tok));
    // It gets there, although the chunk does not have its blocks at once.
    request r;
    r.prompt = tokens{longest};
    r.max_output = 1_tok;
    REQUIRE(s.submit(r, {}) == status::accepted);
    int steps = 0;
    for (; !s.idle() && steps != 200; ++steps) {
      const auto plan = s.plan({}, {});
      REQUIRE(plan.size() == 1);
      const bool samples = plan[0].samples;
      s.commit(plan, std::array{outcome{.finished = samples}}, {});
    }
    CHECK(s.idle());
  }
}

TEST_CASE("groups: rows and changes are shown by group, and a step allocates nothing") {
  using rows = fcfs<request, kv::groups<3>, kv::row_tables>;
  using changes = fcfs<request, kv::groups<3>, kv::changed_tables>;
  const grouped_limits<3> limits{{.blocks = 100, .residents = 2, .max_length = 200_tok}, layers};
  auto storage = storage_for<rows>(limits);
  auto other = storage_for<changes>(limits);
  rows a{storage};
  changes b{other};
  request r;
  request q;
  write(r, 20_tok);
  write(q, 20_tok);
  const tessera_test::no_allocation guard;
  const bool ok_both = ok(a.submit(r, {})) && ok(b.submit(q, {}));
  const auto shown = a.plan({}, {});
  const auto changed = b.plan({}, {});
  a.commit(shown, std::array{outcome{}}, {});
  b.commit(changed, std::array{outcome{}}, {});
  const auto later = b.plan({}, {});
  const std::size_t allocations = guard.allocations();
  CHECK(allocations == 0);
  CHECK(ok_both);
  CHECK(shown.tables[1].tables[shown[0].row].size() == 50);
  CHECK(shown.tables[2].tables[shown[0].row][2] == a.tables().table(2).row(shown[0].row)[2]);
  CHECK(later.tables[0].tables.size() == 1);
  CHECK(later.tables[0].tables[0].index == 5);
  CHECK(later.tables[1].tables.size() == 1);
  CHECK(later.tables[2].tables.empty());
}
