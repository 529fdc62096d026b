// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/compose/fcfs.hpp>
#include <tessera/kv/evict_by_time.hpp>
#include <tessera/kv/keep_until.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/sim/traffic/tool_gap.hpp>

#include <span>
#include <string>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace sim {

namespace {

/// First come, first served, with a prefix cache that does not evict in the order of use.
template <class Eviction>
policy keeping_policy(std::string name, std::string summary) {
  policy p = make_policy<tessera::fcfs<request, kv::basic_prefix_cache<Eviction>>>(std::move(name), std::move(summary));
  p.run = [kept = p.run](const cluster_options& options, std::span<const trace_row> rows,
                         const progress_callback& progress) {
    cluster_options o = options;
    o.kept_s = tool_gap_p90_s(rows);
    return kept(o, rows, progress);
  };
  return p;
}

}  // namespace

policy published::continuum() {
  return keeping_policy<kv::keep_until<>>("continuum",
                                          "fcfs that keeps the KV of a turn that calls a tool as long as nine of ten "
                                          "tools take, in Continuum's manner");
}

policy published::kvflow() {
  return keeping_policy<kv::next_use<>>(
      "kvflow",
      "fcfs that evicts the KV of the session with the latest next turn, as KVFlow, by the true times (an oracle)");
}

}  // namespace sim
TESSERA_NAMESPACE_END
