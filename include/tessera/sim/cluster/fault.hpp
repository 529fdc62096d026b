// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/sim/error.hpp>
#include <tessera/sim/random.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

/// @file
/// What goes wrong with the instances of a simulated cluster, and when.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// What happens to an instance.
enum class fault_kind : std::uint8_t {
  dies,   ///< It stops, and what is in its memory is lost. When it is over, it is back with empty memory.
  hangs,  ///< It computes nothing, and loses nothing: the step under way ends so much later.
  slows,  ///< Steps that begin meanwhile take `factor` times as long.
};

/// One thing that goes wrong.
struct fault {
  fault_kind kind = fault_kind::dies;                      ///< What happens.
  std::size_t instance = 0;                                ///< To which instance.
  double at_s = 0;                                         ///< When, on the time line of the arrivals.
  double for_s = std::numeric_limits<double>::infinity();  ///< How long. Only death may last for ever.
  double factor = 1;  ///< For `slows`: how many times as long a step takes. More than 0.
};

/// Whether a cluster of `instances` instances can have this fault.
[[nodiscard]] bool valid(const fault& f, std::size_t instances) noexcept;

/// Deaths of instances that fail independently of each other, from `from_s` to `to_s`. Each instance alternately runs
/// for an exponential time of mean `mtbf_s` and is dead for an exponential time of mean `mttr_s`. Every instance draws
/// from a stream of its own, so that a larger cluster has the same deaths and more. In order of time.
[[nodiscard]] std::vector<fault> random_deaths(std::size_t instances, double from_s, double to_s, double mtbf_s,
                                               double mttr_s, std::uint64_t seed);

/// Reads `die:3@120+60` (instance 3 dies at 120 s and is back after 60), `die:3@120` (for ever), `hang:3@120+10`,
/// `slow:3@120+60x2.5`. @throws usage_error
[[nodiscard]] fault parse_fault(std::string_view text);

}  // namespace sim
TESSERA_NAMESPACE_END
