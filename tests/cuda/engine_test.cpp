// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plans of real schedulers on the fake decoder: every request's tokens must be those of its sequence alone.
#include "cuda/fake_decoder.hpp"
#include "loop.hpp"

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace cuda_decode;
using cuda_decode_test::fake_decoder;
using tessera::lifecycle;

/// Memory for a third of what the residents want.
struct setting {
  std::size_t blocks = 24;
  std::size_t host_blocks = 64;
  std::size_t residents = 8;
  std::int64_t budget = 48;
  std::int64_t block_size = 16;
  std::int64_t max_length = 0;
  std::size_t longest_prompt = 60;
  std::int64_t longest_output = 40;
  std::size_t in_flight = 1;
  bool late_stops = false;
};

decoder_options decoder_of(const setting& s) {
  return {.shape = model_shapes().front(),
          .weights = {},
          .kv_blocks = s.blocks,
          .host_blocks = s.host_blocks,
          .block_size = static_cast<std::int32_t>(s.block_size),
          .max_rows = s.residents,
          .max_tokens = static_cast<std::size_t>(s.budget),
          .max_context = 4096,
          .in_flight = s.in_flight};
}
loop_options loop_of(const setting& s, double& time) {
  loop_options o;
  o.limits = {.requests = 64,
              .blocks = s.blocks,
              .block_size = tokens{s.block_size},
              .residents = s.residents,
              .host_blocks = s.host_blocks,
              .max_length = tokens{s.max_length},
              .plans_in_flight = s.in_flight};
  o.step = {.max_batch = s.residents, .token_budget = tokens{s.budget}};
  o.quantum = tokens{6};
  o.demote_above = tokens{60};
  o.late_stops = s.late_stops;
  o.clock = {[&time] { return time += 0.001; }, [&time](double t) { time = std::max(time, t); }, [&time] { time = 0; }};
  return o;
}

/// The prompt and the tokens that follow it, without blocks, batches or steps.
std::vector<std::int32_t> alone(std::span<const std::int32_t> sequence, std::size_t prompt) {
  std::vector<std::int32_t> s(sequence.begin(), sequence.begin() + static_cast<std::ptrdiff_t>(prompt));
  while (s.size() < sequence.size()) s.push_back(fake_decoder::next(s));
  return s;
}

void make_request(served& r, sim::random_engine& rng, std::size_t longest_prompt, std::int64_t longest_output) {
  fill_prompt(r.sequence, 1 + sim::uniform_below(rng, longest_prompt), model_shapes().front().vocabulary, rng);
  const auto any = [&](std::int64_t n) {
    return static_cast<std::int64_t>(sim::uniform_below(rng, static_cast<std::uint64_t>(n)));
  };
  r.output = r.max_output = tokens{1 + any(longest_output)};
  r.reasoning = tokens{any(r.output.count())};
}

struct outcome_counts {
  std::uint64_t steps = 0;
  std::uint64_t in_vain = 0;
  std::size_t finished = 0;
  std::size_t cancelled = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t swapped = 0;
};

/// Random load with hang-ups between and within steps. The books must agree after every step, and the tokens with
/// `expected(sequence, prompt)`.
template <class Expected>
outcome_counts random_load(const composition& c, const setting& s, std::uint64_t seed, std::size_t requests,
                           decoder& device, Expected&& expected) {
  double time = 0;
  sim::random_engine rng{seed};
  loop_options o = loop_of(s, time);
  loop* running = nullptr;
  served* goes = nullptr;
  o.token = [&](served&, std::int32_t) {
    if (goes == nullptr) return;
    static_cast<void>(running->cancel(*goes));
    goes = nullptr;
  };
  std::list<served> all;
  const std::unique_ptr<loop> l = c.make(device, o);
  running = l.get();
  const auto live = [&]() -> served* {
    std::vector<served*> found;
    for (served& r : all) {
      const bool lives = r.state().life == lifecycle::waiting || r.state().life == lifecycle::resident;
      if (lives && r.state().ends_as == lifecycle::idle) found.push_back(&r);
    }
    return found.empty() ? nullptr : found[sim::uniform_below(rng, found.size())];
  };
  while (all.size() < requests || !l->idle()) {
    if (all.size() < requests && sim::uniform_below(rng, 3) == 0) {
      served& r = all.emplace_back();
      r.id = all.size();
      make_request(r, rng, s.longest_prompt, s.longest_output);
      REQUIRE(ok(l->submit(r, time)));
    }
    if (sim::uniform_below(rng, 40) == 0) goes = live();
    if (sim::uniform_below(rng, 60) == 0) {
      if (served* const r = live()) CHECK(l->cancel(*r));
    }
    if (goes != nullptr && goes->state().life != lifecycle::resident) goes = nullptr;
    const bool ran = l->step();
    REQUIRE(l->inconsistency() == "");
    REQUIRE((ran || l->idle() || all.size() < requests));
  }
  outcome_counts n;
  for (const served& r : all) {
    const auto prompt = static_cast<std::size_t>(r.prompt.count());
    INFO(c.name << ", request " << r.id << " of " << prompt << " tokens, preempted " << r.record.preemptions);
    CHECK(r.sequence == expected(r.sequence, prompt));
    if (r.state().life == lifecycle::finished) {
      ++n.finished;
      CHECK(r.sequence.size() == prompt + static_cast<std::size_t>(r.output.count()));
      CHECK(r.record.completed());
      CHECK(r.record.finish >= r.record.first_answer);
      CHECK(r.record.first_answer >= r.record.first_token);
      CHECK(r.record.executed + r.record.preempted <= r.record.e2e());
    } else {
      ++n.cancelled;
      CHECK(r.state().life == lifecycle::cancelled);
      CHECK(!r.record.completed());
    }
  }
  n.steps = l->split().steps();
  n.in_vain = l->tokens_in_vain();
  n.preemptions = l->preemptions();
  n.swapped = l->swapped_blocks();
  return n;
}

void add(outcome_counts& to, const outcome_counts& n) {
  to.steps += n.steps;
  to.in_vain += n.in_vain;
  to.finished += n.finished;
  to.cancelled += n.cancelled;
  to.preemptions += n.preemptions;
  to.swapped += n.swapped;
}

/// 60 requests by a decoder of its own. Their tokens are compared with those of their sequences alone.
outcome_counts random_load_alone(const composition& c, const setting& s, std::uint64_t seed) {
  fake_decoder fake{decoder_of(s)};
  return random_load(c, s, seed, 60, fake, alone);
}

TEST_CASE("engine: swapped and recomputed requests have the tokens of their sequences alone") {
  for (const composition& c : compositions()) {
    const auto run = [&](const setting& s, std::uint64_t seed) { return random_load_alone(c, s, seed); };
    outcome_counts swap;
    outcome_counts recompute;
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      add(swap, run({}, seed));
      add(recompute, run({.host_blocks = 0}, seed));
      // Room for some on the host: both kinds of preemption in one run.
      add(swap, run({.host_blocks = 6, .budget = 20}, seed));
    }
    INFO(c.name);
    CHECK(swap.finished > 300);
    CHECK(swap.cancelled > 10);
    CHECK(swap.preemptions > 30);
    CHECK(swap.swapped > 150);
    CHECK(recompute.preemptions > 15);
    CHECK(recompute.swapped == 0);
  }
}

// Tokens of a step are known when the next one has been launched. If the scheduler is not told how long requests get,
// the same holds for their ends.
TEST_CASE("engine: with two steps in flight requests have the tokens of their sequences alone") {
  for (const composition& c : compositions()) {
    const auto run = [&](const setting& s, std::uint64_t seed) { return random_load_alone(c, s, seed); };
    outcome_counts known;
    outcome_counts late;
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      for (const std::size_t host_blocks : {std::size_t{64}, std::size_t{0}, std::size_t{6}}) {
        add(known, run({.host_blocks = host_blocks, .in_flight = 2}, seed));
        add(late, run({.host_blocks = host_blocks, .budget = 20, .in_flight = 2, .late_stops = true}, seed));
      }
    }
    INFO(c.name);
    for (const outcome_counts& n : {known, late}) {
      CHECK(n.finished > 900);
      CHECK(n.cancelled > 10);
      CHECK(n.preemptions > 30);
      CHECK(n.swapped > 150);
    }
    // What was cancelled is all that it does not know in time.
    CHECK(known.in_vain < 20 * known.cancelled);
    CHECK(late.in_vain > late.finished / 2);
  }
}

TEST_CASE("engine: two steps in flight give the tokens of one, and take in vain what late stops cost") {
  for (const composition& c : compositions()) {
    const auto run = [&](std::size_t in_flight, bool late_stops) {
      const setting s{.in_flight = in_flight, .late_stops = late_stops};
      double time = 0;
      fake_decoder fake{decoder_of(s)};
      sim::random_engine rng{9};
      std::list<served> all;
      const std::unique_ptr<loop> l = c.make(fake, loop_of(s, time));
      std::uint64_t lengths = 0;
      for (int i = 0; i < 40; ++i) {
        served& r = all.emplace_back();
        make_request(r, rng, 60, 40);
        REQUIRE(ok(l->submit(r, 0)));
        lengths += r.sequence.size() + static_cast<std::size_t>(r.output.count()) - 1;
      }
      while (!l->idle()) REQUIRE(l->step());
      std::vector<std::vector<std::int32_t>> sequences;
      for (const served& r : all) sequences.push_back(r.sequence);
      CHECK(l->computed_tokens() >= lengths + l->tokens_in_vain());
      return std::pair{sequences, l->tokens_in_vain()};
    };
    INFO(c.name);
    const auto one = run(1, true);
    const auto two = run(2, false);
    const auto late = run(2, true);
    CHECK(one.first == two.first);
    CHECK(one.first == late.first);
    CHECK(one.second == 0);
    CHECK(two.second == 0);  // lengths were known: no request is in a step after its last
    // At most a token, or a chunk that it would not have needed, for each of the 40.
    CHECK(late.second > 0);
    CHECK(late.second <= 40);
  }
}

// The matrix products of the emulated device sum in the same order in any batch: tokens are equal, not only near.
TEST_CASE("engine: the emulated model gives every request the tokens of its sequence alone") {
  const auto tiny = [](const setting& s) {
    decoder_options o = decoder_of(s);
    o.max_context = 128;
    return o;
  };
  const setting alone_there{.blocks = 16, .host_blocks = 0, .residents = 1, .budget = 128};
  const std::unique_ptr<decoder> quiet = make_decoder(tiny(alone_there));
  const auto expected = [&](std::span<const std::int32_t> sequence, std::size_t prompt) {
    double time = 0;
    served r;
    r.sequence.assign(sequence.begin(), sequence.begin() + static_cast<std::ptrdiff_t>(prompt));
    const std::size_t output = sequence.size() - prompt;
    if (output == 0) return r.sequence;
    r.output = r.max_output = tokens{static_cast<std::int64_t>(output)};
    const std::unique_ptr<loop> l = compositions().front().make(*quiet, loop_of(alone_there, time));
    REQUIRE(ok(l->submit(r, 0)));
    while (!l->idle()) REQUIRE(l->step());
    return r.sequence;
  };
  std::uint64_t swapped_by_two = 0;
  for (const composition& c : compositions()) {
    outcome_counts n;
    outcome_counts two;
    for (const std::size_t host_blocks : {std::size_t{16}, std::size_t{0}, std::size_t{5}}) {
      setting s{.blocks = 8,
                .host_blocks = host_blocks,
                .residents = 5,
                .budget = 40,
                .longest_prompt = 40,
                .longest_output = 24};
      const std::unique_ptr<decoder> device = make_decoder(tiny(s));
      add(n, random_load(c, s, 11 + host_blocks, 9, *device, expected));
      if (host_blocks == 5) continue;
      s.in_flight = 2;
      s.late_stops = true;
      s.blocks = 6;
      const std::unique_ptr<decoder> overlapping = make_decoder(tiny(s));
      add(two, random_load(c, s, 11 + host_blocks, 9, *overlapping, expected));
    }
    INFO(c.name);
    CHECK(n.finished > 15);
    CHECK(n.cancelled > 0);
    CHECK(n.preemptions > 0);
    CHECK(n.swapped > 0);
    CHECK(two.finished > 10);
    CHECK(two.in_vain > 0);
    CHECK(two.preemptions > 0);
    swapped_by_two += two.swapped;
  }
  CHECK(swapped_by_two > 0);
}

TEST_CASE("engine: a plan becomes a batch over the scheduler's own block table") {
  const setting s{.blocks = 64};
  fake_decoder fake{decoder_of(s)};
  engine e{fake, {.blocks = 64, .residents = 8, .host_blocks = 8}, {.max_batch = 8, .token_budget = tokens{48}}};
  served a, b;
  a.sequence = {5, 6, 7};
  b.sequence = {1, 2, 3, 4};
  const tessera::scheduled<served> decode{&a, tokens{2}, tokens{1}, tokens{}, 0, 0, true, {}};
  const tessera::scheduled<served> prefill{&b, tokens{1}, tokens{2}, tokens{}, 1, 0, false, {}};
  const std::vector<std::int32_t> indptr{0, 1, 2};
  const std::vector<std::int32_t> indices{9, 4};
  const std::vector<tessera::kv::block_id> d{3, 1};
  const std::vector<tessera::kv::block_id> h{0, 7};
  const tessera::kv_transfer<served> out{&a, 0, d, h};
  const tessera::kv::block_copy copy{4, 9};
  tessera::step_plan<served> plan;
  plan.decode = {&decode, 1};
  plan.prefill = {&prefill, 1};
  plan.swap_out = {&out, 1};
  plan.copies = {&copy, 1};
  plan.tables = {.indptr = indptr, .indices = indices, .last_page_len = {}};
  const step_batch batch = e.batch(plan);
  CHECK(std::vector<std::int32_t>(batch.tokens.begin(), batch.tokens.end()) == std::vector<std::int32_t>{7, 2, 3});
  REQUIRE(batch.rows.size() == 2);
  CHECK((batch.rows[0].first == 2 && batch.rows[0].count == 1 && batch.rows[0].samples));
  CHECK((batch.rows[1].first == 1 && batch.rows[1].count == 2 && !batch.rows[1].samples));
  CHECK(batch.indptr.data() == indptr.data());
  CHECK(batch.indices.data() == indices.data());
  REQUIRE(batch.swap_out.size() == 2);
  CHECK((batch.swap_out[0].device == 3 && batch.swap_out[0].host == 0));
  CHECK((batch.swap_out[1].device == 1 && batch.swap_out[1].host == 7));
  REQUIRE(batch.copies.size() == 1);
  CHECK((batch.copies[0].from == 4 && batch.copies[0].to == 9));
  CHECK(batch.swap_in.empty());
  CHECK_THROWS_AS(e.launch(plan, batch), device_error);  // what `a` reads was never written
  plan.fetch = std::span<const tessera::kv_fetch<served>>{static_cast<const tessera::kv_fetch<served>*>(nullptr), 0};
  const tessera::kv_fetch<served> fetched{&a, 0, d};
  plan.fetch = {&fetched, 1};
  CHECK_THROWS_AS(e.launch(plan, batch), device_error);
}

TEST_CASE("engine: tokens go to the entries that sample") {
  const setting s{};
  fake_decoder fake{decoder_of(s)};
  engine e{fake, {.blocks = 24, .residents = 8}, {.max_batch = 8, .token_budget = tokens{48}}};
  served a, b, c;
  a.sequence = {7};
  b.sequence = {1, 2, 3, 4};
  c.sequence = {9, 8, 9};
  const tessera::scheduled<served> decode{&a, tokens{0}, tokens{1}, tokens{}, 0, 0, true, {}};
  const std::vector<tessera::scheduled<served>> prefill{{&b, tokens{0}, tokens{2}, tokens{}, 1, 0, false, {}},
                                                        {&c, tokens{0}, tokens{3}, tokens{}, 2, 0, true, {}}};
  const std::vector<std::int32_t> indptr{0, 1, 2, 3};
  const std::vector<std::int32_t> indices{9, 4, 6};
  tessera::step_plan<served> plan;
  plan.decode = {&decode, 1};
  plan.prefill = prefill;
  plan.tables = {.indptr = indptr, .indices = indices, .last_page_len = {}};
  e.launch(plan, e.batch(plan));
  static_cast<void>(e.wait(plan));
  CHECK(e.sampled(0) == fake_decoder::next(a.sequence));
  CHECK(e.sampled(1) == -1);
  CHECK(e.sampled(2) == fake_decoder::next(c.sequence));
}

TEST_CASE("engine: a token that is not known yet is the one that the step before samples") {
  const setting s{.in_flight = 2};
  fake_decoder fake{decoder_of(s)};
  engine e{fake, {.blocks = 24, .residents = 8, .plans_in_flight = 2}, {.max_batch = 8, .token_budget = tokens{48}}};
  served a, b;
  a.sequence = {9, 8, 9};
  b.sequence = {1, 2};
  const std::vector<std::int32_t> indptr{0, 1, 2};
  const std::vector<std::int32_t> indices{4, 6};
  const std::vector<tessera::scheduled<served>> prompts{{&a, tokens{0}, tokens{3}, tokens{}, 0, 0, true, {}},
                                                        {&b, tokens{0}, tokens{2}, tokens{}, 1, 0, true, {}}};
  // In another order than before.
  const std::vector<tessera::scheduled<served>> decodes{{&b, tokens{2}, tokens{1}, tokens{}, 1, 0, true, {}},
                                                        {&a, tokens{3}, tokens{1}, tokens{}, 0, 0, true, {}}};
  const std::vector<std::int32_t> swapped{6, 4};
  tessera::step_plan<served> first;
  first.prefill = prompts;
  first.tables = {.indptr = indptr, .indices = indices, .last_page_len = {}};
  tessera::step_plan<served> second;
  second.decode = decodes;
  second.tables = {.indptr = indptr, .indices = swapped, .last_page_len = {}};
  e.launch(first, e.batch(first));
  const step_batch batch = e.batch(second);
  CHECK(std::vector<std::int32_t>(batch.tokens.begin(), batch.tokens.end()) == std::vector<std::int32_t>{-2, -1});
  e.launch(second, batch);
  static_cast<void>(e.wait(first));
  a.sequence.push_back(e.sampled(0));
  b.sequence.push_back(e.sampled(1));
  CHECK(a.sequence.back() == fake_decoder::next(std::span{a.sequence}.first(3)));
  CHECK(b.sequence.back() == fake_decoder::next(std::span{b.sequence}.first(2)));
  static_cast<void>(e.wait(second));
  CHECK(e.sampled(0) == fake_decoder::next(b.sequence));
  CHECK(e.sampled(1) == fake_decoder::next(a.sequence));
}

TEST_CASE("engine: a step allocates nothing") {
  const setting s{.in_flight = GENERATE(std::size_t{1}, std::size_t{2})};
  double time = 0;
  fake_decoder fake{decoder_of(s)};
  for (const composition& c : compositions()) {
    sim::random_engine rng{3};
    std::list<served> all;
    const std::unique_ptr<loop> l = c.make(fake, loop_of(s, time));
    for (int i = 0; i < 30; ++i) {
      make_request(all.emplace_back(), rng, 60, 40);
      REQUIRE(ok(l->submit(all.back(), 0)));
    }
    std::size_t allocated = 0;
    std::size_t freed = 0;
    while (!l->idle()) {
      const tessera_test::no_allocation guard;
      l->step();
      allocated += guard.allocations();
      freed += guard.deallocations();
    }
    INFO(c.name);
    CHECK(allocated == 0);
    CHECK(freed == 0);
    CHECK(l->preemptions() > 0);
    CHECK(l->swapped_blocks() > 0);
  }
}

TEST_CASE("engine: a device that fails takes those in its steps with it, and the rest can be cancelled") {
  const setting s{.in_flight = GENERATE(std::size_t{1}, std::size_t{2})};
  for (const composition& c : compositions()) {
    double time = 0;
    sim::random_engine rng{5};
    fake_decoder fake{decoder_of(s)};
    fake.fail_at = 25;
    std::list<served> all;
    const std::unique_ptr<loop> l = c.make(fake, loop_of(s, time));
    for (int i = 0; i < 20; ++i) {
      make_request(all.emplace_back(), rng, 60, 40);
      REQUIRE(ok(l->submit(all.back(), 0)));
    }
    CHECK_THROWS_AS(
        [&] {
          while (l->step()) {
          }
        }(),
        device_error);
    CHECK(l->inconsistency() == "");
    std::size_t failed = 0;
    for (served& r : all) {
      if (r.state().life == lifecycle::failed) {
        ++failed;
        CHECK(!r.record.completed());
      }
      if (r.state().life == lifecycle::waiting || r.state().life == lifecycle::resident) CHECK(l->cancel(r));
    }
    CHECK(failed > 0);
    CHECK(l->idle());
    CHECK(l->inconsistency() == "");
  }
}

TEST_CASE("engine: a request that outgrows the limits is cut off") {
  const setting s{.blocks = 32, .max_length = 100, .in_flight = GENERATE(std::size_t{1}, std::size_t{2})};
  for (const composition& c : compositions()) {
    double time = 0;
    sim::random_engine rng{7};
    fake_decoder fake{decoder_of(s)};
    std::list<served> all;
    const std::unique_ptr<loop> l = c.make(fake, loop_of(s, time));
    for (int i = 0; i < 4; ++i) {
      served& r = all.emplace_back();
      fill_prompt(r.sequence, 30, fake_decoder::vocabulary, rng);
      r.output = tokens{i % 2 == 0 ? 500 : 20};  // max_output stays 0: not known
      r.reasoning = tokens{5};
      REQUIRE(ok(l->submit(r, 0)));
    }
    for (int steps = 0; !l->idle(); ++steps) {
      REQUIRE(steps < 500);
      REQUIRE(l->step());
      REQUIRE(l->inconsistency() == "");
    }
    for (const served& r : all) {
      CHECK(r.state().life == lifecycle::finished);
      CHECK(r.sequence == alone(r.sequence, 30));
      // The last token of 101 has no KV and needs none.
      CHECK(r.sequence.size() == (r.record.answer_tokens > 15 ? 101U : 50U));
      CHECK(r.record.output_tokens() == static_cast<std::int64_t>(r.sequence.size()) - 30);
    }
  }
}

}  // namespace
