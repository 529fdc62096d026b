// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What you simulate is what you deploy. A controller of one's own: a session goes on where its KV is. It is
// tried on a simulated fleet first; then the same object runs in front of engines, by events and actions.
#include <tessera/compose/fcfs.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/log.hpp>
#include <tessera/fleet/placing.hpp>
#include <tessera/fleet/runtime.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/cluster/controlled.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profiles.hpp>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string_view>

using namespace tessera::literals;
namespace fleet = tessera::fleet;
namespace sim = tessera::sim;

/// A session's next turn goes to the replica of the one before, while that has room; any other to the least load.
class sticky final : public fleet::controller {
 public:
  sticky() noexcept { std::fill(std::begin(homes_), std::end(homes_), fleet::no_replica); }

  void arrived(const fleet::request_view& r, fleet::port& p) noexcept override {
    const auto replicas = p.replicas(r);
    if (replicas.size() == 0) return;  // the front end tries again
    std::size_t to = least_load_(replicas);
    fleet::replica_id& home = homes_[r.session % 1024];
    for (std::size_t i = 0; i != replicas.size(); ++i) {
      if (r.session != 0 && replicas[i].id == home && replicas[i].free_blocks > 50_blk) to = i;
    }
    home = static_cast<fleet::replica_id>(replicas[to].id);
    p.place(r.id, home);
  }

 private:
  tessera::placement::least_load least_load_{};
  fleet::replica_id homes_[1024];
};

void simulate(const char* name, const sim::controller_maker& make, double report_s) {
  const sim::profile profile = sim::find_profile("h100-96gb-qwen-32b");
  const auto rows = sim::generate(sim::find_workload("agentic"), 300, 2.0, 1);
  const sim::cluster_options options{.instances = 4,
                                     .instance = {.limits = {.blocks = 20'000, .residents = 256},
                                                  .step = {.max_batch = 256, .token_budget = 8192_tok},
                                                  .timer = sim::step_timer{profile}},
                                     .kv_bytes_per_token = profile.model.kv_bytes_per_token(),
                                     .routed = sim::routing{.report_s = report_s}};
  using scheduler = tessera::fcfs<sim::request, sim::kv_store>;
  sim::cluster_of<scheduler, sim::controlled> fleet_of_four{options, {}, sim::controlled{make}};
  const sim::summary s = fleet_of_four.run(rows, [](std::size_t) {}).numbers;
  std::printf("%-12s reports every %g s: time to first token %.2f s\n", name, report_s, s.ttft.mean);
}

int main() {
  // First in simulation, by reports that are as old as a router has them.
  for (const double report_s : {0.1, 5.0}) {
    simulate(
        "least load",
        [](auto&, auto&) {
          return sim::seated_controller{std::make_shared<fleet::placing<tessera::placement::least_load>>()};
        },
        report_s);
    simulate(
        "sticky", [](auto&, auto&) { return sim::seated_controller{std::make_shared<sticky>()}; }, report_s);
  }

  // Then in front of engines. An event is a struct; here each is read from a line, as from a log.
  sticky controller;
  auto storage = tessera::storage_for<fleet::runtime>({});
  fleet::runtime router{controller, storage};
  fleet::event e;
  for (const std::string_view line : {
           "0.0 joined replica=0 number=1 capacity=2500",
           "0.0 joined replica=1 number=1 capacity=2500",
           "1.0 arrived request=1 prompt=400 session=7",
           "1.1 arrived request=2 prompt=900 session=8",
           "3.0 ended request=1",
           "9.0 arrived request=3 prompt=700 session=8",
           "9.5 failed replica=1 number=1",
           "9.6 arrived request=2 prompt=900 generated=35 session=8",
           "9.6 ended request=3",
       }) {
    std::printf("%.*s\n", static_cast<int>(line.size()), line.data());
    if (fleet::read(line, e, e.at_s)) return 1;  // a line that is wrong, or goes back in time
    fleet::log_line text;
    for (const fleet::action& a : router.handle(e)) {
      const std::string_view said = fleet::write(a, text);
      std::printf("%.*s\n", static_cast<int>(said.size()), said.data());
    }
  }
}

/* output:
least load   reports every 0.1 s: time to first token 1.19 s
sticky       reports every 0.1 s: time to first token 0.33 s
least load   reports every 5 s: time to first token 1.55 s
sticky       reports every 5 s: time to first token 0.33 s
0.0 joined replica=0 number=1 capacity=2500
0.0 joined replica=1 number=1 capacity=2500
1.0 arrived request=1 prompt=400 session=7
> place replica=0 request=1
1.1 arrived request=2 prompt=900 session=8
> place replica=1 request=2
3.0 ended request=1
9.0 arrived request=3 prompt=700 session=8
> place replica=1 request=3
9.5 failed replica=1 number=1
9.6 arrived request=2 prompt=900 generated=35 session=8
> place replica=0 request=2
9.6 ended request=3
*/
