// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/formats/format.hpp>

#include <array>
#include <string_view>

/// @file
/// inference-perf's `per_request_lifecycle_metrics.json`; the second name of a count is the newer one.

TESSERA_NAMESPACE_BEGIN

namespace sim::detail {

inline constexpr std::array inference_perf_names{
    column_name{column::arrival, "start_time", 1},
    column_name{column::prompt, "info.input_tokens"},
    column_name{column::prompt, "info.request_metrics.text.input_tokens"},
    column_name{column::output, "info.output_tokens"},
    column_name{column::output, "info.response_metrics.output_tokens"},
    column_name{column::error, "error"},
};
inline constexpr std::array<std::string_view, 3> inference_perf_marks{"start_time", "end_time", "info"};
inline constexpr trace_format inference_perf_format{.whose = "inference-perf's per_request_lifecycle_metrics.json",
                                                    .names = inference_perf_names,
                                                    .marks = inference_perf_marks,
                                                    .marked = true};
inline constexpr std::array<std::string_view, 2> inference_perf_summary_marks{"load_summary", "successes"};
inline constexpr trace_format inference_perf_summary_format{
    .whose = "inference-perf's summary",
    .marks = inference_perf_summary_marks,
    .refusal =
        "requests one by one (set report.request_lifecycle.per_request, and give "
        "per_request_lifecycle_metrics.json)"};

}  // namespace sim::detail
TESSERA_NAMESPACE_END
