// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/admit/future_peak.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/order/fcfs.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/rank/sampled_length.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <string>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// First come, first served, with memory kept for the outputs of running requests. Each output is sampled from the
/// lengths of this workload. A twentieth of the memory is left out.
policy published::past_future() {
  const std::string name = "past-future";
  const std::string summary =
      "fcfs that starts a request if it fits at the future peak, by lengths drawn from this workload's, as Past-Future "
      "scheduling";
  return {
      name, summary,
      [name](const cluster_options& options, std::span<const trace_row> rows, const progress_callback& progress) {
        auto memory =
            storage_for<rank::length_distribution>({.window = std::max<std::size_t>(rows.size(), 1), .groups = 1});
        rank::length_distribution lengths{memory};
        constexpr float none = std::numeric_limits<float>::quiet_NaN();
        for (const trace_row& r : rows) lengths.observe(none, tokens{r.output_tokens});
        lengths.fit();
        using admit = tessera::admit::basic_future_peak<rank::sampled_length<>>;
        using scheduler = iteration_scheduler<request, order::fcfs, preempt::swap, admit, kv_store>;
        const typename scheduler::config config{.admit = {.headroom = 0.05, .expected_output = {.lengths = &lengths}}};
        return make_policy<scheduler>(name, "", config).run(options, rows, progress);
      }};
}

}  // namespace sim
TESSERA_NAMESPACE_END
