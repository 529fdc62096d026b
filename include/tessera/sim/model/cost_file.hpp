// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/cost/qoe_model.hpp>
#include <tessera/sim/model/profile_file.hpp>

#include <fmt/ranges.h>

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

/// What a cost file holds.
struct cost_file {
  cost::qoe_model qoe{};           ///< Seconds per output token.
  cost::transfer_cost transfer{};  ///< Seconds.

  /// Memberwise.
  friend bool operator==(const cost_file&, const cost_file&) = default;
};

/// As JSON, with every digit that reading it back needs, ending in a newline.
[[nodiscard]] inline std::string to_json(const cost_file& c) {
  nlohmann::ordered_json qoe;
  for (std::size_t i = 0; i != c.qoe.d.size(); ++i) qoe[fmt::format("d{}", i)] = c.qoe.d[i];
  const nlohmann::ordered_json j{
      {"qoe", qoe}, {"transfer", {{"per_sequence", c.transfer.per_sequence}, {"per_token", c.transfer.per_token}}}};
  return j.dump(2) + "\n";
}

/// Reads a cost model from JSON: all keys are needed, no others are taken.
/// @param file what messages call it.
/// @throws input_error at the first key or value that is not as it should be.
[[nodiscard]] inline cost_file parse_cost(std::string_view text, std::string_view file) {
  text = without_mark(text);
  require_plain_text(text, file, "a JSON object");
  detail::json_checker checker;
  if (!nlohmann::json::sax_parse(text, &checker)) {
    const bool at_end = checker.offset >= text.size();
    throw input_error{file, position_of(text, at_end ? text.size() : checker.offset), checker.expected("valid JSON"),
                      at_end ? "the end of the file: is it truncated?" : shown(checker.token)};
  }
  const nlohmann::json document = nlohmann::json::parse(text);
  const detail::json_locator locate{text};
  constexpr std::array<const char*, 2> keys{"qoe", "transfer"};
  if (!document.is_object()) {
    throw input_error{file, position_of(text, locate.find({}).value), "a cost model, an object", shown(text, 20)};
  }
  for (const auto& item : document.items()) {
    if (item.key() == keys[0] || item.key() == keys[1]) continue;
    throw input_error{file, position_of(text, locate.find({item.key()}).key),
                      fmt::format("only the keys {} in a cost model", fmt::join(keys, ", ")), shown(item.key())};
  }
  for (const char* key : keys) {
    if (document.contains(key)) continue;
    throw input_error{file, position_of(text, locate.find({}).value),
                      fmt::format("a cost model with the key {} (an object)", key), "an object without it"};
  }
  constexpr double most = 1e12;
  cost_file c;
  const detail::profile_reader qoe{text, file, document.at(keys[0]), {keys[0]}};
  qoe.allow({"d0", "d1", "d2", "d3", "d4"});
  for (std::size_t i = 0; i != c.qoe.d.size(); ++i) c.qoe.d[i] = qoe.number(fmt::format("d{}", i), 0, most);
  const detail::profile_reader transfer{text, file, document.at(keys[1]), {keys[1]}};
  transfer.allow({"per_sequence", "per_token"});
  c.transfer = {.per_sequence = transfer.number("per_sequence", 0, most),
                .per_token = transfer.number("per_token", 0, most)};
  return c;
}

/// Reads a cost file.
/// @throws input_error as `parse_cost`, and when the file cannot be read.
[[nodiscard]] inline cost_file read_cost(const std::string& path) { return parse_cost(read_file(path), path); }

}  // namespace sim
TESSERA_NAMESPACE_END
