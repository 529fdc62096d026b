// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/preempt/cheapest.hpp>
#include <tessera/preempt/least_lost.hpp>
#include <tessera/preempt/recompute.hpp>
#include <tessera/preempt/swap.hpp>

// Truth table: an archetype that passes with nothing to spare, and a near-miss per requirement.

namespace {

using namespace tessera;

struct request : request_hook {};
struct no_request {};

static_assert(preemption_policy<preempt::swap, request>);
static_assert(preemption_policy<preempt::recompute, request>);
static_assert(preemption_policy<preempt::cheapest, request>);
static_assert(preemption_policy<preempt::least_lost, request>);
static_assert(!tessera::detail::preemption_chooses<preempt::cheapest>);
static_assert(tessera::detail::preemption_chooses<preempt::least_lost>);

struct archetype {
  preemption_mode mode(const request&, blocks) const noexcept { return preemption_mode::swap; }
};
static_assert(preemption_policy<archetype, request>);
static_assert(!preemption_policy<archetype, no_request>);
static_assert(!preemption_policy<preempt::swap, no_request>);

struct lacks_mode {};
static_assert(!preemption_policy<lacks_mode, request>);

struct may_throw {
  preemption_mode mode(const request&, blocks) const { return preemption_mode::swap; }
};
static_assert(!preemption_policy<may_throw, request>);

struct not_const {
  preemption_mode mode(const request&, blocks) noexcept { return preemption_mode::swap; }
};
static_assert(!preemption_policy<not_const, request>);

struct wants_to_change_the_victim {
  preemption_mode mode(request&, blocks) const noexcept { return preemption_mode::swap; }
};
static_assert(!preemption_policy<wants_to_change_the_victim, request>);

struct answers_something_else {
  bool mode(const request&, blocks) const noexcept { return true; }
};
static_assert(!preemption_policy<answers_something_else, request>);

struct counts_in_tokens {
  preemption_mode mode(const request&, tokens) const noexcept { return preemption_mode::swap; }
};
static_assert(!preemption_policy<counts_in_tokens, request>);

struct not_copyable : archetype {
  not_copyable() = default;
  not_copyable(const not_copyable&) = delete;
};
static_assert(!preemption_policy<not_copyable, request>);

struct a_choice : archetype {
  static constexpr bool chooses = true;
  std::size_t window = 2;
  double loss(const request&, const victim_view&) const noexcept { return 0; }
};
static_assert(preemption_policy<a_choice, request>);

struct no_choice_after_all : archetype {
  static constexpr bool chooses = false;
};
static_assert(preemption_policy<no_choice_after_all, request>);

struct lacks_loss : archetype {
  static constexpr bool chooses = true;
  std::size_t window = 2;
};
static_assert(!preemption_policy<lacks_loss, request>);

struct lacks_window : archetype {
  static constexpr bool chooses = true;
  double loss(const request&, const victim_view&) const noexcept { return 0; }
};
static_assert(!preemption_policy<lacks_window, request>);

struct loss_may_throw : archetype {
  static constexpr bool chooses = true;
  std::size_t window = 2;
  double loss(const request&, const victim_view&) const { return 0; }
};
static_assert(!preemption_policy<loss_may_throw, request>);

}  // namespace
