// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/input.hpp>
#include <tessera/sim/input/trace_data.hpp>
#include <tessera/sim/input/trace_reader.hpp>

#include <string>
#include <string_view>
#include <vector>

/// @file
/// Traces: one request per row of a CSV file, or per object of JSON.
///
/// In CSV the first line is a header, and columns are found by name, in any order. In JSON the names are keys, in any
/// order; a key that is missing, or `null`, is an empty field. Objects are one per line, one after the other, in an
/// array, or in an array `data`. Case is ignored, and blanks, hyphens and underscores are equal.
///
/// | column | | |
/// |---|---|---|
/// | `prompt_tokens` | needed | 1 to 10^9 |
/// | `output_tokens` | needed | 1 to 10^9; may be empty where both of the next two are given |
/// | `reasoning_tokens`, `answer_tokens` | optional | of the output; may be empty, without both all is answer |
/// | `arrival_s` | optional | in all rows or in none; later turns may go without |
/// | `score` | optional | predicted length rank, higher = longer; may be empty |
/// | `session` | optional | any text: rows with the same are the turns of one session, in their order; may be empty |
/// | `think_s` | optional | of a later turn: seconds from the last token of the turn before; empty: 0 |
/// | `tenant` | optional | any text: the tenant of the request; at most 64 different ones; may be empty |
/// | `calls_tool` | optional | of a session: 1 if the turn ends with a tool call: the server knows that another follows
/// | | `hash_ids` | optional | as `[1, 2, 3]`: for each 512 tokens of the prompt a whole number |
///
/// Equal `hash_ids` after equal ones are equal tokens (Mooncake's traces). Reasoning and answer add up to the output.
/// The folder `formats` has the other names for these columns, and the other formats that are read unchanged.
///
/// Arrivals are dates and times with or without a zone, or numbers. The unit of numbers is the one in the column's
/// name. Otherwise it follows from the size of Unix times, from fractions (seconds), or from the format. If none of
/// these says it, the user must.
///
/// Rows may be in any order; they are sorted by arrival, and counted. Rows with a status or an error of failure are
/// left out, and so are rows with 0 prompt or output tokens; `trace::left_out` counts them. Other columns are not used;
/// `trace::unused` names them.
///
/// Fields of CSV are separated by commas, with or without blanks around them. A field in double quotes may hold commas,
/// doubled quotes and line ends. Lines end in a newline, a carriage return, or both; the last one may have no end.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// Reads a trace from memory: JSON if it begins with a brace or a bracket, else CSV. O(size); allocates the rows.
/// @param name its name in messages.
/// @throws input_error at the first deviation from the file comment. @throws usage_error options that do not apply to
/// the file
[[nodiscard]] trace parse_trace(std::string_view text, std::string_view name, const trace_options& options = {});

/// Reads a trace file.
/// @throws input_error as `parse_trace`, and when the file cannot be read.
[[nodiscard]] trace read_trace(const std::string& path, const trace_options& options = {});

/// Sentences on what was not read unchanged: columns, rows, order, runs, units.
[[nodiscard]] std::vector<std::string> remarks(const trace& t);

/// The `remarks`, each ending in a newline; empty if there are none.
[[nodiscard]] std::string describe_unused(const trace& t);

/// A sentence for a trace without arrivals: what to specify, and which columns look like arrivals.
/// @param rate how to specify a rate, such as `a --rate`.
[[nodiscard]] std::string no_arrivals(const trace& t, std::string_view rate);

}  // namespace sim
TESSERA_NAMESPACE_END
