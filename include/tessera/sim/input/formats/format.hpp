// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// @file
/// A format of traces: the names of its columns and their meaning. Each format is one constant, in a file of its own;
/// `formats.hpp` lists them.

TESSERA_NAMESPACE_BEGIN

namespace sim::detail {

/// The meaning of a column of a trace.
enum class column : std::uint8_t {
  arrival,      ///< When the request arrives: a number or a date and a time.
  ended,        ///< When it ended, in the unit of `arrival`.
  prompt,       ///< Prompt tokens.
  output,       ///< Output tokens, reasoning included.
  reasoning,    ///< The reasoning tokens of the output.
  answer,       ///< The answer tokens of the output.
  ratio,        ///< Reasoning tokens by output tokens.
  usage,        ///< An object: its members `input...` add up to the prompt tokens, its members `output...` to the
                ///< output tokens.
  score,        ///< Predicted rank of the length.
  session,      ///< Rows with equal text are turns of one session.
  turn,         ///< Number of the turn; 0 begins another session of that name.
  think,        ///< Time from the end of the turn before.
  tenant,       ///< The tenant of the request.
  tool,         ///< 1: the turn ends with a tool call.
  hashes,       ///< Numbers of blocks of the prompt.
  id,           ///< Name of the request, for `parent`.
  parent,       ///< The request with the session that this one continues.
  status,       ///< An HTTP status, or a word such as `success` or `failed`.
  span_status,  ///< The status of an OpenTelemetry span: 2 or `ERROR` is a failure.
  error,        ///< The request failed if it is anything except empty, `null`, `false` or 0.
  succeeded,    ///< `false` or 0: the request failed.
  kind,         ///< Distinguishes requests from other records: see `trace_format::kinds`.
  count
};
inline constexpr auto column_count = static_cast<std::size_t>(column::count);

/// A name of a column, in lower case, with underscores for blanks and hyphens. In JSON, the path of the member.
struct column_name {
  column is;
  std::string_view name;
  double unit = 0;  ///< For times: units per second, for example 1000 for milliseconds; 0: the name does not say.
};

/// One format. A file has the first format in `formats.hpp` that fits: the file has its marks, a prompt and an output.
struct trace_format {
  std::string_view whose;                      ///< Its name in messages.
  std::span<const column_name> names{};        ///< If a record has several names for one column, the first in this list
                                               ///< counts.
  std::span<const std::string_view> marks{};   ///< Names that the first record has, besides a prompt and an output.
  std::string_view within{};                   ///< Path of arrays from the document to the records.
  std::span<const std::string_view> failed{};  ///< Paths of arrays of records that failed.
  std::span<const std::string_view> kinds{};   ///< Values of `column::kind` that are requests; others are left out.
  std::span<const std::string_view> others{};  ///< Values of `column::kind` that are other records.
  double whole_unit = 0;           ///< Units per second of whole numbers that are not dates; 0: unknown, so the user
                                   ///< must say.
  std::int64_t hash_tokens = 512;  ///< Tokens per entry of `column::hashes`.
  bool runs = false;               ///< A file may hold several runs; one is read.
  bool table = false;              ///< One object; its members are columns, as arrays.
  bool marked = false;             ///< The marks alone identify it: the first record may have no tokens.
  bool sparse = false;             ///< Records without prompt and output are something else, and are left out.
  std::string_view refusal{};      ///< Not empty: it cannot be read, and this says what to use instead.
};

/// The normal form of a name in formats: lower case, with underscores for blanks and hyphens.
[[nodiscard]] inline std::string normalised(std::string_view name) {
  std::string out{name};
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == ' ' || c == '-') c = '_';
  }
  return out;
}

}  // namespace sim::detail
TESSERA_NAMESPACE_END
