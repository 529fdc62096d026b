// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/cached_prefix.hpp>
#include <tessera/order/fcfs.hpp>

#include <concepts>

/// @file
/// Whoever has most of its prompt cached goes first.

TESSERA_NAMESPACE_BEGIN
namespace order {

/// What is cached of a request's prompt, as the engine wrote it into the member `cached`.
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

/// Longest cached prefix first: (priority, tokens of its prompt that the cache has, sequence). So requests that share a
/// prefix are served one after the other while it is there, instead of each time that it has been forgotten. Not
/// preemptive: only a higher priority displaces a resident.
///
/// What is cached changes while a request waits. The order goes by the member as it is, which changes only in a
/// scheduler's `update`: `look_again` does that.
///
///     struct my_request : tessera::request_hook { tessera::tokens cached{}; ... };
///
/// Starvation: nothing bounds how long a request waits whose prefix no other shares; `gate::tenant_deficits` beside it
/// does for tenants (DLPM). One that runs has a token in every step, as under `fcfs`.
///
/// When to use: prompts share prefixes, more of them than the cache holds at a time, and requests queue.
/// Source: longest prefix match, the cache-aware order of SGLang (Zheng et al. 2024, "SGLang: efficient execution of
/// structured language model programs", section 3).
/// @tparam Cached `tokens operator()(const R&) const noexcept`; by default the request's member `cached`.
template <class Cached = cached_member>
struct longest_prefix : fcfs {
  static constexpr bool reads_prefixes = true;  ///< It goes by what the cache has.

  Cached cached_of{};  ///< Says what is cached of a request's prompt. (clang 16 fails on [[no_unique_address]] here.)

  /// By priority, then by what is cached, then by arrival.
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
