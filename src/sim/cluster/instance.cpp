// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/order/two_phase.hpp>
#include <tessera/pacing/slo.hpp>
#include <tessera/sim/cluster/instance.hpp>
#include <tessera/sim/measure/tenant_shares.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace sim {

namespace {

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

}  // namespace

blocks instance::queued_blocks() const {
  blocks sum{};
  const auto needs = [this](const request& r) { return blocks_for(r.state().length, options_->limits.block_size); };
  for (const request* r : here_) {
    if (r->state().life == lifecycle::waiting && r->state().row == no_index) sum += needs(*r);
  }
  if (running_) {
    for (const auto& v : plan_->preempted) sum += needs(*v.request);
  }
  return sum;
}

status instance::submit(request& r, double arrived_s) {
  start();
  r.prefills = true;
  if (r.state().length == tokens{}) {
    const status s = engine_->submit(r, time_point::at_seconds(arrived_s));
    if (ok(s)) joined(r);
    return s;
  }
  auto progress = r.progress();
  progress.computed = tokens{};
  const status s = engine_->adopt(r, progress);
  if (ok(s)) joined(r);
  return s;
}

status instance::adopt(request& r) {
  start();
  const status s = engine_->adopt(r);
  if (ok(s)) joined(r);
  return s;
}

void instance::evacuate(request& r) {
  if (r.state().life != lifecycle::suspended) stops(r);
  std::erase(resuming_, &r);
  const status s = engine_->evacuate(r);
  TESSERA_ASSERT(ok(s), "only a request that is here, and between steps if it runs");
  static_cast<void>(s);
  left(r);
}

void instance::suspend(request& r) {
  const status s = engine_->suspend(r);
  TESSERA_ASSERT(ok(s), "only between steps, and only a resident");
  static_cast<void>(s);
  stops(r);
}

void instance::resume(request& r) {
  if (running_) return resuming_.push_back(&r);
  const status s = engine_->resume(r);
  TESSERA_ASSERT(ok(s), "only a request that is suspended here");
  static_cast<void>(s);
  runs(r);
}

std::size_t instance::fresh_answers(tokens quantum) const noexcept {
  std::size_t fresh = 0;
  for (const request* r : answering_) fresh += r->generated() - r->state().reasoning < quantum ? 1U : 0U;
  return fresh;
}

bool instance::slo_met(double now_s) const noexcept {
  const time_point now = time_point::at_seconds(now_s);
  const time_point next_step = time_point::at_seconds(now_s + last_step_s_);
  for (const request* r : answering_) {
    if (!meets_slo(r->pacer, r->state().answering_since, now, next_step)) return false;
  }
  return true;
}

void instance::start_step(double now_s) {
  const stopwatch watch{options_->times_scheduler};
  step_limits step = options_->step;
  if (const tokens most = prefill_budget_; most > tokens{}) {
    step.token_budget = min(step.token_budget, most + tokens{static_cast<std::int64_t>(engine_->load().resident)});
  }
  if (options_->prefill_in_time) step.prefill_budget = prefill_in_time();
  look_at_prefixes();
  const engine::plan_type& plan = engine_->plan(time_point::at_seconds(now_s), step);
  scheduler_ns_ = watch.nanoseconds();
  if (plan.empty()) {
    engine_->abandon();
    return;
  }
  plan_ = &plan;
  started_s_ = now_s;
  for (const preemption<request>& p : plan.preempted) p.request->preempted_since_s = now_s;
  losing_ = plan.preempted.size();
  for (const kv_transfer<request>& t : plan.swap_in) {
    coming_back_ += blocks{static_cast<std::int64_t>(t.device.size())};
  }
  tokens_ += static_cast<std::uint64_t>(plan.computed.count());
  step_shape shape{};
  outcomes_.resize(plan.size());
  outcome* o = outcomes_.data();
  for (const scheduled<request>& e : plan.decode) {
    shape.add_decode(e.first + e.count);
    *o++ = schedule(e);
  }
  for (const scheduled<request>& e : plan.prefill) {
    shape.add_prefill(e.first, e.count);
    *o++ = schedule(e);
  }
  const double copies_s = copy_seconds();
  const double kernels_s = options_->timer(shape);
  const double took_s = options_->swaps_overlap ? std::max(copies_s, kernels_s) : copies_s + kernels_s;
  ends_s_ = now_s + slowness_ * took_s;
  running_ = true;
}

void instance::settle() {
  const double now_s = ends_s_;
  const double took_s = now_s - started_s_;
  const time_point now = time_point::at_seconds(now_s);
  std::size_t i = 0;
  for (const scheduled<request>& e : plan_->decode) measure(e, outcomes_[i++], now, took_s);
  for (const scheduled<request>& e : plan_->prefill) measure(e, outcomes_[i++], now, took_s);
  const stopwatch watch{options_->times_scheduler};
  engine_->commit(outcomes_, now);
  scheduler_ns_ += watch.nanoseconds();
  running_ = false;
  for (request* r : resuming_) resume(*r);
  resuming_.clear();
  starting_ = losing_ = 0;
  coming_back_ = blocks{};
  last_step_s_ = took_s;
  busy_s_ += took_s;
}

/// Where the order goes by what is cached, at most `most` requests are looked at before a step, in turn: an engine has
/// little time.
void instance::look_at_prefixes() {
  constexpr std::size_t most = 128;
  if (!engine_->reads_prefixes()) return;
  for (std::size_t n = std::min(most, here_.size()); n != 0; --n) {
    engine_->look_again(*here_[looked_++ % here_.size()]);
  }
}

/// The budget of prompts beside the requests that decode in the next step, if they all do.
tokens instance::prefill_in_time() const {
  std::size_t decodes = 0;
  tokens context{};
  for (const request* r : engine_->residents()) {
    if (r->state().computed + tokens{1} != r->state().length) continue;
    ++decodes;
    context += r->state().length;
  }
  return (*options_->prefill_in_time)(decodes, context);
}

/// Notes whether a request starts. Returns what will come of the step for it: the model's part.
outcome instance::schedule(const scheduled<request>& e) {
  const request& r = *e.request;
  if (r.state().life == lifecycle::waiting) ++starting_;
  const tokens generated = r.generated() + tokens{e.samples ? 1 : 0};
  return {.end_of_reasoning = e.samples && generated == r.reasoning, .finished = e.samples && generated == r.output};
}

void instance::measure(const scheduled<request>& e, const outcome& o, time_point now, double took_s) {
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

void instance::start() {
  if (!started()) engine_ = maker_->make(options_->limits);
}

void instance::joined(request& r) {
  r.listed_at = here_.size();
  here_.push_back(&r);
  count(r, r.state().length);
  runs(r);
}

void instance::count(request& r, tokens length) noexcept {
  const tokens block_size = options_->limits.block_size;
  // Few tokens begin a block, and this is called for each of them: no division for the others.
  const tokens room = block_size * r.needs.count();
  if (room - block_size < length && length <= room) return;
  const blocks needs = blocks_for(length, block_size);
  needed_ += needs - r.needs;
  r.needs = needs;
}

void instance::runs(request& r) {
  if (r.state().phase == phase::answering) begins_to_answer(r);
}

void instance::begins_to_answer(request& r) {
  r.answering_at = answering_.size();
  answering_.push_back(&r);
}

void instance::left(request& r) {
  here_[r.listed_at] = here_.back();
  here_[r.listed_at]->listed_at = r.listed_at;
  here_.pop_back();
  needed_ -= r.needs;
  r.needs = blocks{};
}

void instance::stops(request& r) {
  forget_demotion(r);
  if (r.state().phase != phase::answering) return;
  answering_[r.answering_at] = answering_.back();
  answering_[r.answering_at]->answering_at = r.answering_at;
  answering_.pop_back();
}

void instance::forget_demotion(request& r) noexcept {
  if (r.counted_demoted) --demoted_;
  r.counted_demoted = false;
}

double instance::copy_seconds() const noexcept {
  std::size_t out = 0;
  std::size_t in = 0;
  for (const kv_transfer<request>& t : plan_->swap_out) out += t.device.size();
  for (const kv_transfer<request>& t : plan_->swap_in) in += t.host.size();
  const std::size_t copies = !options_->swaps_both_ways ? out + in : out > in ? out : in;
  return static_cast<double>(copies) * options_->swap_seconds_per_block;
}

}  // namespace sim
TESSERA_NAMESPACE_END
