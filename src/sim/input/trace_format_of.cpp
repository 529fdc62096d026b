// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/error.hpp>
#include <tessera/sim/input/formats/formats.hpp>
#include <tessera/sim/input/trace_format_of.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim::detail {

format_match match(const trace_format& f, const std::vector<std::string>& names) {
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

std::string missing_names(const std::vector<std::string>& names) {
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

}  // namespace sim::detail
TESSERA_NAMESPACE_END
