// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/placement/concepts.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

TESSERA_NAMESPACE_BEGIN
namespace placement {

/// The round-robin position for ties. Policies choose the first of the best from `next` on, and from 0 after the last.
/// Then `next` moves behind the chosen one. So instances that tie repeatedly are chosen equally often, and a cluster
/// with little load does not send everything to its first instance.
///
/// Each policy has one. To choose from different sets, such as a prefill and a decode pool, use a policy object for
/// each. Otherwise a choice in one set would restart the position in the other.
struct turn {
  std::size_t next = 0;  ///< The first to be looked at.

  /// The position at which a search of [first, last) begins.
  [[nodiscard]] constexpr std::size_t begin(std::size_t first, std::size_t last) const noexcept {
    return first <= next && next < last ? next : first;
  }
  /// Records that `i` was chosen; `nowhere`: none was. Returns `i`.
  constexpr std::size_t chose(std::size_t i) noexcept {
    if (i != nowhere) next = i + 1;
    return i;
  }

  /// Returns the instance of [first, last) with the smallest `key(i)`; ties go round-robin. `nowhere` if the range is
  /// empty. Advances the position. O(last - first), one key each: a value that can be default-constructed.
  template <class Key>
  constexpr std::size_t least(std::size_t first, std::size_t last, Key key) noexcept {
    return least(first, last, key, [](std::size_t) noexcept { return true; });
  }
  /// The same, among the instances with `may(i)`.
  template <class Key, class May>
  constexpr std::size_t least(std::size_t first, std::size_t last, Key key, May may) noexcept {
    TESSERA_ASSERT(first <= last, "a range");
    const std::size_t from = begin(first, last);
    std::size_t chosen = nowhere;
    std::remove_cvref_t<decltype(key(first))> fewest{};
    const auto look = [&](std::size_t i, std::size_t end) noexcept {
      for (; i != end; ++i) {
        if (!may(i)) continue;
        const auto value = key(i);
        if (chosen == nowhere || value < fewest) {
          chosen = i;
          fewest = value;
        }
      }
    };
    look(from, last);
    look(first, from);
    return chose(chosen);
  }

  /// Writes the first `best.size()` of [first, last) by key into `best`; ties go round-robin. Returns how many there
  /// are. The first is the one that `least` gives, and the position advances as there. One pass: O(last - first) keys,
  /// plus O(best.size()) for each that is among the best so far. In random order these are few.
  template <class Key>
  constexpr std::size_t least(std::size_t first, std::size_t last, std::span<std::uint32_t> best, Key key) noexcept {
    TESSERA_ASSERT(first <= last, "a range");
    const std::size_t from = begin(first, last);
    std::size_t found = 0;
    if (best.empty()) return found;
    std::remove_cvref_t<decltype(key(first))> worst{};  // Largest key in `best`.
    const auto look = [&](std::size_t i, std::size_t end) noexcept {
      for (; i != end; ++i) {
        const auto value = key(i);
        const bool full = found == best.size();
        if (full && !(value < worst)) continue;
        std::size_t at = full ? found - 1 : found++;
        for (; at != 0 && value < key(best[at - 1]); --at) best[at] = best[at - 1];
        best[at] = static_cast<std::uint32_t>(i);
        worst = key(best[found - 1]);
      }
    };
    look(from, last);
    look(first, from);
    if (found != 0) chose(best[0]);
    return found;
  }
};

}  // namespace placement
TESSERA_NAMESPACE_END
