// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/gate/concepts.hpp>

#include <cstddef>
#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace gate {

/// For gates that skip requests that need something held by others. It bounds how many requests may overtake a skipped
/// one. It watches the first skipped request until that starts or leaves, then the next. Once the bound is reached, the
/// gate starts no request behind it that would take what is to become free.
///
/// Requests wait by class, and only the first of a class is asked for. A later request may stand before the watched one
/// in its class, by a higher priority. Then it is skipped in place of the watched one.
///
/// If no request joins before others, one that joined behind k skipped requests is watched after these at the latest.
/// It is overtaken by at most (k + 1) times the bound, and by requests that start without holding up any other.
///
/// A gate has one, and forwards its calls. It forwards `starts` and `started` only for requests that could hold up
/// others. Every call O(1).
struct skip_limit {
  std::uint64_t watched = 0;  ///< The `sequence` of the watched request; 0: none.
  std::uint64_t kind = 0;     ///< Its class.
  std::size_t before = 0;     ///< Requests that have started behind it, in plans that were run.

  std::uint64_t skipped = 0;   ///< In the latest plan: the watched request, or the next to be watched, if it was
                               ///< skipped.
  std::uint64_t its_kind = 0;  ///< Its class.
  std::uint64_t first = 0;     ///< The first request that starts behind it.
  std::size_t more = 0;        ///< How many start behind it.
  bool starts_now = false;     ///< Whether the watched request starts, so that the next one is watched.

  /// Whether the requests asked for now are behind the watched one, and the bound on overtaking is reached.
  [[nodiscard]] constexpr bool are_enough(std::size_t most) const noexcept {
    return skipped != 0 && (starts_now ? 0 : before) + more >= most;
  }

  /// Begins a plan.
  constexpr void begin() noexcept {
    skipped = first = more = 0;
    starts_now = false;
  }
  /// It is the first of its class, and skipped in this plan because others hold what it needs.
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
  /// The request starts in this plan.
  template <schedulable R>
  constexpr void starts(const R& r) noexcept {
    const std::uint64_t name = r.state().sequence;
    if (name == watched) starts_now = true;
    if (skipped != 0 && more++ == 0) first = name;
  }
  /// The request holds blocks from now on. If it started in a plan, that plan was run.
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
  /// The request does not wait any more.
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
