// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/compose/fcfs.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

TESSERA_NAMESPACE_BEGIN
namespace sim {

policy oracle_policy() {
  return {"oracle", "first come, first served with unlimited KV memory (an oracle)",
          [](const cluster_options& options, std::span<const trace_row> rows, const progress_callback& progress) {
            cluster_options unlimited = options;
            const tokens block_size = options.instance.limits.block_size;
            std::int64_t longest = 0;
            std::int64_t all = 0;
            for (const trace_row& row : rows) {
              const std::int64_t n = blocks_for(tokens{row.prompt_tokens + row.output_tokens}, block_size).count();
              longest = std::max(longest, n);
              all += n;
            }
            // The running requests at their longest, or everything at once. No blocks are kept free.
            const auto enlarge = [&](scheduler_limits& limits) {
              const std::int64_t needed = std::min(all, longest * static_cast<std::int64_t>(limits.residents));
              limits.blocks = std::max(limits.blocks, static_cast<std::size_t>(needed));
            };
            enlarge(unlimited.instance.limits);
            for (instance_options& one : unlimited.each) enlarge(one.limits);
            // A cache keeps a hundred bytes per block: with so many blocks, it is used only if requests share prefixes.
            const bool shares = options.prefix_cache && turns{rows, block_size.count(), true}.shares();
            run_result result =
                shares ? cluster_of<fcfs<request, kv_store>>{unlimited, {.watermark = 0}}.run(rows, progress)
                       : cluster_of<fcfs<request>>{unlimited, {.watermark = 0}}.run(rows, progress);
            result.numbers.policy = "oracle";
            result.numbers.placement =
                options.placement ? options.placement->name : placement_name<placement::least_load>;
            return result;
          }};
}

}  // namespace sim
TESSERA_NAMESPACE_END
