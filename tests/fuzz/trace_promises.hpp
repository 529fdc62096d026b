// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/trace.hpp>
#include <tessera/sim/input/workload.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace tessera_test {

inline void require(bool condition) {
  if (!condition) std::abort();
}

/// Sessions are numbered as they begin; runs are as long as the prompt.
inline bool promises_of_sessions(const tessera::sim::trace& t) {
  std::int64_t begun = 0;
  bool later = false;
  bool shared = false;
  for (const tessera::sim::trace_row& row : t.rows) {
    if (row.session < -1 || row.session > begun || !(row.think_s >= 0)) return false;
    if (row.session == -1 && row.think_s != 0) return false;
    later = later || (row.session >= 0 && row.session < begun);
    begun += row.session == begun ? 1 : 0;
    std::int64_t tokens = 0;
    for (const tessera::sim::text_run& r : row.runs) tokens += r.tokens;
    if (!row.runs.empty() && tokens != row.prompt_tokens) return false;
    shared = shared || !row.runs.empty();
  }
  return later == t.has_sessions && shared == t.has_prefixes && t.unused.size() <= 64;
}

/// The trace reader on any text: it either returns rows that keep every promise of trace.hpp, or throws an input_error
/// that points into the text. Anything else stops the program.
inline void check_trace_reader(std::string_view text) {
  namespace sim = tessera::sim;
  try {
    const sim::trace t = sim::parse_trace(text, "input");
    require(!t.rows.empty());
    double previous = 0;
    bool reasons = false;
    bool scored = false;
    for (const sim::trace_row& row : t.rows) {
      require(row.prompt_tokens >= 1 && row.prompt_tokens <= sim::max_trace_tokens);
      require(row.output_tokens >= 1 && row.output_tokens <= sim::max_trace_tokens);
      require(row.reasoning_tokens >= 0 && row.answer_tokens >= 0);
      require(row.reasoning_tokens + row.answer_tokens == row.output_tokens);
      if (t.has_arrivals) {
        require(row.arrival_s >= previous && row.arrival_s <= sim::max_trace_seconds);
        previous = row.arrival_s;
      } else {
        require(std::isnan(row.arrival_s));
      }
      require(!std::isinf(row.score));
      reasons = reasons || row.reasoning_tokens > 0;
      scored = scored || !std::isnan(row.score);
    }
    require(promises_of_sessions(t));
    require(reasons == t.has_reasoning && scored == t.has_scores);
    require(t.run >= 1 && t.run <= t.runs && t.out_of_order < t.rows.size());
    const auto rows = sim::schedule_arrivals(t, {.rate = t.has_arrivals ? std::optional<double>{} : 2.0});
    require(rows.size() == t.rows.size() && rows.front().arrival_s >= 0);
  } catch (const sim::input_error& e) {
    const auto ends = [](char c) { return c == '\n' || c == '\r'; };
    const auto lines = static_cast<std::uint64_t>(std::count_if(text.begin(), text.end(), ends));
    require(e.line() >= 1 && e.line() <= lines + 1);
    require(e.column() >= 1 && e.column() <= text.size() + 1);
    const std::string_view what = e.what();
    require(what.starts_with("input:") && what.size() < 1000);
    require(std::all_of(what.begin(), what.end(), [](char c) { return c >= 0x20 && c < 0x7f; }));
  }
}

}  // namespace tessera_test
