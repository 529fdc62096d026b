// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/compose/due_first.hpp>
#include <tessera/sim/traffic/learned_lengths.hpp>

#include <span>
#include <string>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Earliest due, by expected lengths from the scores and lengths of this workload.
policy published::earliest_due(std::string name, std::string summary) {
  return {name, std::move(summary),
          [name](const cluster_options& options, std::span<const trace_row> rows, const progress_callback& progress) {
            std::vector<trace_row> expecting{rows.begin(), rows.end()};
            expect_lengths(expecting, rows, true);
            const learned_lengths lengths{expecting};
            using scheduler = tessera::due_first<request, rank::expected_length<>, order::pacer_member, kv_store>;
            return make_policy<scheduler>(name, "", {.expected = lengths.expected()}).run(options, expecting, progress);
          }};
}

}  // namespace sim
TESSERA_NAMESPACE_END
