// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <cstddef>

TESSERA_NAMESPACE_BEGIN
namespace order {

/// A clock that runs slower the more requests wait, and almost stops when many do. `rate = (running / (running +
/// waiting))^8`, at least `slowest`. It is 1 with an empty queue, 0.43 when one request in ten waits, and 0.01 when
/// half do.
///
/// Deadlines on this clock let a request be overtaken for longer the longer the queue is, with a bound. A fixed pace
/// becomes arrival order when the queue is longer than the time by which short requests overtake. So does a clock that
/// slows only in proportion to the queue: with a growing queue, the deadlines of later requests lie far apart. While
/// this clock almost stands, the shortest requests go first.
///
/// Source: ours, after the virtual time of fair queueing (Demers, Keshav and Shenker 1989). The number of requests
/// served at a time takes the place of a link. The power is ours as well, chosen among 1, 2, 4 and 8. A higher power
/// lowers the latency per token above saturation, and raises the 99th percentile of the time to first token
/// (docs/design/due_first.md has the numbers).
///
/// All members O(1), no allocation.
class crowd_clock {
 public:
  static constexpr double slowest =
      0.01;  ///< Share of the engine's clock rate: a request is overtaken at most a hundred times as long.

  /// Advances to `now`, in seconds of the engine's clock. An earlier time has no effect.
  void advance(double now) noexcept {
    if (!started_) {
      started_ = true;
      origin_ = heard_ = now;
    } else if (now > heard_) {
      elapsed_ += (now - heard_) * rate();
      heard_ = now;
    }
  }
  /// The clock's value at `seconds` of the engine's clock. Times before and after the last `advance` are extrapolated
  /// at the present rate.
  [[nodiscard]] double at(double seconds) const noexcept {
    return started_ ? origin_ + (elapsed_ + (seconds - heard_) * rate()) : seconds;
  }
  /// The clock's value at the last `advance`; 0 before.
  [[nodiscard]] double now() const noexcept { return origin_ + elapsed_; }
  /// The present rate, in (0, 1]; the engine's clock has 1.
  [[nodiscard]] double rate() const noexcept {
    const double share = static_cast<double>(served_ + 1) / static_cast<double>(served_ + waiting_ + 1);
    const double squared = share * share;
    const double eighth = squared * squared * squared * squared;
    return eighth > slowest ? eighth : slowest;
  }

  /// All requests over running requests: the length of the queue in batches. At least 1.
  [[nodiscard]] double batches() const noexcept {
    return static_cast<double>(served_ + waiting_ + 1) / static_cast<double>(served_ + 1);
  }
  /// The engine's clock at the last `advance`, in seconds; 0 before.
  [[nodiscard]] double heard() const noexcept { return heard_; }
  /// Requests that have joined and not left.
  [[nodiscard]] std::size_t present() const noexcept { return served_ + waiting_; }

  /// A request has joined, and waits.
  void joins() noexcept { ++waiting_; }
  /// A waiting request has been served for the first time.
  void begins() noexcept {
    if (waiting_ != 0) --waiting_;
    ++served_;
  }
  /// A request has left. `had_begun`: it had been served before.
  void leaves(bool had_begun) noexcept {
    std::size_t& of = had_begun ? served_ : waiting_;
    if (of != 0) --of;
  }

 private:
  double origin_ = 0;   // the first `now`
  double heard_ = 0;    // the last one
  double elapsed_ = 0;  // the time between them on this clock: a sum of small steps, which an origin of 1970 would
                        // round away
  std::size_t waiting_ = 0;
  std::size_t served_ = 0;
  bool started_ = false;
};

}  // namespace order
TESSERA_NAMESPACE_END
