// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>
#include <tessera/qoe/integrator.hpp>
#include <tessera/sim/measure/load_verdict.hpp>
#include <tessera/sim/measure/request_record.hpp>
#include <tessera/sim/measure/session_waits.hpp>
#include <tessera/sim/measure/slo.hpp>
#include <tessera/sim/measure/tenant_shares.hpp>

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
/// The numbers of a run that compare policies.
///
/// Times are in seconds. A number that has no sample is NaN.

TESSERA_NAMESPACE_BEGIN

namespace sim {

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
[[nodiscard]] std::vector<tail_bin> tail_by_reasoning(std::span<const request_record> requests,
                                                      const measured_window& window = {});

/// What instances that died have cost.
struct fault_report {
  std::uint64_t deaths = 0;     ///< Of instances.
  double down_s = 0;            ///< Seconds that instances were dead, while the run lasted.
  std::uint64_t recovered = 0;  ///< Times that a request lost what it had on an instance, and began again elsewhere.
  double recomputed = 0;        ///< Tokens whose KV was lost, and computed again.
  std::uint64_t missed = 0;     ///< Faults that were set for after the end of the run: they did not happen.
};

/// What the records of the requests do not tell about a run.
struct run_facts {
  std::string policy;                ///< Its name.
  std::vector<double> kv_transfers;  ///< Seconds that each move of KV between instances took.
  time_average fragmentation;        ///< Of the cluster, 0 to 1.
  count_histogram scheduler_ns;      ///< Wall time of plan and commit, per step.
  measured_window window;            ///< Whole, unless something was left out.
  fault_report faults;               ///< What died.
  std::vector<double> service;       ///< By tenant: what each was given in the measured window.
  double simulated_tokens = 0;       ///< Tokens computed in steps, prompts and outputs.
  double wall_seconds = 0;           ///< Wall time of the whole run.
  double joules = never;             ///< What all instances drew, from the first arrival to the last finish.
};

/// The numbers of a run: one row of the comparison.
struct summary {
  std::string policy;                           ///< Its name.
  std::string placement;                        ///< Where it sends new requests, in a word.
  std::size_t requests = 0;                     ///< How many there were.
  std::size_t completed = 0;                    ///< Of these, finished.
  std::size_t rejected = 0;                     ///< Of these, refused by `submit`.
  std::size_t measured = 0;                     ///< Of these, arrived in the measured window: those below are theirs.
  distribution ttft;                            ///< Submission to first answering token.
  distribution first_token;                     ///< To the first token of any kind.
  distribution ttft_in_fault;                   ///< TTFT of those that arrive in a fault; see `describe_in_fault`.
  double reasoning_share = 0;                   ///< Part of the measured requests that reason before they answer.
  distribution tpot;                            ///< Mean time between the answering tokens of a request.
  distribution e2e;                             ///< Arrival to last token, in seconds.
  distribution normalized_latency;              ///< End-to-end seconds per output token.
  distribution session;                         ///< What a session waits for all its turns, see `session_waits`.
  double slo_violation_rate = never;            ///< Part of the answers with a QoE below the target.
  double qoe_mean = never;                      ///< Over completed requests.
  double blocking_p99 = never;                  ///< Phase change to first scheduled.
  double throughput_tokens_per_s = 0;           ///< Output tokens of completed requests, first arrival to last finish.
  double window_s = never;                      ///< Length of the measured window.
  double window_tokens_per_s = never;           ///< Output tokens generated in the measured window, by its length.
  load_verdict load;                            ///< Whether the cluster carries what arrives.
  slo_report slo;                               ///< Empty where no objectives were given.
  std::uint64_t preemptions = 0;                ///< In all.
  std::uint64_t migrations = 0;                 ///< In all.
  fault_report faults;                          ///< All 0 where nothing died.
  double worst_tenant = never;                  ///< See `worst_share`; of no tenants NaN.
  double prefix_hit_rate = 0;                   ///< Part of the prompt tokens that prefix caches had.
  double kv_transfer_p99 = never;               ///< Of the seconds that migrated KV was under way.
  double fragmentation_mean = 0;                ///< Part of the memory that is stranded, averaged over time.
  double fragmentation_peak = 0;                ///< The same at its worst.
  std::vector<tail_bin> ttft_by_reasoning_bin;  ///< Tail TTFT of requests by the length of their reasoning.
  double scheduler_ns_mean = never;             ///< Wall time that a step spent in the scheduler.
  double scheduler_ns_p99 = never;              ///< The same, 99th percentile.
  double simulated_tokens_per_wall_s = never;   ///< How fast the simulation ran.
  double joules = never;                        ///< What all instances drew, where their power is known.
  double joules_per_output_token = never;       ///< The same by the output tokens of completed requests.
};

/// The runs of one policy, one for each seed.
using replicates = std::vector<summary>;

/// Sums a run up. O(n log n).
/// @param qoe_least an answer with a QoE below this violates its SLO.
[[nodiscard]] summary summarize(std::span<const request_record> requests, const run_facts& facts,
                                double qoe_least = qoe_target);

/// A time in which something is wrong with an instance, in simulated seconds.
struct fault_time {
  double from = 0;  ///< Begins.
  double to = 0;    ///< Ends; infinite: never.
};

/// The time to the first answering token of the requests that arrive while an instance is dead, hangs or is slow: what
/// a fault costs, which the tail of a whole run hides. O(requests (faults + log requests)).
[[nodiscard]] distribution describe_in_fault(std::span<const fault_time> faults,
                                             std::span<const request_record> requests, const measured_window& window);

/// What one instance did in a run.
struct instance_facts {
  double busy_s = 0;                  ///< Time in steps.
  std::uint64_t computed_tokens = 0;  ///< Prompts and outputs, recomputation included.
  std::uint64_t output_tokens = 0;    ///< Of these, generated ones.
};

/// All that a run leaves behind.
struct run_result {
  summary numbers;                        ///< The row of the table.
  measured_window window;                 ///< Which part of the run it is of.
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
