// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The reader of measured steps on any bytes. It returns steps with numbers in range, which come back the same from the
// longer form. Or it throws an input_error that points into the text.

#include <tessera/sim/model/step_file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
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
    const sim::step_file file = sim::parse_steps(text, "input");
    require(!file.steps.empty());
    std::string again{sim::step_file_header};
    for (const sim::measured_step& s : file.steps) {
      require(s.seconds > 0 && s.seconds <= sim::max_measured_seconds);
      require(!s.shape().empty() && s.computed() >= 1);
      require((s.kind == sim::step_kind::decode) == (s.prompts == 0));
      require((s.kind == sim::step_kind::mixed) == (s.prompts > 0 && s.decodes > 0));
      if (s.prompts <= 1) again += sim::format_step(s);
    }
    if (again.size() == sim::step_file_header.size()) return 0;
    const sim::step_file other = sim::parse_steps(again, "again");
    std::size_t i = 0;
    for (const sim::measured_step& s : file.steps) {
      if (s.prompts <= 1) require(s.same_step(other.steps[i++]));
    }
  } catch (const sim::input_error& e) {
    const auto lines = static_cast<std::uint64_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }));
    require(e.line() >= 1 && e.line() <= lines + 2);
    require(e.column() >= 1 && e.column() <= size + 1);
    const std::string_view what = e.what();
    require(what.starts_with("input:") && what.size() < 2000);
    require(std::all_of(what.begin(), what.end(), [](char c) { return c >= 0x20 && c < 0x7f; }));
  }
  return 0;
}
