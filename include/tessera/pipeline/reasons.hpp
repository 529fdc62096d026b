// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/pipeline/step.hpp>

TESSERA_NAMESPACE_BEGIN
namespace detail {

template <class Request>
[[nodiscard]] bool is_in(const step<Request>& step, const Request& r) noexcept {
  for (const auto* entries : {&step.prefill, &step.decode}) {
    for (const scheduled<Request>& e : *entries) {
      if (e.request == &r) return true;
    }
  }
  return false;
}

/// Why a live request is not in the latest plan; `none` if it is. For a resident: O(log residents) while the plan is
/// pending. Otherwise O(1 + skipped by the gate + held for a prefix). For a resident with a part of its prompt to
/// compute, O(entries). `is_bounded`: the gate bounds its step.
template <class Request, class Residents>
[[nodiscard]] wait_reason why_not_in(const step<Request>& step, const Residents& residents, tokens longest,
                                     const Request& r, bool is_bounded) noexcept {
  const auto& s = r.state();
  if (s.parked) return wait_reason::parked;
  if (s.life == lifecycle::suspended) return s.loads ? wait_reason::loading : wait_reason::suspended;
  if (s.sequence >= step.seen) return wait_reason::not_planned;
  if (step.has_mark(r, plan_mark::runs)) return wait_reason::none;
  if (step.has_mark(r, plan_mark::preempted)) return wait_reason::preempted;
  if (step.has_mark(r, plan_mark::stalled) || s.length > longest) return wait_reason::stalled;
  if (s.sequence == step.blocked) return step.blocked_reason;
  for (const std::uint64_t skipped : step.skipped) {
    if (s.sequence == skipped) return wait_reason::gated;
  }
  for (const auto& held : step.held_for_prefix) {
    if (s.sequence == held.sequence && s.life == lifecycle::waiting) return wait_reason::prefix_in_flight;
  }
  if (s.life == lifecycle::resident && may_end_in_flight(r, longest)) return wait_reason::in_flight;
  if (s.life != lifecycle::resident) return wait_reason::behind_others;
  const bool computes_prompt = s.reach() - s.computed > tokens{1} || s.computed < r.prompt;
  if (step.prefill_left <= tokens{} && s.reach() - s.computed > tokens{1} && !(step.open && is_in(step, r))) {
    return wait_reason::budget_spent;
  }
  // A request that was resident before the plan is marked when the plan has run. Until then, or until it counts as run,
  // a resident that has had its turn runs.
  if (step.open && residents.place_of(r) < step.next) {
    if (!computes_prompt || is_in(step, r)) return wait_reason::none;
    return is_bounded ? wait_reason::gated : wait_reason::budget_spent;
  }
  return step.stopped != wait_reason::none ? step.stopped : wait_reason::not_planned;  // suspended at the time
}

}  // namespace detail
TESSERA_NAMESPACE_END
