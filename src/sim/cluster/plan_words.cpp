// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/cluster/plan_words.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim::detail {
namespace {

/// Why a request is not in a plan, as far as it is not others that rank before it. @param free blocks when the plan is
/// made: others may have lost theirs since its turn.
[[nodiscard]] std::string reason_words(wait_reason why, blocks needs, blocks free) {
  switch (why) {
    case wait_reason::no_blocks:
      return needs > free
                 ? fmt::format("it needs {} blocks, and {} are free", needs.count(), free.count())
                 : fmt::format("it needs {} blocks, and fewer were free at its turn: {} are free now, after evictions",
                               needs.count(), free.count());
    case wait_reason::held_back:
      return fmt::format("admission keeps blocks for running requests: it needs {}, and {} are free", needs.count(),
                         free.count());
    case wait_reason::batch_full: return "the batch is full";
    case wait_reason::budget_spent: return "the tokens of the step are spent before its turn";
    case wait_reason::residents_full: return "the most requests that may hold blocks do";
    case wait_reason::stalled: return "no block is free for its next token";
    case wait_reason::behind_others: return "requests that rank before it need the blocks";
    case wait_reason::not_wanted: return "no request was to start";
    default: return to_string(why);
  }
}

}  // namespace

void tell_of_plan(run_watcher& w, std::size_t at, double from_s, const instance& one) {
  const engine& s = one.scheduler();
  const engine::plan_type& plan = one.step();
  const double until_s = one.ends_s();
  const std::span<request* const> here = one.requests();
  const tokens block_size = one.options().limits.block_size;
  const bool of_steps = w.asks_of_steps(from_s);
  bool of_somebody = false;
  for (const request* r : here) of_somebody = of_somebody || w.asks(r->index, from_s);
  if (!of_steps && !of_somebody) return;

  // A request that starts counts as waiting until the step has ended.
  std::vector<const request*> line;
  s.for_each_waiting([&](const request& r) {
    if (s.why(r) != wait_reason::none) line.push_back(&r);
  });
  const blocks free = s.load().free;
  const auto needs = [&](const request& r) { return blocks_for(r.state().length, block_size); };
  const auto cannot = [&](const request& r) {
    const wait_reason why = s.why(r);
    return why == wait_reason::gated ? s.gated(r) : reason_words(why, needs(r), free);
  };
  const std::string first = line.empty() ? std::string{}
                                         : fmt::format("request {} is first ({}): {}", line.front()->index,
                                                       s.place(*line.front()), cannot(*line.front()));
  if (of_steps) {
    w.notify(instance_step{from_s, until_s, at, plan.decode.size(), plan.prefill.size(), plan.computed, line.size(),
                           free, first});
  }
  if (!of_somebody) return;

  for (const preemption<request>& v : plan.preempted) {
    const request& r = *v.request;
    if (!w.asks(r.index, from_s)) continue;
    std::string why = fmt::format("its KV is dropped, {} tokens to be computed again", r.state().computed.count());
    if (v.mode == preemption_mode::swap) {
      for (const kv_transfer<request>& t : plan.swap_out) {
        if (t.request == v.request) why = fmt::format("its {} blocks go to the host", t.device.size());
      }
    }
    if (v.for_whom != nullptr) {
      why += fmt::format("; request {} {} and ranks before it: {}, before {}", v.for_whom->index,
                         v.for_whom->state().life == lifecycle::waiting ? "starts" : "needs blocks to go on",
                         s.place(*v.for_whom), s.place(r));
    }
    w.notify(request_event{event_kind::preempted, from_s, r.index, at, why});
  }
  const auto runs = [&](const scheduled<request>& e, bool decodes) {
    const request& r = *e.request;
    if (!w.asks(r.index, from_s)) return;
    // The last token of a prompt may be a chunk of its own.
    decodes = decodes && r.generated() > tokens{};
    if (e.origin != entry_origin::going_on) {
      std::string why;
      for (const kv_transfer<request>& t : plan.swap_in) {
        if (t.request == e.request) why = fmt::format("its {} blocks come back from the host", t.host.size());
      }
      for (const kv_fetch<request>& t : plan.fetch) {
        if (t.request == e.request) why = "with the KV that came with it";
      }
      const bool is_new = r.first_step_s < 0;
      if (why.empty() && is_new) {
        why = e.first > tokens{} ? fmt::format("{} of the {} tokens of its prompt are cached", e.first.count(),
                                               r.state().length.count())
                                 : std::string{"there is room for it"};
      } else if (why.empty()) {
        why = fmt::format("{} of its {} tokens are computed again", (r.state().length - e.first).count(),
                          r.state().length.count());
      }
      w.notify(request_event{is_new ? event_kind::starts : event_kind::resumes, from_s, r.index, at,
                             fmt::format("{}; {}", why, s.place(r))});
    }
    w.notify(request_step{decodes ? event_kind::generates : event_kind::computes,
                          from_s,
                          until_s,
                          r.index,
                          at,
                          e.count,
                          wait_reason::none,
                          0,
                          {}});
  };
  for (const scheduled<request>& e : plan.decode) runs(e, true);
  for (const scheduled<request>& e : plan.prefill) runs(e, false);

  for (std::size_t k = 0; k != line.size(); ++k) {
    const request& r = *line[k];
    if (!w.asks(r.index, from_s)) continue;
    const std::string why = k == 0
                                ? fmt::format("first in the queue ({}), but {}", s.place(r), cannot(r))
                                : fmt::format("{} before it in the queue: {}; its own place: {}", k, first, s.place(r));
    w.notify(request_step{event_kind::waits, from_s, until_s, r.index, at, {}, s.why(r), k, why});
  }
  for (const request* r : s.residents()) {
    const wait_reason why = w.asks(r->index, from_s) ? s.why(*r) : wait_reason::none;
    if (why == wait_reason::none || why == wait_reason::preempted) continue;
    w.notify(request_step{event_kind::stands_still,
                          from_s,
                          until_s,
                          r->index,
                          at,
                          {},
                          why,
                          0,
                          fmt::format("{}; {}", reason_words(why, needs(*r), free), s.place(*r))});
  }
}

}  // namespace sim::detail
TESSERA_NAMESPACE_END
