// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A published policy, which is compiled in tessera::sim, on a small workload.
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/policies/policies.hpp>

#include <cstddef>
#include <cstdio>

namespace sim = tessera::sim;
using namespace tessera::literals;

int main() {
  const auto rows = sim::generate(sim::find_workload("reasoning-chat"), 40, 10.0, 1);
  const sim::cluster_options options{.instances = 2,
                                     .instance = {.limits = {.blocks = 2500, .residents = 256},
                                                  .step = {.max_batch = 256, .token_budget = 8192_tok},
                                                  .timer = sim::step_timer{sim::find_profile("h100-96gb-qwen-32b")}}};
  const auto policies = sim::select_policies(sim::published_policies(), "pascal");
  const sim::run_result result = policies.front().run(options, rows, [](std::size_t) {});
  if (result.requests.size() != rows.size()) return 1;
  std::printf("simulated: %zu requests\n", result.requests.size());
}
