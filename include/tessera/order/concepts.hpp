// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/request/concepts.hpp>

#include <concepts>
#include <type_traits>

/// @file
/// The order in which requests are served.

TESSERA_NAMESPACE_BEGIN
namespace detail {

// One concept per requirement, so that a missing one can be named in a sentence (see below) and tested alone.

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
concept discipline_hears_ends = requires(D& d, R& r) {
  { d.leave(r) } noexcept -> std::same_as<void>;
};
template <class D, class R>
concept discipline_hears_time = requires(D& d, typename R::time_point now) {
  { d.advance(now) } noexcept -> std::same_as<void>;
};
template <class D, class R>
concept discipline_orders = requires(const D& d, const R& a, const R& b) {
  { d.before(a, b) } noexcept -> std::same_as<bool>;
};
template <class D, class R>
concept discipline_displaces = requires(const D& d, const R& waiting, const R& resident) {
  { d.displaces(waiting, resident) } noexcept -> std::same_as<bool>;
};
template <class D>
concept discipline_says_ages = requires { typename std::bool_constant<D::ages>; };
template <class D>
concept discipline_says_where =
    !requires { D::ages_to_front; } || requires { typename std::bool_constant<D::ages_to_front>; };
template <class D, class R>
concept discipline_ages = !detail::ages<D> || requires(D& d, const D& c, R& r, const R& s) {
  { c.due_at(s) } noexcept -> std::same_as<typename R::time_point>;
  { d.age(r) } noexcept -> std::same_as<void>;
};

/// Whether aged requests stand before all that age later. True if the order does not say.
template <class D>
inline constexpr bool ages_to_front = ages<D>;
template <class D>
  requires requires { D::ages_to_front; }
inline constexpr bool ages_to_front<D> = ages<D> && D::ages_to_front;

template <class D, class R>
[[nodiscard]] consteval bool hook_has_room() noexcept {
  if constexpr (schedulable<R>) {
    return R::hook_type::template can_be_in<D> && (!detail::ages<D> || R::hook_type::can_age);
  } else {
    return true;
  }
}

}  // namespace detail

/// A rule that decides which request is served first, among waiting and resident requests alike. A small value: it
/// holds its parameters and counters, never the requests. Its state about a request, the request's *place*, is a plain
/// struct: the member template `state<Clock>`. The request's hook has room for it if the hook names the order
/// (`request_hook_for<D>`). `order_state<D>(r)` reads it and `request_access::order_state<D>(r)` writes it. It is
/// value-initialised each time that a request joins. An order without `state` costs a request nothing.
///
/// Requires, with `d` a `D`, `r` a request, all calls `noexcept`:
/// 1. `D` is copyable.
/// 2. `d.enter(r, arrived)`: gives a place to a request that joins. It has waited since `arrived`, here or, if it was
///    adopted, elsewhere. Its phase and progress are set before, and `state().carried` is what the same order wrote
///    there elsewhere.
/// 3. `d.charge(r, ran) -> bool`: accounts tokens that were run for it (its lengths are updated before). True: it is
///    due for a new place. Must leave its present place unchanged.
/// 4. `d.requeue(r)`: gives a new place to a request that is due.
/// 5. `d.change_phase(r)`: gives a new place to a request that has just begun to answer.
/// 6. `d.leave(r)`: called when a request has ended, or was given up.
/// 7. `d.advance(now)`: called with the time, before each plan.
/// 8. `d.before(a, b) -> bool`, const or static: `a` is served before `b`.
/// 9. `d.displaces(waiting, resident) -> bool`, const or static: a waiting request may take the blocks or the batch
///    slot of a resident.
/// 10. `D::ages`, a constant. If true, two more members. `d.due_at(r)`, const or static: the moment at which `r` ages;
///    `never()` if it does not, or has aged. `d.age(r)`: gives it its place from then on. If that place is not in
///    front, as defined below: `D::ages_to_front`, a constant, false.
///
/// Optional: `d.retune(r)`: gives `r` its place by parameters that were changed since it took the present one. It is
/// called while `r` is in no container. Without it, a changed parameter counts for places that are given later.
///
/// Not checked:
/// - `before` is a strict total order. It depends only on what 2, 4, 5 and 10 wrote, and on members that change only in
///   a container's `update`. What 3, 6 and 7 write does not change it. It compares `priority` first (higher first) and
///   `sequence` last, so that runs repeat exactly.
/// - `displaces(w, r)` implies `before(w, r)`, and `displaces(w, s)` for every `s` that ranks behind `r`.
/// - Ageing to the front: requests of one priority age in the order of `due_at`, ties by arrival. An aged request
///   stands before all requests of its priority that were not due at that time. After `age(r)`, `due_at(r)` is
///   `never()` until `r` is given a new place. So a container need not move all due requests at once: it moves each
///   when it comes to its new place.
/// - If `D::ages_to_front` is false, this need not hold. Due requests are moved when the time is told, a constant
///   number in each plan, the earliest due first. Until then each is served at its old place. After `age(r)`,
///   `due_at(r)` is later, or `never()`.
/// - `enter`, `requeue`, `change_phase` and `age` are called only while `r` is in no container.
///
/// Complexity: O(1) each. Allocates: never.
/// Models: `order::fcfs`, `order::round_robin`, `order::two_phase`, `order::paced`, `order::ranked`,
/// `order::earliest_due`, `order::shortest_rest`, `order::least_attained_service`, `order::least_slack`,
/// `order::longest_prefix`, `order::response_ratio`. Your own: derive from `order::fcfs` and hide `before`.
template <class D, class R>
concept queue_discipline =
    schedulable<R> && std::copyable<D> && detail::discipline_enters<D, R> && detail::discipline_charges<D, R> &&
    detail::discipline_requeues<D, R> && detail::discipline_changes_phase<D, R> &&
    detail::discipline_hears_ends<D, R> && detail::discipline_hears_time<D, R> && detail::discipline_orders<D, R> &&
    detail::discipline_displaces<D, R> && detail::discipline_says_ages<D> && detail::discipline_ages<D, R> &&
    detail::discipline_says_where<D> && detail::hook_has_room<D, R>();

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
  static_assert(!schedulable<R> || discipline_hears_ends<D, R>,
                "tessera: the discipline lacks `void leave(R&) noexcept`");
  static_assert(!schedulable<R> || discipline_hears_time<D, R>,
                "tessera: the discipline lacks `void advance(R::time_point now) noexcept`");
  static_assert(!schedulable<R> || discipline_orders<D, R>,
                "tessera: the discipline lacks `bool before(const R&, const R&) const noexcept`");
  static_assert(!schedulable<R> || discipline_displaces<D, R>,
                "tessera: the discipline lacks `bool displaces(const R& waiting, const R& resident) const noexcept`");
  static_assert(discipline_says_ages<D>, "tessera: the discipline lacks `static constexpr bool ages`");
  static_assert(!schedulable<R> || discipline_ages<D, R>,
                "tessera: a discipline that ages needs `R::time_point due_at(const R&) const noexcept` and "
                "`void age(R&) noexcept`");
  static_assert(discipline_says_where<D>, "tessera: the discipline's `ages_to_front` must be `static constexpr bool`");
  static_assert(hook_has_room<D, R>(),
                "tessera: this discipline keeps something about each request: derive the request from "
                "`tessera::request_hook_for<the discipline>` instead of `tessera::request_hook`");
};

}  // namespace detail
TESSERA_NAMESPACE_END
