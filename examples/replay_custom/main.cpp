// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A policy of one's own in the replay table: shortest prompt first, beside the published ones.
//
//     replay_custom --policy fcfs,shortest-prompt --workload azure-conv --rate 80
#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/replay.hpp>

namespace sim = tessera::sim;

/// Waiting requests in order of their prompt's length. Whoever runs is not displaced, not even by one of a higher
/// priority, which `order::fcfs` would allow.
struct shortest_prompt_first : tessera::order::fcfs {
  template <class R>
  static bool before(const R& a, const R& b) noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    return a.prompt != b.prompt ? a.prompt < b.prompt : a.state().sequence < b.state().sequence;
  }
  template <class R>
  static bool displaces(const R&, const R&) noexcept {
    return false;
  }
};

int main(int argc, char** argv) {
  auto policies = sim::published_policies();
  policies.push_back(sim::make_policy<tessera::iteration_scheduler<sim::request, shortest_prompt_first>>(
      "shortest-prompt", "shortest prompt first"));
  return sim::run_replay(argc, argv, policies);
}
