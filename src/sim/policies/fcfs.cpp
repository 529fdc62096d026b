// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/compose/fcfs.hpp>
#include <tessera/sim/planning/step_bounds.hpp>

#include <span>
#include <string>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace sim {

engine_maker fcfs_engines() { return engines_of<tessera::fcfs<request, kv_store>>(); }

policy with_bounded_steps(policy p) {
  p.run = [unbounded = std::move(p.run)](const cluster_options& options, std::span<const trace_row> rows,
                                         const progress_callback& progress) {
    return unbounded(bounded_steps(options), rows, progress);
  };
  return p;
}

namespace published {

policy fcfs(std::string name, std::string summary) {
  return make_placed_policy(std::move(name), std::move(summary), fcfs_engines());
}

policy fcfs() { return fcfs("fcfs", "first come, first served; the newest is swapped out when blocks run out"); }

policy sarathi() {
  return with_bounded_steps(
      fcfs("sarathi",
           "fcfs with stall-free steps: prompts in chunks as small as a target TPOT asks for, in Sarathi's manner"));
}

/// The prompt tokens of each step are bounded so that its decodes are in time.
policy sarathi_adaptive() {
  policy p = fcfs("sarathi-adaptive", "as sarathi, with what each step's own decodes leave of the target to prompts");
  p.run = [unbounded = std::move(p.run)](const cluster_options& options, std::span<const trace_row> rows,
                                         const progress_callback& progress) {
    cluster_options o = options;
    const auto adapt = [](instance_options& i) {
      i.prefill_in_time = time_prefills(i.timer, due_first_config{}.step_s);
      i.prefill_in_time->least = i.limits.block_size;
    };
    adapt(o.instance);
    for (instance_options& one : o.each) adapt(one);
    return unbounded(o, rows, progress);
  };
  return p;
}

}  // namespace published

}  // namespace sim
TESSERA_NAMESPACE_END
