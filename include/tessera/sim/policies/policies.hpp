// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/pool_sizes.hpp>
#include <tessera/sim/planning/due_first_config.hpp>
#include <tessera/sim/policies/policy.hpp>
#include <tessera/sim/traffic/tool_gap.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// @file
/// The policies that come with the library, by name. Each is compiled in a source file of its own.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Half of the workers prefill, half decode.
[[nodiscard]] constexpr pool_sizes halves(std::size_t instances) noexcept {
  return {.prefill = instances - instances / 2, .decode = instances / 2, .mixed = 0};
}
/// Three eighths prefill, three eighths decode (at least one each), and the rest is mixed, as in Phasor's evaluation.
/// Requires at least two instances.
[[nodiscard]] constexpr pool_sizes three_pools(std::size_t instances) noexcept {
  TESSERA_ASSERT(instances >= 2, "one to prefill and one to decode");
  const std::size_t each = instances * 3 / 8 > 0 ? instances * 3 / 8 : 1;
  return {.prefill = each, .decode = each, .mixed = instances - 2 * each};
}

/// `tessera::due_first` with all its parts, or with some of them. It knows nothing in advance, and learns while it
/// runs; `run_due_first` takes a history. It also runs without scores. Then it expects the mean length, or the mean of
/// requests in the same class of prompts.
[[nodiscard]] policy due_first_policy(std::string name, const due_first_config& config = {});

/// PARS: the lowest score first, except that a request that has waited for `threshold` goes ahead.
[[nodiscard]] policy pars_policy(std::string name, std::string summary, duration threshold);

/// A policy with stall-free steps: prompt chunks as small as a target TPOT requires.
[[nodiscard]] policy with_bounded_steps(policy p);

/// The prefill tokens of a step that is to take `target_s`, from four step times given by `timer`.
[[nodiscard]] cost::prefill_in_time time_prefills(const step_timer& timer, double target_s);

/// Engines of `tessera::fcfs` with a prefix cache: the common base of most baselines.
[[nodiscard]] engine_maker fcfs_engines();

/// The policies that come with the library.
[[nodiscard]] std::vector<policy> published_policies();

/// Four of these: fcfs, pascal, sarathi and due-first. A program that links only these compiles in half the time.
[[nodiscard]] std::vector<policy> shown_policies();

/// The orders of `tessera::order` by name, for policies composed by hand. Each is over the composition that the
/// published policies share: `preempt::swap` and `admit::watermark`, without migration, and with the placement open. An
/// order's parameters are those of its published policy.
[[nodiscard]] std::vector<policy> composed_orders();

}  // namespace sim
TESSERA_NAMESPACE_END
