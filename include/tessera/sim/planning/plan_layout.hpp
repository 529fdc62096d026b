// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/fleet/event.hpp>
#include <tessera/fleet/traffic_sample.hpp>
#include <tessera/sim/cluster/cluster.hpp>
#include <tessera/sim/cluster/cluster_options.hpp>
#include <tessera/sim/planning/due_first_config.hpp>
#include <tessera/sim/systems/instance_layout.hpp>

#include <utility>
#include <vector>

/// @file
/// The planner of `due-first` as a function of values. It needs no cluster that runs, so it may run beside the service,
/// in another process.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// What a plan is for: the fleet, as its operator knows it.
struct fleet_to_plan {
  cluster_options options;    ///< The instances, their limits and step times, and what is promised.
  due_first_config config{};  ///< The parts that are active.
  bool shares = false;        ///< Requests share prefixes: neither stages nor pools are planned.
};

/// The layout that is expected to be best for the traffic seen. It learns expected lengths from the sample and tries
/// layouts on the latest requests, see `best_layout`. The same arguments give the same layout.
/// @param now the present layout, which needs a smaller gain. @param progress called now and then; may be empty.
/// Takes the time of some simulations: seconds. Allocates.
[[nodiscard]] instance_layout plan_layout(const fleet_to_plan& f, const fleet::traffic_sample& seen,
                                          const instance_layout& now, const progress_callback& progress = {});

/// What a layout has for each replica: `pools` as roles, `stages` as ranges of lengths, and the bounds on prompts in a
/// step. A stage begins at the first whole block from its first length on. O(instances); allocates.
[[nodiscard]] std::vector<fleet::assignment> assignments_of(const instance_layout& layout, const fleet_to_plan& f);

/// Plans for one fleet, one after the other. It remembers the layout of the last plan, which it supposes to be carried
/// out. For the planner of a `fleet::layout_controller`.
class layout_planner {
 public:
  /// Plans for `f`, where all instances do everything at first. `progress` may be empty.
  explicit layout_planner(fleet_to_plan f, progress_callback progress = {});

  /// What each replica is to do from now on. Stages or pools are given up when two plans in a row say so, see
  /// `stays_once`. Takes as long as `plan_layout`.
  [[nodiscard]] std::vector<fleet::assignment> operator()(const fleet::traffic_sample& seen);

  /// The next plan is for `f`, which has the same number of instances. What is remembered stays.
  void plan_for(fleet_to_plan f) noexcept {
    TESSERA_ASSERT(f.options.instances == fleet_.options.instances, "a layout is for a number of instances");
    fleet_ = std::move(f);
  }
  /// The fleet that is planned for.
  [[nodiscard]] const fleet_to_plan& fleet() const noexcept { return fleet_; }
  /// The layout of the last plan; `why` has the words of the plan.
  [[nodiscard]] const instance_layout& present() const noexcept { return present_; }

 private:
  fleet_to_plan fleet_;
  progress_callback progress_;
  instance_layout present_{};
  bool doubted_ = false;
};

}  // namespace sim
TESSERA_NAMESPACE_END
