// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// What must hold at any moment, and of each plan: members of scheduler_world, which includes this.

#include "property/scheduler_world.hpp"
#include "support/must.hpp"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <vector>

namespace tessera_test {

template <class Order, class BlockStore, class Gate>
void scheduler_world<Order, BlockStore, Gate>::check() {
  if (!looks_) return;
  const auto residents = scheduler_.residents();
  const std::size_t kept = residents.size() - (chooses_victims<Gate> && open_ ? plan_.preempted.size() : 0);
  for (std::size_t i = 1; i < kept; ++i) {
    must(before(*residents[i - 1], *residents[i]), "residents are in rank order");
  }
  const std::vector<text_request*> line = in_line();
  const std::size_t waiting = line.size();
  for (std::size_t i = 0; i != waiting; ++i) {
    must(i == 0 || order_.before(*line[i - 1], *line[i]), "waiting requests are in rank order");
    must(line[i]->state().life == lifecycle::waiting, "who waits is waiting");
  }
  must(waiting == scheduler_.waiting_count() && residents.size() == scheduler_.resident_count(), "counts are true");
  std::vector<const text_request*> holding{residents.begin(), residents.end()};
  for (const text_request* r : live_) {
    if (r->state().life != lifecycle::suspended) continue;
    must(scheduler_.why(*r) == (r->state().parked  ? wait_reason::parked
                                : r->state().loads ? wait_reason::loading
                                                   : wait_reason::suspended),
         "who is suspended stands aside");
    holding.push_back(r);
  }
  std::size_t parked = 0;
  for (const text_request* r : live_) parked += r->state().parked && r->state().life == lifecycle::waiting;
  std::size_t loading = 0;
  for (const ending& e : ending_) loading += is_loading(*e.request);
  must(holding.size() - residents.size() + loading == scheduler_.suspended_count(), "suspended requests are counted");
  must(scheduler_.parked_count() == parked && scheduler_.draining_count() == copies_out_.size(), "as are all others");
  must(waiting + parked + holding.size() == live_.size(), "every live request is in one place");
  must(holding.size() + loading + copies_out_.size() <= limits_.residents, "no more hold blocks than the limits allow");
  must(scheduler_.idle() == (live_.empty() && ending_.empty()), "idle means empty");
  must(scheduler_.plans_in_flight() == flights_.size() && scheduler_.can_abandon() == open_, "plans are counted");
  for (const text_request* r : live_) {
    std::int64_t expected = 0;
    for (const flight& f : flights_) {
      if (open_ && &f == &flights_.back()) continue;
      for (std::size_t i = 0; i != f.plan.size(); ++i) {
        if (f.plan[i].request == r && f.plan[i].samples) expected += 1 + f.plan[i].lookahead.count();
      }
    }
    must(r->state().expected == expected && r->state().length == r->length, "what is in flight is expected");
  }

  // Which row has which block?
  std::vector<std::uint32_t> owners(limits_.blocks);
  std::size_t rows = 0;
  const auto own = [&](std::uint32_t row) {
    std::set<kv::block_id> once;
    for (const kv::block_id b : scheduler_.tables().row(row)) {
      must(b < limits_.blocks, "a block of this instance");
      must(once.insert(b).second, "a request owns a block once");
      ++owners[b];
    }
    ++rows;
  };
  std::set<const text_request*> victims;
  for (const std::uint32_t row : left_rows_) own(row);
  for (const copy_out& c : copies_out_) own(c.row);
  for (const ending& e : ending_) {
    if (e.request->state().row != no_index) own(e.request->state().row);
  }
  if (open_) {
    for (const auto& v : plan_.preempted) victims.insert(v.request);
    for (std::size_t i = 0; i != plan_.size(); ++i) {
      if (plan_[i].request->state().life == lifecycle::waiting) own(plan_[i].row);
    }
    for (const auto& t : plan_.load) own(t.request->state().row);
  }
  for (const text_request* r : residents) must(r->state().life == lifecycle::resident, "who is resident is resident");
  for (const text_request* r : holding) {
    const auto& s = r->state();
    must(s.reach() > s.computed && count(s.computed) <= scheduler_.tables().row(s.row).size() * block_size_,
         "there is KV room for what is computed, and a token to come");
    if (victims.count(r) == 0) {
      own(s.row);
    } else {
      ++rows;
    }
  }
  std::size_t preempted_meanwhile = 0;
  for (const flight& f : flights_) {
    if (!open_ || &f != &flights_.back()) rows += f.plan.preempted.size();
    preempted_meanwhile += f.preempted_meanwhile;
  }
  const std::size_t used_rows = scheduler_.tables().rows() - scheduler_.tables().free_rows();
  must(rows <= used_rows && used_rows <= rows + preempted_meanwhile, "every row is somebody's");
  std::size_t used = 0;
  for (std::size_t b = 0; b != owners.size(); ++b) {
    must(scheduler_.store().references(static_cast<kv::block_id>(b)) == owners[b],
         "a block has as many owners as the store counts");
    used += owners[b] != 0;
  }
  must(scheduler_.device_blocks_held() == blocks{static_cast<std::int64_t>(used)}, "no block is lost");

  if (flights_.empty()) {
    std::size_t host = 0;
    for (const text_request* r : live_) {
      const auto& s = r->state();
      if (s.host_head != no_index) {
        must(s.swapped && s.life == lifecycle::waiting, "only swapped requests hold host blocks");
        must(scheduler_.host().size(s.host_head) == count(blocks_for_length(s.computed)) - r->host_first,
             "its copy is as long as what is computed");
        host += scheduler_.host().size(s.host_head);
      }
      must(s.ends_as == lifecycle::idle, "nothing stays of a settled plan");
      must(!s.backfilled || (Gate::backfills && s.life != lifecycle::waiting), "only residents are backfilled");
      if (s.life == lifecycle::resident && s.shared_blocks == 0) {
        // Blocks beyond the known length are lookahead, which goes back with the plan that had it.
        must(scheduler_.tables().row(s.row).size() <= count(blocks_for_length(s.length)), "no lookahead is kept");
      }
    }
    must(scheduler_.host_blocks_held() == blocks{static_cast<std::int64_t>(host)}, "no host block is lost");
  }
}

template <class Order, class BlockStore, class Gate>
void scheduler_world<Order, BlockStore, Gate>::check_empty() {
  check();
  must(live_.empty() && ending_.empty() && flights_.empty() && copies_out_.empty() && scheduler_.idle(),
       "all requests have ended");
  must(scheduler_.store().free() == limits_.blocks, "all blocks are free");
  must(scheduler_.host().free() == limits_.host_blocks, "all host blocks are free");
  must(scheduler_.tables().free_rows() == scheduler_.tables().rows(), "all rows are free");
}

template <class Order, class BlockStore, class Gate>
void scheduler_world<Order, BlockStore, Gate>::check_adapters() {
  if constexpr (std::same_as<Gate, all_gates>) {
    std::set<std::uint32_t> used;
    const auto count_in = [&](const text_request& r) {
      if (r.state().row != no_index && r.adapter != 0) used.insert(r.adapter);
    };
    for (const text_request* r : live_) count_in(*r);
    for (const ending& e : ending_) count_in(*e.request);
    must(used.size() <= std::get<0>(config_.gate.gates).slots, "no more adapters are used than there are slots");
  }
}

template <class Order, class BlockStore, class Gate>
void scheduler_world<Order, BlockStore, Gate>::check_encoder() {
  if constexpr (std::same_as<Gate, all_gates>) {
    const auto& cache = std::get<2>(scheduler_.gate().gates);
    encoder_before_ = encoder_;
    for (const std::uint64_t hash : cache.dropped()) must(encoder_.erase(hash) == 1, "what is dropped was there");
    tokens work{};
    tokens all{};
    std::size_t n = 0;
    for (std::size_t i = 0; i != plan_.size(); ++i) {
      for (const gate::encoder_input& image : plan_[i].request->images) {
        if (!cache.encodes(image)) continue;
        must(encoder_.emplace(image.hash, image.size).second, "what is there is not encoded again");
        work += image.size;
        ++n;
      }
    }
    must(n < 2 || work <= cache.per_step, "a step encodes as much as it may");
    for (const auto& [hash, size] : encoder_) all += size;
    must(all <= cache.capacity, "there is room for all outputs");
    for (std::size_t i = 0; i != plan_.size(); ++i) {
      const scheduled<text_request>& e = plan_[i];
      const tokens end = e.first + e.count;
      for (const gate::encoder_input& image : e.request->images) {
        if (e.first >= e.request->prompt || image.first >= end) continue;
        if (image.first + image.length <= e.first) continue;
        must(encoder_.count(image.hash) == 1, "what a step reads is there");
        const bool begins = cache.whole_inputs && e.first < image.first && image.first < end;
        must(!begins || end >= image.first + image.length, "a step does not end in an image that it could leave");
      }
    }
  }
}

template <class Order, class BlockStore, class Gate>
void scheduler_world<Order, BlockStore, Gate>::check_plan() {
  if (!looks_) return;
  const std::size_t n = plan_.size();
  must(n <= step_.max_batch && n <= limits_.residents, "the batch is within its limit");

  tokens sum{};
  tokens drafts{};
  std::map<const text_request*, const scheduled<text_request>*> entry;
  std::size_t started = 0;
  for (std::size_t i = 0; i != n; ++i) {
    const scheduled<text_request>& e = plan_[i];
    const auto& s = e.request->state();
    sum += e.count;
    drafts += e.lookahead;
    must(entry.emplace(e.request, &e).second, "nobody is in a plan twice");
    must(std::find(live_.begin(), live_.end(), e.request) != live_.end(), "who runs is live");
    must(s.life != lifecycle::suspended, "who is suspended does not run");
    must(e.count >= tokens{1} && (i >= plan_.decode.size() || e.count == tokens{1}), "a decode is one token");
    must(e.samples == (e.first + e.count == s.reach()), "it samples when all is computed");
    must(s.expected == 0 || (!waits(*e.request) && !may_end(*e.request)),
         "who may have ended, or has lost its blocks since, is waited for");
    must(step_.max_chunk <= tokens{} || !config_.chunked_prefill || e.count <= step_.max_chunk,
         "a chunk is within its limit");
    must(e.lookahead >= tokens{} && e.lookahead <= step_.lookahead, "lookahead is what was wanted, or less");
    must((e.first + e.count + e.lookahead).count() <=
             static_cast<std::int64_t>(scheduler_.tables().row(e.row).size() * block_size_),
         "there is a block for every token");
    must(e.lookahead == tokens{} || e.request->max_output == tokens{} ||
             s.reach() - e.request->prompt + tokens{1} + e.lookahead <= e.request->max_output,
         "nobody guesses beyond what it may generate");
    must((e.origin == entry_origin::going_on) == (!waits(*e.request) && !e.request->copy_pending) ||
             e.request->copy_pending || !waits(*e.request),
         "who starts is said to");
    must(e.new_blocks == scheduler_.tables().size(e.row) || !waits(*e.request), "who starts has new blocks only");
    must(e.row == s.row && scheduler_.why(*e.request) == wait_reason::none, "who is planned is known to be");
    if (waits(*e.request)) {
      ++started;
      if (s.swapped) {
        must(e.first == s.computed || kv::prefix_store<BlockStore>, "a swapped request goes on where it was");
      }
      if (!s.swapped && !kv::prefix_store<BlockStore>) must(e.first == tokens{}, "a new request starts at the front");
      must(e.first < s.length, "one token at least is computed");
    } else {
      must(e.first == s.computed, "positions are consecutive");
    }
  }
  std::set<const text_request*> loads;
  for (const kv_fetch<text_request>& t : plan_.load) {
    must(waits(*t.request) && entry.count(t.request) == 0 && loads.insert(t.request).second,
         "nobody computes on KV that is on its way");
    must(t.request->state().loads && scheduler_.why(*t.request) == wait_reason::none, "who loads was announced");
    ++started;
    for (const kv::block_id id : t.device) {
      for (const flight& f : flights_) {
        const bool reads = std::any_of(f.rows.begin(), f.rows.end(), [&](const std::vector<kv::block_id>& row) {
          return std::find(row.begin(), row.end(), id) != row.end();
        });
        must(!reads || f.plan.id == plan_.id || plan_.load_after >= f.plan.id, "what is loaded waits for its readers");
      }
      for (const kv_transfer<text_request>& out : plan_.swap_out) {
        const bool copies = std::find(out.device.begin(), out.device.end(), id) != out.device.end();
        must(!copies || plan_.load_after == plan_.id, "what is loaded waits for copies of this plan");
      }
    }
  }
  for (const text_request* r : loads) must(!r->state().parked, "who is parked stands aside");
  must(sum == plan_.computed, "the plan knows what it computes");
  tokens prefill{};
  for (const scheduled<text_request>& e : plan_.prefill) prefill += e.count;
  const bool prefill_spent = step_.prefill_budget > tokens{} && prefill >= step_.prefill_budget;
  tokens whole_budget = step_.token_budget;
  if (step_.prefill_budget > tokens{}) whole_budget = std::min(whole_budget, step_.prefill_budget);
  const bool may_exceed = !config_.chunked_prefill && plan_.prefill.size() == 1 &&
                          (!config_.firm_budget || plan_.prefill[0].count > whole_budget);
  must(step_.prefill_budget == tokens{} || prefill <= step_.prefill_budget || may_exceed,
       "prefill is within its budget");
  must(started <= step_.max_starts, "no more start than are wanted");
  must(sum + drafts <= step_.token_budget || may_exceed, "the step is within its budget");
  for (const auto list : {plan_.decode, plan_.prefill}) {
    // A waiting request that displaces a resident goes first. Others wait for their turn behind all residents.
    for (std::size_t i = 1; i < list.size(); ++i) {
      const text_request &a = *list[i - 1].request, &b = *list[i].request;
      if (waits(a) && waits(b)) must(screens<Gate> || order_.before(a, b), "a plan is in rank order");
      if (!waits(a) && !waits(b)) must(before(a, b), "a plan is in rank order");
      if (waits(a) && !waits(b)) must(displaces(a, b), "only who displaces goes before a resident");
    }
  }

  // Block tables.
  must(plan_.tables.indptr.size() == n + 1 && plan_.tables.last_page_len.size() == n,
       "one table entry per scheduled one");
  must(plan_.tables.indptr[0] == 0, "tables start at 0");
  for (std::size_t i = 0; i != n; ++i) {
    const auto length = count(plan_[i].first + plan_[i].count + plan_[i].lookahead);
    const auto row = scheduler_.tables().row(plan_[i].row);
    const auto begin = static_cast<std::size_t>(plan_.tables.indptr[i]);
    const auto end = static_cast<std::size_t>(plan_.tables.indptr[i + 1]);
    must(end - begin == (length + block_size_ - 1) / block_size_, "a table entry covers what is computed");
    must(static_cast<std::size_t>(plan_.tables.last_page_len[i]) == (length - 1) % block_size_ + 1, "last_page_len");
    for (std::size_t j = begin; j != end; ++j) {
      must(plan_.tables.indices[j] == static_cast<std::int32_t>(row[j - begin]), "tables are the rows");
    }
  }

  // Victims.
  std::set<const text_request*> victims, outgrown{plan_.outgrown.begin(), plan_.outgrown.end()};
  const auto residents = scheduler_.residents();
  for (const preemption<text_request>& v : plan_.preempted) {
    must(victims.insert(v.request).second && entry.count(v.request) == 0, "who runs is not a victim");
    must(v.request == residents[residents.size() - victims.size()], "the lowest-ranked residents are the victims");
    bool gained = false;
    for (const auto& [r, e] : entry) {
      const bool grew = !waits(*r) && static_cast<std::int64_t>(scheduler_.tables().row(e->row).size()) >
                                          blocks_for(r->computed_before, limits_.block_size).count();
      const bool first = waits(*r) ? displaces(*r, *v.request) : before(*r, *v.request);
      gained = gained || ((waits(*r) || grew) && first);
    }
    for (const text_request* r : loads) gained = gained || displaces(*r, *v.request);
    must(gained, "a victim makes room for one that ranks before it");
    must(scheduler_.why(*v.request) == wait_reason::preempted, "a victim knows");
  }
  const std::size_t suspended = scheduler_.suspended_count() + copies_out_.size();
  must(residents.size() - victims.size() + started + suspended <= limits_.residents,
       "no more residents than the limits allow");
  if constexpr (!kv::prefix_store<BlockStore>) {
    if (!victims.empty() && residents.size() - (victims.size() - 1) + started + suspended <= limits_.residents) {
      const auto held = scheduler_.tables().row(plan_.preempted.back().request->state().row).size();
      must(scheduler_.store().free() < held, "nobody is evicted without need");
    }
  }
  for (const kv_transfer<text_request>& t : plan_.swap_out)
    must(victims.count(t.request) == 1, "victims are swapped out");
  for (const kv_transfer<text_request>& t : plan_.swap_in) {
    must(entry.count(t.request) == 1, "who is swapped in runs");
    if (is_load(t)) {
      must(two_levels && t.first == t.request->state().shared_blocks &&
               entry.at(t.request)->first == limits_.block_size * static_cast<std::int64_t>(t.first + t.host.size()),
           "what is found on the host follows what is found on the device");
    } else {
      must(t.request->state().swapped, "who was swapped out is swapped in");
    }
  }
  for (const kv_fetch<text_request>& t : plan_.fetch) {
    must(entry.count(t.request) == 1 && t.request->state().swapped, "who was adopted is fetched");
  }

  // Which requests wait for which: residents and waiting requests in the order in which they have their turn.
  std::vector<text_request*> turn;
  const std::vector<text_request*> line = in_line();
  auto w = line.begin();
  for (std::size_t i = 0; i != residents.size() || w != line.end();) {
    if (w != line.end() && (i == residents.size() || displaces(**w, *residents[i]))) {
      turn.push_back(*w++);
    } else {
      turn.push_back(residents[i++]);
    }
  }
  const bool full = n >= std::min(step_.max_batch, limits_.residents) || sum >= step_.token_budget;
  bool nobody_starts = false;
  // At most `residents` requests that the gate has skipped are known.
  const auto is_gated = [&](const text_request* r) { return scheduler_.why(*r) == wait_reason::gated; };
  const bool list_is_full =
      static_cast<std::size_t>(std::count_if(line.begin(), line.end(), is_gated)) >= limits_.residents;
  bool gated = list_is_full;
  bool perhaps_behind = list_is_full;
  std::vector<text_request*> not_run;  // residents
  // For a block of their prompts: their places and their blocks are kept. A gate may have asked of one before others.
  std::size_t held = 0;
  std::int64_t kept_for_held = 0;
  const auto hold = [&](const text_request& r) {
    ++held;
    kept_for_held += blocks_for_length(r.state().reach()).count() - r.state().cached_blocks;
  };
  const auto is_held = [&](const text_request* r) { return scheduler_.why(*r) == wait_reason::prefix_in_flight; };
  if (screens<Gate>) {
    for (const text_request* r : line) {
      if (is_held(r)) hold(*r);
    }
  }
  // Others may use what there is room for in the encoder's cache.
  const auto may_need_encoder = [](const text_request& r) {
    return screens<Gate> && !r.images.empty() && r.state().computed < r.prompt;
  };
  for (text_request* r : turn) {
    const bool runs = entry.count(r) == 1 || loads.count(r) == 1;
    const wait_reason why = scheduler_.why(*r);
    if (runs) {
      const auto is_displaced = [&](const text_request* resident) { return waits(*r) && displaces(*r, *resident); };
      must(std::all_of(not_run.begin(), not_run.end(), is_displaced), "nobody overtakes a resident");
      must(!waits(*r) || !nobody_starts || Gate::backfills, "nobody overtakes");
      for (const text_request* v : victims) {
        must(!waits(*r) || v->state().backfilled || order_.before(*r, *v),
             "nobody starts on what was taken from one who ranks before");
      }
      continue;
    }
    must(why != wait_reason::none && why != wait_reason::not_planned, "who waits knows why");
    if (victims.count(r) != 0) continue;
    if (!waits(*r) && may_end(*r)) {
      must(why == wait_reason::in_flight || r->state().length > limits_.longest() || full, "who is waited for knows");
      continue;
    }
    if (r->state().length > limits_.longest()) {
      must(why == wait_reason::stalled, "who has outgrown the limits knows");
      must(outgrown.count(r) == 1 || full || nobody_starts || gated || outgrown.size() == limits_.residents,
           "who has outgrown the limits is told");
      // Its turn had not come when the step was full: then it is the one that the others are behind. The list of
      // requests that are told may be full: then it is unknown whether its turn had come.
      const bool untold = waits(*r) && outgrown.count(r) == 0;
      if (untold && outgrown.size() != limits_.residents) nobody_starts = true;
      if (untold && full) perhaps_behind = true;
      continue;
    }
    must(outgrown.count(r) == 0, "only who has outgrown the limits is told so");
    if (waits(*r)) {
      // It may rank behind the first that cannot start, if that was asked again after others had started.
      if (why == wait_reason::gated) {
        must(screens<Gate>, "only a gate that screens skips");
        perhaps_behind = gated = true;
        continue;
      }
      const bool behind_victim =
          std::any_of(victims.begin(), victims.end(), [&](const text_request* v) { return !order_.before(*r, *v); });
      must(why == wait_reason::behind_others ? nobody_starts || behind_victim || perhaps_behind
                                             : !nobody_starts || (screens<Gate> && is_held(r)),
           "the first who cannot start says why");
      if (gated && !nobody_starts && why == wait_reason::behind_others) continue;  // skipped, too
      if (is_held(r)) {
        must(has_leader(*r), "who ranks before it computes what it waits for");
        if (!screens<Gate>) hold(*r);
        continue;
      }
      switch (why) {
        case wait_reason::not_wanted: must(started == step_.max_starts, "nobody else was wanted"); break;
        case wait_reason::batch_full:
          must(n + held >= std::min(step_.max_batch, limits_.residents), "the batch is full");
          break;
        case wait_reason::budget_spent:
          must(sum >= step_.token_budget || prefill_spent || !config_.chunked_prefill, "the budget is spent");
          break;
        case wait_reason::residents_full:
          must(residents.size() - victims.size() + started + held + suspended == limits_.residents ||
                   (scheduler_.tables().free_rows() == 0 && flights_.size() > 1),
               "rows are full");
          break;
        case wait_reason::in_flight: must(r->state().expected != 0, "who has lost its blocks is waited for"); break;
        case wait_reason::no_blocks: {
          must(kv::prefix_store<BlockStore> || static_cast<std::int64_t>(scheduler_.store().free()) <
                                                   blocks_for_length(r->state().reach()).count() + promised(),
               "blocks are short");
          break;
        }
        case wait_reason::held_back:
          must(residents.size() - victims.size() + started + held > 0, "held back for others");
          break;
        default: must(why == wait_reason::behind_others, "a reason to wait");
      }
      if (why == wait_reason::no_blocks || why == wait_reason::held_back)
        check_refusal(*r, victims.size(), started, kept_for_held);
      nobody_starts = true;
    } else if (why == wait_reason::stalled) {
      // One that must compute an image at once may lack several.
      must(scheduler_.store().free() == 0 || may_need_encoder(*r), "a stalled request lacks a block");
      nobody_starts = true;
    } else if (why == wait_reason::gated) {
      must(screens<Gate> && r->state().computed < r->prompt, "only a step of a prompt waits for the encoder");
      // The step may be too short for an image that must be computed at once.
      if constexpr (screens<Gate>) gated = gated || std::get<2>(config_.gate.gates).whole_inputs;
      continue;
    } else if (prefill_spent && r->state().reach() - r->state().computed > tokens{1} &&
               why == wait_reason::budget_spent) {
      continue;  // and decoding requests go on
    } else if (may_need_encoder(*r) && why == wait_reason::budget_spent) {
      continue;  // it may have waited for the encoder, and others have spent the budget
    } else {
      must((full || !config_.chunked_prefill) && (why == wait_reason::batch_full || why == wait_reason::budget_spent),
           "a resident waits for its turn");
      not_run.push_back(r);
    }
  }
  must(
      n != 0 || !loads.empty() || gated || turn.empty() || outgrown.size() != 0 || nobody_starts || flights_.size() > 1,
      "an idle step has a reason");
  // Some request always gets on. A request that has outgrown the limits may be in the way: that is for the engine to
  // end. A request that the gate has deferred may find no room after those that had their turn.
  const bool may_be_deferred = screens<Gate> && !turn.empty() && waits(*turn.front()) && (started != 0 || list_is_full);
  if (flights_.size() == 1 && !may_be_deferred && !turn.empty() && !may_need_encoder(*turn.front()) &&
      turn.front()->state().length <= limits_.longest() && suspended == 0 &&
      (!waits(*turn.front()) || step_.max_starts != 0) && scheduler_.why(*turn.front()) != wait_reason::gated) {
    must(entry.count(turn.front()) + loads.count(turn.front()) == 1, "the first in turn runs");
  }
}

template <class Order, class BlockStore, class Gate>
void scheduler_world<Order, BlockStore, Gate>::check_refusal(const text_request& r, std::size_t victims,
                                                             std::size_t started, std::int64_t kept_for_held) {
  if (step_.lookahead > tokens{} || Gate::backfills) return;
  const auto residents = scheduler_.residents();
  const auto kept = residents.first(residents.size() - victims);
  if (std::any_of(kept.begin(), kept.end(), [&](const text_request* k) { return displaces(r, *k); })) return;
  const auto free = static_cast<std::int64_t>(scheduler_.store().free());
  std::int64_t lacks = blocks_for_length(r.state().length).count();
  std::vector<kv::block_id> known(kv::prefix_store<BlockStore> ? r.hashes.size() : 0);
  if constexpr (kv::prefix_store<BlockStore>) {
    const auto most = std::min(known.size(), (count(r.state().length) - 1) / block_size_);
    known.resize(scheduler_.store().match(std::span{r.hashes}.first(most), known));
    for (const kv::block_id b : known) lacks -= scheduler_.store().references(b) != 0;
  }
  std::vector<text_request*> admitted;
  for (std::size_t i = 0; i != plan_.size(); ++i) {
    if (plan_[i].request->state().life == lifecycle::waiting) admitted.push_back(plan_[i].request);
  }
  for (const kv_fetch<text_request>& t : plan_.load) admitted.push_back(t.request);
  must(admitted.size() == started, "who waits and is in the plan is admitted");
  std::int64_t capacity = static_cast<std::int64_t>(limits_.blocks);
  for (const text_request* s : live_) {
    if (s->state().life == lifecycle::suspended) capacity -= static_cast<std::int64_t>(row_of(*s).size());
  }
  for (const ending& e : ending_) {
    if (is_loading(*e.request)) capacity -= static_cast<std::int64_t>(row_of(*e.request).size());
  }
  for (const copy_out& c : copies_out_) capacity -= static_cast<std::int64_t>(c.blocks.size());
  std::vector<std::uint32_t> own(scheduler_.tables().rows());
  for (const auto list : {std::span<text_request* const>{kept}, std::span<text_request* const>{admitted}}) {
    for (const text_request* k : list) {
      for (const kv::block_id b : row_of(*k)) {
        // What the candidate would share stays when another ends.
        const bool would_share = std::find(known.begin(), known.end(), b) != known.end();
        own[k->state().row] += !kv::prefix_store<BlockStore> || (scheduler_.store().references(b) == 1 && !would_share);
      }
    }
  }
  const admission_view<text_request> view{.free_after = blocks{free - lacks - promised() - kept_for_held},
                                          .needed = blocks{lacks},
                                          .capacity = blocks{std::max(std::max<std::int64_t>(capacity, 0), free)},
                                          .block_size = limits_.block_size,
                                          .residents = kept,
                                          .admitted = admitted,
                                          .exclusive = own};
  must(free < lacks + promised() + kept_for_held || !config_.admit.admits(r, view), "nobody is refused who may start");
}

template <class Order, class BlockStore, class Gate>
bool scheduler_world<Order, BlockStore, Gate>::has_leader(const text_request& r) const {
  const auto leads = [&](const scheduled<text_request>& e) {
    const auto i = static_cast<std::size_t>(e.first / limits_.block_size);
    const text_request& q = *e.request;
    return &q != &r && order_.before(q, r) && i < q.hashes.size() && i < r.hashes.size() && q.hashes[i] == r.hashes[i];
  };
  if (std::any_of(plan_.prefill.begin(), plan_.prefill.end(), leads)) return true;
  return std::any_of(flights_.begin(), flights_.end(),
                     [&](const flight& f) { return std::any_of(f.plan.prefill.begin(), f.plan.prefill.end(), leads); });
}

template <class Order, class BlockStore, class Gate>
void scheduler_world<Order, BlockStore, Gate>::note_plan() {
  note(plan_.size());
  for (std::size_t i = 0; i != plan_.size(); ++i) {
    const scheduled<text_request>& e = plan_[i];
    for (const auto x : {e.first.count(), e.count.count(), e.lookahead.count(), static_cast<std::int64_t>(e.samples)}) {
      note(static_cast<std::uint64_t>(x));
    }
    note(e.request->id);
    note(e.row);
  }
  for (const auto b : plan_.tables.indices) note(static_cast<std::uint64_t>(b));
  for (const auto list : {plan_.swap_out, plan_.swap_in}) {
    for (const kv_transfer<text_request>& t : list) {
      note(t.request->id);
      for (const auto b : t.device) note(b);
      for (const auto b : t.host) note(b);
    }
  }
  for (const kv_fetch<text_request>& t : plan_.fetch) {
    note(t.request->id);
    for (const auto b : t.device) note(b);
  }
  for (const kv_demotion& d : plan_.demoted) note(mix(d.device, d.host));
  for (const auto& v : plan_.preempted) note(v.request->id * 2 + (v.mode == preemption_mode::swap));
  for (const text_request* r : plan_.outgrown) note(r->id);
  for (const kv_fetch<text_request>& t : plan_.load) {
    note(t.request->id);
    for (const auto b : t.device) note(b);
  }
  for (const text_request* r : live_) {
    // Which of two reasons it is that one is refused for may be left open where refusals are remembered.
    const wait_reason why = scheduler_.why(*r);
    note(static_cast<std::uint64_t>(why == wait_reason::held_back ? wait_reason::no_blocks : why));
  }
}

}  // namespace tessera_test
