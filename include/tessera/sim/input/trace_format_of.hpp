// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/error.hpp>
#include <tessera/sim/input/formats/formats.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// Which format a file is of, by the names in it; and what to say where it is of none.

TESSERA_NAMESPACE_BEGIN

namespace sim::detail {

/// What a file has of a format.
struct format_match {
  std::string_view prompt{};  ///< The name of its prompt; empty: none.
  std::string_view output{};  ///< Of its output, or of the answer beside the reasoning.
  bool marks = true;          ///< All marks are there.
};

/// Compares the normalised names of a record with a format.
[[nodiscard]] inline format_match match(const trace_format& f, const std::vector<std::string>& names) {
  const auto has = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  format_match m;
  bool reasoning = false;
  std::string_view answer;
  for (const column_name& n : f.names) {
    if (!has(n.name)) continue;
    if ((n.is == column::prompt || n.is == column::usage) && m.prompt.empty()) m.prompt = n.name;
    if ((n.is == column::output || n.is == column::usage) && m.output.empty()) m.output = n.name;
    reasoning = reasoning || n.is == column::reasoning;
    if (n.is == column::answer) answer = n.name;
  }
  if (m.output.empty() && reasoning) m.output = answer;
  m.marks = std::all_of(f.marks.begin(), f.marks.end(), has);
  return m;
}

/// What a file with these names lacks of a format that it has one half of; else the formats that there are.
[[nodiscard]] inline std::string missing_names(const std::vector<std::string>& names) {
  std::vector<const trace_format*> order{&own_format};
  order.insert(order.end(), trace_formats.begin(), trace_formats.end());
  for (const trace_format* f : order) {
    if (!f->refusal.empty()) continue;
    const format_match m = match(*f, names);
    if (m.prompt.empty() == m.output.empty() || !m.marks) continue;
    std::vector<std::string_view> lacks;
    for (const column_name& n : f->names) {
      if (n.is == (m.prompt.empty() ? column::prompt : column::output)) lacks.push_back(n.name);
    }
    return fmt::format("the column {} (as in {}; {} is there)", fmt::join(lacks, " or "), f->whose,
                       m.prompt.empty() ? m.output : m.prompt);
  }
  std::vector<std::string_view> whose;
  for (const trace_format* f : trace_formats) {
    if (!f->refusal.empty() || f == &own_format) continue;
    if (std::find(whose.begin(), whose.end(), f->whose) == whose.end()) whose.push_back(f->whose);
  }
  return fmt::format("the columns prompt_tokens and output_tokens, or those of {}", fmt::join(whose, ", "));
}

/// The first format that fits these names, and that `holds`. `refuse(expected)` must throw. @param what has the names.
template <class Holds, class Refuse>
[[nodiscard]] const trace_format& format_of(std::string_view what, const std::vector<std::string>& names, Holds&& holds,
                                            Refuse&& refuse) {
  for (const trace_format* f : trace_formats) {
    const format_match m = match(*f, names);
    const bool lengths = f->marked || !f->refusal.empty() || (!m.prompt.empty() && !m.output.empty());
    const bool within = !f->within.empty();  // Its records are further down.
    if (!holds(*f) || (!within && (!lengths || !m.marks))) continue;
    if (!f->refusal.empty() && !f->runs) refuse(f->refusal);
    return *f;
  }
  refuse(fmt::format("{} with {}", what, missing_names(names)));
  throw error{"unreachable"};
}

}  // namespace sim::detail
TESSERA_NAMESPACE_END
