// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What trials of stages decide.

#include <tessera/sim/input/archetypes.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/planning/cascade_plan.hpp>
#include <tessera/sim/systems/by_headroom.hpp>

#include "sim/due_first_inputs.hpp"
#include "sim/profile_cluster.hpp"
#include "sim/tried_layouts.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using sim::trace_row;
using tessera_test::profile_cluster;
using tessera_test::due_first_inputs::all_answer;
using tessera_test::due_first_inputs::tried_layouts;

/// Trials of stages.
struct tried_stages : tried_layouts {
  std::array<sim::cascade_plan, 3> plans;  ///< Large stages, stages of any size, published.

  tried_stages(std::string_view workload, double requests_a_second, std::uint64_t seed, double promised_tpot_s = 0)
      : tried_layouts{promising(promised_tpot_s),
                      all_answer(sim::generate(sim::find_workload(workload), 1500, requests_a_second, seed)),
                      requests_a_second},
        plans{sim::plan_cascade(options, rows, rate, sim::layout::steady, 4),
              sim::plan_cascade(options, rows, rate, sim::layout::steady), sim::plan_cascade(options, rows, rate)} {}

  [[nodiscard]] static sim::cluster_options promising(double tpot_s) {
    sim::cluster_options o = profile_cluster("h20-llama-3.2-3b", 16, 0, 1024);
    o.promised.tpot_s = tpot_s;
    return o;
  }
  [[nodiscard]] sim::instance_layout present(std::size_t i, std::vector<tokens> bounds = {}) const {
    return {.kind = sim::layout_kind::stages, .stages = config_of(i), .bounds = std::move(bounds)};
  }
  [[nodiscard]] sim::cascade::config config_of(std::size_t i) const {
    return i == 2 ? sim::published_cascade(plans[2]) : sim::steady_cascade(plans[i]);
  }
  /// Seconds that a request takes.
  [[nodiscard]] double took(std::size_t i, std::span<const tokens> bounds = {}) {
    trials.going_on(rows, 6000);  // four times as many as were seen
    return trials.staged(config_of(i), bounds).e2e_s;
  }
};

TEST_CASE("due_first: stages of few instances where a trial finds them faster, of many where it does not") {
  const auto taken = [](std::string_view workload, double rate, std::uint64_t seed) {
    tried_stages t{workload, rate, seed};
    const sim::instance_layout best = t.best({}, {});
    REQUIRE(best.kind == sim::layout_kind::stages);
    std::size_t which = 0;
    std::array<double, 3> took{};
    for (std::size_t i = 0; i != took.size(); ++i) {
      took[i] = t.took(i);
      if (took[which] >= (i == 1 ? 1.02 : 1.1) * took[i]) which = i;
    }
    CHECK(best.stages.stages == t.plans[which].stages);
    // Prompts are bounded where that gains what is asked for: by default a fiftieth, which it does in none of these.
    const double gain = took[which] / t.took(which, t.steps);
    CHECK(gain < 1.02);
    CHECK(best.bounds.empty());
    CHECK(best.why.find(", prompts bounded") == std::string::npos);
    const sim::instance_layout bounded = t.best({.least_bounded_gain = 0.99 * gain}, {});
    CHECK(bounded.bounds == t.steps);
    CHECK(bounded.why.find(", prompts bounded") != std::string::npos);
    return which;
  };
  CHECK(taken("r1-servegen", 40, 1) == 1);
  CHECK(taken("r1-servegen", 120, 1) == 0);
  CHECK(taken("sharegpt", 60, 1) == 0);
}

TEST_CASE("due_first: a trial is made where the better of two plans is expected to gain a tenth") {
  tried_stages t{"r1-servegen", 23, 1};
  CHECK(t.plans[0].gain < 1.25);
  CHECK(t.plans[0].gain < t.plans[1].gain);
  const sim::instance_layout best = t.best({}, {});
  CHECK(best.stages.stages == t.plans[1].stages);
  t.trials.going_on(t.rows, 6000);
  CHECK(t.trials.colocated().e2e_s > 1.5 * t.took(1));
  // Between the two gains: where small stages are not allowed, their gain does not count.
  const double between = (t.plans[0].gain + t.plans[1].gain) / 2;
  CHECK(t.best({.least_tried_gain = between, .least_fine_gain = 1}, {}).kind == sim::layout_kind::stages);
  CHECK(t.best({.least_tried_gain = between, .least_fine_gain = 1e9}, {}).kind != sim::layout_kind::stages);
  // Where all came at once, nothing can be tried, and more is asked.
  for (trace_row& r : t.rows) r.arrival_s = 0;
  CHECK(t.best({}, {}).kind != sim::layout_kind::stages);
}

TEST_CASE("due_first: small stages that there are, and bounds, need not gain as much as new ones") {
  tried_stages t{"arena-chat", 80, 1};
  REQUIRE(t.took(0) >= t.took(1));
  REQUIRE(t.took(0) < 1.02 * t.took(1));
  CHECK(t.best({}, {}).stages.stages == t.plans[0].stages);
  // As many small ones as last time there are not: one more now.
  sim::instance_layout now = t.present(1);
  std::vector<partition::stage>& stages = now.stages.stages;
  const auto large = std::find_if(stages.begin(), stages.end(), [](const auto& s) { return s.instances > 1; });
  REQUIRE(large != stages.end());
  REQUIRE(large->from.count() + 2 < large->to.count());
  partition::stage part = *large;
  part.from = large->to = tokens{large->from.count() + 1};
  part.instances = 1;
  --large->instances;
  stages.insert(std::next(large), part);
  CHECK(t.best({}, now).stages.stages == t.plans[1].stages);
  now = t.present(0);
  CHECK(t.best({}, now).stages.stages == t.plans[0].stages);

  const double without = t.took(0);
  const double with = t.took(0, t.steps);
  REQUIRE(without >= with);
  REQUIRE(without < 1.02 * with);
  CHECK(t.best({}, now).bounds.empty());
  now.bounds = t.steps;
  CHECK(t.best({}, now).bounds == t.steps);
  CHECK_FALSE(alike(t.best({}, now), t.present(0)));
}

TEST_CASE("due_first: stages that there are stay while a trial says so, whatever is expected of others") {
  tried_stages t{"r1-servegen", 19.7, 1};
  REQUIRE(t.plans[1].gain < 1.02 * 1.1);
  REQUIRE(t.plans[0].gain < 1.1);
  CHECK(t.best({}, {}).kind != sim::layout_kind::stages);
  CHECK(t.best({}, t.present(1)).stages.stages == t.plans[1].stages);
}

TEST_CASE("due_first: published stages are no small steady ones") {
  tried_stages t{"arena-chat", 80, 1};
  CHECK(t.best({}, t.present(1)).stages.stages == t.plans[1].stages);
  CHECK(t.best({}, t.present(2)).stages.stages == t.plans[0].stages);
  sim::instance_layout other = t.present(0);
  CHECK(alike(other, t.present(0)));
  other.stages.backlog_weight = t.config_of(2).backlog_weight;
  CHECK_FALSE(alike(other, t.present(0)));
}

TEST_CASE("due_first: where nothing can be tried, prompts in stages stay as they are") {
  tried_stages t{"sharegpt", 50, 1};
  for (trace_row& r : t.rows) r.arrival_s = 0;
  for (const std::vector<tokens>& bounds : {std::vector<tokens>{}, t.steps}) {
    const sim::instance_layout best = t.best({}, t.present(0, bounds));
    CHECK(best.kind == sim::layout_kind::stages);
    CHECK(best.bounds == bounds);
  }
}

}  // namespace
