// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/formats/format.hpp>

#include <array>
#include <string_view>

/// @file
/// The project's own columns, and their names in service logs, ServeGen and OpenAI's responses.

TESSERA_NAMESPACE_BEGIN

namespace sim::detail {

inline constexpr std::array own_names{
    column_name{column::arrival, "arrival_s", 1},
    column_name{column::arrival, "arrival_ms", 1e3},
    column_name{column::arrival, "arrival_us", 1e6},
    column_name{column::arrival, "arrival_ns", 1e9},
    column_name{column::arrival, "arrival"},
    column_name{column::arrival, "arrival_time"},
    column_name{column::arrival, "timestamp"},
    column_name{column::arrival, "timestamp_s", 1},
    column_name{column::arrival, "timestamp_ms", 1e3},
    column_name{column::arrival, "timestamp_us", 1e6},
    column_name{column::arrival, "timestamp_ns", 1e9},
    column_name{column::arrival, "start_time"},
    column_name{column::arrival, "start_time_ms", 1e3},
    column_name{column::arrival, "starttime"},
    column_name{column::arrival, "request_time"},
    column_name{column::arrival, "created_at"},
    column_name{column::arrival, "created"},
    column_name{column::arrival, "datetime"},
    column_name{column::prompt, "prompt_tokens"},
    column_name{column::prompt, "input_tokens"},
    column_name{column::prompt, "usage.prompt_tokens"},
    column_name{column::prompt, "usage.input_tokens"},
    column_name{column::output, "output_tokens"},
    column_name{column::output, "completion_tokens"},
    column_name{column::output, "generated_tokens"},
    column_name{column::output, "usage.completion_tokens"},
    column_name{column::output, "usage.output_tokens"},
    column_name{column::reasoning, "reasoning_tokens"},
    column_name{column::reasoning, "usage.completion_tokens_details.reasoning_tokens"},
    column_name{column::reasoning, "usage.output_tokens_details.reasoning_tokens"},
    column_name{column::reasoning, "metadata.usage_object.completion_tokens_details.reasoning_tokens"},
    column_name{column::answer, "answer_tokens"},
    column_name{column::ratio, "reason_ratio"},
    column_name{column::score, "score"},
    column_name{column::session, "session"},
    column_name{column::think, "think_s", 1},
    column_name{column::hashes, "hash_ids"},
    column_name{column::tenant, "tenant"},
    column_name{column::tool, "calls_tool"},
    column_name{column::status, "status"},
    column_name{column::status, "status_code"},
    column_name{column::status, "http_status"},
    column_name{column::status, "finish_reason"},
    column_name{column::error, "error"},
    column_name{column::error, "error_code"},
    column_name{column::succeeded, "success"},
};
inline constexpr trace_format own_format{.whose = "a table of requests", .names = own_names};

}  // namespace sim::detail
TESSERA_NAMESPACE_END
