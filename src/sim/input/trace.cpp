// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/input/input.hpp>
#include <tessera/sim/input/trace.hpp>
#include <tessera/sim/input/trace_data.hpp>
#include <tessera/sim/input/trace_reader.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

trace parse_trace(std::string_view text, std::string_view name, const trace_options& options) {
  if (options.gunzip != nullptr && text.substr(0, gzip_magic.size()) == gzip_magic) {
    return detail::read_trace_text(options.gunzip(text, name), name, options);
  }
  return detail::read_trace_text(text, name, options);
}

trace read_trace(const std::string& path, const trace_options& options) {
  return parse_trace(read_file(path), path, options);
}

std::vector<std::string> remarks(const trace& t) {
  std::vector<std::string> out;
  if (t.runs > 1) out.push_back(fmt::format("{} holds {} runs: run {} is read (--run N)", t.name, t.runs, t.run));
  if (!t.unit_said.empty()) out.push_back(fmt::format("{}: {} (--time-unit says otherwise)", t.name, t.unit_said));
  if (!t.unused.empty()) {
    std::vector<std::string> names;
    for (const std::string& name : t.unused) names.push_back(shown(name));
    out.push_back(fmt::format("Columns of {} that are not used: {}", t.name, fmt::join(names, ", ")));
  }
  const std::string left_out = describe(t.left_out);
  if (!left_out.empty()) out.push_back(fmt::format("Rows of {} that are left out: {}", t.name, left_out));
  if (t.out_of_order != 0) {
    out.push_back(
        fmt::format("Rows of {} that are out of order, and are sorted by arrival: {}", t.name, t.out_of_order));
  }
  return out;
}

std::string describe_unused(const trace& t) {
  std::string out;
  for (const std::string& line : remarks(t)) out += line + "\n";
  return out;
}

std::string no_arrivals(const trace& t, std::string_view rate) {
  std::string out = fmt::format("{} has no arrivals: name {} (requests per second{})", t.name, rate,
                                t.own_rate > 0 ? fmt::format("; it was measured at {:.4g}", t.own_rate) : "");
  std::vector<std::string> times;
  for (const std::string& name : t.unused) {
    const std::string plain = detail::normalised(name);
    for (const std::string_view word : {"time", "arriv", "start", "date", "created"}) {
      if (plain.find(word) == plain.npos) continue;
      times.push_back(shown(name));
      break;
    }
  }
  if (!times.empty()) {
    out += fmt::format(", or call the column of the arrivals arrival_s or arrival_ms: is it {}?",
                       fmt::join(times, " or "));
  }
  return out;
}

}  // namespace sim
TESSERA_NAMESPACE_END
