// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/kv/by_session.hpp>
#include <tessera/kv/hash_chain.hpp>
#include <tessera/kv/keep_until.hpp>
#include <tessera/kv/prefix_cache.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/step_engine.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

// What a scheduler does with a prefix cache. Answers are found like prompts, and requests say what is to be kept. A
// router hears what is there, and hashes may have 128 bits.

namespace {

using namespace tessera;
using namespace tessera::literals;
using tessera_test::prompt_request;
using tessera_test::step_engine;

constexpr std::size_t block_size = 16;

template <class Cache, class Request = prompt_request<>>
using scheduler_with = iteration_scheduler<Request, order::fcfs, preempt::swap, admit::watermark, Cache>;

/// A token of a conversation: what turn after turn begins with.
std::int32_t token_of(std::int64_t position) { return static_cast<std::int32_t>(position * position % 977); }

/// A turn of a conversation; its hashes grow with its answer.
struct turn : request_hook {
  std::vector<std::int32_t> text;
  std::vector<std::uint64_t> hashes;
  std::int64_t generates = 0;
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }

  void say(std::int64_t length) {
    while (static_cast<std::int64_t>(text.size()) < length) {
      text.push_back(token_of(static_cast<std::int64_t>(text.size())));
      if (text.size() % block_size != 0) continue;
      const std::uint64_t before = hashes.empty() ? kv::hash_root() : hashes.back();
      hashes.push_back(kv::hash_block(before, std::span{text}.last(block_size)));
    }
  }
};

/// Runs a turn with `in_flight` plans in flight. Returns how many tokens of its prompt were not computed.
template <class Scheduler>
tokens found_of(Scheduler& scheduler, turn& r, std::int64_t prompt, std::int64_t generates, std::size_t in_flight,
                std::size_t* preempt_after = nullptr) {
  r.hashes.reserve(64);
  r.say(prompt);
  r.prompt = tokens{prompt};
  r.max_output = tokens{generates};
  REQUIRE(scheduler.submit(r, {}) == status::accepted);
  std::deque<typename Scheduler::plan_type> plans;
  tokens first{-1};
  while (!scheduler.idle() || !plans.empty()) {
    if (plans.size() < in_flight && !scheduler.idle()) {
      plans.push_back(scheduler.plan({}, {.max_chunk = 40_tok}));
      if (first < tokens{} && plans.back().size() != 0) first = plans.back()[0].first;
      if (plans.size() < in_flight) continue;
    }
    const auto plan = plans.front();
    plans.pop_front();
    std::vector<outcome> outcomes(plan.size());
    for (std::size_t i = 0; i != plan.size(); ++i) {
      if (!plan[i].samples || !is_live(r.state().life)) continue;
      // The engine samples a token, and knows the hash of the block that it fills, before it says so.
      r.say(r.state().length.count() + 1);
      outcomes[i].finished = r.generated() + 1_tok >= tokens{generates};
    }
    REQUIRE(scheduler.commit(plan, outcomes, {}) == status::ok);
    if (preempt_after != nullptr && r.generated().count() == static_cast<std::int64_t>(*preempt_after)) {
      REQUIRE(scheduler.preempt(r) == status::ok);
      *preempt_after = 0;
    }
  }
  return first;
}

TEST_CASE("the second turn of a chat hits its whole first turn") {
  const std::size_t in_flight = GENERATE(std::size_t{1}, std::size_t{2}, std::size_t{4});
  using scheduler_type = scheduler_with<kv::prefix_cache, turn>;
  auto storage = storage_for<scheduler_type>({.blocks = 64, .block_size = 16_tok, .plans_in_flight = in_flight});
  scheduler_type scheduler{storage};
  turn first;
  CHECK(found_of(scheduler, first, 50, 40, in_flight) == 0_tok);
  // 90 tokens, of which the last has no KV: 5 full blocks.
  turn second;
  CHECK(found_of(scheduler, second, 120, 25, in_flight) == 80_tok);
  turn third;
  CHECK(found_of(scheduler, third, 300, 10, in_flight) == 144_tok);
  // The last token of a turn has no KV when it ends, so neither has the block that it fills.
  turn exact;
  CHECK(found_of(scheduler, exact, 300, 21, in_flight) == 288_tok);
  turn after_exact;
  CHECK(found_of(scheduler, after_exact, 330, 1, in_flight) == 320_tok);
}

TEST_CASE("a turn that lost its blocks in the middle of its answer finds that again") {
  using scheduler_type = scheduler_with<kv::prefix_cache, turn>;
  auto storage = storage_for<scheduler_type>({.blocks = 64, .block_size = 16_tok});
  scheduler_type scheduler{storage};
  turn r;
  std::size_t preempt_after = 30;
  CHECK(found_of(scheduler, r, 50, 60, 1, &preempt_after) == 0_tok);
  CHECK(r.state().preemptions == 1);
  CHECK(r.state().shared_blocks == 4);  // 79 tokens had KV: 4 full blocks, of which the answer filled one
}

struct kept_request : prompt_request<> {
  time_point keep_until{};
};

TEST_CASE("a request that asks for it is kept in the cache until its next turn") {
  using cache = kv::basic_prefix_cache<kv::keep_until<>>;
  const bool asks = GENERATE(true, false);
  step_engine<scheduler_with<cache, kept_request>> e{{.blocks = 12, .block_size = 16_tok, .residents = 4}};
  const auto run = [&](std::size_t blocks, std::uint64_t own, time_point until) {
    kept_request& r = e.add(static_cast<std::int64_t>(blocks * 16 + 1), 1);
    r.hashes = tessera_test::hashes_of(blocks, 0, own);
    r.keep_until = until;
    e.submit(r);
    e.run_out();
    return r.state().shared_blocks;
  };
  CHECK(run(5, 1, asks ? time_point::at_seconds(100) : time_point{}) == 0);
  // Much passes through meanwhile, each once.
  for (std::uint64_t own = 2; own != 8; ++own) CHECK(run(5, own, {}) == 0);
  CHECK(run(5, 1, {}) == (asks ? 5 : 0));
}

struct session_request : prompt_request<> {
  std::uint32_t session = 0;
};

TEST_CASE("a session that floods the cache evicts its own") {
  using cache = kv::basic_prefix_cache<kv::by_session<4>>;
  step_engine<scheduler_with<cache, session_request>> e{{.blocks = 16, .block_size = 16_tok, .residents = 4}};
  const auto run = [&](std::size_t blocks, std::uint64_t own, std::uint32_t session) {
    session_request& r = e.add(static_cast<std::int64_t>(blocks * 16 + 1), 1);
    r.hashes = tessera_test::hashes_of(blocks, 0, own);
    r.session = session;
    e.submit(r);
    e.run_out();
    return r.state().shared_blocks;
  };
  CHECK(run(4, 1, 1) == 0);
  for (std::uint64_t own = 2; own != 20; ++own) CHECK(run(4, own, 2) == 0);
  CHECK(run(4, 1, 1) == 4);
}

TEST_CASE("a router that follows the events knows what is there, whatever was planned and abandoned") {
  using cache = kv::basic_prefix_cache<kv::lru, kv::event_ring<512>>;
  using kind = kv::event_ring<512>::event::kind;
  step_engine<scheduler_with<cache>> e{{.blocks = 20, .block_size = 16_tok, .residents = 4}};
  std::map<std::uint64_t, std::uint64_t> parent_of;  // what the router knows, by hash
  const auto hear = [&] {
    for (const auto& event : e.scheduler.cache_events().waiting()) {
      REQUIRE((event.what == kind::stored || event.what == kind::removed));
      if (!event.block.only) continue;
      if (event.what == kind::stored) {
        REQUIRE(parent_of.emplace(event.block.hash, event.block.parent).second);
        REQUIRE((event.block.depth == 0) == (event.block.parent == 0));
      } else {
        REQUIRE(parent_of.erase(event.block.hash) == 1);
      }
    }
    e.scheduler.cache_events().forget();
  };
  std::set<std::uint64_t> all;
  for (int i = 0; i != 60; ++i) {
    auto& r = e.submit_hashed(16 * (2 + i % 7) + 5, 1 + i % 3, static_cast<std::size_t>(2 + i % 7), i % 2 == 0 ? 2 : 0);
    all.insert(r.hashes.begin(), r.hashes.end());
    if (i % 3 == 0) {
      const auto plan = e.plan();
      e.abandon(plan);
    }
    e.step();
    if (i % 2 == 0) hear();
    if (i % 4 == 3) e.run_out();
  }
  e.run_out();
  hear();
  std::size_t known = 0;
  for (const std::uint64_t h : all) {
    REQUIRE(e.scheduler.store().knows(h) == (parent_of.count(h) == 1));
    known += parent_of.count(h);
  }
  CHECK(known == parent_of.size());
  CHECK(known > 5);
  REQUIRE(e.scheduler.forget_prefixes() == status::ok);
  REQUIRE(e.scheduler.cache_events().size() == 1);
  CHECK(e.scheduler.cache_events().waiting()[0].what == kind::cleared);
}

struct wide_request : request_hook {
  std::vector<kv::hash128> hashes;
  tokens output{1};
  [[nodiscard]] std::span<const kv::hash128> prefix_hashes() const noexcept { return hashes; }
};

TEST_CASE("prompts with hashes that agree in 64 bits share nothing where they have 128") {
  using cache = kv::basic_prefix_cache<kv::lru, kv::null_sink, kv::hash128>;
  step_engine<scheduler_with<cache, wide_request>> e{{.blocks = 20, .block_size = 16_tok, .residents = 4}};
  const auto run = [&](std::uint64_t high) {
    wide_request& r = e.add(49, 1);
    for (std::uint64_t i = 0; i != 3; ++i) r.hashes.push_back({i * 0x9e37'79b9'7f4a'7c15ULL, high});
    e.submit(r);
    e.run_out();
    return r.state().shared_blocks;
  };
  CHECK(run(1) == 0);
  CHECK(run(2) == 0);
  CHECK(run(1) == 3);
  CHECK(run(2) == 3);
}

TEST_CASE("policies and events cost no allocation in a step") {
  using cache = kv::basic_prefix_cache<kv::keep_until<>, kv::event_ring<64>>;
  step_engine<scheduler_with<cache, kept_request>> e{{.blocks = 12, .block_size = 16_tok, .residents = 4}};
  for (std::uint64_t i = 0; i != 8; ++i) {
    kept_request& r = e.add(65, 1);
    r.hashes = tessera_test::hashes_of(4, 0, i);
    r.keep_until = time_point::at_seconds(static_cast<double>(i));
    e.submit(r);
  }
  std::size_t allocations = 0;
  for (int i = 0; i != 30; ++i) {
    const std::vector<outcome> finished(4, {.finished = true});
    const tessera_test::no_allocation guard;
    const auto plan = e.plan({.max_batch = 4});
    static_cast<void>(e.scheduler.commit(plan, std::span{finished}.first(plan.size()), e.now));
    e.scheduler.cache_events().forget();
    allocations += guard.allocations();
  }
  CHECK(allocations == 0);
  CHECK(e.scheduler.idle());
}

}  // namespace
