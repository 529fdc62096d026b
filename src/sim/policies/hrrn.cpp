// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/compose/hrrn.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/rank/expected_rest.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// HRRN: the service of each request by the lengths of all requests, or of those with its score if there are scores.
policy published::hrrn() {
  return {"hrrn", "HRRN: highest ratio of age plus expected service to expected service, from this workload's lengths",
          [](const cluster_options& options, std::span<const trace_row> rows, const progress_callback& progress) {
            auto memory =
                storage_for<rank::length_distribution>({.window = std::max<std::size_t>(rows.size(), 1), .groups = 16});
            rank::length_distribution lengths{memory};
            for (const trace_row& r : rows) lengths.observe(r.score, tokens{r.output_tokens});
            lengths.fit();
            using scheduler = tessera::hrrn<request, rank::expected_length<>, kv_store>;
            const typename scheduler::config config{.expected = {.lengths = &lengths}};
            return make_policy<scheduler>("hrrn", "", config).run(options, rows, progress);
          }};
}

}  // namespace sim
TESSERA_NAMESPACE_END
