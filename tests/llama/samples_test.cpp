// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support.hpp"

#include <load.hpp>
#include <sampler.hpp>

#include <support/catch.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <vector>

// Several answers to one prompt, which is computed once: each is what a request of its own with its seed says. This
// holds under every composition, preempted or not. It holds with one pool of cells, where they share the prompt's, and
// with a part for each slot.

namespace {

using namespace llama_cpp;

TEST_CASE("choose: by the logits, the seed and the place alone") {
  const std::vector<float> logits{0, 2, 1, 2, -50};
  CHECK(choose(logits, {}, 3) == 1);
  CHECK(choose(logits, {.temperature = 1, .seed = 4}, 7) == choose(logits, {.temperature = 1, .seed = 4}, 7));
  std::map<llama_token, int> seen;
  constexpr int draws = 20000;
  for (int i = 0; i < draws; ++i) ++seen[choose(logits, {.temperature = 0.5F, .seed = 9}, static_cast<std::size_t>(i))];
  // exp(x / temperature), and all of them together.
  const double sum = 1 + 2 * std::exp(4.0) + std::exp(2.0);
  CHECK(std::abs(seen[0] / double{draws} - 1 / sum) < 0.01);
  CHECK(std::abs(seen[1] / double{draws} - std::exp(4.0) / sum) < 0.015);
  CHECK(std::abs(seen[2] / double{draws} - std::exp(2.0) / sum) < 0.01);
  CHECK(std::abs(seen[3] / double{draws} - std::exp(4.0) / sum) < 0.015);
  CHECK(seen[4] == 0);
  std::map<llama_token, int> by_seed;
  for (std::uint64_t s = 0; s < 2000; ++s) ++by_seed[choose(logits, {.temperature = 1, .seed = s}, 5)];
  CHECK(by_seed.size() == 4);
}

struct group {
  std::vector<llama_token> prompt;
  std::int64_t output = 0;
  std::int64_t reasoning = 0;
  std::size_t n = 1;
};

std::vector<group> make_groups(const model& m, std::size_t n) {
  sim::random_engine rng{21};
  std::vector<group> all(n);
  for (group& g : all) {
    served r;
    fill_prompt(r, tokens{static_cast<std::int64_t>(1 + sim::uniform_below(rng, 90))}, m, rng);
    g.prompt = r.sequence;
    g.output = 1 + static_cast<std::int64_t>(sim::uniform_below(rng, 50));
    g.reasoning = static_cast<std::int64_t>(sim::uniform_below(rng, static_cast<std::uint64_t>(g.output)));
    g.n = 1 + sim::uniform_below(rng, 5);
  }
  return all;
}

struct result {
  std::vector<std::vector<llama_token>> texts;  ///< One for each sample of each group, in order.
  server_counts counts;
};

/// @param together a group's samples go on from one prompt; else all are requests of their own.
result serve_groups(const model& m, const std::vector<group>& groups, const char* policy, server_options o,
                    bool together) {
  o.clock = [ms = 0]() mutable { return time_point::at_seconds(1e-3 * ++ms); };
  o.pace.tpot = tessera::duration{1e-5};
  std::size_t closed = 0;
  o.closed = [&](served&) { ++closed; };
  const auto s = find_composition(policy).make(m, o);
  std::list<served> requests;
  std::vector<served*> to_submit;
  for (const group& g : groups) {
    served* first = nullptr;
    for (std::size_t i = 0; i != g.n; ++i) {
      served& r = requests.emplace_back();
      r.id = requests.size();
      r.how = {.temperature = 0.8F, .seed = r.id};
      if (i != 0 && together) {
        first->samples.push_back(&r);
        continue;
      }
      first = &r;
      r.sequence = g.prompt;
      r.fixed_length = true;
      r.max_output = tokens{g.output};
      r.reasoning_budget = tokens{g.reasoning};
      to_submit.push_back(&r);
    }
  }
  std::size_t next = 0;
  while (next != to_submit.size() || !s->idle()) {
    if (next != to_submit.size() && s->live().size() < 2 * o.limits.residents) {
      REQUIRE(ok(s->submit(*to_submit[next++])));
    }
    s->step();
    s->deliver();
    REQUIRE(s->inconsistency() == "");
  }
  CHECK(s->in_use() == server::usage{});
  CHECK(closed == requests.size());
  result out{.texts = {}, .counts = s->counts()};
  for (const served& r : requests) {
    CHECK(r.state().life == tessera::lifecycle::finished);
    CHECK(r.record.output_tokens() == r.max_output.count());
    out.texts.push_back(r.sequence);
  }
  return out;
}

TEST_CASE("samples of a prompt say what requests of their own with these seeds say") {
  const model& m = test::random_model();
  const std::vector<group> groups = make_groups(m, 40);
  server_options plenty;
  plenty.unified = false;
  plenty.limits.blocks = 16 * 16;
  plenty.limits.max_length = tokens{256};
  const result apart = serve_groups(m, groups, "fcfs", plenty, false);
  CHECK(apart.counts.preemptions == 0);
  CHECK(apart.counts.forks == 0);
  std::size_t prompts = 0;
  for (const group& g : groups) prompts += (g.n - 1) * g.prompt.size();

  const result together = serve_groups(m, groups, "fcfs", plenty, true);
  CHECK((together.texts == apart.texts));
  CHECK(together.counts.forks > 50);
  // Each fork spares its prompt.
  CHECK(together.counts.tokens + prompts / 2 < apart.counts.tokens);

  server_options starved = plenty;
  starved.limits.residents = 8;
  starved.limits.blocks = 24;
  starved.quantum = tokens{12};
  std::uint64_t preemptions = 0;
  for (const char* const policy : {"fcfs", "round_robin", "pascal"}) {
    for (const bool unified : {false, true}) {
      for (const std::size_t host_blocks : {std::size_t{0}, std::size_t{96}}) {
        starved.unified = unified;
        starved.flash_attention = false;
        starved.limits.host_blocks = host_blocks;
        starved.instances = host_blocks == 0 ? 1 : 2;
        starved.drafts = tokens{unified ? 3 : 0};
        CAPTURE(policy, unified, host_blocks);
        const result r = serve_groups(m, groups, policy, starved, true);
        CHECK(r.counts.forks > 20);
        std::size_t different = 0;
        for (std::size_t i = 0; i != r.texts.size(); ++i) different += r.texts[i] == apart.texts[i] ? 0U : 1U;
        CHECK(different == 0);
        preemptions += r.counts.preemptions;
      }
    }
  }
  CHECK(preemptions > 300);
}

TEST_CASE("samples: hang-ups before, while and after they are made") {
  const model& m = test::random_model();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    sim::random_engine rng{seed};
    server_options o;
    o.clock = [ms = 0]() mutable { return time_point::at_seconds(1e-3 * ++ms); };
    o.pace.tpot = tessera::duration{1e-5};
    o.unified = seed % 2 == 0;
    o.limits.residents = 6;
    o.limits.blocks = 16;
    o.limits.max_length = tokens{128};
    std::size_t closed = 0;
    std::list<served> requests;
    o.closed = [&](served& r) {  // nothing refers to it any more
      ++closed;
      CHECK(r.slot < 0);
      requests.remove_if([&](const served& x) { return &x == &r; });
    };
    std::unique_ptr<server> s;
    const auto hang_up = [&] {
      if (!s->live().empty()) static_cast<void>(s->cancel(*s->live()[sim::uniform_below(rng, s->live().size())]));
    };
    o.token = [&](const served&, llama_token) {
      if (sim::uniform_below(rng, 30) == 0) hang_up();
    };
    s = find_composition("round_robin").make(m, o);
    for (int i = 0; i < 12; ++i) {
      served& r = requests.emplace_back();
      r.fixed_length = true;
      r.max_output = tokens{1 + static_cast<std::int64_t>(sim::uniform_below(rng, 20))};
      fill_prompt(r, tokens{static_cast<std::int64_t>(1 + sim::uniform_below(rng, 60))}, m, rng);
      for (std::uint64_t n = sim::uniform_below(rng, 8); n > 0; --n) {
        served& sample = requests.emplace_back();
        sample.how = {.temperature = 1, .seed = n};
        r.samples.push_back(&sample);
      }
      REQUIRE(ok(s->submit(r)));
    }
    const std::size_t all = requests.size();
    while (!s->idle()) {
      if (sim::uniform_below(rng, 20) == 0) hang_up();
      s->step();
      s->deliver();
      REQUIRE(s->inconsistency() == "");
    }
    CHECK(s->in_use() == server::usage{});
    // A request that is left was a sample of one that ended before.
    for (const served& r : requests) CHECK(r.state().life == tessera::lifecycle::idle);
    CHECK(closed + requests.size() == all);
    CHECK(closed > 12);
  }
}

}  // namespace
