// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/gate/concepts.hpp>

#include <cstddef>
#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace gate {

/// A request that will be forked starts only when there is room for its whole group: parallel sampling, all at once.
/// The room for its forks is reserved until they are made. The request's member `forks_due` says how many are still to
/// be made. The engine sets it before `submit` and counts it down with each `fork`.
///
///     struct my_request : tessera::request_hook { std::uint32_t forks_due = 0; };
///
/// Each fork has a reserved place, and a block for its copy of the last block of the prompt. No request behind such a
/// one starts before it. A group larger than the instance starts when no other request is there, and runs as many forks
/// as fit.
///
/// When to use: n > 1, if the samples of one prompt are to run side by side and share its KV. Do not set `max_starts`
/// or let residents grow into the last places: `fork` would then lack them (`exhausted`).
struct groups {
  static constexpr bool backfills = false;  ///< No request passes one that lacks blocks.
  static constexpr bool screens = true;     ///< Each waiting request is asked for.

  /// O(residents).
  template <schedulable R>
    requires requires(const R& r) {
      { r.forks_due } -> std::convertible_to<std::uint32_t>;
    }
  [[nodiscard]] constexpr passage ask(const R& candidate, const gate_view<R>& view) const noexcept {
    std::size_t due = static_cast<std::size_t>(candidate.forks_due);
    if (view.places == view.most_places) return passage::start;  // no other request is here
    for (const R* r : view.residents) due += static_cast<std::size_t>(r->forks_due);
    for (const R* r : view.admitted) due += static_cast<std::size_t>(r->forks_due);
    if (due == 0) return passage::start;
    const bool has_places = view.places >= 1 + due;
    const bool has_blocks = view.free >= view.needed + blocks{static_cast<std::int64_t>(due)};
    return has_places && has_blocks ? passage::start : passage::stop;
  }
};

}  // namespace gate
TESSERA_NAMESPACE_END
