// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/partition/bucketed.hpp>
#include <tessera/partition/chain.hpp>
#include <tessera/partition/exact.hpp>
#include <tessera/partition/flat.hpp>
#include <tessera/partition/merge.hpp>
#include <tessera/sim/model/cost_profile.hpp>
#include <tessera/sim/planning/steady_plan.hpp>
#include <tessera/sim/systems/cascade.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

/// @file
/// Makes the configuration of a `cascade` from a workload's history, as an operator would.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// The method for stages: one of `partition`, or `steady_plan`.
enum class layout : std::uint8_t { exact, bucketed, merge, chain, flat, steady };

/// A plan, and its basis.
struct cascade_plan {
  cost::fit_result cost{};                 ///< Fitted to profiled batches of this cluster's instances.
  double in_flight = 0;                    ///< The number of concurrent requests that the sample stands for.
  std::vector<partition::stage> stages{};  ///< All instances, all lengths.
  double gain = 1;                         ///< From `layout::steady`: see `steady_stages`.
  double carried = 1;                      ///< Likewise.
  double seconds = 0;                      ///< Time of the method, without sorting the sample.
};

/// Most instances in stages: the time of a plan grows with their square, and so do their reports to each other.
inline constexpr std::size_t most_in_stages = 1024;

/// Rows used for planning, evenly spread over the history.
inline constexpr std::size_t planning_sample = 20'000;

/// The most requests of this kind that all instances together can have in flight, by memory and batch.
[[nodiscard]] double most_in_flight(std::span<const trace_row> sample, const cluster_options& o);

/// Plans for `history` at `rate` requests per second. The cost model is fitted to batches like those of section 4.1,
/// with the history's mean output. The sample is planned for full instances, because then the layout matters; in a
/// closed loop, for the given number of requests. `rate` and `least`, the fewest instances of a stage, are used by
/// `layout::steady` alone.
/// Requests that do not fit on an instance are left out. Requires at least one row. A rate that is not positive, or
/// more than a thousand for each instance, counts as more than there is room for.
[[nodiscard]] cascade_plan plan_cascade(const cluster_options& o, std::span<const trace_row> history, double rate,
                                        layout how = layout::exact, std::size_t least = 1);

/// The rate of rows in order of arrival; 0 when all come at once.
[[nodiscard]] double arrival_rate(std::span<const trace_row> rows) noexcept;

/// CascadeInfer as published: stages by `exact`, ranges refined by quality, and the full market. A new request goes to
/// the instance of its stage with the fewest tokens.
[[nodiscard]] cascade::config published_cascade(const cascade_plan& plan);

/// The same mechanisms with two changes that the paper leaves room for. It is meant for `layout::steady`. New requests
/// go to the instance with the fewest tokens, where a prompt token still to be computed counts eight times. So they do
/// not queue behind long prompts.
[[nodiscard]] cascade::config steady_cascade(const cascade_plan& plan);

}  // namespace sim
TESSERA_NAMESPACE_END
