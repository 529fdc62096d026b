// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/admit/concepts.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

/// @file
/// Which waiting request may start. A gate is asked when a request's turn comes, and for requests behind the first that
/// cannot start.

TESSERA_NAMESPACE_BEGIN

/// What a gate sees of a candidate, and of the first waiting request that cannot start. Valid during the call.
template <class R>
struct gate_view {
  const R* blocked = nullptr;     ///< The first waiting request that could not start in this plan. Null: the
                                  ///< candidate's turn has come, and all requests before it start or are skipped.
  blocks lacks{};                 ///< Blocks that `blocked` lacks if none of its prompt is cached; 0: none.
  blocks free{};                  ///< Free blocks, less those promised to requests in prefill.
  blocks needed{};                ///< Blocks of these that the candidate would take for its whole sequence.
  blocks backfilled_blocks{};     ///< Blocks held by backfilled requests.
  tokens block_size{};            ///< Tokens per block.
  std::span<R* const> residents;  ///< Requests that run, without backfilled ones, in rank order.
  std::span<R* const> admitted;   ///< Requests that start in this plan, backfilled ones included.
  std::span<const std::uint32_t> exclusive{};  ///< By row: blocks that are not shared.
  std::size_t places = 0;                      ///< How many more requests could hold blocks without an eviction.
  std::size_t most_places = 0;                 ///< How many could on the empty instance.
};

/// What happens to a candidate.
enum class passage : std::uint8_t {
  start,  ///< It may start. Behind a request that cannot, it is backfilled: it is evicted as soon as the requests that
          ///< wait before it could start without it.
  defer,  ///< Another class's turn. It may start if no request of that class can (`prefers`).
  skip,   ///< It may not start, nor may others of its class in this plan; other classes do not wait for it. Behind a
          ///< request that cannot start: it alone may not.
  stop,   ///< It may not start, nor may any request behind it in this plan.
};

namespace detail {

template <class G>
inline constexpr bool gate_screens = false;
template <class G>
  requires requires { typename std::bool_constant<G::screens>; }
inline constexpr bool gate_screens<G> = G::screens;

template <class G>
inline constexpr bool gate_counts = false;
template <class G>
  requires requires { typename std::bool_constant<G::counts>; }
inline constexpr bool gate_counts<G> = G::counts;

template <class G>
inline constexpr bool gate_limits = false;
template <class G>
  requires requires { typename std::bool_constant<G::limits>; }
inline constexpr bool gate_limits<G> = G::limits;

template <class G>
inline constexpr bool gate_refuses = false;
template <class G>
  requires requires { typename std::bool_constant<G::refuses_some>; }
inline constexpr bool gate_refuses<G> = G::refuses_some;

template <class G, class R>
concept gate_says_whom_it_refuses = requires(const G& g, const R& r, typename R::time_point now) {
  { g.refuses(r, now) } noexcept -> std::same_as<bool>;
};
template <class G, class R>
concept gate_asks = requires(const G& g, const R& r, const gate_view<R>& view) {
  { g.ask(r, view) } noexcept -> std::same_as<passage>;
};
template <class G>
concept gate_says_most_skipped = requires(const G& g) {
  { g.most_skipped } -> std::convertible_to<std::size_t>;
};

/// It may map a request to a class.
template <class G, class R>
concept gate_sees_classes = requires(const G& g, const R& r) { g.class_of(r); };
template <class G, class R>
concept gate_says_class = requires(const G& g, const R& r) {
  { g.class_of(r) } noexcept -> std::same_as<std::uint64_t>;
};
template <class G, class R>
concept gate_says_class_if_it_sees = !gate_sees_classes<G, R> || gate_says_class<G, R>;
/// Whether requests wait by class.
template <class G, class R>
inline constexpr bool gate_has_classes = gate_screens<G> && gate_sees_classes<G, R>;

/// It may say which of two deferred classes goes first.
template <class G, class R>
concept gate_prefers = requires(const G& g, const R& a, const R& b) {
  { g.prefers(a, b) } noexcept -> std::same_as<bool>;
};
/// It may say which requests it can account for.
template <class G, class R>
concept gate_knows_some = requires(const G& g, const R& r) {
  { g.knows(r) } noexcept -> std::same_as<bool>;
};
/// Whether the gate can account for the request.
template <class Gate, class Request>
[[nodiscard]] bool is_known_to(const Gate& gate, const Request& r) noexcept {
  if constexpr (gate_knows_some<Gate, Request>) {
    return gate.knows(r);
  } else {
    static_cast<void>(gate), static_cast<void>(r);
    return true;
  }
}
/// It may be told the block size, and check its parameters, before anything else.
template <class G>
concept gate_is_set_up = requires(G& g, tokens block_size) {
  { g.set_up(block_size) } noexcept -> std::same_as<void>;
};

template <class G, class R>
concept gate_hears = requires(G& g, const R& r, tokens n) {
  { g.begin() } noexcept -> std::same_as<void>;
  { g.starts(r) } noexcept -> std::same_as<void>;
  { g.joins(r) } noexcept -> std::same_as<void>;
  { g.started(r) } noexcept -> std::same_as<void>;
  { g.charge(r, n) } noexcept -> std::same_as<void>;
  { g.stopped(r) } noexcept -> std::same_as<void>;
  { g.left(r) } noexcept -> std::same_as<void>;
};

template <class G, class R>
concept gate_bounds = requires(G& g, const G& now, const R& r, tokens n) {
  { now.limit(r, n, n) } noexcept -> std::same_as<tokens>;
  { g.computes(r, n, n) } noexcept -> std::same_as<void>;
  { g.runs() } noexcept -> std::same_as<void>;
  { g.runs(r, n, n) } noexcept -> std::same_as<void>;
  { g.has_run(r, n) } noexcept -> std::same_as<void>;
};

/// It may be told which requests are skipped.
template <class G, class R>
concept gate_hears_skips = requires(G& g, const R& r) { g.skips(r); };
template <class G, class R>
concept gate_hears_skips_quietly = !gate_hears_skips<G, R> || (gate_counts<G> && requires(G& g, const R& r) {
  { g.skips(r) } noexcept -> std::same_as<void>;
});

template <class G, class R>
concept gate_asks_if_it_says =
    (!(G::backfills || gate_screens<G>) || gate_asks<G, R>)&&(!G::backfills || gate_says_most_skipped<G>);
template <class G, class R>
concept gate_hears_if_it_counts = !gate_counts<G> || gate_hears<G, R>;
template <class G, class R>
concept gate_bounds_if_it_limits = !gate_limits<G> || (gate_counts<G> && gate_bounds<G, R>);
template <class G, class R>
concept gate_says_whom_if_it_refuses = !gate_refuses<G> || gate_says_whom_it_refuses<G, R>;

}  // namespace detail

/// Decides which requests may start, besides the order, the blocks and the admission policy.
/// Requires:
/// 1. `G::backfills`, a constant: whether candidates behind the first request that cannot start are asked for. False:
/// no
///    request passes it.
/// 2. `G::screens`, a constant, false if it is missing: whether each waiting request is asked for when its turn has
///    come (`view.blocked` is null then).
/// 3. If either is true: `g.ask(candidate, view) noexcept -> passage`, const. If `backfills`: `g.most_skipped`, the
/// most
///    candidates that are asked for in vain in a plan behind the first that cannot start.
/// 4. If it screens, it may map requests to classes: `g.class_of(r) noexcept -> std::uint64_t`, const, the same as long
///    as `r` is in a scheduler. Each class has a queue of its own. A skipped request holds up no other class, and only
///    the first request of a class is asked for. Without it all requests are of one class, so that `skip` is `stop`.
///    A gate that defers may have `g.prefers(a, b) noexcept -> bool`, const. Among deferred classes, that of `a` starts
///    before that of `b` if no other can. Without it the order decides.
/// 5. `G::counts`, a constant, false if it is missing: whether it is told the consequences of its answers. Then, all
///    noexcept:
///    - `g.begin()`: a plan begins. `g.starts(r)`: `r` starts in it, and deferred classes are asked for again. State
///      written in these calls belongs to this plan only. `begin` resets it, because the plan may be abandoned.
///    - `g.joins(r)`: `r` has come, or is `ready`, and waits. `g.started(r)`: it holds blocks from now on, started by a
///      plan that is run, or forked. `g.charge(r, n)`: `n` tokens were generated for it.
///    - `g.stopped(r)`: it holds no blocks any more, and waits again, or leaves. `g.left(r)`: it does not wait any
///      more, because it has ended or left, or is parked. These calls are final.
///    - `g.skips(r)`, optional: the class of `r` is skipped or deferred in the present plan. State as for `starts`.
/// 6. `G::refuses_some`, a constant, false if it is missing: whether `submit` asks it. Then `g.refuses(r, now) noexcept
///    -> bool`, const, for a request that could join otherwise.
/// 7. Optional `g.knows(r) noexcept -> bool`, const: whether it can account for `r`. If not, `submit`, `adopt` and
///    `fork` return `invalid`.
/// 8. Optional `g.set_up(block_size) noexcept`: called once, before anything else, with the tokens of a block. It
///    checks its parameters there.
/// 9. `G::limits`, a constant, false if it is missing: whether it bounds the steps of prompts. It counts then, and has,
///    all noexcept, for steps that begin within the prompt:
///    - `g.limit(r, first, count) -> tokens`, const: how many of the `count` tokens from `first` on the present plan
///      may compute. If it is 0, a request that would start is skipped.
///    - `g.computes(r, first, count)`: the plan computes these, perhaps fewer than were asked for. 0: the request waits
///      for another step. It is told again if `count` grows. State as for `starts`.
///    - `g.runs()`: the plan is run, before anything that follows from it. Then `g.runs(r, first, count)` for each such
///      part of it, except of requests that have ended meanwhile.
///    - `g.has_run(r, end)`: the tokens before `end` have KV.
/// Not checked: `ask` depends only on its arguments and on what the gate was told. A request that could start may wait
/// behind others of its class that cannot. A request that is alone may start, or the instance would idle for ever. The
/// gate does not skip all waiting requests each time. It skips no request for ever while others take what it waits for
/// (`gate::skip_limit` helps).
/// Complexity: `ask` at most O(residents). It is called at most once for each class and start, and for each candidate
/// behind the first that cannot start. All else O(1); `begin`, `starts` and `skips` O(size of the gate's state).
/// Models: `gate::in_line`, `gate::backfill`, `gate::adapter_slots`, `gate::encoder_cache`, `gate::fair_tenants`,
/// `gate::tenant_deficits`, `gate::groups`, `gate::in_time`, `gate::all`.
template <class G, class R>
concept gate_policy =
    schedulable<R> && std::copyable<G> && requires { requires std::same_as<decltype(G::backfills), const bool>; } &&
    detail::gate_asks_if_it_says<G, R> && detail::gate_says_class_if_it_sees<G, R> &&
    detail::gate_hears_if_it_counts<G, R> && detail::gate_hears_skips_quietly<G, R> &&
    detail::gate_bounds_if_it_limits<G, R> && detail::gate_says_whom_if_it_refuses<G, R>;

namespace gate {

/// No request passes: one that cannot start holds up all behind it. So small requests cannot overtake a large one for
/// ever. When to use: the default.
struct in_line {
  static constexpr bool backfills = false;  ///< No request is asked for.
};

}  // namespace gate

namespace detail {

/// Says in one sentence which requirement of `gate_policy` is missing. Instantiating it is the check.
template <class G, class R>
struct explain_gate_policy {
  static constexpr bool says_backfills = requires { requires std::same_as<decltype(G::backfills), const bool>; };
  static constexpr bool is_asked = [] {
    if constexpr (says_backfills) {
      return G::backfills || gate_screens<G>;
    } else {
      return gate_screens<G>;
    }
  }();
  static constexpr bool backfills = [] {
    if constexpr (says_backfills) {
      return G::backfills;
    } else {
      return false;
    }
  }();
  static_assert(std::copyable<G>, "tessera: the gate must be copyable");
  static_assert(says_backfills, "tessera: the gate lacks `static constexpr bool backfills`");
  static_assert(!backfills || gate_says_most_skipped<G>, "tessera: a gate that backfills needs `most_skipped`");
  static_assert(gate_says_class_if_it_sees<G, R>,
                "tessera: the gate's `class_of` must be `std::uint64_t class_of(const R&) const noexcept`");
  static_assert(!is_asked || gate_asks<G, R>,
                "tessera: a gate that backfills or screens needs `passage ask(const R&, const gate_view<R>&) const "
                "noexcept`, and requests the members that it asks of them, as `adapter`, `tenant` or `forks_due`");
  static_assert(is_asked || !gate_asks<G, R>,
                "tessera: the gate has `ask`, but neither backfills nor screens: it would never be asked");
  static_assert(gate_hears_if_it_counts<G, R>,
                "tessera: a gate that counts needs, all noexcept, `begin()`, and of a request `starts`, `joins`, "
                "`started`, `charge(r, tokens)`, `stopped` and `left`");
  static_assert(gate_hears_skips_quietly<G, R>,
                "tessera: a gate that hears `void skips(const R&) noexcept` must count");
  static_assert(gate_bounds_if_it_limits<G, R>,
                "tessera: a gate that limits must count, and needs, all noexcept, `tokens limit(r, first, count)`, "
                "`computes(r, first, count)`, `runs()`, `runs(r, first, count)` and `has_run(r, end)`");
  static_assert(
      gate_says_whom_if_it_refuses<G, R>,
      "tessera: a gate that refuses some needs `bool refuses(const R&, R::time_point now) const noexcept`, and "
      "requests the members that it asks of them");
};

}  // namespace detail
TESSERA_NAMESPACE_END
