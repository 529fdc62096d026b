// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>
#include <tessera/headroom/window_quantile.hpp>

TESSERA_NAMESPACE_BEGIN
namespace headroom {

/// The blocks that a typical large request needs: the reference demand of `kv::stranded_below`. By default the 95th
/// percentile of the last 1,024 prompts, in blocks, plus one block to grow into.
/// `observe` is O(log window), `value` O(1); nothing allocates.
class reference_demand {
 public:
  /// Capacities; fixed at construction.
  struct limits {
    std::size_t window = 1024;  ///< Prompts that count. At least 1.
  };
  /// Parameters. The defaults are the paper's where it gives one.
  struct settings {
    tokens block_size{16};   ///< Above 0.
    double quantile = 0.95;  ///< Above 0, at most 1.
    blocks growth{1};        ///< Added to the prompt's blocks.
    blocks before_any{};     ///< The demand before the first prompt. 0: nothing is stranded.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return window_quantile<blocks>::required_bytes({l.window});
  }

  /// Takes `required_bytes(l)` from `memory`.
  reference_demand(arena& memory, const limits& l, const settings& s) noexcept
      : prompts_{memory, {l.window}, s.quantile}, settings_{s} {
    TESSERA_ASSERT(s.block_size > tokens{}, "a block has a size");
    TESSERA_ASSERT(s.growth >= blocks{} && s.before_any >= blocks{}, "a demand is not negative");
  }
  /// The same with the default settings.
  reference_demand(arena& memory, const limits& l) noexcept : reference_demand(memory, l, settings{}) {}

  /// A prompt has arrived. Requires a length that is not negative.
  void observe(tokens prompt) noexcept {
    TESSERA_ASSERT(prompt >= tokens{}, "a length is not negative");
    prompts_.push(blocks_for(prompt, settings_.block_size));
  }
  /// d: the quantile of the recent prompts, in blocks, plus room to grow; `before_any` if there was none.
  [[nodiscard]] blocks value() const noexcept {
    return prompts_.empty() ? settings_.before_any : prompts_.value() + settings_.growth;
  }
  /// Prompts in the window. O(1).
  [[nodiscard]] std::size_t observed() const noexcept { return prompts_.size(); }

 private:
  window_quantile<blocks> prompts_;
  settings settings_;
};

}  // namespace headroom
TESSERA_NAMESPACE_END
