// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "core.hpp"
#include "objects.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

/// @file
/// The steps of `core`: which is planned next, and how it is handed to vLLM.

namespace tessera_python {

nb::tuple core::schedule(double now, std::int64_t budget, std::int64_t max_chunk, bool admit, bool defer_prefills) {
  if (in_flight_.size() == settings_.limits.plans_in_flight) {
    throw std::runtime_error("the most steps are in flight: commit one before the next is planned");
  }
  now_ = now;
  if (tuned_) retune();
  // Not just after another step was planned: requests that stand aside do so for one more.
  if (!open_ && (defer_prefills || !standing_.empty())) hold_prefills(defer_prefills);
  std::size_t starts = admit && !defer_prefills ? ~std::size_t{0} : 0;
  if (settings_.transfers) {
    // The room beyond the batch is for KV that comes and goes: the runner has no place for more requests.
    const auto places = [this] { return settings_.batch - std::min(settings_.batch, placed()); };
    // Running requests may lack blocks that the arrived ones hold, and no other request can give them any.
    if (!open_ && !arrived_.empty() && places() == 0 && plan_.empty() && standing_.empty()) {
      request& last = *planner_->residents().back();
      preempt(last);
      if (last.transfers) last.spoilt_until = planned_;
      given_up_.push_back(&last);
    }
    auto next = arrived_.begin();
    while (!open_ && next != arrived_.end() && places() != 0) this->admit(*next++);
    arrived_.erase(arrived_.begin(), next);
    starts = std::min(starts, places());
  }
  // A step with less could never end a prompt.
  const ts::tokens least = max(settings_.least_left, settings_.longest_input);
  const auto at_least = [least](ts::tokens n) { return n == ts::tokens{} ? n : max(n, least); };
  const ts::step_limits limits{.max_batch = settings_.batch,
                               .token_budget = ts::tokens{budget},
                               .max_chunk = at_least(ts::tokens{max_chunk}),
                               .prefill_budget = at_least(prefill_budget()),
                               .lookahead = ts::tokens{lookahead_},
                               .max_starts = starts};
  ++planned_;
  plan_ = words_.asks.is_none() ? planner_->next(moment(now), limits) : plan_with_answers(now, limits);
  open_ = plan_.id != 0;
  if (open_) {
    in_flight_.push_back(plan_);
    note_step(now);
  } else {
    --planned_;
  }
  if (settings_.transfers) note_loads();
  ++step_;
  if (zeroes_) to_zero_ = nb::list();
  nb::tuple result = repeats_last_step() ? hand_out_same() : hand_out_anew();
  if (open_ && plan_.empty() && in_flight_.size() == 1) {
    // If so, no request would ever run again: say it instead of looping.
    const bool stuck = admit && !defer_prefills && planner_->waiting() != 0 && running() == 0 &&
                       plan_.preempted.empty() && plan_.outgrown.empty() && leaving_.empty() && loading_ == 0 &&
                       draining() == 0;
    settle_empty(now);
    if (stuck) throw std::runtime_error("requests wait and none can start on an empty instance");
  }
  return result;
}

/// Most tokens of prompts in the next step: what its decodes leave of `step_s`, by what steps have taken so far.
/// O(running) if that is bounded.
ts::tokens core::prefill_budget() const {
  const ts::tokens most{settings_.prefill_budget};
  if (settings_.step_s <= 0) return most;
  std::size_t decodes = 0;
  ts::tokens context{};
  for (const request* r : planner_->residents()) {
    if (r->dead || computes_prompt(*r)) continue;
    ++decodes;
    context += r->state().computed;
  }
  const ts::tokens left = steps_.budget(settings_.step_s, settings_.limits.block_size)(decodes, context);
  return most == ts::tokens{} ? left : min(most, left);
}

void core::note_step(double now) {
  timed_step& t = timed_.emplace_back();
  t.step = step_ + 1;
  if (settings_.step_s <= 0) return;
  t = {t.step, now, plan_.decode.size(), {}, {}};
  for (const ts::scheduled<request>& e : plan_.decode) t.context += e.first;
  for (const ts::scheduled<request>& e : plan_.prefill) t.prefill += e.count;
}

/// A plan with what is known elsewhere of the requests that start by it. A request is asked about when its turn has
/// come, with what is here then. If the answer changes what it computes, the plan is made anew: others may start by it,
/// or with another part of their prompts here. The first in line keeps its answer, then the second, and so on.
/// A connector writes KV whatever the device does. If the blocks are still used by a step under way, nothing is planned
/// before that has been settled: the plan has the id 0.
plan core::plan_with_answers(double now, const ts::step_limits& limits) {
  for (request* r : waits_) {
    if (r->state().parked) (void)planner_->ready(*r);
  }
  waits_.clear();
  ++asked_;
  while (true) {
    plan_ = planner_->next(moment(now), limits);
    bool is_settled = false;
    try {
      is_settled = !ask();
    } catch (...) {
      (void)planner_->abandon(plan_);
      throw;
    }
    if (is_settled) break;
    if (planner_->abandon(plan_) != ts::status::ok) throw std::runtime_error("a plan could not be made anew");
    apply_answers();
  }
  const bool must_wait = !in_flight_.empty() && std::max(plan_.load_after, plan_.fetch_after) >= in_flight_.front().id;
  if (must_wait && planner_->abandon(plan_) != ts::status::ok) throw std::runtime_error("a plan could not be given up");
  // Those that do not start by it are asked about again at their next turn.
  for (request* r : fetches_) {
    if (r->state().life == ts::lifecycle::waiting) (void)planner_->fetching(*r, {});
    r->fetches = false;
  }
  fetches_.clear();
  return must_wait ? plan{} : plan_;
}

/// Asks about the requests that start by the plan. Whether an answer changes it.
bool core::ask() {
  answers_.clear();
  // What is here of those with KV elsewhere; of the others, it is what they start with. Each has one list at least.
  for (const auto& f : plan_.fetch) {
    if (f.group == 0) (void)ask(*f.request, found(*f.request));
  }
  for (const auto& l : plan_.load) {
    if (l.group == 0) (void)ask(*l.request, found(*l.request));
  }
  for (std::size_t i = 0; i != plan_.size(); ++i) {
    const ts::scheduled<request>& e = plan_[i];
    if (e.request->state().life != ts::lifecycle::waiting) continue;  // its KV has come, and the engine has not heard
    const bool is_fetched = e.request->fetches && std::any_of(plan_.fetch.begin(), plan_.fetch.end(),
                                                              [&](const auto& f) { return f.request == e.request; });
    if (!is_fetched) (void)ask(*e.request, e.first);
  }
  return !answers_.empty();
}

/// The tokens of a request that starts which it has found here.
ts::tokens core::found(const request& r) const {
  return settings_.block_sizes.front() * static_cast<std::int64_t>(r.state().shared_blocks);
}

bool core::ask(request& r, ts::tokens here) {
  if (r.asked_in == asked_ && r.asked_with == here) return false;
  r.asked_in = asked_;
  r.asked_with = here;
  const nb::object answer = words_.asks(nb::borrow(r.object), here.count());
  const nb::tuple both = nb::cast<nb::tuple>(answer);
  const bool waits = nb::handle(both[0]).is_none();
  const ts::tokens more{waits ? 0 : nb::cast<std::int64_t>(both[0])};
  if (!waits && more == ts::tokens{} && !r.fetches) return false;
  answers_.push_back({&r, more == ts::tokens{} ? more : here + more, nb::cast<bool>(both[1]), waits});
  return true;
}

void core::apply_answers() {
  for (const said& a : answers_) {
    request& r = *a.who;
    ts::status done =
        a.later && a.there != ts::tokens{} ? planner_->loading(r, a.there) : planner_->fetching(r, a.there);
    if (done == ts::status::ok && a.waits) done = planner_->park(r);
    if (done != ts::status::ok) throw std::runtime_error("what is said of KV elsewhere is of no use to its request");
    if (a.waits) waits_.push_back(&r);
    if (a.there != ts::tokens{} && !r.fetches) {
      r.fetches = true;
      fetches_.push_back(&r);
    }
  }
}

void core::note_loads() {
  nb::list all;
  for (const auto& l : plan_.load) {
    if (l.group != 0) continue;
    request& r = *l.request;
    r.loading = true;
    ++loading_;
    set(r.object, names().status, words_.status_loading);
    all.append(nb::make_tuple(nb::borrow(r.object), ids_of(r.state().row, 0, true), found(r).count()));
  }
  loads_ = std::move(all);
}

/// With the outcomes that there are.
void core::settle_oldest(double now) {
  if (planner_->commit(in_flight_.front(), outcomes_, moment(now)) != ts::status::ok) {
    throw std::runtime_error("the step was refused: it is not the one that was planned");
  }
  // A step begins when it is planned, or when the one before it ends.
  const timed_step& t = timed_.front();
  if (!in_flight_.front().empty()) not_before_ = std::max(not_before_, t.step + settings_.limits.plans_apart);
  if (t.decodes != 0 || t.prefill != ts::tokens{}) {
    steps_.ran(t.decodes, t.context, t.prefill, now - std::max(t.planned, last_settled_));
    last_settled_ = now;
  }
  timed_.pop_front();
  in_flight_.pop_front();
  ++settled_;
  open_ = false;
}

/// Steps that nothing runs in are settled when those before them are: no output is waited for.
void core::settle_empty(double now) {
  while (!in_flight_.empty() && in_flight_.front().empty()) {
    outcomes_.clear();
    settle_oldest(now);
  }
  reclaim();
}

/// The requests of the latest step decode once more, in the same order, and nothing else happens.
bool core::repeats_last_step() const {
  const std::size_t n = plan_.decode.size();
  if (!only_decodes_ || lookahead_ != 0 || sends_tokens_ || n == 0 || n != batch_.size() || !plan_.prefill.empty() ||
      !plan_.preempted.empty() || !given_up_.empty() || !plan_.outgrown.empty()) {
    return false;
  }
  for (std::size_t i = 0; i != n; ++i) {
    if (i + 8 < n) plan_.decode[i + 8].request->prefetch();
    // A slot that was given to another request since then was not in the latest step.
    if (plan_.decode[i].request != batch_[i].who || batch_[i].who->last_step + 1 != step_) return false;
  }
  return true;
}

nb::tuple core::hand_out(nb::list fresh, nb::object resumed, nb::object all_tokens, nb::object blocks,
                         nb::object computed, nb::object outputs, nb::object preempted) {
  nb::list outgrown;
  for (request* r : plan_.outgrown) outgrown.append(nb::borrow(r->object));
  return nb::make_tuple(counts_, plan_.computed.count() + drafted_, std::move(fresh), ids_, std::move(resumed),
                        std::move(all_tokens), std::move(blocks), std::move(computed), std::move(outputs),
                        std::move(preempted), std::move(outgrown));
}

nb::tuple core::hand_out_same() {
  prefills_ = false;
  const auto n = static_cast<Py_ssize_t>(plan_.decode.size());
  nb::object blocks = stolen(PyList_New(n));
  nb::object computed = stolen(PyList_New(n));
  nb::object outputs = stolen(PyList_New(n));
  for (Py_ssize_t i = 0; i != n; ++i) {
    const ts::scheduled<request>& e = plan_.decode[static_cast<std::size_t>(i)];
    request& r = *e.request;
    NB_LIST_SET_ITEM(blocks.ptr(), i, ids_of(e, false).release().ptr());
    note_zeroed(e, false);
    NB_LIST_SET_ITEM(computed.ptr(), i, number(e.first.count()).release().ptr());
    NB_LIST_SET_ITEM(outputs.ptr(), i, number(expected_of(r)).release().ptr());
    r.last_step = step_;
  }
  return hand_out({}, stolen(PySet_New(nullptr)), stolen(PyDict_New()), std::move(blocks), std::move(computed),
                  std::move(outputs), stolen(PySet_New(nullptr)));
}

/// Makes the latest step's dict and list of ids this step's, if the requests that go on do so in the same order. It
/// takes out those that have left. The rest of the batch is the beginning of the plan. False: they are to be made anew.
bool core::carry_over() {
  if (batch_.empty() || NB_DICT_GET_SIZE(counts_.ptr()) != static_cast<Py_ssize_t>(batch_.size())) return false;
  const std::size_t most_gone = 8 + batch_.size() / 16;
  gone_.clear();
  std::size_t at = 0;
  bool joins = false;
  bool in_order = true;  // listed requests stand before the others: at the same place in the list
  const auto pass = [&] { in_order = in_order && (at == 0 || batch_[at - 1].listed || !batch_[at].listed), ++at; };
  const auto leaves = [&] { gone_.push_back(at), pass(); };
  for (std::size_t i = 0; i != plan_.size(); ++i) {
    look_ahead(plan_, i);
    const ts::scheduled<request>& e = plan_[i];
    if (e.request->last_step + 1 != step_) {
      joins = true;
      continue;
    }
    if (joins || e.origin != ts::entry_origin::going_on) return false;
    while (at != batch_.size() && batch_[at].who != e.request) leaves();
    if (at == batch_.size() || gone_.size() > most_gone) return false;
    pass();
  }
  while (at != batch_.size()) leaves();
  if (gone_.size() > most_gone || !in_order) return false;

  // An owner that still has the objects of the latest step keeps them as they are.
  if (Py_REFCNT(counts_.ptr()) != 1) counts_ = stolen(PyDict_Copy(counts_.ptr()));
  if (Py_REFCNT(ids_.ptr()) != 1) ids_ = stolen(PyList_GetSlice(ids_.ptr(), 0, NB_LIST_GET_SIZE(ids_.ptr())));
  std::for_each(gone_.rbegin(), gone_.rend(), [this](std::size_t i) {
    const auto place = static_cast<Py_ssize_t>(i);
    if (PyDict_DelItem(counts_.ptr(), batch_[i].id.ptr()) != 0) throw nb::python_error();
    if (batch_[i].listed && PyList_SetSlice(ids_.ptr(), place, place + 1, nullptr) != 0) throw nb::python_error();
    batch_.erase(batch_.begin() + static_cast<std::ptrdiff_t>(i));
  });
  return true;
}

/// The tokens that an entry computes.
nb::object core::tokens_of(const ts::scheduled<request>& e) {
  write_tokens(*e.request);
  const auto first = static_cast<Py_ssize_t>(e.first.count());
  return stolen(PyList_GetSlice(e.request->everything, first, first + static_cast<Py_ssize_t>(e.count.count())));
}

nb::tuple core::hand_out_anew() {
  nb::object preempted = stolen(PySet_New(nullptr));
  for (const request* r : given_up_) {
    if (PySet_Add(preempted.ptr(), r->id) != 0) throw nb::python_error();
  }
  given_up_.clear();
  for (const ts::preemption<request>& p : plan_.preempted) {
    request& r = *p.request;
    if (PySet_Add(preempted.ptr(), r.id) != 0) throw nb::python_error();
    set(r.object, names().status, words_.status_preempted);
    set(r.object, names().num_preemptions, number(static_cast<std::int64_t>(r.state().preemptions) + 1));
    r.has_news = true;
    // If a step under way were its last one, no KV of it would be left for other engines.
    if (r.transfers) r.spoilt_until = planned_ - 1;
    forget_drafts(r);
  }

  const std::size_t n = plan_.size();
  const auto is_news = [&](const ts::scheduled<request>& e) {
    return !e.request->known_to_runner || (second_runner_ && e.origin != ts::entry_origin::going_on);
  };
  if (!carry_over()) {
    counts_ = stolen(PyDict_New());
    ids_ = stolen(PyList_New(0));
    batch_.clear();
  }
  const std::size_t carried = batch_.size();
  Py_ssize_t known = 0;
  for (std::size_t i = 0; i != n; ++i) known += i < carried || !is_news(plan_[i]) ? 1 : 0;
  if (lookahead_ != 0) drafts_ = stolen(PyDict_New());
  drafts_next_ = n < drafts_of_batch_.size() ? drafts_of_batch_[n] : lookahead_;
  drafted_ = 0;
  drafts_are_vain_ = n != 0;
  prefills_ = false;
  nb::list fresh;
  nb::object resumed = stolen(PySet_New(nullptr));
  nb::object all_tokens = stolen(PyDict_New());
  nb::object blocks = stolen(PyList_New(known));
  nb::object computed = stolen(PyList_New(known));
  nb::object outputs = stolen(PyList_New(known));
  if (sends_tokens_) new_tokens_ = stolen(PyList_New(known));
  const nb::object one = number(1);
  Py_ssize_t at = 0;
  for (std::size_t i = 0; i != n; ++i) {
    const ts::scheduled<request>& e = plan_[i];
    request& r = *e.request;
    const std::int64_t run = (e.count + e.lookahead).count();
    if (i >= carried) batch_.push_back({&r, nb::borrow(r.id), 0, false});
    member& m = batch_[i];
    if (m.count != run) {
      const nb::object count = run == 1 ? one : number(run);
      if (PyDict_SetItem(counts_.ptr(), r.id, count.ptr()) != 0) throw nb::python_error();
      m.count = run;
    }
    if (lookahead_ != 0) hand_out_drafts(r, e);
    // A request goes on when its KV has arrived, and the runner has not heard of it.
    const bool comes = e.origin != ts::entry_origin::going_on || !r.known_to_runner;
    note_zeroed(e, comes);
    prefills_ = prefills_ || e.count > ts::tokens{1} || !e.samples || (r.in_prompt && !comes);
    if (r.in_prompt == e.samples) {
      r.in_prompt = !e.samples;
      set(r.object, names().is_prefill_chunk, nb::bool_(r.in_prompt));
    }
    if (comes) {
      set(r.object, names().status, words_.status_running);
      r.has_news = true;
      // What Python has to say about requests that start: they are few in a step.
      write_tokens(r);
      fresh.append(nb::make_tuple(nb::borrow(r.object), ids_of(e, true), e.first.count(), r.known_to_runner,
                                  r.state().length.count()));
    }
    if (!is_news(e)) {
      if (comes && PySet_Add(resumed.ptr(), r.id) != 0) throw nb::python_error();
      nb::object mine = ids_of(e, comes);
      if (!m.listed) append(ids_, nb::handle(r.id));
      m.listed = true;
      NB_LIST_SET_ITEM(blocks.ptr(), at, mine.release().ptr());
      NB_LIST_SET_ITEM(computed.ptr(), at, number(e.first.count()).release().ptr());
      NB_LIST_SET_ITEM(outputs.ptr(), at, number(expected_of(r)).release().ptr());
      if (sends_tokens_) NB_LIST_SET_ITEM(new_tokens_.ptr(), at, tokens_of(e).release().ptr());
      ++at;
      if (!second_runner_ && !sends_tokens_ && (comes || r.last_step + 1 != step_)) {
        // A request that was not in the step before is not in the runner's batch any more.
        write_tokens(r);
        nb::object copy = stolen(PyList_GetSlice(r.everything, 0, NB_LIST_GET_SIZE(r.everything)));
        if (PyDict_SetItem(all_tokens.ptr(), r.id, copy.ptr()) != 0) throw nb::python_error();
      }
    }
    r.known_to_runner = true;
    r.last_step = step_;
  }
  only_decodes_ = plan_.prefill.empty() && fresh.size() == 0;
  return hand_out(std::move(fresh), std::move(resumed), std::move(all_tokens), std::move(blocks), std::move(computed),
                  std::move(outputs), std::move(preempted));
}

}  // namespace tessera_python
