// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Truth tables of queue_discipline and request_scorer: a minimal model, and for each requirement a near-miss that
// lacks only it.

#include <tessera/order/concepts.hpp>
#include <tessera/order/earliest_due.hpp>
#include <tessera/order/fcfs.hpp>
#include <tessera/order/paced.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/order/two_phase.hpp>
#include <tessera/pacing/token_pacer.hpp>
#include <tessera/queue/fcfs.hpp>
#include <tessera/queue/ranked.hpp>
#include <tessera/queue/round_robin.hpp>
#include <tessera/queue/two_phase.hpp>

#include <type_traits>

namespace {

using namespace tessera;

struct never_dry {
  template <class R>
  typename R::time_point operator()(const R&) const noexcept;
};
struct expects_ten {
  template <class R>
  tokens operator()(const R&) const noexcept;
};

// In any order, on either clock.
template <class Clock>
using any_order_hook = basic_request_hook<Clock, order::round_robin, order::two_phase, order::ranked<>, order::paced<>,
                                          order::earliest_due<>>;
struct request : any_order_hook<seconds_clock> {
  float score = 0;
};
struct tick_request : any_order_hook<nanoseconds_clock> {
  float score = 0;
};
struct plain_request : request_hook {};

// The library's models, for either clock.
static_assert(queue_discipline<order::fcfs, request>);
static_assert(queue_discipline<order::fcfs, tick_request>);
static_assert(queue_discipline<order::round_robin, request>);
static_assert(queue_discipline<order::round_robin, tick_request>);
static_assert(queue_discipline<order::two_phase, request>);
static_assert(queue_discipline<order::two_phase, tick_request>);
static_assert(queue_discipline<order::ranked<>, request>);
static_assert(queue_discipline<order::ranked<>, tick_request>);

// order::paced wants to know when a reader runs dry.
struct paced_request : request {
  token_pacer pacer{};
};
struct paced_tick_request : tick_request {
  basic_token_pacer<nanoseconds_clock> pacer{};
};
struct dry_in_seconds {
  template <class R>
  double operator()(const R&) const noexcept;
};
struct dry_may_throw {
  template <class R>
  typename R::time_point operator()(const R&) const;
};
static_assert(order::reader_deadline<order::pacer_member, paced_request>);
static_assert(order::reader_deadline<order::pacer_member, paced_tick_request>);
static_assert(order::reader_deadline<never_dry, request> && order::reader_deadline<never_dry, tick_request>);
static_assert(!order::reader_deadline<dry_in_seconds, request>);
static_assert(!order::reader_deadline<dry_may_throw, request>);
static_assert(!order::reader_deadline<never_dry, int>);
static_assert(queue_discipline<order::paced<>, paced_request>);
static_assert(queue_discipline<order::paced<>, paced_tick_request>);
static_assert(queue_discipline<order::paced<never_dry>, request>);
static_assert(order::paced<>::ages);

// order::earliest_due wants to know how long an output will be as well.
struct expecting_request : paced_request {
  tokens expected_output{};
};
struct expects_a_number {
  template <class R>
  std::int64_t operator()(const R&) const noexcept;
};
struct expects_may_throw {
  template <class R>
  tokens operator()(const R&) const;
};
static_assert(order::output_predictor<order::expected_output_member, expecting_request>);
static_assert(order::output_predictor<expects_ten, request> && order::output_predictor<expects_ten, tick_request>);
static_assert(!order::output_predictor<order::expected_output_member, request>);
static_assert(!order::output_predictor<expects_a_number, request>);
static_assert(!order::output_predictor<expects_may_throw, request>);
static_assert(!order::output_predictor<expects_ten, int>);
static_assert(queue_discipline<order::earliest_due<>, expecting_request>);
static_assert(queue_discipline<order::earliest_due<expects_ten>, paced_tick_request>);
static_assert(queue_discipline<order::earliest_due<expects_ten, never_dry>, request>);
static_assert(order::earliest_due<>::ages);

// Room for what an order keeps, and links if it ages.
static_assert(queue_discipline<order::fcfs, plain_request>);
static_assert(!queue_discipline<order::round_robin, plain_request>);
static_assert(!queue_discipline<order::two_phase, plain_request>);
static_assert(!queue_discipline<order::ranked<>, plain_request>);
static_assert(!queue_discipline<order::paced<never_dry>, plain_request>);

static_assert(!order::fcfs::ages && !order::round_robin::ages && !order::two_phase::ages && order::ranked<>::ages);
static_assert(std::is_aggregate_v<order::two_phase> && std::is_aggregate_v<order::ranked<>>);
static_assert(order::two_phase{.quantum = tokens{7}}.demote_above == tokens{5000});

static_assert(std::is_same_v<fcfs_queue<request>, ordered_queue<request, order::fcfs>>);
static_assert(std::is_same_v<round_robin_queue<request>, ordered_queue<request, order::round_robin>>);
static_assert(std::is_same_v<two_phase_queue<request>, ordered_queue<request, order::two_phase>>);
static_assert(std::is_same_v<ranked_queue<request>, ordered_queue<request, order::ranked<>>>);

// The smallest model there is.
struct archetype {
  void enter(request&, time_point) noexcept;
  bool charge(request&, tokens) noexcept;
  void requeue(request&) noexcept;
  void change_phase(request&) noexcept;
  void leave(request&) noexcept;
  void advance(time_point) noexcept;
  static bool before(const request&, const request&) noexcept;
  static bool displaces(const request&, const request&) noexcept;
  static constexpr bool ages = false;
};
static_assert(queue_discipline<archetype, request>);

// It was written for one request type.
static_assert(!queue_discipline<archetype, tick_request>);
static_assert(!queue_discipline<archetype, int>);
static_assert(!queue_discipline<order::fcfs, int>);

// (1) copyable
struct not_copyable : archetype {
  not_copyable() = default;
  not_copyable(const not_copyable&) = delete;
};
static_assert(!queue_discipline<not_copyable, request>);

// (2) enter
struct no_enter : archetype {
  void enter(request&, time_point) = delete;
};
struct enter_without_time : archetype {
  void enter(request&) noexcept;
};
struct enter_may_throw : archetype {
  void enter(request&, time_point);
};
struct enter_returns : archetype {
  bool enter(request&, time_point) noexcept;
};
static_assert(!queue_discipline<no_enter, request>);
static_assert(!queue_discipline<enter_without_time, request>);
static_assert(!queue_discipline<enter_may_throw, request>);
static_assert(!queue_discipline<enter_returns, request>);

// (3) charge
struct no_charge : archetype {
  bool charge(request&, tokens) = delete;
};
struct charge_says_nothing : archetype {
  void charge(request&, tokens) noexcept;
};
struct charge_may_throw : archetype {
  bool charge(request&, tokens);
};
struct charge_takes_blocks : archetype {
  bool charge(request&, blocks) noexcept;
};
static_assert(!queue_discipline<no_charge, request>);
static_assert(!queue_discipline<charge_says_nothing, request>);
static_assert(!queue_discipline<charge_may_throw, request>);
static_assert(!queue_discipline<charge_takes_blocks, request>);

// (4) requeue
struct no_requeue : archetype {
  void requeue(request&) = delete;
};
struct requeue_may_throw : archetype {
  void requeue(request&);
};
static_assert(!queue_discipline<no_requeue, request>);
static_assert(!queue_discipline<requeue_may_throw, request>);

// (5) change_phase
struct no_change_phase : archetype {
  void change_phase(request&) = delete;
};
struct change_phase_may_throw : archetype {
  void change_phase(request&);
};
static_assert(!queue_discipline<no_change_phase, request>);
static_assert(!queue_discipline<change_phase_may_throw, request>);

// (6) leave
struct no_leave : archetype {
  void leave(request&) = delete;
};
struct leave_may_throw : archetype {
  void leave(request&);
};
static_assert(!queue_discipline<no_leave, request>);
static_assert(!queue_discipline<leave_may_throw, request>);

// (7) advance
struct no_advance : archetype {
  void advance(time_point) = delete;
};
struct advance_may_throw : archetype {
  void advance(time_point);
};
struct advance_without_time : archetype {
  void advance() noexcept;
};
static_assert(!queue_discipline<no_advance, request>);
static_assert(!queue_discipline<advance_may_throw, request>);
static_assert(!queue_discipline<advance_without_time, request>);

// (8) before
struct no_before : archetype {
  static bool before(const request&, const request&) = delete;
};
struct before_is_const : archetype {
  bool before(const request&, const request&) const noexcept;
};
struct before_changes_itself : archetype {
  bool before(const request&, const request&) noexcept;
};
struct before_may_throw : archetype {
  static bool before(const request&, const request&);
};
struct before_wants_to_write : archetype {
  static bool before(request&, request&) noexcept;
};
struct before_is_no_bool : archetype {
  static int before(const request&, const request&) noexcept;
};
static_assert(!queue_discipline<no_before, request>);
static_assert(queue_discipline<before_is_const, request>);
static_assert(!queue_discipline<before_changes_itself, request>);
static_assert(!queue_discipline<before_may_throw, request>);
static_assert(!queue_discipline<before_wants_to_write, request>);
static_assert(!queue_discipline<before_is_no_bool, request>);

// (9) displaces
struct no_displaces : archetype {
  static bool displaces(const request&, const request&) = delete;
};
struct displaces_is_const : archetype {
  bool displaces(const request&, const request&) const noexcept;
};
struct displaces_changes_itself : archetype {
  bool displaces(const request&, const request&) noexcept;
};
struct displaces_may_throw : archetype {
  static bool displaces(const request&, const request&);
};
static_assert(!queue_discipline<no_displaces, request>);
static_assert(queue_discipline<displaces_is_const, request>);
static_assert(!queue_discipline<displaces_changes_itself, request>);
static_assert(!queue_discipline<displaces_may_throw, request>);

// (10) ages, and then due_at and age
struct ages_is_a_function : archetype {
  static bool ages() noexcept { return false; }
};
struct ages_is_no_constant : archetype {
  static inline bool ages = false;
};
struct ages_is_no_static : archetype {
  bool ages = false;
};
static_assert(!queue_discipline<ages_is_a_function, request>);
static_assert(!queue_discipline<ages_is_no_constant, request>);
static_assert(!queue_discipline<ages_is_no_static, request>);

struct aging : archetype {
  static constexpr bool ages = true;
  static time_point due_at(const request&) noexcept;
  void age(request&) noexcept;
};
struct due_is_const : aging {
  time_point due_at(const request&) const noexcept;
};
struct no_due : aging {
  static time_point due_at(const request&) = delete;
};
struct due_may_throw : aging {
  static time_point due_at(const request&);
};
struct due_in_seconds : aging {
  static double due_at(const request&) noexcept;
};
struct due_wants_to_write : aging {
  static time_point due_at(request&) noexcept;
};
struct no_age : aging {
  void age(request&) = delete;
};
struct age_may_throw : aging {
  void age(request&);
};
struct age_returns : aging {
  bool age(request&) noexcept;
};
static_assert(queue_discipline<aging, request>);
static_assert(queue_discipline<due_is_const, request>);
static_assert(!queue_discipline<no_due, request>);
static_assert(!queue_discipline<due_may_throw, request>);
static_assert(!queue_discipline<due_in_seconds, request>);
static_assert(!queue_discipline<due_wants_to_write, request>);
struct ages_anywhere : aging {
  static constexpr bool ages_to_front = false;
};
struct ages_to_front_too : aging {
  static constexpr bool ages_to_front = true;
};
struct to_front_is_no_constant : aging {
  static inline bool ages_to_front = false;
};
struct to_front_is_no_static : aging {
  bool ages_to_front = false;
};
struct never_ages : archetype {
  static constexpr bool ages_to_front = true;
};
static_assert(queue_discipline<ages_anywhere, request> && !detail::ages_to_front<ages_anywhere>);
static_assert(queue_discipline<ages_to_front_too, request> && detail::ages_to_front<ages_to_front_too>);
static_assert(detail::ages_to_front<aging>);
static_assert(!queue_discipline<to_front_is_no_constant, request>);
static_assert(!queue_discipline<to_front_is_no_static, request>);
static_assert(queue_discipline<never_ages, request> && !detail::ages_to_front<never_ages>);
static_assert(!queue_discipline<no_age, request>);
static_assert(!queue_discipline<age_may_throw, request>);
static_assert(!queue_discipline<age_returns, request>);

// What it keeps about each request needs room in the hook.
struct keeps : archetype {
  template <clock_policy Clock>
  struct state {
    int level = 0;
  };
};
struct request_of_keeps : request_hook_for<keeps> {};
static_assert(!queue_discipline<keeps, request>);
static_assert(request_of_keeps::can_be_in<keeps> && !request_of_keeps::can_be_in<order::two_phase>);

// A discipline of one's own, the short way.
struct shortest_prompt : order::fcfs {
  template <schedulable R>
  static bool before(const R& a, const R& b) noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    if (a.prompt != b.prompt) return a.prompt < b.prompt;
    return a.state().sequence < b.state().sequence;
  }
};
static_assert(queue_discipline<shortest_prompt, request>);

// request_scorer
struct scorer {
  float operator()(const request&) const noexcept;
};
struct scorer_of_all {
  template <class R>
  float operator()(const R&) const noexcept;
};
struct scorer_of_doubles {
  double operator()(const request&) const noexcept;
};
struct scorer_that_may_throw {
  float operator()(const request&) const;
};
struct scorer_that_writes {
  float operator()(request&) const noexcept;
};
struct scorer_with_mutable_state {
  float operator()(const request&) noexcept;
};
struct scorer_of_nothing {
  void operator()(const request&) const noexcept;
};
struct scorer_not_copyable : scorer {
  scorer_not_copyable() = default;
  scorer_not_copyable(const scorer_not_copyable&) = delete;
};
static_assert(order::request_scorer<order::score_member, request>);
static_assert(order::request_scorer<scorer, request>);
static_assert(order::request_scorer<scorer_of_doubles, request>);
static_assert(!order::request_scorer<scorer_that_may_throw, request>);
static_assert(!order::request_scorer<scorer_that_writes, request>);
static_assert(!order::request_scorer<scorer_with_mutable_state, request>);
static_assert(!order::request_scorer<scorer_of_nothing, request>);
static_assert(!order::request_scorer<scorer_not_copyable, request>);
static_assert(!order::request_scorer<scorer, tick_request>);
struct scored_request : request_hook_for<order::ranked<scorer_of_all>> {};
static_assert(queue_discipline<order::ranked<scorer_of_all>, scored_request>);

}  // namespace
