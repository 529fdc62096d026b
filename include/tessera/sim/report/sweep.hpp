// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/error.hpp>
#include <tessera/sim/input/split_list.hpp>
#include <tessera/sim/report/report.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// The same comparison at several loads or sizes: what is varied, a table of it, a sentence and a picture.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// What is varied, and its values.
struct sweep {
  std::string parameter;       ///< Its name, as the option's without the dashes.
  std::vector<double> values;  ///< Rising.
};

/// Most values of a sweep.
inline constexpr std::size_t max_sweep_values = 1000;

/// Reads `rate-scale=0.5:2:0.25`, from and to and step (1 if not said), or `instances=1,2,4,8`.
/// @param parameters what may be varied. @throws usage_error
[[nodiscard]] sweep parse_sweep(std::string_view text, std::span<const std::string_view> parameters);

/// One policy over a sweep.
struct sweep_curve {
  std::string policy;            ///< Its name.
  std::vector<replicates> runs;  ///< For each value those of all seeds; none where it cannot run.

  /// Whether all runs at that value meet the objectives, under a load that is carried.
  [[nodiscard]] bool meets(std::size_t value) const {
    const replicates& r = runs[value];
    return !r.empty() && !overloaded(value) &&
           std::all_of(r.begin(), r.end(), [](const summary& s) { return s.slo.met; });
  }
  /// Whether the queue grows in at least half of the runs at that value: one that happens to end in a busy time does
  /// not say that the load is too much.
  [[nodiscard]] bool overloaded(std::size_t value) const {
    const auto over = std::count_if(runs[value].begin(), runs[value].end(),
                                    [](const summary& s) { return s.load.state == load_state::overload; });
    return over != 0 && 2 * static_cast<std::size_t>(over) >= runs[value].size();
  }
};

namespace detail {}  // namespace detail

/// A row for each policy and a column for each value, of the goodput where there are objectives, else of P99 TTFT; `*`
/// marks the best of a column, `!` a load that is not carried. As many columns beside each other as `width` has room
/// for, the others below. Ends in a newline.
[[nodiscard]] std::string format_sweep(const sweep& what, std::span<const sweep_curve> curves,
                                       std::size_t width = table_width);

/// How far each policy meets the objectives, in words: of a load up to where, of a size from where on. Empty without
/// objectives. What lies between two values was not tried.
[[nodiscard]] std::string describe_sweep(const sweep& what, std::span<const sweep_curve> curves);

/// Curves over the values, a panel each: goodput and the part within the objectives where there are any, and the tails
/// of TTFT and TPOT. A script that lacks only its terminal and output. Four panels of 900 by 360.
/// @param title what was run.
[[nodiscard]] std::string sweep_script(const sweep& what, std::span<const sweep_curve> curves, std::string_view title);

}  // namespace sim
TESSERA_NAMESPACE_END
