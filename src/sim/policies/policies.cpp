// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <limits>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

std::vector<policy> published_policies() {
  using namespace published;
  return {
      fcfs(),
      round_robin("rr", "round-robin with a quantum of 500 tokens, both phases alike"),
      pascal(),
      pascal_paced(),
      pars(),
      trail("trail",
            "TRAIL: shortest expected rest first, expected anew as outputs grow, from this workload's lengths"),
      hrrn(),
      slack("slack", "least slack to the promised deadlines first, or to a TTFT of 1 s and a TPOT of 0.1 s"),
      slack_refusing(),
      attained("autellix", "Autellix: calls of the program, or session, that has been given least go first, in levels"),
      sjf(),
      sarathi(),
      sarathi_adaptive(),
      past_future(),
      least_lost(),
      distserve(),
      splitwise(),
      phasor(),
      vtc(),
      dlpm(),
      continuum(),
      kvflow(),
      llumnix(),
      cascade(),
      cascade_steady(),
      due_first_policy("due-first"),
  };
}

std::vector<policy> composed_orders() {
  using namespace published;
  return {
      fcfs("fcfs", "by arrival"),
      round_robin("round-robin", "in turn, after a quantum of 500 tokens"),
      two_phase("two-phase", "reasoning before answers, each in turn"),
      paced("paced", "answers about to run dry, then reasoning, then other answers"),
      earliest_due("earliest-due", "answers about to run dry, then the earliest deadline by expected length"),
      pars_unboosted("ranked", "lowest score (needs scores)"),
      trail("shortest-rest", "shortest expected rest, by this workload's lengths"),
      attained("least-attained-service", "the session that has been given least"),
      slack("least-slack", "least slack to what is promised, or a TTFT of 1 s and a TPOT of 0.1 s"),
      longest_prefix("longest-prefix", "most of the prompt cached"),
  };
}

}  // namespace sim
TESSERA_NAMESPACE_END
