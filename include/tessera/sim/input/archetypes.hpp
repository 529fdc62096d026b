// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/workload.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

/// @file
/// Kinds of tasks with their lengths and promised latencies, and bursts of them: the workloads of Phasor's evaluation
/// (tables 1 and 3, section 2.1).

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// A kind of task. The paper gives mean lengths; the log-normal spread about them is our assumption.
struct archetype {
  std::string_view name;   ///< Short name, as in the paper.
  std::string_view task;   ///< A description of such requests.
  double prompt = 0;       ///< Mean tokens.
  double output = 0;       ///< Mean tokens.
  double variation = 0.3;  ///< Coefficient of variation of both lengths.
  double ttft_slo_s = 0;   ///< Promised time to first token, in seconds.
  double tpot_slo_s = 0;   ///< Promised time per output token, in seconds.
};

/// Phasor's six: lengths from table 1, promises from table 3.
[[nodiscard]] const std::array<archetype, 6>& archetypes() noexcept;

/// A period with one mean rate of arrivals.
struct rate_phase {
  double seconds = 0;  ///< Its duration.
  double rate = 0;     ///< Requests per second, above 0.
};

/// Requests of one kind. Arrivals have the coefficient of variation `cv` about a rate that changes by phases. The same
/// seed gives the same rows. @throws usage_error as `arrival_generator`.
[[nodiscard]] std::vector<trace_row> generate(const archetype& a, const std::vector<rate_phase>& phases, double cv,
                                              std::uint64_t seed);

}  // namespace sim
TESSERA_NAMESPACE_END
