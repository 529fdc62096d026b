// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/cluster/placed.hpp>
#include <tessera/sim/input/split_list.hpp>
#include <tessera/sim/measure/promise.hpp>
#include <tessera/sim/model/step_time.hpp>
#include <tessera/sim/planning/due_first_config.hpp>
#include <tessera/sim/planning/step_bounds.hpp>
#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/report/deployment.hpp>
#include <tessera/sim/report/report.hpp>
#include <tessera/sim/systems/pools.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {
namespace {

enum class front { placement, controller, pools };

/// A policy, or an order, that engines run under tessera.vllm.
struct deployable {
  std::string_view policy;
  std::string_view scheduler;   ///< Its name there.
  front by = front::placement;  ///< What routes: its placement of new requests, or a controller of its name.
  std::string_view moves{};     ///< How a router moves its requests.
  bool reasons = false;         ///< It knows when reasoning ends.
  bool predicts = false;        ///< It goes by predicted lengths.
  bool on_ray = true;           ///< Whether examples/ray passes on all that it needs.
};
constexpr deployable all_deployable[] = {
    {"fcfs", "fcfs"},
    {"sarathi", "fcfs"},
    {"rr", "round_robin"},
    {"round-robin", "round_robin"},
    {"pascal", "pascal", front::placement, "pascal", true},
    {"two-phase", "pascal", front::placement, {}, true},
    {"pascal-paced", "pascal_paced", front::placement, "when_tight", true},
    {"paced", "pascal_paced", front::placement, {}, true},
    {"pars", "pars", front::placement, {}, false, true},
    {"ranked", "pars", front::placement, {}, false, true},
    {"due-first", "due_first", front::controller, "due-first", true, true},
    {"earliest-due", "due_first", front::placement, {}, true, true},
    {"vtc", "vtc", front::placement, {}, false, false, false},
    {"llumnix", "fcfs", front::controller, "llumnix"},
    {"distserve", "fcfs", front::pools, "distserve"},
    {"splitwise", "fcfs", front::pools, "splitwise"},
    {"phasor", "fcfs", front::pools, "phasor", false, false, false},
};
constexpr std::string_view oracles[] = {"sjf", "kvflow"};

std::string_view base_of(std::string_view policy) { return policy.substr(0, policy.find(':')); }

const deployable* find_deployable(std::string_view policy) {
  const auto* const at = std::ranges::find(all_deployable, base_of(policy), &deployable::policy);
  return at == std::end(all_deployable) ? nullptr : at;
}

/// `name: value` pairs of JSON, or `name=value` arguments of Python.
using pairs = std::vector<std::pair<std::string, std::string>>;

std::string json_of(const pairs& all) {
  std::vector<std::string> items;
  for (const auto& [name, value] : all) items.push_back(fmt::format("\"{}\": {}", name, value));
  return fmt::format("{{{}}}", fmt::join(items, ", "));
}
std::string arguments_of(const pairs& all) {
  std::vector<std::string> items;
  for (const auto& [name, value] : all) items.push_back(fmt::format("{}={}", name, value));
  return fmt::format("{}", fmt::join(items, ", "));
}
std::string json_text(std::string_view text) { return nlohmann::json(text).dump(); }

/// The commands that run one policy.
class commands {
 public:
  commands(const deployable& what, const summary& row, const simulated_cluster& at)
      : what_{what}, row_{row}, at_{at}, reasons_{what.reasons && row.reasoning_share > 0} {
    const std::string_view name = row.policy;
    for (const std::string_view item : split_list(name.substr(std::min(name.find(':'), name.size())), ':')) {
      const std::size_t equals = item.find('=');
      if (equals != item.npos) parameters_.emplace_back(item.substr(0, equals), item.substr(equals + 1));
    }
    choose_options();
  }

  [[nodiscard]] std::string text() const {
    const std::string config = fmt::format("{{\"tessera\": {}}}", json_of(options_));
    std::string out = fmt::format(
        "  {}: vllm serve MODEL{} --scheduler-cls tessera.vllm.Scheduler --additional-config '{}'\n",
        at_.options.instances == 1 ? "The instance" : "Each instance",
        at_.size.block_size == instance_size{}.block_size ? "" : fmt::format(" --block-size {}", at_.size.block_size),
        config);
    const bool is_known = what_.by != front::placement || (!row_.placement.empty() && row_.placement != "own");
    if (at_.options.instances > 1 && is_known) out += router_text(config);
    if (reasons_) out += "  ID is the token that ends reasoning, as that of </think>.\n";
    if (what_.predicts) out += "  FILE predicts lengths: tessera.rank writes it. Without it, max_tokens counts.\n";
    if (what_.scheduler == "vtc") out += "  Each request names its tenant: see docs/vllm.md.\n";
    if (!at_.options.each.empty() && (bounded_ || what_.by == front::pools)) {
      out += "  Numbers that depend on the profile are those of the first kind of instance.\n";
    }
    if (!parameters_.empty()) {
      std::vector<std::string> left;
      for (const auto& [key, value] : parameters_) left.push_back(fmt::format("{}={}", key, value));
      out += fmt::format("  tessera.vllm has no option for {}.\n", detail::enumerate(left));
    }
    return out;
  }

 private:
  /// Takes a parameter of the policy, if it is above `above`; what is left at the end is not said by any command.
  std::optional<double> take(std::string_view name, double above = -1) {
    const auto at = std::ranges::find(parameters_, name, [](const auto& p) { return std::string_view{p.first}; });
    if (at == parameters_.end()) return {};
    const double value = std::stod(at->second);
    if (!(value > above)) return {};
    parameters_.erase(at);
    return value;
  }
  void add_bound(double step_s) {
    const prefill_model model = calibrate_prefill(at_.options.instance.timer, default_ttft_target);
    cluster_options first = at_.options;
    first.each.clear();
    options_.emplace_back("prefill_budget", fmt::format("{}", step_bounds(first, model, step_s).front().count()));
    bounded_ = true;
  }
  /// What tessera.vllm is told, beside its own defaults.
  void choose_options() {
    options_.emplace_back("policy", json_text(what_.scheduler));
    // Turns in a circle, as here.
    if (what_.scheduler == "round_robin") options_.emplace_back("fewest_quanta_first", "false");
    if (what_.policy == "ranked") options_.emplace_back("threshold", "Infinity");
    if (what_.policy == "sarathi") options_.emplace_back("step_s", fmt::format("{}", due_first_config{}.step_s));
    const bool is_due_first = what_.policy == "due-first";
    // As JSON for Python.
    const auto said = [](double x) { return std::isinf(x) ? std::string{"Infinity"} : fmt::format("{}", x); };
    if (const auto threshold = take("threshold")) options_.emplace_back("threshold", said(*threshold));
    if (const auto pace = take("pace", 0)) options_.emplace_back("pace", said(*pace));
    if (is_due_first) {
      const double weight = take("prompts").value_or(due_first_config{}.prompts);
      if (!shares() && weight > 0) {
        options_.emplace_back(
            "prompt_pace",
            fmt::format("{:.3g}", weight * prompt_token_seconds(at_.options.instance.timer, tokens{1000})));
      }
      if (reasons_) options_.emplace_back("move_pace", fmt::format("{:.3g}", move_token_seconds(at_.options.instance)));
      add_bound(take("step_s").value_or(due_first_config{}.step_s));
    }
    if (reasons_) options_.emplace_back("end_of_reasoning", "ID");
    if (what_.predicts) options_.emplace_back("model", "\"FILE\"");
  }
  /// Whether requests share prefixes, as far as the run shows it.
  [[nodiscard]] bool shares() const { return row_.prefix_hit_rate > 0; }

  /// The arguments of the planner behind the profile.
  [[nodiscard]] pairs planner_arguments() const {
    pairs out;
    const promise& p = at_.options.promised;
    if (p.ttft_s > 0) out.emplace_back("ttft", fmt::format("{}", p.ttft_s));
    if (p.tpot_s > 0) out.emplace_back("tpot", fmt::format("{}", p.tpot_s));
    const instance_size usual;
    if (at_.size.kv_blocks) out.emplace_back("kv_blocks", fmt::format("{}", *at_.size.kv_blocks));
    for (const auto& [name, value, other] : {std::tuple{"block_size", at_.size.block_size, usual.block_size},
                                             std::tuple{"max_batch", at_.size.max_batch, usual.max_batch},
                                             std::tuple{"token_budget", at_.size.token_budget, usual.token_budget}}) {
      if (value != other) out.emplace_back(name, fmt::format("{}", value));
    }
    return out;
  }
  [[nodiscard]] pool_sizes pools() const {
    if (const auto at = at_.pools.find(row_.policy); at != at_.pools.end()) return at->second;
    if (at_.options.pools) return *at_.options.pools;
    return what_.policy == "distserve" ? halves(at_.options.instances) : three_pools(at_.options.instances);
  }

  [[nodiscard]] std::string router_text(const std::string& config) const {
    const std::string controller{what_.by == front::placement ? row_.placement : what_.policy};
    pairs router;
    router.emplace_back("controller", json_text(controller));
    std::string ray = fmt::format("--controller {}{}", controller, what_.moves.empty() ? "" : " --moves");
    if (at_.size.block_size != instance_size{}.block_size) {
      router.emplace_back("block_size", fmt::format("{}", at_.size.block_size));
      ray += fmt::format(" --block-size {}", at_.size.block_size);
    }
    if (what_.moves == "pascal" || what_.moves == "when_tight" || what_.policy == "due-first") {
      router.emplace_back("tight", fmt::format("{}", quantum_blocks.count()));
    }
    if (what_.moves == "pascal" && controller != "pascal") {  // another placement was chosen, and the moves stay
      router.emplace_back("moves", "\"pascal\"");
      ray += " --settings '{\"moves\": \"pascal\"}'";
    }
    std::string costs;
    if (what_.policy == "due-first") {
      const std::string profile = json_text(at_.profile.starts_with('{') ? "PROFILE" : at_.profile);
      pairs planned = planner_arguments();
      router.emplace_back("planner", fmt::format("tessera.fleet.planner.LayoutPlanner({}{}{})", profile,
                                                 planned.empty() ? "" : ", ", arguments_of(planned)));
      planned.emplace(planned.begin(), "profile", profile);
      ray += fmt::format(" --planner '{}'", json_of(planned));
      const double ttft = at_.options.promised.ttft_s;
      costs = fmt::format(", **tessera.sim.router_costs({}{})", profile,
                          ttft > 0 ? fmt::format(", ttft={}", ttft) : std::string{});
      if (shares()) {
        router.emplace_back("prefixes", "True");
        ray += " --settings '{\"prefixes\": true}'";
      }
    }
    std::string out = fmt::format("  In front of them: tessera.fleet.Router({}{})\n", arguments_of(router), costs);
    if (what_.policy == "due-first") out += "  It needs: import tessera.fleet.planner, tessera.sim\n";
    bool on_ray = what_.on_ray;
    if (what_.by == front::pools) {
      const pool_sizes p = pools();
      const auto [budget, square] = prompt_tokens_in_time();
      out += roles_text(p, budget, square);
      ray += fmt::format(" --prefill {} --prefill-budget {:.6g}", p.prefill, budget);
      on_ray = on_ray && p.mixed == 0;
    }
    if (reasons_) out += "  Its stream() is told end_of_reasoning=ID.\n";
    if (!what_.moves.empty()) out += "  Its moves need replicas that hand KV over: see docs/fleet.md.\n";
    if (on_ray) {
      const bool by_name = options_.size() == (reasons_ ? 2U : 1U);
      out += fmt::format(
          "  Or both, on Ray Serve: python examples/ray/app.py --model MODEL --replicas {} --gpus 1 {}{} {}\n",
          at_.options.instances,
          by_name ? fmt::format("--scheduler {}", what_.scheduler)
                  : fmt::format("--engine-options '{{\"additional_config\": {}}}'", config),
          reasons_ ? " --end-of-reasoning ID" : "", ray);
    }
    if (what_.by != front::placement && what_.policy != "llumnix" && !at_.options.routed) {
      out += "  With --routers 1, replay simulates this very controller.\n";
    }
    return out;
  }
  /// How many prompt tokens a replica computes in time, and what a prompt's square adds. A prompt's cost is in tokens:
  /// `alpha n^2 + beta n`, divided by `beta`.
  [[nodiscard]] std::pair<double, double> prompt_tokens_in_time() const {
    const prefill_model model = calibrate_prefill(at_.options.instance.timer, ttft_target(at_.options.promised));
    return {model.budget.peak_flops * model.budget.ttft.seconds() / model.cost.beta,
            model.cost.alpha / model.cost.beta};
  }
  /// How replicas join pools.
  [[nodiscard]] static std::string roles_text(const pool_sizes& p, double budget, double square) {
    return fmt::format(
        "  Its add() is told prefill_budget={:.6g}, prefill_square={:.3g}, and role=\"prefill\" of {}, "
        "role=\"decode\" of {}{}.\n",
        budget, square, p.prefill, p.decode, p.mixed == 0 ? "" : fmt::format(", elastic=True of {}", p.mixed));
  }

  const deployable& what_;
  const summary& row_;
  const simulated_cluster& at_;
  bool reasons_;
  bool bounded_ = false;
  std::vector<std::pair<std::string, std::string>> parameters_{};
  pairs options_{};
};

/// Rows by their numbers.
std::vector<replicates> select(std::span<const replicates> rows, std::span<const std::size_t> which) {
  std::vector<replicates> out;
  for (const std::size_t i : which) out.push_back(rows[i]);
  return out;
}

}  // namespace

std::string format_deployment(std::span<const replicates> rows, const simulated_cluster& at) {
  std::vector<std::size_t> can;
  for (std::size_t i = 0; i != rows.size(); ++i) {
    if (find_deployable(rows[i].front().policy) != nullptr) can.push_back(i);
  }
  if (can.empty()) return {};
  std::vector<detail::measure> measures = detail::measures_of(rows);
  std::ranges::stable_partition(measures, [](const detail::measure& m) { return m.top == "goodput"; });
  for (const detail::measure& m : measures) {
    if (m.said.empty()) continue;
    const detail::comparison all = detail::compare(rows, m);
    const auto led = std::ranges::count(all.best, true);
    if (led == 0 || led == std::ssize(all.best)) continue;  // It tells none apart.
    const detail::comparison of_these = detail::compare(select(rows, can), m);
    const bool alike = std::ranges::count(of_these.best, true) == 0;
    std::vector<std::size_t> who;
    for (std::size_t k = 0; k != can.size(); ++k) {
      if (alike || of_these.best[k]) who.push_back(can[k]);
    }
    const std::size_t taken = who.front();
    const auto name_of = [&](std::size_t i) -> std::string_view { return rows[i].front().policy; };
    std::vector<std::string> beside;
    for (const std::size_t i : who) {
      if (i != taken) beside.emplace_back(name_of(i));
    }
    const bool missed = std::ranges::any_of(rows, [](const replicates& r) { return !r.front().slo.lines.empty(); }) &&
                        std::ranges::none_of(rows, [](const replicates& r) {
                          return std::ranges::any_of(r, [](const summary& s) { return s.slo.met; });
                        });
    std::string out = fmt::format("To deploy: {}{}. It {} {} ({}{}) of the policies here that run in vLLM{}.",
                                  name_of(taken), missed ? ", though no policy here meets the objectives" : "",
                                  beside.empty() ? "has" : "shares", m.said, all.cells[taken], m.unit,
                                  beside.empty() ? "" : fmt::format(", with {}", detail::enumerate(beside)));
    std::vector<std::string> better;
    for (std::size_t i = 0; i != rows.size(); ++i) {
      if (find_deployable(name_of(i)) != nullptr) continue;
      const std::size_t pair[] = {taken, i};
      if (detail::compare(select(rows, pair), m).best != std::vector<bool>{false, true}) continue;
      better.push_back(fmt::format("{} ({}{}), {}", name_of(i), all.cells[i], m.unit,
                                   std::ranges::find(oracles, base_of(name_of(i))) != std::end(oracles)
                                       ? "an oracle"
                                       : "which runs in C++ only"));
    }
    if (!better.empty()) out += fmt::format(" Better in that: {}.", fmt::join(better, "; "));
    return out + "\n" + commands{*find_deployable(name_of(taken)), rows[taken].front(), at}.text();
  }
  return {};
}

}  // namespace sim

TESSERA_NAMESPACE_END
