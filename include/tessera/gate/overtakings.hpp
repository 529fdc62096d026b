// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/gate/concepts.hpp>

#include <cstddef>
#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace gate {

/// For gates that skip who needs something that others hold: so that nobody waits for ever, only so many of those who
/// hold it up may overtake one who is skipped. It watches the first who is, until it starts or leaves, then the next.
/// Once as many have started behind it as may, the gate lets nobody start behind it who would take what is to come
/// free.
///
/// Requests wait by class, and only the first of a class is asked for. If one that came later stands before the watched
/// one in its class, as a higher priority does, it is skipped in the place of that one.
///
/// Where nobody joins before others, one that joined behind k who are skipped is watched after these at the latest: it
/// is overtaken by at most k + 1 times as many, and by those who go on starting because they hold nothing up.
///
/// A gate has one, and tells it what it is told itself, `starts` and `started` of those alone who would hold others up.
/// Every call O(1).
struct overtakings {
  std::uint64_t watched = 0;  ///< The `sequence` of who is watched; 0: nobody.
  std::uint64_t kind = 0;     ///< Its class.
  std::size_t before = 0;     ///< So many have started behind it in plans that were run.

  std::uint64_t skipped = 0;   ///< In the plan that was made last: who is, or will be, watched, if it was skipped,
  std::uint64_t its_kind = 0;  ///< that one's class,
  std::uint64_t first = 0;     ///< the first who starts behind it,
  std::size_t more = 0;        ///< and how many do;
  bool starts_now = false;     ///< whether who was watched starts, so that it is the next one's turn.

  /// Whether those who are asked now are behind the one that is watched, and as many have overtaken it as may.
  [[nodiscard]] constexpr bool are_enough(std::size_t most) const noexcept {
    return skipped != 0 && (starts_now ? 0 : before) + more >= most;
  }

  /// A plan is being made.
  constexpr void begin() noexcept {
    skipped = first = more = 0;
    starts_now = false;
  }
  /// It is the first of its class, and skipped in this plan for what others hold.
  template <schedulable R>
  constexpr void skips(const R& r, std::uint64_t its_class) noexcept {
    if (skipped != 0) return;
    if (watched == 0 || starts_now) {
      skipped = r.state().sequence;
      its_kind = its_class;
    } else if (its_class == kind) {
      skipped = watched;
      its_kind = kind;
    }
  }
  /// It starts in this plan.
  template <schedulable R>
  constexpr void starts(const R& r) noexcept {
    const std::uint64_t name = r.state().sequence;
    if (name == watched) starts_now = true;
    if (skipped != 0 && more++ == 0) first = name;
  }
  /// It holds blocks from now on: if it started in a plan, that was run.
  template <schedulable R>
  constexpr void started(const R& r) noexcept {
    const std::uint64_t name = r.state().sequence;
    forget(name);
    if (first == 0 || name != first) return;
    watched = skipped;
    kind = its_kind;
    before += more;
    begin();
  }
  /// It does not wait any more.
  template <schedulable R>
  constexpr void left(const R& r) noexcept {
    const std::uint64_t name = r.state().sequence;
    forget(name);
    if (name == skipped) begin();
  }

 private:
  constexpr void forget(std::uint64_t name) noexcept {
    if (name != watched) return;
    watched = before = 0;
  }
};

}  // namespace gate
TESSERA_NAMESPACE_END
