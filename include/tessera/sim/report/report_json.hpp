// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/json_text.hpp>
#include <tessera/sim/measure/metrics.hpp>
#include <tessera/sim/report/replicates.hpp>

#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// @file
/// The content of a comparison, as JSON.

TESSERA_NAMESPACE_BEGIN

namespace sim {

namespace detail {

[[nodiscard]] nlohmann::ordered_json to_json(const distribution& d);

[[nodiscard]] nlohmann::ordered_json to_json(const slo_report& r);

}  // namespace detail

/// One run as JSON. Unmeasured values are null.
[[nodiscard]] nlohmann::ordered_json to_json(const summary& s);

namespace detail {

/// Combines the values of several runs. Numbers become their mean, and truth values the fraction of true ones. For
/// other values, that of the first run. Values that only some runs have are combined over these. `half` gets the half
/// widths of the 95 % intervals, in the same shape.
[[nodiscard]] nlohmann::ordered_json mean_of(std::span<const nlohmann::ordered_json* const> runs,
                                             nlohmann::ordered_json& half);

}  // namespace detail

/// All runs of a policy as JSON. One run is unchanged. Several runs become their means, with `seeds`, their number, and
/// `interval95`, the half widths of the means' 95 % intervals in the same shape. A truth value becomes the fraction of
/// runs in which it is true, `load.state` the most frequent one.
[[nodiscard]] nlohmann::ordered_json to_json(const replicates& runs);

/// The runs of all policies as a JSON array, ending in a newline. @param what a description of the experiment, added to
/// each.
[[nodiscard]] std::string format_json(std::span<const replicates> rows,
                                      const nlohmann::ordered_json& what = nlohmann::ordered_json::object());

/// One run of each policy as a JSON array, ending in a newline.
[[nodiscard]] std::string format_json(std::span<const summary> rows);

}  // namespace sim
TESSERA_NAMESPACE_END
