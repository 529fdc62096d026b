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
/// What a comparison shows, as JSON.

TESSERA_NAMESPACE_BEGIN

namespace sim {

namespace detail {

[[nodiscard]] nlohmann::ordered_json to_json(const distribution& d);

[[nodiscard]] nlohmann::ordered_json to_json(const slo_report& r);

}  // namespace detail

/// One run as JSON. What was not measured is null.
[[nodiscard]] nlohmann::ordered_json to_json(const summary& s);

namespace detail {

/// The same number of several runs: its mean. Of what is no number, that of the first run; of truths, the part that is
/// true; of what only some runs have, that of these. `half` gets the half widths of the 95 % intervals, in the same
/// shape.
[[nodiscard]] nlohmann::ordered_json mean_of(std::span<const nlohmann::ordered_json* const> runs,
                                             nlohmann::ordered_json& half);

}  // namespace detail

/// All runs of a policy as JSON: one as it is; of several the means, with `seeds`, how many they are, and `interval95`,
/// the half widths of the means' 95 % intervals in the same shape. A truth becomes the part of the runs of which it is
/// true, `load.state` the one that most runs have.
[[nodiscard]] nlohmann::ordered_json to_json(const replicates& runs);

/// The runs of all policies as a JSON array, ending in a newline. @param what what was run, for each of them.
[[nodiscard]] std::string format_json(std::span<const replicates> rows,
                                      const nlohmann::ordered_json& what = nlohmann::ordered_json::object());

/// One run of each policy as a JSON array, ending in a newline.
[[nodiscard]] std::string format_json(std::span<const summary> rows);

}  // namespace sim
TESSERA_NAMESPACE_END
