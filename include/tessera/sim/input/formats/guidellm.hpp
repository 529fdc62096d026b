// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/formats/format.hpp>

#include <array>
#include <string_view>

/// @file
/// guidellm's `benchmarks.json`: one run per benchmark; errored and incomplete requests are left out.

TESSERA_NAMESPACE_BEGIN

namespace sim::detail {

inline constexpr std::array guidellm_names{
    column_name{column::arrival, "start_time", 1},
    column_name{column::arrival, "request_start_time", 1},
    column_name{column::arrival, "info.timings.request_start", 1},
    column_name{column::arrival, "scheduler_info.request_timings.request_start", 1},
    column_name{column::prompt, "prompt_tokens"},
    column_name{column::prompt, "input_metrics.text_tokens"},
    column_name{column::output, "output_tokens"},
    column_name{column::output, "output_metrics.text_tokens"},
};
inline constexpr std::array<std::string_view, 2> guidellm_failed{"requests.errored", "requests.incomplete"};
inline constexpr trace_format guidellm_format{.whose = "guidellm's benchmarks",
                                              .names = guidellm_names,
                                              .within = "benchmarks.requests.successful",
                                              .failed = guidellm_failed,
                                              .runs = true};

}  // namespace sim::detail
TESSERA_NAMESPACE_END
