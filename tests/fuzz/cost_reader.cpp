// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Cost files: whatever the text, reading it answers a valid model that comes back as it was, or says where it is wrong.

#include <tessera/sim/model/cost_file.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

using namespace tessera;

void check(std::string_view text) {
  try {
    const sim::cost_file c = sim::parse_cost(text, "f");
    if (!c.qoe.valid() || !c.transfer.valid() || sim::parse_cost(sim::to_json(c), "f") != c) std::abort();
  } catch (const sim::input_error& e) {
    const std::string_view what = e.what();
    if (what.substr(0, 2) != "f:" || what.find('\n') != what.npos) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check({reinterpret_cast<const char*>(data), size});
  // And a right file with a piece of it replaced.
  std::string text = sim::to_json({.qoe = {{1, 2e-5, 3e-7, 0, 5e-8}}, .transfer = {0, 2e-6}});
  if (size >= 2) {
    const std::size_t at = data[0] % text.size();
    const std::size_t gone = data[1] % 32;
    text.replace(at, gone, reinterpret_cast<const char*>(data + 2), size - 2);
    check(text);
  }
  return 0;
}
