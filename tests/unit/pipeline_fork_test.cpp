// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Parallel sampling: a child begins as a copy of a resident, shares its KV, and what they write then is apart.

#include <tessera/kv/prefix_cache.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/recompute.hpp>
#include <tessera/preempt/swap.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/step_engine.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

using request = tessera_test::prompt_request<request_hook_for<order::round_robin>>;
template <class Store, class Order = order::fcfs, class Preempt = preempt::recompute>
using engine_of = tessera_test::step_engine<iteration_scheduler<request, Order, Preempt, admit::always, Store>>;

constexpr scheduler_limits small{
    .blocks = 20, .block_size = 4_tok, .residents = 4, .host_blocks = 20, .max_length = 80_tok};

/// What lies in each slot of the KV memory, and what each request has written or been given.
template <class Engine>
struct device {
  explicit device(Engine& e)
      : engine{e},
        slots(e.scheduler.size_limits().blocks * 4, -1),
        host(e.scheduler.size_limits().host_blocks * 4, -1) {}

  void copy(std::vector<int>& to, std::vector<int>& from, kv::block_id a, kv::block_id b) const {
    std::copy_n(from.begin() + 4 * static_cast<std::ptrdiff_t>(a), 4, to.begin() + 4 * static_cast<std::ptrdiff_t>(b));
  }
  /// Runs a plan. The copies go in their order, because one may read what another wrote. Then comes what goes out, then
  /// what comes in. Then each entry writes the KV of its tokens, and reads that of all before.
  void run(const typename Engine::plan_type& p) {
    for (const auto& c : p.copies) copy(slots, slots, c.from, c.to);
    for (const auto& t : p.swap_out) {
      for (std::size_t i = 0; i != t.device.size(); ++i) copy(host, slots, t.device[i], t.host[i]);
    }
    for (const auto& t : p.swap_in) {
      for (std::size_t i = 0; i != t.device.size(); ++i) copy(slots, host, t.host[i], t.device[i]);
    }
    for (std::size_t i = 0; i != p.size(); ++i) {
      const auto& e = p[i];
      const auto row = engine.scheduler.tables().row(e.row);
      std::vector<int>& mine = tokens_of[e.request];
      for (std::int64_t at = static_cast<std::int64_t>(mine.size()); at < e.request->state().length.count(); ++at) {
        mine.push_back(at < e.request->prompt.count() ? static_cast<int>(at) : ++next_token);
      }
      for (std::int64_t at = e.first.count(); at != (e.first + e.count).count(); ++at) {
        slots[slot(row, at)] = mine[static_cast<std::size_t>(at)];
      }
    }
    for (std::size_t i = 0; i != p.size(); ++i) {
      const auto& e = p[i];
      const auto row = engine.scheduler.tables().row(e.row);
      const std::vector<int>& mine = tokens_of[e.request];
      for (std::int64_t at = 0; at != (e.first + e.count).count(); ++at) {
        wrong += slots[slot(row, at)] != mine[static_cast<std::size_t>(at)] ? 1U : 0U;
      }
    }
  }
  [[nodiscard]] static std::size_t slot(std::span<const kv::block_id> row, std::int64_t at) {
    return 4 * row[static_cast<std::size_t>(at / 4)] + static_cast<std::size_t>(at % 4);
  }
  /// The child has what the parent has; the token that was sampled last is its own from now on.
  void forked(const request& parent, const request& child) { tokens_of[&child] = tokens_of[&parent]; }

  Engine& engine;
  std::vector<int> slots, host;
  std::map<const request*, std::vector<int>> tokens_of;
  int next_token = 1000;
  std::size_t wrong = 0;
};

}  // namespace

TEST_CASE("fork: one with its last block yet to be copied cannot leave") {
  using scheduler = iteration_scheduler<request, order::fcfs, preempt::recompute, admit::always, kv::prefix_cache>;
  for (const std::int64_t prompt : {6, 8}) {
    tessera_test::step_engine<scheduler> e{{.blocks = 20, .block_size = 4_tok, .residents = 4, .max_length = 80_tok}};
    request& parent = e.submit_hashed(prompt, 20, 1, 0);
    e.step();
    request& child = e.add(prompt, 20);
    REQUIRE(e.scheduler.fork(parent, child) == status::ok);
    const bool copies = prompt % 4 != 0;
    const auto p = e.plan();
    CHECK(p.copies.size() == (copies ? 1 : 0));
    e.scheduler.abandon(p);
    if (copies) {
      CHECK(e.scheduler.evacuate(child) == status::busy);
      REQUIRE(e.scheduler.suspend(child) == status::ok);
      CHECK(e.scheduler.evacuate(child) == status::busy);
      const auto next = e.plan();
      CHECK(e.scheduler.evacuate(child) == status::busy);  // it is being copied
      e.commit(next);
    }
    CHECK(e.scheduler.evacuate(parent) == status::ok);
    CHECK(e.scheduler.evacuate(child) == status::ok);
    e.end_all();
  }
}

TEMPLATE_TEST_CASE("fork: shares the full blocks, and copies the one that is not full, by the next plan", "",
                   kv::block_pool, kv::prefix_cache) {
  engine_of<TestType> e{small};
  request& parent = e.submit_hashed(9, 20, 2, 2);
  e.step();
  e.step();
  REQUIRE(parent.state().computed == 10_tok);  // two full blocks and two tokens
  request& child = e.add(9, 30);
  child.hashes = parent.hashes;
  REQUIRE(e.scheduler.fork(parent, child) == status::ok);
  CHECK(child.state().life == lifecycle::resident);
  CHECK(child.generated() == 2_tok);
  CHECK(child.state().computed == 10_tok);
  CHECK(child.state().phase == parent.state().phase);
  CHECK(child.state().sequence > parent.state().sequence);
  CHECK(child.state().preemptions == 0);
  CHECK(e.scheduler.resident_count() == 2);
  const auto mine = e.row(parent);
  const auto its = e.row(child);
  REQUIRE(its.size() == 3);
  CHECK(its[0] == mine[0]);
  CHECK(its[1] == mine[1]);
  CHECK(its[2] != mine[2]);
  CHECK(e.scheduler.device_blocks_held() == 4_blk);
  CHECK(e.scheduler.why(child) == wait_reason::not_planned);

  auto p = e.plan({.max_batch = 1});  // whichever request is in it
  REQUIRE(p.copies.size() == 1);
  CHECK(p.copies[0].from == mine[2]);
  CHECK(p.copies[0].to == its[2]);
  e.abandon(p);
  p = e.plan();
  REQUIRE(p.copies.size() == 1);  // again
  REQUIRE(p.decode.size() == 2);
  CHECK(p.decode[1].request == &child);
  CHECK(p.decode[1].origin == entry_origin::started);
  CHECK(p.decode[1].new_blocks == 3);
  CHECK(p.decode[1].first == 10_tok);
  e.commit(p);
  p = e.plan();
  CHECK(p.copies.empty());
  CHECK(p.decode[1].origin == entry_origin::going_on);
  e.commit(p);

  SECTION("the parent goes: the child has all it needs") {
    CHECK(e.scheduler.cancel(parent) == status::ok);
    CHECK(e.row(child) == its);
    e.run_out();
    CHECK(child.generated() == 30_tok);
  }
  SECTION("the child goes: the parent has all it needs") {
    CHECK(e.scheduler.cancel(child) == status::ok);
    CHECK(e.row(parent) == mine);
    e.run_out();
    CHECK(parent.generated() == 20_tok);
  }
  CHECK(e.scheduler.device_blocks_held() == 0_blk);
  CHECK(e.scheduler.tables().free_rows() == e.scheduler.tables().rows());
}

TEST_CASE("fork: with full blocks alone there is nothing to copy, and no block is needed") {
  scheduler_limits l = small;
  l.blocks = 4;
  l.max_length = 16_tok;
  engine_of<kv::block_pool> e{l};
  request& full = e.submit(12, 3);
  e.submit(4, 3);
  e.step();
  REQUIRE(full.state().computed == 12_tok);
  REQUIRE(e.scheduler.store().free() == 0);
  request& child = e.add(12, 3);
  REQUIRE(e.scheduler.fork(full, child) == status::ok);
  CHECK(e.row(child) == e.row(full));
  const auto p = e.plan();
  CHECK(p.copies.empty());
  e.abandon(p);
}

TEST_CASE("fork: of a child with a copy that has not been made yet") {
  engine_of<kv::block_pool> e{small};
  request& parent = e.submit(9, 20);
  e.step();
  request& child = e.add(9, 20);
  request& grandchild = e.add(9, 20);
  REQUIRE(e.scheduler.fork(parent, child) == status::ok);
  REQUIRE(e.scheduler.fork(child, grandchild) == status::ok);
  const auto p = e.plan();
  REQUIRE(p.copies.size() == 2);
  // Done one after the other, both have what the parent has.
  CHECK(p.copies[0].from == e.row(parent)[2]);
  CHECK(p.copies[0].to == e.row(child)[2]);
  CHECK((p.copies[1].from == e.row(parent)[2] || p.copies[1].from == e.row(child)[2]));
  CHECK(p.copies[1].to == e.row(grandchild)[2]);
  e.commit(p);
}

TEST_CASE("fork: says what is wrong, and changes nothing then") {
  engine_of<kv::block_pool> e{small};
  engine_of<kv::block_pool> other{small};
  request& parent = e.submit(9, 20);
  request& child = e.add(9, 20);
  CHECK(e.scheduler.fork(parent, child) == status::unknown_request);  // it waits
  e.step();
  CHECK(other.scheduler.fork(parent, child) == status::unknown_request);
  child.prompt = 8_tok;
  CHECK(e.scheduler.fork(parent, child) == status::invalid);
  child.prompt = 9_tok;
  child.max_output = tokens{-1};
  CHECK(e.scheduler.fork(parent, child) == status::invalid);
  child.max_output = 73_tok;
  CHECK(e.scheduler.fork(parent, child) == status::never_fits);
  child.max_output = 72_tok;  // the last needs no KV
  const auto p = e.plan();
  CHECK(e.scheduler.fork(parent, child) == status::busy);
  e.abandon(p);
  CHECK(child.state().life == lifecycle::idle);
  REQUIRE(e.scheduler.fork(parent, child) == status::ok);
  CHECK(e.scheduler.fork(parent, child) == status::busy);
  std::vector<request*> more{&e.add(9, 20), &e.add(9, 20), &e.add(9, 20)};
  CHECK(e.scheduler.fork(parent, *more[0]) == status::ok);
  CHECK(e.scheduler.fork(parent, *more[1]) == status::ok);
  CHECK(e.scheduler.fork(parent, *more[2]) == status::exhausted);  // four places
  CHECK(more[2]->state().life == lifecycle::idle);
  CHECK(more[2]->state().row == no_index);
  REQUIRE(e.scheduler.cancel(*more[1]) == status::ok);
  request& filler = e.submit(60, 2);
  e.step({.max_batch = 1});
  e.step();
  REQUIRE(filler.state().life != lifecycle::idle);
  REQUIRE(e.scheduler.cancel(filler) == status::ok);
  scheduler_limits tight = small;
  tight.blocks = 3;
  tight.max_length = 12_tok;
  engine_of<kv::block_pool> f{tight};
  request& alone = f.submit(9, 2);
  f.step();
  request& no_block = f.add(9, 2);
  CHECK(f.scheduler.store().free() == 0);
  CHECK(f.scheduler.fork(alone, no_block) == status::exhausted);
  CHECK(no_block.state().life == lifecycle::idle);
  CHECK(f.scheduler.device_blocks_held() == 3_blk);
}

TEST_CASE("fork: a child is displaced and comes back by itself, and counts what it shares once") {
  engine_of<kv::prefix_cache, order::fcfs, preempt::swap> e{small};
  request& parent = e.submit_hashed(17, 40, 4, 4);
  e.step();
  request& child = e.add(17, 40);
  child.hashes = parent.hashes;
  REQUIRE(e.scheduler.fork(parent, child) == status::ok);
  CHECK(e.scheduler.device_blocks_held() == 6_blk);
  e.step();
  while (child.state().preemptions == 0) {
    const auto p = e.plan();
    if (!p.preempted.empty()) {
      REQUIRE(p.swap_out.size() == 1);
      CHECK(p.swap_out[0].request == &child);
      CHECK(p.swap_out[0].first == 4);
    }
    e.commit(p);
  }
  e.run_out();
  CHECK(parent.generated() == 40_tok);
  CHECK(child.generated() == 40_tok);
}

TEMPLATE_TEST_CASE("fork: what a child shares with one that stays does not become free with it; none starts on it", "",
                   kv::block_pool, kv::prefix_cache) {
  engine_of<TestType> e{{.blocks = 12, .block_size = 4_tok, .residents = 8, .max_length = 48_tok}};
  request& parent = e.submit(17, 20, 9);
  e.step();
  request& child = e.add(17, 20);
  REQUIRE(e.scheduler.fork(parent, child) == status::ok);
  REQUIRE(e.scheduler.store().free() == 6);
  request& urgent = e.submit(36, 5, 5);  // 9 blocks; only the child may go, which has one for itself
  for (int i = 0; i != 9; ++i) {
    e.step({.max_chunk = 4_tok});
    CHECK(e.why(urgent) == wait_reason::no_blocks);
  }
  CHECK(child.state().preemptions == 0);
}

TEMPLATE_TEST_CASE("fork: whichever forks, ends or is displaced, all read what is theirs", "",
                   (engine_of<kv::block_pool>), (engine_of<kv::prefix_cache>),
                   (engine_of<kv::prefix_cache, order::round_robin, preempt::swap>),
                   (engine_of<kv::block_pool, order::round_robin, preempt::swap>)) {
  std::size_t forks = 0;
  std::size_t preempted = 0;
  std::size_t copies = 0;
  for (unsigned seed = 1; seed != 13; ++seed) {
    CAPTURE(seed);
    std::mt19937 random{seed};
    const auto below = [&](std::size_t n) { return static_cast<std::int64_t>(random() % n); };
    auto config = [] {
      typename decltype(TestType::scheduler)::config c{};
      if constexpr (requires { c.order.quantum; }) c.order.quantum = 4_tok;
      return c;
    }();
    scheduler_limits l = small;
    l.residents = 6;
    TestType e{l, config};
    device<TestType> gpu{e};
    for (int step = 0; step != 400; ++step) {
      if (e.scheduler.waiting_count() < 2) {
        const std::int64_t prompt = 1 + below(20);
        request& r = e.add(prompt, 1 + below(20));
        r.hashes = tessera_test::hashes_of(static_cast<std::size_t>(prompt / 4), 9, 0);
        e.submit(r);
      }
      if (below(4) == 0 && e.scheduler.resident_count() != 0) {
        request& parent = *e.scheduler.residents()[static_cast<std::size_t>(below(e.scheduler.resident_count()))];
        request& child = e.add(parent.prompt.count(), parent.output.count() + 2);
        child.hashes = parent.hashes;
        if (e.scheduler.fork(parent, child) == status::ok) {
          gpu.forked(parent, child);
          ++forks;
        }
      }
      const auto p =
          e.plan({.max_batch = static_cast<std::size_t>(1 + below(6)), .token_budget = tokens{1 + below(30)}});
      if (below(5) == 0) {
        e.abandon(p);
      } else {
        gpu.run(p);
        preempted += p.preempted.size();
        copies += p.copies.size();
        e.commit(p);
      }
      if (below(20) == 0 && e.scheduler.resident_count() != 0) {
        REQUIRE(e.scheduler.cancel(*e.scheduler.residents().front()) == status::ok);
      }
      REQUIRE(gpu.wrong == 0);
    }
    e.end_all();
    CHECK(e.scheduler.device_blocks_held() == 0_blk);
    CHECK(e.scheduler.host_blocks_held() == 0_blk);
    CHECK(e.scheduler.tables().free_rows() == e.scheduler.tables().rows());
  }
  CHECK(forks > 100);
  CHECK(copies > 50);
  CHECK(preempted > 50);
}

TEST_CASE("fork and preempt allocate nothing") {
  engine_of<kv::prefix_cache> e{small};
  request& parent = e.submit_hashed(9, 20, 2, 2);
  e.step();
  request& child = e.add(9, 20);
  bool done = false;
  const tessera_test::no_allocation guard;
  done = ok(e.scheduler.fork(parent, child)) && ok(e.scheduler.preempt(child)) && ok(e.scheduler.forget_prefixes());
  const std::size_t allocations = guard.allocations();
  CHECK(done);
  CHECK(allocations == 0);
}
