// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/error.hpp>
#include <tessera/sim/measure/metrics.hpp>
#include <tessera/sim/report/output_file.hpp>
#include <tessera/sim/report/plots.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {
namespace detail {

std::string gnuplot_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += '\'';
    out += c == '\n' ? ' ' : c;
  }
  return out + "'";
}

std::vector<std::size_t> thin_out(std::size_t n, std::size_t most) {
  std::vector<std::size_t> places;
  const std::size_t kept = std::min(n, most);
  for (std::size_t i = 0; i < kept; ++i) places.push_back(kept == 1 ? n - 1 : i * (n - 1) / (kept - 1));
  return places;
}

std::string script_head(plot_format format, int height) {
  if (format == plot_format::svg) {
    return fmt::format("set terminal svg size 900,{} dynamic background 'white'\n", height);
  }
  return fmt::format(
      "if (strstrt(GPVAL_TERMINALS, 'pngcairo')) {{ set terminal pngcairo size 900,{0} }} "
      "else {{ set terminal png size 900,{0} }}\n",
      height);
}

std::string curves(std::span<const run_result> runs, const std::vector<bool>& has, std::string_view columns,
                   std::string_view style, std::string_view more) {
  std::string out = "plot ";
  bool first = true;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!has[i]) continue;
    out += fmt::format("{}$run{} using {} with {} ls {}{} title {}", first ? "" : ", \\\n     ", i, columns, style,
                       i % 8 + 1, more, gnuplot_quoted(runs[i].numbers.policy));
    first = false;
  }
  return first ? std::string{} : out + "\n";
}

double round_step(double range, int steps) {
  const double least = range / steps;
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double times : {1.0, 2.0, 5.0}) {
    if (times * power >= least) return times * power;
  }
  return 10 * power;
}

std::string log_axis(char axis, double least, double most) {
  std::vector<double> tics;
  std::vector<double> powers;
  for (double power = std::pow(10.0, std::floor(std::log10(least))); power <= most; power *= 10) {
    if (power >= least) powers.push_back(power);
    for (const double times : {1.0, 2.0, 5.0}) {
      if (times * power >= least && times * power <= most) tics.push_back(times * power);
    }
  }
  if (tics.size() > 10) tics = powers;
  if (tics.size() < 3) {
    const double step = round_step(most - least, 8);
    tics.clear();
    for (double x = std::ceil(least / step) * step; x <= most; x += step) tics.push_back(x);
  }
  std::string at;
  for (const double x : tics) at += fmt::format("{}{:.6g}", at.empty() ? "" : ", ", x);
  return fmt::format("set logscale {0}\nset {0}range [{1:.6g}:{2:.6g}]\nset {0}tics ({3})\n", axis, least, most, at);
}

std::string bound_line(char axis, const slo_bound& bound, std::size_t line) {
  const std::string at = fmt::format("{:.6g}", bound.seconds);
  const std::string from = axis == 'x' ? "first " + at + ", graph 0" : "graph 0, first " + at;
  const std::string to = axis == 'x' ? "first " + at + ", graph 1" : "graph 1, first " + at;
  return fmt::format(
      "set arrow {0} from {1} to {2} nohead front dt 2 lw 1.5 lc rgb '#444444'\n"
      "set label {0} '{3} = {4:g} s' at {5} {6} front noenhanced font ',10' tc rgb '#444444'\n",
      line, from, to, to_string(bound), bound.seconds,
      axis == 'x' ? "first " + at + ", graph 0.5" : "graph 0.01, first " + at,
      axis == 'x' ? "right offset -0.5,0" : "offset 0,0.6");
}

std::vector<slo_bound> bounds_of(const slo_report& slo, slo_metric metric) {
  std::vector<slo_bound> bounds;
  for (const slo_report::line& l : slo.lines) {
    if (l.bound.metric == metric) bounds.push_back(l.bound);
  }
  return bounds;
}

/// A script without its terminal and output; empty if there is no data. @param metric the metric to draw.
std::string cdf_script(std::span<const run_result> runs, std::string_view title, slo_metric metric) {
  const slo_bound of{.metric = metric};
  std::string data;
  std::vector<bool> has;
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::vector<double> samples;
    for (const request_record& r : runs[i].requests) {
      if (const double x = of.of(r); !std::isnan(x)) samples.push_back(std::max(x, 1e-3));
    }
    std::sort(samples.begin(), samples.end());
    has.push_back(!samples.empty());
    if (samples.empty()) continue;
    least = std::min(least, samples.front());
    most = std::max(most, samples.back());
    data += fmt::format("$run{} << EOD\n", i);
    for (const std::size_t k : thin_out(samples.size(), plot_points)) {
      data +=
          fmt::format("{:.6g} {:.6g}\n", samples[k], static_cast<double>(k + 1) / static_cast<double>(samples.size()));
    }
    data += "EOD\n";
  }
  const std::string plot = curves(runs, has, "1:2", "steps");
  if (plot.empty()) return {};
  std::string lines;
  std::size_t n = 0;
  for (const slo_bound& b : bounds_of(runs.front().numbers.slo, metric)) {
    least = std::min(least, b.seconds);
    most = std::max(most, b.seconds);
    lines += bound_line('x', b, ++n);
  }
  return data + std::string{script_style} + fmt::format("set title '{}'\n", title) + "set key bottom right\n" +
         log_axis('x', least / 1.1, most * 1.1) + lines +
         "set xlabel 'seconds'\nset ylabel 'part of the requests'\nset yrange [0:1]\n" + plot;
}

std::string tail_script(std::span<const run_result> runs) {
  std::string data;
  std::vector<bool> has;
  // Without reasoning there is one bin, and no curve.
  const bool reasons = std::any_of(runs.begin(), runs.end(),
                                   [](const run_result& r) { return r.numbers.ttft_by_reasoning_bin.size() > 1; });
  if (!reasons) return {};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto& bins = runs[i].numbers.ttft_by_reasoning_bin;
    has.push_back(!bins.empty());
    if (bins.empty()) continue;
    data += fmt::format("$run{} << EOD\n", i);
    for (const tail_bin& b : bins) data += fmt::format("{} {:.6g}\n", b.bin + tail_bin_tokens / 2, b.value);
    data += "EOD\n";
  }
  const std::string plot = curves(runs, has, "1:2", "linespoints", " pt 7 ps 0.5");
  if (plot.empty()) return {};
  return data + std::string{script_style} +
         "set title 'Tail time to first answering token, by reasoning length'\nset key top left\n"
         "set xlabel 'reasoning tokens (bins of 256)'\nset ylabel 'seconds'\nset xrange [0:*]\n"
         "set yrange [0:0.001<*]\n" +
         plot;
}

/// A row of small panels for each run, all with the same scale: overlaid, six policies cannot be told apart.
std::string timeline_script(std::span<const run_result> runs) {
  std::string data;
  std::vector<std::size_t> drawn;
  bool died = false;
  double from = std::numeric_limits<double>::infinity();
  double to = -from;
  double most_running = 1;
  double most_waiting = 1;
  double most_live = 1;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto& line = runs[i].timeline;
    if (line.empty()) continue;
    for (const timeline_point& p : line) {
      most_running = std::max(most_running, p.running);
      most_waiting = std::max(most_waiting, p.waiting);
      most_live = std::max(most_live, p.live);
    }
    died = died || runs[i].numbers.faults.deaths != 0;
    from = std::min(from, line.front().time);
    to = std::max(to, line.back().time);
    drawn.push_back(i);
    data += fmt::format("$run{} << EOD\n", i);
    for (const std::size_t k : thin_out(line.size(), plot_points)) {
      data += fmt::format("{:.6g} {:.6g} {:.6g} {:.6g} {:.6g}\n", line[k].time, line[k].running, line[k].waiting,
                          100 * line[k].kv_used, line[k].live);
    }
    data += "EOD\n";
  }
  if (drawn.empty()) return {};
  struct panel {
    std::string_view title;
    int column;
    double most;
  };
  std::vector<panel> panels{{"requests running", 2, 1.05 * most_running},
                            {"requests waiting", 3, 1.05 * most_waiting},
                            {"KV blocks in use, %", 4, 105}};
  if (died) panels.push_back({"instances alive", 5, 1.05 * most_live});  // shown if an instance died
  std::string out =
      data + std::string{script_style} +
      fmt::format("set multiplot layout {},{}\nset xrange [{:.6g}:{:.6g}]\nunset key\n", drawn.size(), panels.size(),
                  from, std::max(to, from + 1)) +
      fmt::format("set xtics {:.6g} font ',9'\nset ytics font ',9'\n", round_step(std::max(to - from, 1.0), 4));
  for (const std::size_t i : drawn) {
    const bool last = i == drawn.back();
    for (const panel& p : panels) {
      out += fmt::format("set title {} noenhanced font ',10'\nset yrange [0:{:.6g}]\n",
                         gnuplot_quoted(fmt::format("{}: {}", runs[i].numbers.policy, p.title)), p.most);
      out += fmt::format("set ytics {:.6g}\n", round_step(p.most, 4));
      out += last ? "set xlabel 'seconds' font ',10'\n" : "unset xlabel\n";
      out += fmt::format("plot $run{} using 1:{} with lines ls {} notitle\n", i, p.column, i % 8 + 1);
    }
  }
  return out + "unset multiplot\n";
}

/// One word of a shell command.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

void run_gnuplot(const std::filesystem::path& script, const std::filesystem::path& picture) {
  const std::string assignment = "picture = " + gnuplot_quoted(picture.string());
  const std::string command =
      "gnuplot -e " + shell_quoted(assignment) + " " + shell_quoted(std::filesystem::absolute(script).string());
  if (std::system(command.c_str()) != 0) {  // NOLINT(concurrency-mt-unsafe)
    throw output_error{fmt::format("gnuplot failed on {}; its own message is above", script.string())};
  }
}

/// An SVG that follows the viewer's light or dark scheme: the dark scheme inverts lightness and keeps hues.
std::string in_both_schemes(std::string svg) {
  const std::size_t root = svg.find("<svg");
  const std::size_t end = root == svg.npos ? svg.npos : svg.find('>', root);
  if (end == svg.npos) return svg;
  svg.insert(end + 1,
             "<style>@media (prefers-color-scheme: dark) { svg { filter: invert(1) hue-rotate(180deg); } }</style>");
  return svg;
}

}  // namespace detail
}  // namespace sim

namespace sim {

bool has_gnuplot() noexcept {
  return std::system("command -v gnuplot >/dev/null 2>&1") == 0;  // NOLINT(concurrency-mt-unsafe)
}

void require_gnuplot() {
  if (!has_gnuplot()) {
    throw output_error{"the plots need gnuplot, which is not on the PATH (Debian: apt install gnuplot-nox)"};
  }
}

void draw_script(const std::filesystem::path& script, const std::filesystem::path& picture, plot_format format) {
  std::filesystem::path growing = picture;
  growing += ".partial";
  try {
    detail::run_gnuplot(script, growing);
    if (format == plot_format::svg) {
      std::ostringstream drawn;
      drawn << std::ifstream{growing, std::ios::binary}.rdbuf();
      std::ofstream both{growing, std::ios::binary};
      if (!(both << detail::in_both_schemes(drawn.str())).flush()) {
        throw output_error{fmt::format("cannot write {}", growing.string())};
      }
    }
    std::error_code failure;
    std::filesystem::rename(growing, picture, failure);
    if (failure) throw output_error{fmt::format("cannot write {}: {}", picture.string(), failure.message())};
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(growing, ignored);
    throw;
  }
}

std::vector<std::filesystem::path> draw_figures(const std::filesystem::path& directory, std::span<const figure> figures,
                                                plot_format format) {
  require_gnuplot();
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  if (failure) throw output_error{fmt::format("cannot make {}: {}", directory.string(), failure.message())};
  const std::string_view extension = format == plot_format::svg ? ".svg" : ".png";
  std::vector<std::filesystem::path> pictures;
  for (const figure& f : figures) {
    if (f.script.empty()) continue;
    const std::string name = f.name + std::string{extension};
    const std::filesystem::path script = directory / (f.name + ".gp");
    output_file source{script};
    source.write(fmt::format("if (!exists('picture')) picture = '{}'\n{}set output picture\n{}", name,
                             detail::script_head(format, f.height), f.script));
    source.commit();
    const std::filesystem::path picture = directory / name;
    draw_script(script, picture, format);
    pictures.push_back(picture);
  }
  return pictures;
}

std::vector<figure> figures_of(std::span<const run_result> runs) {
  return {
      {"ttft_cdf", detail::cdf_script(runs, "Time to first answering token", slo_metric::ttft), 540},
      {"tpot_cdf", detail::cdf_script(runs, "Time per output token", slo_metric::tpot), 540},
      {"tail_ttft", detail::tail_script(runs), 540},
      {"timeline", detail::timeline_script(runs), static_cast<int>(60 + 170 * std::max<std::size_t>(runs.size(), 2))}};
}

std::vector<std::filesystem::path> write_plots(const std::filesystem::path& directory, std::span<const run_result> runs,
                                               plot_format format) {
  return draw_figures(directory, figures_of(runs), format);
}

}  // namespace sim
TESSERA_NAMESPACE_END
