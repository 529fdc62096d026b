// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/pool_sizes.hpp>
#include <tessera/sim/planning/due_first_config.hpp>
#include <tessera/sim/policies/policy.hpp>
#include <tessera/sim/traffic/usual_think.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// @file
/// The policies that come with the library, by name. Each is compiled in a source of its own.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Half of the workers prefill, half decode.
[[nodiscard]] constexpr pool_sizes halves(std::size_t instances) noexcept {
  return {.prefill = instances - instances / 2, .decode = instances / 2, .mixed = 0};
}
/// Three eighths prefill, three eighths decode (at least one each), and the rest is mixed, as in Phasor's evaluation.
/// Requires: two instances at least.
[[nodiscard]] constexpr pool_sizes three_pools(std::size_t instances) noexcept {
  TESSERA_ASSERT(instances >= 2, "one to prefill and one to decode");
  const std::size_t each = instances * 3 / 8 > 0 ? instances * 3 / 8 : 1;
  return {.prefill = each, .decode = each, .mixed = instances - 2 * each};
}

/// `tessera::due_first` with all that belongs to it, or with some of it. It knows nothing beforehand, and learns while
/// it runs; `run_due_first` takes a history. Without scores it runs too, and expects the mean of the lengths, or of
/// those in the same class of prompts.
[[nodiscard]] policy due_first_policy(std::string name, const due_first_config& config = {});

/// The scores of `rows` as ranks from 0 to 1: the part of the scores that are smaller, and half of those that are
/// equal. Who has none keeps none. O(n log n).
void rank_scores(std::span<trace_row> rows);

/// How much longer the request of the highest score may wait than that of the lowest, under `pars-smooth`.
inline constexpr duration longest_overtaking{600.0};

/// PARS: the lowest score first, but whoever has waited for `threshold` goes ahead.
[[nodiscard]] policy pars_policy(std::string name, std::string summary, duration threshold);

/// First come, first served with all the KV memory that `rows` can ever take: what no scheduler can do better for
/// memory, and a bound for those that preempt for it.
[[nodiscard]] policy oracle_policy();

/// A policy with stall-free steps: prompts in chunks as small as a target TPOT asks for.
[[nodiscard]] policy with_bounded_steps(policy p);

/// What prompts may add to a step that is to take `target_s`, by four steps that `timer` is asked for.
[[nodiscard]] cost::prefill_in_time time_prefills(const step_timer& timer, double target_s);

/// Engines of `tessera::fcfs` with a prefix cache, which most baselines have in common.
[[nodiscard]] engine_maker fcfs_engines();

/// The policies that come with the library.
[[nodiscard]] std::vector<policy> published_policies();

/// Four of them, fcfs, pascal, sarathi and due-first: a program that links these alone is compiled in half the time.
[[nodiscard]] std::vector<policy> shown_policies();

/// The orders of `tessera::order` by name, for policies that are composed by hand: each over the composition that the
/// published ones have in common, `preempt::swap` and `admit::watermark`, without migration, and with the placement
/// open. What an order must know, it has as the published policy of that order has it.
[[nodiscard]] std::vector<policy> composed_orders();

}  // namespace sim
TESSERA_NAMESPACE_END
