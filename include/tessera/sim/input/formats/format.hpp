// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// @file
/// What a format of traces is: the names of its columns and what they mean. Each format is one constant, in a file of
/// its own; `formats.hpp` lists them.

TESSERA_NAMESPACE_BEGIN

namespace sim::detail {

/// What a column of a trace means.
enum class column : std::uint8_t {
  arrival,      ///< When the request arrives: a number or a date and a time.
  ended,        ///< When it ended, in the unit of `arrival`.
  prompt,       ///< Prompt tokens.
  output,       ///< Output tokens, reasoning included.
  reasoning,    ///< Reasoning tokens, of the output.
  answer,       ///< Answer tokens, of the output.
  ratio,        ///< Reasoning tokens by output tokens.
  usage,        ///< An object whose members `input...` and `output...` add up to prompt and output.
  score,        ///< Predicted rank of the length.
  session,      ///< Equal text: turns of one session.
  turn,         ///< Number of the turn; 0 begins another session of that name.
  think,        ///< Time from the end of the turn before.
  tenant,       ///< Whose request it is.
  tool,         ///< 1: the turn ends with the call of a tool.
  hashes,       ///< Numbers of blocks of the prompt.
  id,           ///< Name of the request, for `parent`.
  parent,       ///< The request whose session this one continues.
  status,       ///< An HTTP status, or a word such as `success` or `failed`.
  span_status,  ///< The status of an OpenTelemetry span: 2 or `ERROR` is a failure.
  error,        ///< Anything but nothing, `null`, `false` and 0: the request failed.
  succeeded,    ///< `false` or 0: the request failed.
  kind,         ///< Which records are requests: see `trace_format::kinds`.
  count
};
inline constexpr auto column_count = static_cast<std::size_t>(column::count);

/// A name of a column, in lower case, with underscores for blanks and hyphens. In JSON, the path of the member.
struct column_name {
  column is;
  std::string_view name;
  double unit = 0;  ///< Of times: units per second, as 1000 for milliseconds; 0: the name does not say.
};

/// One format. A file is of the first format in `formats.hpp` whose marks it has, and a prompt and an output.
struct trace_format {
  std::string_view whose;                      ///< For messages.
  std::span<const column_name> names{};        ///< Of names for the same column, the first that a record has counts.
  std::span<const std::string_view> marks{};   ///< Names that the first record has, besides a prompt and an output.
  std::string_view within{};                   ///< Path of arrays from the document to the records.
  std::span<const std::string_view> failed{};  ///< Paths of arrays of records that failed.
  std::span<const std::string_view> kinds{};   ///< Values of `column::kind` that are requests; others are left out.
  std::span<const std::string_view> others{};  ///< Values of `column::kind` that are not requests.
  double whole_unit = 0;           ///< Units per second of whole numbers that are no dates; 0: nothing tells, so ask.
  std::int64_t hash_tokens = 512;  ///< Tokens that each of `column::hashes` stands for.
  bool runs = false;               ///< A file may hold several runs, of which one is read.
  bool table = false;              ///< One object whose members are columns, as arrays.
  bool marked = false;             ///< The marks tell it alone: the first record may have no tokens.
  bool sparse = false;             ///< Records without prompt and output are something else, and left out.
  std::string_view refusal{};      ///< Not empty: it cannot be read; what to give instead.
};

/// A name as formats spell it: lower case, with underscores for blanks and hyphens.
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
