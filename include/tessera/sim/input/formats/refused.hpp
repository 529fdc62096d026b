// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/formats/format.hpp>

#include <array>
#include <string_view>

/// @file
/// Common files without single requests, or without tokens, and the files to use instead.

TESSERA_NAMESPACE_BEGIN

namespace sim::detail {

inline constexpr std::array<std::string_view, 1> openai_usage_marks{"num_model_requests"};
inline constexpr trace_format openai_usage_format{
    .whose = "an export of OpenAI's usage",
    .marks = openai_usage_marks,
    .refusal = "requests one by one (these are sums of many requests, of an hour or a day: num_model_requests)"};
inline constexpr std::array<std::string_view, 1> openai_old_usage_marks{"n_context_tokens_total"};
inline constexpr trace_format openai_old_usage_format{
    .whose = "an export of OpenAI's usage",
    .marks = openai_old_usage_marks,
    .refusal = "requests one by one (these are sums of many requests: n_context_tokens_total)"};
inline constexpr std::array<std::string_view, 2> openai_bucket_marks{"results", "start_time"};
inline constexpr trace_format openai_bucket_format{
    .whose = "buckets of OpenAI's usage",
    .marks = openai_bucket_marks,
    .refusal = "requests one by one (these are buckets, sums of many requests)"};
inline constexpr std::array<std::string_view, 2> genai_perf_marks{"experiments", "service_kind"};
inline constexpr trace_format genai_perf_format{
    .whose = "genai-perf's profile export",
    .marks = genai_perf_marks,
    .refusal = "token counts (genai-perf's profile export has none; aiperf's profile_export.jsonl has)"};
inline constexpr std::array<std::string_view, 2> aiperf_summary_marks{"input_sequence_length.avg",
                                                                      "output_sequence_length.avg"};
inline constexpr trace_format aiperf_summary_format{.whose = "aiperf's summary",
                                                    .marks = aiperf_summary_marks,
                                                    .refusal = "requests one by one (give profile_export.jsonl)"};

}  // namespace sim::detail
TESSERA_NAMESPACE_END
