// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// `due-first` as a fleet runs it: its planner is a function of values, its controller stands behind routers.
#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/layout_controller.hpp>
#include <tessera/fleet/log.hpp>
#include <tessera/fleet/runtime.hpp>
#include <tessera/sim/planning/plan_layout.hpp>
#include <tessera/sim/policies/due_first.hpp>
#include <tessera/sim/systems/by_headroom.hpp>

#include "sim/profile_cluster.hpp"
#include "sim/replanning_runs.hpp"
#include "sim/served.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using fleet::event;
using fleet::event_kind;
using sim::run_result;
using sim::trace_row;
using tessera_test::check_served;
using tessera_test::profile_cluster;
using tessera_test::replanning_runs::long_tailed;
using tessera_test::replanning_runs::quiet;

sim::cluster_options h20s() { return profile_cluster("h20-llama-3.2-3b", 16, 0, 1024); }

std::vector<fleet::seen_request> seen_of(const std::vector<trace_row>& rows) {
  std::vector<fleet::seen_request> seen;
  for (const trace_row& r : rows) {
    seen.push_back({.arrival_s = r.arrival_s,
                    .prompt = tokens{r.prompt_tokens},
                    .generated = tokens{r.output_tokens},
                    .reasoning = tokens{r.reasoning_tokens},
                    .ended = true});
  }
  return seen;
}

TEST_CASE("plan layout: the same values give the same layout, with no cluster that runs") {
  const std::vector<fleet::seen_request> seen = seen_of(long_tailed(300, 60, 2));
  const fleet::traffic_sample sample{
      .requests = seen, .rate = fleet::arrival_rate(seen.size(), [&](std::size_t i) { return seen[i].arrival_s; })};
  const sim::fleet_to_plan f{.options = h20s(), .config = {.pools = false}};
  const sim::instance_layout layout = sim::plan_layout(f, sample, {});
  REQUIRE(layout.kind == sim::layout_kind::stages);

  // As roles, ranges and bounds: each length has its replicas, and none has two stages.
  const std::vector<fleet::assignment> all = sim::assignments_of(layout, f);
  REQUIRE(all.size() == 16);
  CHECK(all.front().from == blocks{});
  CHECK(all.back().to == fleet::endless);
  std::size_t stages = 1;
  for (std::size_t i = 0; i != all.size(); ++i) {
    CHECK(all[i].replica == i);
    CHECK(all[i].role == control::role::mixed);
    CHECK(all[i].from < all[i].to);
    if (i == 0 || (all[i].from == all[i - 1].from && all[i].to == all[i - 1].to)) continue;
    CHECK(all[i].from == all[i - 1].to);
    ++stages;
  }
  CHECK(stages == layout.stages.stages.size());
  sim::instance_layout pools{.kind = sim::layout_kind::pools, .pools = {.prefill = 3, .decode = 11, .mixed = 2}};
  std::map<control::role, std::size_t> roles;
  for (const fleet::assignment& a : sim::assignments_of(pools, f)) {
    ++roles[a.role];
    CHECK(a.prefill_budget == tokens{});
  }
  CHECK(roles == std::map<control::role, std::size_t>{
                     {control::role::prefill, 3}, {control::role::decode, 11}, {control::role::mixed, 2}});
  // All that do everything have the usual bound, which is above nothing.
  for (const fleet::assignment& a : sim::assignments_of({}, f)) CHECK(a.prefill_budget > tokens{});

  // Once more, by a planner that goes on with its last layout.
  sim::layout_planner planner{f};
  CHECK(planner.present().kind == sim::layout_kind::colocated);
  CHECK(planner(sample) == all);
  CHECK(planner.present().why == layout.why);
  // The fleet may change. Where requests share prefixes there are no stages, and the second plan gives them up.
  sim::fleet_to_plan shares = f;
  shares.shares = true;
  planner.plan_for(shares);
  CHECK(planner.fleet().shares);
  CHECK(planner(sample) == all);
  CHECK(planner(sample) == sim::assignments_of({}, shares));
}

TEST_CASE("plan layout: two plans give up a layout, one gives up none, except pools that do worse") {
  using sim::layout_kind;
  const auto stays = [](layout_kind now, layout_kind next, bool doubted, bool urgent, bool tried) {
    sim::instance_layout from, to;
    from.kind = now;
    to.kind = next;
    to.tried = tried;
    return sim::stays_once(from, to, doubted, urgent);
  };
  for (const bool doubted : {false, true}) {
    for (const bool urgent : {false, true}) {
      for (const bool tried : {false, true}) {
        CAPTURE(doubted, urgent, tried);
        for (const layout_kind next : {layout_kind::colocated, layout_kind::stages, layout_kind::pools}) {
          CHECK_FALSE(stays(layout_kind::colocated, next, doubted, urgent, tried));
          CHECK_FALSE(stays(next, next, doubted, urgent, tried));
        }
        CHECK(stays(layout_kind::stages, layout_kind::colocated, doubted, urgent, tried) == !doubted);
        CHECK(stays(layout_kind::pools, layout_kind::colocated, doubted, urgent, tried) ==
              (!doubted && !(urgent && tried)));
      }
    }
  }
}

TEST_CASE("due_first behind routers: its layout comes as late as its planner is, and what is simulated is deployed") {
  const std::vector<trace_row> rows = long_tailed(500, 60, 1);
  sim::cluster_options o = h20s();
  const auto run = [&](double plan_s, std::vector<std::string>* log) {
    o.plan_s = plan_s;
    o.routed = sim::routing{.report_s = 0.5, .action_s = 0.02};
    double planned_s = -1;
    o.routed->heard = [&](std::size_t, const event& e, std::span<const fleet::action> actions) {
      if (e.what == event_kind::lays_out && e.low > blocks{} && planned_s < 0) planned_s = e.at_s;
      if (log == nullptr) return;
      fleet::log_line line;
      log->emplace_back(fleet::write(e, line));
      for (const fleet::action& a : actions) log->emplace_back(fleet::write(a, line));
    };
    const run_result r = sim::run_due_first(o, rows, {}, {}, quiet);
    check_served(r, rows);
    CHECK(r.measures.at("left_in_books") == 0);
    CHECK(r.measures.at("plans") >= 1);
    return std::pair{r, planned_s};
  };
  std::vector<std::string> log;
  const auto [at_once, first_s] = run(0, &log);
  CHECK(at_once.numbers.placement == "headroom, stages");
  CHECK(first_s > 0);
  CHECK(at_once.numbers.migrations > 0);
  const auto [later, later_s] = run(2, nullptr);
  CHECK(later.numbers.placement == "headroom, stages");
  CHECK(later_s >= first_s + 2);
  const auto [never, never_s] = run(1e6, nullptr);
  CHECK(never.numbers.placement == "headroom");
  CHECK(never_s == -1);
  CHECK(never.numbers.migrations < at_once.numbers.migrations);

  // The events once more, for a controller in front of no simulation: plans come from the log.
  using controller = fleet::layout_controller<sim::instance_speed>;
  const sim::prefill_model model = sim::calibrate_prefill(o.instance.timer, sim::default_ttft_target);
  auto memory = storage_for<controller>({.replicas = 16, .requests = 501, .window = 501});
  controller by{memory,
                {.placing = {.cost = model.cost, .budget = model.budget, .block_size = o.instance.limits.block_size},
                 .tight = sim::quantum_blocks},
                sim::instance_speed::of(o)};
  fleet::runtime_settings s;
  s.book.block_size = o.instance.limits.block_size;
  s.book.lease = s.book.silence = duration::forever();
  s.book.rest = duration{};
  s.book.moving = 100'000;
  s.book.quantum = o.quantum;
  s.report_s = 0.5;
  auto storage = storage_for<fleet::runtime>({.book = {.replicas = 16, .reservations = 1002}, .requests = 501});
  fleet::runtime rt{by, storage, s};
  std::size_t at = 0, wrong = 0, moves = 0;
  while (at != log.size()) {
    event e;
    REQUIRE_FALSE(fleet::read(log[at++], e));
    fleet::log_line line;
    for (const fleet::action& a : rt.handle(e)) {
      wrong += at == log.size() || fleet::write(a, line) != log[at] ? 1U : 0U;
      moves += a.what == fleet::action_kind::move ? 1U : 0U;
      at += at == log.size() ? 0 : 1;
    }
    if (at != log.size() && fleet::is_action(log[at])) ++wrong;
    REQUIRE(wrong == 0);
  }
  CHECK(moves > 0);
}

TEST_CASE("due_first behind routers: several of them, with instances that die, lose nothing") {
  sim::cluster_options o = profile_cluster("h100-96gb-qwen-32b", 4, 4000, 64);
  o.detection_s = 0.5;
  o.faults = {{.kind = sim::fault_kind::dies, .instance = 1, .at_s = 3, .for_s = 10}};
  std::vector<trace_row> rows = sim::generate(sim::find_workload("reasoning-chat"), 300, 10, 3);
  for (trace_row& r : rows) r.score = static_cast<float>(r.output_tokens);
  for (const std::size_t routers : {1U, 3U}) {
    CAPTURE(routers);
    o.routed = sim::routing{.routers = routers, .report_s = 1, .action_s = 0.05};
    o.plan_s = 1;
    const run_result r = sim::run_due_first(o, rows, {}, {}, quiet);
    CHECK(r.numbers.completed == rows.size());
    CHECK(r.measures.at("left_in_books") == 0);
    CHECK(r.measures.at("plans") >= 1);
  }
}

}  // namespace
