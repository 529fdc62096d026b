// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/cost/prefill_budget.hpp>
#include <tessera/sim/cluster/engine.hpp>
#include <tessera/sim/cluster/request.hpp>
#include <tessera/sim/model/step_time.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

/// @file
/// One simulated engine instance: a scheduler and a clock for its steps.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// What an instance is.
struct instance_options {
  scheduler_limits limits{};  ///< The limits of its scheduler.
  step_limits step{};         ///< The limits of each step.
  tokens prefill_budget{};    ///< Not 0: a step has tokens for its residents, this, and no more.
  /// The same from step to step: as many tokens of prompts as leave the decoding requests in time.
  std::optional<cost::prefill_in_time> prefill_in_time{};
  step_timer timer;                   ///< How long a step takes.
  double swap_seconds_per_block = 0;  ///< One KV block over the link to host memory, one way.
  bool swaps_both_ways = true;        ///< Blocks go out and come in at the same time: the link is full duplex.
  bool swaps_overlap = false;         ///< A step takes the longer of its copies and its kernels; otherwise the kernels
                                      ///< wait for the copies. True flatters: even the blocks that this step's kernels
                                      ///< read or write are copied beside them.
  bool times_scheduler = true;        ///< Whether the wall time of its decisions is measured; else it is 0.
  double idle_watts = 0;              ///< What its devices draw together while they wait; 0: not said.
  double busy_watts = 0;              ///< The same during a step.
};

/// Seconds for which kernels wait in all when a token's KV goes out and comes back, by what the options say.
[[nodiscard]] inline double move_token_seconds(const instance_options& o) noexcept {
  return o.swaps_overlap ? 0 : 2 * o.swap_seconds_per_block / static_cast<double>(o.limits.block_size.count());
}

/// Drives one scheduler through its public calls, as an engine would: plan, run for as long as the cost model says,
/// commit. KV is copied before the step's kernels start, or beside them, as the options say.
class instance {
 public:
  /// `options` and `maker` must outlive it. Its engine is made when the first request comes: a large cluster that has
  /// little to do costs little.
  instance(const instance_options& options, const engine_maker& maker)
      : options_{&options}, maker_{&maker}, prefill_budget_{options.prefill_budget} {}

  /// Whether a request has ever come, so that there is an engine.
  [[nodiscard]] bool started() const noexcept { return engine_ != nullptr; }
  /// The engine that is driven: a scheduler. Requires: `started()`.
  [[nodiscard]] const engine& scheduler() const noexcept {
    TESSERA_ASSERT(started(), "no request has come");
    return *engine_;
  }
  /// What it is.
  [[nodiscard]] const instance_options& options() const noexcept { return *options_; }
  /// No request is here.
  [[nodiscard]] bool idle() const { return !started() || engine_->idle(); }

  /// What its engine has to do and holds, as that has it: the step under way has not happened. O(1).
  [[nodiscard]] engine_load load() const {
    if (started()) return engine_->load();
    return {.free = blocks{static_cast<std::int64_t>(options_->limits.blocks)}};
  }
  /// Blocks on the device that no request holds. O(1).
  [[nodiscard]] blocks free_blocks() const { return load().free; }
  /// Blocks on the device that requests hold. O(1).
  [[nodiscard]] blocks device_blocks_held() const { return load().device_held; }
  /// Blocks on device and host that requests hold. What comes back to the device in the step under way counts once.
  /// O(1).
  [[nodiscard]] blocks blocks_held() const { return held(load()); }
  /// The same of one request, on the device alone. Requires: `started()`.
  [[nodiscard]] blocks blocks_held(const request& r) const { return scheduler().blocks_held(r); }
  /// Requests that wait or run here; those that stand aside do not count. O(1).
  [[nodiscard]] std::size_t served() const { return served(load()); }
  /// What a placement policy is told of it. O(1).
  struct report {
    blocks free{};            ///< As `free_blocks`.
    blocks held{};            ///< As `blocks_held`.
    std::size_t waiting = 0;  ///< As `waiting`.
    std::size_t served = 0;   ///< As `served`.
  };
  /// See `report`.
  [[nodiscard]] report now() const {
    const engine_load l = load();
    return {l.free, held(l), l.waiting + losing_ - starting_, served(l)};
  }

  /// Whether a step is under way, and when it ends.
  [[nodiscard]] bool running() const noexcept { return running_; }
  /// When the step under way ends, in simulated seconds.
  [[nodiscard]] double ends_s() const noexcept { return ends_s_; }
  /// Tokens computed in all steps so far, prompts and outputs.
  [[nodiscard]] std::uint64_t tokens_computed() const noexcept { return tokens_; }

  /// Output tokens generated.
  [[nodiscard]] std::uint64_t output_tokens() const noexcept { return output_tokens_; }
  /// Simulated seconds spent in steps, one that a death broke off among them.
  [[nodiscard]] double busy_s() const noexcept { return busy_s_; }
  /// Wall time of `plan` and `commit` of the step that ended last; 0 if it is not measured.
  [[nodiscard]] std::uint64_t scheduler_ns() const noexcept { return scheduler_ns_; }
  /// The requests that are here, in no particular order.
  [[nodiscard]] std::span<request* const> requests() const noexcept { return here_; }

  /// Blocks that the requests need which wait here: new, arrived with their KV, or preempted; the step under way
  /// counts. O(requests).
  [[nodiscard]] blocks queued_blocks() const;

  /// Blocks for the tokens that the requests have which are here, whether they hold them or not. O(1).
  [[nodiscard]] blocks needed_blocks() const noexcept { return needed_; }

  /// Requests that hold blocks on the device and run, the step under way included; and those that do not: new or
  /// preempted. O(1).
  [[nodiscard]] std::size_t holding() const { return load().resident + starting_ - losing_; }
  /// New or preempted requests that are here. O(1).
  [[nodiscard]] std::size_t waiting() const { return load().waiting + losing_ - starting_; }

  /// A request comes that the user made at `arrived_s`. It is new, or its instance has died. Then it comes with the
  /// tokens that the user has, and their KV is computed anew. Returns as the scheduler's `submit`, `adopt`.
  status submit(request& r, double arrived_s);
  /// A request comes with its KV from another instance. Returns as the scheduler's `adopt`.
  status adopt(request& r);
  /// A request goes to another instance. Requires: it is here, and suspended or no step is under way.
  void evacuate(request& r);
  /// A request stops, with its blocks. Requires: it is resident here and no step is under way.
  void suspend(request& r);
  /// A suspended request goes on, from the next step on.
  void resume(request& r);

  /// The instance dies: the step under way never ends, and all that was in its memory is lost. Calls `lost(request&)`
  /// for each request that was here, in the order of arrival; it is in no scheduler then. What comes after this finds
  /// an empty instance. Its scheduler keeps what it learned: the clock of its queue, what tenants were given.
  template <class Lost>
  void die(double now_s, Lost&& lost) {
    if (!started()) return;
    if (running_) {
      tokens_ -= static_cast<std::uint64_t>(plan_->computed.count());
      busy_s_ += now_s - started_s_;
      engine_->abandon();
      running_ = false;
      starting_ = losing_ = 0;
      coming_back_ = blocks{};
    }
    resuming_.clear();
    std::vector<request*> all{here_.begin(), here_.end()};
    std::sort(all.begin(), all.end(), [](const request* a, const request* b) { return a->index < b->index; });
    for (request* r : all) {
      evacuate(*r);
      lost(*r);
    }
    last_step_s_ = 0;
  }
  /// Its death has become known: what it had cached is gone.
  void forget_prefixes() {
    if (started()) engine_->forget_prefixes();
  }
  /// The step under way ends `seconds` later. Requires: there is one.
  void delay(double seconds) noexcept { ends_s_ += seconds; }
  /// Steps that begin from now on take `factor` times as long.
  void slow_down(double factor) noexcept { slowness_ = factor; }
  /// Steps that begin from now on have `most` tokens for prompts, whatever `instance_options::prefill_budget` says. 0:
  /// only the step's own budget binds.
  void bound_prompts(tokens most) noexcept { prefill_budget_ = most; }

  /// Requests in the high-priority queue (PASCAL's r_i): reasoning and not demoted. O(1).
  [[nodiscard]] std::size_t reasoning() const { return served() - answering_.size() - demoted_; }
  /// Answering requests that have not used up their first quantum (a_i). O(answering requests).
  [[nodiscard]] std::size_t fresh_answers(tokens quantum) const noexcept;
  /// Whether all answering requests meet their SLO by their token pacers (t_i). O(answering requests).
  [[nodiscard]] bool slo_met(double now_s) const noexcept;

  /// Plans and starts a step, if there is anything to run.
  void start_step(double now_s);

  /// The step under way. Requires: there is one.
  [[nodiscard]] const engine::plan_type& step() const noexcept {
    TESSERA_ASSERT(running_, "a step is under way");
    return *plan_;
  }

  /// Ends the step: measures and commits. Then calls `finished(request&)` for each request that is done and
  /// `answers(request&)` for each that has just ended its reasoning. After those it calls `prefilled(request&)` for
  /// each request that has its first token here and is still here.
  template <class Finished, class Prefilled, class Answers>
  void end_step(Finished&& finished, Prefilled&& prefilled, Answers&& answers) {
    settle();
    for (request* r : changed_) {
      if (r->state().life == lifecycle::finished) {
        stops(*r);
        left(*r);
        finished(*r);
      } else {
        forget_demotion(*r);
        begins_to_answer(*r);
        answers(*r);
      }
    }
    changed_.clear();
    for (request* r : first_tokens_) {
      if (r->state().life == lifecycle::resident) prefilled(*r);
    }
    first_tokens_.clear();
  }

 private:
  /// Measures the step that ends, and commits it.
  void settle();
  void look_at_prefixes();
  [[nodiscard]] tokens prefill_in_time() const;
  [[nodiscard]] outcome schedule(const scheduled<request>& e);
  void measure(const scheduled<request>& e, const outcome& o, time_point now, double took_s);
  void start();
  void joined(request& r);
  void count(request& r, tokens length) noexcept;
  void runs(request& r);
  void begins_to_answer(request& r);
  void left(request& r);
  void stops(request& r);
  void forget_demotion(request& r) noexcept;
  [[nodiscard]] double copy_seconds() const noexcept;

  [[nodiscard]] blocks held(const engine_load& l) const noexcept {
    return started() ? l.device_held + l.host_held - coming_back_ : blocks{};
  }
  [[nodiscard]] static std::size_t served(const engine_load& l) noexcept { return l.waiting + l.resident; }

  const instance_options* options_;
  const engine_maker* maker_;
  std::unique_ptr<engine> engine_;
  const engine::plan_type* plan_ = nullptr;  ///< The engine's, of the step under way.
  std::vector<outcome> outcomes_;
  std::vector<request*> changed_;
  std::vector<request*> first_tokens_;
  std::vector<request*> here_;
  std::vector<request*> answering_;  ///< The answering requests that are here and not suspended.
  std::vector<request*> resuming_;   ///< When the step under way has ended.
  std::size_t starting_ = 0;         ///< In the step under way, waiting until it is committed.
  std::size_t losing_ = 0;           ///< Preempted in the step under way, resident until it is committed.
  blocks coming_back_{};             ///< Swapped in by the step under way, on the host until it is committed.
  blocks needed_{};                  ///< The sum of what those that are here need.
  std::size_t demoted_ = 0;          ///< Counted when a demoted request is next in a step.
  std::size_t looked_ = 0;           ///< How many have been looked at for their prefixes.
  double slowness_ = 1;
  tokens prefill_budget_{};
  double last_step_s_ = 0;
  double started_s_ = 0;
  double ends_s_ = 0;
  double busy_s_ = 0;
  std::uint64_t scheduler_ns_ = 0;
  std::uint64_t tokens_ = 0;
  std::uint64_t output_tokens_ = 0;
  bool running_ = false;
};

}  // namespace sim
TESSERA_NAMESPACE_END
