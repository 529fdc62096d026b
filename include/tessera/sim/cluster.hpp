// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/fragmentation.hpp>
#include <tessera/placement/least_kv.hpp>
#include <tessera/placement/pascal.hpp>
#include <tessera/sim/fabric.hpp>
#include <tessera/sim/instance.hpp>
#include <tessera/sim/metrics.hpp>
#include <tessera/sim/trace.hpp>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

/// @file
/// A deterministic discrete-event simulation of a cluster of engine instances.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// What a placement policy sees of a simulated instance.
struct instance_view {
  std::size_t id = 0;
  blocks kv_held{};          ///< On device and host.
  blocks free_blocks{};      ///< On the device.
  std::size_t requests = 0;  ///< Waiting and resident.
  // Filled in only for policies with a member `reads_phases`:
  bool slo_met = true;            ///< PASCAL's t_i.
  std::size_t reasoning = 0;      ///< PASCAL's r_i.
  std::size_t fresh_answers = 0;  ///< PASCAL's a_i.
};

/// A placement or migration policy that looks at the phases: it has a true constant `reads_phases`.
template <class P>
concept phase_reader = requires { requires P::reads_phases; };

/// How a run is set up.
struct cluster_options {
  std::size_t instances = 1;
  instance_options instance;
  double timeline_interval_s = 1.0;    ///< Between two samples of the timeline; doubled when there are too many.
  double fabric_bytes_per_s = 12.5e9;  ///< Of an instance's link to the others, each way.
  double kv_bytes_per_token = 0;       ///< What a migration moves per token.
  tokens quantum{500};                 ///< An answer that is no longer is still fresh (PASCAL's a_i).
};

/// Most samples of a timeline. Each time there would be more, every second one is dropped.
inline constexpr std::size_t max_timeline_points = 16384;

/// Runs a workload through `instances` copies of one scheduler.
///
/// Events are arrivals, ends of transfers and ends of steps. At equal times they come in this order, steps by the
/// instance's number, so that a run is a function of its inputs: it repeats exactly. The scheduler is driven through
/// its public calls alone. A request that migrates frees its blocks at once and computes nothing until its KV has
/// crossed the fabric; meanwhile it counts as being at its destination.
/// @tparam Scheduler any composition over `sim::request`.
/// @tparam Placement a function from a range of `instance_view` to the index of the instance for a new request.
/// @tparam Migration a function from the range, the current instance and the blocks needed there and elsewhere to the
///         instance on which a request goes on when it begins to answer.
template <class Scheduler, class Placement = placement::least_kv, class Migration = placement::stay>
class cluster {
 public:
  explicit cluster(const cluster_options& options, const typename Scheduler::config& config = {},
                   const Placement& placement = {}, const Migration& migration = {})
      : options_{options},
        placement_{placement},
        migration_{migration},
        fabric_{options.instances, options.fabric_bytes_per_s},
        views_(options.instances),
        incoming_(options.instances),
        stranded_(options.instances),
        sample_interval_s_{options.timeline_interval_s} {
    TESSERA_ASSERT(options.instances > 0, "a cluster has at least one instance");
    TESSERA_ASSERT(options.timeline_interval_s > 0, "samples need time between them");
    for (std::size_t i = 0; i != options.instances; ++i) {
      instances_.push_back(std::make_unique<instance<Scheduler>>(options_.instance, config));
      views_[i].id = i;
      look_at(i);
    }
  }

  /// Runs to the end of the last request. `rows` in order of arrival. `progress(completed)` is called after each
  /// request that ends. Call once. O(log instances) per event, and what placement and migration take.
  template <class Progress>
  [[nodiscard]] run_result run(std::span<const trace_row> rows, Progress&& progress) {
    const auto wall_start = std::chrono::steady_clock::now();
    requests_.resize(rows.size());
    result_.requests.reserve(rows.size());
    demand_ = reference_demand(rows);
    for (std::size_t i = 0; i != instances_.size(); ++i) look_at(i);
    std::size_t next_row = 0;
    std::size_t completed = 0;
    double now_s = rows.empty() ? 0.0 : rows.front().arrival_s;
    last_s_ = next_sample_s_ = now_s;
    while (true) {
      const double arrival_s = next_row < rows.size() ? rows[next_row].arrival_s : no_event;
      const double end_s = ends_.empty() ? no_event : ends_.front().first;
      const double moved_s = fabric_.next_end_s();
      now_s = std::min({arrival_s, moved_s, end_s});
      if (now_s == no_event) break;
      pass_time_to(now_s);
      if (arrival_s == now_s) {
        arrive(rows[next_row], next_row);
        ++next_row;
      } else if (moved_s == now_s) {
        fabric_.advance(now_s, [&](const fabric::completion& done) { arrive_with_kv(done); });
      } else {
        const std::size_t i = ends_.front().second;
        std::pop_heap(ends_.begin(), ends_.end(), std::greater<>{});
        ends_.pop_back();
        end_step(i, completed, progress);
        begin_step(i, now_s);
      }
    }
    TESSERA_ASSERT(result_.requests.size() == rows.size(), "every request ends");
    sum_up(std::chrono::duration<double>(std::chrono::steady_clock::now() - wall_start).count());
    return std::move(result_);
  }

 private:
  static constexpr double no_event = std::numeric_limits<double>::infinity();

  /// The demand below which free blocks are stranded: P95 of the prompts plus one growth block.
  [[nodiscard]] blocks reference_demand(std::span<const trace_row> rows) const {
    if (rows.empty()) return blocks{1};
    std::vector<std::int64_t> prompts;
    prompts.reserve(rows.size());
    for (const trace_row& row : rows) prompts.push_back(row.prompt_tokens);
    const auto p95 = prompts.begin() + static_cast<std::ptrdiff_t>((prompts.size() - 1) * 95 / 100);
    std::nth_element(prompts.begin(), p95, prompts.end());
    return blocks_for(tokens{*p95}, options_.instance.limits.block_size) + blocks{1};
  }

  void arrive(const trace_row& row, std::size_t index) {
    request& r = requests_[index];
    r.index = index;
    r.prompt = tokens{row.prompt_tokens};
    r.output = tokens{row.output_tokens};
    r.max_output = r.output;
    // An answer has at least one token: a request that was cut off while it reasoned answers with its last one.
    r.reasoning = min(tokens{row.reasoning_tokens}, r.output - tokens{1});
    r.starts_in = r.reasoning > tokens{} ? phase::reasoning : phase::answering;
    r.score = row.score;
    if constexpr (phase_reader<Placement>) look_at_phases(row.arrival_s);
    const std::size_t to = placement_(std::as_const(views_));
    r.where = to;
    if (instances_[to]->submit(r, row.arrival_s) != status::accepted) {
      record(r, row.arrival_s, -1);
      return;
    }
    if (!instances_[to]->running()) begin_step(to, row.arrival_s);
    look_at(to);
  }

  /// A request has just begun to answer, and its instance is between two steps: here it goes on, or elsewhere.
  void place_answer(request& r, double now_s) {
    if constexpr (!std::same_as<Migration, placement::stay>) {
      const std::size_t from = r.where;
      look_at(from);
      if constexpr (phase_reader<Migration>) look_at_phases(now_s);
      const tokens block_size = options_.instance.limits.block_size;
      const blocks moves = blocks_for(r.state().length, block_size);
      const blocks grows = moves - blocks_for(r.state().room, block_size);
      const std::size_t to = migration_(std::as_const(views_), from, max(grows, blocks{}), moves);
      if (to == from) return;
      instances_[from]->evacuate(r);
      look_at(from);
      r.where = to;
      ++r.migrations;
      incoming_[to].requests += 1;
      incoming_[to].held += moves;
      look_at(to);
      const double size = options_.kv_bytes_per_token * static_cast<double>(r.state().computed.count());
      fabric_.start(now_s, from, to, bytes{static_cast<std::int64_t>(size)}, r.index);
    }
  }

  void arrive_with_kv(const fabric::completion& done) {
    request& r = requests_[done.token];
    facts_.kv_transfers.push_back(done.ended_s - done.started_s);
    incoming_[r.where].requests -= 1;
    incoming_[r.where].held -= blocks_for(r.state().length, options_.instance.limits.block_size);
    const status adopted = instances_[r.where]->adopt(r, done.ended_s);
    TESSERA_ASSERT(ok(adopted), "every instance has the same limits");
    static_cast<void>(adopted);
    if (!instances_[r.where]->running()) begin_step(r.where, done.ended_s);
    look_at(r.where);
  }

  void begin_step(std::size_t i, double now_s) {
    if (!instances_[i]->scheduler().idle()) {
      instances_[i]->start_step(now_s, [this](std::uint64_t ns) { plan_ns_ = ns; });
      if (instances_[i]->running()) {
        ends_.emplace_back(instances_[i]->ends_s(), i);
        std::push_heap(ends_.begin(), ends_.end(), std::greater<>{});
      }
    }
    look_at(i);
  }

  template <class Progress>
  void end_step(std::size_t i, std::size_t& completed, Progress& progress) {
    const double end_s = instances_[i]->ends_s();
    instances_[i]->end_step(
        [&](request& r) {
          r.qoe.finish();
          record(r, r.state().arrived.seconds(), end_s);
          progress(++completed);
        },
        [&](request& r) { place_answer(r, end_s); },
        [this](std::uint64_t ns) { facts_.scheduler_ns.add(plan_ns_ + ns); });
  }

  [[nodiscard]] blocks capacity() const noexcept {
    return blocks{static_cast<std::int64_t>(options_.instance.limits.blocks)};
  }

  void look_at(std::size_t i) noexcept {
    const Scheduler& s = instances_[i]->scheduler();
    instance_view& v = views_[i];
    const blocks free{static_cast<std::int64_t>(s.store().free())};
    v.kv_held = s.device_blocks_held() + s.host_blocks_held() + incoming_[i].held;
    v.free_blocks = free - min(free, incoming_[i].held);
    v.requests = s.waiting_count() + s.resident_count() + incoming_[i].requests;
    const blocks stranded = kv::stranded_below{demand_}({.total = capacity(), .free = free});
    stranded_total_ += stranded - stranded_[i];
    stranded_[i] = stranded;
  }

  void look_at_phases(double now_s) noexcept {
    for (std::size_t i = 0; i != instances_.size(); ++i) {
      views_[i].slo_met = instances_[i]->slo_met(now_s);
      views_[i].reasoning = instances_[i]->reasoning();
      views_[i].fresh_answers = instances_[i]->fresh_answers(options_.quantum) + incoming_[i].requests;
    }
  }

  void pass_time_to(double now_s) {
    const auto total = static_cast<double>(options_.instance.limits.blocks * instances_.size());
    facts_.fragmentation.add(static_cast<double>(stranded_total_.count()) / total, now_s - last_s_);
    last_s_ = now_s;
    if (now_s < next_sample_s_) return;
    timeline_point sample{};
    double used = 0;
    for (const auto& one : instances_) {
      sample.running += static_cast<double>(one->holding());
      sample.waiting += static_cast<double>(one->waiting());
      used += static_cast<double>(one->scheduler().device_blocks_held().count());
    }
    sample.kv_used = used / total;
    for (; next_sample_s_ <= now_s; next_sample_s_ += sample_interval_s_) {
      if (result_.timeline.size() == max_timeline_points) thin_timeline();
      sample.time = next_sample_s_;
      result_.timeline.push_back(sample);
    }
  }

  /// Drops every second sample, so that a run of any length has a timeline of bounded size.
  void thin_timeline() noexcept {
    std::vector<timeline_point>& line = result_.timeline;
    for (std::size_t i = 0; 2 * i < line.size(); ++i) line[i] = line[2 * i];
    line.resize((line.size() + 1) / 2);
    sample_interval_s_ *= 2;
  }

  void record(const request& r, double arrival_s, double finish_s) {
    const auto moment = [](double at) { return at < 0 ? sim::never : at; };
    request_record out{
        .id = r.index,
        .instance = static_cast<std::uint32_t>(r.where),
        .preemptions = r.state().preemptions,
        .migrations = r.migrations,
        .rejected = finish_s<0, .prompt_tokens = r.prompt.count(), .reasoning_tokens = r.reasoning.count(),
                             .answer_tokens = (r.output - r.reasoning).count(), .arrival = arrival_s,
                             .first_scheduled = moment(r.first_step_s), .first_token = moment(r.first_token_s),
                             .phase_change = r.reasoning>
                            tokens{}
                        ? moment(r.phase_change_s)
                        : arrival_s,
        .answer_scheduled = moment(r.answering_step_s),
        .first_answer = moment(r.first_answer_s),
        .finish = moment(finish_s),
        .executed = r.executed_s,
        .preempted = r.preempted_s};
    if (!out.rejected) {
      out.blocked = std::max(finish_s - arrival_s - r.executed_s - r.preempted_s, 0.0);
      out.qoe = r.qoe.value();
    }
    result_.requests.push_back(out);
  }

  void sum_up(double wall_s) {
    // Records are made as requests end; reports are in order of arrival.
    std::sort(result_.requests.begin(), result_.requests.end(),
              [](const request_record& a, const request_record& b) { return a.id < b.id; });
    for (const auto& one : instances_) facts_.simulated_tokens += static_cast<double>(one->tokens_computed());
    facts_.wall_seconds = wall_s;
    result_.numbers = summarize(result_.requests, facts_);
  }

  /// Requests that are on their way to an instance, and the blocks that they will take.
  struct on_the_way {
    std::size_t requests = 0;
    blocks held{};
  };

  cluster_options options_;
  Placement placement_;
  Migration migration_;
  fabric fabric_;
  std::vector<std::unique_ptr<instance<Scheduler>>> instances_;
  std::vector<std::pair<double, std::size_t>> ends_;  ///< Heap: when each running step ends, and whose it is.
  std::vector<instance_view> views_;
  std::vector<on_the_way> incoming_;
  std::vector<request> requests_;
  std::vector<blocks> stranded_;
  blocks stranded_total_{};
  blocks demand_{1};
  double last_s_ = 0;
  double next_sample_s_ = 0;
  double sample_interval_s_;
  std::uint64_t plan_ns_ = 0;
  run_facts facts_;
  run_result result_;
};

}  // namespace sim
TESSERA_NAMESPACE_END
