// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/instance.hpp>
#include <tessera/sim/measure/metrics.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Most samples of a timeline. Each time there would be more, every second one is dropped.
inline constexpr std::size_t max_timeline_points = 16384;

/// What is written down while a cluster runs: requests that end, samples of the timeline, tokens of the measured
/// window, memory that is stranded.
class run_recorder {
 public:
  run_facts facts;              ///< To be added to while it runs.
  run_result result;            ///< The same. Whole after `sum_up`.
  std::vector<double> service;  ///< What each tenant has been given so far; empty where there are none.

  /// Samples so far apart at first.
  explicit run_recorder(double sample_interval_s) noexcept : sample_interval_s_{sample_interval_s} {}

  /// Time begins. The measured window is known as far as it will be: a short one gets its samples, too.
  void begin(double now_s) noexcept {
    last_s_ = next_sample_s_ = now_s;
    if (facts.window.length() > 0) sample_interval_s_ = std::min(sample_interval_s_, facts.window.length() / 32);
  }

  /// Counts the instances as they were from the last call until `now_s`. `alive` of them were alive, and `stranded`
  /// blocks of their `capacity` were stranded. `nowhere()` returns how many requests wait on no live instance. O(1), or
  /// O(instances) where a sample is due or the window begins or ends.
  template <class Instance, class Nowhere>
  void pass_time_to(double now_s, std::span<const Instance> instances, std::size_t alive, blocks stranded,
                    blocks capacity, Nowhere nowhere) {
    count_window(now_s, instances);
    const auto total = static_cast<double>(capacity.count());
    facts.faults.down_s += static_cast<double>(instances.size() - alive) * (now_s - last_s_);
    facts.fragmentation.add(static_cast<double>(stranded.count()) / total, now_s - last_s_);
    last_s_ = now_s;
    if (now_s < next_sample_s_) return;
    timeline_point sample{};
    double used = 0;
    for (const Instance& one : instances) {
      sample.running += static_cast<double>(one.holding());
      sample.waiting += static_cast<double>(one.waiting());
      used += static_cast<double>(one.device_blocks_held().count());
    }
    sample.waiting += static_cast<double>(nowhere());
    sample.live = static_cast<double>(alive);
    sample.kv_used = used / total;
    for (; next_sample_s_ <= now_s; next_sample_s_ += sample_interval_s_) {
      if (result.timeline.size() == max_timeline_points) thin_timeline();
      sample.time = next_sample_s_;
      result.timeline.push_back(sample);
    }
  }

  /// A request has ended, at `finish_s`, or never: then that is negative.
  void record(const request& r, double arrival_s, double finish_s, bool refused = false) {
    const auto moment = [](double at) { return at < 0 ? sim::never : at; };
    request_record out{.id = r.index,
                       .instance = static_cast<std::uint32_t>(r.where),
                       .preemptions = r.state().preemptions,
                       .migrations = r.migrations,
                       .recoveries = r.recoveries,
                       .cached_tokens = r.found.count(),
                       .tenant = r.service != nullptr ? static_cast<std::int32_t>(r.tenant) : -1,
                       .session = r.session,
                       .rejected = refused,
                       .prompt_tokens = r.prompt.count(),
                       .reasoning_tokens = r.reasoning.count(),
                       .answer_tokens = (r.output - r.reasoning).count(),
                       .arrival = arrival_s,
                       .first_scheduled = moment(r.first_step_s),
                       .first_token = moment(r.first_token_s),
                       .phase_change = r.reasoning > tokens{} ? moment(r.phase_change_s) : arrival_s,
                       .answer_scheduled = moment(r.answering_step_s),
                       .first_answer = moment(r.first_answer_s),
                       .finish = moment(finish_s),
                       .executed = r.executed_s,
                       .preempted = r.preempted_s};
    if (out.completed()) {
      out.blocked = std::max(finish_s - arrival_s - r.executed_s - r.preempted_s, 0.0);
      out.qoe = r.qoe.value();
    }
    result.requests.push_back(out);
  }

  /// Everything has ended, after `wall_s` seconds of this machine's. @param open whether requests came when they liked,
  /// and not when others had ended.
  template <class Instance>
  void sum_up(std::span<const Instance> instances, double wall_s, bool open) {
    // Records are made as requests end; reports are in order of arrival.
    std::sort(result.requests.begin(), result.requests.end(),
              [](const request_record& a, const request_record& b) { return a.id < b.id; });
    for (const Instance& one : instances) {
      facts.simulated_tokens += static_cast<double>(one.tokens_computed());
      result.instances.push_back(
          {.busy_s = one.busy_s(), .computed_tokens = one.tokens_computed(), .output_tokens = one.output_tokens()});
    }
    facts.wall_seconds = wall_s;
    count_window(std::numeric_limits<double>::infinity(), instances);
    result.window = facts.window;
    result.numbers = summarize(result.requests, facts);
    result.numbers.load = judge_load(result.timeline, facts.window,
                                     static_cast<double>(result.numbers.measured) / facts.window.length(), open);
  }

 private:
  template <class Instance>
  void count_window(double now_s, std::span<const Instance> instances) {
    if (now_s < facts.window.from || window_counted_) return;
    const auto generated = [&] {
      double sum = 0;
      for (const Instance& one : instances) sum += static_cast<double>(one.output_tokens());
      return sum;
    };
    if (std::isnan(generated_before_)) {
      generated_before_ = generated();
      service_before_ = service;
    }
    if (now_s <= facts.window.to) return;
    facts.window.output_tokens = generated() - generated_before_;
    facts.service = service;
    for (std::size_t t = 0; t != service.size(); ++t) facts.service[t] -= service_before_[t];
    window_counted_ = true;
  }

  /// Drops every second sample, so that a run of any length has a timeline of bounded size.
  void thin_timeline() noexcept {
    std::vector<timeline_point>& line = result.timeline;
    for (std::size_t i = 0; 2 * i < line.size(); ++i) line[i] = line[2 * i];
    line.resize((line.size() + 1) / 2);
    sample_interval_s_ *= 2;
  }

  double last_s_ = 0;
  double next_sample_s_ = 0;
  double sample_interval_s_;
  double generated_before_ = never;     ///< Output tokens when the measured window began.
  std::vector<double> service_before_;  ///< The same of `service`.
  bool window_counted_ = false;
};

}  // namespace sim
TESSERA_NAMESPACE_END
