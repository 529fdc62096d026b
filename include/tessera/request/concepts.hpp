// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/request/hook.hpp>

#include <concepts>
#include <cstdint>
#include <span>

/// @file
/// What a type must be to be scheduled.

TESSERA_NAMESPACE_BEGIN
namespace detail {

template <class H>
inline constexpr bool is_request_hook = false;
template <class Clock, class... Orders>
inline constexpr bool is_request_hook<basic_request_hook<Clock, Orders...>> = true;

}  // namespace detail

/// A request that schedulers and queues can hold.
/// Requires: `R` derives publicly and unambiguously from a `basic_request_hook`.
/// Not checked: it stays in place while it is scheduled. Models: anything derived from `request_hook` or
/// `request_hook_for<Order>`.
template <class R>
concept schedulable = detail::is_request_hook<typename R::hook_type> && std::derived_from<R, typename R::hook_type>;

/// A request whose prompt can be found in a prefix cache.
/// Requires: (1) `schedulable`; (2) `r.prefix_hashes()` converts to `std::span<const Hash>`, what the blocks of the
/// cache are found by, by default 64 bits: one chained hash per *full* block of the prompt, in order (see
/// `kv::hash_chain`), and, if the next turn is to find the answer, of the blocks that it fills: then there are more of
/// them each time. Not checked: equal hashes mean equal tokens from the start of the prompt; the span stays valid while
/// scheduled.
template <class R, class Hash = std::uint64_t>
concept prefix_hashed = schedulable<R> && requires(const R& r) {
  { r.prefix_hashes() } noexcept -> std::convertible_to<std::span<const Hash>>;
};

TESSERA_NAMESPACE_END
