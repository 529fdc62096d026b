// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/cost/qoe_model.hpp>
#include <tessera/sim/model/profile_file.hpp>

#include <array>
#include <string>
#include <string_view>

/// @file
/// Cost models as JSON:
///
///     {"qoe": {"d0": 0.008, "d1": 3e-05, "d2": 1e-07, "d3": 1e-12, "d4": 5e-08},
///      "transfer": {"per_sequence": 0, "per_token": 2.6e-06}}

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// The content of a cost file.
struct cost_file {
  cost::qoe_model qoe{};           ///< Seconds per output token.
  cost::transfer_cost transfer{};  ///< Seconds.

  /// Memberwise.
  friend bool operator==(const cost_file&, const cost_file&) = default;
};

/// As JSON, with all digits needed to read it back, ending in a newline.
[[nodiscard]] std::string to_json(const cost_file& c);

/// Reads a cost model from JSON: all keys are required, no others are allowed.
/// @param file its name in messages.
/// @throws input_error at the first bad key or value.
[[nodiscard]] cost_file parse_cost(std::string_view text, std::string_view file);

/// Reads a cost file.
/// @throws input_error as `parse_cost`, and when the file cannot be read.
[[nodiscard]] cost_file read_cost(const std::string& path);

}  // namespace sim
TESSERA_NAMESPACE_END
