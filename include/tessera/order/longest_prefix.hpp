// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/status.hpp>
#include <tessera/order/fcfs.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>

/// @file
/// The request with the longest cached prefix goes first.

TESSERA_NAMESPACE_BEGIN
namespace order {

/// The cached tokens of a request's prompt, which the engine wrote into the member `cached`.
struct cached_member {
  /// Reads `r.cached`.
  template <schedulable R>
    requires requires(const R& r) {
      { r.cached } -> std::convertible_to<tokens>;
    }
  [[nodiscard]] tokens operator()(const R& r) const noexcept {
    return r.cached;
  }
};

/// Longest cached prefix first: (priority, cached tokens of its prompt, sequence). So requests that share a prefix are
/// served one after the other while it is cached, and it is computed once. Not preemptive: only a higher priority
/// displaces a resident.
///
/// The cache changes while a request waits. The order uses the member as it is, and the member changes only in a
/// scheduler's `update`: `look_again` does that.
///
///     struct my_request : tessera::request_hook { tessera::tokens cached{}; ... };
///
/// Starvation: nothing bounds the wait of a request with a prefix that no other shares. `gate::tenant_deficits` beside
/// it bounds it for tenants (DLPM). A running request has a token in every step, as under `fcfs`.
///
/// When to use: prompts share prefixes, the cache does not hold all of them at a time, and requests queue.
/// Source: longest prefix match, the cache-aware order of SGLang (Zheng et al. 2024, "SGLang: efficient execution of
/// structured language model programs", section 3).
/// @tparam Cached `tokens operator()(const R&) const noexcept`; by default the request's member `cached`.
template <class Cached = cached_member>
struct longest_prefix : fcfs {
  static constexpr bool reads_prefixes = true;  ///< It depends on the content of the cache.

  Cached cached_of{};  ///< Gives the cached tokens of a request's prompt. (clang 16 fails on [[no_unique_address]]
                       ///< here.)

  /// By priority, then by cached tokens, then by arrival.
  template <schedulable R>
  [[nodiscard]] bool before(const R& a, const R& b) const noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    const tokens s = cached_of(a);
    const tokens t = cached_of(b);
    if (s != t) return s > t;
    return a.state().sequence < b.state().sequence;
  }
};

/// The tokens of a request that would be found if it started now: whole blocks, less than all. Requires: the cache
/// forgets a block before those that lead up to it, as `kv::lru` does. O(log blocks of the prompt).
template <class Store, schedulable R>
[[nodiscard]] tokens cached_prefix(const Store& store, const R& r, tokens block_size) noexcept {
  const auto hashes = r.prefix_hashes();
  const tokens length = max(r.state().length, r.prompt);
  const auto most = std::min(hashes.size(), static_cast<std::size_t>((length.count() - 1) / block_size.count()));
  const auto end = std::partition_point(hashes.begin(), hashes.begin() + static_cast<std::ptrdiff_t>(most),
                                        [&](const auto& hash) noexcept { return store.knows(hash); });
  return block_size * static_cast<std::int64_t>(end - hashes.begin());
}

/// Updates the member `cached` of a waiting request and moves the request to its new place. An engine calls it between
/// two steps: for all waiting requests, or for some of them in turn. Returns whether anything has changed. O(log blocks
/// of the prompt + log n). Does nothing while a plan is open.
template <class Scheduler, schedulable R>
bool look_again(Scheduler& scheduler, R& r) noexcept {
  if (r.state().life != lifecycle::waiting) return false;
  const tokens found = cached_prefix(scheduler.store(), r, scheduler.size_limits().block_size);
  return found != r.cached && ok(scheduler.update(r, [found](R& moved) noexcept { moved.cached = found; }));
}

}  // namespace order
TESSERA_NAMESPACE_END
