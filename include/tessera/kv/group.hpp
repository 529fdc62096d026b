// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>

/// @file
/// A group of layers, as `kv::groups` keeps its KV.

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// Layers of a model that keep their KV in the same way, and share a block table.
struct group {
  tokens block_size{16};   ///< Tokens per block. At least 1.
  tokens window{};         ///< The layers of a token look at so many tokens, itself and those before it; 0: at all.
  bool in_chunks = false;  ///< They look no further back than to the last multiple of `window`.

  /// Full attention.
  [[nodiscard]] static constexpr group full(tokens block_size) noexcept { return {block_size, tokens{}}; }
  /// Attention to the last `window` tokens.
  [[nodiscard]] static constexpr group sliding(tokens block_size, tokens window) noexcept {
    return {block_size, window};
  }
  /// Attention within chunks of so many tokens (Llama 4): a window that begins anew at each multiple of its length.
  [[nodiscard]] static constexpr group chunked(tokens block_size, tokens chunk) noexcept {
    return {block_size, chunk, true};
  }
  /// A recurrent state, which is the window that ends with the token before. A block holds one state: the last one, or,
  /// once its tokens are through, that after its last token, which others may begin with. So `block_size` says how far
  /// apart those are.
  [[nodiscard]] static constexpr group recurrent(tokens block_size) noexcept { return {block_size, tokens{2}}; }

  /// Whether it keeps a state, which cannot go back to what it was before a token.
  [[nodiscard]] constexpr bool is_recurrent() const noexcept { return window == tokens{2} && !in_chunks; }

  /// Most of its blocks that a sequence with so many slots needs at once, computed one by one, if `ahead` of these are
  /// for tokens beyond it.
  [[nodiscard]] constexpr std::size_t most_blocks(tokens slots, tokens ahead = {}) const noexcept {
    const auto all = static_cast<std::size_t>(blocks_for(slots, block_size).count());
    if (window == tokens{}) return all;
    // The first that is looked at lies anywhere in a block; that of a chunk at a multiple of this.
    const tokens step{in_chunks ? std::gcd(window.count(), block_size.count()) : 1};
    const auto most = static_cast<std::size_t>(blocks_for(window + ahead + block_size - step, block_size).count());
    return all < most ? all : most;
  }

  /// The first of its blocks that the token at `position` needs, and those after it.
  [[nodiscard]] constexpr std::size_t first_needed(tokens position) const noexcept {
    if (window == tokens{} || position < window) return 0;
    if (in_chunks) return static_cast<std::size_t>(window * (position / window) / block_size);
    return static_cast<std::size_t>((position - window + tokens{1}) / block_size);
  }

  /// When so many tokens are computed, no token after them needs the block `i`. Requires: there is a window.
  [[nodiscard]] constexpr tokens passes_at(std::size_t i) const noexcept {
    const tokens end = block_size * (std::int64_t{1} + static_cast<std::int64_t>(i));
    return in_chunks ? window * blocks_for(end, window).count() : end + window - tokens{1};
  }
};

}  // namespace kv
TESSERA_NAMESPACE_END
