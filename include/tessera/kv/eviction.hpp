// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/concepts.hpp>

#include <cstddef>
#include <span>

/// @file
/// Which cached block goes first.

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// An order of the blocks that are cached - findable, and nobody's - in which they are evicted, with exact undo.
///
/// Requires:
/// 1. `P::place_type`, trivially copyable: what `undo_remove` needs to put a block back where it was.
/// 2. `P::required_bytes(blocks)`; `P(arena&, blocks)`: no block of [0, blocks) is in the order.
/// 3. `size()`: how many are in it. `next()`: which one goes first, if there is one.
/// 4. `insert(id)`: its last owner has just gone. `remove(id)`: it is in use again. `insert_first(id)`: as `insert`,
///    but it goes before all blocks that are in the order, whatever the policy: it is worth the least, as a block that
///    a window has passed. That is never undone.
/// 5. `take(out, f)`: removes the first `out.size()` and writes them to `out` in their order; calls `f(id)` of each
///    before it looks at more of it, so that who asks can have it brought to the cache.
/// 6. `undo_insert(id)`, `undo_remove(id, place)`, `undo_take(id)`: take the latest of these back; `undo_take` one
/// block
///    at a time, from back to front.
/// 7. `clear()`: none is in it any more. All calls are `noexcept`.
///
/// It may also have
/// - `published(id, depth)`: the block is findable from now on; so many blocks of its sequence come before it;
/// - `wish_type`, `wish(const Request&)`, which says what a request asks for its blocks, and `wish(id, wish_type)`:
///   it asks that for a block that is in use. Not between an operation and its undoing;
/// - `advance(now)`: time goes on, never back.
///
/// Not checked: undone in strictly reverse order, the order is what it was. Blocks of one sequence that are inserted
/// together, from back to front, leave in that order: a beginning is of use without its end, but not the reverse.
/// Complexity: O(1) or O(log blocks) for each block. Models: `lru`, `keep_until`, `next_use`, `by_depth`,
/// `by_session`.
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
