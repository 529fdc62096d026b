// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What users of other engines have reported in public, and what must not happen here. Each test names the report:
// project and number. Reports with a right value that another test proves are not repeated here.

#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/compose/round_robin.hpp>
#include <tessera/gate/adapter_slots.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/pipeline/grouped_ledger.hpp>

#include "support/step_engine.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <span>
#include <vector>

namespace {

using namespace tessera_test;

using request = prompt_request<>;
using engine = step_engine<fcfs<request>>;
using caching = step_engine<fcfs<request, kv::prefix_cache>>;

constexpr time_point in(const time_point& now, double seconds) { return now + duration{seconds}; }

/// Whether two rows of a block table have a block in common.
bool meet(const std::vector<kv::block_id>& a, const std::vector<kv::block_id>& b) {
  return std::any_of(a.begin(), a.end(), [&](kv::block_id id) { return std::find(b.begin(), b.end(), id) != b.end(); });
}

}  // namespace

TEST_CASE("an urgent request does not wait while as many run as may (vllm 40004, 45561)", "[reports]") {
  const bool rows_are_full = GENERATE(true, false);
  CAPTURE(rows_are_full);
  engine e{{.blocks = 1000, .residents = rows_are_full ? 4U : 8U}};
  const step_limits limits{.max_batch = 4};
  for (int i = 0; i != 4; ++i) e.submit(16, 1000);
  e.step(limits);
  const request& urgent = e.submit(16, 2, 1);
  const request& equal = e.submit(16, 2, 0);
  CHECK(e.step(limits) == 4);
  CHECK(urgent.generated() == 1_tok);
  for (int i = 0; i != 20; ++i) CHECK(e.step(limits) == 4);
  CHECK(urgent.state().life == lifecycle::finished);
  CHECK(equal.generated() == 0_tok);  // it takes no place from its equals, and the one that gave way is back
  CHECK(e.preemptions == (rows_are_full ? 1 : 0));
  for (int i = 0; i != 4; ++i) CHECK(e.requests[static_cast<std::size_t>(i)].generated() >= 20_tok);
}

TEST_CASE("blocks that a transfer still writes to are given to no other request (vllm 32255)", "[reports]") {
  engine e{{.blocks = 8, .block_size = 4_tok, .residents = 3, .deadlines = 4}};
  request& aborted = e.submit(24, 1);
  REQUIRE(e.scheduler.loading(aborted, 20_tok, time_point::never()) == status::ok);
  const auto p = e.plan();
  REQUIRE(p.load.size() == 1);
  const std::vector<kv::block_id> written{p.load[0].device.begin(), p.load[0].device.end()};
  e.commit(p);
  REQUIRE(e.scheduler.cancel(aborted) == status::ok);
  const request& next = e.submit(20, 5);
  for (int i = 0; i != 5; ++i) CHECK(e.step() == 0);
  CHECK(e.why(next) == wait_reason::no_blocks);
  REQUIRE(e.scheduler.arrived(aborted, 20_tok) == status::ok);
  CHECK(aborted.state().life == lifecycle::cancelled);
  CHECK(e.step() == 1);
  CHECK(meet(e.row(next), written));
}

TEST_CASE("a transfer that is never heard of again keeps no blocks for ever (vllm 46283, 35943)", "[reports]") {
  const bool is_aborted = GENERATE(true, false);
  CAPTURE(is_aborted);
  engine e{{.blocks = 8, .block_size = 4_tok, .residents = 3, .deadlines = 4}};
  for (int round = 0; round != 100; ++round) {
    request& r = e.submit(24, 1);
    REQUIRE(e.scheduler.loading(r, 20_tok, in(e.now, 1)) == status::ok);
    CHECK(e.step() == 0);
    if (is_aborted) CHECK(e.scheduler.cancel(r) == status::ok);
    CHECK(e.step() == 0);
    CHECK(e.scheduler.device_blocks_held() > 0_blk);  // something may write to them until then
    e.now = in(e.now, 1);
    e.step();
    CHECK(r.state().life == (is_aborted ? lifecycle::cancelled : lifecycle::finished));
    REQUIRE(e.scheduler.device_blocks_held() == 0_blk);
  }
}

TEST_CASE("blocks that are being sent are not evicted from the prefix cache (TensorRT-LLM 12542)", "[reports]") {
  caching e{{.blocks = 16, .block_size = 4_tok, .residents = 4, .deadlines = 4}};
  request& sent = e.submit_hashed(24, 0, 6, 0);
  e.step();
  const auto being_read = e.row(sent);
  std::uint64_t ticket = 0;
  REQUIRE(e.scheduler.finish(sent, time_point::never(), ticket) == status::ok);
  const auto others_take_them = [&] {
    bool taken = false;
    for (int i = 0; i != 20; ++i) {
      const request& other = e.submit_hashed(24, 2, 6, 0);
      while (is_live(other.state().life)) {
        const auto p = e.plan();
        for (std::size_t k = 0; k != p.size(); ++k) taken = taken || meet(e.row(*p[k].request), being_read);
        e.commit(p);
      }
    }
    return taken;
  };
  CHECK_FALSE(others_take_them());
  REQUIRE(e.scheduler.drained(ticket) == status::ok);
  CHECK(others_take_them());
}

namespace {

/// For a model with layers of full attention and layers with a window of 10 tokens.
struct windowed : request_hook {
  [[nodiscard]] std::array<std::span<const std::uint64_t>, 2> prefix_hashes() const noexcept { return {}; }
};

}  // namespace

TEST_CASE("a window keeps what is read once drafts have been refused (vllm 47728)", "[reports]") {
  using scheduler = fcfs<windowed, kv::groups<2>>;
  constexpr std::array<kv::group, 2> layers{kv::group::full(4_tok), kv::group::sliding(4_tok, 10_tok)};
  auto storage =
      storage_for<scheduler>({{.blocks = 2000, .residents = 2, .max_length = 4000_tok, .plans_in_flight = 2}, layers});
  scheduler s{storage};
  windowed r;
  r.prompt = 40_tok;
  REQUIRE(s.submit(r, {}) == status::accepted);
  std::mt19937 random{7};
  tokens drafted{};
  tokens refused{};
  // The oldest token that the next one may look at, from what is known to have been sampled.
  const auto keeps_what_is_read = [&] {
    const tokens oldest = max(r.state().length - 1_tok - 9_tok, 0_tok);
    return static_cast<std::int64_t>(s.tables().first_block(1, r.state().row)) * 4 <= oldest.count();
  };
  auto running = s.plan({}, {});
  for (int i = 0; i != 300; ++i) {
    const auto next = s.plan({}, {.lookahead = 9_tok});
    CHECK(keeps_what_is_read());
    std::vector<outcome> outcomes(running.size());
    for (std::size_t k = 0; k != running.size(); ++k) {
      const auto most = static_cast<std::uint32_t>(running[k].lookahead.count());
      outcomes[k].produced = static_cast<std::uint16_t>(1 + (i % 3 == 0 ? 0 : random() % (most + 1)));
      drafted += running[k].lookahead;
      refused += running[k].lookahead + 1_tok - tokens{outcomes[k].produced};
    }
    REQUIRE(s.commit(running, outcomes, {}) == status::ok);
    CHECK(keeps_what_is_read());
    running = next;
  }
  CHECK(refused > drafted / 4);
  CHECK(drafted > 1000_tok);
  // It does give back what the window has passed: at most the window, and the drafts of two plans, are left.
  const tokens passed = tokens{static_cast<std::int64_t>(s.tables().first_block(1, r.state().row)) * 4};
  CHECK(passed > r.state().length - 40_tok);
  s.commit(running, std::vector<outcome>(running.size()), {});
  s.cancel(r);
}

namespace {

struct adapted : request {
  std::uint32_t adapter = 0;
};

template <class Gate>
struct adapters : step_engine<fcfs<adapted, kv::block_pool, kv::csr_tables, Gate>> {
  using base = step_engine<fcfs<adapted, kv::block_pool, kv::csr_tables, Gate>>;
  adapters(std::size_t blocks, const Gate& gate) : base{{.blocks = blocks, .residents = 128}, {.gate = gate}} {}

  adapted& submit(std::uint32_t adapter, std::int64_t prompt, std::int64_t output, int priority = 0) {
    adapted& r = base::add(prompt, output, priority);
    r.adapter = adapter;
    return base::submit(r);
  }
  /// Runs a step. Returns the adapters in it, each once, without the base model.
  std::set<std::uint32_t> step(const step_limits& limits = {}) {
    const auto p = base::plan(limits);
    std::set<std::uint32_t> all;
    for (std::size_t i = 0; i != p.size(); ++i) all.insert(p[i].request->adapter);
    all.erase(0);
    base::commit(p);
    return all;
  }
};

/// The most adapters in one step of 600, in which prompts come in chunks, memory is short, and some are cancelled.
template <class Gate>
std::size_t most_adapters(const Gate& gate) {
  adapters<Gate> e{80, gate};
  std::mt19937 random{3};
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  std::size_t most = 0;
  for (std::uint32_t i = 0; i != 600; ++i) {
    if (i % 3 == 0) e.submit(below(10), 16 + below(500), 1 + below(40), static_cast<int>(below(3)));
    if (below(10) == 0) static_cast<void>(e.scheduler.cancel(e.requests[below(i / 3 + 1)]));
    most = std::max(most, e.step({.token_budget = 64_tok}).size());
  }
  CHECK(e.preemptions > 10);
  return most;
}

}  // namespace

TEST_CASE("a batch has no more adapters than slots, and the base model takes none (sglang 23141)", "[reports]") {
  CHECK(most_adapters(gate::adapter_slots{.slots = 4}) == 4);
  CHECK(most_adapters(gate::in_line{}) > 4);
}

TEST_CASE("requests with an adapter without a slot hold up no others (vllm 15422, sglang 14795)", "[reports]") {
  adapters<gate::adapter_slots> e{1000, {.slots = 4}};
  for (const std::uint32_t adapter : {0U, 0U, 0U, 1U, 3U, 2U, 4U, 5U, 5U, 5U, 5U, 0U, 0U, 1U, 2U, 3U}) {
    e.submit(adapter, 16, adapter == 1 ? 1 : 10);
  }
  CHECK(e.step() == std::set<std::uint32_t>{1, 2, 3, 4});
  for (const adapted& r : e.requests) CHECK(r.generated() == (r.adapter == 5 ? 0_tok : 1_tok));
  CHECK(e.step() == std::set<std::uint32_t>{2, 3, 4, 5});
  for (const adapted& r : e.requests) CHECK(r.generated() == (r.adapter == 5 || r.adapter == 1 ? 1_tok : 2_tok));
}

namespace {

using ordered = prompt_request<request_hook_for<order::round_robin, order::two_phase>>;

}  // namespace

TEMPLATE_TEST_CASE("decodes do not starve while prompts keep coming (sglang 32549, ATOM 1835)", "[reports]",
                   fcfs<ordered>, round_robin<ordered>, pascal<ordered>) {
  typename TestType::config config{};
  constexpr bool has_turns = requires { config.quantum; };
  if constexpr (has_turns) config.quantum = 10_tok;  // then the prompts are before the decodes
  step_engine<TestType> e{{.blocks = 60'000, .residents = 256, .max_length = 8192_tok}, config};
  const step_limits limits{.token_budget = 512_tok};
  for (int i = 0; i != 8; ++i) e.submit(16, 0);
  e.step(limits);
  for (int i = 0; i != 200; ++i) {
    e.submit(4000, 100);
    const auto p = e.plan(limits);
    CHECK(p.computed == 512_tok);  // there is always more to compute than fits
    std::size_t going_on = 0;
    std::size_t start = 0;
    for (std::size_t k = 0; k != p.size(); ++k) {
      going_on += p[k].request->prompt == 16_tok;
      start += p[k].origin == entry_origin::started;
    }
    CHECK(going_on + (has_turns ? start : 0) >= 8);  // a prompt that starts before a decode takes one token, once
    e.commit(p);
  }
  for (std::size_t i = 0; i != 8; ++i) CHECK(e.requests[i].generated() >= (has_turns ? 150_tok : 201_tok));
  CHECK(e.requests[8].generated() > 50_tok);
}

TEST_CASE("prompts of ten beginnings compute each beginning once (sglang 2442, xllm 1743, vllm 9643)", "[reports]") {
  const bool round_robin = GENERATE(true, false);
  CAPTURE(round_robin);
  caching e{{.blocks = 20'000, .residents = 256}, {.watermark = 0}};
  for (std::uint64_t i = 0; i != 220; ++i) {
    request& r = e.add(21 * 16, 0);
    const std::uint64_t beginning = round_robin ? i % 10 : i / 22;
    for (std::uint64_t k = 0; k != 20; ++k) r.hashes.push_back((beginning * 1000 + k + 1) * 0x9e37'79b9'7f4a'7c15ULL);
    r.hashes.push_back((1'000'000 + i) * 0x9e37'79b9'7f4a'7c15ULL);
    e.submit(r);
  }
  tokens computed{};
  std::size_t steps = 0;
  const auto have_begun = [&] {
    return std::all_of(e.requests.begin(), e.requests.end(), [](const request& r) { return r.generated() > 0_tok; });
  };
  for (; !have_begun() && steps != 10; ++steps) {
    const auto p = e.plan();
    for (const auto& entry : p.prefill) computed += entry.count;
    e.commit(p);
  }
  CHECK(steps == 2);
  CHECK(computed == tokens{10 * 20 * 16 + 220 * 16});
}
