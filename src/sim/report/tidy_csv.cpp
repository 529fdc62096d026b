// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/config.hpp>
#include <tessera/sim/report/tidy_csv.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

std::string csv_text(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return std::string{text};
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += c;
    out += c;
  }
  return out + '"';
}

std::string csv_value(const nlohmann::ordered_json& value) {
  if (value.is_string()) return csv_text(value.get_ref<const std::string&>());
  if (value.is_number_float() && std::isnan(value.get<double>())) return {};
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return value.is_null() ? std::string{} : value.dump();
}

std::vector<csv_cell> csv_cells(const nlohmann::ordered_json& object, const std::string& prefix) {
  std::vector<csv_cell> cells;
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) {
      auto inner = csv_cells(value, prefix + key + "_");
      cells.insert(cells.end(), std::make_move_iterator(inner.begin()), std::make_move_iterator(inner.end()));
    } else if (!value.is_array() && !value.is_null()) {
      cells.emplace_back(prefix + key, csv_value(value));
    }
  }
  return cells;
}

std::string tidy_csv(std::span<const nlohmann::ordered_json> objects) {
  std::vector<std::vector<csv_cell>> rows;
  std::vector<std::string> columns;
  for (const auto& object : objects) {
    rows.push_back(csv_cells(object));
    for (const csv_cell& cell : rows.back()) {
      if (std::find(columns.begin(), columns.end(), cell.first) == columns.end()) columns.push_back(cell.first);
    }
  }
  std::string out;
  for (const std::string& column : columns) out += (out.empty() ? "" : ",") + csv_text(column);
  out += '\n';
  for (const auto& row : rows) {
    for (const std::string& column : columns) {
      const auto at = std::find_if(row.begin(), row.end(), [&](const csv_cell& c) { return c.first == column; });
      if (&column != &columns.front()) out += ',';
      if (at != row.end()) out += at->second;
    }
    out += '\n';
  }
  return out;
}

}  // namespace sim
TESSERA_NAMESPACE_END
