// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The trace reader on any bytes: it either returns rows that keep every promise of trace.hpp, or throws an
// input_error that points into the text. Anything else stops the program.

#include <tessera/sim/input/trace.hpp>
#include <tessera/sim/input/workload.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace sim = tessera::sim;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
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
    require(reasons == t.has_reasoning && scored == t.has_scores);
    const auto rows = sim::schedule_arrivals(t, {.rate = t.has_arrivals ? std::optional<double>{} : 2.0});
    require(rows.size() == t.rows.size() && rows.front().arrival_s >= 0);
  } catch (const sim::input_error& e) {
    const auto lines = static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
    require(e.line() >= 1 && e.line() <= lines + 1);
    require(e.column() >= 1 && e.column() <= size + 1);
    const std::string_view what = e.what();
    require(what.starts_with("input:") && what.size() < 1000);
    require(std::all_of(what.begin(), what.end(), [](char c) { return c >= 0x20 && c < 0x7f; }));
  }
  return 0;
}
