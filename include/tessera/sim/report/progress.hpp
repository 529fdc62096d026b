// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#if __has_include(<unistd.h>)
#  include <unistd.h>
#endif

/// @file
/// A progress bar for people: on a terminal only, never in a log.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// Whether `file` is a terminal.
[[nodiscard]] inline bool is_terminal(std::FILE* file) noexcept {
#if __has_include(<unistd.h>)
  return file != nullptr && ::isatty(::fileno(file)) == 1;
#else
  (void)file;
  return false;
#endif
}

/// One line that is drawn over and over while the work goes on, and wiped at the end. Draws nothing when the output is
/// no terminal. `update` costs a comparison unless the percentage changed.
class progress_bar {
 public:
  /// @param total the amount of work; 0: not known, the bar stays empty.
  explicit progress_bar(std::string label, double total, std::FILE* out = stderr)
      : progress_bar{std::move(label), total, out, is_terminal(out)} {}

  /// As above, but the caller says whether to draw.
  progress_bar(std::string label, double total, std::FILE* out, bool draws)
      : label_{std::move(label)}, out_{out}, total_{total}, draws_{draws} {
    update(0);
  }

  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;
  ~progress_bar() { clear(); }

  /// So much of the total is done.
  void update(double done) {
    if (!draws_) return;
    double part = total_ > 0 ? done / total_ : 0;
    part = part < 0 ? 0 : part > 1 ? 1 : part;
    const int percent = static_cast<int>(part * 100);
    if (percent == drawn_) return;
    drawn_ = percent;
    constexpr int width = 40;
    const int filled = percent * width / 100;
    put(fmt::format("\r{} [{:#<{}}{:.<{}}] {:3} %", label_, "", filled, "", width - filled, percent));
  }

  /// Wipes the line, so that other output may follow.
  void clear() noexcept {
    if (!draws_ || drawn_ < 0) return;
    put("\r\x1b[K");
    drawn_ = -1;
  }

 private:
  void put(std::string_view text) noexcept {
    (void)std::fwrite(text.data(), 1, text.size(), out_);
    (void)std::fflush(out_);
  }

  std::string label_;
  std::FILE* out_;
  double total_;
  bool draws_;
  int drawn_ = -1;
};

}  // namespace sim
TESSERA_NAMESPACE_END
