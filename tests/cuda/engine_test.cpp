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
};

decoder_options decoder_of(const setting& s) {
  return {.shape = model_shapes().front(),
          .weights = {},
          .kv_blocks = s.blocks,
          .host_blocks = s.host_blocks,
          .block_size = static_cast<std::int32_t>(s.block_size),
          .max_rows = s.residents,
          .max_tokens = static_cast<std::size_t>(s.budget),
          .max_context = 4096};
}
loop_options loop_of(const setting& s, double& time) {
  loop_options o;
  o.limits = {.requests = 64,
              .blocks = s.blocks,
              .block_size = tokens{s.block_size},
              .residents = s.residents,
              .host_blocks = s.host_blocks,
              .max_length = tokens{s.max_length}};
  o.step = {.max_batch = s.residents, .token_budget = tokens{s.budget}};
  o.quantum = tokens{6};
  o.demote_above = tokens{60};
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
      if (r.state().life == lifecycle::waiting || r.state().life == lifecycle::resident) found.push_back(&r);
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
  n.preemptions = l->preemptions();
  n.swapped = l->swapped_blocks();
  return n;
}

void add(outcome_counts& to, const outcome_counts& n) {
  to.finished += n.finished;
  to.cancelled += n.cancelled;
  to.preemptions += n.preemptions;
  to.swapped += n.swapped;
}

TEST_CASE("engine: swapped and recomputed requests have the tokens of their sequences alone") {
  for (const composition& c : compositions()) {
    const auto run = [&](const setting& s, std::uint64_t seed) {
      fake_decoder fake{decoder_of(s)};
      return random_load(c, s, seed, 60, fake, alone);
    };
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
  for (const composition& c : compositions()) {
    outcome_counts n;
    for (const std::size_t host_blocks : {std::size_t{16}, std::size_t{0}, std::size_t{5}}) {
      const setting s{.blocks = 8,
                      .host_blocks = host_blocks,
                      .residents = 5,
                      .budget = 40,
                      .longest_prompt = 40,
                      .longest_output = 24};
      const std::unique_ptr<decoder> device = make_decoder(tiny(s));
      add(n, random_load(c, s, 11 + host_blocks, 9, *device, expected));
    }
    INFO(c.name);
    CHECK(n.finished > 15);
    CHECK(n.cancelled > 0);
    CHECK(n.preemptions > 0);
    CHECK(n.swapped > 0);
  }
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
  CHECK_THROWS_AS(e.run(plan, batch), device_error);  // nobody wrote what `a` reads
  plan.fetch = std::span<const tessera::kv_fetch<served>>{static_cast<const tessera::kv_fetch<served>*>(nullptr), 0};
  const tessera::kv_fetch<served> fetched{&a, 0, d};
  plan.fetch = {&fetched, 1};
  CHECK_THROWS_AS(e.run(plan, batch), device_error);
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
  e.run(plan, e.batch(plan));
  CHECK(e.sampled(0) == fake_decoder::next(a.sequence));
  CHECK(e.sampled(1) == -1);
  CHECK(e.sampled(2) == fake_decoder::next(c.sequence));
}

TEST_CASE("engine: a step allocates nothing") {
  const setting s{};
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

TEST_CASE("engine: a device that fails takes those in its step with it, and the rest can be cancelled") {
  const setting s{};
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
  const setting s{.blocks = 32, .max_length = 100};
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
