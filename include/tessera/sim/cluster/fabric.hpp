// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/units.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

/// @file
/// The network between instances, as fluid flows that share links.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Every instance has one full-duplex link to a switch that never blocks. Transfers share the links max-min fairly:
/// none could go faster except at the cost of one that is no faster. A transfer uses two links. What it cannot use of
/// one, because the other is narrower, goes to the other transfers there. So three migrations into one target take
/// three times as long, and two between disjoint pairs do not slow each other. If two leave one sender and the first
/// waits for a crowded target, the second gets the bandwidth that the first leaves.
///
/// Rates are found by progressive filling, when they are first asked for after a start or an end. That is O(n log n)
/// for n active transfers, however many instances there are. Every other call is O(n); `next_end_s` is O(1) until
/// something changes.
class fabric {
 public:
  /// One transfer that has ended.
  struct completion {
    std::size_t token;  ///< What `start` was given.
    double started_s;   ///< When it was started.
    double ended_s;     ///< When its last byte arrived.
  };

  /// @param bytes_per_second of each link, each way. More than 0.
  fabric(std::size_t instances, double bytes_per_second) : capacity_{bytes_per_second}, links_(2 * instances) {
    TESSERA_ASSERT(bytes_per_second > 0, "a link needs a positive bandwidth");
  }

  /// Begins to move `size` from one instance to another. `token` comes back with the completion.
  /// Requires: `now_s` not before the latest call's time, `from != to`.
  void start(double now_s, std::size_t from, std::size_t to, bytes size, std::size_t token) {
    TESSERA_ASSERT(from != to && 2 * from < links_.size() && 2 * to < links_.size(), "not two instances");
    progress(now_s);
    flows_.push_back({.token = token,
                      .out = 2 * from,
                      .in = 2 * to + 1,
                      .left = static_cast<double>(size.count()),
                      .since_s = now_s});
    settled_ = false;
  }

  /// Ends the transfer with this token before its time; there is no completion. Requires: it is active.
  void cancel(double now_s, std::size_t token) {
    progress(now_s);
    const auto found = find(token);
    TESSERA_ASSERT(found != flows_.end(), "only a transfer that is under way can be cancelled");
    flows_.erase(found);
    settled_ = false;
  }

  /// Whether a transfer with this token is under way.
  [[nodiscard]] bool carries(std::size_t token) const noexcept { return find(token) != flows_.end(); }

  /// Transfers under way.
  [[nodiscard]] std::size_t active() const noexcept { return flows_.size(); }

  /// Bytes per second of the transfer with this token. Requires: it is active.
  [[nodiscard]] double rate(std::size_t token) {
    settle();
    const auto found = find(token);
    TESSERA_ASSERT(found != flows_.end(), "only a transfer that is under way has a rate");
    return found->rate;
  }

  /// When the next transfer ends, if none is started before; infinity when none is active.
  [[nodiscard]] double next_end_s() {
    settle();
    return next_end_s_;
  }

  /// Moves time on to `now_s` and calls `ended(completion)` for each transfer that is complete by then, in order of
  /// their starts. `ended` may start and cancel others. Requires: `now_s <= next_end_s()`.
  template <class F>
  void advance(double now_s, F&& ended) {
    progress(now_s);
    settle();
    // All ends are found by the rates so far: a transfer that ends makes others faster only from now on.
    for (flow& f : flows_) {
      const double wait_s = f.left / f.rate;
      f.ends = wait_s <= nanosecond || now_s + wait_s <= now_s;
    }
    for (;;) {
      const auto found = std::find_if(flows_.begin(), flows_.end(), [](const flow& f) { return f.ends; });
      if (found == flows_.end()) return;
      const flow f = *found;
      flows_.erase(found);
      settled_ = false;
      ended(completion{f.token, f.since_s, now_s});
    }
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  struct flow {
    std::size_t token;
    std::size_t out;  ///< The sender's link.
    std::size_t in;   ///< The receiver's.
    double left;      ///< Bytes.
    double since_s;
    double rate = 0;
    std::size_t next_out = none;  ///< The next flow of the same sender.
    std::size_t next_in = none;   ///< The next flow of the same receiver.
    bool filled = false;          ///< Its rate is found.
    bool ends = false;
  };
  /// One direction of an instance's link: 2 i is out of instance i, 2 i + 1 into it. Empty except while rates are
  /// found.
  struct link {
    double left = 0;           ///< Bandwidth that is not given yet.
    std::size_t unfilled = 0;  ///< Flows without a rate yet.
    std::size_t first = none;  ///< The first of its flows.
  };
  /// A link, and what each of its flows would get; the link may have changed since.
  struct offer {
    double share;
    std::size_t at;
    friend bool operator>(const offer& a, const offer& b) noexcept {
      return a.share != b.share ? a.share > b.share : a.at > b.at;
    }
  };

  // A transfer this close to its end has ended. So has a transfer that is closer than the rounding of the current time,
  // which exceeds a nanosecond in a long run. Otherwise time could stand still before an end.
  static constexpr double nanosecond = 1e-9;

  [[nodiscard]] std::vector<flow>::const_iterator find(std::size_t token) const noexcept {
    return std::find_if(flows_.begin(), flows_.end(), [&](const flow& f) { return f.token == token; });
  }

  /// Progressive filling: all rates rise alike until a link is full; its flows stay at that rate, and the others rise
  /// on. The next link is always the one that would give the least to each of its flows, and shares never fall. So a
  /// link is looked at again only after some of its flows were filled elsewhere.
  void settle() {
    if (settled_) return;
    settled_ = true;
    offers_.clear();
    for (std::size_t k = 0; k != flows_.size(); ++k) {
      flow& f = flows_[k];
      f.filled = false;
      f.next_out = join(f.out, k);
      f.next_in = join(f.in, k);
    }
    for (flow& f : flows_) {  // most are alone on their links, while little is moved
      if (links_[f.out].unfilled != 1 || links_[f.in].unfilled != 1) continue;
      f.filled = true;
      f.rate = capacity_;
      links_[f.out] = links_[f.in] = link{};
    }
    std::erase_if(offers_, [this](const offer& o) { return links_[o.at].unfilled == 0; });
    for (offer& o : offers_) o.share = share(o.at);
    std::make_heap(offers_.begin(), offers_.end(), std::greater<>{});
    double level = 0;
    while (!offers_.empty()) {
      std::pop_heap(offers_.begin(), offers_.end(), std::greater<>{});
      const offer o = offers_.back();
      offers_.pop_back();
      link& l = links_[o.at];
      if (l.unfilled != 0 && share(o.at) > o.share) {
        offers_.push_back({share(o.at), o.at});
        std::push_heap(offers_.begin(), offers_.end(), std::greater<>{});
        continue;
      }
      if (l.unfilled != 0) {
        level = std::max(level, o.share);  // rounding must not make a rate fall, or 0
        fill(o.at, level);
      }
      l = link{};
    }
    next_end_s_ = std::numeric_limits<double>::infinity();
    for (const flow& f : flows_) next_end_s_ = std::min(next_end_s_, now_ + f.left / f.rate);
  }
  /// Flow `k` uses the link. Returns the flow that was the first there.
  std::size_t join(std::size_t at, std::size_t k) {
    link& l = links_[at];
    if (l.unfilled == 0) {
      l.left = capacity_;
      offers_.push_back({0, at});
    }
    ++l.unfilled;
    return std::exchange(l.first, k);
  }
  [[nodiscard]] double share(std::size_t at) const noexcept {
    return links_[at].left / static_cast<double>(links_[at].unfilled);
  }
  /// All flows of the link that have no rate yet get this one.
  void fill(std::size_t at, double rate) {
    for (std::size_t k = links_[at].first; k != none;) {
      flow& f = flows_[k];
      k = at == f.out ? f.next_out : f.next_in;
      if (f.filled) continue;
      f.filled = true;
      f.rate = rate;
      for (const std::size_t of : {f.out, f.in}) {
        links_[of].left = std::max(links_[of].left - rate, 0.0);
        --links_[of].unfilled;
      }
    }
  }

  void progress(double now_s) {
    TESSERA_ASSERT(now_s >= now_, "time runs forward");
    if (now_s == now_) return;
    settle();
    for (flow& f : flows_) {
      const double left = f.left - f.rate * (now_s - now_);
      f.left = left > 0 ? left : 0;  // rounding must not put an end before now
    }
    now_ = now_s;
    next_end_s_ = std::numeric_limits<double>::infinity();
    for (const flow& f : flows_) next_end_s_ = std::min(next_end_s_, now_ + f.left / f.rate);
  }

  double capacity_;
  double now_ = 0;
  double next_end_s_ = std::numeric_limits<double>::infinity();
  bool settled_ = true;
  std::vector<link> links_;
  std::vector<flow> flows_;    ///< In order of their starts.
  std::vector<offer> offers_;  ///< A heap, while rates are found.
};

}  // namespace sim
TESSERA_NAMESPACE_END
