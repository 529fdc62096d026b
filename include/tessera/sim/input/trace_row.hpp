// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/block_chain.hpp>

#include <cstdint>
#include <limits>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// Most tenants of a workload: as many as `gate::fair_tenants` has room for.
inline constexpr std::int32_t max_tenants = 64;

/// One request of a workload.
struct trace_row {
  double arrival_s = 0;               ///< Seconds from the start of the trace; NaN while the trace has no arrivals.
  std::int64_t prompt_tokens = 1;     ///< At least 1.
  std::int64_t output_tokens = 1;     ///< At least 1: reasoning and answer.
  std::int64_t reasoning_tokens = 0;  ///< Of the output; 0: the model answers at once.
  std::int64_t answer_tokens = 1;     ///< Of the output; 0: it was cut off while it reasoned.
  float score = std::numeric_limits<float>::quiet_NaN();  ///< Predicted rank of the length; NaN: none.
  std::int64_t session = -1;  ///< Rows with the same number are the turns of one session, in their order; -1: of none.
  /// Of a later turn: seconds from the last token of the turn before to this one, which comes no earlier than at
  /// `arrival_s`.
  double think_s = 0;
  /// It ends with the call of a tool: then its server knows that another turn follows. Of a person nobody knows that.
  bool calls_tool = false;
  std::int32_t tenant = -1;      ///< Whose it is, below `max_tenants`; -1: nobody says.
  std::vector<text_run> runs{};  ///< What the prompt begins with, as far as others may share it; see `turns`.
};

}  // namespace sim
TESSERA_NAMESPACE_END
