// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/report/replicates.hpp>
#include <tessera/sim/report/report.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <ctime>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// What the reproductions of the papers' evaluations share: a page of results with tables and plots, and runs in
/// parallel. Each reproduction adds itself to `reproductions()`, in the source of its name beside this one; parts of a
/// long page are in sources of their own, and what they share in a header `NAME_page.hpp`.

namespace reproduce {

namespace sim = tessera::sim;

/// What the command line says.
struct options {
  std::filesystem::path out;   ///< Folder of the page and its plots.
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

/// What runs say of their load, each verdict with how many say so; and, where a queue grows, by what part of the
/// arrivals on average.
[[nodiscard]] std::string verdict_of(const std::vector<sim::load_verdict>& runs);

/// One curve, or one group of bars, of a plot.
struct series {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;
};
enum class style { lines, steps, bars };
struct plot {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<series> curves;
  style drawn_as = style::lines;
  bool log_x = false;
  bool log_y = false;
  std::vector<std::string> x_names{};  ///< Names of the groups of bars; x is then not read.
};

/// A page of results in Markdown, written when it is finished: a run that fails leaves the old page.
class page {
 public:
  /// `folder/README.md`; plots lie beside it. @throws sim::output_error
  page(const options& o, std::string_view title);

  /// Markdown that stands above all sections, whenever it is added: what the runs below have shown.
  void lead(std::string_view paragraph);
  void heading(std::string_view text);    ///< Of a section.
  void text(std::string_view paragraph);  ///< Markdown.
  /// A table; every row as long as the header.
  void table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows);
  /// Draws `name.svg` (and `name.gp`, which has the data) and shows it. Without gnuplot the page says that it is
  /// missing.
  void figure(std::string_view name, std::string_view caption, const plot& p);
  /// Writes the page, with what it took to make it at its top.
  void finish();

 private:
  std::filesystem::path folder_;
  std::string head_;
  std::string lead_;
  std::string markdown_;
  std::size_t threads_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::clock_t clock_ = std::clock();  ///< Of all threads.
};

}  // namespace reproduce
