// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Traffic, clusters and loads drawn at random, not chosen: how `due-first` fares against every published
// policy.
#include "pascal_setting.hpp"

#include <tessera/sim/measure/distribution.hpp>
#include <tessera/sim/random.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using namespace reproduce;

constexpr std::size_t settings_per_seed = 20;
constexpr std::size_t requests = 3000;
/// The seed of the first setting's engine. Settings that a rule was chosen by are not used again: the next time the
/// seed is another.
constexpr std::uint64_t first_seed = 7000;
/// Means that differ by less than this count as equal.
constexpr double alike = 1.02;
/// A difference below this is not noticed, in seconds.
constexpr double unnoticed_s = 1e-3;
constexpr const char* rivals =
    "fcfs,rr,pascal,pascal-paced,sarathi,sarathi-adaptive,trail,slack,autellix,past-future,distserve,splitwise,phasor,"
    "in-turn,llumnix,cascade,cascade-steady";
constexpr std::array<std::size_t, 5> sizes{1, 2, 4, 8, 16};

/// Requests of one kind, lognormal.
struct request_kind {
  double prompt = 0, prompt_cv = 0;
  double output = 0, output_cv = 0;
};
/// One setting.
struct drawn {
  std::vector<request_kind> kinds;  ///< One, or two that are as frequent.
  double reasoning = 0;             ///< Part of the output.
  double cv = 1;                    ///< Coefficient of variation of the gaps between arrivals.
  double swings = 0;                ///< By what part of itself the gap swings, three times.
  std::string profile;
  std::size_t instances = 1;
  double load = 1;  ///< Part of the rate at which `sarathi` completes requests that all come at once.
};

double between(sim::random_engine& random, double low, double high) {
  return low + (high - low) * sim::uniform(random);
}
double between_powers(sim::random_engine& random, double low, double high) {
  return std::exp(between(random, std::log(low), std::log(high)));
}

drawn draw(sim::random_engine& random) {
  drawn d;
  const std::size_t kinds = sim::uniform(random) < 0.4 ? 2 : 1;
  for (std::size_t k = 0; k != kinds; ++k) {
    d.kinds.push_back({.prompt = between_powers(random, 50, 12'000),
                       .prompt_cv = between(random, 0, 1.5),
                       .output = between_powers(random, 20, 2500),
                       .output_cv = between(random, 0, 2)});
  }
  if (sim::uniform(random) < 0.25) d.reasoning = between(random, 0.5, 0.95);
  const double arrivals = sim::uniform(random);
  if (arrivals < 0.25) d.cv = between(random, 2, 4);
  if (arrivals > 0.75) d.swings = between(random, 0.3, 0.8);
  const auto& profiles = sim::profiles();
  d.profile = profiles[sim::uniform_below(random, profiles.size())].name;
  d.instances = sizes[sim::uniform_below(random, sizes.size())];
  d.load = between(random, 0.5, 1.2);
  return d;
}

std::int64_t lognormal(sim::random_engine& random, double mean, double cv, double most) {
  const double variance = std::log(1 + cv * cv);
  const double value = std::exp(std::log(mean) - variance / 2 + std::sqrt(variance) * sim::normal(random));
  return std::llround(std::clamp(value, 1.0, std::max(1.0, most)));
}

/// One request a second, on average. None takes more than a quarter of an instance's memory with its prompt, nor with
/// its output.
rows_type rows_of(const drawn& d, std::size_t n, sim::random_engine& random) {
  const double most = sim::find_profile(d.profile).kv_tokens() / 4;
  rows_type rows(n);
  double at = 0;
  const double shape = 1 / (d.cv * d.cv);
  for (std::size_t i = 0; i != n; ++i) {
    const double swing = 3 * 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n);
    at += sim::gamma(random, shape, shape) * (1 + d.swings * std::sin(swing));
    const request_kind& k = d.kinds[sim::uniform_below(random, d.kinds.size())];
    trace_row& r = rows[i];
    r.arrival_s = at;
    r.prompt_tokens = lognormal(random, k.prompt, k.prompt_cv, most);
    r.output_tokens = lognormal(random, k.output, k.output_cv, most);
    r.reasoning_tokens =
        std::min<std::int64_t>(r.output_tokens - 1, std::llround(d.reasoning * static_cast<double>(r.output_tokens)));
    r.answer_tokens = r.output_tokens - r.reasoning_tokens;
  }
  return rows;
}

/// Requests a second that `sarathi` completes when all come at once, until nine of ten have ended.
double saturation(rows_type rows, const drawn& d) {
  for (trace_row& r : rows) r.arrival_s = 0;
  const run_result run = published("sarathi").run(servers(rows, d.profile, d.instances), rows, [](std::size_t) {});
  std::vector<double> ends;
  for (const sim::request_record& r : run.requests) {
    if (r.completed()) ends.push_back(r.finish);
  }
  std::sort(ends.begin(), ends.end());
  const std::size_t most = ends.size() * 9 / 10;
  return static_cast<double>(most) / ends[most];
}

/// What runs are judged by: the less, the better.
struct metric {
  const char* name;
  double (*get)(const sim::summary&);
};
constexpr std::array<metric, 6> metrics{{
    {"TTFT mean, s", [](const sim::summary& s) { return s.ttft.mean; }},
    {"TTFT P99, s", [](const sim::summary& s) { return s.ttft.p99; }},
    {"TPOT mean, s", [](const sim::summary& s) { return s.tpot.mean; }},
    {"end to end mean, s", [](const sim::summary& s) { return s.e2e.mean; }},
    {"end to end P99, s", [](const sim::summary& s) { return s.e2e.p99; }},
    {"seconds per token, mean", [](const sim::summary& s) { return s.normalized_latency.mean; }},
}};
constexpr std::size_t end_to_end = 3;
using numbers = std::array<double, metrics.size()>;

/// The outcome of one setting: what each policy gets, NaN where it does not run; ours is the last.
struct outcome {
  drawn setting;
  std::string layouts;
  std::vector<numbers> got;
};

bool less(double a, double b) { return alike * a < b && a < b - unnoticed_s; }

/// How many times `b` `a` is, where a difference that is not noticed is no multiple.
double times(double a, double b) { return (a + unnoticed_s) / (b + unnoticed_s); }

/// Whether `a` is nowhere behind `b`, and somewhere ahead.
bool dominates(const numbers& a, const numbers& b) {
  bool ahead = false;
  for (std::size_t m = 0; m != a.size(); ++m) {
    if (std::isnan(a[m]) != std::isnan(b[m]) || less(b[m], a[m])) return false;
    ahead = ahead || less(a[m], b[m]);
  }
  return ahead;
}

std::string describe(const drawn& d) {
  std::string text;
  for (const request_kind& k : d.kinds) {
    text += fmt::format("{}{:.0f} ± {:.0f} % and {:.0f} ± {:.0f} % tokens", text.empty() ? "" : ", or ", k.prompt,
                        100 * k.prompt_cv, k.output, 100 * k.output_cv);
  }
  if (d.reasoning > 0) text += fmt::format(", {:.0f} % reasoning", 100 * d.reasoning);
  if (d.cv != 1) text += fmt::format(", gaps ± {:.0f} %", 100 * d.cv);
  if (d.swings > 0) text += fmt::format(", swinging by {:.0f} %", 100 * d.swings);
  return text + fmt::format("; {} x {}, load {:.2f}", d.instances, d.profile, d.load);
}

double part_of(std::size_t n, std::size_t all) {
  return 100 * static_cast<double>(n) / static_cast<double>(std::max<std::size_t>(1, all));
}

void run(const options& o) {
  results out{o};
  std::vector<sim::policy> policies = sim::select_policies(compared_with(), rivals);
  policies.push_back(published("due-first"));
  const std::size_t ours = policies.size() - 1;
  const std::size_t n = o.quick ? 200 : requests;
  std::vector<outcome> all(o.quick ? 4 : settings_per_seed * o.seeds);
  sim::run_parallel(all.size(), o.threads, [&](std::size_t k) {
    sim::random_engine random{first_seed + k};
    outcome& out = all[k];
    out.setting = draw(random);
    const drawn& d = out.setting;
    rows_type rows = rows_of(d, n, random);
    const double rate = d.load * saturation(rows, d);
    for (trace_row& r : rows) r.arrival_s /= rate;
    numbers none;
    none.fill(std::numeric_limits<double>::quiet_NaN());
    out.got.assign(policies.size(), none);
    for (std::size_t i = 0; i != policies.size(); ++i) {
      if (d.instances < policies[i].least_instances || d.instances > policies[i].most_instances) continue;
      cluster_options c = servers(rows, d.profile, d.instances);
      c.seed = k + 1;
      const sim::summary s = policies[i].run(c, rows, [](std::size_t) {}).numbers;
      for (std::size_t m = 0; m != metrics.size(); ++m) out.got[i][m] = metrics[m].get(s);
      if (i == ours) out.layouts = s.placement;
    }
  });

  const auto best_of_others = [&](const outcome& x, std::size_t m) {
    std::size_t best = ours;
    for (std::size_t i = 0; i != ours; ++i) {
      if (!std::isnan(x.got[i][m]) && (best == ours || x.got[i][m] < x.got[best][m])) best = i;
    }
    return best;
  };
  // Against the best of the others, which is another policy in each setting and for each metric.
  std::vector<row> against_best;
  for (std::size_t m = 0; m != metrics.size(); ++m) {
    std::size_t ahead = 0, behind = 0, compared = 0;
    std::vector<double> ratios;
    for (const outcome& x : all) {
      const std::size_t best = best_of_others(x, m);
      if (best == ours || std::isnan(x.got[ours][m])) continue;
      ++compared;
      ahead += less(x.got[ours][m], x.got[best][m]) ? 1U : 0U;
      behind += less(x.got[best][m], x.got[ours][m]) ? 1U : 0U;
      ratios.push_back(times(x.got[ours][m], x.got[best][m]));
    }
    if (ratios.empty()) continue;
    std::sort(ratios.begin(), ratios.end());
    const auto part = [&](double p) { return sim::percentile(ratios, p); };
    against_best.push_back({metrics[m].name, part_of(ahead, compared), part_of(compared - ahead - behind, compared),
                            part_of(behind, compared), part(0.1), part(0.5), part(0.9), part(1)});
  }
  // Against each, always the same policy.
  std::vector<row> against_each;
  for (std::size_t i = 0; i != ours; ++i) {
    row line{policies[i].name};
    std::size_t theirs_dominates = 0, ours_dominates = 0, compared = 0;
    numbers logarithms{};
    std::array<std::size_t, metrics.size()> counted{};
    for (const outcome& x : all) {
      if (std::isnan(x.got[i][end_to_end])) continue;
      ++compared;
      theirs_dominates += dominates(x.got[i], x.got[ours]) ? 1U : 0U;
      ours_dominates += dominates(x.got[ours], x.got[i]) ? 1U : 0U;
      for (std::size_t m = 0; m != metrics.size(); ++m) {
        const double ratio = times(x.got[i][m], x.got[ours][m]);
        if (std::isnan(ratio)) continue;
        logarithms[m] += std::log(ratio);
        ++counted[m];
      }
    }
    line.emplace_back(compared);
    for (std::size_t m = 0; m != metrics.size(); ++m) {
      line.emplace_back(std::exp(logarithms[m] / static_cast<double>(counted[m])));
    }
    line.emplace_back(part_of(ours_dominates, compared));
    line.emplace_back(part_of(theirs_dominates, compared));
    against_each.push_back(std::move(line));
  }

  out.table(
      "best",
      {"metric", "ahead_pct", "alike_pct", "behind_pct", "p10_ratio", "median_ratio", "p90_ratio", "largest_ratio"},
      against_best);
  std::vector<std::string> header{"policy", "settings"};
  for (const metric& m : metrics) header.push_back(column_of(m.name) + "_ratio");
  out.table("each", joined<std::string>(header, {"due_first_dominates_pct", "dominates_due_first_pct"}), against_each);

  // The ten settings in which a request takes longest, as a multiple of the best of the others.
  std::vector<const outcome*> order;
  for (const outcome& x : all) order.push_back(&x);
  const auto loss = [&](const outcome& x) {
    return times(x.got[ours][end_to_end], x.got[best_of_others(x, end_to_end)][end_to_end]);
  };
  std::sort(order.begin(), order.end(), [&](const outcome* a, const outcome* b) { return loss(*a) > loss(*b); });
  std::vector<row> worst;
  for (std::size_t k = 0; k != std::min<std::size_t>(10, order.size()); ++k) {
    const outcome& x = *order[k];
    const std::size_t best = best_of_others(x, end_to_end);
    row line{describe(x.setting), x.layouts, policies[best].name, loss(x)};
    for (std::size_t m = 0; m != metrics.size(); ++m) {
      line.emplace_back(x.got[ours][m]);
      line.emplace_back(x.got[best][m]);
    }
    worst.push_back(std::move(line));
  }
  std::vector<std::string> columns{"setting", "layouts", "best_other", "end_to_end_ratio"};
  for (const metric& m : metrics) {
    columns.push_back(column_of(m.name));
    columns.push_back("best_other_" + column_of(m.name));
  }
  out.table("worst", columns, worst);
  out.finish();
}

[[maybe_unused]] const bool added =
    reproduce::add({"drawn", "due-first against every published policy, in settings drawn at random", run});

}  // namespace
