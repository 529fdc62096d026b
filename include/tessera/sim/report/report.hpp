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
/// What a comparison shows: a table, a CSV row per request. As JSON: sim/report/report_json.hpp; pictures:
/// sim/report/plots.hpp.

TESSERA_NAMESPACE_BEGIN

namespace sim {

namespace detail {

/// Characters of UTF-8 text, each as wide as any other.
[[nodiscard]] std::size_t columns_of(std::string_view text) noexcept;

enum class better { none, low, high };
// `if_any`: not where no row has it, or it is 0 in all; `once`: not with intervals.
enum class when { always, if_any, once };

/// The worth of a column that an objective asks for.
inline constexpr int asked_worth = 18;

/// A number that a comparison shows.
struct measure {
  std::string_view top;  ///< Heading, first line.
  std::string bottom;    ///< Heading, second line.
  better wins;
  int digits;
  std::function<double(const summary&)> value;
  int worth;  ///< Where there is no room for all columns, those of the least worth go first.
  when shown = when::always;
  std::string_view said{};  ///< What a verdict calls it; empty: it says nothing of it.
  std::string_view unit{};  ///< Behind its value there.
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

/// As the heading of a column.
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

/// What every comparison has.
[[nodiscard]] std::vector<measure> common_measures();

/// What a comparison of these rows has: besides, a column for what each objective asks for, where none shows it.
[[nodiscard]] std::vector<measure> measures_of(std::span<const replicates> rows);

/// Whether there is nothing to show of it: no row has it, or it is 0 in all.
[[nodiscard]] bool is_nothing(std::span<const estimate> values);

/// Its heading in one line: `TTFT mean`, `migrations`.
[[nodiscard]] std::string heading_of(const measure& m);

/// A measure of all rows, and which of them are the best.
struct comparison {
  std::vector<estimate> values;
  std::vector<std::string> cells;  ///< The means as they are shown.
  std::vector<bool> best;          ///< Those that the best cannot be told from; none where all are alike. Of what is
                                   ///< better when it is low, only of those that serve most: times are of the served.
};

[[nodiscard]] comparison compare(std::span<const replicates> rows, const measure& m);

/// `a`, `a and b`, `a, b and c`.
[[nodiscard]] std::string enumerate(const std::vector<std::string>& items);

}  // namespace detail

/// Most columns of a table, in characters.
inline constexpr std::size_t table_width = 100;

/// The comparison as a table: one row per policy, times in seconds; the best of a column is marked `*` where there is
/// more than one row and not all are equal. Columns of what is 0 everywhere, refusals, migrations and the like, are
/// left out, and goodput where there are no objectives. With several seeds a cell has the mean and the half width of
/// its 95 % interval, there are fewer columns, and all are marked that the best cannot be told from. Of what is wider
/// than `width` the columns that say least are left out, and named below it. Ends in a newline.
/// @param rows for each policy as many runs as there are seeds, at least one.
[[nodiscard]] std::string format_table(std::span<const replicates> rows, std::size_t width = table_width);

/// A sentence that says who wins in what, of what the table shows; empty for a single row, or where all are alike. What
/// several share is said of all of them.
[[nodiscard]] std::string format_verdict(std::span<const replicates> rows);

/// As above, for one run of each policy.
[[nodiscard]] std::string format_table(std::span<const summary> rows);

/// What a reader must know before he believes the table: which loads are not carried, which runs are too short, and
/// what instances that died have cost; and, where there are objectives, a line for each policy that says whether it
/// meets them.
[[nodiscard]] std::string format_remarks(std::span<const replicates> rows);

/// The header of `format_csv`. @param more names of the columns of its `more`, each with a comma behind it.
[[nodiscard]] std::string csv_header(std::string_view more = {});

/// The requests of a run, one CSV row each, with the seed that it was run with. A moment that never came is an empty
/// field. @param more what is the same in all rows: fields, each with a comma behind it.
[[nodiscard]] std::string format_csv(const run_result& run, std::uint64_t seed = 1, std::string_view more = {});

}  // namespace sim
TESSERA_NAMESPACE_END
