// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/owned_storage.hpp>
#include <tessera/cost/prefill_budget.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/migration/live_migration.hpp>
#include <tessera/order/earliest_due.hpp>
#include <tessera/order/least_attained_service.hpp>
#include <tessera/order/least_slack.hpp>
#include <tessera/order/longest_prefix.hpp>
#include <tessera/order/paced.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/order/shortest_rest.hpp>
#include <tessera/order/two_phase.hpp>
#include <tessera/pacing/slo.hpp>
#include <tessera/pacing/token_pacer.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/qoe/integrator.hpp>
#include <tessera/rank/expected_rest.hpp>
#include <tessera/request/hook.hpp>
#include <tessera/sim/model/step_time.hpp>
#include <tessera/sim/report/tenant_shares.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

/// @file
/// One simulated engine instance: a scheduler and a clock for its steps.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// How far a migration is.
enum class migration_stage : std::uint8_t {
  none,
  copies,   ///< Runs on while its KV is copied.
  stops,    ///< Copied but for the last tokens; stops when the step under way ends.
  stopped,  ///< Runs nowhere; the last copy is on its way. Its blocks are where it was.
  arrived,  ///< Runs nowhere; all its KV is at the destination, and still where it was.
};

/// The migration of a request to another instance.
struct migration_progress {
  migration_stage stage = migration_stage::none;  ///< How far it is.
  migration::live_migration copy{};               ///< In what rounds it is copied while it runs on.
  tokens copied{};                                ///< Of the computed tokens; what is on the fabric counts.
  std::size_t to = 0;                             ///< The destination.
  blocks takes{};                                 ///< Blocks announced at the destination.
  double began_s = 0;                             ///< When the copy began.
  double stopped_s = 0;                           ///< When the request was stopped.
};

struct request;

/// Scores with the true output length, which only a simulation knows: what a perfect predictor would say.
struct true_length {
  /// The output length, which a real scheduler cannot know.
  [[nodiscard]] float operator()(const request& r) const noexcept;
};

/// A request as the simulator runs it: what the model will do, and what has been measured so far. It can be served in
/// any of the library's orders. One of your own that keeps something about each request can use the state of one of
/// these, for instance `template <clock_policy Clock> using state = order::round_robin::state<Clock>`.
struct request : request_hook_for<order::round_robin, order::two_phase, order::paced<>, order::earliest_due<>,
                                  order::ranked<>, order::ranked<true_length>, order::least_attained_service<>,
                                  order::shortest_rest<rank::expected_rest<>>, order::least_slack<>> {
  float score = 0;                             ///< As the workload says; smaller is expected to be shorter.
  std::size_t index = 0;                       ///< Row of the workload.
  order::program_service* program = nullptr;   ///< Of its session, if it is in one.
  std::uint32_t tenant = 0;                    ///< Whose it is.
  std::int64_t session = -1;                   ///< Of which it is a turn; -1: of none.
  double* service = nullptr;                   ///< What its tenant has been given; null: nobody says whose it is.
  tokens cached{};                             ///< Of its prompt, as its order knew last; see `order::longest_prefix`.
  time_point answer_by = time_point::never();  ///< For `gate::in_time`.
  tokens output{};                             ///< Tokens it will generate in all. At least 1.
  tokens reasoning{};                          ///< Of these, tokens of the reasoning phase. Less than `output`.
  std::size_t where = 0;                       ///< The instance it is on.
  double executed_s = 0;                       ///< Time in steps that computed something for it.
  tokens found{};                              ///< Of its prompt, in the prefix cache when it first started.
  double preempted_s = 0;                      ///< Time between losing its blocks and the next step it was in.
  double preempted_since_s = -1;               ///< When it lost its blocks; -1: it has them, or never had.
  double first_step_s = -1;                    ///< Start of the first such step; -1: none yet.
  double phase_change_s = -1;                  ///< When reasoning ended; -1: not yet, or never reasoned.
  double answering_step_s = -1;                ///< Start of the first step of the answering phase; -1: none yet.
  double first_token_s = -1;                   ///< End of the step that gave its first token; -1: none yet.
  double first_answer_s = -1;                  ///< First answering token; -1: none yet.
  std::size_t answering_at = 0;                ///< Place in the list of its instance's answering requests.
  std::uint32_t migrations = 0;                ///< Moves to another instance.
  std::uint32_t recoveries = 0;                ///< How often its instance died under it.
  bool prefills = true;                        ///< It has sampled no token since it was placed.
  std::size_t listed_at = 0;                   ///< Place in the list of its instance's requests.
  blocks needs{};                              ///< Blocks for its tokens, as its instance counts them.
  migration_progress migration{};              ///< Its current migration.
  double next_turn_s = -1;  ///< From its last token to the next turn of its session; -1: there is none.
  double kept_s = 0;        ///< For how long a turn's KV is asked to be kept then.
  time_point keep_until{};  ///< For `kv::keep_until`, from its last token on.
  time_point next_use = time_point::never();  ///< For `kv::next_use`, likewise: known to a simulation alone.
  bool counted_demoted = false;               ///< In its instance's count of demoted requests.
  qoe_integrator qoe{};                       ///< Measures the answer.
  token_pacer pacer{};                        ///< Releases the answer.
  /// Of its full blocks, prompt and answer, which a simulation knows before it is generated. Empty where nothing is
  /// shared, and when it has ended.
  std::vector<std::uint64_t> hashes{};
  tokens hash_block{16};  ///< Tokens per block, as these count.

  /// For the prefix cache: of the blocks that are full by now.
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept {
    const auto full = static_cast<std::size_t>(max(prompt, state().length) / hash_block);
    return std::span{hashes}.first(std::min(hashes.size(), full));
  }
};

/// Where simulated instances have their KV. Requests without hashes share nothing, and are served as with a
/// `kv::block_pool`.
using kv_store = kv::prefix_cache;

inline float true_length::operator()(const request& r) const noexcept { return static_cast<float>(r.output.count()); }

/// Whether a live migration of `r` may begin: it holds blocks, has a token since it was placed and is not on its way
/// already. (One whose instance has died has tokens, and its prompt is computed again: that is finished first.)
[[nodiscard]] inline bool may_migrate(const request& r) noexcept {
  return r.migration.stage == migration_stage::none && r.state().life == lifecycle::resident && !r.prefills;
}

/// What an instance is.
struct instance_options {
  scheduler_limits limits{};  ///< Of its scheduler.
  step_limits step{};         ///< Of each step.
  tokens prefill_budget{};    ///< Not 0: a step has tokens for its residents, this, and no more.
  /// The same from step to step: as many tokens of prompts as leave those who decode in time.
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

namespace detail {

/// Wall time since it was made. If it does not run that is 0, and no clock is read.
class stopwatch {
 public:
  explicit stopwatch(bool runs) : runs_{runs} {
    if (runs) since_ = clock::now();
  }
  [[nodiscard]] std::uint64_t nanoseconds() const {
    if (!runs_) return 0;
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now() - since_).count());
  }

 private:
  using clock = std::chrono::steady_clock;
  bool runs_;
  clock::time_point since_{};
};

}  // namespace detail

/// Drives one scheduler through its public calls, as an engine would: plan, run for as long as the cost model says,
/// commit. KV is copied before the step's kernels start, or beside them, as the options say.
template <class Scheduler>
class instance {
 public:
  /// `options` must outlive it. Its scheduler is made when the first request comes: a large cluster that has little to
  /// do costs little.
  instance(const instance_options& options, const typename Scheduler::config& config)
      : options_{&options}, config_{config}, prefill_budget_{options.prefill_budget} {}

  /// Whether a request has ever come, so that there is a scheduler.
  [[nodiscard]] bool started() const noexcept { return engine_ != nullptr; }
  /// The scheduler that is driven. Requires: `started()`.
  [[nodiscard]] Scheduler& scheduler() noexcept {
    TESSERA_ASSERT(started(), "no request has come");
    return engine_->scheduler;
  }
  /// The scheduler that is driven. Requires: `started()`.
  [[nodiscard]] const Scheduler& scheduler() const noexcept {
    TESSERA_ASSERT(started(), "no request has come");
    return engine_->scheduler;
  }
  /// What it is.
  [[nodiscard]] const instance_options& options() const noexcept { return *options_; }
  /// No request is here.
  [[nodiscard]] bool idle() const noexcept { return !started() || scheduler().idle(); }

  /// Blocks on the device that nobody holds. O(1).
  [[nodiscard]] blocks free_blocks() const noexcept {
    return blocks{static_cast<std::int64_t>(started() ? scheduler().store().free() : options_->limits.blocks)};
  }
  /// Blocks on the device that requests hold. O(1).
  [[nodiscard]] blocks device_blocks_held() const noexcept {
    return started() ? scheduler().device_blocks_held() : blocks{};
  }
  /// Blocks on device and host that requests hold. What comes back to the device in the step under way counts once.
  /// O(1).
  [[nodiscard]] blocks blocks_held() const noexcept {
    return started() ? scheduler().device_blocks_held() + scheduler().host_blocks_held() - coming_back_ : blocks{};
  }
  /// Requests that wait or run here; those that stand aside do not count. O(1).
  [[nodiscard]] std::size_t served() const noexcept {
    return started() ? scheduler().waiting_count() + scheduler().resident_count() : 0;
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
  [[nodiscard]] blocks queued_blocks() const noexcept {
    blocks sum{};
    const auto needs = [this](const request& r) { return blocks_for(r.state().length, options_->limits.block_size); };
    for (const request* r : here_) {
      if (r->state().life == lifecycle::waiting && r->state().row == no_index) sum += needs(*r);
    }
    if (running_) {
      for (const auto& v : plan_.preempted) sum += needs(*v.request);
    }
    return sum;
  }

  /// Blocks that the first of those needs which does not start in the step under way. O(requests).
  [[nodiscard]] blocks first_blocks() const noexcept {
    const request* first = nullptr;
    if (started()) {
      scheduler().waiting().for_each([&first](const request& r) noexcept {
        if (first == nullptr && r.state().row == no_index) first = &r;
      });
    }
    return first == nullptr ? blocks{} : blocks_for(first->state().length, options_->limits.block_size);
  }

  /// Blocks for the tokens that the requests have which are here, whether they hold them or not. O(1).
  [[nodiscard]] blocks needed_blocks() const noexcept { return needed_; }

  /// Requests that hold blocks on the device and run, the step under way included; and those that do not: new or
  /// preempted. O(1).
  [[nodiscard]] std::size_t holding() const noexcept {
    return started() ? scheduler().resident_count() + starting_ - losing_ : 0;
  }
  /// New or preempted requests that are here. O(1).
  [[nodiscard]] std::size_t waiting() const noexcept {
    return started() ? scheduler().waiting_count() + losing_ - starting_ : 0;
  }

  /// A request comes that the user made at `arrived_s`: new, or, after its instance has died, with the tokens that the
  /// user has; their KV is computed anew. Returns as the scheduler's `submit`, `adopt`.
  status submit(request& r, double arrived_s) {
    start();
    r.prefills = true;
    if constexpr (by_prefix) r.cached = order::cached_prefix(scheduler().store(), r, options_->limits.block_size);
    if (r.state().length == tokens{}) {
      const status s = scheduler().submit(r, time_point::at_seconds(arrived_s));
      if (ok(s)) joined(r);
      return s;
    }
    auto progress = r.progress();
    progress.computed = tokens{};
    const status s = scheduler().adopt(r, progress);
    if (ok(s)) joined(r);
    return s;
  }
  /// A request comes with its KV from another instance. Returns as the scheduler's `adopt`.
  status adopt(request& r) {
    start();
    if constexpr (by_prefix) r.cached = order::cached_prefix(scheduler().store(), r, options_->limits.block_size);
    const status s = scheduler().adopt(r);
    if (ok(s)) joined(r);
    return s;
  }
  /// A request goes to another instance. Requires: it is here, and suspended or no step is under way.
  void evacuate(request& r) {
    if (r.state().life != lifecycle::suspended) stops(r);
    std::erase(resuming_, &r);
    const status s = scheduler().evacuate(r);
    TESSERA_ASSERT(ok(s), "only who is here, and between steps if it runs");
    static_cast<void>(s);
    left(r);
  }
  /// A request stops, with its blocks. Requires: it is resident here and no step is under way.
  void suspend(request& r) {
    const status s = scheduler().suspend(r);
    TESSERA_ASSERT(ok(s), "only between steps, and only who is resident here");
    static_cast<void>(s);
    stops(r);
  }
  /// A suspended request goes on, from the next step on.
  void resume(request& r) {
    if (running_) return resuming_.push_back(&r);
    const status s = scheduler().resume(r);
    TESSERA_ASSERT(ok(s), "only who is suspended here");
    static_cast<void>(s);
    runs(r);
  }

  /// The instance dies: the step under way never ends, and all that was in its memory is lost. Calls `lost(request&)`
  /// for each request that was here, in the order of arrival; it is in no scheduler then. What comes after this finds
  /// an empty instance, whose scheduler has what it learned: the clock of its line, what tenants were given.
  template <class Lost>
  void die(double now_s, Lost&& lost) {
    if (!started()) return;
    if (running_) {
      tokens_ -= static_cast<std::uint64_t>(plan_.computed.count());
      busy_s_ += now_s - started_s_;
      scheduler().abandon(plan_);
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
    if (!started()) return;
    if constexpr (requires { scheduler().forget_prefixes(); }) static_cast<void>(scheduler().forget_prefixes());
  }
  /// The step under way ends so much later. Requires: there is one.
  void delay(double seconds) noexcept { ends_s_ += seconds; }
  /// Steps that begin from now on take so many times as long.
  void slow_down(double factor) noexcept { slowness_ = factor; }
  /// Steps that begin from now on have so many tokens for prompts, whatever `instance_options::prefill_budget` says. 0:
  /// only the step's own budget binds.
  void bound_prompts(tokens most) noexcept { prefill_budget_ = most; }

  /// Requests in the high-priority queue (PASCAL's r_i): reasoning and not demoted. O(1).
  [[nodiscard]] std::size_t reasoning() const noexcept { return served() - answering_.size() - demoted_; }
  /// Answering requests that have not used up their first quantum (a_i). O(answering requests).
  [[nodiscard]] std::size_t fresh_answers(tokens quantum) const noexcept {
    std::size_t fresh = 0;
    for (const request* r : answering_) fresh += r->generated() - r->state().reasoning < quantum ? 1U : 0U;
    return fresh;
  }
  /// Whether all answering requests meet their SLO by their token pacers (t_i). O(answering requests).
  [[nodiscard]] bool slo_met(double now_s) const noexcept {
    const time_point now = time_point::at_seconds(now_s);
    const time_point next_step = time_point::at_seconds(now_s + last_step_s_);
    for (const request* r : answering_) {
      if (!meets_slo(r->pacer, r->state().answering_since, now, next_step)) return false;
    }
    return true;
  }

  /// Plans and starts a step, if there is anything to run.
  void start_step(double now_s) {
    const detail::stopwatch watch{options_->times_scheduler};
    step_limits step = options_->step;
    if (const tokens most = prefill_budget_; most > tokens{}) {
      step.token_budget =
          min(step.token_budget, most + tokens{static_cast<std::int64_t>(scheduler().resident_count())});
    }
    if (options_->prefill_in_time) step.prefill_budget = prefill_in_time();
    if constexpr (by_prefix) look_at_prefixes();
    plan_ = scheduler().plan(time_point::at_seconds(now_s), step);
    scheduler_ns_ = watch.nanoseconds();
    if (plan_.empty()) {
      scheduler().abandon(plan_);
      return;
    }
    started_s_ = now_s;
    for (const preemption<request>& p : plan_.preempted) p.request->preempted_since_s = now_s;
    losing_ = plan_.preempted.size();
    for (const kv_transfer<request>& t : plan_.swap_in) {
      coming_back_ += blocks{static_cast<std::int64_t>(t.device.size())};
    }
    tokens_ += static_cast<std::uint64_t>(plan_.computed.count());
    step_shape shape{};
    outcomes_.clear();
    for (const scheduled<request>& e : plan_.decode) {
      shape.add_decode(e.first + e.count);
      schedule(e);
    }
    for (const scheduled<request>& e : plan_.prefill) {
      shape.add_prefill(e.first, e.count);
      schedule(e);
    }
    const double copies_s = copy_seconds();
    const double kernels_s = options_->timer(shape);
    const double took_s = options_->swaps_overlap ? std::max(copies_s, kernels_s) : copies_s + kernels_s;
    ends_s_ = now_s + slowness_ * took_s;
    running_ = true;
  }

  /// Tells of the step that has just begun, with `tell(scheduler, plan, ends_s)`. Requires: it is under way.
  template <class Tell>
  void explain(Tell&& tell) const {
    tell(scheduler(), plan_, ends_s_);
  }

  /// Ends the step: measures, commits, and calls `finished(request&)` for each request that is done and
  /// `answers(request&)` for each that has just ended its reasoning, then `prefilled(request&)` for each that has its
  /// first token here and is still here.
  template <class Finished, class Prefilled, class Answers>
  void end_step(Finished&& finished, Prefilled&& prefilled, Answers&& answers) {
    const double now_s = ends_s_;
    const double took_s = now_s - started_s_;
    const time_point now = time_point::at_seconds(now_s);
    std::size_t i = 0;
    for (const scheduled<request>& e : plan_.decode) measure(e, outcomes_[i++], now, took_s);
    for (const scheduled<request>& e : plan_.prefill) measure(e, outcomes_[i++], now, took_s);
    const detail::stopwatch watch{options_->times_scheduler};
    scheduler().commit(plan_, outcomes_, now);
    scheduler_ns_ += watch.nanoseconds();
    running_ = false;
    for (request* r : resuming_) resume(*r);
    resuming_.clear();
    starting_ = losing_ = 0;
    coming_back_ = blocks{};
    last_step_s_ = took_s;
    busy_s_ += took_s;
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
  /// Whether its order goes by what the cache has.
  static constexpr bool by_prefix = requires {
    requires std::remove_cvref_t<decltype(std::declval<const Scheduler&>().waiting().discipline())>::reads_prefixes;
  };
  /// So many requests are looked at before a step, in turn: an engine has little time for it.
  static constexpr std::size_t looks_at_prefixes = 128;

  void look_at_prefixes() {
    for (std::size_t n = std::min(looks_at_prefixes, here_.size()); n != 0; --n) {
      order::look_again(scheduler(), *here_[looked_++ % here_.size()]);
    }
  }
  /// For those who decode in the next step, if they all do.
  [[nodiscard]] tokens prefill_in_time() const noexcept {
    std::size_t decodes = 0;
    tokens context{};
    for (const request* r : scheduler().residents()) {
      if (r->state().computed + tokens{1} != r->state().length) continue;
      ++decodes;
      context += r->state().length;
    }
    return (*options_->prefill_in_time)(decodes, context);
  }

  /// Notes who starts, and what will come of the step: the model's part.
  void schedule(const scheduled<request>& e) {
    const request& r = *e.request;
    if (r.state().life == lifecycle::waiting) ++starting_;
    const tokens generated = r.generated() + tokens{e.samples ? 1 : 0};
    outcomes_.push_back(
        {.end_of_reasoning = e.samples && generated == r.reasoning, .finished = e.samples && generated == r.output});
  }

  void measure(const scheduled<request>& e, const outcome& o, time_point now, double took_s) {
    request& r = *e.request;
    r.executed_s += took_s;
    if (r.first_step_s < 0) {
      r.first_step_s = started_s_;
      r.found = e.first;
      if (r.service != nullptr) *r.service += prompt_service * static_cast<double>(r.prompt.count());
    }
    if (e.samples) {
      ++output_tokens_;
      if (r.service != nullptr) *r.service += output_service;
      count(r, r.state().length + tokens{1});
    }
    if (r.first_token_s < 0 && e.samples) r.first_token_s = now.seconds();
    if (r.prefills && e.samples) {
      r.prefills = false;
      first_tokens_.push_back(&r);
    }
    if (r.preempted_since_s >= 0) {
      r.preempted_s += started_s_ - r.preempted_since_s;
      r.preempted_since_s = -1;
    }
    if (r.state().phase == phase::answering) {
      if (r.answering_step_s < 0) r.answering_step_s = started_s_;
      if (e.samples) {
        if (r.first_answer_s < 0) r.first_answer_s = now.seconds();
        r.qoe.on_token(now);
        r.pacer.on_token(now);
      }
    } else {
      if (order::two_phase::is_demoted(r) && !r.counted_demoted) {
        r.counted_demoted = true;
        ++demoted_;
      }
      if (o.end_of_reasoning) {
        r.phase_change_s = now.seconds();
        changed_.push_back(&r);
      }
    }
    if (o.finished) {
      changed_.push_back(&r);
      if (r.next_turn_s >= 0) {
        if (r.kept_s > 0) r.keep_until = time_point::at_seconds(now.seconds() + r.kept_s);
        r.next_use = time_point::at_seconds(now.seconds() + r.next_turn_s);
      }
    }
  }

  void start() {
    if (!started()) engine_ = std::make_unique<engine>(options_->limits, config_);
  }
  void joined(request& r) {
    r.listed_at = here_.size();
    here_.push_back(&r);
    count(r, r.state().length);
    runs(r);
  }
  void count(request& r, tokens length) noexcept {
    const blocks needs = blocks_for(length, options_->limits.block_size);
    needed_ += needs - r.needs;
    r.needs = needs;
  }
  void runs(request& r) {
    if (r.state().phase == phase::answering) begins_to_answer(r);
  }
  void begins_to_answer(request& r) {
    r.answering_at = answering_.size();
    answering_.push_back(&r);
  }
  void left(request& r) {
    here_[r.listed_at] = here_.back();
    here_[r.listed_at]->listed_at = r.listed_at;
    here_.pop_back();
    needed_ -= r.needs;
    r.needs = blocks{};
  }
  void stops(request& r) {
    forget_demotion(r);
    if (r.state().phase != phase::answering) return;
    answering_[r.answering_at] = answering_.back();
    answering_[r.answering_at]->answering_at = r.answering_at;
    answering_.pop_back();
  }
  void forget_demotion(request& r) noexcept {
    if (r.counted_demoted) --demoted_;
    r.counted_demoted = false;
  }

  [[nodiscard]] double copy_seconds() const noexcept {
    std::size_t out = 0;
    std::size_t in = 0;
    for (const kv_transfer<request>& t : plan_.swap_out) out += t.device.size();
    for (const kv_transfer<request>& t : plan_.swap_in) in += t.host.size();
    const std::size_t copies = !options_->swaps_both_ways ? out + in : out > in ? out : in;
    return static_cast<double>(copies) * options_->swap_seconds_per_block;
  }

  struct engine {
    engine(const scheduler_limits& limits, const typename Scheduler::config& config)
        : storage{storage_for<Scheduler>(limits)}, scheduler{storage, config} {}
    owned_storage<scheduler_limits> storage;
    Scheduler scheduler;
  };

  const instance_options* options_;
  typename Scheduler::config config_;
  std::unique_ptr<engine> engine_;
  typename Scheduler::plan_type plan_{};
  std::vector<outcome> outcomes_;
  std::vector<request*> changed_;
  std::vector<request*> first_tokens_;
  std::vector<request*> here_;
  std::vector<request*> answering_;  ///< Of those that are here and not suspended.
  std::vector<request*> resuming_;   ///< When the step under way has ended.
  std::size_t starting_ = 0;         ///< In the step under way, waiting until it is committed.
  std::size_t losing_ = 0;           ///< Preempted in the step under way, resident until it is committed.
  blocks coming_back_{};             ///< Swapped in by the step under way, on the host until it is committed.
  blocks needed_{};                  ///< The sum of what those that are here need.
  std::size_t demoted_ = 0;          ///< Counted when a demoted request is next in a step.
  std::size_t looked_ = 0;           ///< So many have been looked at for their prefixes.
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
