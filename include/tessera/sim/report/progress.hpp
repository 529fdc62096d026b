// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#if __has_include(<unistd.h>)
#  include <unistd.h>
#endif
#if __has_include(<sys/ioctl.h>)
#  include <sys/ioctl.h>
#endif

/// @file
/// How far the work is, for people: on a terminal only, never in a log.

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

/// Columns of the terminal `file`; 0 if it is none, or does not say.
[[nodiscard]] inline std::size_t terminal_width(std::FILE* file) noexcept {
#if __has_include(<sys/ioctl.h>) && __has_include(<unistd.h>)
  winsize size{};
  if (is_terminal(file) && ::ioctl(::fileno(file), TIOCGWINSZ, &size) == 0) return size.ws_col;
#endif
  (void)file;
  return 0;
}

/// A time as people say it: `48 s`, `3 min 20 s`, `2 h 5 min`. Requires a number of seconds from 0.
[[nodiscard]] inline std::string describe_seconds(double seconds) {
  const auto s = static_cast<std::int64_t>(std::min(std::ceil(seconds), 1e12));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
  return fmt::format("{} h {} min", s / 3600, s % 3600 / 60);
}

/// One line that is drawn over and over while the work goes on, and wiped at the end: the part that is done, and, when
/// a second has passed, the time that is left if it goes on as it did. Draws nothing when the output is no terminal.
/// `update` reads the clock, and draws when the percentage has changed, or a second has passed.
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
    if (draws_) update(done, std::chrono::duration<double>(clock::now() - begun_).count());
  }

  /// As above, so many seconds after the beginning.
  void update(double done, double seconds) {
    if (!draws_) return;
    double part = total_ > 0 ? done / total_ : 0;
    part = part < 0 ? 0 : part > 1 ? 1 : part;
    const int percent = static_cast<int>(part * 100);
    if (percent == drawn_ && seconds < drawn_s_ + 1) return;
    drawn_ = percent;
    drawn_s_ = seconds;
    constexpr int width = 40;
    const int filled = percent * width / 100;
    const std::string left = seconds >= 1 && part > 0 && part < 1
                                 ? fmt::format(", {} left", describe_seconds(seconds * (1 - part) / part))
                                 : std::string{};
    put(fmt::format("\r{} [{:#<{}}{:.<{}}] {:3} %{}\x1b[K", label_, "", filled, "", width - filled, percent, left));
  }

  /// Wipes the line, so that other output may follow.
  void clear() noexcept {
    if (!draws_ || drawn_ < 0) return;
    put("\r\x1b[K");
    drawn_ = -1;
  }

 private:
  using clock = std::chrono::steady_clock;

  void put(std::string_view text) noexcept {
    (void)std::fwrite(text.data(), 1, text.size(), out_);
    (void)std::fflush(out_);
  }

  std::string label_;
  std::FILE* out_;
  double total_;
  clock::time_point begun_ = clock::now();
  double drawn_s_ = 0;
  bool draws_;
  int drawn_ = -1;
};

/// A text of several lines that is shown while it grows, on a terminal that is wide enough for it: each takes the place
/// of the one before. Elsewhere nothing is shown.
class live_text {
 public:
  /// @param widest columns of its longest line.
  live_text(std::FILE* out, std::size_t widest) noexcept : out_{out}, draws_{terminal_width(out) > widest} {}
  /// As above, but the caller says whether to draw.
  live_text(std::FILE* out, bool draws) noexcept : out_{out}, draws_{draws} {}

  live_text(const live_text&) = delete;
  live_text& operator=(const live_text&) = delete;
  ~live_text() { clear(); }

  /// Whether anything is shown.
  [[nodiscard]] bool draws() const noexcept { return draws_; }

  /// Shows `text`, whole lines, in the place of what is there.
  void show(std::string_view text) {
    if (!draws_) return;
    clear();
    (void)std::fwrite(text.data(), 1, text.size(), out_);
    (void)std::fflush(out_);
    lines_ = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }

  /// Takes it away.
  void clear() noexcept {
    if (lines_ == 0) return;
    (void)std::fprintf(out_, "\x1b[%zuA\x1b[J", lines_);
    (void)std::fflush(out_);
    lines_ = 0;
  }

 private:
  std::FILE* out_;
  std::size_t lines_ = 0;
  bool draws_;
};

}  // namespace sim
TESSERA_NAMESPACE_END
