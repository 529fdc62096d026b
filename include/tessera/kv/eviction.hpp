// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/concepts.hpp>

#include <cstddef>
#include <span>

/// @file
/// The order in which cached blocks are evicted.

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// The order in which cached blocks are evicted, with exact undo. Cached blocks are findable and have no owner.
///
/// Requires:
/// 1. `P::place_type`, trivially copyable: what `undo_remove` needs to put a block back where it was.
/// 2. `P::required_bytes(blocks)`; `P(arena&, blocks)`: no block of [0, blocks) is in the order.
/// 3. `size()`: the number of blocks in it. `next()`: the block that goes first, if there is one.
/// 4. `insert(id)`: its last owner has just gone. `remove(id)`: it is in use again. `insert_first(id)`: as `insert`,
///    but it goes before all blocks in the order, whatever the policy. It has the least value, as a block that a window
///    has passed. It is never undone.
/// 5. `take(out, f)`: removes the first `out.size()` and writes them to `out` in their order. It calls `f(id)` for each
///    block before it reads more of the block's data, so that `f` can prefetch it.
/// 6. `undo_insert(id)`, `undo_remove(id, place)`, `undo_take(id)`: undo the latest of these; `undo_take` one block at
///    a time, from back to front.
/// 7. `clear()`: removes all blocks. All calls are `noexcept`.
///
/// Optional:
/// - `published(id, depth)`: the block is findable from now on; `depth` blocks of its sequence come before it.
/// - `retention_type`, `retention_of(const Request&)`: a request's retention hint for its blocks. `retain(id,
/// retention_type)`: states the retention hint for a
///   block in use. Not between an operation and its undoing.
/// - `advance(now)`: tells the time, which never goes back.
///
/// Not checked: after undoing in strictly reverse order, the order is as before. Blocks of one sequence are inserted
/// together, from back to front, and leave in that order. A beginning is of use without its end, but not the reverse.
/// Complexity: O(1) or O(log blocks) for each block. Models: `lru`, `keep_until`, `next_use`, `by_depth`, `by_session`.
template <class P>
concept eviction_policy = std::constructible_from<P, arena&, std::size_t> &&
                          requires(P& order, const P& view, block_id id, std::size_t blocks, std::span<block_id> out,
                                   typename P::place_type place) {
                            { P::required_bytes(blocks) } noexcept -> std::same_as<std::size_t>;
                            { view.size() } noexcept -> std::same_as<std::size_t>;
                            { view.next() } noexcept -> std::same_as<block_id>;
                            { order.insert(id) } noexcept -> std::same_as<void>;
                            { order.insert_first(id) } noexcept -> std::same_as<void>;
                            { order.remove(id) } noexcept -> std::same_as<typename P::place_type>;
                            {
                              order.take(out, [](block_id) noexcept {})
                            } noexcept -> std::same_as<void>;
                            { order.undo_insert(id) } noexcept -> std::same_as<void>;
                            { order.undo_remove(id, place) } noexcept -> std::same_as<void>;
                            { order.undo_take(id) } noexcept -> std::same_as<void>;
                            { order.clear() } noexcept -> std::same_as<void>;
                          };

}  // namespace kv
TESSERA_NAMESPACE_END
