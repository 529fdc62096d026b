// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/formats/format.hpp>

#include <array>
#include <string_view>

/// @file
/// aiperf's `profile_export.jsonl`: a record for each request; the warm-up is left out.

TESSERA_NAMESPACE_BEGIN

namespace sim::detail {

inline constexpr std::array aiperf_names{
    column_name{column::arrival, "metadata.request_start_ns", 1e9},
    column_name{column::ended, "metadata.request_end_ns", 1e9},
    column_name{column::prompt, "metrics.input_sequence_length.value"},
    column_name{column::output, "metrics.output_sequence_length.value"},
    column_name{column::reasoning, "metrics.reasoning_token_count.value"},
    column_name{column::session, "metadata.x_correlation_id"},
    column_name{column::session, "metadata.conversation_id"},
    column_name{column::turn, "metadata.turn_index"},
    column_name{column::kind, "metadata.benchmark_phase"},
    column_name{column::error, "metadata.was_cancelled"},
    column_name{column::error, "error"},
};
inline constexpr std::array<std::string_view, 1> aiperf_marks{"metadata.request_start_ns"};
inline constexpr std::array<std::string_view, 1> aiperf_kinds{"profiling"};
inline constexpr trace_format aiperf_format{.whose = "aiperf's profile_export.jsonl",
                                            .names = aiperf_names,
                                            .marks = aiperf_marks,
                                            .kinds = aiperf_kinds,
                                            .marked = true};

}  // namespace sim::detail
TESSERA_NAMESPACE_END
