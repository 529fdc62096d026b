// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/measure/promise.hpp>
#include <tessera/sim/measure/slo.hpp>
#include <tessera/sim/model/profile_file.hpp>
#include <tessera/sim/model/step_time.hpp>
#include <tessera/sim/planning/plan_layout.hpp>
#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/report/deployment.hpp>
#include <tessera/sim/report/explanation.hpp>
#include <tessera/sim/report/remarks.hpp>
#include <tessera/sim/report/report.hpp>
#include <tessera/sim/report/report_json.hpp>
#include <tessera/sim/setup/cluster_setup.hpp>
#include <tessera/sim/setup/load_source.hpp>
#include <tessera/sim/setup/setting.hpp>
#include <tessera/sim/systems/pools.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace tessera_python {
namespace {

namespace sim = tessera::sim;
namespace fleet = tessera::fleet;

using numbers = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// A column: an array that owns what it shows.
template <class T, class Range, class Of>
nb::object column(const Range& all, Of of) {
  auto* values = new std::vector<T>;
  nb::capsule owner{values, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); }};
  values->reserve(all.size());
  for (const auto& one : all) values->push_back(static_cast<T>(of(one)));
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>{values->data(), {values->size()}, owner});
}

nb::dict columns_of(const std::vector<sim::trace_row>& rows) {
  nb::dict d;
  using row = sim::trace_row;
  d["arrival_s"] = column<double>(rows, [](const row& r) { return r.arrival_s; });
  d["prompt_tokens"] = column<std::int64_t>(rows, [](const row& r) { return r.prompt_tokens; });
  d["output_tokens"] = column<std::int64_t>(rows, [](const row& r) { return r.output_tokens; });
  d["reasoning_tokens"] = column<std::int64_t>(rows, [](const row& r) { return r.reasoning_tokens; });
  d["answer_tokens"] = column<std::int64_t>(rows, [](const row& r) { return r.answer_tokens; });
  d["score"] = column<double>(rows, [](const row& r) { return r.score; });
  if (std::any_of(rows.begin(), rows.end(), [](const row& r) { return r.session >= 0; })) {
    d["session"] = column<std::int64_t>(rows, [](const row& r) { return r.session; });
    d["think_s"] = column<double>(rows, [](const row& r) { return r.think_s; });
    d["calls_tool"] = column<std::int64_t>(rows, [](const row& r) { return r.calls_tool ? 1 : 0; });
  }
  if (std::any_of(rows.begin(), rows.end(), [](const row& r) { return r.tenant >= 0; })) {
    d["tenant"] = column<std::int64_t>(rows, [](const row& r) { return r.tenant; });
  }
  if (std::any_of(rows.begin(), rows.end(), [](const row& r) { return !r.runs.empty(); })) {
    nb::list all;
    for (const row& r : rows) {
      nb::list runs;
      for (const sim::text_run& run : r.runs) runs.append(nb::make_tuple(run.id, run.tokens));
      all.append(runs);
    }
    d["runs"] = all;
  }
  return d;
}

std::int64_t whole(double x, const char* name, std::size_t i, std::int64_t least,
                   std::int64_t most = sim::max_trace_tokens) {
  if (!(x >= static_cast<double>(least)) || x > static_cast<double>(most) || x != std::floor(x)) {
    throw sim::usage_error{fmt::format("{}[{}] must be a whole number from {} to {}, not {}", name, i, least, most, x)};
  }
  return static_cast<std::int64_t>(x);
}

/// The rows that these columns are; all of one length. Arrivals must not fall. `runs`: for each row (id, tokens) pairs,
/// or nothing at all.
std::vector<sim::trace_row> rows_of(const numbers& arrival, const numbers& prompt, const numbers& output,
                                    const numbers& reasoning, const numbers& score, const numbers& session,
                                    const numbers& think, const numbers& tool, const numbers& tenant,
                                    const nb::list& runs) {
  const std::size_t n = arrival.shape(0);
  for (const numbers* other : {&prompt, &output, &reasoning, &score, &session, &think, &tool, &tenant}) {
    if (other->shape(0) != n) throw sim::usage_error{"the columns of a workload must have one length"};
  }
  if (runs.size() != 0 && runs.size() != n) throw sim::usage_error{"the columns of a workload must have one length"};
  if (n == 0 || n > sim::max_trace_rows) {
    throw sim::usage_error{fmt::format("a workload has from 1 to {} requests, not {}", sim::max_trace_rows, n)};
  }
  std::vector<sim::trace_row> rows(n);
  for (std::size_t i = 0; i != n; ++i) {
    sim::trace_row& r = rows[i];
    r.arrival_s = arrival.data()[i];
    if (!std::isfinite(r.arrival_s) || r.arrival_s < (i == 0 ? 0 : rows[i - 1].arrival_s)) {
      throw sim::usage_error{
          fmt::format("arrival_s[{}] must be a number not below the one before it, and not below 0; "
                      "it is {}",
                      i, r.arrival_s)};
    }
    r.prompt_tokens = whole(prompt.data()[i], "prompt_tokens", i, 1);
    r.output_tokens = whole(output.data()[i], "output_tokens", i, 1);
    r.reasoning_tokens = whole(reasoning.data()[i], "reasoning_tokens", i, 0);
    if (r.reasoning_tokens > r.output_tokens) {
      throw sim::usage_error{fmt::format("reasoning_tokens[{}] must not be more than output_tokens", i)};
    }
    r.answer_tokens = r.output_tokens - r.reasoning_tokens;
    r.score = static_cast<float>(score.data()[i]);
    if (session.data()[i] != -1) r.session = whole(session.data()[i], "session", i, 0);
    r.think_s = think.data()[i];
    if (!(r.think_s >= 0) || r.think_s > sim::max_trace_seconds) {
      throw sim::usage_error{fmt::format("think_s[{}] must be a number of seconds from 0, not {}", i, r.think_s)};
    }
    r.calls_tool = whole(tool.data()[i], "calls_tool", i, 0, 1) != 0;
    if (tenant.data()[i] != -1) {
      r.tenant = static_cast<std::int32_t>(whole(tenant.data()[i], "tenant", i, 0, sim::max_tenants - 1));
    }
    if (runs.size() == 0) continue;
    for (const nb::handle pair : nb::list(runs[i])) {
      std::pair<std::uint64_t, std::int64_t> run{};
      const bool is_pair = nb::try_cast(pair, run);
      const auto [id, length] = run;
      if (!is_pair || length < 1 || length > sim::max_trace_tokens || id >> 63U != 0) {
        throw sim::usage_error{fmt::format("runs[{}] must be pairs of a number below 2^63 and a number of tokens", i)};
      }
      r.runs.push_back({id, length});
    }
  }
  return rows;
}

std::int64_t not_negative(std::int64_t n, const char* name) {
  return sim::require_within(n, 0, std::numeric_limits<std::int64_t>::max(), name);
}

nb::dict result_of(const sim::run_result& run) {
  nb::dict d;
  d["summary"] = sim::to_json(run.numbers).dump();
  nb::dict requests;
  using record = sim::request_record;
  const auto& all = run.requests;
  const auto number = [&](const char* name, auto of) { requests[name] = column<double>(all, of); };
  const auto count = [&](const char* name, auto of) { requests[name] = column<std::int64_t>(all, of); };
  count("id", [](const record& r) { return r.id; });
  count("instance", [](const record& r) { return r.instance; });
  count("preemptions", [](const record& r) { return r.preemptions; });
  count("migrations", [](const record& r) { return r.migrations; });
  count("cached_tokens", [](const record& r) { return r.cached_tokens; });
  count("rejected", [](const record& r) { return r.rejected; });
  count("prompt_tokens", [](const record& r) { return r.prompt_tokens; });
  count("reasoning_tokens", [](const record& r) { return r.reasoning_tokens; });
  count("answer_tokens", [](const record& r) { return r.answer_tokens; });
  number("arrival", [](const record& r) { return r.arrival; });
  number("first_scheduled", [](const record& r) { return r.first_scheduled; });
  number("first_token", [](const record& r) { return r.first_token; });
  number("phase_change", [](const record& r) { return r.phase_change; });
  number("first_answer", [](const record& r) { return r.first_answer; });
  number("finish", [](const record& r) { return r.finish; });
  number("executed", [](const record& r) { return r.executed; });
  number("blocked", [](const record& r) { return r.blocked; });
  number("preempted", [](const record& r) { return r.preempted; });
  number("qoe", [](const record& r) { return r.qoe; });
  number("ttft", [](const record& r) { return r.ttft(); });
  number("tpot", [](const record& r) { return r.tpot(); });
  number("e2e", [](const record& r) { return r.e2e(); });
  number("normalized_latency", [](const record& r) { return r.normalized_latency(); });
  d["requests"] = requests;
  nb::dict timeline;
  using point = sim::timeline_point;
  timeline["time"] = column<double>(run.timeline, [](const point& p) { return p.time; });
  timeline["running"] = column<double>(run.timeline, [](const point& p) { return p.running; });
  timeline["waiting"] = column<double>(run.timeline, [](const point& p) { return p.waiting; });
  timeline["kv_used"] = column<double>(run.timeline, [](const point& p) { return p.kv_used; });
  timeline["live"] = column<double>(run.timeline, [](const point& p) { return p.live; });
  d["timeline"] = timeline;
  nb::dict instances;
  using facts = sim::instance_facts;
  instances["busy_s"] = column<double>(run.instances, [](const facts& f) { return f.busy_s; });
  instances["computed_tokens"] = column<std::int64_t>(run.instances, [](const facts& f) { return f.computed_tokens; });
  instances["output_tokens"] = column<std::int64_t>(run.instances, [](const facts& f) { return f.output_tokens; });
  d["instances"] = instances;
  return d;
}

/// The policy of that name. @param threshold of `pars`, which keeps its name.
sim::policy find_policy(const std::string& name, std::optional<double> threshold) {
  if (name.find(',') != name.npos) throw sim::usage_error{"one policy at a time"};
  const sim::policy chosen = sim::select_policies(sim::published_policies(), name).front();
  if (!threshold) return chosen;
  for (const sim::policy_parameter& p : chosen.parameters) {
    if (p.name == "threshold") return p.with(chosen.name, *threshold);
  }
  throw sim::usage_error{fmt::format("the policy {} has no threshold", name)};
}

/// What a table and its remarks are made of: a run of one policy.
struct reported_run {
  sim::summary numbers;
  sim::policy policy;
  sim::simulated_cluster at;
  std::string of_load;  ///< Remarks on the load: see `sim::describe_load`.
};

/// What the tool `replay` prints of these runs of one load on one cluster.
std::string report_of(const std::vector<const reported_run*>& runs) {
  if (runs.empty()) throw sim::usage_error{"a report is of at least one run"};
  std::vector<sim::replicates> rows;
  std::vector<sim::policy> policies;
  for (const reported_run* r : runs) {
    rows.push_back({r->numbers});
    policies.push_back(r->policy);
  }
  const reported_run& first = *runs.front();
  const std::string remarks = sim::format_verdict(rows) + sim::format_remarks(rows) +
                              sim::format_deployment(rows, first.at) +
                              sim::name_unplanned(policies, {}, !first.numbers.slo.lines.empty()) + first.of_load;
  return sim::format_table(rows) + (remarks.empty() ? "" : "\n") + remarks;
}

/// A placement that is a Python function. Nothing is thrown through a run that is under way: it goes on without asking
/// again, and what was thrown is in `failure`.
auto called(const nb::object& place, std::exception_ptr& failure) {
  return [&place, &failure](const tessera::fleet::candidates<>& views, double /*others*/) -> std::size_t {
    if (failure) return 0;
    const nb::gil_scoped_acquire held;
    try {
      nb::list shown;
      for (std::size_t i = 0; i != views.size(); ++i) {
        const sim::instance_view& v = views[i];
        shown.append(nb::make_tuple(v.id, v.requests, v.kv_held.count(), v.free_blocks.count()));
      }
      const auto index = nb::cast<std::int64_t>(place(shown));
      if (index >= 0 && static_cast<std::size_t>(index) < views.size()) return static_cast<std::size_t>(index);
      throw sim::usage_error{
          fmt::format("a placement must give the index of one of {} instances, not {}", views.size(), index)};
    } catch (...) {
      failure = std::current_exception();
      return 0;
    }
  };
}

/// What each request is promised, in seconds.
sim::promise promise_of(std::optional<double> ttft, std::optional<double> tpot) {
  sim::promise all;
  for (const auto& [promised, name, into] :
       {std::tuple{ttft, "ttft", &all.ttft_s}, std::tuple{tpot, "tpot", &all.tpot_s}}) {
    if (!promised) continue;
    if (!(*promised > 0 && *promised <= 1e9)) {
      throw sim::usage_error{fmt::format("{} must be a number of seconds above 0, not {}", name, *promised)};
    }
    *into = *promised;
  }
  return all;
}

nb::dict replay(const std::string& policy, const numbers& arrival, const numbers& prompt, const numbers& output,
                const numbers& reasoning, const numbers& score, const numbers& session, const numbers& think,
                const numbers& tool, const numbers& tenant, const nb::list& runs, bool prefix_cache,
                const std::string& profile, std::int64_t instances, std::optional<std::int64_t> kv_blocks,
                std::int64_t block_size, std::int64_t max_batch, std::int64_t token_budget, std::int64_t in_flight,
                std::optional<double> threshold, nb::object place, std::optional<std::int64_t> routers, double report_s,
                std::optional<double> ttft, std::optional<double> tpot, const std::string& slo,
                const std::optional<std::string>& explain) {
  const std::vector<sim::trace_row> rows =
      rows_of(arrival, prompt, output, reasoning, score, session, think, tool, tenant, runs);
  sim::setting asked{
      .how = sim::spelling::names,
      .instances = fmt::format("{}", instances),
      .profile = profile,
      .size = {.kv_blocks = kv_blocks, .block_size = block_size, .max_batch = max_batch, .token_budget = token_budget},
      .prefix_cache = prefix_cache,
      .slo = slo};
  if (routers) {
    asked.routers = *routers;
    asked.report_interval = report_s;
  }
  if (!slo.empty() && (ttft || tpot)) {
    throw sim::usage_error{"slo and ttft or tpot exclude each other: both set objectives"};
  }
  const std::vector<sim::slo_bound> bounds = slo.empty() ? std::vector<sim::slo_bound>{} : sim::parse_slo(slo);
  const std::vector<sim::machines> cluster = sim::machines_of(asked);
  sim::cluster_options options = sim::size_cluster(asked, cluster, rows, 1);
  options.in_flight = static_cast<std::size_t>(sim::require_within(in_flight, 0, 1 << 24, "in_flight"));
  sim::require_memory(options, rows.size(), 1, 1, asked.how);
  if (slo.empty()) options.promised = promise_of(ttft, tpot);
  const sim::policy chosen = find_policy(policy, threshold);
  std::exception_ptr failure;
  if (!place.is_none()) {
    if (!chosen.placement.empty()) {
      throw sim::usage_error{fmt::format("placement is part of what {} is; it cannot be chosen", policy)};
    }
    if (nb::isinstance<nb::str>(place)) {
      options.placement = sim::find_placement(nb::cast<std::string>(place));
    } else {
      options.placement = {
          .name = "own", .summary = {}, .make = [&](const sim::router_seat&) { return called(place, failure); }};
    }
  }
  sim::require_suitable(chosen, options, rows, "the workload");
  // What a report reads of the cluster is no function of Python's.
  sim::simulated_cluster at{.options = options, .size = asked.size, .profile = cluster.front().named, .pools = {}};
  at.options.placement.reset();
  std::optional<sim::explanation> told;
  if (explain) {
    const sim::question wanted = sim::parse_question(*explain);
    sim::require_request(wanted, rows.size());
    told.emplace(wanted);
    options.watcher = &*told;
  }
  sim::run_result result;
  {
    const nb::gil_scoped_release others_may_run;
    result = chosen.run(options, rows, [](std::size_t /*done*/) {});
  }
  if (failure) std::rethrow_exception(failure);
  if (!bounds.empty()) result.numbers.slo = sim::evaluate_slo(bounds, result.requests, result.window);
  nb::dict out = result_of(result);
  const bool has_sessions =
      std::any_of(rows.begin(), rows.end(), [](const sim::trace_row& r) { return r.session >= 0; });
  out["reported"] = reported_run{.numbers = result.numbers,
                                 .policy = chosen,
                                 .at = std::move(at),
                                 .of_load = sim::describe_load(cluster, options, rows, bounds, !has_sessions)};
  if (told) {
    told->finish(result);
    if (told->is_outside()) {
      const auto [from, to] = told->range();
      throw sim::usage_error{
          fmt::format("nothing happens at that time: the run is from {:.3f} s to {:.3f} s", from, to)};
    }
    out["explained"] = told->json().dump();
    out["timeline_text"] = told->text();
  }
  return out;
}

/// What work costs on a profile, in seconds, as `fleet::headroom_book` takes it. A step that decodes is linear between
/// one request and 128 of them, with 1,000 and 2,000 tokens each.
nb::dict router_costs(const std::string& profile, std::optional<double> ttft) {
  const sim::step_timer timer{sim::find_profile(profile)};
  const double aimed = sim::ttft_target(promise_of(ttft, {})).seconds();
  const sim::prefill_model prompts = sim::calibrate_prefill(timer, sim::default_ttft_target);
  const auto step_s = [&timer](std::int64_t requests, std::int64_t length) {
    return timer({.decodes = requests, .decode_context = requests * length, .longest_context = length});
  };
  constexpr std::int64_t many = 128;
  constexpr std::int64_t usual = 1000;
  const double token_s = std::max(0.0, (step_s(many, 2 * usual) - step_s(many, usual)) / (many * usual));
  const double request_s = std::max(0.0, (step_s(many, usual) - step_s(1, usual)) / (many - 1) - token_s * usual);
  const double fixed_s = std::max(0.0, step_s(1, usual) - request_s - token_s * usual);
  nb::dict d;
  d["prompt_cost"] =
      nb::make_tuple(prompts.cost.alpha / prompts.budget.peak_flops, prompts.cost.beta / prompts.budget.peak_flops);
  d["decode_cost"] = nb::make_tuple(fixed_s, request_s, token_s);
  d["ttft"] = std::min(aimed, sim::default_ttft_target.seconds());
  return d;
}

/// Plans for a fleet, one after the other: a sample of traffic in, what each replica is to do out.
class layout_planner {
 public:
  layout_planner(const std::string& profile, std::optional<std::int64_t> kv_blocks, std::int64_t block_size,
                 std::int64_t max_batch, std::int64_t token_budget, std::optional<double> ttft,
                 std::optional<double> tpot, bool pools)
      : asked_{.how = sim::spelling::names,
               .profile = profile,
               .size = {.kv_blocks = kv_blocks,
                        .block_size = block_size,
                        .max_batch = max_batch,
                        .token_budget = token_budget}},
        promised_{promise_of(ttft, tpot)},
        pools_{pools} {
    const sim::trace_row least{.prompt_tokens = 1, .output_tokens = 1};
    static_cast<void>(fleet_of({&least, 1}, 1, false));  // What is wrong is said here.
  }

  nb::list operator()(const nb::dict& sample, std::int64_t instances, bool prefixes) {
    std::vector<fleet::seen_request> requests = requests_of(nb::cast<nb::list>(sample["requests"]));
    std::vector<sim::trace_row> rows;
    for (const fleet::seen_request& r : requests) {
      rows.push_back(
          {.prompt_tokens = r.prompt.count(), .output_tokens = std::max<std::int64_t>(1, r.generated.count())});
    }
    const fleet::traffic_sample seen{.requests = requests,
                                     .rate = nb::cast<double>(sample["rate"]),
                                     .lately = nb::cast<double>(sample["lately"]),
                                     .here = nb::cast<std::size_t>(sample["here"]),
                                     .held = nb::cast<bool>(sample["held"]),
                                     .behind = nb::cast<bool>(sample["behind"])};
    sim::fleet_to_plan f = fleet_of(rows, instances, prefixes);
    if (plans_ && plans_->fleet().options.instances == f.options.instances) {
      plans_->plan_for(std::move(f));
    } else {
      plans_.emplace(std::move(f));
    }
    std::vector<fleet::assignment> all;
    {
      const nb::gil_scoped_release others_may_run;
      all = (*plans_)(seen);
    }
    nb::list out;
    for (const fleet::assignment& a : all) {
      out.append(nb::make_tuple(role_name(a.role), a.from.count(),
                                a.to == fleet::endless ? nb::object{nb::none()} : nb::object{nb::int_(a.to.count())},
                                a.prefill_budget.count()));
    }
    return out;
  }
  [[nodiscard]] std::string layout() const {
    return std::string{sim::to_string(plans_ ? plans_->present().kind : sim::layout_kind::colocated)};
  }
  [[nodiscard]] std::string why() const { return plans_ ? plans_->present().why : std::string{}; }

 private:
  static const char* role_name(tessera::control::role r) { return tessera::control::to_string(r); }
  static std::vector<fleet::seen_request> requests_of(const nb::list& given) {
    using one = std::tuple<double, double, double, double, double, float, std::int32_t, bool, bool, bool>;
    std::vector<fleet::seen_request> all;
    for (const nb::handle h : given) {
      const auto [arrival_s, prompt, generated, reasoning, limit, score, tenant, ended, refused, reasons] =
          nb::cast<one>(h);
      const std::size_t i = all.size();
      if (!std::isfinite(arrival_s) || arrival_s < (i == 0 ? 0 : all[i - 1].arrival_s)) {
        throw sim::usage_error{fmt::format("requests[{}] must arrive at a moment not before the one before it", i)};
      }
      all.push_back({.arrival_s = arrival_s,
                     .prompt = tessera::tokens{std::max<std::int64_t>(1, whole(prompt, "prompt", i, 0))},
                     .generated = tessera::tokens{whole(generated, "generated", i, 0)},
                     .reasoning = tessera::tokens{whole(reasoning, "reasoning", i, 0)},
                     .limit = tessera::tokens{whole(std::min(limit, double{sim::max_trace_tokens}), "limit", i, 0)},
                     .score = score,
                     .tenant = tenant,
                     .ended = ended,
                     .refused = refused,
                     .reasons = reasons});
    }
    if (all.empty()) throw sim::usage_error{"a plan is made from requests, and the sample has none"};
    return all;
  }
  [[nodiscard]] sim::fleet_to_plan fleet_of(std::span<const sim::trace_row> rows, std::int64_t instances,
                                            bool prefixes) const {
    sim::setting asked = asked_;
    asked.instances = fmt::format("{}", instances);
    sim::fleet_to_plan f{.options = sim::size_cluster(asked, sim::machines_of(asked), rows, 1), .shares = prefixes};
    f.options.promised = promised_;
    // What a request that runs will come to is not known.
    tessera::scheduler_limits& l = f.options.instance.limits;
    l.max_length = l.block_size * static_cast<std::int64_t>(l.blocks);
    f.config.pools = pools_;
    return f;
  }

  sim::setting asked_;
  sim::promise promised_;
  bool pools_;
  std::optional<sim::layout_planner> plans_{};
};

}  // namespace
}  // namespace tessera_python

NB_MODULE(_sim, m) {
  using namespace tessera_python;
  m.doc() = "The simulator of tessera.sim; use that.";
  nb::register_exception_translator([](const std::exception_ptr& p, void* /*unused*/) {
    try {
      std::rethrow_exception(p);
    } catch (const sim::error& wrong) {
      PyErr_SetString(PyExc_ValueError, wrong.what());
    }
  });
  m.def("policies", [] {
    nb::list all;
    for (const sim::policy& p : sim::published_policies()) {
      all.append(nb::make_tuple(p.name, p.summary, p.needs_scores, p.least_instances));
    }
    return all;
  });
  m.def("workloads", [] {
    nb::list all;
    for (const sim::workload& w : sim::workloads()) {
      all.append(nb::make_tuple(std::string{w.name}, std::string{w.summary}, std::string{w.source}, w.rate));
    }
    return all;
  });
  m.def("profiles", [] {
    nb::list all;
    for (const sim::profile& p : sim::profiles()) all.append(nb::make_tuple(p.name, sim::to_json(p)));
    return all;
  });
  m.def(
      "profile_json", [](const std::string& name) { return sim::to_json(sim::find_profile(name)); }, nb::arg("name"));
  m.def(
      "generate",
      [](const std::string& name, std::int64_t requests, std::optional<double> rate, std::int64_t seed) {
        const sim::setting asked{.how = sim::spelling::names,
                                 .workload = name,
                                 .rate = rate,
                                 .requests = requests,
                                 .seed = not_negative(seed, "seed")};
        return columns_of(sim::load_source{asked}.rows(asked, static_cast<std::uint64_t>(seed)));
      },
      nb::arg("workload"), nb::arg("requests"), nb::arg("rate").none(), nb::arg("seed"));
  m.def(
      "read_trace",
      [](const std::string& path, const std::optional<nb::bytes>& text, std::optional<double> rate, double rate_scale,
         std::int64_t requests, std::int64_t seed, std::optional<std::int64_t> hash_tokens, const std::string& unit,
         std::int64_t run) {
        sim::setting asked{.how = sim::spelling::names,
                           .trace = path,
                           .seed = not_negative(seed, "seed"),
                           .hash_tokens = hash_tokens,
                           .time_unit = unit};
        if (rate) {
          asked.rate = *rate * rate_scale;
        } else if (rate_scale != 1) {
          asked.rate_scale = rate_scale;
        }
        if (requests != 0) asked.requests = requests;
        if (run != 0) asked.run = run;
        const sim::load_source source{asked, [&](const std::string& file, const sim::trace_options& options) {
                                        return text ? sim::parse_trace({text->c_str(), text->size()}, file, options)
                                                    : sim::read_trace(file, options);
                                      }};
        nb::list remarks;
        for (const std::string& line : sim::remarks(source.read())) remarks.append(line);
        return nb::make_tuple(columns_of(source.rows(asked, static_cast<std::uint64_t>(seed))), remarks);
      },
      nb::arg("path"), nb::arg("text").none(), nb::arg("rate").none(), nb::arg("rate_scale"), nb::arg("requests"),
      nb::arg("seed"), nb::arg("hash_tokens").none(), nb::arg("time_unit"), nb::arg("run"));
  m.def("router_costs", &router_costs, nb::arg("profile"), nb::arg("ttft").none());
  nb::class_<layout_planner>(m, "LayoutPlanner", "Plans for a fleet, from samples of its traffic.")
      .def(nb::init<const std::string&, std::optional<std::int64_t>, std::int64_t, std::int64_t, std::int64_t,
                    std::optional<double>, std::optional<double>, bool>(),
           nb::kw_only(), nb::arg("profile"), nb::arg("kv_blocks").none(), nb::arg("block_size"), nb::arg("max_batch"),
           nb::arg("token_budget"), nb::arg("ttft").none(), nb::arg("tpot").none(), nb::arg("pools"))
      .def("__call__", &layout_planner::operator(), nb::arg("sample"), nb::arg("replicas"), nb::arg("prefixes"))
      .def_prop_ro("layout", &layout_planner::layout)
      .def_prop_ro("why", &layout_planner::why);
  m.def("replay", &replay, nb::arg("policy"), nb::arg("arrival_s"), nb::arg("prompt_tokens"), nb::arg("output_tokens"),
        nb::arg("reasoning_tokens"), nb::arg("score"), nb::arg("session"), nb::arg("think_s"), nb::arg("calls_tool"),
        nb::arg("tenant"), nb::arg("runs"), nb::arg("prefix_cache"), nb::arg("profile"), nb::arg("instances"),
        nb::arg("kv_blocks").none(), nb::arg("block_size"), nb::arg("max_batch"), nb::arg("token_budget"),
        nb::arg("in_flight"), nb::arg("threshold").none(), nb::arg("place").none(), nb::arg("routers").none(),
        nb::arg("report_s"), nb::arg("ttft").none(), nb::arg("tpot").none(), nb::arg("slo"), nb::arg("explain").none());
  nb::class_<reported_run>(m, "ReportedRun", "What a report reads of a run.");
  m.def("report", &report_of, nb::arg("runs"));
  m.def("select_policies", [](const std::string& names) {
    nb::list all;
    for (const sim::policy& p : sim::select_policies(sim::published_policies(), names)) all.append(p.name);
    return all;
  });
}
