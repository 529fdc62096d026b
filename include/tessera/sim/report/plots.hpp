// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/measure/metrics.hpp>
#include <tessera/sim/report/output_file.hpp>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// Pictures of runs: gnuplot scripts, and how gnuplot is run.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// The kind of picture that plots become.
enum class plot_format { svg, png };

namespace detail {

/// Text for a single-quoted string of gnuplot.
[[nodiscard]] std::string gnuplot_quoted(std::string_view text);

/// The places of at most `most` of `n` samples: evenly spread, first and last among them.
[[nodiscard]] std::vector<std::size_t> thin_out(std::size_t n, std::size_t most);

inline constexpr std::size_t plot_points = 2000;

[[nodiscard]] std::string script_head(plot_format format, int height);

inline constexpr std::string_view script_style =
    "set grid lc rgb '#dddddd'\nset border 3\nset tics nomirror\nset key top right noenhanced\n"
    "set style line 1 lw 2 lc rgb '#0072b2'\nset style line 2 lw 2 lc rgb '#d55e00'\n"
    "set style line 3 lw 2 lc rgb '#009e73'\nset style line 4 lw 2 lc rgb '#cc79a7'\n"
    "set style line 5 lw 2 lc rgb '#e69f00'\nset style line 6 lw 2 lc rgb '#56b4e9'\n"
    "set style line 7 lw 2 lc rgb '#000000'\nset style line 8 lw 2 lc rgb '#999999'\n";

/// `plot` with one curve per run that has data: columns `using` of its data block.
[[nodiscard]] std::string curves(std::span<const run_result> runs, const std::vector<bool>& has,
                                 std::string_view columns, std::string_view style, std::string_view more = "");

/// A step of 1, 2 or 5 times a power of ten, with at most `steps` steps in `range`. Requires both above 0.
[[nodiscard]] double round_step(double range, int steps);

/// A logarithmic axis, `x` or `y`, over a range above 0, with numbers on it. An axis that crosses no power of ten has
/// none by default.
[[nodiscard]] std::string log_axis(char axis, double least, double most);

/// A dashed line at the bound of an objective, across an axis, `x` or `y`, with its name; lines count from 1.
[[nodiscard]] std::string bound_line(char axis, const slo_bound& bound, std::size_t line);

/// The objectives of runs that bound this metric; all runs have the same.
[[nodiscard]] std::vector<slo_bound> bounds_of(const slo_report& slo, slo_metric metric);

/// Runs the script, which draws into `picture`. @throws output_error
void run_gnuplot(const std::filesystem::path& script, const std::filesystem::path& picture);

}  // namespace detail

/// Whether the plots can be drawn here.
[[nodiscard]] bool has_gnuplot() noexcept;

/// Throws without gnuplot: call it before the work begins.
/// @throws output_error that says how to get it.
void require_gnuplot();

/// A drawable picture.
struct figure {
  std::string name;    ///< Name of its file, without an extension.
  std::string script;  ///< For gnuplot, with its data, without a terminal and an output. Empty: there is no data.
  int height = 540;    ///< For a width of 900.
};

/// Has gnuplot draw a script, which uses the variable `picture`, into its place: completely or not at all. SVG follows
/// the reader's light or dark scheme.
/// @throws output_error
void draw_script(const std::filesystem::path& script, const std::filesystem::path& picture, plot_format format);

/// Draws figures into the folder `directory`, which is made if it is missing. Each is a picture and a `.gp` file that
/// holds its data and can be edited and run again. One without a script is left out. An SVG follows the viewer's light
/// or dark scheme.
/// @return the pictures' paths.
/// @throws output_error gnuplot is missing or fails, or a file cannot be written.
std::vector<std::filesystem::path> draw_figures(const std::filesystem::path& directory, std::span<const figure> figures,
                                                plot_format format = plot_format::svg);

/// The names of all pictures of runs and of sweeps.
inline constexpr std::string_view figure_names[] = {"ttft_cdf", "tpot_cdf", "tail_ttft", "timeline", "sweep"};

/// Pictures of runs: `ttft_cdf`, `tpot_cdf`, `tail_ttft`, `timeline`. One without data has no script.
[[nodiscard]] std::vector<figure> figures_of(std::span<const run_result> runs);

/// Draws the pictures of runs into a folder: see `draw_figures`.
std::vector<std::filesystem::path> write_plots(const std::filesystem::path& directory, std::span<const run_result> runs,
                                               plot_format format = plot_format::svg);

}  // namespace sim
TESSERA_NAMESPACE_END
