// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/admit/concepts.hpp>

#include <concepts>
#include <cstddef>

/// @file
/// Who may start although one that waits before it cannot.

TESSERA_NAMESPACE_BEGIN

/// What a gate is shown of the first who waits and cannot start, and of whom it might let pass. Valid during the call.
template <class R>
struct gate_view {
  const R& blocked;               ///< The first who waits and could not start in this plan.
  blocks lacks{};                 ///< Blocks that it lacks if nothing of its prefix is found; 0: none.
  blocks free{};                  ///< Blocks that are free, less what those who compute their prompts are promised.
  blocks needed{};                ///< Blocks that the candidate would take of these for its whole sequence.
  blocks guests_hold{};           ///< Blocks that those hold who have been let pass.
  tokens block_size{};            ///< Tokens per block.
  std::span<R* const> residents;  ///< Requests that run, guests not among them, in rank order.
  std::span<R* const> admitted;   ///< Requests that start in this plan, guests among them.
  std::span<const std::uint32_t> own{};  ///< By row: blocks that nobody shares.
};

/// What becomes of a candidate behind the first who cannot start.
enum class passage : std::uint8_t {
  start,  ///< It may start, as a guest: it gives way as soon as those who wait before it could start without it.
  skip,   ///< It may not; the one behind it is asked.
  stop,   ///< It may not, nor may anyone behind it in this plan.
};

/// Says who may pass the first who waits and cannot start.
/// Requires: (1) `G::passes`, a constant: false if nobody ever may, and then nothing else is asked of it; (2)
/// `g.most_skipped`, how many may be skipped in a plan; (3) `g.ask(candidate, view) noexcept -> passage`, const.
/// Not checked: a pure function of its arguments. Complexity: at most O(residents), asked once per candidate and step.
/// Models: `gate::in_line`, `gate::backfill`.
template <class G, class R>
concept gate_policy = schedulable<R> && std::copyable<G> && requires {
  requires std::same_as<decltype(G::passes), const bool>;
} && (!G::passes || requires(const G& g, const R& r, const gate_view<R>& view) {
                        { g.most_skipped } -> std::convertible_to<std::size_t>;
                        { g.ask(r, view) } noexcept -> std::same_as<passage>;
                      });

namespace gate {

/// Nobody passes: who cannot start holds up all behind it. So a large request is not overtaken for ever by small ones.
/// When to use: the default.
struct in_line {
  static constexpr bool passes = false;  ///< Nobody is asked.
};

}  // namespace gate
TESSERA_NAMESPACE_END
