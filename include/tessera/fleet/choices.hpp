// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/storage.hpp>
#include <tessera/fleet/report.hpp>
#include <tessera/fleet/view.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>

/// @file
/// The replicas that a placement policy may choose, and those that it has chosen.

TESSERA_NAMESPACE_BEGIN
namespace fleet::detail {

/// Asks a placement policy for the best of the replicas, one after the other.
class choices {
 public:
  [[nodiscard]] static constexpr std::size_t required_bytes(std::size_t replicas) noexcept {
    return storage_layout{}.add<replica_id>(replicas).add<replica_id>(replicas).bytes();
  }
  choices(arena& memory, std::size_t replicas) noexcept
      : left_{memory.take<replica_id>(replicas)}, ranked_{memory, replicas} {}

  /// Those that a request may still be given: room for all replicas.
  [[nodiscard]] replica_id* left() noexcept { return left_; }

  /// Keeps those of `open` for which `may(view)` is true, in `left`. Returns how many.
  template <class May>
  [[nodiscard]] std::size_t keep(const view* views, std::span<const replica_id> open, May& may) noexcept {
    std::size_t n = 0;
    for (const replica_id id : open) {
      left_[n] = id;
      n += may(views[id]) ? 1U : 0U;
    }
    return n;
  }

  /// The best of `open` for which `may(view)` is true, at most `most`. `show(n)` makes the candidates of the first
  /// `n` that are left.
  template <class Policy, class May, class Show>
  [[nodiscard]] std::span<const replica_id> choose(const view* views, std::span<const replica_id> open, Policy& policy,
                                                   std::size_t most, May& may, Show show) noexcept {
    std::size_t n = keep(views, open, may);
    ranked_.clear();
    if (most == 0) return {};
    // Further most in the same pass, where the policy can say them.
    if constexpr (requires(std::span<replica_id> best) {
                    { policy.rank(show(n), best) } noexcept -> std::same_as<std::size_t>;
                  }) {
      if (most != 1) {
        const std::span best{ranked_.extend(std::min(most, n)), std::min(most, n)};
        ranked_.truncate(policy.rank(show(n), best));
        for (replica_id& id : ranked_) id = left_[id];
        return {ranked_.data(), ranked_.size()};
      }
    }
    const auto next = [&](auto& by) noexcept {
      const std::size_t i = by(show(n));
      if (i >= n) return false;
      ranked_.push_back(left_[i]);
      return true;
    };
    if (!next(policy)) return {};
    std::remove_cv_t<Policy> later = policy;
    while (ranked_.size() < most) {
      replica_id* const taken = std::find(left_, left_ + n, ranked_.back());
      std::copy(taken + 1, left_ + n, taken);
      --n;
      if (!next(later)) break;
    }
    return {ranked_.data(), ranked_.size()};
  }

 private:
  replica_id* left_;
  fixed_vector<replica_id> ranked_;
};

}  // namespace fleet::detail
TESSERA_NAMESPACE_END
