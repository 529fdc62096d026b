// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <cstddef>

TESSERA_NAMESPACE_BEGIN
namespace order {

/// A clock that goes slower the more requests wait, and all but stops when many do. Its rate is the eighth power of the
/// part of those who are there that have begun: 1 while nobody waits, 0.43 when one in ten does, 0.004, but never less
/// than `slowest`, when half do.
///
/// Who is due by this clock may be overtaken for longer the longer the line, and by so much no more. A fixed pace is
/// arrival order when the line is longer than the time by which short ones overtake; so is a clock that slows only in
/// proportion to the line, for a line that grows makes all who come be due far apart. While this one stands, the
/// shortest go first.
///
/// Source: ours, after the virtual time of fair queueing (Demers, Keshav and Shenker 1989), with the requests that are
/// served at a time in place of a link. The power is ours, too: of 1, 2, 4 and 8, the higher the lower is the latency
/// per token above saturation, and the higher the time to first token of the last in a hundred
/// (docs/design/due_first.md has the numbers).
///
/// All members O(1), no allocation.
class crowd_clock {
 public:
  static constexpr double slowest =
      0.01;  ///< Of the engine's clock: what may overtake does so a hundred times as long at most.

  /// It is `now`, in seconds by the engine's clock; earlier than it was is no time at all.
  void advance(double now) noexcept {
    if (!started_) {
      started_ = true;
      origin_ = heard_ = now;
    } else if (now > heard_) {
      elapsed_ += (now - heard_) * rate();
      heard_ = now;
    }
  }
  /// What it shows at `seconds` by the engine's clock, as far as it is known: at its present rate before and after the
  /// last `advance`.
  [[nodiscard]] double at(double seconds) const noexcept {
    return started_ ? origin_ + (elapsed_ + (seconds - heard_) * rate()) : seconds;
  }
  /// What it shows at the last `advance`; 0 before.
  [[nodiscard]] double now() const noexcept { return origin_ + elapsed_; }
  /// Its rate now, in (0, 1]: that of the engine's clock is 1.
  [[nodiscard]] double rate() const noexcept {
    const double share = static_cast<double>(served_ + 1) / static_cast<double>(served_ + waiting_ + 1);
    const double squared = share * share;
    const double eighth = squared * squared * squared * squared;
    return eighth > slowest ? eighth : slowest;
  }

  /// How many times as many requests are there as have begun: so long is the line, counted in batches. At least 1.
  [[nodiscard]] double batches() const noexcept {
    return static_cast<double>(served_ + waiting_ + 1) / static_cast<double>(served_ + 1);
  }
  /// The engine's clock at the last `advance`, in seconds; 0 before.
  [[nodiscard]] double heard() const noexcept { return heard_; }
  /// Requests that have come and not gone.
  [[nodiscard]] std::size_t present() const noexcept { return served_ + waiting_; }

  /// A request has come, and waits.
  void joins() noexcept { ++waiting_; }
  /// One that waited has been served for the first time.
  void begins() noexcept {
    if (waiting_ != 0) --waiting_;
    ++served_;
  }
  /// One has gone that had begun, or had not.
  void leaves(bool had_begun) noexcept {
    std::size_t& of = had_begun ? served_ : waiting_;
    if (of != 0) --of;
  }

 private:
  double origin_ = 0;   // the first `now`
  double heard_ = 0;    // the last one
  double elapsed_ = 0;  // between them, by this clock: a sum of small steps, which an origin of 1970 would round away
  std::size_t waiting_ = 0;
  std::size_t served_ = 0;
  bool started_ = false;
};

}  // namespace order
TESSERA_NAMESPACE_END
