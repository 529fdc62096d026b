// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "loop.hpp"

#include <tessera/core/owned_storage.hpp>
#include <tessera/sim/cluster/cluster.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// @file
/// The loop of one scheduler: plan, run, sample, commit; and the same scheduler in the simulator.

namespace cuda_decode {

/// The loop of one composition. @tparam Scheduler a composition over `served`.
template <class Scheduler>
class composed_loop final : public loop {
 public:
  composed_loop(decoder& d, const loop_options& o, const typename Scheduler::config& config)
      : loop{o},
        storage_{tessera::storage_for<Scheduler>(o.limits)},
        scheduler_{storage_, config},
        engine_{d, o.limits, o.step} {
    outcomes_.reserve(o.limits.residents);
    leaving_.reserve(4 * o.limits.residents);
  }

  bool cancel(served& r) override {
    if (!ok(scheduler_.cancel(r))) return false;
    if (r.state().life == tessera::lifecycle::cancelled) ended(r);
    // Else it is in the step that runs: its commit ends it.
    else if (std::find(leaving_.begin(), leaving_.end(), &r) == leaving_.end())
      leaving_.push_back(&r);
    return true;
  }

  bool step() override {
    const auto started = wall::now();
    const double now = options_.clock.now();
    const auto plan = scheduler_.plan(time_point::at_seconds(now), options_.step);
    for (served* r : plan.outgrown) cut_off(*r);  // it has as many tokens as the limits allow
    if (plan.empty() && plan.preempted.empty()) {
      const bool any = !plan.outgrown.empty();
      scheduler_.commit(plan, {}, time_point::at_seconds(now));
      settle();
      return any;
    }
    for (const auto& p : plan.preempted) {
      if (p.request->preempted_since < 0) p.request->preempted_since = now;
    }
    const step_batch batch = engine_.batch(plan);
    const auto prepared = wall::now();
    step_times times;
    try {
      times = engine_.run(plan, batch);
    } catch (...) {
      // Blocks that the plan took over may be overwritten, so it cannot be abandoned.
      outcomes_.assign(plan.size(), {.failed = true});
      for (std::size_t i = 0; i < plan.size(); ++i) leaving_.push_back(plan[i].request);
      scheduler_.commit(plan, outcomes_, time_point::at_seconds(options_.clock.now()));
      settle();
      throw;
    }
    const double end = options_.clock.now();
    outcomes_.clear();
    for (std::size_t i = 0; i < plan.size(); ++i) {
      served& r = *plan[i].request;
      measure(r, now, end);
      outcomes_.push_back(plan[i].samples ? sample(r, engine_.sampled(i), end) : tessera::outcome{});
      if (outcomes_.back().finished) leaving_.push_back(&r);
      if (plan[i].samples && options_.token) options_.token(r, engine_.sampled(i));
    }
    const auto sampled = wall::now();
    computed_ += static_cast<std::uint64_t>(plan.computed.count());
    preemptions_ += plan.preempted.size();
    swapped_blocks_ += batch.swap_out.size() + batch.swap_in.size();
    scheduler_.commit(plan, outcomes_, time_point::at_seconds(end));
    const auto committed = wall::now();
    settle();
    split_.add(seconds(prepared - started) + seconds(committed - sampled), times, seconds(wall::now() - started));
    return true;
  }

  [[nodiscard]] bool idle() const override { return scheduler_.idle(); }

  [[nodiscard]] std::string inconsistency() const override {
    if (scheduler_.plan_pending()) return "a plan is pending";
    std::int64_t held = 0;
    const tokens block = options_.limits.block_size;
    for (const served* r : scheduler_.residents()) {
      const auto& s = r->state();
      if (static_cast<std::int64_t>(r->sequence.size()) != s.length.count()) {
        return fmt::format("request {} has {} tokens, but the scheduler counts {}", r->id, r->sequence.size(),
                           s.length.count());
      }
      const tessera::blocks has = scheduler_.blocks_held(*r);
      if (s.computed > block * has.count()) return fmt::format("request {} has more KV than room", r->id);
      held += has.count();
    }
    if (held != scheduler_.device_blocks_held().count()) {
      return fmt::format("residents have {} blocks, {} are taken", held, scheduler_.device_blocks_held().count());
    }
    if (idle() && scheduler_.host_blocks_held().count() != 0) return "host blocks are held by nobody";
    return {};
  }

 private:
  using wall = std::chrono::steady_clock;

  tessera::status submit_to_scheduler(served& r) override {
    return scheduler_.submit(r, time_point::at_seconds(options_.clock.now()));
  }

  void cut_off(served& r) {
    if (!ok(scheduler_.finish(r))) return;
    r.output = r.generated();
    r.record.reasoning_tokens = std::min(r.record.reasoning_tokens, r.output.count());
    r.record.answer_tokens = r.output.count() - r.record.reasoning_tokens;
    r.record.finish = options_.clock.now();
    leaving_.push_back(&r);
  }

  /// Takes leave of those that the commit has ended.
  void settle() {
    for (served* r : leaving_) ended(*r);
    leaving_.clear();
  }

  [[nodiscard]] static double seconds(wall::duration d) { return std::chrono::duration<double>(d).count(); }

  tessera::owned_storage<tessera::scheduler_limits> storage_;
  Scheduler scheduler_;
  engine engine_;
  std::vector<tessera::outcome> outcomes_;
  std::vector<served*> leaving_;  ///< They end with the step under way.
};

/// A composition's parameters, of those that it has.
template <class Config>
[[nodiscard]] Config config_of(const loop_options& o) {
  Config config;
  if constexpr (requires { config.quantum = o.quantum; }) config.quantum = o.quantum;
  if constexpr (requires { config.demote_above = o.demote_above; }) config.demote_above = o.demote_above;
  return config;
}

/// @tparam Real the scheduler over `served`. @tparam Simulated the same over `sim::request`.
template <class Real, class Simulated>
[[nodiscard]] composition compose(std::string name, std::string summary) {
  composition c{.name = name, .summary = std::move(summary), .make = {}, .simulate = {}};
  c.make = [](decoder& d, const loop_options& o) -> std::unique_ptr<loop> {
    return std::make_unique<composed_loop<Real>>(d, o, config_of<typename Real::config>(o));
  };
  c.simulate = [name](const sim::profile& p, const loop_options& o, std::span<const sim::trace_row> rows) {
    const sim::cluster_options options{.instances = 1,
                                       .instance = {.limits = o.limits,
                                                    .step = o.step,
                                                    .timer = sim::step_timer{p},
                                                    .swap_seconds_per_block = sim::swap_seconds(p, o.limits.block_size),
                                                    .swaps_both_ways = false},  // one stream copies them, out before in
                                       .fabric_bytes_per_s = p.links.fabric_bytes_per_s,
                                       .kv_bytes_per_token = p.model.kv_bytes_per_token(),
                                       .quantum = o.quantum};
    sim::run_result result =
        sim::cluster<Simulated>{options, config_of<typename Simulated::config>(o)}.run(rows, [](std::size_t) {});
    result.numbers.policy = name;
    return result;
  };
  return c;
}

}  // namespace cuda_decode
