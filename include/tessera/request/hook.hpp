// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/request/state.hpp>

#include <boost/intrusive/link_mode.hpp>
#include <boost/intrusive/set_hook.hpp>

/// @file
/// The hook that an engine's request type derives from, so that queueing it allocates nothing.
///
///     struct my_request : tessera::request_hook { int engine_slot; };

TESSERA_NAMESPACE_BEGIN
namespace detail {

struct rank_tag;
struct boost_tag;
using rank_hook = boost::intrusive::set_base_hook<boost::intrusive::tag<rank_tag>,
                                                  boost::intrusive::link_mode<boost::intrusive::safe_link>>;
using boost_hook = boost::intrusive::set_base_hook<boost::intrusive::tag<boost_tag>,
                                                   boost::intrusive::link_mode<boost::intrusive::safe_link>>;

}  // namespace detail

/// Base class of every request. Holds what the user says about the request, the scheduler's state and the queue links.
///
/// Set the public members before `submit`; while the request is in a scheduler, they change only in its `update`. A
/// request must stay where it is, and alive, from a successful `submit` until `state().life` says that it has ended, or
/// has been given up by `evacuate`. One that is cancelled or finished while a plan is pending ends when that plan is
/// settled, unless it waited and was not in it. In checked builds Boost.Intrusive asserts in its destructor that it is
/// in no queue. So declare requests before their scheduler. Copying copies the description, never the state or the
/// queue links: a copy is a request that was not submitted.
template <clock_policy Clock = seconds_clock>
class basic_request_hook : public detail::rank_hook, public detail::boost_hook {
 public:
  using clock_type = Clock;                    ///< The clock of every time point and duration in the interface.
  using time_point = basic_time_point<Clock>;  ///< A moment on that clock.
  using state_type = request_state<Clock>;     ///< What the library keeps about a request.

  tokens prompt{};      ///< Length of the prompt. At least 1.
  tokens max_output{};  ///< Most tokens it may generate, reasoning included; 0: not known.
  int priority = 0;     ///< Higher is more urgent; compared before anything else by every discipline.
  float score = 0;      ///< For ranked order: smaller runs first (for instance a predicted output length).
  phase starts_in = phase::reasoning;  ///< `answering` for a request that does not reason.

  basic_request_hook() noexcept = default;
  /// Copies the description, and not the state: the copy is in no scheduler.
  basic_request_hook(const basic_request_hook& other) noexcept
      : detail::rank_hook{},
        detail::boost_hook{},
        prompt{other.prompt},
        max_output{other.max_output},
        priority{other.priority},
        score{other.score},
        starts_in{other.starts_in} {}
  /// Assigns the description, and leaves the state alone.
  basic_request_hook& operator=(const basic_request_hook& other) noexcept {
    TESSERA_ASSERT(!is_live(state_.life), "assigned over a request that is scheduled");
    prompt = other.prompt;
    max_output = other.max_output;
    priority = other.priority;
    score = other.score;
    starts_in = other.starts_in;
    return *this;
  }

  /// What the scheduler knows. Valid at any time.
  [[nodiscard]] const state_type& state() const noexcept { return state_; }
  /// How far it has come, for `adopt` elsewhere.
  [[nodiscard]] request_progress<Clock> progress() const noexcept {
    return {.length = state_.length,
            .computed = state_.computed,
            .reasoning = state_.reasoning,
            .phase = state_.phase,
            .demoted = state_.demoted,
            .preemptions = state_.preemptions,
            .arrived = state_.arrived,
            .answering_since = state_.answering_since};
  }
  /// Tokens generated so far. 0 before `submit`.
  [[nodiscard]] tokens generated() const noexcept { return state_.length > prompt ? state_.length - prompt : tokens{}; }

 private:
  friend struct request_access;
  state_type state_{};
};

using request_hook = basic_request_hook<>;  ///< On the default clock, which counts seconds as `double`.

/// The key to a request's mutable state, for queues, disciplines and schedulers, your own included. An engine has
/// no use for it.
struct request_access {
  /// The state, to write.
  template <clock_policy Clock>
  [[nodiscard]] static request_state<Clock>& state(basic_request_hook<Clock>& r) noexcept {
    return r.state_;
  }
};

TESSERA_NAMESPACE_END
