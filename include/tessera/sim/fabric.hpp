// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/units.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

/// @file
/// The network between instances, as fluid flows that share links.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Every instance has one full-duplex link to a switch that never blocks. A transfer runs at the smaller of its share
/// of the sender's link and its share of the receiver's; links are shared evenly among the transfers that use them. So
/// three migrations into one target take three times as long, and two between disjoint pairs do not notice each other.
/// Each start and each end re-evaluates the rates: O(active transfers).
class fabric {
 public:
  /// One transfer that has ended.
  struct completion {
    std::size_t token;  ///< What `start` was given.
    double started_s;   ///< When it was started.
    double ended_s;     ///< When its last byte arrived.
  };

  /// @param bytes_per_second of each link, each way. More than 0.
  fabric(std::size_t instances, double bytes_per_second)
      : link_{bytes_per_second}, outgoing_(instances, 0), incoming_(instances, 0) {
    TESSERA_ASSERT(bytes_per_second > 0, "a link needs a positive bandwidth");
  }

  /// Begins to move `size` from one instance to another. `token` comes back with the completion.
  /// Requires: `now_s` not before the latest call's time, `from != to`.
  void start(double now_s, std::size_t from, std::size_t to, bytes size, std::size_t token) {
    TESSERA_ASSERT(from != to && from < outgoing_.size() && to < incoming_.size(), "not two instances");
    progress(now_s);
    ++outgoing_[from];
    ++incoming_[to];
    flows_.push_back({token, from, to, static_cast<double>(size.count()), now_s});
  }

  /// Ends the transfer with this token before its time; there is no completion. Requires: it is active.
  void cancel(double now_s, std::size_t token) {
    progress(now_s);
    const auto found = std::find_if(flows_.begin(), flows_.end(), [&](const flow& f) { return f.token == token; });
    TESSERA_ASSERT(found != flows_.end(), "only a transfer that is under way can be cancelled");
    --outgoing_[found->from];
    --incoming_[found->to];
    flows_.erase(found);
  }

  /// Whether a transfer with this token is under way.
  [[nodiscard]] bool carries(std::size_t token) const noexcept {
    return std::any_of(flows_.begin(), flows_.end(), [&](const flow& f) { return f.token == token; });
  }

  /// Transfers under way.
  [[nodiscard]] std::size_t active() const noexcept { return flows_.size(); }

  /// When the next transfer ends, if none is started before; infinity when none is active.
  [[nodiscard]] double next_end_s() const noexcept {
    double soonest = std::numeric_limits<double>::infinity();
    for (const flow& f : flows_) {
      const double end = now_ + f.left / rate(f);
      if (end < soonest) soonest = end;
    }
    return soonest;
  }

  /// Moves time on to `now_s` and calls `ended(completion)` for each transfer that is complete by then, in order of
  /// their starts. Requires: `now_s <= next_end_s()`.
  template <class F>
  void advance(double now_s, F&& ended) {
    progress(now_s);
    for (std::size_t i = 0; i < flows_.size();) {
      const flow f = flows_[i];
      const double wait_s = f.left / rate(f);
      if (wait_s > nanosecond && now_s + wait_s > now_s) {
        ++i;
        continue;
      }
      flows_.erase(flows_.begin() + static_cast<std::ptrdiff_t>(i));
      --outgoing_[f.from];
      --incoming_[f.to];
      ended(completion{f.token, f.started_s, now_s});
    }
  }

 private:
  struct flow {
    std::size_t token;
    std::size_t from;
    std::size_t to;
    double left;  ///< Bytes.
    double started_s;
  };

  // A transfer this close to its end has ended; so has one that is closer than the rounding of the moment, which a long
  // run may bring above a nanosecond. Otherwise time could stand still before an end.
  static constexpr double nanosecond = 1e-9;

  [[nodiscard]] double rate(const flow& f) const noexcept {
    const std::size_t sharers = outgoing_[f.from] > incoming_[f.to] ? outgoing_[f.from] : incoming_[f.to];
    return link_ / static_cast<double>(sharers);
  }

  void progress(double now_s) noexcept {
    TESSERA_ASSERT(now_s >= now_, "time runs forward");
    for (flow& f : flows_) {
      const double left = f.left - rate(f) * (now_s - now_);
      f.left = left > 0 ? left : 0;  // rounding must not put an end before now
    }
    now_ = now_s;
  }

  double link_;
  double now_ = 0;
  std::vector<std::size_t> outgoing_;
  std::vector<std::size_t> incoming_;
  std::vector<flow> flows_;
};

}  // namespace sim
TESSERA_NAMESPACE_END
