// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "loop.hpp"

#include <tessera/core/owned_storage.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>

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
/// The loop of one scheduler: plan, launch, wait, sample, commit; and the same scheduler in the simulator.

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
    in_flight_.reserve(o.limits.plans_in_flight);
  }

  bool cancel(served& r) override {
    if (!ok(scheduler_.cancel(r))) return false;
    if (r.state().life == tessera::lifecycle::cancelled)
      ended(r);
    else
      leaves(r);
    return true;
  }

  bool step() override {
    bool any = false;
    try {
      while (in_flight_.size() < options_.limits.plans_in_flight && !scheduler_.idle() && launch(any)) {
      }
      if (!in_flight_.empty()) {
        settle(engine_.wait(in_flight_.front().plan));
        any = true;
      }
    } catch (...) {
      fail();
      throw;
    }
    take_leave();
    return any;
  }

  [[nodiscard]] bool idle() const override { return scheduler_.idle(); }

  [[nodiscard]] std::string inconsistency() const override {
    if (scheduler_.plans_in_flight() != in_flight_.size() || in_flight_.size() >= options_.limits.plans_in_flight) {
      return "a plan is pending";
    }
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
    // A request that has ended, or has just lost its place, holds blocks until the last plan that has it is settled.
    const std::int64_t taken = scheduler_.device_blocks_held().count();
    if (held > taken || (held < taken && in_flight_.empty())) {
      return fmt::format("residents have {} blocks, {} are taken", held, taken);
    }
    if (idle() && scheduler_.host_blocks_held().count() != 0) return "no request holds host blocks, and some are taken";
    return {};
  }

 private:
  using wall = std::chrono::steady_clock;

  tessera::status submit_to_scheduler(served& r) override {
    return scheduler_.submit(r, time_point::at_seconds(options_.clock.now()));
  }

  /// A step that was launched and is not settled.
  struct launched_step {
    typename Scheduler::plan_type plan;
    double planned = 0;        ///< On the loop's clock.
    double scheduling = 0;     ///< Seconds that the host took for it so far.
    wall::time_point started;  ///< When that began.
    std::size_t swapped = 0;   ///< Blocks, both ways.
  };

  /// Plans a step and launches it. False: there is nothing to run. @param any set if anything has happened.
  bool launch(bool& any) {
    const auto started = wall::now();
    const double now = options_.clock.now();
    const auto plan = scheduler_.plan(time_point::at_seconds(now), options_.step);
    for (served* r : plan.outgrown) cut_off(*r);  // it has as many tokens as the limits allow
    any = any || !plan.outgrown.empty();
    if (plan.empty() && plan.preempted.empty()) {
      scheduler_.abandon(plan);
      return false;
    }
    if (in_flight_.empty()) last_end_ = now, last_settled_ = started;
    in_flight_.push_back({.plan = plan, .planned = now, .scheduling = 0, .started = started, .swapped = 0});
    const step_batch batch = engine_.batch(plan);
    in_flight_.back().swapped = batch.swap_out.size() + batch.swap_in.size();
    in_flight_.back().scheduling = seconds(wall::now() - started);
    engine_.launch(plan, batch);
    return true;
  }

  /// The oldest step has run.
  void settle(const step_times& times) {
    const auto ran = wall::now();
    const double end = options_.clock.now();
    const launched_step& step = in_flight_.front();
    const auto& plan = step.plan;
    const double begin = std::max(step.planned, last_end_);
    for (const auto& p : plan.preempted) {
      if (p.request->preempted_since < 0) p.request->preempted_since = begin;
    }
    outcomes_.assign(plan.size(), {});
    for (std::size_t i = 0; i < plan.size(); ++i) {
      served& r = *plan[i].request;
      if (r.state().ends_as != tessera::lifecycle::idle) {
        // It has ended since this step was planned: whatever its outcome says is ignored.
        in_vain_ += static_cast<std::uint64_t>(plan[i].count.count());
        continue;
      }
      measure(r, begin, end);
      if (!plan[i].samples) continue;
      outcomes_[i] = sample(r, engine_.sampled(i), end);
      if (outcomes_[i].finished) leaves(r);
      if (options_.token) options_.token(r, engine_.sampled(i));
    }
    computed_ += static_cast<std::uint64_t>(plan.computed.count());
    preemptions_ += plan.preempted.size();
    swapped_blocks_ += step.swapped;
    scheduler_.commit(plan, outcomes_, time_point::at_seconds(end));
    const auto committed = wall::now();
    split_.add(step.scheduling + seconds(committed - ran), times,
               seconds(committed - std::max(step.started, last_settled_)));
    last_end_ = end;
    last_settled_ = committed;
    in_flight_.erase(in_flight_.begin());
  }

  /// All that was in flight has failed. Blocks that a plan took over may be overwritten, so it cannot be abandoned.
  void fail() {
    const time_point now = time_point::at_seconds(options_.clock.now());
    for (const launched_step& step : in_flight_) {
      outcomes_.assign(step.plan.size(), {.failed = true});
      for (std::size_t i = 0; i < step.plan.size(); ++i) leaves(*step.plan[i].request);
      scheduler_.commit(step.plan, outcomes_, now);
    }
    in_flight_.clear();
    take_leave();
  }

  void cut_off(served& r) {
    if (!ok(scheduler_.finish(r))) return;
    r.output = r.generated();
    r.record.reasoning_tokens = std::min(r.record.reasoning_tokens, r.output.count());
    r.record.answer_tokens = r.output.count() - r.record.reasoning_tokens;
    r.record.finish = options_.clock.now();
    leaves(r);
  }

  void leaves(served& r) {
    if (std::find(leaving_.begin(), leaving_.end(), &r) == leaving_.end()) leaving_.push_back(&r);
  }
  /// Lets go of requests that have ended. A request in steps in flight leaves when these are settled.
  void take_leave() {
    std::erase_if(leaving_, [](served* r) {
      if (tessera::is_live(r->state().life)) return false;
      ended(*r);
      return true;
    });
  }

  [[nodiscard]] static double seconds(wall::duration d) { return std::chrono::duration<double>(d).count(); }

  tessera::owned_storage<tessera::scheduler_limits> storage_;
  Scheduler scheduler_;
  engine engine_;
  std::vector<launched_step> in_flight_;  ///< The oldest first.
  std::vector<tessera::outcome> outcomes_;
  std::vector<served*> leaving_;  ///< They end with a step in flight.
  double last_end_ = 0;           ///< End of the step that was settled last, on the loop's clock.
  wall::time_point last_settled_{};
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
        sim::cluster_of<Simulated>{options, config_of<typename Simulated::config>(o)}.run(rows, [](std::size_t) {});
    result.numbers.policy = name;
    return result;
  };
  return c;
}

}  // namespace cuda_decode
