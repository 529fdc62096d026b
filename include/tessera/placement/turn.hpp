// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/placement/concepts.hpp>

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

  /// The best of [first, last): the first, in turn, that none is `better(i, than)` than; `nowhere` of none. Moves the
  /// turn on. O(last - first).
  template <class Better>
  constexpr std::size_t best(std::size_t first, std::size_t last, Better better) noexcept {
    return best(
        first, last, [](std::size_t) noexcept { return true; }, better);
  }
  /// The same of those that `may(i)`.
  template <class May, class Better>
  constexpr std::size_t best(std::size_t first, std::size_t last, May may, Better better) noexcept {
    TESSERA_ASSERT(first <= last, "a range");
    const std::size_t from = begin(first, last);
    std::size_t chosen = nowhere;
    const auto look = [&](std::size_t i, std::size_t end) noexcept {
      for (; i != end; ++i) {
        if (may(i) && (chosen == nowhere || better(i, chosen))) chosen = i;
      }
    };
    look(from, last);
    look(first, from);
    return chose(chosen);
  }
};

}  // namespace placement
TESSERA_NAMESPACE_END
