// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/block_chain.hpp>

#include <cstdint>
#include <limits>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// Most tenants of a workload: the capacity of `gate::fair_tenants`.
inline constexpr std::int32_t max_tenants = 64;

/// One request of a workload.
struct trace_row {
  double arrival_s = 0;               ///< Seconds from the start of the trace; NaN while the trace has no arrivals.
  std::int64_t prompt_tokens = 1;     ///< At least 1.
  std::int64_t output_tokens = 1;     ///< At least 1: reasoning and answer.
  std::int64_t reasoning_tokens = 0;  ///< The reasoning tokens of the output; 0: the model answers at once.
  std::int64_t answer_tokens = 1;     ///< The answer tokens of the output; 0: it was cut off while it reasoned.
  float score = std::numeric_limits<float>::quiet_NaN();  ///< Predicted rank of the length; NaN: none.
  std::int64_t session = -1;  ///< Rows with the same number are the turns of one session, in their order; -1: no
                              ///< session.
  /// For a later turn: seconds from the last token of the turn before. It comes no earlier than `arrival_s`.
  double think_s = 0;
  /// It ends with a tool call: then its server knows that another turn follows. With a human user that is unknown.
  bool calls_tool = false;
  std::int32_t tenant = -1;      ///< Its tenant, below `max_tenants`; -1: unknown.
  std::vector<text_run> runs{};  ///< The shareable beginning of the prompt; see `turns`.
};

}  // namespace sim
TESSERA_NAMESPACE_END
