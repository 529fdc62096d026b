// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/pipeline/step.hpp>

#include <cstdint>
#include <limits>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// Gives slots for drafts to requests that sample, in rank order, from the budget and blocks left after all turns. The
/// draft policy sets the number; it is at most what the request can generate. Unused slots are given back when the step
/// is settled, so speculation causes no eviction and delays no start. (Blocks that it takes from a prefix cache are
/// evicted there, the coldest first.) A model with a recurrent state without spare blocks gets none: the state cannot
/// go back to before a rejected draft.
template <class Planning>
void give_lookahead(Planning& p) noexcept {
  auto& step = p.step;
  if (!p.roster.kv.takes_drafts()) return;
  const tokens most = min(step.limits.lookahead, p.longest);
  draft_view view{.batch = step.size(),
                  .waiting = p.roster.waiting.size(),
                  .in_step = step.limits.token_budget - step.budget,
                  .most = most,
                  .prefills = step.prefill.size()};
  for (auto* entries : {&step.decode, &step.prefill}) {
    for (auto& e : *entries) {
      const auto& r = *e.request;
      if (!e.samples || step.budget <= tokens{}) continue;
      const tokens wanted = min(p.config.draft.drafts(r, view), most);
      const tokens length = r.state().reach();
      tokens n = min(wanted, min(step.budget, p.longest - length));
      if (r.max_output > tokens{}) n = min(n, r.max_output - (length - r.prompt) - tokens{1});
      n = min(n, tokens{std::numeric_limits<std::uint16_t>::max() - r.state().expected - 1});
      if (n <= tokens{}) continue;
      n = p.roster.kv.reach(r, length + n, p.free()) - length;
      if (n <= tokens{}) continue;
      if (const blocks more = p.roster.kv.lacks(r, length + n); more > blocks{}) {
        p.roster.kv.take(*e.request, more, length + n);
        e.new_blocks = p.roster.kv.new_blocks(e.row);
      }
      e.lookahead = n;
      step.budget -= n;
      step.drafts += n;
      view.in_step += n;
    }
  }
}

}  // namespace detail
TESSERA_NAMESPACE_END
