// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/request/hook.hpp>

#include <concepts>
#include <cstdint>
#include <span>

/// @file
/// The concepts of request types.

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

/// A request with a prompt that can be looked up in a prefix cache.
/// Requires: (1) `schedulable`; (2) `r.prefix_hashes()` converts to `std::span<const Hash>`.
/// The span has one chained hash per *full* block of the prompt, in order (see `kv::hash_chain`). The cache finds its
/// blocks by these hashes; they have 64 bits by default. If the next turn is to find the answer as well, the hashes of
/// the answer's full blocks follow, and the span grows.
/// Not checked: equal hashes mean equal tokens from the start of the prompt; the span stays valid while scheduled.
template <class R, class Hash = std::uint64_t>
concept prefix_hashed = schedulable<R> && requires(const R& r) {
  { r.prefix_hashes() } noexcept -> std::convertible_to<std::span<const Hash>>;
};

TESSERA_NAMESPACE_END
