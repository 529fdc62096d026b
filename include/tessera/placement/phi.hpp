// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/placement/turn.hpp>

#include <cstdint>
#include <limits>
#include <span>
#include <utility>

/// @file
/// Micro-scale routing of Phasor (algorithm 1, line 3): a request goes to the worker with the highest freeness.
/// Negative freeness is overload and is compared like any other. The least overloaded worker gets the request; none is
/// refused.
///
/// Two forms of one rule. `highest_phi` reads all views, for routers that get a fresh snapshot of every worker.
/// `phi_index` is told of one change at a time and always knows the answer.

TESSERA_NAMESPACE_BEGIN
namespace placement {

/// `phi`: freeness, see `headroom::time_freeness`. Any finite number; NaN counts as less than all.
template <class View>
concept shows_phi = requires(const View& v) {
  { v.phi } -> std::convertible_to<double>;
};

namespace detail {

/// NaN, which compares with nothing, would make the answer depend on the order of the views.
[[nodiscard]] constexpr double comparable_phi(double phi) noexcept {
  return phi == phi ? phi : -std::numeric_limits<double>::infinity();
}

}  // namespace detail

/// The worker with the highest Phi. Ties go to the one with fewer requests, then round-robin.
/// When to use: prefill workers, by time-bound freeness; decode workers, by space-bound freeness.
/// Holds the round-robin position for ties: one value per router and pool. O(workers), no allocation. `nowhere` for an
/// empty range.
struct highest_phi {
  turn ties{};  ///< Round-robin position for ties.

  /// The index of the chosen worker. Advances the round-robin position.
  template <instance_views V>
    requires shows_phi<view_t<V>> && shows_requests<view_t<V>>
  [[nodiscard]] constexpr std::size_t operator()(const V& workers) noexcept {
    const std::size_t n = workers.size();
    // First the highest Phi, as four independent maxima: one chain of comparisons would wait for itself. NaN loses
    // every comparison.
    constexpr double least = -std::numeric_limits<double>::infinity();
    const auto higher = [](double phi, double than) { return phi > than ? phi : than; };
    double a = least, b = least, c = least, d = least;
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4) {
      a = higher(workers[i].phi, a);
      b = higher(workers[i + 1].phi, b);
      c = higher(workers[i + 2].phi, c);
      d = higher(workers[i + 3].phi, d);
    }
    for (; i != n; ++i) a = higher(workers[i].phi, a);
    const double highest = higher(higher(a, b), higher(c, d));
    // Then the workers that have it.
    return ties.least(
        0, n, [&](std::size_t k) noexcept { return std::size_t{workers[k].requests}; },
        [&](std::size_t k) noexcept {
          return !(workers[k].phi < highest) && detail::comparable_phi(workers[k].phi) == highest;
        });
  }

  /// Writes the indices of the first `best.size()` by that order into `best`, for requests that the first choice may
  /// refuse. Returns how many there are. Advances the round-robin position as for one choice. One pass.
  template <instance_views V>
    requires shows_phi<view_t<V>> && shows_requests<view_t<V>>
  constexpr std::size_t rank(const V& workers, std::span<std::uint32_t> best) noexcept {
    return ties.least(0, workers.size(), best, [&](std::size_t i) noexcept {
      return std::pair{-detail::comparable_phi(workers[i].phi), std::size_t{workers[i].requests}};
    });
  }
};

/// The worker with the highest Phi of a pool, kept up to date: a tournament tree with workers as leaves. Each inner
/// node is the winner of its children. Same order as `highest_phi`, including round-robin ties.
///
/// `best` and `choose` are O(log workers), and O(1) if the best worker with the lowest id is not before the round-robin
/// position. `set` and `remove` are O(log workers), always exactly one path from a leaf to the root. Nothing allocates.
/// About 28 bytes a worker.
class phi_index {
 public:
  /// Capacities; fixed at construction.
  struct limits {
    std::size_t workers = 0;  ///< Ids are below this. At least 1, at most 2^31.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    const std::size_t leaves = leaves_for(l.workers);
    return storage_layout{}.add<key>(l.workers).add<std::uint32_t>(leaves).bytes_unaligned();
  }

  /// An empty pool. O(workers).
  phi_index(arena& memory, const limits& l) noexcept : workers_{l.workers}, leaves_{leaves_for(l.workers)} {
    TESSERA_ASSERT(l.workers >= 1 && l.workers <= (std::size_t{1} << 31), "1 to 2^31 workers");
    keys_ = memory.take<key>(l.workers);
    winners_ = memory.take<std::uint32_t>(leaves_);
    for (std::size_t node = 0; node != leaves_; ++node) winners_[node] = none;
  }
  phi_index(const phi_index&) = delete;
  phi_index& operator=(const phi_index&) = delete;

  /// Most workers.
  [[nodiscard]] std::size_t workers() const noexcept { return workers_; }
  /// Workers of the pool.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Whether the worker is in the pool. O(1).
  [[nodiscard]] bool contains(std::size_t worker) const noexcept { return worker < workers_ && keys_[worker].present; }

  /// Adds a worker to the pool, or changes it. Requires `worker < workers()` and that `phi` is not NaN.
  void set(std::size_t worker, double phi, std::size_t requests) noexcept {
    TESSERA_ASSERT(worker < workers_, "no such worker");
    TESSERA_ASSERT(phi == phi, "a freeness is a number");
    size_ += keys_[worker].present ? 0 : 1;
    keys_[worker] = {phi, requests, true};
    replay(worker);
  }
  /// Removes a worker from the pool. Nothing happens if it is not in it. Requires `worker < workers()`.
  void remove(std::size_t worker) noexcept {
    TESSERA_ASSERT(worker < workers_, "no such worker");
    if (!keys_[worker].present) return;
    --size_;
    keys_[worker].present = false;
    replay(worker);
  }

  /// The worker for the next request: the highest Phi, then fewer requests, then round-robin; `nowhere` in an empty
  /// pool.
  [[nodiscard]] std::size_t best() const noexcept {
    const std::uint32_t first = leaves_ == 1 ? contender(0) : winners_[1];
    if (first == none) return nowhere;
    const std::size_t from = ties_.begin(0, workers_);
    if (first >= from) return first;
    const std::uint32_t later = best_from(from);
    return later != none && ties(later, first) ? later : first;
  }
  /// The same, and advances the round-robin position: the request goes there.
  std::size_t choose() noexcept { return ties_.chose(best()); }
  /// Phi of a worker of the pool. Requires `contains(worker)`.
  [[nodiscard]] double phi(std::size_t worker) const noexcept {
    TESSERA_ASSERT(contains(worker), "this worker is not in the pool");
    return keys_[worker].phi;
  }

 private:
  static constexpr std::uint32_t none = 0xffff'ffffU;

  struct key {
    double phi = 0;
    std::size_t requests = 0;
    bool present = false;
  };

  [[nodiscard]] static constexpr std::size_t leaves_for(std::size_t workers) noexcept {
    std::size_t leaves = 1;
    while (leaves < workers) leaves *= 2;
    return leaves;
  }

  /// The worker at a leaf, if it is in the pool.
  [[nodiscard]] std::uint32_t contender(std::size_t leaf) const noexcept {
    return leaf < workers_ && keys_[leaf].present ? static_cast<std::uint32_t>(leaf) : none;
  }
  /// Ids rise from left to right, so that a tie goes to the left.
  [[nodiscard]] std::uint32_t winner_of(std::uint32_t left, std::uint32_t right) const noexcept {
    if (right == none) return left;
    if (left == none) return right;
    const key& a = keys_[left];
    const key& b = keys_[right];
    if (a.phi != b.phi) return a.phi > b.phi ? left : right;
    return a.requests <= b.requests ? left : right;
  }
  [[nodiscard]] bool ties(std::uint32_t a, std::uint32_t b) const noexcept {
    return keys_[a].phi == keys_[b].phi && keys_[a].requests == keys_[b].requests;
  }
  /// The winner among the workers from this one on, which is not 0. These are the subtrees to the right of the path
  /// from its leaf to the root. Requires `worker < workers()`.
  [[nodiscard]] std::uint32_t best_from(std::size_t worker) const noexcept {
    std::uint32_t winner = contender(worker);
    if (worker % 2 == 0) winner = winner_of(winner, contender(worker + 1));
    for (std::size_t node = (leaves_ + worker) / 2; node != 1; node /= 2) {
      if (node % 2 == 0) winner = winner_of(winner, winners_[node + 1]);
    }
    return winner;
  }
  void replay(std::size_t worker) noexcept {
    if (leaves_ == 1) return;
    const std::size_t pair = worker & ~std::size_t{1};
    std::size_t node = (leaves_ + worker) / 2;
    winners_[node] = winner_of(contender(pair), contender(pair + 1));
    for (node /= 2; node != 0; node /= 2) winners_[node] = winner_of(winners_[2 * node], winners_[2 * node + 1]);
  }

  std::size_t workers_;
  std::size_t leaves_;  // A power of two.
  std::size_t size_ = 0;
  turn ties_{};
  key* keys_ = nullptr;               // By worker.
  std::uint32_t* winners_ = nullptr;  // Nodes 1 to leaves_ - 1; the children of i are 2i and 2i + 1, those of the last
                                      // level are the leaves.
};

}  // namespace placement
TESSERA_NAMESPACE_END
