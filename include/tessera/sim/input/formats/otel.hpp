// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/formats/format.hpp>

#include <array>
#include <string_view>

/// @file
/// OpenTelemetry spans with the attributes `gen_ai.usage...`: as OTLP writes them, as the SDKs print them, or with the
/// attributes alone. Other spans are left out, as are those of agents, which repeat the tokens of their calls.

TESSERA_NAMESPACE_BEGIN

namespace sim::detail {

inline constexpr std::array otel_names{
    column_name{column::arrival, "starttimeunixnano", 1e9},
    column_name{column::arrival, "start_time_unix_nano", 1e9},
    column_name{column::arrival, "start_time"},
    column_name{column::arrival, "starttime"},
    column_name{column::arrival, "timestamp"},
    column_name{column::prompt, "attributes.gen_ai.usage.input_tokens"},
    column_name{column::prompt, "attributes.gen_ai.usage.prompt_tokens"},
    column_name{column::prompt, "gen_ai.usage.input_tokens"},
    column_name{column::prompt, "gen_ai.usage.prompt_tokens"},
    column_name{column::output, "attributes.gen_ai.usage.output_tokens"},
    column_name{column::output, "attributes.gen_ai.usage.completion_tokens"},
    column_name{column::output, "gen_ai.usage.output_tokens"},
    column_name{column::output, "gen_ai.usage.completion_tokens"},
    column_name{column::reasoning, "attributes.gen_ai.usage.reasoning.output_tokens"},
    column_name{column::reasoning, "attributes.gen_ai.usage.reasoning_tokens"},
    column_name{column::reasoning, "gen_ai.usage.reasoning.output_tokens"},
    column_name{column::reasoning, "gen_ai.usage.reasoning_tokens"},
    column_name{column::kind, "attributes.gen_ai.operation.name"},
    column_name{column::kind, "gen_ai.operation.name"},
    column_name{column::span_status, "status.code"},
    column_name{column::span_status, "status.status_code"},
    column_name{column::error, "attributes.error.type"},
    column_name{column::error, "error.type"},
};
inline constexpr std::array<std::string_view, 4> otel_others{"invoke_agent", "create_agent", "execute_tool",
                                                             "embeddings"};
inline constexpr trace_format otlp_format{.whose = "OpenTelemetry spans",
                                          .names = otel_names,
                                          .within = "resourceSpans.scopeSpans.spans",
                                          .others = otel_others,
                                          .sparse = true};
inline constexpr std::array<std::string_view, 2> otlp_span_marks{"spanid", "starttimeunixnano"};
inline constexpr trace_format otlp_span_format{.whose = "OpenTelemetry spans",
                                               .names = otel_names,
                                               .marks = otlp_span_marks,
                                               .others = otel_others,
                                               .marked = true,
                                               .sparse = true};
inline constexpr std::array<std::string_view, 2> otel_printed_marks{"context.span_id", "start_time"};
inline constexpr trace_format otel_printed_format{.whose = "OpenTelemetry spans",
                                                  .names = otel_names,
                                                  .marks = otel_printed_marks,
                                                  .others = otel_others,
                                                  .marked = true,
                                                  .sparse = true};
inline constexpr trace_format otel_flat_format{
    .whose = "OpenTelemetry spans", .names = otel_names, .others = otel_others, .sparse = true};

}  // namespace sim::detail
TESSERA_NAMESPACE_END
