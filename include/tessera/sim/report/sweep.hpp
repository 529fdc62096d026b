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
/// One comparison at several loads or sizes: the varied parameter, a table, a sentence and a picture.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// The varied parameter, and its values.
struct sweep {
  std::string parameter;       ///< Its name, as the option's without the dashes.
  std::vector<double> values;  ///< Ascending.
};

/// Most values of a sweep.
inline constexpr std::size_t max_sweep_values = 1000;

/// Reads `rate-scale=0.5:2:0.25`, from and to and step (1 by default), or `instances=1,2,4,8`.
/// @param parameters the names that may be varied. @throws usage_error
[[nodiscard]] sweep parse_sweep(std::string_view text, std::span<const std::string_view> parameters);

/// One policy over a sweep.
struct sweep_curve {
  std::string policy;            ///< Its name.
  std::vector<replicates> runs;  ///< By value, the runs of all seeds; empty if it cannot run there.

  /// Whether all runs at that value meet the objectives, and the load is carried.
  [[nodiscard]] bool meets(std::size_t value) const {
    const replicates& r = runs[value];
    return !r.empty() && !overloaded(value) &&
           std::all_of(r.begin(), r.end(), [](const summary& s) { return s.slo.met; });
  }
  /// Whether the queue grows in at least half of the runs at that value. A single run that happens to end in a busy
  /// time does not show overload.
  [[nodiscard]] bool overloaded(std::size_t value) const {
    const auto over = std::count_if(runs[value].begin(), runs[value].end(),
                                    [](const summary& s) { return s.load.state == load_state::overload; });
    return over != 0 && 2 * static_cast<std::size_t>(over) >= runs[value].size();
  }
};

namespace detail {}  // namespace detail

/// A row for each policy and a column for each value. Shows goodput if there are objectives, else P99 TTFT. `*` marks
/// the best of a column, `!` a load that is not carried. As many columns side by side as `width` has room for, the
/// others below. Ends in a newline.
[[nodiscard]] std::string format_sweep(const sweep& what, std::span<const sweep_curve> curves,
                                       std::size_t width = table_width);

/// The range in which each policy meets the objectives, in words: up to a load, or from a size on. Empty without
/// objectives. Values in between were not tried.
[[nodiscard]] std::string describe_sweep(const sweep& what, std::span<const sweep_curve> curves);

/// Curves over the values, one panel each: goodput and the fraction within the objectives, if there are any, and the
/// tails of TTFT and TPOT. A script without its terminal and output. Four panels of 900 by 360.
/// @param title the experiment.
[[nodiscard]] std::string sweep_script(const sweep& what, std::span<const sweep_curve> curves, std::string_view title);

}  // namespace sim
TESSERA_NAMESPACE_END
