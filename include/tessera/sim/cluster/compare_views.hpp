// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/instance_view.hpp>
#include <tessera/sim/cluster/run_watcher.hpp>

#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// What a placement policy has compared, for whoever asks why. @param phases whether it reads those. @param prefixes
/// whether it reads those.
[[nodiscard]] inline comparison compare_views(const std::vector<instance_view>& views, bool phases = false,
                                              bool prefixes = false) {
  comparison all{.columns = {"requests", "waiting", "KV held", "KV lacking", "KV free"}};
  if (phases) all.columns.insert(all.columns.end(), {"reasoning", "fresh answers", "answers in time"});
  if (prefixes) all.columns.insert(all.columns.end(), {"cached tokens", "new tokens"});
  for (const instance_view& v : views) {
    const auto number = [](auto n) { return static_cast<double>(n); };
    comparison::row one{.instance = v.id,
                        .values = {number(v.requests), number(v.queued), number(v.kv_held.count()),
                                   number(v.waiting_blocks.count()), number(v.free_blocks.count())}};
    if (phases) {
      one.values.insert(one.values.end(), {number(v.reasoning), number(v.fresh_answers), v.slo_met ? 1.0 : 0.0});
    }
    if (prefixes) {
      one.values.insert(one.values.end(), {number(v.cached_tokens.count()), number(v.new_prefill_tokens.count())});
    }
    all.rows.push_back(std::move(one));
  }
  return all;
}

}  // namespace sim
TESSERA_NAMESPACE_END
