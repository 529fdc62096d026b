// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/request/hook.hpp>

#include <concepts>
#include <cstdint>
#include <span>

/// @file
/// What a type must be to be scheduled.

TESSERA_NAMESPACE_BEGIN

/// A request that schedulers and queues can hold.
/// Requires: (1) `R::clock_type` is a clock policy; (2) `R` derives publicly and unambiguously from
/// `basic_request_hook<R::clock_type>`.
/// Not checked: it stays in place while it is scheduled. Models: anything derived from `request_hook`.
template <class R>
concept schedulable =
    clock_policy<typename R::clock_type> && std::derived_from<R, basic_request_hook<typename R::clock_type>>;

/// A request whose prompt can be found in a prefix cache.
/// Requires: (1) `schedulable`; (2) `r.prefix_hashes()` converts to `std::span<const std::uint64_t>`: one chained hash
/// per *full* block of the prompt, in order (see `kv::hash_chain`).
/// Not checked: equal hashes mean equal tokens from the start of the prompt; the span stays valid while scheduled.
template <class R>
concept prefix_hashed = schedulable<R> && requires(const R& r) {
  { r.prefix_hashes() } noexcept -> std::convertible_to<std::span<const std::uint64_t>>;
};

TESSERA_NAMESPACE_END
