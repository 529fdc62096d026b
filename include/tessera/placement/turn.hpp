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

/// Whose turn it is among equals. Where nothing else decides, policies choose the first of the best from `next` on, and
/// from 0 after the last; then `next` is the one after the chosen. So those that tie again and again are chosen in
/// turn, each as often as the others; a cluster with little to do does not send everything to its first instance.
///
/// Policies have one each. Choose from different sets, such as a prefill and a decode pool, with a policy object for
/// each: what is chosen for one set would otherwise begin the turn of the other anew.
struct turn {
  std::size_t next = 0;  ///< Looked at first.

  /// Where a look at [first, last) begins.
  [[nodiscard]] constexpr std::size_t begin(std::size_t first, std::size_t last) const noexcept {
    return first <= next && next < last ? next : first;
  }
  /// `i` was chosen, or none was. Returns it.
  constexpr std::size_t chose(std::size_t i) noexcept {
    if (i != nowhere) next = i + 1;
    return i;
  }

  /// Of [first, last) the first, in turn, than whose `key(i)` none is less; `nowhere` of none. Moves the turn on.
  /// O(last - first), one key each: a value that can be default-constructed.
  template <class Key>
  constexpr std::size_t least(std::size_t first, std::size_t last, Key key) noexcept {
    return least(first, last, key, [](std::size_t) noexcept { return true; });
  }
  /// The same of those that `may(i)`.
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

  /// The first `best.size()` of [first, last) by their keys, equals in turn, into `best`; returns how many there were.
  /// The first is what `least` says, and the turn moves on as there. One pass: O(last - first) keys, and O(best.size())
  /// more for each that is among the best so far, which for a few of many in any order are few.
  template <class Key>
  constexpr std::size_t least(std::size_t first, std::size_t last, std::span<std::uint32_t> best, Key key) noexcept {
    TESSERA_ASSERT(first <= last, "a range");
    const std::size_t from = begin(first, last);
    std::size_t found = 0;
    if (best.empty()) return found;
    std::remove_cvref_t<decltype(key(first))> worst{};  // Of the best.
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
