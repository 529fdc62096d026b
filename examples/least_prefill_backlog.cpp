// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Instances that prefill and decode. A request goes where there is headroom by expected lengths, as far as these are
// known. Among those instances it goes to the one with the least prefill backlog. For comparison: the instance with the
// most headroom.

#include <tessera/headroom/prefill_cost.hpp>
#include <tessera/headroom/space.hpp>
#include <tessera/placement/least_prefill_backlog.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>

namespace {

using namespace tessera::literals;
using tessera::blocks;
using tessera::blocks_for;
using tessera::tokens;

constexpr tessera::headroom::prefill_cost prompt_cost{.alpha = 2e5, .beta = 1.6e10};
constexpr tessera::headroom::prefill_budget promised{.peak_flops = 400e12, .ttft = 1.0_s};
constexpr blocks capacity{4000};  // of 16 tokens

// What a router keeps of an instance; `placement::` reads the first four.
struct instance {
  std::size_t requests = 0;
  double phi = 1, error = 0, prefill_backlog = 0;
  blocks used{};       // that its requests are expected to hold in the end, prompts included
  double squares = 0;  // of what each holds

  void add(tokens prompt, tokens expected) {
    const blocks held = blocks_for(prompt + expected, 16_tok);
    ++requests;
    used += held;
    squares += static_cast<double>(held.count() * held.count());
    look();
  }
  void remove(tokens prompt, tokens expected) {
    const blocks held = blocks_for(prompt + expected, 16_tok);
    --requests;
    used -= held;
    squares -= static_cast<double>(held.count() * held.count());
    look();
  }
  void look() {
    phi = std::min(1 - prefill_backlog / promised.flops(), tessera::headroom::space_freeness(used, {}, capacity));
    error = std::sqrt(squares) / static_cast<double>(capacity.count());  // a share of the blocks, as Phi is
  }
};

template <class Policy>
void route(const char* name, Policy policy) {
  std::array<instance, 3> all;
  for (instance& one : all) {
    for (int i = 0; i != 20; ++i) one.add(100_tok, 400_tok);
  }
  for (int i = 0; i != 3; ++i) all[2].remove(100_tok, 400_tok);  // three have just ended there
  std::printf("%s:", name);
  for (int i = 0; i != 6; ++i) {  // six prompts, before any has been computed
    const std::size_t to = policy(all);
    all[to].prefill_backlog += prompt_cost.flops(500_tok);
    all[to].add(500_tok, 400_tok);
    std::printf(" %zu", to);
  }
  std::printf("; backlog, s:");
  for (const instance& one : all) std::printf(" %.3f", one.prefill_backlog / promised.peak_flops);
  std::printf("\n");
}

}  // namespace

int main() {
  route("the most headroom", tessera::placement::highest_phi{});
  route("the least backlog", tessera::placement::least_prefill_backlog{});
}

/* output:
the most headroom: 2 2 0 1 2 0; backlog, s: 0.040 0.020 0.060
the least backlog: 0 1 2 0 1 2; backlog, s: 0.040 0.040 0.040
*/
