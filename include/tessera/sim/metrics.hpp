// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>
#include <tessera/qoe/integrator.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// What is measured in a run: a record per request, and the numbers that compare policies.
///
/// Times are in seconds. A moment that never came is NaN, and so is a number that has no sample.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// A moment that has not come, a number that nothing was measured for.
inline constexpr double never = std::numeric_limits<double>::quiet_NaN();

/// The life of one request.
struct request_record {
  std::uint64_t id = 0;               ///< Row of the workload, from 0.
  std::uint32_t instance = 0;         ///< Where it ended.
  std::uint32_t preemptions = 0;      ///< How often it lost its blocks.
  std::uint32_t migrations = 0;       ///< How often it moved.
  bool rejected = false;              ///< Refused at submission: it can never fit, or the queue was full.
  std::int64_t prompt_tokens = 0;     ///< As in the workload.
  std::int64_t reasoning_tokens = 0;  ///< As in the workload.
  std::int64_t answer_tokens = 0;     ///< As in the workload.
  double arrival = 0;                 ///< In simulated seconds.
  double first_scheduled = never;     ///< Start of the first step it was in.
  double first_token = never;         ///< End of the step that gave its first token, reasoning or answer.
  double phase_change = never;        ///< End of its reasoning; its arrival if it does not reason.
  double answer_scheduled = never;    ///< Start of the first step it was in after the phase change.
  double first_answer = never;        ///< End of the step that gave its first answering token.
  double finish = never;              ///< End of the step that gave its last token.
  double executed = 0;                ///< Time in steps.
  double blocked = 0;                 ///< Time ready to run, never yet run or not preempted, but not in a step.
  double preempted = 0;               ///< Time without its blocks after a preemption.
  double qoe = never;                 ///< Of a finished request with an answer.

  /// Reasoning and answer.
  [[nodiscard]] std::int64_t output_tokens() const noexcept { return reasoning_tokens + answer_tokens; }
  /// Whether its last token was produced.
  [[nodiscard]] bool completed() const noexcept { return !std::isnan(finish); }
  /// Submission to first *answering* token (PASCAL, section V-A).
  [[nodiscard]] double ttft() const noexcept { return first_answer - arrival; }
  /// Mean time between the answering tokens; NaN for less than two.
  [[nodiscard]] double tpot() const noexcept {
    return answer_tokens < 2 ? never : (finish - first_answer) / static_cast<double>(answer_tokens - 1);
  }
  /// Seconds from arrival to the last token.
  [[nodiscard]] double e2e() const noexcept { return finish - arrival; }
  /// End-to-end latency per output token (PARS).
  [[nodiscard]] double normalized_latency() const noexcept { return e2e() / static_cast<double>(output_tokens()); }
  /// Phase change to first scheduled (PASCAL, section V-D); NaN for a request that does not reason.
  [[nodiscard]] double blocking() const noexcept {
    return reasoning_tokens == 0 ? never : answer_scheduled - phase_change;
  }
};

/// The quantile `p` of sorted values: linear between the two nearest ranks, rank p (n - 1) counted from 0. NaN for no
/// values. Requires `p` in [0, 1]. O(1).
[[nodiscard]] inline double percentile(std::span<const double> sorted, double p) noexcept {
  if (sorted.empty()) return never;
  const double rank = p * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(rank);
  if (low + 1 >= sorted.size()) return sorted.back();
  return sorted[low] + (rank - static_cast<double>(low)) * (sorted[low + 1] - sorted[low]);
}

/// The spread of some samples.
struct distribution {
  std::size_t count = 0;  ///< How many values.
  double mean = never;    ///< Their mean.
  double p50 = never;     ///< The median.
  double p90 = never;     ///< The 90th percentile.
  double p99 = never;     ///< The 99th percentile.
  double max = never;     ///< The largest.
};

/// Sorts the samples, without the NaNs, and sums them up. O(n log n). The mean does not depend on the order given.
[[nodiscard]] inline distribution describe(std::vector<double> samples) {
  std::erase_if(samples, [](double x) { return std::isnan(x); });
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  double sum = 0;
  for (const double x : samples) sum += x;
  return {.count = samples.size(),
          .mean = sum / static_cast<double>(samples.size()),
          .p50 = percentile(samples, 0.5),
          .p90 = percentile(samples, 0.9),
          .p99 = percentile(samples, 0.99),
          .max = samples.back()};
}

/// Mean over time, and peak, of a quantity that stays as it is between changes.
class time_average {
 public:
  /// The quantity was `value` for `seconds`.
  void add(double value, double seconds) noexcept {
    area_ += value * seconds;
    time_ += seconds;
    if (seconds > 0 && peak_ < value) peak_ = value;
  }
  /// Weighted by time; 0 if no time has passed.
  [[nodiscard]] double mean() const noexcept { return time_ > 0 ? area_ / time_ : 0; }
  /// The largest value.
  [[nodiscard]] double peak() const noexcept { return peak_; }

 private:
  double area_ = 0;
  double time_ = 0;
  double peak_ = 0;
};

/// Counts of non-negative integers in buckets at most 1/32 wide: mean exact, quantiles within 3.2 %. For the times of
/// steps, of which a run has millions. `add` is O(1) and allocates nothing.
class count_histogram {
 public:
  /// Counts one more of this value. O(1).
  void add(std::uint64_t value) noexcept {
    ++counts_[bucket(value)];
    ++count_;
    sum_ += static_cast<double>(value);
  }
  /// Adds the counts of another.
  void merge(const count_histogram& other) noexcept {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    sum_ += other.sum_;
  }
  /// How many were added.
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  /// Their mean; `never` if there are none.
  [[nodiscard]] double mean() const noexcept { return count_ == 0 ? never : sum_ / static_cast<double>(count_); }
  /// The largest value that shares a bucket with the quantile `p`. NaN if empty.
  [[nodiscard]] double quantile(double p) const noexcept {
    if (count_ == 0) return never;
    const auto rank = static_cast<std::uint64_t>(p * static_cast<double>(count_ - 1));
    std::uint64_t below = 0;
    std::size_t i = 0;
    for (; i + 1 < counts_.size(); ++i) {
      below += counts_[i];
      if (below > rank) break;
    }
    return static_cast<double>(upper(i));
  }

 private:
  // Values below 32 have a bucket each; above, each power of two is cut into 32.
  static constexpr std::size_t per_octave = 32;
  [[nodiscard]] static constexpr std::size_t bucket(std::uint64_t v) noexcept {
    if (v < per_octave) return static_cast<std::size_t>(v);
    const auto shift = static_cast<std::size_t>(std::bit_width(v)) - 6;
    return (shift + 1) * per_octave + static_cast<std::size_t>(v >> shift) - per_octave;
  }
  [[nodiscard]] static constexpr std::uint64_t upper(std::size_t i) noexcept {
    if (i < per_octave) return i;
    const std::size_t shift = i / per_octave - 1;
    return ((std::uint64_t{i % per_octave + per_octave + 1}) << shift) - 1;
  }

  std::array<std::uint64_t, 60 * per_octave> counts_{};
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

/// The tail of TTFT among requests whose reasoning length is in one bin.
struct tail_bin {
  std::int64_t bin;       ///< First reasoning length of the bin, in tokens.
  std::size_t n;          ///< Samples.
  std::string_view stat;  ///< "max", "p90", "p95" or "p99".
  double value;           ///< Seconds.
};

/// Width of the bins of `tail_by_reasoning`, in tokens.
inline constexpr std::int64_t tail_bin_tokens = 256;

/// Tail TTFT per 256-token bin of reasoning length: the maximum of fewer than 10 samples, P90 of fewer than 20, P95 of
/// fewer than 100, else P99; bins with fewer than 5 are left out (PASCAL, figure 10). In order of length. O(n log n).
[[nodiscard]] inline std::vector<tail_bin> tail_by_reasoning(std::span<const request_record> requests) {
  std::map<std::int64_t, std::vector<double>> bins;
  for (const request_record& r : requests) {
    if (!std::isnan(r.ttft())) bins[r.reasoning_tokens / tail_bin_tokens * tail_bin_tokens].push_back(r.ttft());
  }
  std::vector<tail_bin> tails;
  for (auto& [bin, samples] : bins) {
    const std::size_t n = samples.size();
    if (n < 5) continue;
    std::sort(samples.begin(), samples.end());
    if (n < 10) {
      tails.push_back({bin, n, "max", samples.back()});
    } else if (n < 20) {
      tails.push_back({bin, n, "p90", percentile(samples, 0.9)});
    } else if (n < 100) {
      tails.push_back({bin, n, "p95", percentile(samples, 0.95)});
    } else {
      tails.push_back({bin, n, "p99", percentile(samples, 0.99)});
    }
  }
  return tails;
}

/// What the records of the requests do not tell about a run.
struct run_facts {
  std::string policy;                ///< Its name.
  std::vector<double> kv_transfers;  ///< Seconds that each move of KV between instances took.
  time_average fragmentation;        ///< Of the cluster, 0 to 1.
  count_histogram scheduler_ns;      ///< Wall time of plan and commit, per step.
  double simulated_tokens = 0;       ///< Tokens computed in steps, prompts and outputs.
  double wall_seconds = 0;           ///< Wall time of the whole run.
};

/// The numbers of a run: one row of the comparison.
struct summary {
  std::string policy;                           ///< Its name.
  std::size_t requests = 0;                     ///< How many there were.
  std::size_t completed = 0;                    ///< Of these, finished.
  std::size_t rejected = 0;                     ///< Of these, refused by `submit`.
  distribution ttft;                            ///< Submission to first answering token.
  distribution tpot;                            ///< Mean time between the answering tokens of a request.
  distribution e2e;                             ///< Arrival to last token, in seconds.
  distribution normalized_latency;              ///< End-to-end seconds per output token.
  double slo_violation_rate = never;            ///< Part of the answers with a QoE below the target.
  double qoe_mean = never;                      ///< Over completed requests.
  double blocking_p99 = never;                  ///< Phase change to first scheduled.
  double throughput_tokens_per_s = 0;           ///< Output tokens of completed requests, first arrival to last finish.
  std::uint64_t preemptions = 0;                ///< In all.
  std::uint64_t migrations = 0;                 ///< In all.
  double kv_transfer_p99 = never;               ///< Of the seconds that migrated KV was under way.
  double fragmentation_mean = 0;                ///< Part of the memory that is stranded, averaged over time.
  double fragmentation_peak = 0;                ///< The same at its worst.
  std::vector<tail_bin> ttft_by_reasoning_bin;  ///< Tail TTFT of requests by the length of their reasoning.
  double scheduler_ns_mean = never;             ///< Wall time that a step spent in the scheduler.
  double scheduler_ns_p99 = never;              ///< The same, 99th percentile.
  double simulated_tokens_per_wall_s = never;   ///< How fast the simulation ran.
};

/// Sums a run up. O(n log n).
/// @param qoe_least an answer with a QoE below this violates its SLO.
[[nodiscard]] inline summary summarize(std::span<const request_record> requests, const run_facts& facts,
                                       double qoe_least = qoe_target) {
  summary s;
  s.policy = facts.policy;
  s.requests = requests.size();
  std::vector<double> ttft, tpot, e2e, normalized, blocking, qoe;
  double first_arrival = std::numeric_limits<double>::infinity();
  double last_finish = -first_arrival;
  double output = 0;
  std::size_t violations = 0;
  for (const request_record& r : requests) {
    first_arrival = std::min(first_arrival, r.arrival);
    s.rejected += r.rejected ? 1U : 0U;
    s.preemptions += r.preemptions;
    s.migrations += r.migrations;
    ttft.push_back(r.ttft());
    blocking.push_back(r.blocking());
    if (!r.completed()) continue;
    ++s.completed;
    last_finish = std::max(last_finish, r.finish);
    output += static_cast<double>(r.output_tokens());
    tpot.push_back(r.tpot());
    e2e.push_back(r.e2e());
    normalized.push_back(r.normalized_latency());
    qoe.push_back(r.qoe);
    if (r.qoe < qoe_least) ++violations;
  }
  s.ttft = describe(std::move(ttft));
  s.tpot = describe(std::move(tpot));
  s.e2e = describe(std::move(e2e));
  s.normalized_latency = describe(std::move(normalized));
  s.blocking_p99 = describe(std::move(blocking)).p99;
  const distribution q = describe(std::move(qoe));
  s.qoe_mean = q.mean;
  if (q.count > 0) s.slo_violation_rate = static_cast<double>(violations) / static_cast<double>(q.count);
  if (last_finish > first_arrival) s.throughput_tokens_per_s = output / (last_finish - first_arrival);
  s.kv_transfer_p99 = describe(facts.kv_transfers).p99;
  s.fragmentation_mean = facts.fragmentation.mean();
  s.fragmentation_peak = facts.fragmentation.peak();
  s.ttft_by_reasoning_bin = tail_by_reasoning(requests);
  s.scheduler_ns_mean = facts.scheduler_ns.mean();
  s.scheduler_ns_p99 = facts.scheduler_ns.quantile(0.99);
  if (facts.wall_seconds > 0) s.simulated_tokens_per_wall_s = facts.simulated_tokens / facts.wall_seconds;
  return s;
}

/// The state of the cluster at one moment.
struct timeline_point {
  double time = 0;     ///< In simulated seconds.
  double running = 0;  ///< Requests that hold blocks.
  double waiting = 0;  ///< Requests that do not: new or preempted.
  double kv_used = 0;  ///< Part of the KV blocks in use, 0 to 1.
};

/// What one instance did in a run.
struct instance_facts {
  double busy_s = 0;                  ///< Time in steps.
  std::uint64_t computed_tokens = 0;  ///< Prompts and outputs, recomputation included.
  std::uint64_t output_tokens = 0;    ///< Of these, generated ones.
};

/// All that a run leaves behind.
struct run_result {
  summary numbers;                        ///< The row of the table.
  std::vector<request_record> requests;   ///< One record per request, in order of arrival.
  std::vector<timeline_point> timeline;   ///< Samples of the cluster's state.
  std::vector<instance_facts> instances;  ///< One per instance.
  std::vector<double> downtimes;          ///< Seconds in which a request that moved ran nowhere, by move.
  // What the control has measured, by name: numbers, and curves of (seconds, value).
  std::map<std::string, double> measures;  ///< What the policy measures beside the common numbers, by name.
  /// Series over time for plots: (seconds, value), by name.
  std::map<std::string, std::vector<std::pair<double, double>>> curves;
};

}  // namespace sim
TESSERA_NAMESPACE_END
