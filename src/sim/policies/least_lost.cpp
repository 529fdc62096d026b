// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/order/fcfs.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/least_lost.hpp>

#include <span>
#include <string>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// First come, first served. The victim is the one of the last few residents with the KV that costs least to restore.
policy published::least_lost() {
  const std::string name = "least-lost";
  const std::string summary =
      "fcfs that evicts, of the last eight, the request with the KV that costs least to restore";
  return {name, summary,
          [name](const cluster_options& options, std::span<const trace_row> rows, const progress_callback& progress) {
            using scheduler =
                iteration_scheduler<request, order::fcfs, preempt::least_lost, admit::watermark, kv_store>;
            const cost::prefill_in_time steps = time_prefills(options.instance.timer, 0);
            typename scheduler::config config;
            config.preempt.seconds_per_block = options.instance.swap_seconds_per_block;
            config.preempt.seconds_per_token = steps.per_prefill_s;
            config.preempt.seconds_per_token_squared = 0;
            return make_policy<scheduler>(name, "", config).run(options, rows, progress);
          }};
}

}  // namespace sim
TESSERA_NAMESPACE_END
