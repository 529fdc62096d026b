// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/cluster/compare_views.hpp>
#include <tessera/sim/cluster/instance_view.hpp>
#include <tessera/sim/cluster/run_watcher.hpp>

#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

comparison compare_views(const std::vector<instance_view>& views, const fleet::reading& reads) {
  comparison all{.columns = {"requests", "waiting", "KV held", "KV lacking", "KV free"}};
  if (reads.queues) all.columns.emplace_back("KV free after the queue");
  if (reads.phases) all.columns.insert(all.columns.end(), {"reasoning", "fresh answers", "answers in time"});
  if (reads.prefixes) all.columns.insert(all.columns.end(), {"cached tokens", "new tokens"});
  for (const instance_view& v : views) {
    const auto number = [](auto n) { return static_cast<double>(n); };
    comparison::row one{.instance = v.id,
                        .values = {number(v.requests), number(v.queued), number(v.kv_held.count()),
                                   number(v.waiting_blocks.count()), number(v.free_blocks.count())}};
    if (reads.queues) one.values.push_back(number(v.free_after_queue.count()));
    if (reads.phases) {
      one.values.insert(one.values.end(), {number(v.reasoning), number(v.fresh_answers), v.slo_met ? 1.0 : 0.0});
    }
    if (reads.prefixes) {
      one.values.insert(one.values.end(), {number(v.cached_tokens.count()), number(v.new_prefill_tokens.count())});
    }
    all.rows.push_back(std::move(one));
  }
  return all;
}

}  // namespace sim
TESSERA_NAMESPACE_END
