// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/request/state.hpp>

#include <boost/intrusive/link_mode.hpp>
#include <boost/intrusive/options.hpp>
#include <boost/intrusive/set_hook.hpp>

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <new>
#include <type_traits>

/// @file
/// The hook that an engine's request type derives from, so that queueing it allocates nothing.
///
///     struct my_request : tessera::request_hook { int engine_slot; };
/// An order that keeps state about each request brings that state along. Only requests that name the order have it:
///
///     struct my_request : tessera::request_hook_for<tessera::order::two_phase> { int engine_slot; };

TESSERA_NAMESPACE_BEGIN
namespace detail {

struct rank_tag;
struct due_tag;
// Three pointers, the colour of the node hidden in one of them.
template <class Tag>
using tree_hook = boost::intrusive::set_base_hook<boost::intrusive::tag<Tag>, boost::intrusive::optimize_size<true>,
                                                  boost::intrusive::link_mode<boost::intrusive::safe_link>>;
using rank_hook = tree_hook<rank_tag>;
using due_hook = tree_hook<due_tag>;
struct no_due_hook {};

/// The state that the order `D` keeps about each request; `no_order_state` if it has none.
struct no_order_state {};
template <class D, class Clock>
struct order_state_of {
  using type = no_order_state;
};
template <class D, class Clock>
  requires requires { typename D::template state<Clock>; }
struct order_state_of<D, Clock> {
  using type = typename D::template state<Clock>;
};

template <class D>
inline constexpr bool ages = false;
template <class D>
  requires requires { typename std::bool_constant<D::ages>; }
inline constexpr bool ages<D> = D::ages;

/// Room for the state of any one of the orders. A request is in one scheduler at a time, so they share it.
template <std::size_t Size>
struct order_room {
  alignas(8) std::byte bytes[Size];
};
template <>
struct order_room<0> {};

template <class... States>
[[nodiscard]] consteval std::size_t largest_state() noexcept {
  std::size_t most = 0;
  for (const std::size_t size :
       {std::size_t{0}, (std::same_as<States, no_order_state> ? std::size_t{0} : sizeof(States))...}) {
    if (size > most) most = size;
  }
  return most;
}

}  // namespace detail

/// Names no order. Has room for the state of any order, of at most `Size` bytes, and the links that an ageing order
/// needs. For request types that learn their order at run time.
template <std::size_t Size>
struct any_order {
  static constexpr bool ages = true;         ///< A request has the links.
  static constexpr std::size_t room = Size;  ///< Bytes.
  /// The room.
  template <clock_policy Clock>
  struct state {
    alignas(8) std::byte bytes[Size];  ///< Size of the order's own state.
  };
};

namespace detail {

/// Whether `Named`, one of the orders that a request type names, has room for the state of another.
template <class Named, class State>
inline constexpr bool has_room_for = false;
template <std::size_t Size, class State>
inline constexpr bool has_room_for<any_order<Size>, State> = sizeof(State) <= Size;

}  // namespace detail

/// Base class of every request. Holds the user's description of the request, the scheduler's state and the queue links.
///
/// Set the public members before `submit`; while the request is in a scheduler, they change only in its `update`. From
/// a successful `submit` on, a request must stay alive and in place. This ends when `state().life` says so, or when
/// `evacuate` gives it up. A request that is cancelled or finished while plans in flight contain it ends when these
/// plans are settled. Its destructor asserts that it is in no queue. So declare requests before their scheduler.
/// Copying copies the description, never the state or the queue links: a copy is a request that was not submitted.
///
/// @tparam Orders the orders that it may be served in, if they keep something about each request. One type of request
///                can name several and be in one scheduler of any of them at a time.
template <clock_policy Clock = seconds_clock, class... Orders>
class basic_request_hook
    : public detail::rank_hook,
      public std::conditional_t<(detail::ages<Orders> || ... || false), detail::due_hook, detail::no_due_hook> {
  using due_base = std::conditional_t<(detail::ages<Orders> || ... || false), detail::due_hook, detail::no_due_hook>;

 public:
  using clock_type = Clock;                    ///< The clock of all time points and durations of the interface.
  using time_point = basic_time_point<Clock>;  ///< A moment on that clock.
  using state_type = request_state<Clock>;     ///< The library's state of a request.
  using hook_type = basic_request_hook;        ///< This class, by which a request type is known.

  /// Whether it has room for what the order `D` keeps.
  template <class D>
  static constexpr bool can_be_in =
      std::same_as<typename detail::order_state_of<D, Clock>::type, detail::no_order_state> ||
      (std::same_as<typename detail::order_state_of<D, Clock>::type,
                    typename detail::order_state_of<Orders, Clock>::type> ||
       ... || false) ||
      (detail::has_room_for<Orders, typename detail::order_state_of<D, Clock>::type> || ... || false);
  /// Whether it has the links that an order that ages needs.
  static constexpr bool can_age = (detail::ages<Orders> || ... || false);

 private:
  friend struct request_access;
  // First, what each step touches: with the queue's links before it, it begins in the same cache line.
  state_type state_{};
  [[no_unique_address]] detail::order_room<
      detail::largest_state<typename detail::order_state_of<Orders, Clock>::type...>()>
      order_{};

 public:
  tokens prompt{};                     ///< Length of the prompt. At least 1.
  tokens max_output{};                 ///< Most tokens that it may generate, reasoning included; 0 if unknown.
  int priority = 0;                    ///< Higher is more urgent. Every order compares it first.
  phase starts_in = phase::reasoning;  ///< `answering` for a request that does not reason.

  basic_request_hook() noexcept = default;
  /// Requires: it is in no queue, nor among the residents of a scheduler that still exists.
  ~basic_request_hook() {
    // Before the links' own destructors, which assert the same with another message.
    TESSERA_ASSERT(
        !static_cast<const detail::rank_hook&>(*this).is_linked(),
        "a request is destroyed while a scheduler has it: cancel or finish it, and settle the plans in flight "
        "that have it, first");
  }
  /// Copies the description, and not the state: the copy is in no scheduler.
  basic_request_hook(const basic_request_hook& other) noexcept
      : detail::rank_hook{},
        due_base{},
        prompt{other.prompt},
        max_output{other.max_output},
        priority{other.priority},
        starts_in{other.starts_in} {}
  /// Assigns the description, and leaves the state alone.
  basic_request_hook& operator=(const basic_request_hook& other) noexcept {
    TESSERA_ASSERT(!is_live(state_.life), "assigned over a request that is scheduled");
    prompt = other.prompt;
    max_output = other.max_output;
    priority = other.priority;
    starts_in = other.starts_in;
    return *this;
  }

  /// The scheduler's state of the request. Valid at any time.
  [[nodiscard]] const state_type& state() const noexcept { return state_; }
  /// The progress of the request, for `adopt` elsewhere. If plans in flight contain the request, their tokens count as
  /// computed already: wait until these plans are settled.
  [[nodiscard]] request_progress<Clock> progress() const noexcept {
    return {.length = state_.length,
            .computed = state_.computed,
            .reasoning = state_.reasoning,
            .phase = state_.phase,
            .carried = state_.carried,
            .preemptions = state_.preemptions,
            .arrived = state_.arrived,
            .answering_since = state_.answering_since};
  }
  /// Tokens generated so far. 0 before `submit`.
  [[nodiscard]] tokens generated() const noexcept { return state_.length > prompt ? state_.length - prompt : tokens{}; }
};

using request_hook = basic_request_hook<>;  ///< On the default clock, for orders that keep nothing about a request.

/// The hook of requests for these orders, on the default clock.
template <class... Orders>
using request_hook_for = basic_request_hook<seconds_clock, Orders...>;

/// Write access to what schedulers, queues and orders keep in a request, for authors of such components. An engine does
/// not need it.
struct request_access {
  /// The state, to write.
  template <clock_policy Clock, class... Orders>
  [[nodiscard]] static request_state<Clock>& state(basic_request_hook<Clock, Orders...>& r) noexcept {
    return r.state_;
  }

  /// The order `D`'s state of the request, for writing. Requires: it is, or was last, in a container of that order.
  template <class D, clock_policy Clock, class... Orders>
    requires basic_request_hook<Clock, Orders...>::template
  can_be_in<D> [[nodiscard]] static auto& order_state(basic_request_hook<Clock, Orders...>& r) noexcept {
    using state = typename detail::order_state_of<D, Clock>::type;
    return *std::launder(reinterpret_cast<state*>(r.order_.bytes));
  }
  /// The same, to read.
  template <class D, clock_policy Clock, class... Orders>
    requires basic_request_hook<Clock, Orders...>::template
  can_be_in<D> [[nodiscard]] static const auto& order_state(const basic_request_hook<Clock, Orders...>& r) noexcept {
    using state = typename detail::order_state_of<D, Clock>::type;
    return *std::launder(reinterpret_cast<const state*>(r.order_.bytes));
  }

  /// Initialises the order's state of a request that joins a container of the order `D`.
  template <class D, clock_policy Clock, class... Orders>
  static void begin_order_state(basic_request_hook<Clock, Orders...>& r) noexcept {
    using state = typename detail::order_state_of<D, Clock>::type;
    if constexpr (!std::same_as<state, detail::no_order_state>) {
      static_assert(std::is_trivially_copyable_v<state> && alignof(state) <= 8,
                    "tessera: an order's state is a plain value, aligned to 8 bytes at most");
      ::new (static_cast<void*>(r.order_.bytes)) state{};
    }
  }
};

/// The state that the order `D` keeps about a request: its level, its turn, ... Requires: the request is in a container
/// of that order.
template <class D, clock_policy Clock, class... Orders>
[[nodiscard]] const auto& order_state(const basic_request_hook<Clock, Orders...>& r) noexcept {
  return request_access::order_state<D>(r);
}

TESSERA_NAMESPACE_END
