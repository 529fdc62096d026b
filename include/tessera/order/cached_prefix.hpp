// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/status.hpp>
#include <tessera/request/concepts.hpp>

#include <algorithm>
#include <cstddef>

/// @file
/// The cached part of a waiting request's prompt, for orders that use it.

TESSERA_NAMESPACE_BEGIN
namespace order {

/// The cached tokens that a request would find if it started now: whole blocks, less than all. Requires: the cache
/// evicts a block before its predecessors, as `kv::lru` does. O(log blocks of the prompt).
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
