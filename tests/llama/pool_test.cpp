// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support.hpp"

#include <load.hpp>

#include <support/catch.hpp>

#include <cstdint>
#include <cstdlib>
#include <string>

// If our block pool admits, llama.cpp has room. Over many random steps with preemptions, hang-ups and moves,
// llama_decode never answers anything but 0 (the engine throws). The sequences in llama.cpp are exactly those that the
// schedulers count, and at the end nothing is left. TESSERA_LLAMA_STEPS sets the number of steps per case (default
// 3,000).

namespace {

using namespace llama_cpp;

std::uint64_t steps() {
  const char* const text = std::getenv("TESSERA_LLAMA_STEPS");
  return text == nullptr ? 3000 : std::strtoull(text, nullptr, 10);
}

/// A clock that only counts: the run is the same on every machine.
std::function<time_point()> counting_clock() {
  return [ms = 0]() mutable { return time_point::at_seconds(1e-3 * ++ms); };
}

server_options small(std::size_t instances, bool unified) {
  server_options o;
  o.instances = instances;
  // 48 blocks of 16 tokens for up to 8 sequences of up to 384: about three long ones fill it.
  o.limits = {.requests = 24,
              .blocks = 48,
              .block_size = tokens{16},
              .residents = 8,
              .host_blocks = 64,
              .max_length = tokens{384}};
  o.step_tokens = tokens{64};
  o.unified = unified;
  o.quantum = tokens{32};
  o.demote_above = tokens{200};
  o.pace.tpot = tessera::duration{0.002};
  o.clock = counting_clock();
  return o;
}

soak_result soak(const char* policy, std::size_t instances, bool unified, std::size_t host_blocks, std::uint64_t seed,
                 std::int64_t drafts = 0, const model& m = test::random_model()) {
  server_options o = small(instances, unified);
  o.limits.host_blocks = host_blocks;
  o.drafts = tokens{drafts};
  o.end_of_reasoning = m.token_of("</think>").value();
  soak_test test{find_composition(policy),
                 m,
                 o,
                 {.steps = steps(), .seed = seed, .longest_prompt = tokens{250}, .longest_output = tokens{200}}};
  const soak_result r = test.run([](const soak_result&) {});
  std::printf(
      "%s, %zu instances, %s: %llu steps, %llu finished, %llu cancelled, %llu preempted, %llu swapped in, %llu moved, "
      "%llu to another context\n",
      policy, instances, unified ? "unified" : "slots", static_cast<unsigned long long>(r.counts.steps),
      static_cast<unsigned long long>(r.finished), static_cast<unsigned long long>(r.cancelled),
      static_cast<unsigned long long>(r.counts.preemptions), static_cast<unsigned long long>(r.counts.swaps_in),
      static_cast<unsigned long long>(r.moved), static_cast<unsigned long long>(r.counts.moves));
  CHECK(r.wrong == "");
  CHECK(r.counts.steps >= steps());
  // It was a test: each of these things happened, and often.
  const std::uint64_t often = steps() / 200;
  CHECK(r.finished > often);
  CHECK(r.cancelled > often);
  CHECK(r.malformed > often);
  CHECK(r.refused >= r.malformed);
  CHECK(r.moved > often);
  CHECK(r.counts.preemptions > often);
  return r;
}

TEST_CASE("what the block pool admits, llama.cpp has room for") {
  SECTION("one pool of cells") {
    const char* const policy = GENERATE("fcfs", "round_robin", "pascal");
    const soak_result r = soak(policy, 1, true, 64, 1);
    CHECK(r.counts.swaps_in > steps() / 300);
  }
  SECTION("two contexts") {
    const soak_result r = soak("pascal", 2, true, 64, 2);
    CHECK(r.counts.moves > steps() / 100);
  }
  SECTION("a part for each slot") {
    const soak_result r = soak("pascal", 2, false, 64, 3);
    CHECK(r.counts.moves > steps() / 100);
  }
  SECTION("without host memory: preempted ones are computed again") {
    const soak_result r = soak("round_robin", 1, true, 0, 4);
    CHECK(r.counts.swaps_in == 0);
  }
  SECTION("layers that differ") {
    const auto kind = GENERATE(layer_kind::windows, layer_kind::recurrent);
    const model m = test::make_random_model({.kind = kind});
    soak("pascal", 2, true, 64, 6, kind == layer_kind::windows ? 3 : 0, m);
  }
  SECTION("with drafts") {
    const soak_result r = soak("pascal", 2, GENERATE(false, true), 64, 5, 5);
    CHECK(r.counts.moves > steps() / 100);
    CHECK(r.counts.accepted > steps() / 10);
    CHECK(r.counts.drafts > r.counts.accepted + steps() / 10);
  }
}

}  // namespace
