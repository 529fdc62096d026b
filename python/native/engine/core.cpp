// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "core.hpp"

#include <tessera/kv/hash_chain.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string_view>

namespace tessera_python {
namespace {

// Attributes of vLLM's objects, as interned strings: looked up by pointer.
struct attribute_names {
  PyObject* status = PyUnicode_InternFromString("status");
  PyObject* stop_reason = PyUnicode_InternFromString("stop_reason");
  PyObject* finish_reason = PyUnicode_InternFromString("finish_reason");
  PyObject* num_preemptions = PyUnicode_InternFromString("num_preemptions");
  PyObject* is_prefill_chunk = PyUnicode_InternFromString("is_prefill_chunk");
};

const attribute_names& names() {
  static const attribute_names all;  // never freed: Python may be gone by then
  return all;
}

void set(PyObject* object, PyObject* name, nb::handle value) {
  if (PyObject_SetAttr(object, name, value.ptr()) != 0) throw nb::python_error();
}

nb::object stolen(PyObject* object) {
  if (object == nullptr) throw nb::python_error();
  return nb::steal(object);
}

nb::object number(std::int64_t n) { return stolen(PyLong_FromLongLong(n)); }

void append(nb::handle list, nb::handle value) {
  if (PyList_Append(list.ptr(), value.ptr()) != 0) throw nb::python_error();
}

std::int64_t value_of(PyObject* number) {
  const long long value = PyLong_AsLongLong(number);
  if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return value;
}

template <class T>
T get(const nb::dict& d, const char* key) {
  return nb::cast<T>(d[key]);
}

time_point moment(double seconds) { return time_point::at_seconds(seconds); }

/// Requests that are kept for their KV alone, where fewer run; a row of each takes four bytes for every block of the
/// longest request.
constexpr std::size_t most_aside = 1024;

/// Output tokens that a request has when the steps under way have been run, whose values are on the device.
std::int64_t expected_of(const request& r) { return r.known + r.state().expected; }

/// The ids of a row's blocks from `begin` on, as the runner takes them. Its block 0 is nobody's: it stands for those
/// that a window has passed.
nb::object ids_from(const row_of_group& row, std::size_t begin) {
  nb::object list = stolen(PyList_New(static_cast<Py_ssize_t>(row.blocks.size() - begin)));
  for (std::size_t i = begin; i != row.blocks.size(); ++i) {
    const unsigned long id = i < row.first ? 0UL : row.blocks[i] + 1UL;
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i - begin), PyLong_FromUnsignedLong(id));
  }
  return list;
}

/// Has the requests fetched that come next in a pass over the plan.
void look_ahead(const plan& p, std::size_t i) noexcept {
  if (i + 8 < p.size()) p[i + 8].request->prefetch();
  if (i + 4 < p.size()) p[i + 4].request->prefetch_targets();
}

}  // namespace

vocabulary::vocabulary(const nb::dict& d)
    : output{nb::object(d["output"])},
      status_running{d["status_running"]},
      status_preempted{d["status_preempted"]},
      status_stopped{d["status_stopped"]},
      status_length{d["status_length"]},
      reason_stop{d["reason_stop"]},
      reason_length{d["reason_length"]},
      reason_repetition{d["reason_repetition"]},
      repeats{d["repeats"]},
      requests{nb::cast<nb::dict>(d["requests"])} {}

core::core(const std::string& policy, const nb::dict& options, const nb::dict& words) : words_{words} {
  const auto whole = [&](const char* key) { return get<std::int64_t>(options, key); };
  const auto size = [&](const char* key) {
    const auto n = whole(key);
    if (n < 1) throw nb::value_error((std::string{key} + " must be at least 1").c_str());
    return n;
  };
  // More than memory has room for. Where adapters are told apart, the queue has two pointers for each; pages that are
  // never touched cost nothing.
  constexpr std::size_t most_waiting = std::size_t{1} << 22U;
  settings_.limits = {.requests = most_waiting,
                      .blocks = static_cast<std::size_t>(size("blocks")),
                      .block_size = ts::tokens{size("block_size")},
                      .residents = static_cast<std::size_t>(size("residents")),
                      .max_length = ts::tokens{size("max_model_len")},
                      .plans_in_flight = static_cast<std::size_t>(size("plans_in_flight"))};
  max_model_len_ = whole("max_model_len");
  settings_.caching = get<bool>(options, "caching");
  settings_.chunked_prefill = get<bool>(options, "chunked_prefill");
  settings_.watermark = get<double>(options, "watermark");
  second_runner_ = get<bool>(options, "second_runner");
  whole_at_end_ = get<bool>(options, "whole_at_end");
  lookahead_ = whole("lookahead");
  drafts_are_known_ = settings_.limits.plans_in_flight == 1;
  drafts_ = stolen(PyDict_New());
  for (const std::int64_t window : get<std::vector<std::int64_t>>(options, "windows")) {
    settings_.windows.emplace_back(window);
    if (window < 0 || window == 2) throw nb::value_error("a window is of 1 token or of more than 2; 0: none");
  }
  if (settings_.windows.empty() || settings_.windows.size() > most_groups) throw nb::value_error("too many groups");
  settings_.in_chunks.resize(settings_.windows.size());
  for (const auto group : get<std::vector<std::size_t>>(options, "in_chunks")) settings_.in_chunks.at(group) = true;
  if (!settings_.chunked_prefill && !(settings_.windows.size() == 1 && settings_.windows[0] == ts::tokens{})) {
    throw nb::value_error("windows are for prompts in chunks");
  }
  settings_.batch = settings_.limits.residents;
  settings_.transfers = get<bool>(options, "transfers");
  if (settings_.transfers) {
    if (settings_.limits.plans_in_flight != 1) throw nb::value_error("transfers are for one step in flight");
    // Beside those who run, such whose KV comes or is being fetched: each has a block at least.
    settings_.limits.residents += std::min(settings_.limits.blocks, std::max(settings_.batch, most_aside));
    settings_.limits.deadlines = settings_.limits.residents;
  }
  loads_ = nb::list();
  settings_.tells = get<bool>(options, "tells");
  settings_.adapters = static_cast<std::size_t>(whole("adapters"));
  if (lookahead_ < 0 || settings_.adapters > most_adapters) throw nb::value_error("lookahead or adapters out of range");
  nb::list places;
  for (std::int64_t i = 0; i != lookahead_; ++i) places.append(-1);
  no_guesses_ = std::move(places);
  root_ = ts::kv::hash_root(get<std::uint64_t>(options, "secret"));
  const auto optional = [&](const char* key, auto& value) {
    if (options.contains(key)) value = nb::cast<std::remove_reference_t<decltype(value)>>(options[key]);
  };
  optional("threshold", settings_.threshold);
  optional("pace", settings_.pace);
  optional("margin", settings_.margin);
  optional("prompt_pace", settings_.prompt_pace);
  optional("move_pace", settings_.move_pace);
  optional("slice", settings_.slice);
  optional("quantum", settings_.quantum);
  optional("demote_above", settings_.demote_above);
  optional("young_quanta", settings_.young_quanta);
  optional("fewest_quanta_first", settings_.fewest_quanta_first);
  optional("prompt_cost", settings_.prompt_cost);
  optional("output_cost", settings_.output_cost);
  if (options.contains("weights")) {
    const auto weights = get<std::vector<std::int64_t>>(options, "weights");
    if (weights.size() > tenants) throw nb::value_error("more weights than tenants can be told apart");
    std::copy(weights.begin(), weights.end(), settings_.weights.begin());
  }
  paces_ = policy == "due_first" || policy == "pascal_paced";
  ranks_prefills_ = policy == "shortest_prefill";
  planner_.is = make_planner(policy, settings_);
  if (planner_.is == nullptr) throw nb::value_error(("unknown policy " + policy).c_str());
}

core::~core() { close(); }

/// For each group the ids of an entry's blocks: of all, or of those that are new; then None if there are none.
nb::object core::ids_of(const ts::scheduled<request>& e, bool all) const {
  if (!all && e.new_blocks == 0) return nb::none();
  const auto groups = static_cast<Py_ssize_t>(settings_.windows.size());
  nb::object tuple = stolen(PyTuple_New(groups));
  for (Py_ssize_t g = 0; g != groups; ++g) {
    const row_of_group row = planner_->row(static_cast<std::size_t>(g), e.row, e.new_blocks);
    const std::size_t begin = all ? 0 : row.blocks.size() - row.fresh;
    PyTuple_SET_ITEM(tuple.ptr(), g, ids_from(row, begin).release().ptr());
  }
  return tuple;
}

void core::close() {
  if (planner_.is == nullptr) return;
  while (!in_flight_.empty()) {
    outcomes_.assign(in_flight_.front().size(), ts::outcome{});
    settle_oldest(0);
  }
  for (request& r : slots_) {
    if (ts::is_live(r.state().life)) (void)planner_->cancel(r);
    // Nobody writes to its blocks any more, and it must not stay in a line that outlives it.
    if (ts::is_live(r.state().life)) (void)planner_->arrived(r, ts::tokens{});
    r.release();
  }
  free_.clear();
  live_ = 0;
  slots_.clear();
  planner_.is.reset();
  leaving_.clear();
  standing_.clear();
  arrived_.clear();
  batch_.clear();
}

request& core::at(std::uint32_t slot) {
  if (slot >= slots_.size() || slots_[slot].id == nullptr) throw nb::index_error("no request has this slot");
  return slots_[slot];
}
const request& core::at(std::uint32_t slot) const {
  if (slot >= slots_.size() || slots_[slot].id == nullptr) throw nb::index_error("no request has this slot");
  return slots_[slot];
}

request& core::fresh_slot() {
  if (free_.empty()) {
    request& r = slots_.emplace_back();
    r.slot = static_cast<std::uint32_t>(slots_.size() - 1);
    return r;
  }
  request& r = slots_[free_.back()];
  free_.pop_back();
  r.place = 0;
  r.last_step = 0;
  r.known = 0;
  r.dead = r.known_to_runner = false;
  r.has_news = true;
  r.hashes.clear();
  r.drafts = {};
  return r;
}

nb::object core::submit(nb::handle object, const nb::dict& description, double now) {
  const auto prompt = get<std::int64_t>(description, "prompt");
  nb::object everything = description["all_token_ids"];
  nb::object output = description["output_token_ids"];
  if (!PyList_Check(everything.ptr()) || !PyList_Check(output.ptr()) || PyList_GET_SIZE(everything.ptr()) < prompt) {
    throw nb::value_error("all_token_ids and output_token_ids must be lists, and the first hold the prompt");
  }
  // The longest output that the blocks allow: who asks for more may end before.
  const std::int64_t room = std::min(max_model_len_ - prompt, planner_->longest().count() + 1 - prompt);
  if (room < 1) return nb::cast("never_fits");

  const auto max_tokens = get<std::int64_t>(description, "max_tokens");
  nb::object id = description["id"];

  request& r = fresh_slot();
  // Given back if it is refused, or if something of what is described is no number that fits.
  struct unless_submitted {
    core& of;
    request* r;
    ~unless_submitted() {
      if (r == nullptr) return;
      of.forget_names(*r);
      of.free_.push_back(r->slot);
    }
  } slot{*this, &r};
  r.prompt = ts::tokens{prompt};
  r.max_output = ts::tokens{std::clamp<std::int64_t>(max_tokens, 1, room)};
  r.longest = static_cast<std::int32_t>(std::clamp<std::int64_t>(max_tokens, 1, std::int32_t{1} << 30U));
  r.priority = get<int>(description, "priority");
  r.arrival = get<double>(description, "arrival");
  if (std::isnan(r.arrival)) throw nb::value_error("an arrival time is a number");
  r.score = get<float>(description, "score");
  r.expected_output = ts::tokens{get<std::int64_t>(description, "expected_output")};
  r.starts_in = get<bool>(description, "reasons") ? ts::phase::reasoning : ts::phase::answering;
  r.end_of_reasoning = get<std::int64_t>(description, "end_of_reasoning");
  r.eos = get<std::int64_t>(description, "eos");
  r.stops = get<std::vector<std::int64_t>>(description, "stops");
  r.client = get<std::int32_t>(description, "client");
  r.tenant = std::min(get<std::uint32_t>(description, "tenant"), static_cast<std::uint32_t>(tenants - 1));
  r.adapter = get<std::uint32_t>(description, "adapter");
  r.has_stops = !r.stops.empty();
  r.watched = get<bool>(description, "watched");
  r.repetitive = get<bool>(description, "repetitive");
  r.transfers = settings_.transfers && get<bool>(description, "transfers");
  r.loading = false;
  r.hashes_tokens = settings_.caching && get<bool>(description, "caches");
  r.pacer = ts::token_pacer{{.tpot = ts::duration{settings_.pace}}};
  const auto block_size = static_cast<std::size_t>(settings_.limits.block_size.count());
  r.recent.clear();
  if (r.hashes_tokens) {
    const auto salt = get<std::uint64_t>(description, "salt");
    r.chain = salt == 0 ? root_ : ts::kv::hash_root(root_ ^ salt);
    for (std::int64_t i = 0; i != prompt; ++i) {
      r.recent.push_back(static_cast<std::int32_t>(value_of(PyList_GET_ITEM(everything.ptr(), i))));
      if (r.recent.size() != block_size) continue;
      close_block(r);
      r.recent.clear();
    }
    r.till_full = static_cast<std::uint32_t>(block_size - r.recent.size());
  }
  if (ranks_prefills_) r.score = static_cast<float>((r.prompt - planner_->cached(r)).count());
  r.written = static_cast<std::uint32_t>(r.recent.size());
  // Most outputs are known to be short; for the others it grows.
  r.recent.reserve(r.recent.size() + static_cast<std::size_t>(std::min<std::int64_t>(max_tokens, 512)));
  const ts::status refusal = planner_->submit(r, moment(now));
  if (refusal != ts::status::accepted) return nb::cast(ts::to_string(refusal));
  slot.r = nullptr;
  r.id = id.release().ptr();
  r.object = nb::borrow(object).release().ptr();
  r.output = output.release().ptr();
  r.everything = everything.release().ptr();
  ++live_;
  return number(r.slot);
}

void core::load(std::uint32_t slot, std::int64_t n) {
  if (planner_->loading(at(slot), ts::tokens{n}) != ts::status::ok) {
    throw std::runtime_error("only the KV of a part of one that waits can come from elsewhere");
  }
}

void core::arrived(std::uint32_t slot, std::int64_t n) {
  request& r = at(slot);
  const bool is_here = std::any_of(arrived_.begin(), arrived_.end(), [&](const arrival& a) { return a.who == &r; });
  if (!r.loading || is_here) throw std::runtime_error("KV has arrived that was not on its way");
  arrived_.push_back({&r, ts::tokens{n}});
  sweep();
}

/// Who has its KV goes on, or ends if it is to.
void core::let_in(const arrival& a) {
  request& r = *a.who;
  if (planner_->arrived(r, a.there) != ts::status::ok) throw std::runtime_error("KV has arrived and is of no use");
  r.loading = false;
  --loading_;
  if (r.dead) --unwanted_;
}

nb::object core::drain(std::uint32_t slot) {
  request& r = at(slot);
  std::uint64_t ticket = 0;
  if (!r.dead || planner_->drain(r, ticket) != ts::status::ok) {
    let_go(slot);
    return nb::none();
  }
  bury(r);
  return nb::cast(ticket);
}

void core::drained(std::uint64_t ticket) {
  if (planner_->drained(ticket) != ts::status::ok) throw std::runtime_error("nobody holds blocks by this ticket");
}

void core::let_go(std::uint32_t slot) {
  request& r = at(slot);
  if (ts::is_live(r.state().life) && planner_->finish(r) != ts::status::ok) {
    throw std::runtime_error("a request that has ended cannot leave");
  }
  bury(r);
}

nb::list core::events() {
  note_events();
  nb::list all = told_;
  told_ = nb::list();
  return all;
}

/// Before anybody's slot is given back: events name blocks, and requests know what is in them.
void core::note_events() {
  told_events* const events = settings_.tells ? planner_->events() : nullptr;
  if (events == nullptr) return;
  using kind = told_events::event::kind;
  const auto size = static_cast<std::size_t>(settings_.limits.block_size.count());
  for (const told_events::event& e : events->waiting()) {
    if (e.what == kind::cleared) {
      told_.append(nb::make_tuple("cleared"));
      continue;
    }
    if (!e.block.only) continue;
    if (e.what == kind::removed) {
      told_.append(nb::make_tuple("removed", e.block.hash));
      continue;
    }
    request& r = filler_of(e.block);
    write_tokens(r);
    const auto first = static_cast<Py_ssize_t>(e.block.depth * size);
    nb::object tokens = stolen(PyList_GetSlice(r.everything, first, first + static_cast<Py_ssize_t>(size)));
    nb::object parent = e.block.depth == 0 ? nb::none() : nb::cast(e.block.parent);
    told_.append(nb::make_tuple("stored", e.block.hash, std::move(parent), std::move(tokens), nb::borrow(r.object)));
  }
  events->forget();
}

/// Who has filled a block, of those who have its tokens: the one that has it, or has had it and has ended.
request& core::filler_of(const told_events::block& b) {
  const auto first = filled_by_.lower_bound({b.hash, 0});
  if (first == filled_by_.end() || first->first != b.hash) {
    throw std::runtime_error("a block is cached that nobody has filled");
  }
  request* ended = nullptr;
  for (auto it = first; it != filled_by_.end() && it->first == b.hash; ++it) {
    request& r = at(it->second);
    if (r.state().row == ts::no_index) {
      if (ended == nullptr || r.dead) ended = &r;
      continue;
    }
    const std::span<const ts::kv::block_id> blocks = planner_->row(0, r.state().row, 0).blocks;
    if (b.depth < blocks.size() && blocks[b.depth] == b.block) return r;
  }
  return ended != nullptr ? *ended : at(first->second);
}

void core::note_loads() {
  nb::list all;
  for (const auto& l : plan_.load) {
    request& r = *l.request;
    r.loading = true;
    ++loading_;
    const row_of_group row = planner_->row(0, r.state().row, 0);
    all.append(nb::make_tuple(nb::borrow(r.object), nb::make_tuple(ids_from(row, 0)), l.first));
  }
  loads_ = std::move(all);
}

void core::cancel(std::uint32_t slot) {
  request& r = at(slot);
  if (r.dead) return;
  write_tokens(r);
  r.dead = true;
  --live_;
  if (r.loading) ++unwanted_;
  (void)planner_->cancel(r);
  bury(r);
  if (r.loading) sweep();
}

void core::forget_names(const request& r) {
  if (!settings_.tells) return;
  for (const std::uint64_t name : r.hashes) filled_by_.erase({name, r.slot});
}

void core::give_back(request& r) {
  forget_names(r);
  r.release();
  free_.push_back(r.slot);
}

/// Gives the slot back, now or when the plan is settled that holds the request.
void core::bury(request& r) {
  if (ts::is_live(r.state().life)) {
    leaving_.push_back(&r);
    return;
  }
  if (settings_.tells) note_events();
  give_back(r);
}

/// Gives back the slots of those that no plan holds any more.
void core::sweep() {
  if (!arrived_.empty() && in_flight_.empty()) {
    std::erase_if(arrived_, [this](const arrival& a) { return a.who->dead && (let_in(a), true); });
  }
  if (settings_.tells && !leaving_.empty()) note_events();
  std::erase_if(leaving_, [this](request* r) {
    if (ts::is_live(r->state().life)) return false;
    give_back(*r);
    return true;
  });
}

/// The latest tokens fill a block: its name in the prefix cache.
void core::close_block(request& r) {
  const auto n = static_cast<std::size_t>(settings_.limits.block_size.count());
  r.chain = ts::kv::hash_block(r.chain, std::span{r.recent}.last(n));
  r.hashes.push_back(r.chain);
  if (settings_.tells) filled_by_.emplace(r.chain, r.slot);
  r.till_full = static_cast<std::uint32_t>(n);
}

void core::write_tokens(request& r) {
  for (; r.written != r.recent.size(); ++r.written) {
    const nb::object value = number(r.recent[r.written]);
    append(r.output, value);
    append(r.everything, value);
  }
}
void core::write_tokens(std::uint32_t slot) { write_tokens(at(slot)); }

/// Whether a token ends a request, by vLLM's rules and in their order. That a minimum is kept is the sampler's
/// business.
core::ending core::ending_of(const request& r, std::int64_t token) const {
  if (token == r.eos) return ending::end_of_sequence;
  if (r.has_stops && std::find(r.stops.begin(), r.stops.end(), token) != r.stops.end()) return ending::stop_token;
  if (r.known >= r.longest || r.prompt.count() + r.known >= max_model_len_) return ending::length;
  return ending::none;
}

/// Lets residents that still compute their prompts stand aside, or go on.
void core::hold_prefills(bool defer) {
  for (request* r : standing_) {
    if (r->state().life == ts::lifecycle::suspended) (void)planner_->resume(*r);
  }
  standing_.clear();
  if (!defer) return;
  for (request* r : planner_->residents()) {
    if (r->state().length - r->state().computed > ts::tokens{1}) standing_.push_back(r);
  }
  if (standing_.size() == planner_->residents().size()) standing_.clear();  // nobody decodes: nothing to wait for
  for (request* r : standing_) (void)planner_->suspend(*r);
}

nb::tuple core::schedule(double now, std::int64_t budget, std::int64_t max_chunk, bool admit, bool defer_prefills) {
  if (in_flight_.size() == settings_.limits.plans_in_flight) {
    throw std::runtime_error("as many steps as can be are under way: an output must come before the next is planned");
  }
  // Not just after another step was planned; those who stand aside do so for one more.
  if (!open_ && (defer_prefills || !standing_.empty())) hold_prefills(defer_prefills);
  const bool holds = defer_prefills && (planner_->residents().size() > 0);
  std::size_t starts = admit && !holds ? ~std::size_t{0} : 0;
  if (settings_.transfers) {
    // What there is room for beside the batch is for KV that comes and goes: the runner has no place for more.
    const auto places = [this] {
      return settings_.batch - std::min(settings_.batch, planner_->residents().size() + standing_.size());
    };
    // Those who run may lack blocks that these hold, and nobody else can give them any.
    if (!arrived_.empty() && places() == 0 && plan_.empty() && standing_.empty()) {
      request& last = *planner_->residents().back();
      lose(last);
      given_up_.push_back(&last);
    }
    auto next = arrived_.begin();
    while (next != arrived_.end() && places() != 0) let_in(*next++);
    arrived_.erase(arrived_.begin(), next);
    starts = std::min(starts, places());
  }
  plan_ = planner_->next(moment(now), {.max_batch = settings_.batch,
                                       .token_budget = ts::tokens{budget},
                                       .max_chunk = ts::tokens{max_chunk},
                                       .lookahead = ts::tokens{lookahead_},
                                       .max_starts = starts});
  in_flight_.push_back(plan_);
  if (settings_.transfers) note_loads();
  open_ = true;
  ++step_;
  nb::tuple result = repeats_last_step() ? hand_out_same() : hand_out_anew();
  if (plan_.empty() && in_flight_.size() == 1) {
    // Were it so, nobody would ever run again: say it instead of going round in circles.
    const bool stuck = admit && !holds && planner_->waiting() != 0 && running() == 0 && plan_.preempted.empty() &&
                       plan_.outgrown.empty() && leaving_.empty() && loading_ == 0 && planner_->draining() == 0;
    settle_empty(now);
    if (stuck) throw std::runtime_error("requests wait and none can start on an empty instance");
  }
  return result;
}

/// With the outcomes that there are.
void core::settle_oldest(double now) {
  if (planner_->commit(in_flight_.front(), outcomes_, moment(now)) != ts::status::ok) {
    throw std::runtime_error("the step was refused: it is not the one that was planned");
  }
  in_flight_.pop_front();
  open_ = false;
}

/// Steps that nothing runs in are settled when those before them are: no output is waited for.
void core::settle_empty(double now) {
  while (!in_flight_.empty() && in_flight_.front().empty()) {
    outcomes_.clear();
    settle_oldest(now);
  }
  sweep();
}

/// The requests of the latest step decode once more, in the same order, and nothing else happens.
bool core::repeats_last_step() const {
  const std::size_t n = plan_.decode.size();
  if (!only_decodes_ || lookahead_ != 0 || n == 0 || n != batch_.size() || !plan_.prefill.empty() ||
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
  const auto n = static_cast<Py_ssize_t>(plan_.decode.size());
  nb::object blocks = stolen(PyList_New(n));
  nb::object computed = stolen(PyList_New(n));
  nb::object outputs = stolen(PyList_New(n));
  for (Py_ssize_t i = 0; i != n; ++i) {
    const ts::scheduled<request>& e = plan_.decode[static_cast<std::size_t>(i)];
    request& r = *e.request;
    PyList_SET_ITEM(blocks.ptr(), i, ids_of(e, false).release().ptr());
    PyList_SET_ITEM(computed.ptr(), i, number(e.first.count()).release().ptr());
    PyList_SET_ITEM(outputs.ptr(), i, number(expected_of(r)).release().ptr());
    r.last_step = step_;
  }
  return hand_out({}, stolen(PySet_New(nullptr)), stolen(PyDict_New()), std::move(blocks), std::move(computed),
                  std::move(outputs), stolen(PySet_New(nullptr)));
}

/// Makes the latest step's dict and list of ids this step's, where those who go on do so in the same order: takes out
/// who has left. What is left of the batch is the beginning of the plan. False: they are to be made anew.
bool core::carry_over() {
  if (batch_.empty() || PyDict_GET_SIZE(counts_.ptr()) != static_cast<Py_ssize_t>(batch_.size())) return false;
  const std::size_t most_gone = 8 + batch_.size() / 16;
  gone_.clear();
  std::size_t at = 0;
  bool joins = false;
  bool in_order = true;  // who is listed stands before who is not: at the same place in the list
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

  // Who still has those of the latest step keeps them as they are.
  if (Py_REFCNT(counts_.ptr()) != 1) counts_ = stolen(PyDict_Copy(counts_.ptr()));
  if (Py_REFCNT(ids_.ptr()) != 1) ids_ = stolen(PyList_GetSlice(ids_.ptr(), 0, PyList_GET_SIZE(ids_.ptr())));
  std::for_each(gone_.rbegin(), gone_.rend(), [this](std::size_t i) {
    const auto place = static_cast<Py_ssize_t>(i);
    if (PyDict_DelItem(counts_.ptr(), batch_[i].id.ptr()) != 0) throw nb::python_error();
    if (batch_[i].listed && PyList_SetSlice(ids_.ptr(), place, place + 1, nullptr) != 0) throw nb::python_error();
    batch_.erase(batch_.begin() + static_cast<std::ptrdiff_t>(i));
  });
  return true;
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
  drafted_ = 0;
  nb::list fresh;
  nb::object resumed = stolen(PySet_New(nullptr));
  nb::object all_tokens = stolen(PyDict_New());
  nb::object blocks = stolen(PyList_New(known));
  nb::object computed = stolen(PyList_New(known));
  nb::object outputs = stolen(PyList_New(known));
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
    if (r.watched) set(r.object, names().is_prefill_chunk, nb::bool_(!e.samples));
    // Whose KV has arrived goes on, and the runner has not heard of it.
    const bool comes = e.origin != ts::entry_origin::going_on || !r.known_to_runner;
    if (comes) {
      set(r.object, names().status, words_.status_running);
      r.has_news = true;
      // What Python has to say about those who start: few in a step.
      write_tokens(r);
      fresh.append(nb::make_tuple(nb::borrow(r.object), ids_of(e, true), e.first.count(), r.known_to_runner,
                                  r.state().length.count()));
    }
    if (!is_news(e)) {
      if (comes && PySet_Add(resumed.ptr(), r.id) != 0) throw nb::python_error();
      nb::object mine = ids_of(e, comes);
      if (!m.listed) append(ids_, nb::handle(r.id));
      m.listed = true;
      PyList_SET_ITEM(blocks.ptr(), at, mine.release().ptr());
      PyList_SET_ITEM(computed.ptr(), at, number(e.first.count()).release().ptr());
      PyList_SET_ITEM(outputs.ptr(), at, number(expected_of(r)).release().ptr());
      ++at;
      if (!second_runner_ && (comes || r.last_step + 1 != step_)) {
        // Who was not in the step before is not in the runner's batch any more.
        write_tokens(r);
        nb::object copy = stolen(PyList_GetSlice(r.everything, 0, PyList_GET_SIZE(r.everything)));
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

void core::forget_drafts(request& r) noexcept {
  r.drafts = {};
  Py_CLEAR(r.guesses);
}

/// What a request verifies in this step, and what it may in the next.
void core::hand_out_drafts(request& r, const ts::scheduled<request>& e) {
  if (e.lookahead > ts::tokens{}) {
    drafted_ += e.lookahead.count();
    const nb::handle all = drafts_are_known_ ? nb::handle(r.guesses) : no_guesses_;
    const nb::object mine = stolen(PyList_GetSlice(all.ptr(), 0, e.lookahead.count()));
    if (PyDict_SetItem(drafts_.ptr(), r.id, mine.ptr()) != 0) throw nb::python_error();
  }
  forget_drafts(r);
  // The runner drafts for all who sample.
  if (!drafts_are_known_ && e.samples) r.drafts = ts::tokens{lookahead_};
}

void core::take_drafts(nb::handle slot_of, nb::handle req_ids, nb::handle guesses) {
  if (!PyDict_Check(slot_of.ptr()) || !PyList_Check(req_ids.ptr()) || !PyList_Check(guesses.ptr()) ||
      PyList_GET_SIZE(req_ids.ptr()) != PyList_GET_SIZE(guesses.ptr())) {
    throw nb::type_error("drafts are lists of ids and of lists of tokens");
  }
  if (!drafts_are_known_) return;
  for (Py_ssize_t i = 0; i != PyList_GET_SIZE(req_ids.ptr()); ++i) {
    PyObject* slot = PyDict_GetItemWithError(slot_of.ptr(), PyList_GET_ITEM(req_ids.ptr(), i));
    PyObject* mine = PyList_GET_ITEM(guesses.ptr(), i);
    if (slot == nullptr || !PyList_Check(mine)) continue;  // it has ended
    request& r = at(static_cast<std::uint32_t>(value_of(slot)));
    forget_drafts(r);
    const auto& s = r.state();
    const bool decodes = s.life == ts::lifecycle::resident || s.life == ts::lifecycle::suspended;
    if (!decodes || s.length - s.computed != ts::tokens{1}) continue;
    r.drafts = ts::tokens{PyList_GET_SIZE(mine)};
    r.guesses = nb::borrow(mine).release().ptr();
  }
}

/// The tokens that the runner has returned for a request of the step, which samples. Throws if they are none.
PyObject* core::answer_of(request& r, const ts::scheduled<request>& e, nb::handle index_of, nb::handle req_ids,
                          nb::handle sampled) {
  const Py_ssize_t answers = PyList_GET_SIZE(sampled.ptr());
  if (r.place >= PyList_GET_SIZE(req_ids.ptr()) || PyList_GET_ITEM(req_ids.ptr(), r.place) != r.id) {
    PyObject* place = PyDict_GetItemWithError(index_of.ptr(), r.id);
    if (place == nullptr) throw std::runtime_error("the runner's output lacks it");
    const std::int64_t at = value_of(place);
    r.place = 0 <= at && at < answers ? static_cast<std::int32_t>(at) : std::numeric_limits<std::int32_t>::max();
  }
  PyObject* got = r.place < answers ? PyList_GET_ITEM(sampled.ptr(), r.place) : nullptr;
  if (got == nullptr || !PyList_Check(got))
    throw std::runtime_error("the runner's output has no list of tokens for it");
  const Py_ssize_t n = PyList_GET_SIZE(got);
  if (n < 1) throw std::runtime_error("the runner returned no token for it");
  if (n > 1 + e.lookahead.count()) throw std::runtime_error("the runner returned more tokens than it was asked for");
  for (Py_ssize_t i = 0; i != n; ++i) {
    const std::int64_t token = value_of(PyList_GET_ITEM(got, i));
    if (token < 0 || token > std::numeric_limits<std::int32_t>::max()) {
      throw std::runtime_error("the runner returned " + std::to_string(token) + ", which is no token");
    }
  }
  return got;
}

/// Takes tokens of a request in, and makes the output that reports them. What comes after its end is cut off.
nb::object core::take_output(request& r, PyObject* got, double now, ts::outcome& o) {
  ending end = ending::none;
  const Py_ssize_t n = PyList_GET_SIZE(got);
  Py_ssize_t taken = 0;
  while (taken != n && end == ending::none) {
    const std::int64_t token = value_of(PyList_GET_ITEM(got, taken++));
    ++r.known;
    r.recent.push_back(static_cast<std::int32_t>(token));
    if (r.watched) write_tokens(r);
    if (r.hashes_tokens && --r.till_full == 0) close_block(r);
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
      set(r.object, names().stop_reason, PyList_GET_ITEM(got, taken - 1));
      set(output.ptr(), names().stop_reason, PyList_GET_ITEM(got, taken - 1));
    }
  }
  return output;
}

nb::tuple core::update(nb::handle index_of, nb::handle req_ids, nb::handle sampled, double now) {
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
  std::int32_t client = -1;
  PyObject* outputs = nullptr;  // of that client; by_client holds it
  for (std::size_t i = 0; i != n; ++i) {
    look_ahead(ran_plan, i);
    const ts::scheduled<request>& e = ran_plan[i];
    request& r = *e.request;
    if (r.dead || !e.samples) continue;
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
  settle_empty(now);
  return all();
}

/// A resident's KV is lost, or taken from it; it waits again.
void core::lose(request& r) {
  if (planner_->preempt(r) != ts::status::ok) throw std::runtime_error("a resident could not be preempted");
  set(r.object, names().status, words_.status_preempted);
  set(r.object, names().num_preemptions, number(r.state().preemptions));
  r.has_news = true;
  forget_drafts(r);
}

nb::object core::reset() {
  if (pending()) return nb::none();
  hold_prefills(false);
  for (const arrival& a : arrived_) let_in(a);
  arrived_.clear();
  nb::list gone;
  const auto residents = planner_->residents();
  // Each call changes the span.
  const std::vector<request*> all{residents.begin(), residents.end()};
  for (request* r : all) {
    lose(*r);
    gone.append(nb::borrow(r->object));
  }
  if (planner_->forget_prefixes() != ts::status::ok) throw std::runtime_error("the prefixes could not be forgotten");
  only_decodes_ = false;
  return gone;
}

std::size_t core::running() const {
  const std::size_t aside = planner_->suspended() - std::min(planner_->suspended(), loading_);
  if (!open_) return planner_->residents().size() + aside;
  std::size_t n = aside;
  for (const request* r : planner_->residents()) n += r->dead ? 0 : 1;
  for (const ts::preemption<request>& p : plan_.preempted) n -= p.request->dead ? 0 : 1;
  for (std::size_t i = 0; i != plan_.size(); ++i) {
    n += plan_[i].origin != ts::entry_origin::going_on && !plan_[i].request->dead ? 1 : 0;
  }
  return n;
}

double core::usage() const {
  // As vLLM computes it, to the last bit.
  const auto all = static_cast<double>(settings_.limits.blocks);
  return 1.0 - (all - static_cast<double>(planner_->held().count())) / all;
}

std::string core::why(std::uint32_t slot) const { return ts::to_string(planner_->why(at(slot))); }

std::vector<std::uint32_t> core::blocks_of(std::uint32_t slot) const {
  const request& r = at(slot);
  if (r.state().row == ts::no_index) return {};
  const auto row = planner_->row(0, r.state().row, 0).blocks;
  return {row.begin(), row.end()};
}

}  // namespace tessera_python
