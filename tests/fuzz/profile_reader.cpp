// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The profile reader on any bytes. It returns a profile that costs every step at a positive finite time and comes back
// the same through JSON. Or it throws an input_error that points into the text.

#include <tessera/sim/model/profile_file.hpp>
#include <tessera/sim/model/step_time.hpp>

#include <algorithm>
#include <cmath>
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
    const sim::profile p = sim::parse_profile(text, "input");
    require(p.kv_tokens() >= 1);
    const sim::step_timer timer{p};
    sim::step_shape shape;
    for (int i = 0; i < 3; ++i) {
      shape.add_decode(tessera::tokens{100 * i + 1});
      require(std::isfinite(timer(shape)) && timer(shape) > 0);
      shape.add_prefill(tessera::tokens{i}, tessera::tokens{1000});
      require(std::isfinite(timer(shape)) && timer(shape) > 0);
    }
    const std::string written = sim::to_json(p);
    require(sim::to_json(sim::parse_profile(written, "again")) == written);
  } catch (const sim::input_error& e) {
    const auto lines = static_cast<std::uint64_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }));
    require(e.line() >= 1 && e.line() <= lines + 1);
    require(e.column() >= 1 && e.column() <= size + 1);
    const std::string_view what = e.what();
    require(what.starts_with("input:") && what.size() < 2000);
    require(std::all_of(what.begin(), what.end(), [](char c) { return c >= 0x20 && c < 0x7f; }));
  }
  return 0;
}
