// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "reproduce.hpp"

#include <tessera/core/assert.hpp>
#include <tessera/sim/report/output_file.hpp>
#include <tessera/sim/report/tidy_csv.hpp>

#include <algorithm>
#include <cctype>
#include <system_error>

namespace reproduce {

namespace {

constexpr std::string_view with_interval = "±";

}  // namespace

void results::table(std::string_view name, const std::vector<std::string>& columns, const std::vector<row>& rows) {
  std::string text;
  for (std::size_t i = 0; i != columns.size(); ++i) {
    const bool two = columns[i].ends_with(with_interval);
    const std::string column = two ? columns[i].substr(0, columns[i].size() - with_interval.size()) : columns[i];
    text += (i == 0 ? "" : ",") + column + (two ? "," + column + "_ci95" : "");
  }
  text += '\n';
  for (const row& r : rows) {
    TESSERA_ASSERT(r.size() == columns.size(), "a row has a cell for each column");
    for (std::size_t i = 0; i != columns.size(); ++i) {
      text += (i == 0 ? "" : ",") + sim::csv_text(r[i].value());
      if (columns[i].ends_with(with_interval)) {
        text += "," + r[i].half();
      } else {
        TESSERA_ASSERT(r[i].half().empty(), "an interval has a column");
      }
    }
    text += '\n';
  }
  files_.emplace_back(name, std::move(text));
}

void results::finish() {
  std::error_code failure;
  std::filesystem::create_directories(folder_, failure);
  if (failure) throw sim::output_error{fmt::format("cannot make {}: {}", folder_.string(), failure.message())};
  for (const auto& [name, text] : files_) {
    const std::filesystem::path path = folder_ / (name + ".csv");
    sim::output_file file{path};
    file.write(text);
    file.commit();
    fmt::print("{}\n", path.string());
  }
}

std::vector<cell> load_cells(const std::vector<sim::load_verdict>& runs) {
  using sim::load_state;
  row cells;
  for (const auto state : {load_state::overload, load_state::unsettled, load_state::carried}) {
    cells.emplace_back(std::count_if(runs.begin(), runs.end(), [&](const auto& r) { return r.state == state; }));
  }
  double grows = 0;
  for (const sim::load_verdict& r : runs) grows += r.left_behind > 0 ? r.left_behind : 0;
  cells.emplace_back(100 * grows / static_cast<double>(runs.size()));
  return cells;
}

std::string column_of(std::string_view metric) {
  std::string name;
  for (const char c : metric) {
    if (c == '%' || c == '/') {
      name += c == '%' ? "_pct_" : "_per_";
    } else {
      name += std::isalnum(static_cast<unsigned char>(c)) != 0
                  ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
                  : '_';
    }
  }
  std::string out;
  for (const char c : name) {
    if (c != '_' || (!out.empty() && out.back() != '_')) out += c;
  }
  if (out.ends_with('_')) out.pop_back();
  return out;
}

}  // namespace reproduce
