// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/units.hpp>

/// @file
/// What of a running request's KV another engine can take over, by its block boundaries.
///
/// The last token that was sampled has no KV yet. A caller may ask a source for the KV of a request's tokens, by a
/// request of its own with these tokens. With the KV it gets at least one token more: the token that the source samples
/// last.

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// How the KV of a request that runs on is fetched from its source.
struct kv_export {
  tokens generates{};  ///< Tokens that the source is asked to generate for it.
  tokens covers{};     ///< Leading tokens of the request with their KV in the export.
  blocks size{};       ///< Blocks of the export.
  bool whole = false;  ///< Whether the target can take it; if not, it computes the request anew.
};

/// Blocks that the target asks for when it goes on with `length` known tokens: engines also count the token that has no
/// KV yet. Requires `block_size > 0`.
[[nodiscard]] constexpr blocks blocks_at_target(tokens length, tokens block_size) noexcept {
  return blocks_for(length, block_size);
}

/// Whether a target that goes on with `length` known tokens can take an export of `exported` blocks: exactly as many as
/// it asks for. An engine that is offered more may take the wrong blocks without a word. An engine that is offered
/// fewer has no KV for tokens that it does not compute. Requires `block_size > 0`.
[[nodiscard]] constexpr bool takes(blocks exported, tokens length, tokens block_size) noexcept {
  return exported == blocks_at_target(length, block_size);
}

/// The export for a request of `length` known tokens. One more token is generated for it, or two if its tokens fill
/// their blocks. With one the target would then go on in a block that was not exported. With blocks of a single token
/// no export fits. O(1). Requires `length > 0`, `block_size > 0` (asserted).
[[nodiscard]] constexpr kv_export plan_export(tokens length, tokens block_size) noexcept {
  TESSERA_ASSERT(length > tokens{} && block_size > tokens{}, "there is something to export");
  kv_export e;
  e.generates = tokens{length % block_size == tokens{} ? 2 : 1};
  e.covers = length + e.generates - tokens{1};
  e.size = blocks_for(e.covers, block_size);
  e.whole = takes(e.size, length + e.generates, block_size);
  return e;
}

/// Another request of any length may use this many leading tokens as a prefix, of a request with KV for `computed`
/// tokens: whole blocks. Requires `block_size > 0`.
[[nodiscard]] constexpr tokens shared_prefix(tokens computed, tokens block_size) noexcept {
  return computed - computed % block_size;
}

}  // namespace fleet
TESSERA_NAMESPACE_END
