// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>

/// @file
/// A group of layers, with one way to keep KV in `kv::groups`.

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// Layers of a model that keep their KV in the same way, and share a block table.
struct group {
  tokens block_size{16};   ///< Tokens per block. At least 1.
  tokens window{};         ///< Tokens that a token attends to, itself included; 0: all.
  bool in_chunks = false;  ///< They attend no further back than to the last multiple of `window`.
  bool at_ends = false;    ///< A block has a value for others only if a step ended with its last token.
  std::size_t spare = 0;   ///< Blocks at the end of each row beyond those of its tokens: for states after drafts.

  /// Full attention.
  [[nodiscard]] static constexpr group full(tokens block_size) noexcept { return {block_size, tokens{}}; }
  /// Attention to the last `window` tokens.
  [[nodiscard]] static constexpr group sliding(tokens block_size, tokens window) noexcept {
    return {block_size, window};
  }
  /// Attention within chunks of `chunk` tokens (Llama 4): a window that begins anew at each multiple of its length.
  [[nodiscard]] static constexpr group chunked(tokens block_size, tokens chunk) noexcept {
    return {block_size, chunk, true};
  }
  /// A recurrent state, modelled as the window that ends with the token before. A block holds one state. It is the
  /// latest state or, once the block's tokens are computed, the state after its last token, from which other requests
  /// may start. So `block_size` is the distance between such states.
  /// @param at_ends the engine writes the state only where a step ends, as vLLM does. Other requests may start from a
  /// block's state if a step ended with the block. Blocks within a step hold nothing.
  /// @param spare most drafts of a step. The engine keeps the state after each in a block behind the latest state's.
  /// It goes on from the state after the last accepted draft. If these pass the end of a block, it leaves the state
  /// there in that block.
  [[nodiscard]] static constexpr group recurrent(tokens block_size, bool at_ends = false,
                                                 std::size_t spare = 0) noexcept {
    return {block_size, tokens{2}, false, at_ends, spare};
  }

  /// Whether it keeps a state, which cannot be rewound to an earlier token, except to one before drafts in `spare`.
  [[nodiscard]] constexpr bool is_recurrent() const noexcept { return window == tokens{2} && !in_chunks; }

  /// The blocks of a row with room for `slots` tokens, if all are kept.
  [[nodiscard]] constexpr std::size_t row_blocks(tokens slots) const noexcept {
    return static_cast<std::size_t>(blocks_for(slots, block_size).count()) + spare;
  }
  /// The most blocks that a sequence of `slots` slots needs at once, computed token by token. `ahead` of the slots are
  /// for tokens beyond it.
  [[nodiscard]] constexpr std::size_t most_blocks(tokens slots, tokens ahead = {}) const noexcept {
    const std::size_t all = row_blocks(slots);
    if (window == tokens{}) return all;
    // The first attended token lies anywhere in a block; for chunks, at a multiple of this.
    const tokens step{in_chunks ? std::gcd(window.count(), block_size.count()) : 1};
    const std::size_t most = row_blocks(window + ahead + block_size - step);
    return all < most ? all : most;
  }

  /// The first block that the token at `position` needs; it needs all blocks after it as well.
  [[nodiscard]] constexpr std::size_t first_needed(tokens position) const noexcept {
    if (window == tokens{} || position < window) return 0;
    if (in_chunks) return static_cast<std::size_t>(window * (position / window) / block_size);
    return static_cast<std::size_t>((position - window + tokens{1}) / block_size);
  }

  /// The number of computed tokens from which on no later token needs block `i`. Requires: there is a window.
  [[nodiscard]] constexpr tokens passes_at(std::size_t i) const noexcept {
    const tokens end = block_size * (std::int64_t{1} + static_cast<std::int64_t>(i));
    return in_chunks ? window * blocks_for(end, window).count() : end + window - tokens{1};
  }
  /// The number of computed tokens at which block `i` is given back: no token needs it, and another one is needed at
  /// the end. So the number of blocks is the same in each step, and tables of a batch need not be moved. A state is too
  /// large to be kept so long. Rows have room for `slots_ahead` more tokens, and grow by `ahead` before. The last
  /// `behind` computed tokens count as if they were not. Requires: there is a window.
  [[nodiscard]] constexpr tokens slides_at(std::size_t i, tokens slots_ahead, tokens ahead,
                                           tokens behind) const noexcept {
    const tokens passed = passes_at(i) + behind;
    if (is_recurrent()) return passed;
    const tokens full = block_size * blocks_for(passed + slots_ahead, block_size).count();
    return max(passed, full - slots_ahead - ahead);
  }
};

}  // namespace kv
TESSERA_NAMESPACE_END
