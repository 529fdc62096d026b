// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/input.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// Comma-separated numbers with a header, read row by row. No quotes: this is for files of measurements.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// Reads a file of one header and rows of as many fields. Columns may be in any order, and further ones are allowed.
/// Every message names the file, the line and the column.
class csv_reader {
 public:
  /// Reads the header. @param name the file's name in messages; it and `text` must outlive this.
  /// @throws input_error no plain text, a column that comes twice
  csv_reader(std::string_view text, std::string_view name) : text_{without_mark(text)}, name_{name} {
    require_plain_text(text_, name, "a header and rows");
    next_line();
    split();
    for (std::size_t i = 0; i != fields_.size(); ++i) {
      for (std::size_t k = 0; k != i; ++k) {
        if (fields_[k].text == fields_[i].text)
          fail(i, fmt::format("the column {} once", shown(fields_[i].text)), "it again");
      }
      header_.emplace_back(fields_[i].text);
    }
  }

  /// Whether the header has a column of that name.
  [[nodiscard]] bool has(std::string_view column) const noexcept { return find(column) != header_.size(); }

  /// The place of a required column. @throws input_error that names the known ones.
  [[nodiscard]] std::size_t column(std::string_view name, std::string_view known) const {
    const std::size_t i = find(name);
    if (i == header_.size()) {
      throw input_error{name_, {1, 1}, fmt::format("a header with the column {} ({})", name, known), shown(header())};
    }
    return i;
  }

  /// Goes on to the next row; false at the end of the file. @throws input_error a row with fewer or more fields
  bool next() {
    if (at_ >= text_.size()) return false;
    next_line();
    split();
    if (row_.empty()) fail_at(1, fmt::format("{} fields, as in the header", header_.size()), "an empty line");
    if (fields_.size() < header_.size()) {
      fail_at(row_.size() + 1, fmt::format("{} fields, as in the header", header_.size()),
              fmt::format("the end of the line after {}", fields_.size()));
    }
    if (fields_.size() > header_.size()) {
      fail(header_.size(), fmt::format("{} fields, as in the header", header_.size()),
           "another " + shown(fields_[header_.size()].text));
    }
    return true;
  }

  /// The text of a field of this row.
  [[nodiscard]] std::string_view text(std::size_t column) const noexcept { return fields_[column].text; }

  /// A whole number in [least, most].
  [[nodiscard]] std::int64_t whole(std::size_t column, std::int64_t least, std::int64_t most) const {
    const std::string_view f = text(column);
    std::int64_t value = 0;
    const auto [stop, failure] = std::from_chars(f.data(), f.data() + f.size(), value);
    if (failure != std::errc{} || stop != f.data() + f.size() || value < least || value > most) {
      fail(column, fmt::format("{}, a whole number from {} to {}", header_[column], least, most), shown(f));
    }
    return value;
  }

  /// A number in [least, most]; above `least` if `open`.
  [[nodiscard]] double real(std::size_t column, double least, double most, bool open = false) const {
    const std::string_view f = text(column);
    double value = 0;
    const auto [stop, failure] = std::from_chars(f.data(), f.data() + f.size(), value);
    // Written so that NaN fails.
    const bool inside = (open ? value > least : value >= least) && value <= most;
    if (failure != std::errc{} || stop != f.data() + f.size() || !inside) {
      fail(column,
           fmt::format("{}, a number {} {:g}, at most {:g}", header_[column], open ? "above" : "of at least", least,
                       most),
           shown(f));
    }
    return value;
  }

  /// Rejects a field of this row.
  [[noreturn]] void fail(std::size_t column, std::string_view expected, std::string_view found) const {
    fail_at(fields_[column].at, expected, found);
  }

  /// The line of the latest row; the header's is 1.
  [[nodiscard]] std::uint64_t line() const noexcept { return line_; }
  /// Where a field of this row is.
  [[nodiscard]] file_position position(std::size_t column) const noexcept { return {line_, fields_[column].at}; }
  /// The file's name in messages.
  [[nodiscard]] std::string_view name() const noexcept { return name_; }

 private:
  struct field {
    std::string_view text;
    std::uint64_t at;  ///< Column in the line.
  };

  [[noreturn]] void fail_at(std::uint64_t at, std::string_view expected, std::string_view found) const {
    throw input_error{name_, {line_, at}, expected, found};
  }
  [[nodiscard]] std::string_view header() const noexcept {
    std::size_t at = 0;
    return take_line(text_, at);
  }
  [[nodiscard]] std::size_t find(std::string_view name) const noexcept {
    std::size_t i = 0;
    while (i != header_.size() && header_[i] != name) ++i;
    return i;
  }

  void next_line() noexcept {
    row_ = take_line(text_, at_);
    ++line_;
  }
  void split() {
    fields_.clear();
    for (std::size_t begin = 0;;) {
      const std::size_t comma = row_.find(',', begin);
      fields_.push_back({row_.substr(begin, comma - begin), begin + 1});
      if (comma == row_.npos) return;
      begin = comma + 1;
    }
  }

  std::string_view text_;
  std::string_view name_;
  std::string_view row_;
  std::size_t at_ = 0;
  std::uint64_t line_ = 0;
  std::vector<std::string> header_;
  std::vector<field> fields_;
};

}  // namespace sim
TESSERA_NAMESPACE_END
