// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/request/concepts.hpp>

#include <concepts>
#include <type_traits>

/// @file
/// In which order requests are served.

TESSERA_NAMESPACE_BEGIN
namespace detail {

// One concept per requirement, so that an unsatisfied one can be named in a sentence (see below) and tested alone.

template <class D, class R>
concept discipline_enters = requires(D& d, R& r, typename R::time_point now) {
  { d.enter(r, now) } noexcept -> std::same_as<void>;
};
template <class D, class R>
concept discipline_charges = requires(D& d, R& r, tokens ran) {
  { d.charge(r, ran) } noexcept -> std::same_as<bool>;
};
template <class D, class R>
concept discipline_requeues = requires(D& d, R& r) {
  { d.requeue(r) } noexcept -> std::same_as<void>;
};
template <class D, class R>
concept discipline_changes_phase = requires(D& d, R& r) {
  { d.change_phase(r) } noexcept -> std::same_as<void>;
};
template <class D, class R>
concept discipline_orders = requires(const R& a, const R& b) {
  { D::before(a, b) } noexcept -> std::same_as<bool>;
};
template <class D, class R>
concept discipline_displaces = requires(const R& waiting, const R& resident) {
  { D::displaces(waiting, resident) } noexcept -> std::same_as<bool>;
};
template <class D>
concept discipline_says_ages = requires { typename std::bool_constant<D::ages>; };

}  // namespace detail

/// A rule that says who goes first, among waiting and resident requests alike. A small value: it holds its
/// parameters and a counter, never the requests. It writes a request's *place* (`state().level`, `turn`, `rank`,
/// `boost_at`, `quantum_used`, `demoted`) through `request_access`; containers keep requests sorted by it.
///
/// Requires, with `d` a `D`, `r` a request, all calls `noexcept`:
/// 1. `D` is copyable.
/// 2. `d.enter(r, arrived)`: gives a place to a request that joins; it has waited since `arrived`, here or, if it was
///    adopted, elsewhere. Its phase and progress are set before.
/// 3. `d.charge(r, ran) -> bool`: accounts tokens that were run for it (its lengths are updated before). True: it is
///    due for a new place. Must leave its present place as it is.
/// 4. `d.requeue(r)`: gives a new place to a request that is due.
/// 5. `d.change_phase(r)`: gives a new place to a request that has just gone over to answering.
/// 6. `D::before(a, b) -> bool`: `a` is served before `b`.
/// 7. `D::displaces(waiting, resident) -> bool`: a waiting request may take the blocks or the batch slot of a resident.
/// 8. `D::ages`, a constant: if true, 2, 4 and 5 set `boost_at`, and once that has come the container sets a `level`
///    above 0 to 0, for waiting and for resident requests.
///
/// Not checked:
/// - `before` is a strict total order over what 2, 4, 5 and 8 wrote and members that change only in a container's
///   `update`; it compares `priority` first
///   (higher first) and `sequence` last, so that runs repeat exactly.
/// - `displaces(w, r)` implies `before(w, r)`, and `displaces(w, s)` for every `s` that ranks behind `r`.
/// - `enter`, `requeue` and `change_phase` are called only while `r` is in no container.
///
/// Complexity: O(1) each. Allocates: never.
/// Models: `order::fcfs`, `order::round_robin`, `order::two_phase`, `order::paced`, `order::ranked`,
/// `order::earliest_due`. Your own: derive from `order::fcfs` and hide `before`.
template <class D, class R>
concept queue_discipline =
    schedulable<R> && std::copyable<D> && detail::discipline_enters<D, R> && detail::discipline_charges<D, R> &&
    detail::discipline_requeues<D, R> && detail::discipline_changes_phase<D, R> && detail::discipline_orders<D, R> &&
    detail::discipline_displaces<D, R> && detail::discipline_says_ages<D>;

namespace detail {

/// Says in one sentence which requirement of `queue_discipline` is missing. Instantiating it is the check.
template <class D, class R>
struct explain_queue_discipline {
  static_assert(schedulable<R>, "tessera: the request type must derive publicly from `tessera::request_hook`");
  static_assert(std::copyable<D>, "tessera: the discipline must be copyable");
  static_assert(!schedulable<R> || discipline_enters<D, R>,
                "tessera: the discipline lacks `void enter(R&, R::time_point now) noexcept`");
  static_assert(!schedulable<R> || discipline_charges<D, R>,
                "tessera: the discipline lacks `bool charge(R&, tokens ran) noexcept`");
  static_assert(!schedulable<R> || discipline_requeues<D, R>,
                "tessera: the discipline lacks `void requeue(R&) noexcept`");
  static_assert(!schedulable<R> || discipline_changes_phase<D, R>,
                "tessera: the discipline lacks `void change_phase(R&) noexcept`");
  static_assert(!schedulable<R> || discipline_orders<D, R>,
                "tessera: the discipline lacks `static bool before(const R&, const R&) noexcept`");
  static_assert(!schedulable<R> || discipline_displaces<D, R>,
                "tessera: the discipline lacks `static bool displaces(const R& waiting, const R& resident) noexcept`");
  static_assert(discipline_says_ages<D>, "tessera: the discipline lacks `static constexpr bool ages`");
};

}  // namespace detail
TESSERA_NAMESPACE_END
