// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <nlohmann/json.hpp>

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// JSON objects as rows of CSV: `{"ttft": {"p99": 2}}` gives the column `ttft_p99`.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// A text as a field of CSV: in double quotes if necessary.
[[nodiscard]] std::string csv_text(std::string_view text);

/// A single value as a field of CSV. A value that is no number is an empty field.
[[nodiscard]] std::string csv_value(const nlohmann::ordered_json& value);

/// A column and the field in it.
using csv_cell = std::pair<std::string, std::string>;

/// The fields of an object, in its order. Names of nested ones are joined by `_`; arrays and nulls are left out.
[[nodiscard]] std::vector<csv_cell> csv_cells(const nlohmann::ordered_json& object, const std::string& prefix = {});

/// One row for each object, and a header with all their columns, in the order of their first occurrence. O(rows *
/// columns^2).
[[nodiscard]] std::string tidy_csv(std::span<const nlohmann::ordered_json> objects);

}  // namespace sim
TESSERA_NAMESPACE_END
