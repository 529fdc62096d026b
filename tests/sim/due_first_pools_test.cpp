// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Prompts apart from decodes.

#include <tessera/sim/input/archetypes.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/planning/best_layout.hpp>
#include <tessera/sim/policies/due_first.hpp>
#include <tessera/sim/systems/replanning.hpp>

#include "sim/due_first_inputs.hpp"
#include "sim/profile_cluster.hpp"
#include "sim/served.hpp"
#include "sim/tried_layouts.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

namespace {

using namespace tessera;
using sim::run_result;
using tessera_test::check_served;
using tessera_test::profile_cluster;
using tessera_test::due_first_inputs::alike_rows;
using tessera_test::due_first_inputs::mix;
using tessera_test::due_first_inputs::numbers;
using tessera_test::due_first_inputs::quiet;
using tessera_test::due_first_inputs::tried_layouts;
using tessera_test::due_first_inputs::v100s;

TEST_CASE("due_first: the best split of a valley is found from either side, whatever the size of the cluster") {
  for (std::size_t n = 2; n != 30; ++n) {
    const std::size_t step = std::max<std::size_t>(1, n / 8);
    for (std::size_t i = 0; i != (n - 1) * (n - 1); ++i) {
      const std::size_t lowest = 1 + i / (n - 1);
      const std::size_t start = 1 + i % (n - 1);
      CAPTURE(n, lowest, start);
      std::size_t calls = 0;
      const auto seconds = [&](std::size_t prefill) {
        return std::abs(static_cast<double>(prefill) - static_cast<double>(lowest));
      };
      const auto found = sim::best_split(n, start, [&](const sim::pool_sizes& p) {
        ++calls;
        CHECK(p.prefill > 0);
        CHECK(p.decode > 0);
        CHECK(p.prefill + p.decode + p.mixed == n);
        return seconds(p.prefill);
      });
      // None that can be come to in steps from the start is better.
      for (std::size_t k = start % step; k < n; k += step) {
        if (k != 0) CHECK(seconds(found.sizes.prefill) <= seconds(k));
      }
      CHECK(found.cost == seconds(found.sizes.prefill));
      CHECK(calls <= n / step + 2);
    }
  }
  // Where no split carries the load, or nothing ends, nothing is chosen over another.
  const double never = std::numeric_limits<double>::quiet_NaN();
  CHECK(sim::best_split(8, 4, [&](const sim::pool_sizes&) { return never; }).sizes.prefill == 4);
  // A promise less that is broken, of a thousand, is no reason to take nearly twice as long.
  const auto tried = [](const sim::pool_sizes& p) {
    return sim::trial_outcome{
        .broken = p.prefill == 5 ? 0.003 : 0.004, .e2e_s = p.prefill == 4 ? 5.0 : 9.0, .of = 1000};
  };
  const auto better = [](const sim::trial_outcome& a, const sim::trial_outcome& b) { return a.better_than(b); };
  CHECK(sim::best_split(8, 4, tried, better).sizes.prefill == 4);
}

TEST_CASE(
    "due_first: prompts disaggregated from decodes where a trial says that it pays, colocated where memory binds") {
  const auto rows = sim::generate(mix(), {{50, 24}}, 3, 1);
  const auto history = sim::generate(mix(), {{50, 24}}, 3, 2);
  auto v100 = v100s();
  const run_result disaggregated = sim::run_due_first(v100, rows, history, {}, quiet);
  const run_result colocated = sim::run_due_first(v100, rows, history, {.pools = false}, quiet);
  check_served(disaggregated, rows);
  CHECK(disaggregated.numbers.placement.starts_with("pools"));
  CHECK(colocated.numbers.placement == "headroom");
  // Together is nearly as good since a request goes where it adds least.
  CHECK(disaggregated.numbers.e2e.mean < 0.99 * colocated.numbers.e2e.mean);
  CHECK(disaggregated.numbers.e2e.p99 < 1.01 * colocated.numbers.e2e.p99);
  // Not before something is known of the traffic.
  CHECK(sim::run_due_first(v100, rows, {}, {}, quiet).numbers.placement.starts_with("headroom"));

  const auto chat = sim::generate(sim::find_workload("arena-chat"), 1000, 14.2, 1);
  const auto h100 = profile_cluster("h100-96gb-qwen-32b", 8, 0, 256);
  CHECK(sim::run_due_first(h100, chat, chat, {}, quiet).numbers.placement == "headroom");
}

TEST_CASE("due_first: pools have to pay at a higher rate, too, for they have nothing left for it") {
  const auto paid = [](double rate, double faster) {
    tried_layouts t{profile_cluster("v100-qwen2.5-7b", 8, 0, 256), alike_rows(1000, rate, 1), rate};
    const sim::instance_layout best = t.best({}, {}, {}, faster * rate);
    const sim::pool_sizes sizes{.prefill = 6, .decode = 2};
    std::array<std::array<double, 2>, 2> took{};
    for (const std::size_t busy : {0U, 1U}) {
      t.trials.as_they_came(t.rows, busy == 0 ? 1 : std::clamp(faster, 1.15, 2.0));
      took[busy] = {t.trials.colocated().e2e_s, t.trials.disaggregated(sizes).e2e_s};
    }
    CAPTURE(rate, faster, best.why);
    CHECK(took[0][0] > 1.02 * took[0][1]);  // as they came
    const bool pays = took[0][0] + took[1][0] >= 1.02 * (took[0][1] + took[1][1]);
    CHECK((best.kind == sim::layout_kind::pools) == pays);
    CHECK((best.why.find("but not at") == std::string::npos) == pays);
    if (pays) CHECK(best.pools.prefill == sizes.prefill);
    return pays;
  };
  CHECK(paid(24, 0));
  CHECK(!paid(28, 0));
  CHECK(!paid(24, 1.6));
  CHECK(!paid(24, 100));
}

TEST_CASE("due_first: pools are the same whatever bounds are left of the time before them") {
  const sim::instance_layout pools{.kind = sim::layout_kind::pools, .pools = {.prefill = 3, .decode = 5}};
  sim::instance_layout other = pools;
  other.bounds = {tokens{100}};
  CHECK(alike(pools, other));
  other.pools.prefill = 2;
  CHECK_FALSE(alike(pools, other));
}

TEST_CASE("due_first: pools in which the queue grows have to gain a tenth to stay, whatever a trial says") {
  tried_layouts t{v100s(), sim::generate(mix(), {{50, 24}}, 3, 2), 24};
  const auto best = [&](const sim::instance_layout& now, bool behind) {
    return sim::best_layout(t.options, {}, t.steps, {}, t.trials,
                            {.rows = t.rows, .rate = t.rate, .ended = t.rows.size(), .behind = behind}, now);
  };
  const sim::instance_layout pools = best({}, false);
  REQUIRE(pools.kind == sim::layout_kind::pools);
  CHECK(best(pools, false).kind == sim::layout_kind::pools);
  CHECK(best(pools, true).kind == sim::layout_kind::colocated);
}

TEST_CASE("due_first: pools are left when more come than they carry") {
  auto rows = alike_rows(2500, 22, 1);
  for (std::size_t i = 1500; i != rows.size(); ++i) {
    rows[i].arrival_s = rows[1499].arrival_s + (rows[i].arrival_s - rows[1499].arrival_s) / 1.6;
  }
  const auto v100 = profile_cluster("v100-qwen2.5-7b", 8, 0, 256);
  const run_result r = sim::run_due_first(v100, rows, {}, {}, quiet);
  check_served(r, rows);
  CHECK(r.numbers.placement.find("pools, headroom") != std::string::npos);
}

}  // namespace
