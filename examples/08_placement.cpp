// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// 8. Placement: which instance gets a request. A policy is a function from a range of views to an index. A view is a
// struct of your own with the members that the policy reads, filled in from whatever your router knows.
#include <tessera/headroom/space.hpp>
#include <tessera/placement/least_kv.hpp>
#include <tessera/placement/pascal.hpp>
#include <tessera/placement/phi.hpp>

#include <cstdio>
#include <vector>

using namespace tessera::literals;
using tessera::blocks;

struct my_view {
  const char* name = "";
  blocks kv_held{};          // on device and host
  blocks free_blocks{};      // on the device
  std::size_t requests = 0;  // those on their way here included
  bool slo_met = true;       // all answers are in time
  std::size_t reasoning = 0;
  std::size_t fresh_answers = 0;
  double phi = 0;  // Phasor's freeness
};

/// One of one's own: the most free blocks for each request. Ties go to the first.
struct most_free_per_request {
  template <tessera::placement::instance_views V>
  std::size_t operator()(const V& instances) const noexcept {
    const auto share = [](const auto& v) { return v.free_blocks / static_cast<std::int64_t>(v.requests + 1); };
    std::size_t best = tessera::placement::nowhere;
    for (std::size_t i = 0; i != instances.size(); ++i) {
      if (best == tessera::placement::nowhere || share(instances[i]) > share(instances[best])) best = i;
    }
    return best;
  }
};

int main() {
  namespace placement = tessera::placement;
  std::vector<my_view> views{
      {.name = "A", .kv_held = 700_blk, .free_blocks = 300_blk, .requests = 9, .reasoning = 2, .fresh_answers = 3},
      {.name = "B", .kv_held = 500_blk, .free_blocks = 500_blk, .requests = 5, .slo_met = false, .reasoning = 1},
      {.name = "C", .kv_held = 990_blk, .free_blocks = 560_blk, .requests = 8, .reasoning = 4},  // 550 are swapped out
      {.name = "D", .kv_held = 960_blk, .free_blocks = 40_blk, .requests = 2, .reasoning = 0}};
  for (my_view& v : views) {  // of no use to a typical request of 64 blocks: what D has left is stranded
    const tessera::kv::memory_use use{1000_blk, v.free_blocks, {}};
    v.phi = tessera::headroom::space_freeness(use, tessera::kv::stranded_below{64_blk});
    std::printf("%s: Phi_S %.2f\n", v.name, v.phi);
  }

  const auto show = [&](const char* policy, std::size_t i) { std::printf("%-32s %s\n", policy, views[i].name); };
  show("least KV", placement::least_kv{}(views));
  show("PASCAL, a new request", placement::pascal_arrival{}(views));
  show("PASCAL, reasoning has ended", placement::pascal_phase_change{}(views));
  show("Phasor, the highest freeness", placement::highest_phi{}(views));
  show("our own, most free per request", most_free_per_request{}(views));

  // A request on A that begins to answer: stay, or move? It needs 60 blocks there, and 1 here for its next token.
  const auto to = placement::pascal_migrate_adaptively{.headroom = 32_blk}(views, 0, 1_blk, 60_blk);
  std::printf("from A it %s\n", to == 0 ? "stays" : views[to].name);
}

/* output:
A: Phi_S 0.30
B: Phi_S 0.50
C: Phi_S 0.56
D: Phi_S 0.00
least KV                         B
PASCAL, a new request            A
PASCAL, reasoning has ended      D
Phasor, the highest freeness     C
our own, most free per request   B
from A it stays
*/
