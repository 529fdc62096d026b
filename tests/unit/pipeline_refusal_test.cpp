// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// How often the prefix of a request that cannot start is matched, and that it starts as soon as it may. That it is
// refused rightly in whatever case is for tests/property.

#include <tessera/admit/future_peak.hpp>
#include <tessera/compose/due_first.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/pacing/token_pacer.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <deque>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

struct request : request_hook {
  std::vector<std::uint64_t> hashes;
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }
};

std::size_t matched = 0;  ///< Blocks looked up.

struct counting_cache : kv::prefix_cache {
  using kv::prefix_cache::prefix_cache;
  std::size_t match(std::span<const std::uint64_t> hashes, std::span<kv::block_id> out) const noexcept {
    matched += hashes.size();
    return kv::prefix_cache::match(hashes, out);
  }
};

using scheduler_type = iteration_scheduler<request, order::fcfs, preempt::swap, admit::watermark, counting_cache>;

void step(scheduler_type& s, const request* ends = nullptr, std::size_t max_batch = 8) {
  const auto p = s.plan(time_point{}, {.max_batch = max_batch, .token_budget = 100'000_tok});
  std::vector<outcome> outcomes(p.size());
  for (std::size_t i = 0; i != p.size(); ++i) outcomes[i].finished = p[i].request == ends;
  s.commit(p, outcomes, time_point{});
}

}  // namespace

TEST_CASE("a head of line that is held back is not matched anew in every step, nor is it forgotten") {
  // The first 1000 blocks of the head's prompt have hashes; all of them are cached, or some.
  for (const std::size_t cached : {1000U, 400U}) {
    CAPTURE(cached);
    auto storage = storage_for<scheduler_type>({.blocks = 2600, .residents = 8});
    scheduler_type s{storage, {.admit = {.fraction = 0.4}}};
    std::deque<request> r(3);
    for (std::uint64_t i = 0; i != 1000; ++i) r[1].hashes.push_back(i * 7919 + 1);
    r[0].hashes.assign(r[1].hashes.begin(), r[1].hashes.begin() + static_cast<std::ptrdiff_t>(cached));
    r[0].prompt = tokens{static_cast<std::int64_t>(16 * cached)};
    r[1].prompt = tokens{16 * 1700};
    r[2].prompt = 160_tok;
    REQUIRE(s.submit(r[0], time_point{}) == status::accepted);
    step(s);
    REQUIRE(s.submit(r[2], time_point{}) == status::accepted);
    step(s);
    REQUIRE(s.submit(r[1], time_point{}) == status::accepted);
    matched = 0;
    step(s);
    CHECK(s.why(r[1]) == wait_reason::held_back);
    CHECK(matched == 1000);
    matched = 0;
    // Decoding takes blocks, and gives none back.
    for (int i = 0; i != 100; ++i) {
      step(s);
      REQUIRE(s.why(r[1]) == wait_reason::held_back);
    }
    CHECK(matched == 0);
    // One that is given up by a plan which is abandoned changes nothing.
    s.abandon(s.plan(time_point{}, {}));
    step(s);
    CHECK(matched == 0);
    step(s, &r[2]);  // its 16 blocks are free, and are not enough
    step(s);
    CHECK(s.why(r[1]) == wait_reason::held_back);
    CHECK(matched <= 1000);
    step(s, &r[0]);
    step(s);
    CHECK(s.why(r[1]) == wait_reason::none);
    CHECK(r[1].state().life == lifecycle::resident);
    for (request& x : r) static_cast<void>(s.cancel(x));
  }
}

TEST_CASE("a head of line that is held back starts as soon as more of its prefix is there") {
  // 100 blocks. The first computes a prompt of 60 blocks in six steps; the second has the same prompt and 20 blocks
  // more. When the first is through and has a block for its output, the second would leave 19 free.
  for (const double fraction : {0.15, 0.25}) {
    auto storage = storage_for<scheduler_type>({.blocks = 100, .residents = 8});
    scheduler_type s{storage, {.admit = {.fraction = fraction}}};
    std::deque<request> r(2);
    for (std::uint64_t i = 0; i != 60; ++i) r[0].hashes.push_back(i * 7919 + 1);
    r[1].hashes = r[0].hashes;
    r[0].prompt = tokens{16 * 60};
    r[1].prompt = tokens{16 * 80};
    for (request& x : r) REQUIRE(s.submit(x, time_point{}) == status::accepted);
    int steps = 0;
    for (; steps != 20 && r[1].state().life != lifecycle::resident; ++steps) {
      const auto p = s.plan(time_point{}, {.max_chunk = 160_tok});
      const std::vector<outcome> outcomes(p.size());
      s.commit(p, outcomes, time_point{});
    }
    CHECK(steps == (fraction < 0.19 ? 7 : 20));
    for (request& x : r) static_cast<void>(s.cancel(x));
  }
}

TEST_CASE("a head of line that is held back starts as soon as another holds enough of its prefix") {
  // 100 blocks, 25 to stay free. 10 blocks are cached and in no request's table. `a` holds 12, `b` 9, and the head
  // wants 60 with those 10 in front. An urgent request takes the 10 and one more. When `a` has gone, 80 are free and
  // the head lacks 50.
  for (const int when : {0, 1, 2}) {
    CAPTURE(when);
    auto storage = storage_for<scheduler_type>({.blocks = 100, .residents = 8});
    scheduler_type s{storage, {.admit = {.fraction = 0.25}}};
    std::deque<request> r(5);
    request &first = r[0], &a = r[1], &b = r[2], &head = r[3], &urgent = r[4];
    for (std::uint64_t i = 0; i != 10; ++i) first.hashes.push_back(i * 7919 + 1);
    head.hashes = urgent.hashes = first.hashes;
    first.prompt = tokens{16 * 10};
    a.prompt = tokens{16 * 12 - 12};
    b.prompt = tokens{16 * 9 - 12};
    head.prompt = tokens{16 * 60 - 12};
    urgent.prompt = tokens{16 * 11 - 12};
    urgent.priority = 1;
    REQUIRE(s.submit(first, time_point{}) == status::accepted);
    step(s, &first);
    for (request* x : {&a, &b, &head}) REQUIRE(s.submit(*x, time_point{}) == status::accepted);
    step(s);
    step(s);
    CHECK(s.why(head) == wait_reason::held_back);
    if (when != 2) {  // before `a` goes; the head has its turn in that step, or has not
      REQUIRE(s.submit(urgent, time_point{}) == status::accepted);
      step(s, nullptr, when == 0 ? 8 : 1);
      CHECK(urgent.state().shared_blocks == 10);
      CHECK(s.why(head) == (when == 0 ? wait_reason::held_back : wait_reason::batch_full));
    }
    step(s, &a);
    if (when == 2) REQUIRE(s.submit(urgent, time_point{}) == status::accepted);
    step(s);
    CHECK(s.store().free() == 30);
    CHECK(head.state().life == lifecycle::resident);
    for (request& x : r) static_cast<void>(s.cancel(x));
  }
}

TEST_CASE("polling with plans that are abandoned does not match the prefix each time") {
  // 1210 blocks: 150 and 1000 are held by two that are suspended; the head has the prefix of the second, and lacks 40.
  auto storage = storage_for<scheduler_type>({.blocks = 1210, .residents = 8});
  scheduler_type s{storage};
  std::deque<request> r(3);
  for (std::uint64_t i = 0; i != 1000; ++i) r[1].hashes.push_back(i * 7919 + 1);
  r[2].hashes = r[1].hashes;
  r[0].prompt = tokens{16 * 150};
  r[1].prompt = tokens{16 * 1000};
  r[2].prompt = tokens{16 * 1100};
  for (int i : {0, 1}) {
    request& x = r[static_cast<std::size_t>(i)];
    REQUIRE(s.submit(x, time_point{}) == status::accepted);
    step(s);
    REQUIRE(s.suspend(x) == status::ok);
  }
  REQUIRE(s.submit(r[2], time_point{}) == status::accepted);
  matched = 0;
  for (int i = 0; i != 100; ++i) {
    const auto p = s.plan(time_point{}, {.token_budget = 100'000_tok});
    REQUIRE(p.empty());
    REQUIRE(s.why(r[2]) != wait_reason::none);
    s.abandon(p);
  }
  CHECK(matched == 1000);
  // Nor is it forgotten that it may start now.
  REQUIRE(s.resume(r[0]) == status::ok);
  REQUIRE(s.cancel(r[0]) == status::ok);
  step(s);
  CHECK(r[2].state().life == lifecycle::resident);
  for (request& x : r) static_cast<void>(s.cancel(x));
}

TEST_CASE("an instance is never smaller than what is free on it, whichever is suspended") {
  // Three that are suspended share a prompt of 60 blocks of 100.
  using future = iteration_scheduler<request, order::fcfs, preempt::swap, admit::future_peak, kv::prefix_cache>;
  auto storage = storage_for<future>({.blocks = 100, .residents = 8});
  future s{storage};
  std::deque<request> r(5);
  const auto go = [&s] {
    const auto p = s.plan(time_point{}, {});
    const std::vector<outcome> outcomes(p.size());
    s.commit(p, outcomes, time_point{});
  };
  for (std::size_t i = 0; i != 3; ++i) {
    for (std::uint64_t b = 0; b != 60; ++b) r[i].hashes.push_back(b * 7919 + 1);
    r[i].prompt = tokens{16 * 60 + 1};
    r[i].max_output = 2_tok;
    REQUIRE(s.submit(r[i], time_point{}) == status::accepted);
    go();
    REQUIRE(s.suspend(r[i]) == status::ok);
  }
  for (std::size_t i : {3U, 4U}) {
    r[i].prompt = 16_tok;
    r[i].max_output = 10_tok;
    REQUIRE(s.submit(r[i], time_point{}) == status::accepted);
  }
  go();
  CHECK(s.why(r[3]) == wait_reason::none);
  CHECK(s.why(r[4]) == wait_reason::none);
  for (request& x : r) static_cast<void>(s.cancel(x));
}

TEST_CASE("a request that may displace another does so as soon as that is enough, whatever has started ahead of it") {
  // `calm` answers, and its reader has plenty. `prompt` may not displace it, and starts next to it. `reasons` is due
  // later than `prompt`, may displace `calm`, and needs more than is free with `prompt` there. The order among the
  // residents changes when `prompt` starts.
  struct read_request : due_first_request {
    token_pacer pacer{};
    tokens expected_output{};
  };
  using scheduler = due_first<read_request>;
  auto storage = storage_for<scheduler>(
      {.blocks = 3000, .block_size = 16_tok, .residents = 8, .host_blocks = 6000, .max_length = 40'000_tok});
  std::deque<read_request> r(3);
  read_request &calm = r[0], &prompt = r[1], &reasons = r[2];
  scheduler s{storage};
  time_point now{};
  const auto step = [&] {
    const auto p = s.plan(now, {.max_batch = 8, .token_budget = 2048_tok, .max_chunk = 512_tok});
    const std::vector<outcome> outcomes(p.size());
    for (std::size_t i = 0; i != p.size(); ++i) {
      if (p[i].samples && p[i].request->state().phase == phase::answering) p[i].request->pacer.on_token(now);
    }
    now += 20_ms;
    REQUIRE(s.commit(p, outcomes, now) == status::ok);
  };
  calm.prompt = 12'000_tok;
  calm.max_output = 2000_tok;
  calm.starts_in = phase::answering;
  calm.expected_output = 100_tok;
  REQUIRE(s.submit(calm, now) == status::accepted);
  for (int i = 0; i != 290; ++i) step();
  REQUIRE(order_state<order::earliest_due<>>(calm).level == 2);
  prompt.prompt = 24'000_tok;
  prompt.max_output = prompt.expected_output = 10_tok;
  prompt.starts_in = phase::answering;
  reasons.prompt = 14'400_tok;
  reasons.max_output = 10_tok;
  reasons.expected_output = 20_tok;
  REQUIRE(s.submit(prompt, now) == status::accepted);
  REQUIRE(s.submit(reasons, now) == status::accepted);
  step();
  CHECK(prompt.state().life == lifecycle::resident);
  CHECK(s.why(reasons) == wait_reason::no_blocks);
  // From now on `calm` ranks last. Only it can give way, and with its blocks there is enough for `reasons` beside
  // `prompt`.
  const blocks there = s.blocks_held(calm) + blocks{3000} - s.device_blocks_held();
  const blocks missing = blocks_for(14'400_tok, 16_tok) + blocks_for(24'000_tok, 16_tok) - s.blocks_held(prompt);
  REQUIRE(there >= missing);
  int late = 0;
  for (; late != 100 && reasons.state().life != lifecycle::resident; ++late) step();
  CHECK(late == 1);
  for (read_request& x : r) static_cast<void>(s.cancel(x));
}
