// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/formats/format.hpp>

#include <array>
#include <string_view>

/// @file
/// The files of vLLM's and SGLang's serving benchmarks: an object for each run, with an array for each column.

TESSERA_NAMESPACE_BEGIN

namespace sim::detail {

inline constexpr std::array bench_serve_names{
    column_name{column::arrival, "start_times", 1},
    column_name{column::prompt, "input_lens"},
    column_name{column::output, "output_lens"},
    column_name{column::error, "errors"},
};
inline constexpr trace_format bench_serve_format{
    .whose = "vLLM's and SGLang's benchmarks", .names = bench_serve_names, .runs = true, .table = true};
inline constexpr std::array<std::string_view, 2> bench_summary_marks{"request_throughput", "total_input_tokens"};
inline constexpr trace_format bench_summary_format{
    .whose = "a benchmark's summary",
    .marks = bench_summary_marks,
    .runs = true,
    .refusal = "requests one by one (run vLLM's benchmark with --save-detailed, SGLang's with --output-details)"};

}  // namespace sim::detail
TESSERA_NAMESPACE_END
