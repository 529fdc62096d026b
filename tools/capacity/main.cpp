// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How many instances does each policy need, or how much load do so many carry?
//
//     capacity --trace my.csv --slo ttft_p99=2,tpot_p99=0.05 --price-per-hour 2.5
//     capacity --workload azure-conv --slo ttft_p99=2 --find rate --instances 8
#include "../replay/setting.hpp"
#include "../tool.hpp"

#include <tessera/sim/policies/capacity.hpp>
#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/report/progress.hpp>
#include <tessera/sim/report/replicates.hpp>
#include <tessera/sim/report/report.hpp>
#include <tessera/sim/report/report_json.hpp>
#include <tessera/sim/report/slo.hpp>
#include <tessera/sim/report/tidy_csv.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

namespace sim = tessera::sim;
using nlohmann::ordered_json;

/// Those that a service would choose among: neither oracles nor those that need a predictor of lengths.
constexpr std::string_view usual_policies =
    "fcfs,rr,pascal,pascal-paced,sarathi,llumnix,cascade-steady,due-first,distserve,splitwise,phasor";

struct arguments {
  replay::setting setting;
  std::string policies{usual_policies};
  std::string find = "instances";
  std::int64_t instances_max = 64;
  std::optional<std::int64_t> instances;
  std::optional<double> price;
  std::optional<double> price_per_gpu;
  std::int64_t seeds = 1;
  std::optional<std::int64_t> jobs;
  std::string json;
  std::string csv;
};

/// Divisions of a policy with pools that are tried with the whole workload.
constexpr std::size_t divisions_tried = 2;
constexpr std::int64_t most_asked = 4096;
constexpr std::int64_t most_seeds = 100;

/// How many times as fast the rows may arrive until none is left between the warm-up and the drain; above 1 if one is
/// left as they are.
double most_hurried(const replay::setting& a, const std::vector<sim::trace_row>& rows) {
  double most = 0;
  for (const sim::trace_row& r : rows) {
    const auto until = [](double seconds, double left_out) {
      return left_out > 0 ? seconds / left_out : std::numeric_limits<double>::infinity();
    };
    most = std::max(most, std::min(until(r.arrival_s - rows.front().arrival_s, a.warmup),
                                   until(rows.back().arrival_s - r.arrival_s, a.drain)));
  }
  return std::max(1.0, most * (1 - 1e-6));  // not to a rounding
}

/// Who runs what, for a line now and then.
class watch {
 public:
  watch(const std::vector<sim::policy>& policies, std::mutex& one_at_a_time)
      : policies_{policies}, one_at_a_time_{one_at_a_time}, bar_{"capacity", static_cast<double>(policies.size())} {}

  /// A run begins, of policy `p`. @return its number.
  std::size_t begin(std::size_t p, std::size_t instances, std::size_t requests) {
    const std::lock_guard<std::mutex> one{one_at_a_time_};
    instances_.push_back(instances);
    const std::size_t run = pace_.add(p, static_cast<double>(requests));
    pace_.begin(run, bar_.seconds());
    return run;
  }
  /// So many of its requests have ended.
  void update(std::size_t run, std::size_t done) {
    const std::lock_guard<std::mutex> one{one_at_a_time_};
    pace_.update(run, static_cast<double>(done));
    show();
  }
  /// It has ended.
  void end(std::size_t run) {
    const std::lock_guard<std::mutex> one{one_at_a_time_};
    pace_.end(run, bar_.seconds());
  }
  /// So many policies are done. Its caller holds the lock.
  void finished(std::size_t policies) {
    done_ = policies;
    show();
  }
  /// Its caller holds the lock.
  void clear() noexcept { bar_.clear(); }

 private:
  void show() {
    const double now = bar_.seconds();
    bar_.update(static_cast<double>(done_), now, [&] {
      sim::progress_bar::words w;
      const auto slow = pace_.slowest(now);
      if (!slow) return w;
      w.note = fmt::format("{} with {} instance{} {:.0f} %", policies_[slow->kind].name, instances_[slow->run],
                           instances_[slow->run] == 1 ? "" : "s", 100 * slow->part);
      if (std::isnan(slow->left_s)) return w;
      w.note += fmt::format(", {} left", sim::describe_seconds(slow->left_s));
      // As long as the others took, and no less than what runs.
      if (done_ != 0) {
        const auto done = static_cast<double>(done_);
        w.left_s = std::max(slow->left_s, now / done * (static_cast<double>(policies_.size()) - done));
      }
      return w;
    });
  }

  const std::vector<sim::policy>& policies_;
  std::mutex& one_at_a_time_;
  sim::progress_bar bar_;
  sim::run_pace pace_;
  std::vector<std::size_t> instances_;  // by run
  std::size_t done_ = 0;
};

/// The runs of one policy, of any size and load.
class laboratory {
 public:
  /// @param rows of each seed.
  laboratory(const arguments& a, const std::vector<sim::policy>& policies, std::size_t policy,
             const std::vector<std::vector<sim::trace_row>>& rows, const sim::profile& profile,
             const std::vector<sim::slo_bound>& slo, tool::signal_guard& signals, watch& watched)
      : arguments_{a},
        number_{policy},
        policy_{policies[policy]},
        rows_{rows},
        profile_{profile},
        slo_{slo},
        signals_{signals},
        watched_{watched} {
    const std::vector<sim::trace_row>& first = rows.front();
    trial_.assign(first.begin(),
                  first.begin() + static_cast<std::ptrdiff_t>(std::min(first.size(), replay::trial_requests)));
  }

  /// The workload on so many instances, at so many times its rate: the run of the seed that comes off worst. It meets
  /// the objectives if those of all seeds do.
  [[nodiscard]] sim::capacity_trial run(std::size_t instances, double factor) const {
    sim::capacity_trial worst = run_first(instances, factor);
    for (std::size_t s = 1; s != rows_.size() && worst.meets(); ++s) {
      const std::vector<sim::trace_row> hurried = sim::hurried(rows_[s], factor);
      sim::cluster_options options =
          replay::size_cluster(arguments_.setting, {{instances, profile_}}, hurried, seed() + s);
      options.pools = worst.pools;
      sim::capacity_trial t{instances, factor, worst.pools, simulate(options, hurried)};
      if (!t.meets() || sim::strain(t.numbers.slo) > sim::strain(worst.numbers.slo)) worst = std::move(t);
    }
    return worst;
  }

 private:
  /// That of the first seed; of a policy with pools, on the best division found.
  [[nodiscard]] sim::capacity_trial run_first(std::size_t instances, double factor) const {
    const std::vector<sim::trace_row> hurried = sim::hurried(rows_.front(), factor);
    sim::cluster_options options = replay::size_cluster(arguments_.setting, {{instances, profile_}}, hurried, seed());
    if (policy_.pools == 0) return {instances, factor, std::nullopt, simulate(options, hurried)};
    sim::cluster_options small = options;
    small.warmup_s = small.drain_s = 0;
    small.faults.clear();
    const std::vector<sim::trace_row> beginning = sim::hurried(trial_, factor);
    const auto likely =
        sim::likely_divisions(instances, policy_.pools == 3, divisions_tried, [&](const sim::pool_sizes& sizes) {
          small.pools = sizes;
          return simulate(small, beginning);
        });
    std::optional<sim::capacity_trial> best;
    for (const sim::pool_sizes& sizes : likely) {
      options.pools = sizes;
      sim::capacity_trial t{instances, factor, sizes, simulate(options, hurried)};
      if (!best || t.meets() || sim::strain(t.numbers.slo) < sim::strain(best->numbers.slo)) best = std::move(t);
      if (best->meets()) break;
    }
    return *best;
  }

  [[nodiscard]] std::uint64_t seed() const noexcept { return static_cast<std::uint64_t>(arguments_.setting.seed); }

  [[nodiscard]] sim::summary simulate(const sim::cluster_options& options,
                                      const std::vector<sim::trace_row>& rows) const {
    const std::size_t run = watched_.begin(number_, options.instances, rows.size());
    std::size_t told = 0;
    sim::run_result r = policy_.run(options, rows, [&](std::size_t done) {
      signals_.check();
      if (done - told < 256) return;  // now and then: others draw, too
      watched_.update(run, told = done);
    });
    watched_.end(run);
    r.numbers.slo = sim::evaluate_slo(slo_, r.requests, r.window);
    r.numbers.ttft_in_fault = sim::describe_in_fault(replay::fault_times(options.faults), r.requests, r.window);
    return std::move(r.numbers);
  }

  const arguments& arguments_;
  std::size_t number_;
  const sim::policy& policy_;
  const std::vector<std::vector<sim::trace_row>>& rows_;
  const sim::profile& profile_;
  const std::vector<sim::slo_bound>& slo_;
  tool::signal_guard& signals_;
  watch& watched_;
  std::vector<sim::trace_row> trial_;
};

/// A policy and what was found for it.
struct answer {
  const sim::policy* policy = nullptr;
  sim::capacity found;
  bool done = false;
};

/// What an hour of the cluster costs, by the tokens that it makes in an hour.
struct prices {
  double per_output = sim::never;  ///< Of a million output tokens.
  double per_token = sim::never;   ///< Of a million tokens, prompts among them.
};

struct question {
  const arguments& a;
  const replay::row_source& source;
  std::vector<std::vector<sim::trace_row>> rows;  ///< Of each seed.
  sim::profile profile;
  std::vector<sim::slo_bound> slo;
  double rate = 0;         ///< Requests per second.
  double output_rate = 0;  ///< Output tokens per second.
  double token_rate = 0;   ///< Tokens per second.
  bool of_rate = false;    ///< Which question it is.
  std::string idle{};      ///< Which objectives an idle instance misses.

  /// Requests per second in a trial; of sessions as it went, for their later turns wait for answers.
  [[nodiscard]] double rate_of(const sim::capacity_trial& t) const {
    return source.has_sessions() ? replay::arrivals_of(t.numbers) : rate * t.factor;
  }
  [[nodiscard]] prices price_of(const sim::capacity_trial& t) const {
    if (!a.price) return {};
    const double an_hour = *a.price * static_cast<double>(t.instances);
    const double as_asked = rate_of(t) / rate;
    return {an_hour / (output_rate * as_asked * 3600 / 1e6), an_hour / (token_rate * as_asked * 3600 / 1e6)};
  }
  [[nodiscard]] std::string name_of(const sim::capacity_trial& t) const {
    return of_rate ? fmt::format("{:.4g} requests per second", rate_of(t))
                   : fmt::format("{} instance{}", t.instances, t.instances == 1 ? "" : "s");
  }
  /// As above; where a higher rate was not looked for, it says so.
  [[nodiscard]] std::string name_of(const sim::capacity& found) const {
    const bool at_the_end = of_rate && !found.beyond;
    return fmt::format("{}{}", at_the_end ? "at least " : "", name_of(*found.best));
  }
};

/// A profile by name, and how many devices an instance of it has.
std::string say_instance(const sim::profile& p) {
  const double devices = p.parallel.devices();
  return p.name + (devices > 1 ? fmt::format(" of {:g} devices", devices) : std::string{});
}

std::string division_of(const sim::capacity_trial& t) {
  if (!t.pools) return "colocated";
  const sim::pool_sizes& p = *t.pools;
  return p.mixed == 0 ? fmt::format("split {}/{}", p.prefill, p.decode)
                      : fmt::format("split {}/{}/{}", p.prefill, p.decode, p.mixed);
}

std::string format_answers(const question& q, const std::vector<answer>& answers) {
  std::size_t name = 6;
  std::size_t place = 9;
  std::size_t division = 9;
  for (const answer& x : answers) {
    if (!x.done) continue;
    name = std::max(name, x.policy->name.size());
    for (const auto* t : {&x.found.best, &x.found.beyond}) {
      if (!*t) continue;
      place = std::max(place, (*t)->numbers.placement.size());
      division = std::max(division, division_of(**t).size());
    }
  }
  // Beside the two tails, what else is asked for, and what a fault costs.
  std::vector<sim::slo_bound> asked;
  std::string more;
  for (const sim::slo_bound& b : q.slo) {
    const bool shown = b.part == 0.99 && (b.metric == sim::slo_metric::ttft || b.metric == sim::slo_metric::tpot);
    if (shown) continue;
    asked.push_back(b);
    more += "  " + to_string(b);
  }
  const bool faults = !q.a.setting.faults.empty() || q.a.setting.mtbf;
  if (faults) more += "  TTFT p99 in faults";
  std::string out = fmt::format("{:{}}  {:{}}  {:{}}  {:>9}  {:>7}  {:>8}  {:>8}{}  {:>7}  {:>7}{}\n", "policy", name,
                                "placement", place, "how", division, "instances", "per s", "TTFT p99", "TPOT p99", more,
                                "goodput", "tok/s", q.a.price ? fmt::format("  {:>8}", "per Mtok") : "");
  for (const answer& x : answers) {
    if (!x.done) continue;
    if (!x.found.best) {
      out += fmt::format("{:{}}  none\n", x.policy->name, name);
      continue;
    }
    const sim::capacity_trial& t = *x.found.best;
    const sim::summary& s = t.numbers;
    const auto number = [](double value, int digits) {
      return std::isnan(value) ? std::string{"-"} : fmt::format("{:.{}f}", value, digits);
    };
    std::string besides;
    for (const sim::slo_bound& b : asked) {
      const auto line = std::find_if(s.slo.lines.begin(), s.slo.lines.end(),
                                     [&](const sim::slo_report::line& l) { return l.bound.metric == b.metric; });
      besides += fmt::format("  {:>{}}", number(line->value, sim::detail::digits_of(b.metric)), to_string(b).size());
    }
    if (faults) besides += fmt::format("  {:>18}", number(s.ttft_in_fault.p99, 3));
    out += fmt::format("{:{}}  {:{}}  {:{}}  {:>9}  {:>7}  {:>8}  {:>8}{}  {:>7}  {:>7}{}\n", x.policy->name, name,
                       s.placement, place, division_of(t), division, t.instances, number(q.rate_of(t), 2),
                       number(s.ttft.p99, 3), number(s.tpot.p99, 4), besides, number(s.slo.goodput_requests_per_s, 2),
                       number(s.window_tokens_per_s, 0),
                       q.a.price ? fmt::format("  {:>8}", number(q.price_of(t).per_output, 3)) : "");
  }
  return out;
}

/// A sentence for each policy: what it needs, and why less does not do.
std::string describe_answers(const question& q, const std::vector<answer>& answers) {
  std::string out;
  for (const answer& x : answers) {
    if (!x.done) continue;
    const auto& [best, beyond, runs] = x.found;
    if (!best) {
      out += fmt::format("{}: none of those tried meets the objectives; with {}, {}\n", x.policy->name,
                         beyond ? q.name_of(*beyond) : "none", beyond ? sim::describe_failure(beyond->numbers) : "");
      continue;
    }
    out += fmt::format("{}: {}", x.policy->name, q.name_of(x.found));
    if (beyond) out += fmt::format("; with {}, {}", q.name_of(*beyond), sim::describe_failure(beyond->numbers));
    out += "\n";
  }
  return out;
}

/// Whose runs were too short to tell where their loads settle.
std::string name_the_unsettled(const std::vector<answer>& answers) {
  std::vector<std::string> young;
  std::vector<std::string> untold;
  for (const answer& x : answers) {
    if (!x.done || !x.found.best) continue;
    const sim::load_state state = x.found.best->numbers.load.state;
    if (state == sim::load_state::unsettled) young.push_back(x.policy->name);
    if (state == sim::load_state::unknown) untold.push_back(x.policy->name);
  }
  std::string out;
  if (!young.empty()) {
    out += fmt::format(
        "More and more run until the last request arrives, so take more --requests before you believe: {}\n",
        fmt::join(young, ", "));
  }
  if (!untold.empty()) {
    out += fmt::format("Too few arrivals, or too short a time, to tell whether the load is carried: {}\n",
                       fmt::join(untold, ", "));
  }
  return out;
}

/// Whose answer turns on less than noise: runs that keep or miss an objective by at most 1 %.
std::string name_the_close(const question& q, const std::vector<answer>& answers) {
  std::vector<std::string> close;
  // Rates are found to a fiftieth: there all are near.
  for (const answer& x : answers) {
    if (!x.done || q.of_rate) continue;
    for (const auto* t : {&x.found.best, &x.found.beyond}) {
      if (!*t || !sim::is_close((*t)->numbers)) continue;
      close.push_back(
          fmt::format("{} with {} ({})", x.policy->name, q.name_of(**t), sim::describe_margin((*t)->numbers.slo)));
    }
  }
  if (close.empty()) return {};
  return fmt::format("Alike within {:g} % of the objectives, so another day may decide otherwise{}: {}.\n",
                     100 * sim::alike, q.a.seeds == 1 ? " (--seeds 5 tries it)" : "", fmt::join(close, ", "));
}

/// Who needs least, or carries most, in a sentence; with the price where there is one.
std::string conclude(const question& q, const std::vector<answer>& answers) {
  const answer* best = nullptr;
  const auto value = [&](const answer& x) {
    return q.of_rate ? -x.found.best->factor : static_cast<double>(x.found.best->instances);
  };
  for (const answer& x : answers) {
    if (x.done && x.found.best && (best == nullptr || value(x) < value(*best))) best = &x;
  }
  if (best == nullptr) return "No policy meets the objectives.\n" + q.idle;
  std::vector<std::string> who;
  std::vector<std::string> others;
  for (const answer& x : answers) {
    if (!x.done || !x.found.best) continue;
    // Rates are found to a fiftieth.
    const bool like_best =
        q.of_rate ? x.found.best->factor * 1.02 >= best->found.best->factor : value(x) == value(*best);
    if (like_best) {
      who.push_back(x.policy->name);
    } else {
      others.push_back(fmt::format(
          "{} {}", x.policy->name,
          q.of_rate ? fmt::format("{:.4g}", q.rate_of(*x.found.best)) : fmt::format("{}", x.found.best->instances)));
    }
  }
  std::string out = fmt::format("{} {} {}{}", sim::detail::enumerate(who), q.of_rate ? "carries" : "needs",
                                q.of_rate ? "most, " : "fewest, ", q.name_of(best->found));
  if (who.size() > 1) {
    out = fmt::format("{} {} {}{}", sim::detail::enumerate(who), q.of_rate ? "carry" : "need",
                      q.of_rate ? "most, " : "fewest, ", q.name_of(best->found));
  }
  if (q.a.price) {
    const prices p = q.price_of(*best->found.best);
    out += fmt::format(
        ", which is {:.3g} for a million output tokens ({:.3g} for a million of all) at {:g} for an hour of "
        "an instance",
        p.per_output, p.per_token, *q.a.price);
  }
  if (!others.empty()) out += "; " + sim::detail::enumerate(others);
  return out + ".\n" + name_the_close(q, answers);
}

std::vector<ordered_json> answers_as_json(const question& q, const std::vector<answer>& answers) {
  std::vector<ordered_json> all;
  for (const answer& x : answers) {
    ordered_json j{{"policy", x.policy->name}, {"find", q.a.find}, {"meets", x.found.best.has_value()}};
    const sim::capacity_trial& t = x.found.best ? *x.found.best : *x.found.beyond;
    j["how"] = t.pools ? "split" : "colocated";
    j["instances"] = x.found.best ? ordered_json(t.instances) : ordered_json(nullptr);
    j["rate"] = x.found.best ? ordered_json(q.rate_of(t)) : ordered_json(nullptr);
    j["rate_scale"] = t.factor;
    j["pools"] = t.pools ? fmt::format("{}/{}/{}", t.pools->prefill, t.pools->decode, t.pools->mixed) : "";
    if (q.a.price) {
      j["price_per_hour"] = *q.a.price;
      const prices p = q.price_of(t);
      j["cost_per_million_output_tokens"] = x.found.best ? ordered_json(p.per_output) : ordered_json(nullptr);
      j["cost_per_million_tokens"] = x.found.best ? ordered_json(p.per_token) : ordered_json(nullptr);
    }
    if (x.found.beyond) {
      j["fails_at"] = {{"instances", x.found.beyond->instances},
                       {"rate", q.rate_of(*x.found.beyond)},
                       {"because", sim::describe_failure(x.found.beyond->numbers)}};
    }
    j["runs"] = x.found.runs;
    j["seeds"] = q.a.seeds;
    const auto cluster = std::vector<sim::machines>{{t.instances, q.profile}};
    const auto rows = sim::hurried(q.rows.front(), t.factor);
    ordered_json what = replay::describe_setting(
        q.a.setting, cluster,
        replay::size_cluster(q.a.setting, cluster, rows, static_cast<std::uint64_t>(q.a.setting.seed)), q.rate);
    for (const char* key : {"rate", "instances", "pools"}) what.erase(key);
    j.update(what);
    ordered_json numbers = sim::to_json(t.numbers);
    numbers.erase("policy");
    j.update(numbers);
    all.push_back(std::move(j));
  }
  return all;
}

/// @return whether some policy meets the objectives.
bool run(arguments a) {
  std::vector<sim::policy> policies = sim::select_policies(sim::published_policies(), a.policies);
  if (a.setting.slo.empty()) {
    throw sim::usage_error{"name the objectives, as in --slo ttft_p99=2,tpot_p99=0.05"};
  }
  const bool of_rate = a.find == "rate";
  if (of_rate && !a.instances) throw sim::usage_error{"--find rate needs the size of the cluster: --instances"};
  if (!of_rate && a.instances) {
    throw sim::usage_error{"--instances is for --find rate; for the fewest instances name --instances-max"};
  }
  replay::positive(a.instances_max, most_asked, "--instances-max");
  if (a.instances) replay::positive(*a.instances, most_asked, "--instances");
  if (a.price && !(*a.price > 0 && *a.price < 1e9)) {
    throw sim::usage_error{fmt::format("--price-per-hour is a number above 0, below 1e9, not {:g}", *a.price)};
  }
  if (a.price && a.price_per_gpu) {
    throw sim::usage_error{"--price-per-hour, of an instance, and --price-per-gpu-hour exclude each other"};
  }
  if (a.price_per_gpu && !(*a.price_per_gpu > 0 && *a.price_per_gpu < 1e9)) {
    throw sim::usage_error{
        fmt::format("--price-per-gpu-hour is a number above 0, below 1e9, not {:g}", *a.price_per_gpu)};
  }
  if (of_rate && (!a.setting.faults.empty() || a.setting.mtbf)) {
    throw sim::usage_error{
        "--fault and --mtbf go with --find instances: at another rate they would hit other requests"};
  }
  if (a.jobs) replay::positive(*a.jobs, 1024, "--jobs");
  replay::positive(a.seeds, most_seeds, "--seeds");
  const replay::row_source source{a.setting};
  const sim::profile profile = sim::load_profile(a.setting.profile);
  if (a.price_per_gpu) a.price = *a.price_per_gpu * profile.parallel.devices();
  question q{.a = a,
             .source = source,
             .rows = {},
             .profile = profile,
             .slo = sim::parse_slo(a.setting.slo),
             .of_rate = of_rate};
  q.rows.reserve(static_cast<std::size_t>(a.seeds));  // so that the first stay where they are
  q.rows.push_back(source.rows(a.setting, static_cast<std::uint64_t>(a.setting.seed)));
  const std::vector<sim::trace_row>& rows = q.rows.front();
  q.rate = sim::mean_rate(rows);
  if (!(q.rate > 0)) throw sim::usage_error{"all requests come at once: there is no load to size a cluster for"};
  double output = 0;
  double tokens = 0;
  for (const sim::trace_row& r : rows) {
    output += static_cast<double>(r.output_tokens);
    tokens += static_cast<double>(r.output_tokens + r.prompt_tokens);
  }
  q.output_rate = output / static_cast<double>(rows.size()) * q.rate;
  q.token_rate = tokens / static_cast<double>(rows.size()) * q.rate;

  const std::size_t most = static_cast<std::size_t>(of_rate ? *a.instances : a.instances_max);
  // Checks everything that can be refused before the first run.
  const std::vector<sim::machines> largest{{most, q.profile}};
  const sim::cluster_options options =
      replay::size_cluster(a.setting, largest, rows, static_cast<std::uint64_t>(a.setting.seed));
  // Smaller clusters lack the instance that fails.
  std::size_t least = 1;
  for (const std::string& text : a.setting.faults) least = std::max(least, sim::parse_fault(text).instance + 1);
  q.idle = replay::describe_idle(largest, options, rows, q.slo);
  std::vector<std::string> left_out;
  std::erase_if(policies, [&](const sim::policy& p) {
    try {
      sim::require_scores(p, rows, source.name());
      sim::require_instances(p, of_rate ? most : std::min(most, p.most_instances));
      sim::require_instances(p, of_rate ? most : std::max(least, p.least_instances));
      sim::require_open_placement(p, options);
      return false;
    } catch (const sim::usage_error& why) {
      left_out.emplace_back(why.what());
      return true;
    }
  });
  if (policies.empty()) throw sim::usage_error{left_out.front()};
  const std::size_t cores = std::max(std::thread::hardware_concurrency(), 1U);
  const std::size_t jobs = std::min(a.jobs ? static_cast<std::size_t>(*a.jobs) : cores, policies.size());
  sim::require_memory(options, rows.size() * static_cast<std::size_t>(a.seeds), jobs, jobs, sim::spelling::options);
  for (std::int64_t s = 1; s != a.seeds; ++s) {
    const auto seed = static_cast<std::uint64_t>(a.setting.seed + s);
    q.rows.push_back(source.rows(a.setting, seed));
    static_cast<void>(replay::size_cluster(a.setting, largest, q.rows.back(), seed));
  }
  tool::require_apart(replay::files_read(a.setting), {{"--json", a.json}, {"--csv", a.csv}});

  std::unique_ptr<sim::output_file> json;
  std::unique_ptr<sim::output_file> csv;
  if (!a.json.empty()) json = std::make_unique<sim::output_file>(a.json);
  if (!a.csv.empty()) csv = std::make_unique<sim::output_file>(a.csv);
  std::FILE* const people = a.json == "-" || a.csv == "-" ? stderr : stdout;
  fmt::print(people, "{}\n{} requests, {}{}, {}, {}{}, {} KV blocks of {} tokens each{}\n{} within {}\n{}\n",
             source.what(), rows.size(), replay::say_rate(q.rate, rows, source.has_sessions()),
             source.has_arrivals() ? replay::say_peak(rows) : "",
             a.seeds == 1 ? fmt::format("seed {}", a.setting.seed)
                          : fmt::format("seeds {} to {}", a.setting.seed, a.setting.seed + a.seeds - 1),
             of_rate ? fmt::format("{} x ", most) : "", say_instance(q.profile), options.instance.limits.blocks,
             a.setting.size.block_size, replay::say_routers(a.setting),
             of_rate      ? "The highest rate"
             : least == 1 ? fmt::format("The fewest instances, at most {},", most)
                          : fmt::format("The fewest instances, at least {} and at most {},", least, most),
             a.setting.slo, replay::describe_load(source, largest, options, rows, q.slo));
  std::fflush(people);

  // Beyond these factors there is nothing to measure, or no time line that is long enough.
  double slowest = 1 / sim::capacity_range;
  double fastest = sim::capacity_range;
  for (const std::vector<sim::trace_row>& of_seed : q.rows) {
    fastest = std::min(fastest, most_hurried(a.setting, of_seed));
    while (slowest < 1 && sim::least_span(sim::hurried(of_seed, slowest)) > sim::max_replay_seconds) slowest *= 2;
  }
  std::vector<answer> answers;
  for (const sim::policy& p : policies) answers.emplace_back().policy = &p;
  sim::live_text table{people, sim::table_width};
  std::mutex one_at_a_time;
  watch watched{policies, one_at_a_time};
  tool::signal_guard signals{[&] {
    const std::lock_guard<std::mutex> one{one_at_a_time};
    json.reset();
    csv.reset();
    watched.clear();
    table.clear();
    fmt::print(people, "{}\n{}Interrupted: what is above was done; nothing was written.\n", format_answers(q, answers),
               describe_answers(q, answers));
  }};
  std::size_t done = 0;
  sim::run_parallel(policies.size(), jobs, [&](std::size_t i) {
    const laboratory lab{a, policies, i, q.rows, q.profile, q.slo, signals, watched};
    sim::capacity found;
    if (of_rate) {
      found = sim::highest_rate([&](double factor) { return lab.run(most, factor); }, slowest, fastest);
    } else {
      found = sim::fewest_instances(std::max(least, policies[i].least_instances),
                                    std::min(most, policies[i].most_instances),
                                    [&](std::size_t n) { return lab.run(n, 1); });
    }
    const std::lock_guard<std::mutex> one{one_at_a_time};
    answers[i].found = std::move(found);
    answers[i].done = true;
    watched.clear();
    if (table.draws()) table.show(format_answers(q, answers));
    watched.finished(++done);
  });
  watched.clear();
  table.clear();
  fmt::print(people, "{}\n{}\n{}", format_answers(q, answers), describe_answers(q, answers), conclude(q, answers));
  fmt::print(people, "{}", name_the_unsettled(answers));
  for (const std::string& why : left_out) fmt::print(people, "Left out: {}.\n", why);
  fmt::print(people, "{}{}{}", a.seeds > 1 ? source.describe_seeds(a.setting) : "", source.unused(), source.fewer());
  std::fflush(people);
  if (json || csv) {
    const std::vector<ordered_json> found = answers_as_json(q, answers);
    if (json) {
      json->write(sim::json_page(found));
      json->commit();
    }
    if (csv) {
      csv->write(sim::tidy_csv(found));
      csv->commit();
    }
  }
  tool::flush_output();
  return std::any_of(answers.begin(), answers.end(), [](const answer& x) { return x.found.best.has_value(); });
}

}  // namespace

int main(int argc, char** argv) {
  arguments a;
  CLI::App app{"Finds the fewest instances, or the highest rate, at which each policy meets objectives."};
  app.set_version_flag("--version", "capacity " + tool::version());
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // scripts append to their defaults
  app.add_option("--policies,--policy", a.policies, "comma-separated; see replay --help")->capture_default_str();
  replay::add_load_options(app, a.setting);
  app.add_option("--find", a.find, "instances: the fewest for the workload's rate; rate: the highest for --instances")
      ->check(CLI::IsMember({"instances", "rate"}))
      ->capture_default_str();
  app.add_option("--instances-max", a.instances_max, "look no further than that")->capture_default_str();
  app.add_option("--instances", a.instances, "engine instances, for --find rate");
  app.add_option("--price-per-hour", a.price, "of one instance, in any money: what a million tokens cost");
  app.add_option("--price-per-gpu-hour", a.price_per_gpu,
                 "the same of one device, of which an instance may have several");
  replay::add_instance_options(app, a.setting);
  replay::add_fault_options(app, a.setting);
  app.add_option("--seeds", a.seeds, "of this seed and those after it all runs must meet the objectives")
      ->capture_default_str();
  app.add_option("--jobs", a.jobs, "policies at a time (default: one per core)");
  app.add_option("--json", a.json, "write what was found for each policy; - is standard output");
  app.add_option("--csv", a.csv, "the same as CSV, a row per policy; - as above");
  return tool::run("capacity", "a smaller --instances-max, or fewer --requests", app, [&] {
    tool::require_values(argc, argv);
    app.parse(argc, argv);
    return run(a);
  });
}
