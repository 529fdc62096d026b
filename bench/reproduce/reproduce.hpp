// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/report/replicates.hpp>
#include <tessera/sim/report/report.hpp>

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// What the reproductions of the papers' evaluations share: results as CSV files. Each reproduction adds itself to
/// `reproductions()`, in the source of its name beside this one. Parts of a long one are in sources of their own, and
/// what they share is in a header `NAME_runs.hpp`. The files are drawn by docs/results/plot.py, and a page beside them
/// is written by hand.

namespace reproduce {

namespace sim = tessera::sim;

/// What the command line says.
struct options {
  std::filesystem::path out;   ///< Folder of the CSV files.
  std::filesystem::path data;  ///< Folder of real traces and prompts; empty: what needs them is left out, and says so.
  std::size_t seeds = 10;      ///< Runs that every number is a mean of.
  bool quick = false;          ///< Few requests, to see that everything runs. The numbers mean nothing.
  std::size_t threads = 1;
};

/// One paper's evaluation.
struct reproduction {
  std::string name;     ///< The word on the command line, and the folder's name.
  std::string summary;  ///< One line.
  std::function<void(const options&)> run;
};

[[nodiscard]] inline std::vector<reproduction>& reproductions() {
  static std::vector<reproduction> all;
  return all;
}

/// Adds one at start: `const bool added = reproduce::add({"pascal", "...", run});`
inline bool add(reproduction r) {
  reproductions().push_back(std::move(r));
  return true;
}

using sim::estimate;

/// A cell of a row: text, a number, or a mean with half of its 95 % interval. What is not finite is written as nothing.
class cell {
 public:
  cell() = default;
  cell(std::string text) : value_{std::move(text)} {}
  cell(std::string_view text) : value_{text} {}
  cell(const char* text) : value_{text} {}
  template <class T>
    requires std::integral<T> || std::floating_point<T>
  cell(T number) : value_{shown(static_cast<double>(number))} {}
  cell(const estimate& e) : value_{shown(e.mean)}, half_{value_.empty() ? "" : shown(e.half_width)} {}

  [[nodiscard]] const std::string& value() const noexcept { return value_; }
  [[nodiscard]] const std::string& half() const noexcept { return half_; }

 private:
  static std::string shown(double x) { return std::isfinite(x) ? fmt::format("{:.6g}", x) : std::string{}; }

  std::string value_;
  std::string half_;
};

using row = std::vector<cell>;

/// The CSV files of an evaluation, written when all of it is done: a run that fails leaves the old ones.
class results {
 public:
  explicit results(const options& o) : folder_{o.out} {}

  /// `name.csv`. A column `x±` is two: `x`, and `x_ci95`, half of its 95 % interval. Every row has a cell for each of
  /// `columns`.
  void table(std::string_view name, const std::vector<std::string>& columns, const std::vector<row>& rows);
  /// Writes the files and prints their names. @throws sim::output_error
  void finish();

 private:
  std::filesystem::path folder_;
  std::vector<std::pair<std::string, std::string>> files_;  ///< Name and text.
};

/// The columns of `load_cells`. The first three count the runs in which the queue grows, in which only the number that
/// runs grows, and in which nothing grows. The last is the part of the arrivals by which the queue grows, in per cent,
/// mean over all runs.
inline const std::vector<std::string> load_columns{"overload_runs", "unsettled_runs", "carried_runs", "backlog_pct"};
[[nodiscard]] std::vector<cell> load_cells(const std::vector<sim::load_verdict>& runs);

/// `first` with `more` behind it: rows and columns.
template <class T>
std::vector<T> joined(std::vector<T> first, const std::vector<T>& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

/// The name of a metric as that of a column: "tokens/s" is `tokens_per_s`, "good, %" `good_pct`.
[[nodiscard]] std::string column_of(std::string_view metric);

}  // namespace reproduce
