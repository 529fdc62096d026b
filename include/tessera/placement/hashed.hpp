// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/split_mix.hpp>
#include <tessera/placement/concepts.hpp>

#include <cstddef>
#include <cstdint>

/// @file
/// Placement by a hash of the beginning of a prompt. A router need not know the caches: equal beginnings go to the same
/// instances by themselves.
///
/// Each key ranks the instances in an order of its own (highest random weight, Thaler and Ravishankar 1998). There is
/// no ring to keep. When an instance comes or goes, only keys that rank it first move.

TESSERA_NAMESPACE_BEGIN
namespace placement {

namespace detail {

/// A weight of 64 random bits, the same on every machine.
[[nodiscard]] constexpr std::uint64_t weight(std::uint64_t key, std::uint64_t id, std::uint64_t which) noexcept {
  return tessera::detail::split_mix(key + tessera::detail::split_mix_step * (2 * id + which + 1));
}

/// The instance that the key ranks first among those with `may(i)`; `nowhere` if there is none.
template <class V, class May>
[[nodiscard]] constexpr std::size_t first_of(const V& instances, std::uint64_t which, May may) noexcept {
  std::size_t best = nowhere;
  std::uint64_t most = 0;
  for (std::size_t i = 0; i != instances.size(); ++i) {
    if (!may(i)) continue;
    const auto& v = instances[i];
    const std::uint64_t w = weight(std::uint64_t{v.prefix_key}, std::uint64_t{v.id}, which);
    if (best == nowhere || w > most) {
      best = i;
      most = w;
    }
  }
  return best;
}

}  // namespace detail

/// Consistent hashing with bounded loads. Candidates are the instances that would have, with this request, at most
/// `bound` times the mean number of requests, rounded up. The key of the prompt's beginning ranks them.
/// When to use: as a baseline, if prefixes are shared and the router knows nothing of caches.
/// Source: Mirrokni, Thorup and Zadimoghaddam (arXiv 1608.01350). There a full instance passes all its keys to the next
/// one on the ring; here each key has a second choice of its own.
/// O(instances), no allocation, no state. `nowhere` for an empty range.
struct bounded_hashing {
  /// It reads the beginning of the request.
  static constexpr bool reads_prefixes = true;

  double bound = 1.25;  ///< At least 1 (asserted).

  /// The index of the chosen instance.
  template <instance_views V>
    requires shows_prefix_key<view_t<V>> && shows_requests<view_t<V>>
  [[nodiscard]] constexpr std::size_t operator()(const V& instances) const noexcept {
    TESSERA_ASSERT(bound >= 1, "below the mean there is not room for all");
    const std::size_t n = instances.size();
    std::size_t all = 1;  // with this request
    for (std::size_t i = 0; i != n; ++i) all += std::size_t{instances[i].requests};
    const double most = bound * static_cast<double>(all) / static_cast<double>(n);
    // For a whole number n, n + 1 is at most x rounded up exactly if n is less than x.
    return detail::first_of(instances, 0, [&](std::size_t i) noexcept {
      return static_cast<double>(std::size_t{instances[i].requests}) < most;
    });
  }
};

/// DualMap: the key of the prompt's beginning has two instances, by two hashes. The request goes to the one with more
/// of its prompt cached, if that one would compute at most `prompts` before its first token. Otherwise it goes to the
/// one of the two with less to compute. When to use: as a baseline, if prefixes are shared and a TTFT is promised.
/// Source: DualMap (arXiv 2602.06502): two candidates, affinity until the TTFT is in danger. The paper's moves of
/// waiting requests away from a hot instance are left out. O(instances), no allocation, no state. `nowhere` for an
/// empty range.
struct dual_map {
  /// It reads what each instance has cached of the request, and the request's beginning.
  static constexpr bool reads_prefixes = true;

  tokens prompts{8192};   ///< Tokens that an instance computes within the promised TTFT. At least 1.
  tokens block_size{16};  ///< Tokens per block in the views.

  /// The index of the chosen instance.
  template <instance_views V>
    requires shows_prefix_key<view_t<V>> && shows_new_prefill<view_t<V>> && shows_waiting_blocks<view_t<V>>
  [[nodiscard]] constexpr std::size_t operator()(const V& instances) const noexcept {
    TESSERA_ASSERT(prompts >= tokens{1} && block_size >= tokens{1},
                   "an instance computes something, and a block has a size");
    const auto any = [](std::size_t) noexcept { return true; };
    const std::size_t a = detail::first_of(instances, 0, any);
    if (a == nowhere || instances.size() == 1) return a;
    const std::size_t b = detail::first_of(instances, 1, [a](std::size_t i) noexcept { return i != a; });
    const auto fresh = [&](std::size_t i) noexcept { return tokens{instances[i].new_prefill_tokens}; };
    const auto before_its_first_token = [&](std::size_t i) noexcept {
      return fresh(i) + block_size * blocks{instances[i].waiting_blocks}.count();
    };
    const std::size_t closer = fresh(b) < fresh(a) ? b : a;
    const std::size_t other = closer == a ? b : a;
    if (fresh(a) != fresh(b) && before_its_first_token(closer) <= prompts) return closer;
    return before_its_first_token(other) < before_its_first_token(closer) ? other : closer;
  }
};

}  // namespace placement
TESSERA_NAMESPACE_END
