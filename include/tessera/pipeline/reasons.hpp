// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/pipeline/step.hpp>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// Why a live request is not in the latest plan; `none` if it is.
template <class Request>
[[nodiscard]] wait_reason why_not_in(const step<Request>& step, tokens longest, const Request& r) noexcept {
  const auto& s = r.state();
  if (s.life == lifecycle::suspended) return wait_reason::suspended;
  if (s.sequence >= step.seen) return wait_reason::not_planned;
  if (step.has_mark(r, plan_mark::runs)) return wait_reason::none;
  if (step.has_mark(r, plan_mark::preempted)) return wait_reason::preempted;
  if (step.has_mark(r, plan_mark::stalled) || s.length > longest) return wait_reason::stalled;
  if (s.sequence == step.blocked) return step.blocked_reason;
  if (s.life != lifecycle::resident) return wait_reason::behind_others;
  return step.stopped != wait_reason::none ? step.stopped : wait_reason::not_planned;  // suspended at the time
}

}  // namespace detail
TESSERA_NAMESPACE_END
