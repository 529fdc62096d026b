// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>

#include <cstddef>

/// @file
/// A group of layers, as `kv::groups` keeps its KV.

TESSERA_NAMESPACE_BEGIN
namespace kv {

/// Layers of a model that keep their KV in the same way, and share a block table.
struct group {
  tokens block_size{16};  ///< Tokens per block. At least 1.
  tokens window{};        ///< The layers of a token look at so many tokens, itself and those before it; 0: at all.

  /// Full attention.
  [[nodiscard]] static constexpr group full(tokens block_size) noexcept { return {block_size, tokens{}}; }
  /// Attention to the last `window` tokens.
  [[nodiscard]] static constexpr group sliding(tokens block_size, tokens window) noexcept {
    return {block_size, window};
  }
  /// A recurrent state, which is the window that ends with the token before. A block holds one state: the last one, or,
  /// once its tokens are through, that after its last token, which others may begin with. So `block_size` says how far
  /// apart those are.
  [[nodiscard]] static constexpr group recurrent(tokens block_size) noexcept { return {block_size, tokens{2}}; }

  /// Whether it keeps a state, which cannot go back to what it was before a token.
  [[nodiscard]] constexpr bool is_recurrent() const noexcept { return window == tokens{2}; }

  /// Most of its blocks that a sequence of `length` tokens needs at once, computed one by one.
  [[nodiscard]] constexpr std::size_t most_blocks(tokens length) const noexcept {
    const auto all = static_cast<std::size_t>(blocks_for(length, block_size).count());
    if (window == tokens{}) return all;
    const auto most = static_cast<std::size_t>((window + block_size - tokens{2}) / block_size) + 1;
    return all < most ? all : most;
  }

  /// The first of its blocks that the token at `position` needs, and those after it.
  [[nodiscard]] constexpr std::size_t first_needed(tokens position) const noexcept {
    if (window == tokens{} || position < window) return 0;
    return static_cast<std::size_t>((position - window + tokens{1}) / block_size);
  }
};

}  // namespace kv
TESSERA_NAMESPACE_END
