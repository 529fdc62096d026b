// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../picture.hpp"
#include "answers.hpp"

#include <tessera/sim/input/input.hpp>
#include <tessera/sim/report/html_report.hpp>
#include <tessera/sim/report/output_file.hpp>
#include <tessera/sim/report/plots.hpp>
#include <tessera/sim/report/tidy_csv.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// @file
/// The picture of `capacity`, and its page.

namespace capacity {

/// The needs, or the capacity, of each policy, as bars. A script without its terminal and output.
inline std::string bars_script(const question& q, const std::vector<answer>& answers) {
  std::string data = "$found << EOD\n";
  for (const answer& x : answers) {
    const auto& best = x.found.best;
    const double value = !best ? 0 : q.of_rate ? q.rate_of(*best) : static_cast<double>(best->instances);
    const std::string label = best ? fmt::format("{:.4g}", value) : std::string{"none"};
    data += fmt::format("\"{}\" {:.6g} \"{}{}\"\n", x.policy->name, value,
                        q.of_rate && best && !x.found.beyond ? "at least " : "", label);
  }
  return data + "EOD\n" +
         fmt::format("set title {} noenhanced\nset ylabel '{}'\n",
                     sim::detail::gnuplot_quoted(fmt::format("{} within {}", q.source.name(), q.a.setting.slo)),
                     q.of_rate ? "requests per second that are carried" : "instances that are needed") +
         "set border 3\nset tics nomirror\nunset key\nset xtics rotate by -30 noenhanced\nset yrange [0:*]\n"
         "set offsets 0.6, 0.6, graph 0.08, 0\nset boxwidth 0.7\nset style fill solid 0.4 border rgb '#0072b2'\n"
         "plot $found using 0:2:xtic(1) with boxes lc rgb '#0072b2', "
         "'' using 0:2:3 with labels offset 0, 0.7 noenhanced\n";
}

/// The folder of `--report`: a page index.html, and its picture if there is gnuplot.
class page {
 public:
  /// Makes the folder, and tests all places. @throws tessera::sim::output_error
  explicit page(const std::string& folder)
      : path_{std::filesystem::path{folder} / "index.html"}, folder_{folder}, file_{path_} {
    const std::filesystem::path pictures = std::filesystem::path{folder} / "pictures";
    if (sim::has_gnuplot()) picture_.emplace(pictures.string(), "capacity", sim::plot_format::svg);
  }

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// Its picture; empty without gnuplot.
  [[nodiscard]] std::filesystem::path picture() const { return picture_ ? picture_->image() : std::filesystem::path{}; }

  /// Draws the picture, and writes the page. Call once.
  /// @param heading the question. @param remarks remarks on the answers. @param what the experiment: see
  /// `replay::describe_setting`. @throws tessera::sim::output_error
  void write(const question& q, const std::vector<answer>& answers, const std::string& heading,
             const std::string& remarks, const ordered_json& what) {
    std::string drawn = "<p>There is no picture: gnuplot is not installed.</p>\n";
    if (picture_) {
      picture_->draw(bars_script(q, answers), 540);
      drawn = sim::html_picture(sim::read_file(picture_->image().string()), "capacity");
    }
    std::vector<std::pair<std::string, std::string>> facts;
    for (auto& [name, value] : sim::csv_cells(what)) {
      if (!value.empty()) facts.emplace_back(name, value);
    }
    const std::vector<sim::html_section> sections{
        {"", sim::html_lines(heading + conclude(q, answers) + remarks)},
        {"Numbers", fmt::format("<pre>{}</pre>\n", sim::html_text(format_answers(q, answers)))},
        {"Why", sim::html_lines(describe_answers(q, answers))},
        {"Picture", drawn},
        {"What was run", sim::html_facts(facts)}};
    file_.write(sim::html_page(fmt::format("capacity for {}", q.source.name()), sections));
    file_.commit();
  }

 private:
  std::filesystem::path path_;
  sim::output_folder folder_;
  sim::output_file file_;
  std::optional<tool::picture> picture_;
};

}  // namespace capacity
