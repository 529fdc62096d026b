// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What a waiting request that cannot start costs, in calls of the block store. It is next to nothing, however many
// blocks its prefix has, how many requests share them, and how many blocks others publish meanwhile.

#include <tessera/gate/backfill.hpp>
#include <tessera/kv/csr_tables.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/recompute.hpp>
#include <tessera/preempt/swap.hpp>

#include "support/catch.hpp"
#include "support/step_engine.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

/// Blocks that a store was asked to look up, to share or to give back, and to take that back.
struct traffic {
  std::size_t matched = 0;
  std::size_t shared = 0;
  std::size_t released = 0;
  std::size_t undone = 0;
  std::size_t asked = 0;  ///< `knows`.
  std::size_t allocated = 0;
  [[nodiscard]] std::size_t all() const { return matched + shared + released + undone + asked + allocated; }
};
traffic seen;

/// A prefix cache that counts, and has a prefix cache inside.
class counting_store {
 public:
  using limits = kv::prefix_cache::limits;
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return kv::prefix_cache::required_bytes(l);
  }
  counting_store(arena& memory, const limits& l) noexcept : inner_{memory, l} {}

  [[nodiscard]] std::size_t capacity() const noexcept { return inner_.capacity(); }
  [[nodiscard]] std::size_t free() const noexcept { return inner_.free(); }
  [[nodiscard]] std::uint32_t references(kv::block_id id) const noexcept { return inner_.references(id); }
  [[nodiscard]] bool knows(std::uint64_t hash) const noexcept {
    ++seen.asked;
    return inner_.knows(hash);
  }
  [[nodiscard]] std::size_t match(std::span<const std::uint64_t> hashes, std::span<kv::block_id> out) const noexcept {
    seen.matched += hashes.size();
    return inner_.match(hashes, out);
  }
  [[nodiscard]] status publish(std::span<const kv::block_id> ids, std::span<const std::uint64_t> hashes,
                               std::size_t first) noexcept {
    return inner_.publish(ids, hashes, first);
  }
  [[nodiscard]] status allocate(std::span<kv::block_id> out) noexcept {
    seen.allocated += out.size();
    return inner_.allocate(out);
  }
  [[nodiscard]] status share(std::span<const kv::block_id> ids) noexcept {
    seen.shared += ids.size();
    return inner_.share(ids);
  }
  [[nodiscard]] status release(std::span<const kv::block_id> ids) noexcept {
    seen.released += ids.size();
    return inner_.release(ids);
  }
  void undo_allocate(std::span<const kv::block_id> ids) noexcept {
    seen.undone += ids.size();
    inner_.undo_allocate(ids);
  }
  void undo_share(std::span<const kv::block_id> ids) noexcept {
    seen.undone += ids.size();
    inner_.undo_share(ids);
  }
  void undo_release(std::span<const kv::block_id> ids) noexcept {
    seen.undone += ids.size();
    inner_.undo_release(ids);
  }

 private:
  kv::prefix_cache inner_;
};
static_assert(kv::prefix_store<counting_store>);

using request = tessera_test::prompt_request<>;
template <class Preempt>
using engine_of =
    tessera_test::step_engine<iteration_scheduler<request, order::fcfs, Preempt, admit::watermark, counting_store>>;

/// 200 share 256 blocks with one that outranks them and goes on publishing. A candidate outranks the 200, too, and
/// would not have enough without them all.
template <class Preempt>
traffic among_sharers(bool with_candidate) {
  constexpr step_limits limits{.max_batch = 256, .token_budget = 8192_tok, .max_chunk = 16_tok};
  engine_of<Preempt> e{{.blocks = 256 + 200 * 2 + 2000 + 100,
                        .block_size = 16_tok,
                        .residents = 256,
                        .host_blocks = 100'000,
                        .max_length = 60'000_tok}};
  e.submit_hashed(256 * 16 + 4, 1, 256, 256, 5);
  e.run_out({.max_batch = 256});
  e.submit_hashed(2256 * 16 + 4, 400, 2256, 256, 5);
  e.step(limits);
  for (int i = 0; i != 200; ++i) e.submit_hashed(256 * 16 + 4, 200, 256, 256);
  for (int i = 0; i != 5; ++i) e.step(limits);
  request* const candidate = with_candidate ? &e.submit_hashed(700 * 16 + 4, 10, 700, 0, 3) : nullptr;
  seen = {};
  e.step(limits);
  if (with_candidate) CHECK(seen.undone > 200);  // once it is tried: no bound tells, because so much is shared
  seen = {};
  for (int i = 0; i != 100; ++i) {
    e.step(limits);
    if (with_candidate) REQUIRE(e.why(*candidate) == wait_reason::no_blocks);
  }
  CHECK(e.preemptions == 0);
  CHECK(e.scheduler.resident_count() == 201);
  return seen;
}

/// One computes a prompt and publishes 32 blocks in each step. A candidate has `prefix` blocks in the cache, and lacks
/// blocks.
traffic behind_a_prefix(bool with_candidate, std::size_t prefix) {
  constexpr step_limits limits{.max_batch = 256, .token_budget = 8192_tok, .max_chunk = 512_tok};
  engine_of<preempt::recompute> e{
      {.blocks = 25'600, .block_size = 16_tok, .residents = 256, .max_length = 300'000_tok}};
  e.submit_hashed(static_cast<std::int64_t>(prefix) * 16 + 4, 1, prefix, prefix);
  e.run_out(limits);
  for (int i = 0; i != 64; ++i) e.submit_hashed(64 * 16 + 4, 2000, 64, 0);
  for (int i = 0; i != 60; ++i) e.step(limits);
  e.submit_hashed(12'000 * 16 + 4, 10, 12'000, 0);
  e.step(limits);
  request* const candidate =
      with_candidate ? &e.submit_hashed(static_cast<std::int64_t>(prefix + 9000) * 16 + 4, 10, prefix + 9000, prefix)
                     : nullptr;
  e.step(limits);
  seen = {};
  for (int i = 0; i != 100; ++i) {
    e.step(limits);
    if (with_candidate) REQUIRE(e.why(*candidate) != wait_reason::none);
  }
  return seen;
}

}  // namespace

TEMPLATE_TEST_CASE("a request that cannot start although 200 sharers rank behind evicts none in vain, step after step",
                   "", preempt::swap, preempt::recompute) {
  const traffic without = among_sharers<TestType>(false);
  const traffic with = among_sharers<TestType>(true);
  CHECK(with.matched == without.matched);
  CHECK(with.shared == without.shared);
  CHECK(with.released == without.released);
  CHECK(with.undone == without.undone);
  CHECK(with.allocated == without.allocated);
  CHECK(with.asked <= without.asked + 100 * 4);
}

TEST_CASE("the prefix of a request that cannot start is not matched again because others publish theirs") {
  for (const std::size_t prefix : {2048U, 8192U}) {
    CAPTURE(prefix);
    const traffic without = behind_a_prefix(false, prefix);
    const traffic with = behind_a_prefix(true, prefix);
    CHECK(with.matched == without.matched);
    CHECK(with.shared == without.shared);
    CHECK(with.released == without.released);
    CHECK(with.undone == without.undone);
    CHECK(with.allocated == without.allocated);
    CHECK(with.asked <= without.asked + 100 * 4);
  }
}

TEST_CASE("what is published of the prefix of a request that cannot start is looked up once, and seldom matched") {
  // The computing request has the candidate's own prefix: it becomes known block by block.
  constexpr step_limits limits{.max_batch = 8, .token_budget = 8192_tok, .max_chunk = 512_tok};
  engine_of<preempt::recompute> e{{.blocks = 9000, .block_size = 16_tok, .residents = 8, .max_length = 144'000_tok}};
  e.submit_hashed(4000 * 16 + 4, 200, 4000, 4000);
  e.step(limits);
  request& candidate = e.submit_hashed(8800 * 16, 10, 8700, 4000);
  e.step(limits);
  REQUIRE(e.why(candidate) == wait_reason::no_blocks);
  seen = {};
  for (int i = 0; i != 100; ++i) e.step(limits);
  CHECK(e.why(candidate) == wait_reason::no_blocks);
  // What becomes known is counted from above, so it is tried and matched anew a few times, each after half the way.
  CHECK(seen.undone <= 3 * 4000);
  CHECK(seen.matched <= 3 * 8700);
  CHECK(seen.asked <= 3200 + 100 * 2);  // 32 blocks a step are new
}

TEST_CASE("residents that all lack a block are tried once in a plan, not each") {
  for (const std::size_t forks : {16U, 64U}) {
    CAPTURE(forks);
    constexpr std::size_t blocks = 100;
    engine_of<preempt::recompute> e{
        {.blocks = blocks + 1, .block_size = 16_tok, .residents = 64, .max_length = 1616_tok},
        {.admit = {.fraction = 0}}};
    request& parent = e.submit_hashed(blocks * 16, 17, 0, 0);
    e.step({.token_budget = 100'000_tok});
    for (std::size_t i = 1; i != forks; ++i) {
      REQUIRE(e.scheduler.fork(parent, e.add(blocks * 16, 17)) == status::ok);
    }
    // One block is free, each lacks one. An evicted request gives back nothing that the others do not have as well.
    for (int i = 0; i != 5; ++i) {
      seen = {};
      const auto p = e.plan();
      CHECK(p.size() == 1);
      CHECK(p.preempted.empty());
      CHECK(seen.released <= 2 * forks * blocks);
      e.scheduler.abandon(p);
    }
    e.end_all();
  }
}

TEST_CASE("prefixes of requests that may not pass the first are not matched in every plan") {
  using scheduler = iteration_scheduler<request, order::fcfs, preempt::recompute, admit::watermark, counting_store,
                                        kv::csr_tables, gate::backfill>;
  constexpr std::size_t k = 500;
  tessera_test::step_engine<scheduler> e{
      {.requests = 100, .blocks = 3 * k, .block_size = 16_tok, .residents = 64, .max_length = 16_tok * (3 * k)},
      {.admit = {.fraction = 0.4}}};
  const step_limits all{.token_budget = tokens{1 << 30}};
  e.submit_hashed(k * 16, 10'000, k, k, 5);
  e.step(all);
  e.submit_hashed((2 * k - k / 20) * 16, 1, 0, 0);  // the first in the queue
  for (int i = 0; i != 32; ++i) e.submit_hashed((k + k / 10 * 9) * 16, 100, k + k / 10 * 9, k);
  e.step(all);
  seen = {};
  for (int i = 0; i != 50; ++i) e.step(all);
  CHECK(e.scheduler.resident_count() == 1);
  CHECK(seen.matched == 0);
}

TEST_CASE("a held back request is not matched again because another starts before it in the plan") {
  constexpr std::size_t k = 500;
  engine_of<preempt::recompute> e{
      {.blocks = 2 * k + 400, .block_size = 16_tok, .residents = 64, .max_length = 16_tok * (2 * k + 400)},
      {.admit = {.fraction = 0.3}}};
  const step_limits all{.token_budget = tokens{1 << 30}};
  e.submit_hashed(k * 16, 10'000, k, k, 5);
  e.step(all);
  request& giant = e.submit_hashed((2 * k + 300) * 16, 1, 2 * k + 300, k);
  e.step(all);
  REQUIRE(e.why(giant) == wait_reason::held_back);
  seen = {};
  std::size_t started = 0;
  for (int i = 0; i != 50; ++i) {
    e.submit(8, 2, 1);
    started += e.step(all);
    REQUIRE(e.why(giant) == wait_reason::held_back);
  }
  CHECK(started > 50);
  CHECK(seen.matched == 0);  // the small ones have no hashes
}

TEST_CASE("a refusal is right, remembered or not, where the blocks found have many duplicates") {
  std::vector<int> starts;
  for (const bool remember : {true, false}) {
    using scheduler = iteration_scheduler<request, order::fcfs, preempt::swap, admit::always, kv::prefix_cache>;
    tessera_test::step_engine<scheduler> e{{.blocks = 28, .block_size = 4_tok, .residents = 10, .max_length = 112_tok},
                                           {.remember_refusals = remember}};
    // Six equal prompts side by side; five end, and the sixth, which the cache does not look as far as, runs on.
    for (int i = 0; i != 6; ++i) e.submit_hashed(9, i < 5 ? 1 : 90, 2, 2);
    request& beside = e.submit(40, 60);
    e.step();
    REQUIRE(e.scheduler.suspend(beside) == status::ok);
    request& last = e.submit_hashed(80, 1, 2, 2);
    int step = 0;
    for (; step != 60 && last.state().life == lifecycle::waiting; ++step) {
      if (step == 25) REQUIRE(e.scheduler.finish(beside) == status::ok);
      e.step();
    }
    starts.push_back(step);
    e.end_all();
  }
  CHECK(starts[0] == starts[1]);
  CHECK(starts[0] < 60);
}
