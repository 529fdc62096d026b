// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/formats/format.hpp>

#include <array>
#include <string_view>

/// @file
/// LLMPerf's `..._individual_responses.json`, which has no arrivals.

TESSERA_NAMESPACE_BEGIN

namespace sim::detail {

inline constexpr std::array llmperf_names{
    column_name{column::prompt, "number_input_tokens"},
    column_name{column::output, "number_output_tokens"},
    column_name{column::error, "error_code"},
};
inline constexpr trace_format llmperf_format{.whose = "LLMPerf's individual responses", .names = llmperf_names};
inline constexpr std::array<std::string_view, 1> llmperf_summary_marks{"results_num_completed_requests"};
inline constexpr trace_format llmperf_summary_format{
    .whose = "LLMPerf's summary",
    .marks = llmperf_summary_marks,
    .refusal = "requests one by one (give the file ..._individual_responses.json)"};

}  // namespace sim::detail
TESSERA_NAMESPACE_END
