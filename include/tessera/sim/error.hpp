// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

/// @file
/// Errors of the simulator and its tools. The simulator is a tool, not the hot path. A bad file or a bad argument is an
/// exception that names the place and what was expected.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// The exit status of a tool after an `error`.
inline constexpr int exit_bad_input = 2;

/// Base of everything that the simulator throws on purpose. `what()` is one line that can be shown unchanged.
class error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A bad argument: an unknown name, a number out of range. Says what is allowed.
class usage_error : public error {
 public:
  using error::error;
};

/// A file that could not be written, or a helper program that is missing or failed.
class output_error : public error {
 public:
  using error::error;
};

/// Text from a file for a one-line message: at most `longest` bytes of it, in single quotes. Everything except
/// printable ASCII becomes `\n`, `\r`, `\t` or `\xHH`. `...` follows the closing quote if something was left out.
[[nodiscard]] std::string shown(std::string_view text, std::size_t longest = 40);

/// A place in a file: lines and columns count from 1, columns in bytes. Line 0: the file as a whole.
struct file_position {
  std::uint64_t line = 0;    ///< From 1; 0 if unknown.
  std::uint64_t column = 0;  ///< From 1; 0 if unknown.
};

/// A bad file. `what()` reads `file:line:column: expected ..., found ...`, without line and column when the file could
/// not be read at all.
class input_error : public error {
 public:
  /// @param expected the expected content and, where it helps, how to correct it.
  /// @param found the actual content, as it is to be shown (see `shown`).
  input_error(std::string_view file, file_position at, std::string_view expected, std::string_view found)
      : error{message(file, at, expected, found)}, file_{file}, expected_{expected}, found_{found}, at_{at} {}

  /// The file.
  [[nodiscard]] const std::string& file() const noexcept { return file_; }
  /// The expected content.
  [[nodiscard]] const std::string& expected() const noexcept { return expected_; }
  /// The actual content.
  [[nodiscard]] const std::string& found() const noexcept { return found_; }
  /// From 1; 0 if unknown.
  [[nodiscard]] std::uint64_t line() const noexcept { return at_.line; }
  /// From 1; 0 if unknown.
  [[nodiscard]] std::uint64_t column() const noexcept { return at_.column; }

 private:
  static std::string message(std::string_view file, file_position at, std::string_view expected,
                             std::string_view found) {
    if (at.line == 0) return fmt::format("{}: expected {}, found {}", file, expected, found);
    return fmt::format("{}:{}:{}: expected {}, found {}", file, at.line, at.column, expected, found);
  }

  std::string file_;
  std::string expected_;
  std::string found_;
  file_position at_;
};

}  // namespace sim
TESSERA_NAMESPACE_END
