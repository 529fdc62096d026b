// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "reproduce.hpp"

#include <tessera/core/assert.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <system_error>

namespace reproduce {

namespace {

/// Most points of a curve that are drawn.
constexpr std::size_t plot_points = 400;

}  // namespace

estimate estimate_of(const std::vector<double>& samples) {
  const std::size_t n = samples.size();
  if (n == 0) return {std::numeric_limits<double>::quiet_NaN(), 0};
  const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(n);
  if (n == 1) return {mean, 0};
  double squares = 0;
  for (const double s : samples) squares += (s - mean) * (s - mean);
  // Two-sided 95 % quantiles of Student's t with 1, 2, ... degrees of freedom; beyond the table, the normal one.
  constexpr std::array t{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                         2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                         2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045};
  const double quantile = n - 2 < t.size() ? t[n - 2] : 1.96;
  return {mean, quantile * std::sqrt(squares / static_cast<double>(n - 1) / static_cast<double>(n))};
}

page::page(const options& o, std::string_view title) : folder_{o.out}, threads_{o.threads} {
  std::error_code failure;
  std::filesystem::create_directories(folder_, failure);
  if (failure) throw sim::output_error{fmt::format("cannot make {}: {}", folder_.string(), failure.message())};
  head_ = fmt::format("# {}\n\n", title);
  if (o.quick) markdown_ += "**A quick run, to see that everything works: the numbers mean nothing.**\n\n";
}

void page::heading(std::string_view text) { markdown_ += fmt::format("## {}\n\n", text); }

void page::text(std::string_view paragraph) { markdown_ += fmt::format("{}\n\n", paragraph); }

void page::table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows) {
  markdown_ += fmt::format("| {} |\n|", fmt::join(header, " | "));
  for (std::size_t i = 0; i != header.size(); ++i) markdown_ += "---|";
  markdown_ += '\n';
  for (const std::vector<std::string>& row : rows) {
    TESSERA_ASSERT(row.size() == header.size(), "a row has as many cells as the header");
    markdown_ += fmt::format("| {} |\n", fmt::join(row, " | "));
  }
  markdown_ += '\n';
}

void page::figure(std::string_view name, std::string_view caption, const plot& p) {
  if (!sim::has_gnuplot()) {
    markdown_ += fmt::format("*{}: not drawn, gnuplot is not installed.*\n\n", caption);
    return;
  }
  const auto quoted = [](std::string_view s) { return sim::detail::gnuplot_quoted(s); };
  std::string script = fmt::format(
      "if (!exists('picture')) picture = '{}.svg'\n{}set output picture\n{}"
      "set title {}\nset xlabel {}\nset ylabel {}\nset key outside right top\n",
      name, sim::detail::script_head(sim::plot_format::svg, 480), sim::detail::script_style, quoted(p.title),
      quoted(p.x_label), quoted(p.y_label));
  if (p.log_x) script += "set logscale x\n";
  script += p.log_y ? "set logscale y\n" : "set yrange [0:*]\n";
  const bool bars = p.drawn_as == style::bars;
  for (std::size_t i = 0; i != p.curves.size(); ++i) {
    script += fmt::format("$curve{} << EOD\n", i);
    const series& s = p.curves[i];
    for (const std::size_t k : sim::detail::thin_out(s.y.size(), plot_points)) {
      if (std::isnan(s.y[k])) {
        script += bars ? "0\n" : "\n";
      } else if (bars) {
        script += fmt::format("{:.6g}\n", s.y[k]);
      } else {
        script += fmt::format("{:.6g} {:.6g}\n", s.x[k], s.y[k]);
      }
    }
    script += "EOD\n";
  }
  if (bars) {
    script += "set style data histogram\nset style histogram clustered gap 1\nset style fill solid 0.8\nset xtics (";
    for (std::size_t k = 0; k != p.x_names.size(); ++k) {
      script += fmt::format("{}{} {}", k == 0 ? "" : ", ", quoted(p.x_names[k]), k);
    }
    script += ")\n";
    if (p.x_names.size() > 6) script += "set xtics rotate by -35\n";
  }
  script += "plot ";
  for (std::size_t i = 0; i != p.curves.size(); ++i) {
    const std::string_view with = p.drawn_as == style::lines   ? "with linespoints pt 7 ps 0.5 lw 2"
                                  : p.drawn_as == style::steps ? "with steps lw 2"
                                                               : "";
    script += fmt::format("{}$curve{} using {} {} lc {} title {}", i == 0 ? "" : ", ", i, bars ? "1" : "1:2", with,
                          i + 1, quoted(p.curves[i].name));
  }
  script += '\n';
  const std::filesystem::path file = folder_ / fmt::format("{}.gp", name);
  sim::output_file source{file};
  source.write(script);
  source.commit();
  sim::detail::run_gnuplot(file, folder_ / fmt::format("{}.svg", name));
  markdown_ += fmt::format("![{}]({}.svg)\n\n*{}*\n\n", p.title, name, caption);
}

void page::finish() {
  const std::chrono::duration<double, std::ratio<60>> took = std::chrono::steady_clock::now() - begun_;
  sim::output_file file{folder_ / "README.md"};
  file.write(head_);
  file.write(fmt::format("*`script/reproduce {}` writes this page; it took {:.0f} minutes on {} threads.*\n\n",
                         folder_.filename().string(), std::ceil(took.count()), threads_));
  file.write(markdown_);
  file.commit();
  fmt::print("{}\n", (folder_ / "README.md").string());
}

}  // namespace reproduce
