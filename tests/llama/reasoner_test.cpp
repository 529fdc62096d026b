// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support.hpp"

#include <load.hpp>

#include <support/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The tiny reasoning model, with answers that can be checked. Under every composition, with preemptions, with moves
// between slots and contexts and with hang-ups of others, each prompt gets the very same text. Nearly all of it is
// right.

namespace {

using namespace llama_cpp;

struct task {
  std::string prompt;
  std::string completion;  ///< What a model that makes no mistake says.
};

/// The checksum that chooses the prompts that the model was not trained on (zlib's CRC-32).
std::uint32_t crc32(std::string_view text) {
  std::uint32_t crc = 0xffffffffU;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0xedb88320U : 0U);
  }
  return ~crc;
}

/// A prompt of `items` items that is none of the training prompts: see examples/llama_cpp/train.
task make_task(sim::random_engine& rng, std::size_t items) {
  while (true) {
    std::string letters = "abcdefghijklmnopqrstuvwxyz";
    task t{"Add", "<think>"};
    int total = 0;
    for (std::size_t i = 0; i < items; ++i) {
      std::swap(letters[i], letters[i + sim::uniform_below(rng, letters.size() - i)]);
      const int digit = static_cast<int>(sim::uniform_below(rng, 10));
      t.prompt += fmt::format(" {}{}", letters[i], digit);
      t.completion += fmt::format("{}{}:{}+{}={}", i == 0 ? "" : " ", letters[i], total, digit, total + digit);
      total += digit;
    }
    t.prompt += ".";
    t.completion += fmt::format("</think>The sum is {}.", total);
    if (crc32(t.prompt) % 8 == 0) return t;
  }
}

/// What is said when the reasoning has ended.
std::string_view answer_of(std::string_view text) {
  constexpr std::string_view end = "</think>";
  const std::size_t at = text.find(end);
  return at == std::string_view::npos ? std::string_view{} : text.substr(at + end.size());
}

struct outcome {
  std::vector<std::string> texts;
  std::uint64_t preemptions = 0;
  std::uint64_t swaps = 0;
  std::uint64_t moved = 0;
  std::uint64_t migrated = 0;
  server_counts counts;
};

/// Serves all tasks; in between, others come that will be cancelled, and live ones are moved.
outcome serve_all(const model& m, const std::vector<task>& tasks, const char* policy, server_options o, bool disturb) {
  o.clock = [ms = 0]() mutable { return time_point::at_seconds(1e-3 * ++ms); };
  o.pace.tpot = tessera::duration{1e-3};
  o.end_of_reasoning = m.token_of("</think>").value();
  std::map<const served*, std::string> said;
  o.token = [&](const served& r, llama_token t) {
    if (!m.ends_output(t)) said[&r] += m.piece(t);
  };
  const auto s = find_composition(policy).make(m, o);
  sim::random_engine rng{11};
  std::list<served> requests;
  std::list<served> others;
  outcome result;
  std::size_t arrived = 0;
  while (arrived < tasks.size() || !s->idle()) {
    if (arrived < tasks.size() && s->live().size() < 2 * o.limits.residents) {
      served& r = requests.emplace_back();
      REQUIRE(prepare(r, tasks[arrived].prompt, m, tokens{200}, o.limits.longest()) == std::nullopt);
      REQUIRE(ok(s->submit(r)));
      ++arrived;
      if (disturb && arrived % 3 == 0) {
        served& other = others.emplace_back();
        REQUIRE(prepare(other, make_task(rng, 12).prompt, m, tokens{200}, o.limits.longest()) == std::nullopt);
        REQUIRE(ok(s->submit(other)));
      }
    }
    s->step();
    s->deliver();
    if (!disturb) continue;
    if (sim::uniform_below(rng, 10) == 0 && !others.empty()) {
      for (served& other : others) {
        if (s->cancel(other)) break;
      }
    }
    if (sim::uniform_below(rng, 3) == 0 && !s->live().empty()) {
      served& r = *s->live()[sim::uniform_below(rng, s->live().size())];
      result.moved += s->move(r, sim::uniform_below(rng, o.instances)) ? 1U : 0U;
    }
    REQUIRE(s->inconsistency() == "");
  }
  CHECK(s->in_use() == server::usage{});
  result.preemptions = s->counts().preemptions;
  result.swaps = s->counts().swaps_in;
  result.migrated = s->counts().moves;
  result.counts = s->counts();
  for (const served& r : requests) result.texts.push_back(said[&r]);
  return result;
}

TEST_CASE("the tiny reasoner says the same under every composition, and it is right") {
  std::FILE* const file = std::fopen(TESSERA_REASONER, "rb");
  if (file == nullptr) {
    WARN("skipped: there is no " TESSERA_REASONER);
    return;
  }
  static_cast<void>(std::fclose(file));
  const model m{TESSERA_REASONER};

  sim::random_engine rng{2026};
  std::vector<task> tasks;
  for (std::size_t i = 0; i < 240; ++i) tasks.push_back(make_task(rng, 1 + i % 12));

  // Plenty of everything, and nothing disturbs.
  server_options plenty;
  plenty.unified = false;
  plenty.limits.blocks = 16 * 16;
  plenty.limits.max_length = tokens{256};
  const outcome reference = serve_all(m, tasks, "fcfs", plenty, false);
  CHECK(reference.preemptions == 0);
  std::size_t right = 0;
  std::size_t exact = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    right += answer_of(reference.texts[i]) == answer_of(tasks[i].completion) ? 1U : 0U;
    exact += reference.texts[i] == tasks[i].completion ? 1U : 0U;
  }
  std::printf("the tiny reasoner: %zu of %zu unseen prompts of 1 to 12 items answered right, %zu to the last token\n",
              right, tasks.size(), exact);
  CHECK(100 * right >= 99 * tasks.size());
  CHECK(100 * exact >= 90 * tasks.size());

  // Drafts found in each text itself, verified in the step: fewer steps, and not a letter else.
  plenty.drafts = tokens{2};
  const outcome drafted = serve_all(m, tasks, "fcfs", plenty, false);
  std::printf(
      "2 drafts: %llu of %llu accepted, %llu steps instead of %llu\n",
      static_cast<unsigned long long>(drafted.counts.accepted), static_cast<unsigned long long>(drafted.counts.drafts),
      static_cast<unsigned long long>(drafted.counts.steps), static_cast<unsigned long long>(reference.counts.steps));
  CHECK(drafted.texts == reference.texts);
  CHECK(drafted.counts.accepted > 0);
  CHECK(drafted.counts.drafts > drafted.counts.accepted);
  CHECK(drafted.counts.steps < reference.counts.steps);
  plenty.drafts = tokens{};

  // Two contexts, each with KV for about three requests; short turns.
  server_options starved = plenty;
  starved.instances = 2;
  starved.limits.residents = 8;
  starved.limits.blocks = 40;
  starved.quantum = tokens{24};
  tasks.resize(96);
  for (const char* const policy : {"fcfs", "round_robin", "pascal"}) {
    // With a part of the cells for each slot and host memory; and with one pool of cells and without.
    for (const bool unified : {false, true}) {
      starved.unified = unified;
      starved.limits.host_blocks = unified ? 0 : 160;
      CAPTURE(policy, unified);
      starved.drafts = tokens{4};
      const std::vector<task> some{tasks.begin(), tasks.begin() + 40};
      const outcome drafting = serve_all(m, some, policy, starved, true);
      CHECK(drafting.preemptions > 3);
      CHECK(drafting.counts.accepted > 0);
      CHECK(drafting.counts.drafts > drafting.counts.accepted);
      for (std::size_t i = 0; i < some.size(); ++i) CHECK(drafting.texts[i] == reference.texts[i]);
      starved.drafts = tokens{};
      const outcome disturbed = serve_all(m, tasks, policy, starved, true);
      std::printf("%s, %s: %llu preemptions, %llu swapped in, %llu moved, %llu to another context\n", policy,
                  unified ? "unified" : "slots", static_cast<unsigned long long>(disturbed.preemptions),
                  static_cast<unsigned long long>(disturbed.swaps), static_cast<unsigned long long>(disturbed.moved),
                  static_cast<unsigned long long>(disturbed.migrated));
      CHECK(disturbed.preemptions > 10);
      CHECK((disturbed.swaps > 10) == !unified);
      CHECK(disturbed.moved > 20);
      CHECK(disturbed.migrated > 20);
      std::size_t different = 0;
      for (std::size_t i = 0; i < tasks.size(); ++i) different += disturbed.texts[i] == reference.texts[i] ? 0U : 1U;
      CHECK(different == 0);
    }
  }
}

}  // namespace
