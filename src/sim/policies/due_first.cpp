// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/compose/due_first.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/layout_controller.hpp>
#include <tessera/gate/fair_tenants.hpp>
#include <tessera/kv/csr_tables.hpp>
#include <tessera/kv/keep_until.hpp>
#include <tessera/rank/program_length.hpp>
#include <tessera/sim/cluster/controlled.hpp>
#include <tessera/sim/cluster/turns.hpp>
#include <tessera/sim/planning/best_layout.hpp>
#include <tessera/sim/planning/plan_layout.hpp>
#include <tessera/sim/planning/step_bounds.hpp>
#include <tessera/sim/policies/due_first.hpp>
#include <tessera/sim/systems/by_headroom.hpp>
#include <tessera/sim/systems/replanning.hpp>
#include <tessera/sim/traffic/sampled_traffic.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

policy due_first_policy(std::string name, const due_first_config& config) {
  std::vector<policy_parameter> parameters;
  for (const due_first_parameter& x : due_first_parameters) {
    parameters.push_back({x.name, x.least, x.most, [config, at = x.at](std::string own_name, double value) {
                            due_first_config changed = config;
                            changed.*at = value;
                            return due_first_policy(std::move(own_name), changed);
                          }});
  }
  return {
      .name = name,
      .summary =
          "ours: readers first, then the earliest deadline by predicted length; bounded steps, headroom, stages, pools",
      .run =
          [name, config](const cluster_options& options, std::span<const trace_row> rows,
                         const progress_callback& progress) {
            run_result result = run_due_first(options, rows, {}, config, progress);
            result.numbers.policy = name;
            return result;
          },
      .placement = "own",
      .parameters = std::move(parameters),
      .knows_routers = true};
}

namespace {

// KV of a turn that ends with a tool call is kept for the next turn.
constexpr double until_it_comes_s = 1e9;

/// The engines of all instances: of a run and, with lengths of its own, of a plan's trials.
engine_maker engines_for(const fleet_to_plan& f, const rank::expected_length<>& lengths) {
  using store = kv::basic_prefix_cache<kv::keep_until<>>;
  using scheduler = tessera::due_first<request, rank::program_length<>, order::pacer_member, store, kv::csr_tables,
                                       gate::fair_tenants>;
  const due_first_config& config = f.config;
  // Cached tokens take no time, and they are unknown before a request is placed.
  const double per_prompt_token_s = f.shares ? 0 : prompt_token_seconds(f.options.instance.timer, tokens{1000});
  // Among tenants the earliest deadline does not count: the tenant that sends most would have most of the earliest
  // deadlines.
  const scheduler::config ordered{.pace = duration{config.pace},
                                  .revised = config.revised,
                                  .prompt_pace = duration{config.prompts * per_prompt_token_s},
                                  .move_pace = duration{move_token_seconds(f.options.instance)},
                                  .expected = {.weight = config.programs, .expected = lengths}};
  return engines_of<scheduler>(ordered);
}

prefill_model model_for(const cluster_options& o) {
  // A promise above the default is no reason to give prompts less weight against memory.
  return calibrate_prefill(o.instance.timer, std::min(ttft_target(o.promised), default_ttft_target));
}

/// By instance; empty if steps are not bounded.
std::vector<tokens> usual_steps_of(const fleet_to_plan& f, const prefill_model& model) {
  if (!f.config.bounded_steps) return {};
  return step_bounds(f.options, model, f.config.step_s);
}

cluster_options bounded_of(const fleet_to_plan& f, std::span<const tokens> usual_steps) {
  return f.config.bounded_steps ? bounded_steps(f.options, usual_steps) : f.options;
}

}  // namespace

instance_layout plan_layout(const fleet_to_plan& f, const fleet::traffic_sample& seen, const instance_layout& now,
                            const progress_callback& progress) {
  const due_first_config& config = f.config;
  learned_lengths lengths;
  lengths.learn(known_outputs(seen.requests), config.predicts);
  const std::vector<trace_row> rows = rows_of(seen.requests, lengths, config.predicts);
  due_first_config parts = config;
  // Requests that share prefixes go where these are cached: neither the plan of stages nor pools know about them.
  if (f.shares) parts.stages = parts.pools = false;
  const prefill_model model = model_for(f.options);
  const std::vector<tokens> usual_steps = usual_steps_of(f, model);
  std::vector<std::vector<tokens>> longer;
  if (config.bounded_steps && !f.shares) longer = longer_steps(f.options, model, config.step_s);
  const progress_callback told = progress ? progress : [](std::size_t) {};
  layout_trials trials{bounded_of(f, usual_steps), model, engines_for(f, lengths.expected()), told, config.by_headroom};
  const auto ended = static_cast<std::size_t>(
      std::count_if(seen.requests.begin(), seen.requests.end(), [](const auto& r) { return r.ended; }));
  return best_layout(f.options, parts, usual_steps, longer, trials,
                     {.rows = rows,
                      .rate = seen.rate,
                      .lately = seen.lately,
                      .ended = ended,
                      .here = seen.here,
                      .held = seen.held,
                      .behind = seen.behind},
                     now);
}

std::vector<fleet::assignment> assignments_of(const instance_layout& layout, const fleet_to_plan& f) {
  const std::size_t n = f.options.instances;
  const tokens block_size = f.options.instance.limits.block_size;
  std::vector<tokens> bounds = layout.bounds;
  if (layout.kind == layout_kind::pools) bounds.clear();
  if (layout.kind == layout_kind::colocated && bounds.empty()) {
    bounds = usual_steps_of(f, model_for(f.options));
  }
  std::vector<fleet::assignment> all;
  for (std::size_t i = 0; i != n; ++i) {
    fleet::assignment& a = all.emplace_back();
    a.replica = static_cast<fleet::replica_id>(i);
    if (!bounds.empty()) a.prefill_budget = bounds[i];
    if (layout.kind != layout_kind::pools) continue;
    a.role = i < layout.pools.prefill                         ? control::role::prefill
             : i < layout.pools.prefill + layout.pools.decode ? control::role::decode
                                                              : control::role::mixed;
  }
  if (layout.kind != layout_kind::stages) return all;
  std::size_t i = 0;
  for (const partition::stage& s : layout.stages.stages) {
    for (const std::size_t past = i + s.instances; i != past && i != n; ++i) {
      all[i].from = blocks_for(s.from, block_size);
      if (s.to != partition::unbounded) all[i].to = blocks_for(s.to, block_size);
    }
  }
  return all;
}

layout_planner::layout_planner(fleet_to_plan f, progress_callback progress)
    : fleet_{std::move(f)}, progress_{std::move(progress)} {}

std::vector<fleet::assignment> layout_planner::operator()(const fleet::traffic_sample& seen) {
  instance_layout next = plan_layout(fleet_, seen, present_, progress_);
  const bool waits = stays_once(present_, next, doubted_, seen.behind);
  doubted_ = waits;
  if (!waits && !alike(next, present_)) {
    present_ = std::move(next);
  } else {
    present_.why = std::move(next.why);
  }
  return assignments_of(present_, fleet_);
}

namespace {

/// The controller of one router, with memory of its own and its planner.
struct seated_layout_controller {
  using controller = fleet::layout_controller<instance_speed>;
  owned_storage<controller::limits> storage;
  controller decides;
  layout_planner plans;
  std::string layouts;  // In order.

  seated_layout_controller(const fleet_to_plan& f, const prefill_model& model, std::size_t requests,
                           const progress_callback& progress)
      : storage{storage_for<controller>({.replicas = f.options.instances,
                                         .requests = requests,
                                         .window = std::clamp<std::size_t>(requests, 4, 16'384)})},
        decides{storage,
                {.placing = {.cost = model.cost,
                             .budget = model.budget,
                             .block_size = f.options.instance.limits.block_size},
                 .predicts = f.config.predicts,
                 .reads_prefixes = f.shares,
                 .tight = quantum_blocks},
                instance_speed::of(f.options)},
        plans{f, progress},
        layouts{to_string(layout_kind::colocated)} {}

  [[nodiscard]] std::vector<fleet::assignment> plan() {
    const layout_kind before = plans.present().kind;
    std::vector<fleet::assignment> all = plans(decides.sample());
    if (plans.present().kind != before && layouts.size() < 40) {
      layouts += fmt::format(", {}", to_string(plans.present().kind));
    }
    return all;
  }
};

/// A request is sent to its instance with the length that its router expects.
class sends_expectations : public controlled {
 public:
  sends_expectations(controller_maker make, std::span<const std::unique_ptr<seated_layout_controller>> routers)
      : controlled{std::move(make)}, routers_{routers} {}

  void starts(cluster& c) override {
    scores_.assign(c.requests().size(), {});
    controlled::starts(c);
  }
  [[nodiscard]] std::size_t place(cluster& c, const request& arrived) override {
    request& r = c.requests()[arrived.index];
    // Placed anew, it is to its router what it was.
    if (!scores_[r.index]) scores_[r.index] = r.score;
    r.score = *scores_[r.index];
    const std::size_t to = controlled::place(c, r);
    const fleet::request_view v = routers_[r.index % routers_.size()]->decides.expecting(request_view_of(r));
    r.score = static_cast<float>(v.expected.count());
    return to;
  }
  void finished(cluster& c, request& r) override {
    if (r.program != nullptr) r.program->attained += r.generated();
    controlled::finished(c, r);
  }

 private:
  std::span<const std::unique_ptr<seated_layout_controller>> routers_;
  std::vector<std::optional<float>> scores_{};  // By request: what its predictor says.
};

/// As a fleet runs it, behind routers.
run_result run_behind_routers(fleet_to_plan f, std::span<const trace_row> rows, const progress_callback& progress) {
  // Instances keep their roles behind routers.
  f.config.pools = false;
  const prefill_model model = model_for(f.options);
  f.options = bounded_of(f, usual_steps_of(f, model));
  const std::size_t n = f.options.routed->routers;
  std::vector<std::unique_ptr<seated_layout_controller>> routers;
  for (std::size_t k = 0; k != n; ++k) {
    routers.push_back(std::make_unique<seated_layout_controller>(f, model, rows.size() / n + 1, progress));
  }
  const controller_maker make = [&routers](const cluster_options&, const router_seat& seat) {
    seated_layout_controller& at = *routers[seat.router];
    return seated_controller{.decides = {std::shared_ptr<void>{}, &at.decides},
                             .places_by = "by headroom, and by range where instances serve ranges of lengths",
                             .moves_by = "out of its range, or where memory is tight",
                             .plans = [&at](std::uint64_t) { return at.plan(); }};
  };
  // Engines learn what their requests come to as well; here they share what the first router has learned.
  const rank::expected_length<> learned{&routers.front()->decides.lengths().distributions()};
  cluster c{f.options, engines_for(f, learned), std::make_unique<sends_expectations>(make, routers)};
  run_result result = c.run(rows, progress);
  result.numbers.placement = routers.front()->layouts;
  result.measures["plans"] = static_cast<double>(routers.front()->decides.plans());
  return result;
}

}  // namespace

run_result run_due_first(const cluster_options& options, std::span<const trace_row> rows,
                         std::span<const trace_row> history, const due_first_config& config,
                         const progress_callback& progress) {
  fleet_to_plan f{.options = options, .config = config};
  f.shares = options.prefix_cache && turns{rows, options.instance.limits.block_size.count(), true}.shares();
  if (f.shares) f.options.kept_s = until_it_comes_s;
  if (options.routed) return run_behind_routers(std::move(f), rows, progress);
  learned_lengths lengths;
  const prefill_model model = model_for(f.options);
  const cluster_options bounded = bounded_of(f, usual_steps_of(f, model));
  replanning::config r{.model = model, .by_headroom = config.by_headroom, .predicts = config.predicts};
  for (std::size_t i = 0; i != options.instances; ++i) r.bounds.push_back(bounded.of(i).prefill_budget);
  auto control = std::make_unique<replanning>(std::move(r), lengths, history,
                                              [&](const fleet::traffic_sample& seen, const instance_layout& now) {
                                                return plan_layout(f, seen, now, progress);
                                              });
  cluster c{f.options, engines_for(f, lengths.expected()), std::move(control)};
  return c.run(rows, progress);
}

}  // namespace sim
TESSERA_NAMESPACE_END
