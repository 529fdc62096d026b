// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/error.hpp>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

/// @file
/// Reads a text file as a whole, and rejects files that are not plain text. Shared by the readers of traces and
/// profiles.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// Longest file that the readers accept, in bytes.
inline constexpr std::size_t max_input_bytes = std::size_t{1} << 32;
/// Longest line that the readers accept, in bytes without its newline.
inline constexpr std::size_t max_line_bytes = 65536;

/// Line and column of the byte `offset` of `text`, with lines as in `take_line`. O(offset).
[[nodiscard]] file_position position_of(std::string_view text, std::size_t offset) noexcept;

/// The first bytes of a gzip file.
inline constexpr std::string_view gzip_magic = "\x1f\x8b";

/// The content of the file `path`, read from its start to its end (so a pipe is allowed).
/// @throws input_error the file is missing, cannot be read, or is longer than `max_input_bytes`.
[[nodiscard]] std::string read_file(const std::string& path);

/// `text` without the byte order mark that some programs put before UTF-8.
[[nodiscard]] constexpr std::string_view without_mark(std::string_view text) noexcept {
  constexpr std::string_view mark = "\xef\xbb\xbf";
  return text.substr(0, mark.size()) == mark ? text.substr(mark.size()) : text;
}

/// The line of `text` that begins at `at`, without its end: a newline, a carriage return, or both; the last line may
/// have no end. `at` moves to the next line, or to the end of the text. O(line).
[[nodiscard]] constexpr std::string_view take_line(std::string_view text, std::size_t& at) noexcept {
  std::size_t end = at;
  while (end != text.size() && text[end] != '\n' && text[end] != '\r') ++end;
  const std::string_view line = text.substr(at, end - at);
  const bool both = end + 1 < text.size() && text[end] == '\r' && text[end + 1] == '\n';
  at = end == text.size() ? end : end + (both ? 2 : 1);
  return line;
}

/// Rejects text that is empty or not plain: packed or binary files with known first bytes, UTF-16, a NUL byte, a line
/// above `longest` bytes. O(size of the text).
/// @param text without a byte order mark. @throws input_error at the first such place.
void require_plain_text(std::string_view text, std::string_view name, std::string_view what,
                        std::size_t longest = max_line_bytes);

}  // namespace sim
TESSERA_NAMESPACE_END
