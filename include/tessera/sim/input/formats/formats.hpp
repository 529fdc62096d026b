// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/formats/aiperf.hpp>
#include <tessera/sim/input/formats/azure.hpp>
#include <tessera/sim/input/formats/bench_serve.hpp>
#include <tessera/sim/input/formats/burstgpt.hpp>
#include <tessera/sim/input/formats/guidellm.hpp>
#include <tessera/sim/input/formats/inference_perf.hpp>
#include <tessera/sim/input/formats/langfuse.hpp>
#include <tessera/sim/input/formats/litellm.hpp>
#include <tessera/sim/input/formats/llmperf.hpp>
#include <tessera/sim/input/formats/mooncake.hpp>
#include <tessera/sim/input/formats/otel.hpp>
#include <tessera/sim/input/formats/own.hpp>
#include <tessera/sim/input/formats/refused.hpp>

#include <array>

/// @file
/// All formats of traces, narrower ones before wider ones.

TESSERA_NAMESPACE_BEGIN

namespace sim::detail {

inline constexpr std::array trace_formats{
    &openai_usage_format,
    &openai_old_usage_format,
    &openai_bucket_format,
    &genai_perf_format,
    &aiperf_summary_format,
    &inference_perf_summary_format,
    &llmperf_summary_format,
    &bench_serve_format,
    &bench_summary_format,
    &guidellm_format,
    &otlp_format,
    &otlp_span_format,
    &otel_printed_format,
    &aiperf_format,
    &inference_perf_format,
    &bailian_format,
    &mooncake_format,
    &mooncake_session_format,
    &mooncake_lengths_format,
    &azure_format,
    &burstgpt_format,
    &llmperf_format,
    &litellm_format,
    &own_format,
    &otel_flat_format,
    &langfuse_format,
};

}  // namespace sim::detail
TESSERA_NAMESPACE_END
