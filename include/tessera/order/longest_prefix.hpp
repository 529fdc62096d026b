// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/cached_prefix.hpp>
#include <tessera/order/fcfs.hpp>

#include <concepts>

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

}  // namespace order
TESSERA_NAMESPACE_END
