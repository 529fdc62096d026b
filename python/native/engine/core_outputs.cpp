// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "core.hpp"
#include "objects.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

/// @file
/// What came of the steps of `core`: drafts, tokens and ends.

namespace tessera_python {

void core::forget_drafts(request& r) noexcept {
  r.drafts = {};
  Py_CLEAR(r.guesses);
}

/// What a request verifies in this step, and what it may in the next.
void core::hand_out_drafts(request& r, const ts::scheduled<request>& e) {
  if (e.lookahead > ts::tokens{}) {
    drafted_ += e.lookahead.count();
    const nb::handle all = r.guesses != nullptr ? nb::handle(r.guesses) : no_guesses_;
    const nb::object mine = stolen(PyList_GetSlice(all.ptr(), 0, e.lookahead.count()));
    if (PyDict_SetItem(drafts_.ptr(), r.id, mine.ptr()) != 0) throw nb::python_error();
  }
  forget_drafts(r);
  // A step that samples gives it one token at least.
  const bool ends = r.known + 1 >= r.longest || r.prompt.count() + r.known + 1 >= max_model_len_;
  drafts_are_vain_ = drafts_are_vain_ && (!e.samples || ends);
  // The runner drafts for all requests that sample.
  if (!drafts_are_known_ && e.samples) r.drafts = ts::tokens{drafts_next_};
}

void core::take_drafts(nb::handle slot_of, nb::handle req_ids, nb::handle guesses) {
  if (!PyDict_Check(slot_of.ptr()) || !PyList_Check(req_ids.ptr()) || !PyList_Check(guesses.ptr()) ||
      NB_LIST_GET_SIZE(req_ids.ptr()) != NB_LIST_GET_SIZE(guesses.ptr())) {
    throw nb::type_error("drafts are lists of ids and of lists of tokens");
  }
  if (!drafts_are_known_) return;
  for (Py_ssize_t i = 0; i != NB_LIST_GET_SIZE(req_ids.ptr()); ++i) {
    PyObject* slot = PyDict_GetItemWithError(slot_of.ptr(), NB_LIST_GET_ITEM(req_ids.ptr(), i));
    PyObject* mine = NB_LIST_GET_ITEM(guesses.ptr(), i);
    if (slot == nullptr || !PyList_Check(mine)) continue;  // it has ended
    request& r = at(static_cast<std::uint32_t>(value_of(slot)));
    forget_drafts(r);
    const auto& s = r.state();
    const bool decodes = s.life == ts::lifecycle::resident || s.life == ts::lifecycle::suspended;
    if (!decodes || s.length - s.computed != ts::tokens{1}) continue;
    r.drafts = ts::tokens{NB_LIST_GET_SIZE(mine)};
    r.guesses = nb::borrow(mine).release().ptr();
  }
}

/// The tokens that the runner has returned for a request of the step, which samples. Throws if they are none.
PyObject* core::answer_of(request& r, const ts::scheduled<request>& e, nb::handle index_of, nb::handle req_ids,
                          nb::handle sampled) {
  const Py_ssize_t answers = NB_LIST_GET_SIZE(sampled.ptr());
  if (r.place >= NB_LIST_GET_SIZE(req_ids.ptr()) || NB_LIST_GET_ITEM(req_ids.ptr(), r.place) != r.id) {
    PyObject* place = PyDict_GetItemWithError(index_of.ptr(), r.id);
    if (place == nullptr) throw std::runtime_error("the runner's output lacks it");
    const std::int64_t at = value_of(place);
    r.place = 0 <= at && at < answers ? static_cast<std::int32_t>(at) : std::numeric_limits<std::int32_t>::max();
  }
  PyObject* got = r.place < answers ? NB_LIST_GET_ITEM(sampled.ptr(), r.place) : nullptr;
  if (got == nullptr || !PyList_Check(got))
    throw std::runtime_error("the runner's output has no list of tokens for it");
  const Py_ssize_t n = NB_LIST_GET_SIZE(got);
  if (n < 1) throw std::runtime_error("the runner returned no token for it");
  if (n > 1 + e.lookahead.count()) throw std::runtime_error("the runner returned more tokens than it was asked for");
  for (Py_ssize_t i = 0; i != n; ++i) {
    const std::int64_t token = value_of(NB_LIST_GET_ITEM(got, i));
    if (token < 0 || token > std::numeric_limits<std::int32_t>::max()) {
      throw std::runtime_error("the runner returned " + std::to_string(token) + ", which is no token");
    }
  }
  return got;
}

/// Takes tokens of a request in, and makes the output that reports them. What comes after its end is cut off.
nb::object core::take_output(request& r, PyObject* got, double now, ts::outcome& o) {
  ending end = ending::none;
  const Py_ssize_t n = NB_LIST_GET_SIZE(got);
  Py_ssize_t taken = 0;
  while (taken != n && end == ending::none) {
    const std::int64_t token = value_of(NB_LIST_GET_ITEM(got, taken++));
    ++r.known;
    r.recent.push_back(static_cast<std::int32_t>(token));
    if (r.watched) write_tokens(r);
    if (r.hashes_tokens && --r.till_full == 0) close_link(r);
    if (paces_ && r.state().phase == ts::phase::answering) r.pacer.on_token(moment(now));
    o.end_of_reasoning = o.end_of_reasoning || token == r.end_of_reasoning;
    end = ending_of(r, token);
    if (end == ending::none && r.repetitive && nb::cast<bool>(words_.repeats(nb::handle(r.object))))
      end = ending::repetition;
  }
  if (taken != n && PyList_SetSlice(got, taken, n, nullptr) != 0) throw nb::python_error();
  o.produced = static_cast<std::uint16_t>(taken);

  nb::object output = words_.output(r.id, got);
  if (end == ending::none) return output;

  o.finished = true;
  r.state_hints(now, true);
  const nb::object& reason = end == ending::length       ? words_.reason_length
                             : end == ending::repetition ? words_.reason_repetition
                                                         : words_.reason_stop;
  set(output.ptr(), names().finish_reason, reason);
  if (end == ending::repetition) {
    nb::object why = stolen(PyObject_GetAttr(r.object, names().stop_reason));
    set(output.ptr(), names().stop_reason, why);
  } else {
    set(r.object, names().status, end == ending::length ? words_.status_length : words_.status_stopped);
    if (end == ending::stop_token) {
      set(r.object, names().stop_reason, NB_LIST_GET_ITEM(got, taken - 1));
      set(output.ptr(), names().stop_reason, NB_LIST_GET_ITEM(got, taken - 1));
    }
  }
  return output;
}

/// It has lost its KV because a part of it did not come.
void core::lose(request& r) {
  if (r.state().life == ts::lifecycle::suspended) (void)planner_->resume(r);
  if (r.state().life == ts::lifecycle::resident) {
    preempt(r);
  } else {
    note_loss(r);  // with the plan that was settled
  }
  given_up_.push_back(&r);
}

nb::tuple core::update(nb::handle index_of, nb::handle req_ids, nb::handle sampled, double now,
                       const std::vector<std::uint32_t>& spoilt) {
  nb::dict by_client;
  nb::list looked_at;
  nb::list ended;
  nb::list failed;
  const auto all = [&] {
    return nb::make_tuple(std::move(by_client), std::move(looked_at), std::move(ended), std::move(failed));
  };
  if (in_flight_.empty()) return all();
  if (!PyList_Check(req_ids.ptr()) || !PyList_Check(sampled.ptr()) || !PyDict_Check(index_of.ptr())) {
    throw nb::type_error("the runner's output has lists of ids and of tokens, and a dict of places");
  }
  const plan& ran_plan = in_flight_.front();
  const std::size_t n = ran_plan.size();
  outcomes_.assign(n, ts::outcome{});
  failed_.clear();
  std::vector<request*> lost;
  for (const std::uint32_t slot : spoilt) {
    request& r = at(slot);
    r.spoilt_until = planned_;
    const auto is_it = [&r](const ts::preemption<request>& p) { return p.request == &r; };
    // A step under way may have taken its blocks already, and that has been said.
    const bool is_told = r.state().life == ts::lifecycle::waiting ||
                         (open_ && std::any_of(plan_.preempted.begin(), plan_.preempted.end(), is_it));
    if (!is_told) lost.push_back(&r);
  }
  std::int32_t client = -1;
  PyObject* outputs = nullptr;  // of that client; by_client holds it
  for (std::size_t i = 0; i != n; ++i) {
    look_ahead(ran_plan, i);
    const ts::scheduled<request>& e = ran_plan[i];
    request& r = *e.request;
    outcomes_[i].spoilt = r.spoilt_until > settled_;
    if (r.dead || !e.samples || outcomes_[i].spoilt) continue;
    nb::object output;
    try {
      output = take_output(r, answer_of(r, e, index_of, req_ids, sampled), now, outcomes_[i]);
    } catch (const std::exception& error) {
      // A bad output of one request must not end the others. An interrupt passes.
      const auto* raised = dynamic_cast<const nb::python_error*>(&error);
      if (raised != nullptr && !raised->matches(PyExc_Exception)) throw;
      outcomes_[i] = {};
      failed.append(nb::make_tuple(nb::borrow(r.object), error.what()));
      failed_.push_back(r.slot);
      continue;
    }
    if (r.client != client) {
      client = r.client;
      const nb::object key = number(client);
      outputs = PyDict_GetItemWithError(by_client.ptr(), key.ptr());
      if (outputs == nullptr) {
        by_client[key] = nb::list();
        outputs = PyDict_GetItemWithError(by_client.ptr(), key.ptr());
      }
    }
    append(outputs, output);
    if (r.has_news || r.watched) {
      looked_at.append(nb::make_tuple(output, nb::borrow(r.object), r.place, r.has_news, r.watched));
      r.has_news = false;
    }
    if (outcomes_[i].finished) {
      ended.append(nb::borrow(r.object));
      if (whole_at_end_) write_tokens(r);
      if (r.transfers) {
        // Its blocks may be wanted elsewhere: `drain` or `let_go` ends it.
        outcomes_[i].finished = false;
        write_tokens(r);
      }
      if (PyDict_DelItem(words_.requests.ptr(), r.id) != 0) throw nb::python_error();
      r.dead = true;
      --live_;
      if (!r.transfers) leaving_.push_back(&r);
    }
  }
  // Not before: a slot that is given back would be another request's.
  for (const std::uint32_t slot : failed_) cancel(slot);
  settle_oldest(now);
  for (request* r : lost) {
    if (!r->dead) lose(*r);
  }
  settle_empty(now);
  return all();
}

}  // namespace tessera_python
