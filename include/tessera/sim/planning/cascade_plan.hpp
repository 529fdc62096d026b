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
/// From a workload's history to the configuration of a `cascade`, as an operator would make it.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// How the stages are made: a method of `partition`, or `steady_plan`.
enum class layout : std::uint8_t { exact, bucketed, merge, chain, flat, steady };

/// A plan, and what it was made of.
struct cascade_plan {
  cost::fit_result cost{};                 ///< Fitted to profiled batches of this cluster's instances.
  double in_flight = 0;                    ///< Requests that the sample was taken to be in flight.
  std::vector<partition::stage> stages{};  ///< All instances, all lengths.
  double gain = 1;                         ///< By `layout::steady`: see `steady_stages`.
  double carried = 1;                      ///< Likewise.
  double seconds = 0;                      ///< What the method took, without sorting the sample.
};

/// Most instances that stages are made of: a plan takes time with their square, and so do their reports to each other.
inline constexpr std::size_t most_in_stages = 1024;

/// Rows that planning looks at, evenly spread over the history.
inline constexpr std::size_t planning_sample = 20'000;

/// The most requests like these that all instances together can have in flight: what memory and batch hold.
[[nodiscard]] double most_in_flight(std::span<const trace_row> sample, const cluster_options& o);

/// Plans for `history` at `rate` requests per second. The cost model is fitted to batches like those of section 4.1,
/// with the history's mean output. The sample is planned for as if all instances were full, because that is when the
/// layout matters; with a closed loop, for as many as are in it. `rate` and `least`, the fewest instances of a stage,
/// are read by `layout::steady` alone. Requests that do not fit on an instance are left out. Requires at least one row;
/// a rate that is not positive, or more than a thousand for each instance, counts as that: more than there is room for.
[[nodiscard]] cascade_plan plan_cascade(const cluster_options& o, std::span<const trace_row> history, double rate,
                                        layout how = layout::exact, std::size_t least = 1);

/// The rate of rows in order of arrival; 0 when all come at once.
[[nodiscard]] double arrival_rate(std::span<const trace_row> rows) noexcept;

/// CascadeInfer as published: stages by `exact`, ranges refined by quality, the full market, and new requests to the
/// instance of their stage with the fewest tokens.
[[nodiscard]] cascade::config published_cascade(const cascade_plan& plan);

/// The same mechanisms with two changes that the paper leaves room for: meant for `layout::steady`, and new requests go
/// where the fewest tokens are when a prompt token that is still to be computed counts eight times, so that they do not
/// queue behind long prompts.
[[nodiscard]] cascade::config steady_cascade(const cascade_plan& plan);

}  // namespace sim
TESSERA_NAMESPACE_END
