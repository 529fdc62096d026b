// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runs.hpp"

#include <tessera/sim/policies/policies.hpp>

#include <fmt/format.h>

#include <string>
#include <utility>

namespace tessera_python {
namespace {

// A function that is called from a placement: the simulator asks for a range of views and an index.
struct called {
  const placement_function* function;

  template <class Views>
  [[nodiscard]] std::size_t operator()(const Views& views) const {
    return (*function)(views);
  }
};

template <class Scheduler>
sim::policy with_placement(std::string name, const typename Scheduler::config& config, placement_function place) {
  if (!place) return sim::make_policy<Scheduler>(std::move(name), "an order of one's own", config);
  return {name, "a placement of one's own",
          [name, config, place](const sim::cluster_options& options, std::span<const sim::trace_row> rows,
                                const sim::progress_callback& progress) {
            using control = sim::placed<called, ts::placement::stay>;
            sim::run_result result =
                sim::cluster<Scheduler, control>{options, config, control{called{&place}, {}}}.run(rows, progress);
            result.numbers.policy = name;
            return result;
          }};
}

}  // namespace

std::vector<sim::policy> policies() { return sim::published_policies(); }

sim::policy own_policy(std::string_view scheduler, double threshold, placement_function place) {
  if (scheduler == "fcfs") return with_placement<ts::fcfs<sim::request, sim::kv_store>>("fcfs", {}, std::move(place));
  if (scheduler == "pascal")
    return with_placement<ts::pascal<sim::request, sim::kv_store>>("pascal", {}, std::move(place));
  if (scheduler == "pars") {
    return sim::needing_scores(with_placement<ts::pars<sim::request, ts::order::score_member, sim::kv_store>>(
        "pars", {.threshold = ts::duration{threshold}}, std::move(place)));
  }
  throw sim::usage_error{
      fmt::format("a policy of one's own stands on fcfs, pars or pascal, not on {}", sim::shown(scheduler))};
}

}  // namespace tessera_python
