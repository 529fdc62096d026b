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
/// The numbers of a run, for comparing policies.
///
/// Times are in seconds. A number without a sample is NaN.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// The tail of TTFT among requests with a reasoning length in one bin.
struct tail_bin {
  std::int64_t bin;       ///< First reasoning length of the bin, in tokens.
  std::size_t n;          ///< Samples.
  std::string_view stat;  ///< "max", "p90", "p95" or "p99".
  double value;           ///< Seconds.
};

/// Width of the bins of `tail_by_reasoning`, in tokens.
inline constexpr std::int64_t tail_bin_tokens = 256;

/// Tail TTFT per 256-token bin of reasoning length (PASCAL, figure 10). The maximum for fewer than 10 samples, P90 for
/// fewer than 20, P95 for fewer than 100, else P99. Bins with fewer than 5 are left out. In order of length. O(n log
/// n).
[[nodiscard]] std::vector<tail_bin> tail_by_reasoning(std::span<const request_record> requests,
                                                      const measured_window& window = {});

/// The cost of instances that died.
struct fault_report {
  std::uint64_t deaths = 0;     ///< Deaths of instances.
  double down_s = 0;            ///< Seconds that instances were dead, while the run lasted.
  std::uint64_t recovered = 0;  ///< How often a request lost its state on an instance, and restarted elsewhere.
  double recomputed = 0;        ///< Tokens of KV that were lost and recomputed.
  std::uint64_t missed = 0;     ///< Faults set for after the end of the run: they did not happen.
};

/// The facts of a run that request records do not have.
struct run_facts {
  std::string policy;                ///< Its name.
  std::vector<double> kv_transfers;  ///< Duration of each KV move between instances, in seconds.
  time_average fragmentation;        ///< Fragmentation of the cluster, 0 to 1.
  count_histogram scheduler_ns;      ///< Wall time of plan and commit, per step.
  measured_window window;            ///< The whole run, unless a part was left out.
  fault_report faults;               ///< Deaths and their cost.
  std::vector<double> service;       ///< By tenant: its service in the measured window.
  double simulated_tokens = 0;       ///< Tokens computed in steps, prompts and outputs.
  double wall_seconds = 0;           ///< Wall time of the whole run.
  double joules = never;             ///< Energy of all instances, from the first arrival to the last finish.
};

/// The numbers of a run: one row of the comparison.
struct summary {
  std::string policy;                           ///< Its name.
  std::string placement;                        ///< Name of the placement of new requests.
  std::size_t requests = 0;                     ///< Number of requests.
  std::size_t completed = 0;                    ///< The number that finished.
  std::size_t rejected = 0;                     ///< The number refused by `submit`.
  std::size_t measured = 0;                     ///< The number that arrived in the measured window: the numbers below
                                                ///< are about these.
  distribution ttft;                            ///< Submission to first answering token.
  distribution first_token;                     ///< Submission to the first token of any kind.
  distribution ttft_in_fault;                   ///< TTFT of requests that arrive during a fault; see
                                                ///< `describe_in_fault`.
  double reasoning_share = 0;                   ///< Fraction of the measured requests that reason before they answer.
  distribution tpot;                            ///< Mean time between the answering tokens of a request.
  distribution e2e;                             ///< Arrival to last token, in seconds.
  distribution normalized_latency;              ///< End-to-end seconds per output token.
  distribution session;                         ///< Waits of a session in all its turns, see `session_waits`.
  double slo_violation_rate = never;            ///< Fraction of the answers with a QoE below the target.
  double qoe_mean = never;                      ///< Over completed requests.
  double blocking_p99 = never;                  ///< Phase change to first scheduled.
  double throughput_tokens_per_s = 0;           ///< Output tokens of completed requests, first arrival to last finish.
  double window_s = never;                      ///< Length of the measured window.
  double window_tokens_per_s = never;           ///< Output tokens generated in the measured window, by its length.
  load_verdict load;                            ///< Whether the cluster carries the arriving load.
  slo_report slo;                               ///< Empty without objectives.
  std::uint64_t preemptions = 0;                ///< In all.
  std::uint64_t migrations = 0;                 ///< In all.
  fault_report faults;                          ///< All 0 without deaths.
  double worst_tenant = never;                  ///< See `worst_share`; NaN without tenants.
  double prefix_hit_rate = 0;                   ///< Fraction of the prompt tokens found in prefix caches.
  double kv_transfer_p99 = never;               ///< 99th percentile of the seconds that migrated KV was in transfer.
  double fragmentation_mean = 0;                ///< Fraction of the memory that is stranded, averaged over time.
  double fragmentation_peak = 0;                ///< The same at its worst.
  std::vector<tail_bin> ttft_by_reasoning_bin;  ///< Tail TTFT of requests by the length of their reasoning.
  double scheduler_ns_mean = never;             ///< Wall time of a step in the scheduler.
  double scheduler_ns_p99 = never;              ///< The same, 99th percentile.
  double simulated_tokens_per_wall_s = never;   ///< How fast the simulation ran.
  double joules = never;                        ///< Energy of all instances, if their power is known.
  double joules_per_output_token = never;       ///< The same per output token of completed requests.
};

/// The runs of one policy, one for each seed.
using replicates = std::vector<summary>;

/// Summarises a run. O(n log n).
/// @param qoe_least an answer with a QoE below this violates its SLO.
[[nodiscard]] summary summarize(std::span<const request_record> requests, const run_facts& facts,
                                double qoe_least = qoe_target);

/// A period in which an instance has a fault, in simulated seconds.
struct fault_time {
  double from = 0;  ///< Begins.
  double to = 0;    ///< Ends; infinite: never.
};

/// The time to the first answering token of requests that arrive while an instance is dead, hangs or is slow. It is the
/// cost of a fault, which the tail of a whole run hides. O(requests (faults + log requests)).
[[nodiscard]] distribution describe_in_fault(std::span<const fault_time> faults,
                                             std::span<const request_record> requests, const measured_window& window);

/// The work of one instance in a run.
struct instance_facts {
  double busy_s = 0;                  ///< Time in steps.
  std::uint64_t computed_tokens = 0;  ///< Prompts and outputs, recomputation included.
  std::uint64_t output_tokens = 0;    ///< The number of these that were generated.
};

/// The full result of a run.
struct run_result {
  summary numbers;                        ///< The row of the table.
  measured_window window;                 ///< The part of the run that it is about.
  std::vector<request_record> requests;   ///< One record per request, in order of arrival.
  std::vector<timeline_point> timeline;   ///< Samples of the cluster's state.
  std::vector<instance_facts> instances;  ///< One per instance.
  std::vector<double> downtimes;          ///< By move: seconds in which the moving request ran nowhere.
  // Measurements of the control, by name: numbers, and curves of (seconds, value).
  std::map<std::string, double> measures;  ///< Measurements of the policy beside the common numbers, by name.
  /// Series over time for plots: (seconds, value), by name.
  std::map<std::string, std::vector<std::pair<double, double>>> curves;
};

}  // namespace sim
TESSERA_NAMESPACE_END
