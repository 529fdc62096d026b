// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/core/owned_storage.hpp>
#include <tessera/order/shortest_rest.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/rank/expected_rest.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// TRAIL: the rest of each output by the lengths of all requests, or of those with its score if there are scores.
policy published::trail(std::string name, std::string summary) {
  return {name, std::move(summary),
          [name](const cluster_options& options, std::span<const trace_row> rows, const progress_callback& progress) {
            auto memory =
                storage_for<rank::length_distribution>({.window = std::max<std::size_t>(rows.size(), 1), .groups = 16});
            rank::length_distribution lengths{memory};
            for (const trace_row& r : rows) lengths.observe(r.score, tokens{r.output_tokens});
            lengths.fit();
            using by_rest = order::shortest_rest<rank::expected_rest<>>;
            using scheduler = iteration_scheduler<request, by_rest, preempt::swap, admit::watermark, kv_store>;
            const typename scheduler::config config{.order = {.rest_of = {.lengths = &lengths}}};
            return make_policy<scheduler>(name, "", config).run(options, rows, progress);
          }};
}

}  // namespace sim
TESSERA_NAMESPACE_END
