// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "core.hpp"
#include "objects.hpp"

#include <tessera/kv/group_lookup.hpp>
#include <tessera/kv/hash_chain.hpp>

#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string_view>

namespace tessera_python {
namespace {

/// Requests that are kept for their KV alone, where fewer run; a row of each takes four bytes for every block of the
/// longest request.
constexpr std::size_t most_aside = 1024;

/// A ticket of a request that has ended while a further step under way has it: the rest of it is its slot.
constexpr std::uint64_t by_slot = std::uint64_t{1} << 63U;

/// Calls `f(name, value)` for each setting that can be changed while requests run.
template <class F>
void settable(settings& s, F&& f) {
  f("prefill_budget", s.prefill_budget);
  f("step_s", s.step_s);
  f("threshold", s.threshold);
  f("pace", s.pace);
  f("margin", s.margin);
  f("prompt_pace", s.prompt_pace);
  f("move_pace", s.move_pace);
  f("slice", s.slice);
  f("quantum", s.quantum);
  f("demote_above", s.demote_above);
  f("young_quanta", s.young_quanta);
}

}  // namespace

vocabulary::vocabulary(const nb::dict& d)
    : output{nb::object(d["output"])},
      status_waiting{d["status_waiting"]},
      status_loading{d["status_loading"]},
      status_running{d["status_running"]},
      status_preempted{d["status_preempted"]},
      status_stopped{d["status_stopped"]},
      status_length{d["status_length"]},
      reason_stop{d["reason_stop"]},
      reason_length{d["reason_length"]},
      reason_repetition{d["reason_repetition"]},
      repeats{d["repeats"]},
      asks{d["asks"]},
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
                      .plans_in_flight = static_cast<std::size_t>(size("plans_in_flight")),
                      .plans_apart = static_cast<std::size_t>(size("plans_apart"))};
  max_model_len_ = whole("max_model_len");
  settings_.caching = get<bool>(options, "caching");
  settings_.chunked_prefill = get<bool>(options, "chunked_prefill");
  settings_.watermark = get<double>(options, "watermark");
  second_runner_ = get<bool>(options, "second_runner");
  whole_at_end_ = get<bool>(options, "whole_at_end");
  sends_tokens_ = get<bool>(options, "sends_tokens");
  new_tokens_ = nb::list();
  lookahead_ = whole("lookahead");
  settings_.limits.slots_ahead = ts::tokens{whole("slots_ahead")};
  const std::int64_t ahead = whole("hash_lookahead");
  if (settings_.limits.slots_ahead < ts::tokens{} || ahead < 0) {
    throw nb::value_error("slots_ahead and hash_lookahead must not be negative");
  }
  hash_lookahead_ = static_cast<std::size_t>(ahead);
  settings_.least_left = ts::tokens{whole("prompt_ahead")};
  drafts_of_batch_ = get<std::vector<std::int64_t>>(options, "drafts_of_batch");
  settings_.pads = lookahead_ != 0 && drafts_of_batch_.empty();
  drafts_are_known_ = settings_.limits.plans_in_flight == 1;
  drafts_ = stolen(PyDict_New());
  for (const std::int64_t window : get<std::vector<std::int64_t>>(options, "windows")) {
    settings_.windows.emplace_back(window);
    if (window < 0) throw nb::value_error("a window is of 1 token at least; 0: none");
  }
  if (settings_.windows.empty() || settings_.windows.size() > most_groups) throw nb::value_error("too many groups");
  settings_.spare = get<std::vector<std::size_t>>(options, "spare");
  settings_.spare.resize(settings_.windows.size());
  settings_.in_chunks.resize(settings_.windows.size());
  for (const auto group : get<std::vector<std::size_t>>(options, "in_chunks")) settings_.in_chunks.at(group) = true;
  const std::size_t groups = settings_.windows.size();
  for (const std::int64_t n : get<std::vector<std::int64_t>>(options, "block_sizes")) {
    settings_.block_sizes.emplace_back(n);
    if (n < 1) throw nb::value_error("a block is of 1 token at least");
  }
  if (settings_.block_sizes.empty()) settings_.block_sizes.assign(groups, settings_.limits.block_size);
  note_sizes();
  tables_ = get<std::vector<std::size_t>>(options, "tables");
  if (tables_.empty()) tables_.assign(groups, 1);
  zeroed_.resize(tables_.size());
  for (const auto group : get<std::vector<std::size_t>>(options, "zeroed")) zeroed_.at(group) = zeroes_ = true;
  if (settings_.block_sizes.size() != groups || std::reduce(tables_.begin(), tables_.end()) != groups ||
      std::count(tables_.begin(), tables_.end(), 0U) != 0) {
    throw nb::value_error("each group has a size of its blocks, and a place among the tables");
  }
  if (!settings_.chunked_prefill && !(settings_.windows.size() == 1 && settings_.windows[0] == ts::tokens{})) {
    throw nb::value_error("windows are for prompts in chunks");
  }
  settings_.batch = settings_.limits.residents;
  settings_.transfers = get<bool>(options, "transfers");
  settings_.stores = get<bool>(options, "stores");
  if (settings_.transfers) {
    // Besides the running requests there are those with KV that comes or is being fetched: each has a block at least.
    settings_.limits.residents += std::min(settings_.limits.blocks, std::max(settings_.batch, most_aside));
    settings_.limits.deadlines = settings_.limits.residents;
  }
  loads_ = nb::list();
  lost_ = nb::list();
  to_zero_ = nb::none();
  settings_.tells = get<bool>(options, "tells");
  settings_.encoder_budget = ts::tokens{whole("encoder_budget")};
  settings_.encoder_cache = ts::tokens{whole("encoder_cache")};
  settings_.longest_input = ts::tokens{whole("longest_input")};
  settings_.adapters = static_cast<std::size_t>(whole("adapters"));
  if (lookahead_ < 0 || settings_.adapters > most_adapters) throw nb::value_error("lookahead or adapters out of range");
  nb::list places;
  for (std::int64_t i = 0; i != lookahead_; ++i) places.append(-1);
  no_guesses_ = std::move(places);
  root_ = ts::kv::hash_root(get<std::uint64_t>(options, "secret"));
  const auto optional = [&](const char* key, auto& value) {
    if (options.contains(key)) value = nb::cast<std::remove_reference_t<decltype(value)>>(options[key]);
  };
  settable(settings_, optional);
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
  return ids_of(e.row, e.new_blocks, all);
}

/// The same for a row, of which `fresh` blocks are new.
nb::object core::ids_of(std::uint32_t of, std::size_t fresh, bool all) const {
  nb::object tuple = stolen(PyTuple_New(static_cast<Py_ssize_t>(tables_.size())));
  std::size_t g = 0;
  for (std::size_t t = 0; t != tables_.size(); ++t) {
    const auto ids_of_next = [&] {
      const row_of_group row = planner_->row(g++, of, fresh);
      return ids_from(row, all ? 0 : row.blocks.size() - row.fresh);
    };
    nb::object ids = ids_of_next();
    for (std::size_t more = tables_[t]; more != 1; --more) {
      ids = stolen(PySequence_InPlaceConcat(ids.ptr(), ids_of_next().ptr()));
    }
    NB_TUPLE_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(t), ids.release().ptr());
  }
  return tuple;
}

/// Blocks that were computed neither by this request before nor by another for it: the runner makes them zero.
void core::note_zeroed(const ts::scheduled<request>& e, bool comes) {
  if (!zeroes_ || (!comes && e.new_blocks == 0)) return;
  std::size_t g = 0;
  for (std::size_t t = 0; t != tables_.size(); g += tables_[t++]) {
    if (!zeroed_[t]) continue;
    const row_of_group row = planner_->row(g, e.row, e.new_blocks);
    const std::size_t found = static_cast<std::size_t>(e.first / settings_.block_sizes[g]);
    const std::size_t begin = comes ? std::min(found, row.blocks.size()) : row.blocks.size() - row.fresh;
    to_zero_ = stolen(PySequence_InPlaceConcat(to_zero_.ptr(), ids_from(row, begin).ptr()));
  }
}

void core::close() {
  if (planner_.is == nullptr) return;
  while (!in_flight_.empty()) {
    outcomes_.assign(in_flight_.front().size(), ts::outcome{});
    settle_oldest(0);
  }
  for (request& r : slots_) {
    if (ts::is_live(r.state().life)) (void)planner_->cancel(r);
    // Nothing writes to its blocks any more, and it must not stay in a queue that outlives it.
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
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back().slot = free_.back();
  }
  request& r = slots_[free_.back()];
  free_.pop_back();
  r.last_step = 0;
  r.place = r.known = 0;
  r.links = 0;
  r.size_of_group = size_of_group_;
  r.hashes.resize(sizes_.size());
  for (std::vector<std::uint64_t>& of_size : r.hashes) of_size.clear();
  r.dead = r.known_to_runner = r.in_prompt = false;
  r.has_news = true;
  r.drafts = {};
  return r;
}

bool core::set_option(const std::string& name, double value) {
  bool is_known = false;
  settable(settings_, [&](std::string_view candidate, auto& setting) {
    if (candidate != name) return;
    is_known = true;
    setting = static_cast<std::remove_reference_t<decltype(setting)>>(value);
  });
  tuned_ = tuned_ || is_known;
  return is_known;
}

/// Gives the order its changed settings, and each request its place by them.
void core::retune() {
  tuned_ = planner_->tune(settings_) == ts::status::busy;
  if (tuned_) return;
  for (request& r : slots_) {
    if (r.dead || r.id == nullptr) continue;
    planner_->retune(r);
  }
}

nb::object core::submit(nb::handle object, const nb::dict& description, double now) {
  const auto prompt = get<std::int64_t>(description, "prompt");
  nb::object everything = description["all_token_ids"];
  nb::object output = description["output_token_ids"];
  if (!PyList_Check(everything.ptr()) || !PyList_Check(output.ptr()) || NB_LIST_GET_SIZE(everything.ptr()) < prompt) {
    throw nb::value_error("all_token_ids and output_token_ids must be lists, and the first hold the prompt");
  }
  // The longest output that the blocks allow: a request that asks for more may end before.
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
  r.kv_session = std::min(get<std::uint32_t>(description, "session"), caching_order::last_session);
  r.is_last_turn = get<bool>(description, "is_last_turn");
  r.keep_s = get<double>(description, "keep_s");
  r.state_hints(now, false);
  r.has_stops = !r.stops.empty();
  r.watched = get<bool>(description, "watched");
  r.repetitive = get<bool>(description, "repetitive");
  r.transfers = settings_.transfers && get<bool>(description, "transfers");
  r.loading = r.fetches = false;
  r.asked_in = r.spoilt_until = 0;
  r.hashes_tokens = settings_.caching && get<bool>(description, "caches");
  r.pacer = ts::token_pacer{{.tpot = ts::duration{settings_.pace}}};
  take_inputs(r, get<std::vector<input>>(description, "inputs"));
  r.recent.clear();
  if (r.hashes_tokens) hash_prompt(r, everything, get<std::uint64_t>(description, "salt"));
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

void core::arrived(std::uint32_t slot, std::int64_t n) {
  request& r = at(slot);
  const bool is_here = std::any_of(arrived_.begin(), arrived_.end(), [&](const arrival& a) { return a.who == &r; });
  if (!r.loading || is_here) throw std::runtime_error("KV has arrived that was not on its way");
  arrived_.push_back({&r, ts::tokens{n}});
  reclaim();
}

/// A request that has its KV goes on, or ends if it is to.
void core::admit(const arrival& a) {
  request& r = *a.who;
  if (planner_->arrived(r, a.there) != ts::status::ok) {
    throw std::runtime_error("KV arrived for a request that does not wait for it");
  }
  r.loading = false;
  --loading_;
  if (r.dead) {
    --unwanted_;
  } else if (r.state().life == ts::lifecycle::waiting) {
    note_loss(r);  // too little has come for its windows
    lost_.append(nb::borrow(r.object));
  } else {
    set(r.object, names().status, r.state().preemptions == 0 ? words_.status_waiting : words_.status_preempted);
    // As a request that starts with one token to compute.
    if (settings_.pads && r.state().length - r.state().computed == ts::tokens{1}) r.drafts = ts::tokens{lookahead_};
  }
}

nb::object core::drain(std::uint32_t slot) {
  request& r = at(slot);
  std::uint64_t ticket = 0;
  const ts::status done = r.dead ? planner_->drain(r, ticket) : ts::status::invalid;
  if (done == ts::status::busy &&
      (r.state().life == ts::lifecycle::suspended || planner_->suspend(r) == ts::status::ok)) {
    std::erase(standing_, &r);
    ++kept_;
    return nb::cast(by_slot | slot);
  }
  if (done != ts::status::ok) {
    let_go(slot);
    return nb::none();
  }
  retire(r);
  return nb::cast(ticket);
}

void core::drained(std::uint64_t ticket) {
  if ((ticket & by_slot) != 0) {
    --kept_;
    return let_go(static_cast<std::uint32_t>(ticket));
  }
  if (planner_->drained(ticket) != ts::status::ok) throw std::runtime_error("no blocks are held by this ticket");
}

void core::let_go(std::uint32_t slot) {
  request& r = at(slot);
  if (ts::is_live(r.state().life) && planner_->finish(r) != ts::status::ok) {
    throw std::runtime_error("a request that has ended cannot leave");
  }
  retire(r);
}

nb::list core::events() {
  note_events();
  nb::list all = told_;
  told_ = nb::list();
  return all;
}

/// To be called before a slot is given back: events name blocks, and requests know what is in them.
void core::note_events() {
  told_events* const events = settings_.tells ? planner_->events() : nullptr;
  if (events == nullptr) return;
  using kind = told_events::event::kind;
  for (const told_events::event& e : events->waiting()) {
    if (e.what == kind::cleared) {
      told_.append(nb::make_tuple("cleared"));
      group_of_.clear();
      continue;
    }
    if (!e.block.only) continue;
    if (e.what == kind::removed) {
      const auto known = group_of_.find(e.block.hash);
      const std::size_t group = known == group_of_.end() ? 0 : known->second;
      if (known != group_of_.end()) group_of_.erase(known);
      told_.append(nb::make_tuple("removed", ts::kv::named_in(group, e.block.hash), group));
      continue;
    }
    const auto [filler, group] = filler_of(e.block);
    if (group != 0) group_of_[e.block.hash] = group;
    write_tokens(*filler);
    nb::object parent = e.block.depth == 0 ? nb::none() : nb::cast(ts::kv::named_in(group, e.block.parent));
    told_.append(nb::make_tuple("stored", ts::kv::named_in(group, e.block.hash), group, std::move(parent),
                                e.block.depth * static_cast<std::size_t>(settings_.block_sizes[group].count()),
                                nb::borrow(filler->object)));
  }
  events->forget();
}

/// The request that has filled a block, and the group that the block is of. Several may have its tokens: it is the one
/// that has the block, or has had it and has ended.
std::pair<request*, std::size_t> core::filler_of(const told_events::block& b) {
  for (std::size_t group = 0; group != settings_.windows.size(); ++group) {
    const std::uint64_t name = ts::kv::named_in(group, b.hash);
    const auto first = filled_by_.lower_bound({name, 0});
    if (first == filled_by_.end() || first->first != name) continue;
    request* ended = nullptr;
    for (auto it = first; it != filled_by_.end() && it->first == name; ++it) {
      request& r = at(it->second);
      if (r.state().row == ts::no_index) {
        if (ended == nullptr || r.dead) ended = &r;
        continue;
      }
      const std::span<const ts::kv::block_id> blocks = planner_->row(group, r.state().row, 0).blocks;
      if (b.depth < blocks.size() && blocks[b.depth] == b.block) return {&r, group};
    }
    return {ended != nullptr ? ended : &at(first->second), group};
  }
  throw std::runtime_error("no request has filled a cached block");
}

void core::cancel(std::uint32_t slot) {
  request& r = at(slot);
  if (r.dead) return;
  write_tokens(r);
  std::erase(given_up_, &r);
  r.dead = true;
  --live_;
  if (r.loading) ++unwanted_;
  r.state_hints(now_, true);
  (void)planner_->cancel(r);
  retire(r);
  if (r.loading) reclaim();
}

void core::forget_names(const request& r) {
  if (!settings_.tells) return;
  for (const std::vector<std::uint64_t>& names : r.hashes) {
    for (const std::uint64_t name : names) filled_by_.erase({name, r.slot});
  }
}

void core::give_back(request& r) {
  forget_names(r);
  r.release();
  free_.push_back(r.slot);
}

/// Gives the slot back, now or when the plan is settled that holds the request.
void core::retire(request& r) {
  if (ts::is_live(r.state().life)) {
    leaving_.push_back(&r);
    return;
  }
  if (settings_.tells) note_events();
  give_back(r);
}

/// Gives back the slots of those that no plan holds any more.
void core::reclaim() {
  if (!arrived_.empty() && !open_) {
    std::erase_if(arrived_, [this](const arrival& a) { return a.who->dead && (admit(a), true); });
  }
  if (settings_.tells && !leaving_.empty()) note_events();
  std::erase_if(leaving_, [this](request* r) {
    if (ts::is_live(r->state().life)) return false;
    give_back(*r);
    return true;
  });
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

/// Whether a resident has more of its prompt to compute. The last token of a prompt that was cut counts as a part of
/// it.
bool core::computes_prompt(const request& r) {
  return r.in_prompt || r.state().reach() - r.state().computed > ts::tokens{1};
}

/// Lets residents that still compute their prompts stand aside, or go on.
void core::hold_prefills(bool defer) {
  for (request* r : standing_) {
    if (r->state().life == ts::lifecycle::suspended) (void)planner_->resume(*r);
  }
  standing_.clear();
  if (!defer) return;
  for (request* r : planner_->residents()) {
    if (computes_prompt(*r)) standing_.push_back(r);
  }
  if (standing_.size() == planner_->residents().size()) standing_.clear();  // none decodes: nothing to wait for
  for (request* r : standing_) (void)planner_->suspend(*r);
}

/// A resident's KV is lost, or taken from it; it waits again.
void core::preempt(request& r) {
  if (planner_->preempt(r) != ts::status::ok) throw std::runtime_error("a resident could not be preempted");
  note_loss(r);
}
void core::note_loss(request& r) {
  set(r.object, names().status, words_.status_preempted);
  set(r.object, names().num_preemptions, number(r.state().preemptions));
  r.has_news = true;
  forget_drafts(r);
}

nb::object core::reset() {
  if (pending()) return nb::none();
  hold_prefills(false);
  for (const arrival& a : arrived_) admit(a);
  arrived_.clear();
  nb::list gone;
  const auto residents = planner_->residents();
  // Each call changes the span.
  const std::vector<request*> all{residents.begin(), residents.end()};
  for (request* r : all) {
    preempt(*r);
    gone.append(nb::borrow(r->object));
  }
  forget_prefixes();
  only_decodes_ = false;
  return gone;
}

void core::forget_prefixes() {
  if (planner_->forget_prefixes() != ts::status::ok) throw std::runtime_error("the prefixes could not be forgotten");
}

std::size_t core::running() const {
  const std::size_t aside = planner_->suspended() - std::min(planner_->suspended(), loading_ + kept_);
  if (!open_) return planner_->residents().size() + aside;
  std::size_t n = aside;
  for (const request* r : planner_->residents()) n += r->dead ? 0 : 1;
  for (const ts::preemption<request>& p : plan_.preempted) n -= p.request->dead ? 0 : 1;
  for (std::size_t i = 0; i != plan_.size(); ++i) {
    n += plan_[i].origin != ts::entry_origin::going_on && !plan_[i].request->dead ? 1 : 0;
  }
  return n;
}

}  // namespace tessera_python
