// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "server.hpp"

#include <tessera/core/owned_storage.hpp>
#include <tessera/pacing/slo.hpp>
#include <tessera/placement/least_kv.hpp>
#include <tessera/placement/pascal.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// @file
/// The server of one scheduler and its placement policies: the loop around plan, run and commit.

namespace llama_cpp {

/// What a placement policy is shown of an instance.
struct instance_view {
  blocks kv_held{};
  blocks free_blocks{};
  std::size_t requests = 0;
  bool slo_met = true;
  std::size_t reasoning = 0;
  std::size_t fresh_answers = 0;
};

/// The server of one composition. @tparam Migration decides where a request answers.
template <class Scheduler, class Placement, class Migration>
class composed_server final : public server {
 public:
  composed_server(const model& m, const server_options& o, const typename Scheduler::config& config)
      : server{o}, model_{&m}, views_(o.instances) {
    for (std::size_t i = 0; i < o.instances; ++i) instances_.push_back(std::make_unique<instance>(m, o, config));
    outcomes_.reserve(o.limits.residents);
    changed_.reserve(o.limits.residents);
  }

  bool move(served& r, std::size_t to) override {
    instance& from = *instances_[r.where];
    if (r.state().life != tessera::lifecycle::resident || from.scheduler.plan_pending()) return false;
    if (instances_[to]->scheduler.waiting_count() >= options_.limits.requests) return false;
    const double before = options_.clock().seconds();
    if (r.state().computed > tokens{}) from.engine.save(r);
    if (!ok(from.scheduler.evacuate(r))) {  // the next step copies a block for it, or for its fork
      r.saved = {};
      return false;
    }
    from.engine.release_slot(r);
    r.shared = tokens{};
    if (!ok(instances_[to]->scheduler.adopt(r))) throw engine_error{"a request that had run was refused"};
    if (to != r.where) {
      ++counts_.moves;
      ++r.record.migrations;
      counts_.move_seconds.push_back(options_.clock().seconds() - before);
    }
    r.where = to;
    return true;
  }

  bool step() override {
    bool ran = false;
    for (std::size_t i = 0; i < instances_.size(); ++i) ran = step(i) || ran;
    return ran;
  }

  [[nodiscard]] usage in_use() const override {
    usage u{.requests = live_.size()};
    for (const auto& one : instances_) {
      u.blocks += static_cast<std::size_t>(one->scheduler.device_blocks_held().count());
      u.host_blocks += static_cast<std::size_t>(one->scheduler.host_blocks_held().count());
      u.slots += one->engine.slots_in_use();
      u.sequences += one->engine.sequences();
    }
    return u;
  }

  [[nodiscard]] std::vector<scheduler_snapshot> snapshots() const override {
    std::vector<scheduler_snapshot> all;
    for (const auto& one : instances_) all.push_back(take_snapshot(one->scheduler));
    return all;
  }

  [[nodiscard]] std::string inconsistency() const override {
    for (const auto& one : instances_) {
      const auto residents = one->scheduler.residents();
      tokens held{};
      for (const served* r : residents) {
        // What forks share counts once: for the one that they were made of.
        held += r->state().computed - min(r->state().computed, r->shared);
        if (one->engine.kv_length(*r) != r->state().computed.count()) {
          return fmt::format("request {} has KV of {} tokens in slot {}, but the scheduler counts {}", r->id,
                             one->engine.kv_length(*r), r->slot, r->state().computed.count());
        }
      }
      if (one->engine.slots_in_use() != residents.size() || one->engine.sequences() != residents.size()) {
        return fmt::format("{} requests are resident, {} slots are in use, {} sequences have KV", residents.size(),
                           one->engine.slots_in_use(), one->engine.sequences());
      }
      if (held > options_.limits.block_size * one->scheduler.device_blocks_held().count()) {
        return fmt::format("KV of {} tokens in {} blocks", held.count(), one->scheduler.device_blocks_held().count());
      }
    }
    return {};
  }

 private:
  bool cancel_run(served& r) override {
    instance& on = *instances_[r.where];
    if (std::find(cancelled_.begin(), cancelled_.end(), &r) != cancelled_.end()) return false;
    if (makes_samples_) {  // nothing leaves while samples are made
      if (std::find(hanging_up_.begin(), hanging_up_.end(), &r) != hanging_up_.end()) return false;
      hanging_up_.push_back(&r);
      return true;
    }
    if (!ok(on.scheduler.cancel(r))) return false;
    if (r.state().life == tessera::lifecycle::cancelled) {
      on.engine.release(r);
      ended(r);
    } else {
      cancelled_.push_back(&r);  // it is in the step that runs, which commit settles
    }
    return true;
  }

  using wall_clock = std::chrono::steady_clock;

  struct instance {
    instance(const model& m, const server_options& o, const typename Scheduler::config& config)
        : storage{tessera::storage_for<Scheduler>(o.limits)},
          scheduler{storage, config},
          engine{m.get(), o.context()} {}
    tessera::owned_storage<tessera::scheduler_limits> storage;
    Scheduler scheduler;
    context engine;
    tessera::duration last_step{};
  };

  tessera::status place_arrival(served& r, time_point now) override {
    look(now);
    r.where = placement_(std::as_const(views_));
    return instances_[r.where]->scheduler.submit(r, now);
  }

  /// It begins to answer: here, or on another instance.
  void place_answer(served& r, time_point now) {
    if constexpr (!std::same_as<Migration, tessera::placement::stay>) {
      look(now);
      const blocks moves = blocks_for(r.state().length, options_.limits.block_size);
      const blocks grows = moves - instances_[r.where]->scheduler.blocks_held(r);
      const std::size_t to = migration_(std::as_const(views_), r.where, max(grows, blocks{}), moves);
      if (to != r.where) move(r, to);
    }
  }

  void look(time_point now) {
    for (std::size_t i = 0; i < instances_.size(); ++i) {
      const Scheduler& s = instances_[i]->scheduler;
      views_[i] = {.kv_held = s.device_blocks_held() + s.host_blocks_held(),
                   .free_blocks = blocks{static_cast<std::int64_t>(s.store().free())},
                   .requests = s.waiting_count() + s.resident_count()};
    }
    for (const served* r : live_) {
      instance_view& v = views_[r->where];
      const auto& state = r->state();
      if (state.phase == tessera::phase::reasoning) {
        v.reasoning += tessera::order::two_phase::is_demoted(*r) ? 0U : 1U;
        continue;
      }
      v.fresh_answers += r->generated() - state.reasoning < options_.quantum ? 1U : 0U;
      const time_point next_step = now + instances_[r->where]->last_step;
      v.slo_met = v.slo_met && meets_slo(r->pacer, state.answering_since, now, next_step, options_.pace.ttfat);
    }
  }

  /// One step: plan, run, commit, and what follows from it.
  bool step(std::size_t i) {
    instance& on = *instances_[i];
    const auto started = wall_clock::now();
    const time_point now = options_.clock();
    const auto plan = on.scheduler.plan(
        now,
        {.max_batch = options_.limits.residents, .token_budget = options_.step_tokens, .lookahead = options_.drafts});
    const auto planned = wall_clock::now();
    if (plan.empty() && plan.preempted.empty()) {
      on.scheduler.abandon(plan);
      return false;
    }
    for (const auto& p : plan.preempted) {
      p.request->preempted_since = now.seconds();
      p.request->shared = tokens{};
    }
    on.engine.run(plan);

    const time_point end = options_.clock();
    outcomes_.clear();
    for (std::size_t k = 0; k < plan.size(); ++k) {
      served& r = *plan[k].request;
      measure(r, now, end);
      outcomes_.emplace_back();
      if (!plan[k].samples) continue;
      outcomes_.back() = sample(r, on.engine.sampled(k), *model_, end);
      on.engine.keep(plan[k], outcomes_.back().produced);
      counts_.drafts += static_cast<std::uint64_t>(plan[k].lookahead.count());
      if (outcomes_.back().finished || outcomes_.back().end_of_reasoning) changed_.push_back(&r);
      if (r.forks_due != 0) forking_.emplace_back(&r, k);
    }
    const auto sampled = wall_clock::now();
    counts_.preemptions += plan.preempted.size();
    counts_.swaps_in += plan.swap_in.size();
    counts_.tokens += static_cast<std::uint64_t>(plan.computed.count());
    on.scheduler.commit(plan, outcomes_, end);
    const auto committed = wall_clock::now();
    on.last_step = end - now;

    for (const auto& [r, k] : forking_) make_samples(*r, k, end);
    forking_.clear();
    std::erase_if(changed_, [](const served* r) { return r->state().life == tessera::lifecycle::cancelled; });
    for (served* r : cancelled_) {
      on.engine.release(*r);
      ended(*r);
    }
    cancelled_.clear();
    for (served* r : changed_) {
      if (r->state().life == tessera::lifecycle::finished) {
        const bool unread = std::erase(hanging_up_, r) != 0 && r->answer_begin != 0;
        on.engine.release(*r);
        ended(*r);
        if (unread) cancel(*r);
      } else {
        place_answer(*r, end);
      }
    }
    changed_.clear();
    for (served* r : hanging_up_) cancel_run(*r);
    hanging_up_.clear();
    const double scheduling = seconds(planned - started) + seconds(committed - sampled);
    counts_.scheduler_ns.add(static_cast<std::uint64_t>(scheduling * 1e9));
    counts_.scheduler_seconds += scheduling;
    counts_.step_seconds += seconds(wall_clock::now() - started);
    ++counts_.steps;
    return true;
  }

  /// The prompt of `r` is there, and entry `k` of the step that has run says what may follow it. Its samples go on from
  /// it, each with a token of its own. A sample begins with the prompt if there is no place for it, or if a first token
  /// changes more than a length. That is its own first token or that of `r`.
  void make_samples(served& r, std::size_t k, time_point now) {
    if (r.state().life == tessera::lifecycle::cancelled) return;
    makes_samples_ = true;
    instance& on = *instances_[r.where];
    const auto prompt = static_cast<std::size_t>(r.prompt.count());
    const bool lives_on = r.state().life == tessera::lifecycle::resident;
    for (served* child : r.samples) {
      --r.forks_due;
      like(*child, r);
      const llama_token first = choose(on.engine.logits(k), child->how, prompt);
      const bool forks = lives_on && goes_on(r, r.sequence[prompt], *model_) && goes_on(*child, first, *model_);
      const bool reasons = describe(*child, now);
      if (!forks || !ok(on.scheduler.fork(r, *child))) {
        if (!ok(submit(*child))) close(*child);
        continue;
      }
      on.engine.fork(r, *child);
      child->shared = child->state().computed;
      child->where = r.where;
      child->record.arrival = r.record.arrival;
      child->record.first_scheduled = now.seconds();
      if (!reasons) child->record.phase_change = now.seconds();
      lives(*child);
      static_cast<void>(sample(*child, first, *model_, now));
      guess(*child);
      ++counts_.forks;
    }
    r.samples.clear();
    if (lives_on) guess(r);
    makes_samples_ = false;
  }

  void measure(served& r, time_point started, time_point ended_at) {
    r.record.executed += (ended_at - started).seconds();
    if (std::isnan(r.record.first_scheduled)) r.record.first_scheduled = started.seconds();
    if (r.state().phase == tessera::phase::answering && std::isnan(r.record.answer_scheduled)) {
      r.record.answer_scheduled = started.seconds();
    }
    if (r.preempted_since >= 0) {
      r.record.preempted += started.seconds() - r.preempted_since;
      r.preempted_since = -1;
    }
  }

  [[nodiscard]] static double seconds(wall_clock::duration d) { return std::chrono::duration<double>(d).count(); }

  const model* model_;
  Placement placement_{};
  Migration migration_{};
  std::vector<std::unique_ptr<instance>> instances_;
  std::vector<instance_view> views_;
  std::vector<tessera::outcome> outcomes_;
  std::vector<served*> changed_;                          ///< Finished, or began to answer, in the step under way.
  std::vector<served*> cancelled_;                        ///< In the step under way.
  std::vector<std::pair<served*, std::size_t>> forking_;  ///< Their samples go on from an entry of the step under way.
  bool makes_samples_ = false;                            ///< Just now,
  std::vector<served*> hanging_up_;                       ///< and requests that are cancelled meanwhile.
};

template <class Scheduler, class Placement = tessera::placement::least_kv, class Migration = tessera::placement::stay>
[[nodiscard]] composition compose(std::string name, std::string summary) {
  return {std::move(name), std::move(summary), [](const model& m, const server_options& o) -> std::unique_ptr<server> {
            typename Scheduler::config config;
            if constexpr (requires { config.quantum = o.quantum; }) config.quantum = o.quantum;
            if constexpr (requires { config.demote_above = o.demote_above; }) config.demote_above = o.demote_above;
            return std::make_unique<composed_server<Scheduler, Placement, Migration>>(m, o, config);
          }};
}

}  // namespace llama_cpp
