// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/cost/fit.hpp>
#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/model/step_time.hpp>

#include <cstdint>
#include <vector>

/// @file
/// Measurements to fit a cost model to, taken from simulated batches.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// Which batches are measured.
struct cost_profile_options {
  std::int64_t shortest = 128;     ///< Shortest prompt.
  std::int64_t longest = 131'072;  ///< Longest prompt.
  std::int64_t output = 256;       ///< Mean output; a request's output is from half to one and a half of it.
  std::int64_t max_batch = 512;    ///< Largest batch.
  int repeats = 8;                 ///< Batches per length bucket and batch size.
  std::uint64_t seed = 1;          ///< Seed of the random numbers. The same seed gives the same result.
};

/// CascadeInfer's method of profiling (section 4.1) on step times, with room for `kv_tokens`. Prompts come from buckets
/// that double in length, under batch sizes 1, 2, 4, ... as far as memory goes. While a request generates its output,
/// every other request of its batch is replaced once on average. So its latency per output token is a decode step with
/// all at half of their output, plus its batch's prefills over the mean output. Deterministic.
[[nodiscard]] std::vector<cost::profile_row> profile_costs(const step_timer& time, double kv_tokens,
                                                           const cost_profile_options& o = {});

/// The same with the step times and the memory of `p`.
[[nodiscard]] std::vector<cost::profile_row> profile_costs(const profile& p, const cost_profile_options& o = {});

}  // namespace sim
TESSERA_NAMESPACE_END
