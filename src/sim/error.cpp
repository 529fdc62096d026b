// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/config.hpp>
#include <tessera/sim/error.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

TESSERA_NAMESPACE_BEGIN

namespace sim {

std::string shown(std::string_view text, std::size_t longest) {
  std::string out = "'";
  for (const char c : text.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\'' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  out += '\'';
  if (text.size() > longest) out += "...";
  return out;
}

}  // namespace sim
TESSERA_NAMESPACE_END
