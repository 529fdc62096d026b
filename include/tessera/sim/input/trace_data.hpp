// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/error.hpp>
#include <tessera/sim/input/trace_row.hpp>
#include <tessera/sim/input/trace_time.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// The content of a trace, and the options of its reader.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// Rows of a trace that are left out, by the reason.
struct rows_left_out {
  std::size_t failed = 0;     ///< Their status says so.
  std::size_t no_prompt = 0;  ///< They have 0 prompt tokens.
  std::size_t no_output = 0;  ///< They have 0 output tokens.
  std::size_t others = 0;     ///< They are not requests: other spans, the warm-up of a benchmark.

  /// All of them.
  [[nodiscard]] std::size_t count() const noexcept { return failed + no_prompt + no_output + others; }
};

/// The counts in words: `2 failed, 1 without output`; empty if there are none.
[[nodiscard]] std::string describe(const rows_left_out& rows);

/// The content of a trace file.
struct trace {
  std::string name;                   ///< The path, or the caller's name for the text.
  std::string_view read_as;           ///< The name of its format.
  std::vector<trace_row> rows;        ///< At least one; in order of arrival if there are arrivals.
  bool has_arrivals = false;          ///< Otherwise every `arrival_s` is NaN: see `schedule_arrivals` (workload.hpp).
  bool has_reasoning = false;         ///< At least one row has reasoning tokens.
  bool has_scores = false;            ///< At least one row has a score.
  bool has_sessions = false;          ///< At least one row is a later turn of a session.
  bool has_tenants = false;           ///< At least one row names its tenant.
  bool has_prefixes = false;          ///< At least one row names runs of its prompt.
  std::vector<std::string> unused{};  ///< Unused columns, in order; at most 64 of them.
  rows_left_out left_out{};           ///< Rows that are not in `rows`.
  std::size_t out_of_order = 0;       ///< Rows that came earlier than one above them, before they were sorted.
  std::size_t runs = 1;               ///< The number of benchmark runs in the file.
  std::size_t run = 1;                ///< The run that was read.
  std::string unit_said{};            ///< Not empty: how the unit of the arrivals was inferred, if it could be wrong.
  double own_rate = 0;                ///< Without arrivals: requests per second, if the file says; else 0.
};

/// Options of a reader of traces.
struct trace_options {
  std::optional<std::int64_t> hash_tokens{};  ///< Tokens per entry of `hash_ids`, at least 1; none: the format's.
  time_unit unit = time_unit::told;           ///< The unit of arrivals that are numbers.
  std::size_t run = 0;                        ///< Which run of a benchmark's file, from 1; 0: the last.
  /// Unpacks a gzip file; null: such a file is rejected. @throws input_error the packed data is damaged
  std::string (*gunzip)(std::string_view packed, std::string_view name) = nullptr;
};

/// Most tokens in one field of a trace.
inline constexpr std::int64_t max_trace_tokens = 1'000'000'000;
/// Latest arrival in a trace, in seconds: enough for Unix time.
inline constexpr double max_trace_seconds = 1e12;
/// Most rows in a trace.
inline constexpr std::size_t max_trace_rows = 20'000'000;

}  // namespace sim
TESSERA_NAMESPACE_END
