// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/measure/metrics.hpp>
#include <tessera/sim/report/replicates.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// The output of a comparison: a table, a CSV row per request. As JSON: sim/report/report_json.hpp; pictures:
/// sim/report/plots.hpp.

TESSERA_NAMESPACE_BEGIN

namespace sim {

namespace detail {

/// Characters of UTF-8 text, all taken to have the same width.
[[nodiscard]] std::size_t columns_of(std::string_view text) noexcept;

enum class better { none, low, high };
// `if_any`: hidden if no row has it, or it is 0 in all; `once`: hidden with intervals.
enum class when { always, if_any, once };

/// The worth of a column for an objective.
inline constexpr int asked_worth = 18;

/// A number in a comparison.
struct measure {
  std::string_view top;  ///< Heading, first line.
  std::string bottom;    ///< Heading, second line.
  better wins;
  int digits;
  std::function<double(const summary&)> value;
  int worth;  ///< If there is not enough room, columns of the least worth are dropped first.
  when shown = when::always;
  std::string_view said{};  ///< Its name in a verdict; empty: a verdict does not mention it.
  std::string_view unit{};  ///< Unit behind its value there.
};

/// Digits of a metric's seconds.
[[nodiscard]] constexpr int digits_of(slo_metric m) noexcept {
  switch (m) {
    case slo_metric::ttft:
    case slo_metric::first_token: return 3;
    case slo_metric::tpot:
    case slo_metric::normalized_latency: return 4;
    case slo_metric::e2e: return 2;
  }
  return 3;
}

/// A metric as a column heading.
[[nodiscard]] constexpr std::string_view heading_of(slo_metric m) noexcept {
  switch (m) {
    case slo_metric::ttft: return "TTFT";
    case slo_metric::first_token: return "1st token";
    case slo_metric::tpot: return "TPOT";
    case slo_metric::e2e: return "e2e";
    case slo_metric::normalized_latency: return "s/token";
  }
  return "?";
}

/// The measures of every comparison.
[[nodiscard]] std::vector<measure> common_measures();

/// The measures of a comparison of these rows: the common ones, plus a column for each objective that none of them
/// shows.
[[nodiscard]] std::vector<measure> measures_of(std::span<const replicates> rows);

/// Whether there is nothing to show: no row has it, or it is 0 in all.
[[nodiscard]] bool is_nothing(std::span<const estimate> values);

/// Its heading in one line: `TTFT mean`, `migrations`.
[[nodiscard]] std::string heading_of(const measure& m);

/// A measure of all rows, and the best of them.
struct comparison {
  std::vector<estimate> values;
  std::vector<std::string> cells;  ///< The means as shown.
  std::vector<bool> best;          ///< The rows that cannot be distinguished from the best; none if all are alike. For
                                   ///< a measure that is better when low, only among those that serve most: times are
                                   ///< about the served requests.
};

[[nodiscard]] comparison compare(std::span<const replicates> rows, const measure& m);

/// `a`, `a and b`, `a, b and c`.
[[nodiscard]] std::string enumerate(const std::vector<std::string>& items);

}  // namespace detail

/// Most columns of a table, in characters.
inline constexpr std::size_t table_width = 100;

/// The comparison as a table: one row per policy, times in seconds. If there is more than one row and not all are
/// equal, the best of a column is marked `*`. Columns that are 0 everywhere (refusals, migrations and the like) are
/// left out, and goodput without objectives.
/// With several seeds a cell has the mean and the half width of its 95 % interval, and there are fewer columns. All
/// rows that cannot be distinguished from the best are marked. If the table is wider than `width`, the columns with the
/// least information are dropped, and named below it. Ends in a newline.
/// @param rows for each policy one run per seed, at least one.
[[nodiscard]] std::string format_table(std::span<const replicates> rows, std::size_t width = table_width);

/// A sentence that names the best policies by measure, for the measures in the table; empty for a single row, or if all
/// are alike. A shared lead names all of them.
[[nodiscard]] std::string format_verdict(std::span<const replicates> rows);

/// As above, for one run of each policy.
[[nodiscard]] std::string format_table(std::span<const summary> rows);

/// What a reader must know before believing the table: loads that are not carried, runs that are too short, and the
/// cost of deaths. With objectives, also a line for each policy that says whether it meets them.
[[nodiscard]] std::string format_remarks(std::span<const replicates> rows);

/// The header of `format_csv`. @param more names of the columns of its `more`, each followed by a comma.
[[nodiscard]] std::string csv_header(std::string_view more = {});

/// The requests of a run, one CSV row each, with the run's seed. A moment that never came is an empty field. @param
/// more constant fields of all rows, each followed by a comma.
[[nodiscard]] std::string format_csv(const run_result& run, std::uint64_t seed = 1, std::string_view more = {});

}  // namespace sim
TESSERA_NAMESPACE_END
