// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/fault.hpp>
#include <tessera/sim/cluster/instance.hpp>
#include <tessera/sim/cluster/named_placement.hpp>
#include <tessera/sim/cluster/pool_sizes.hpp>
#include <tessera/sim/cluster/routing.hpp>
#include <tessera/sim/cluster/run_watcher.hpp>
#include <tessera/sim/measure/promise.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// How a run is set up.
struct cluster_options {
  std::size_t instances = 1;  ///< How many there are.
  instance_options instance;  ///< They are all alike, unless `each` is given.
  /// Not empty: what each instance is, in a cluster of unlike ones. They have the same block size (asserted). What
  /// looks at one instance for all, the plan of stages or a prefill model, looks at `instance`.
  std::vector<instance_options> each{};
  /// Between two samples of the timeline: less in a short run, which has 32 at least, and doubled when there are too
  /// many.
  double timeline_interval_s = 1.0;
  double fabric_bytes_per_s = 12.5e9;  ///< Bandwidth of an instance's link to the others, each way.
  double kv_bytes_per_token = 0;       ///< What a migration moves per token.
  /// What the host takes with a request before it may be scheduled; part of its latency. Not in a closed loop.
  double host_request_seconds = 0;
  tokens quantum{500};         ///< An answer that is no longer is still fresh (PASCAL's a_i).
  double warmup_s = 0;         ///< From the first arrival on: requests that arrive then are not measured.
  double drain_s = 0;          ///< Before the last arrival: likewise. Not in a closed loop.
  std::size_t in_flight = 0;   ///< Not 0: a closed loop. This many requests run at any time, and the arrivals of the
                               ///< rows are not read: each request that ends makes the next one arrive. Later turns of
                               ///< sessions come when they are due, however many run.
  std::uint64_t seed = 1;      ///< Seed of what the run itself draws: how long messages take. The workload has its own.
  tokens max_output{};         ///< Where a server cuts answers off, and all that requests say of their length; 0: where
                               ///< the instance's `max_length` does, or its memory.
  bool knows_lengths = false;  ///< Requests say instead how long their answers will be: an oracle.
  double kept_s = 0;           ///< For so long the KV of a turn that calls a tool is asked to be kept, of stores that
                               ///< listen (`kv::keep_until`).
  double answer_within_s = 0;  ///< Not 0: a request that could not begin to answer this soon after it came may be
                               ///< refused, by schedulers that refuse (`gate::in_time`).
  promise promised{};          ///< What the operator promises: for policies that plan for it.
  bool prefix_cache = true;    ///< Instances keep the KV of what requests may share, and find it again.
  /// For policies with pools: what happens to KV that has crossed to a worker without room for it. True: it stays at
  /// its source and keeps blocks taken there until there is room. So the prefill pool's memory is the decode pool's
  /// queue, as in DistServe. False: it lies next to the worker's memory, without a bound, which flatters few decode
  /// workers.
  bool kv_waits_at_source = false;
  std::optional<pool_sizes> pools{};           ///< For policies with pools; none: as each of them divides by itself.
  std::optional<named_placement> placement{};  ///< For policies that leave it open; empty: each policy's own.
  std::optional<routing> routed{};             ///< For the same policies; none: their router sees all at any moment.
  double plan_s = 0;  ///< Seconds that a plan of the layout takes, beside the service; 0: it is there at once.
  std::vector<fault> faults{};     ///< What goes wrong.
  double detection_s = 1;          ///< After a death, before the others know of it: some missed heartbeats.
  run_watcher* watcher = nullptr;  ///< Told why things happen; null: nothing asks. Changes no result.

  /// What instance `i` is.
  [[nodiscard]] const instance_options& of(std::size_t i) const noexcept { return each.empty() ? instance : each[i]; }
};

}  // namespace sim
TESSERA_NAMESPACE_END
