// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../replay/words.hpp"
#include "search.hpp"

#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/measure/slo.hpp>
#include <tessera/sim/planning/capacity.hpp>
#include <tessera/sim/report/report.hpp>
#include <tessera/sim/report/report_json.hpp>
#include <tessera/sim/setup/cluster_setup.hpp>
#include <tessera/sim/setup/load_source.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// @file
/// The results of `capacity`: for human readers, and as JSON and CSV.

namespace capacity {

using nlohmann::ordered_json;

/// A policy and its result.
struct answer {
  const sim::policy* policy = nullptr;
  sim::capacity found;
  bool done = false;
};

/// The cost of a cluster's hour, per token that it makes in an hour.
struct prices {
  double per_output = sim::never;  ///< Price of a million output tokens.
  double per_token = sim::never;   ///< Price of a million tokens, prompts included.
};

struct question {
  const arguments& a;
  const sim::load_source& source;
  std::vector<std::vector<sim::trace_row>> rows;  ///< By seed.
  sim::profile profile;
  std::vector<sim::slo_bound> slo;
  double rate = 0;         ///< Requests per second.
  double output_rate = 0;  ///< Output tokens per second.
  double token_rate = 0;   ///< Tokens per second.
  bool of_rate = false;    ///< The kind of question.
  std::string idle{};      ///< The objectives that an idle instance misses.

  /// Requests per second in a trial. For sessions the actual rate, because their later turns wait for answers.
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
  /// As above; if no higher rate was tried, it says so.
  [[nodiscard]] std::string name_of(const sim::capacity& found) const {
    const bool at_the_end = of_rate && !found.beyond;
    return fmt::format("{}{}", at_the_end ? "at least " : "", name_of(*found.best));
  }
};

/// A profile by name, and how many devices an instance of it has.
inline std::string say_instance(const sim::profile& p) {
  const double devices = p.parallel.devices();
  return p.name + (devices > 1 ? fmt::format(" of {:g} devices", devices) : std::string{});
}

inline std::string division_of(const sim::capacity_trial& t) {
  if (!t.pools) return "colocated";
  const sim::pool_sizes& p = *t.pools;
  return p.mixed == 0 ? fmt::format("split {}/{}", p.prefill, p.decode)
                      : fmt::format("split {}/{}/{}", p.prefill, p.decode, p.mixed);
}

inline std::string format_answers(const question& q, const std::vector<answer>& answers) {
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
  // Further objectives beside the two tails, and the cost of faults.
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

/// A sentence for each policy: what it needs, and why less does not suffice.
inline std::string describe_answers(const question& q, const std::vector<answer>& answers) {
  std::string out;
  for (const answer& x : answers) {
    if (!x.done) continue;
    const auto& [best, beyond, runs] = x.found;
    if (!best) {
      out += fmt::format("{}: no tried value meets the objectives; with {}, {}\n", x.policy->name,
                         beyond ? q.name_of(*beyond) : "none", beyond ? sim::describe_failure(beyond->numbers) : "");
      continue;
    }
    out += fmt::format("{}: {}", x.policy->name, q.name_of(x.found));
    if (beyond) out += fmt::format("; with {}, {}", q.name_of(*beyond), sim::describe_failure(beyond->numbers));
    out += "\n";
  }
  return out;
}

/// The policies with runs that were too short to tell where their loads settle.
inline std::string name_the_unsettled(const std::vector<answer>& answers) {
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

/// The policies with an answer that is within noise: runs that keep or miss an objective by at most 1 %.
inline std::string name_the_close(const question& q, const std::vector<answer>& answers) {
  std::vector<std::string> close;
  // Rates are found to a fiftieth: there all are close.
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
                     100 * sim::alike_margin, q.a.seeds == 1 ? " (--seeds 5 tries it)" : "", fmt::join(close, ", "));
}

/// The policies that need least, or carry most, in a sentence, with the price if there is one.
inline std::string conclude(const question& q, const std::vector<answer>& answers) {
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

inline std::vector<ordered_json> answers_as_json(const question& q, const std::vector<answer>& answers) {
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
        sim::size_cluster(q.a.setting, cluster, rows, static_cast<std::uint64_t>(q.a.setting.seed)), q.rate);
    for (const char* key : {"rate", "instances", "pools"}) what.erase(key);
    j.update(what);
    ordered_json numbers = sim::to_json(t.numbers);
    numbers.erase("policy");
    j.update(numbers);
    all.push_back(std::move(j));
  }
  return all;
}

}  // namespace capacity
