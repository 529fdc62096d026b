// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/config.hpp>
#include <tessera/sim/measure/distribution.hpp>
#include <tessera/sim/report/progress.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

bool is_terminal(std::FILE* file) noexcept {
#if __has_include(<unistd.h>)
  return file != nullptr && ::isatty(::fileno(file)) == 1;
#else
  (void)file;
  return false;
#endif
}

std::size_t terminal_width(std::FILE* file) noexcept {
#if __has_include(<sys/ioctl.h>) && __has_include(<unistd.h>)
  winsize size{};
  if (is_terminal(file) && ::ioctl(::fileno(file), TIOCGWINSZ, &size) == 0) return size.ws_col;
#endif
  (void)file;
  return 0;
}

std::string describe_seconds(double seconds) {
  const auto s = static_cast<std::int64_t>(std::min(std::ceil(seconds), 1e12));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
  return fmt::format("{} h {} min", s / 3600, s % 3600 / 60);
}

}  // namespace sim
TESSERA_NAMESPACE_END
