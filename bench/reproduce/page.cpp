// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "reproduce.hpp"

#include <tessera/core/assert.hpp>
#include <tessera/sim/report/plots.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <limits>
#include <numeric>
#include <system_error>

namespace reproduce {

namespace {

/// Most points of a curve that are drawn.
constexpr std::size_t plot_points = 400;

}  // namespace

std::string verdict_of(const std::vector<sim::load_verdict>& runs) {
  using sim::load_state;
  std::string text;
  for (const auto state : {load_state::overload, load_state::unsettled, load_state::carried, load_state::unknown}) {
    const auto n = std::count_if(runs.begin(), runs.end(), [&](const auto& r) { return r.state == state; });
    if (n > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, to_string(state));
  }
  double grows = 0;
  for (const sim::load_verdict& r : runs) grows += r.left_behind > 0 ? r.left_behind : 0;
  grows /= static_cast<double>(runs.size());
  return grows > 0 ? fmt::format("{} ({:.1f} %)", text, 100 * grows) : text;
}

page::page(const options& o, std::string_view title) : folder_{o.out}, threads_{o.threads} {
  std::error_code failure;
  std::filesystem::create_directories(folder_, failure);
  if (failure) throw sim::output_error{fmt::format("cannot make {}: {}", folder_.string(), failure.message())};
  head_ = fmt::format("# {}\n\n", title);
  if (o.quick) lead_ = "**A quick run, to see that everything works: the numbers mean nothing.**\n\n";
}

void page::lead(std::string_view paragraph) { lead_ += fmt::format("{}\n\n", paragraph); }

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
  // On a machine with other work the time that passed says little.
  const double processor = static_cast<double>(std::clock() - clock_) / CLOCKS_PER_SEC;
  sim::output_file file{folder_ / "README.md"};
  file.write(head_);
  file.write(fmt::format(
      "*`script/reproduce {}` writes this page; it took {:.0f} minutes on {} threads ({:.0f} of processor time).*\n\n",
      folder_.filename().string(), std::ceil(took.count()), threads_, std::ceil(processor / 60)));
  file.write(lead_);
  file.write(markdown_);
  file.commit();
  fmt::print("{}\n", (folder_ / "README.md").string());
}

}  // namespace reproduce
