// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>
#include <tessera/sim/measure/distribution.hpp>

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

#if __has_include(<unistd.h>)
#  include <unistd.h>
#endif
#if __has_include(<sys/ioctl.h>)
#  include <sys/ioctl.h>
#endif

/// @file
/// Progress of the work, for human readers: drawn on a terminal, elsewhere a line now and then.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// Whether `file` is a terminal.
[[nodiscard]] bool is_terminal(std::FILE* file) noexcept;

/// Columns of the terminal `file`; 0 if it is none, or unknown.
[[nodiscard]] std::size_t terminal_width(std::FILE* file) noexcept;

/// A time in everyday form: `48 s`, `3 min 20 s`, `2 h 5 min`. Requires a number of seconds from 0.
[[nodiscard]] std::string describe_seconds(double seconds);

/// Estimates the remaining time of some runs, from the pace of each and of its kind. Policies may differ in time by a
/// factor of fifty. Times are in seconds on one clock.
class run_pace {
 public:
  /// Adds a run with this amount of work. @return its number, counted from 0.
  std::size_t add(std::size_t kind, double work) {
    runs_.push_back({.kind = kind, .work = work});
    return runs_.size() - 1;
  }
  /// Run `i` begins.
  void begin(std::size_t i, double now) { runs_[i].begun = now; }
  /// `done` of its work is done.
  void update(std::size_t i, double done) { runs_[i].done = std::min(done, runs_[i].work); }
  /// It has ended.
  void end(std::size_t i, double now) {
    runs_[i].done = runs_[i].work;
    runs_[i].took = now - runs_[i].begun;
  }

  /// A run in progress.
  struct running {
    std::size_t run = 0;    ///< Its number.
    std::size_t kind = 0;   ///< Its kind.
    double part = 0;        ///< The finished fraction, 0 to 1.
    double left_s = never;  ///< NaN: unknown so far.
  };
  /// The run in progress with the longest remaining time; none if none is in progress. O(runs).
  [[nodiscard]] std::optional<running> slowest(double now) const {
    std::optional<running> worst;
    for (std::size_t i = 0; i != runs_.size(); ++i) {
      const run& r = runs_[i];
      if (!r.is_under_way()) continue;
      const running x{.run = i, .kind = r.kind, .part = r.work > 0 ? r.done / r.work : 1, .left_s = r.left(now)};
      if (!worst || !(x.left_s <= worst->left_s)) worst = x;
    }
    return worst;
  }
  /// The remaining time of all runs on this many threads. Each continues at its own pace, or at that of its kind, or at
  /// the mean pace. NaN while nothing is done. O(runs).
  [[nodiscard]] double left(double now, std::size_t threads) const {
    struct pace {
      double seconds = 0;
      double work = 0;
    };
    std::vector<pace> of_kind;
    pace all;
    double longest = 0;
    for (const run& r : runs_) {
      if (r.kind >= of_kind.size()) of_kind.resize(r.kind + 1);
      if (r.done <= 0) continue;
      const double seconds = r.took >= 0 ? r.took : now - r.begun;
      for (pace* p : {&of_kind[r.kind], &all}) {
        p->seconds += seconds;
        p->work += r.done;
      }
    }
    if (!(all.work > 0)) return never;
    double sum = 0;
    for (const run& r : runs_) {
      if (r.took >= 0) continue;
      const pace& p = of_kind[r.kind].work > 0 ? of_kind[r.kind] : all;
      const double left = (r.work - r.done) * (r.done > 0 ? (now - r.begun) / r.done : p.seconds / p.work);
      sum += left;
      longest = std::max(longest, left);
    }
    return std::max(longest, sum / static_cast<double>(std::max<std::size_t>(threads, 1)));
  }

 private:
  struct run {
    std::size_t kind = 0;
    double work = 0;
    double done = 0;
    double begun = -1;
    double took = -1;

    [[nodiscard]] bool is_under_way() const noexcept { return begun >= 0 && took < 0; }
    [[nodiscard]] double left(double now) const noexcept {
      return done > 0 ? (work - done) * (now - begun) / done : never;
    }
  };
  std::vector<run> runs_;
};

/// The finished fraction of the work and, after a second, the remaining time. On a terminal it is one line that is
/// redrawn, and wiped at the end. Elsewhere, as in a log, it is a line every ten seconds. So a run of minutes is not
/// silent, and a short one is. `update` reads the clock.
class progress_bar {
 public:
  /// Seconds between two lines where there is no terminal.
  static constexpr double line_s = 10;

  /// @param total the amount of work; 0: unknown, the bar stays empty.
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

  /// Further content of the line.
  struct words {
    double left_s = never;  ///< Remaining seconds; NaN: extrapolated from the present pace.
    std::string note{};     ///< For instance the run in progress.
  };

  /// Seconds since it was made.
  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(clock::now() - begun_).count(); }
  /// `done` of the total is done.
  void update(double done) { update(done, seconds()); }
  /// As above, `seconds` after the beginning.
  void update(double done, double seconds) {
    update(done, seconds, [] { return words{}; });
  }
  /// As above; `more()` returns the `words`, and is called if they are shown.
  template <class More>
  void update(double done, double seconds, More&& more) {
    double part = total_ > 0 ? done / total_ : 0;
    part = part < 0 ? 0 : part > 1 ? 1 : part;
    const int percent = static_cast<int>(part * 100);
    if (draws_ ? percent == drawn_ && seconds < drawn_s_ + 1 : seconds < drawn_s_ + line_s) return;
    drawn_ = percent;
    drawn_s_ = seconds;
    words w = more();
    if (std::isnan(w.left_s) && part > 0) w.left_s = seconds * (1 - part) / part;
    std::string text;
    if (total_ > 0 || draws_) text = fmt::format("{:3} %", percent);
    if (seconds >= 1 && part < 1 && !std::isnan(w.left_s)) text += fmt::format(", {} left", describe_seconds(w.left_s));
    if (!draws_) {
      if (!w.note.empty()) text += (text.empty() ? "" : "; ") + w.note;
      put(fmt::format("{}: {}\n", label_, text.substr(std::min(text.find_first_not_of(' '), text.size()))));
      return;
    }
    constexpr int width = 40;
    const int filled = percent * width / 100;
    text = fmt::format("{} [{:#<{}}{:.<{}}] {}", label_, "", filled, "", width - filled, text);
    // As far as the line has room: a second line would stay.
    const std::size_t room = terminal_width(out_);
    if (!w.note.empty() && text.size() + w.note.size() + 3 <= room) text += "; " + w.note;
    put(fmt::format("\r{}\x1b[K", text));
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

/// A text of several lines that is redrawn while it grows, on a terminal that is wide enough for it. Elsewhere nothing
/// is shown.
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

  /// Shows `text`, whole lines, in place of the earlier text.
  void show(std::string_view text) {
    if (!draws_) return;
    clear();
    (void)std::fwrite(text.data(), 1, text.size(), out_);
    (void)std::fflush(out_);
    lines_ = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }

  /// Removes it.
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
