// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PASCAL's evaluation: sections III (figures 4 and 5) and V (figures 9 to 13, 15, 16 and the cost of migration), what
// each of the paper's rules contributes, and where they do not hold.
#include "settings.hpp"

#include <tessera/compose/pascal.hpp>
#include <tessera/compose/pascal_paced.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/policies/policies.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace reproduce;
using namespace reproduce::pascal_setting;
using tessera::blocks;
namespace placement = tessera::placement;
namespace order = tessera::order;
using sim::make_policy;
using sim::request;

// -- policies -------------------------------------------------------------------------------------------------------

/// Shows a policy views in which every answer meets its SLO: the policy without t_i.
template <class V>
struct all_meet_slo {
  const V& views;
  [[nodiscard]] auto operator[](std::size_t i) const noexcept {
    auto v = views[i];
    v.slo_met = true;
    return v;
  }
  [[nodiscard]] std::size_t size() const noexcept { return views.size(); }
};
struct migrate_without_slo : placement::pascal_migrate_adaptively {
  template <class V>
  [[nodiscard]] std::size_t operator()(const V& v, std::size_t current, blocks grows, blocks moves) noexcept {
    return placement::pascal_migrate_adaptively::operator()(all_meet_slo<V>{v}, current, grows, moves);
  }
};
/// Shows a policy no fresh answers: Algorithm 2 without its fallback r + a.
template <class V>
struct no_fresh_answers {
  const V& views;
  [[nodiscard]] auto operator[](std::size_t i) const noexcept {
    auto v = views[i];
    v.fresh_answers = 0;
    return v;
  }
  [[nodiscard]] std::size_t size() const noexcept { return views.size(); }
};
struct migrate_without_fallback : placement::pascal_migrate_adaptively {
  template <class V>
  [[nodiscard]] std::size_t operator()(const V& v, std::size_t current, blocks grows, blocks moves) noexcept {
    return placement::pascal_migrate_adaptively::operator()(no_fresh_answers<V>{v}, current, grows, moves);
  }
};

using pascal_scheduler = tessera::pascal<request>;
using adaptively = placement::pascal_migrate_adaptively;
constexpr adaptively by_the_paper{.headroom = sim::quantum_blocks};

/// The library's policies of these names.
std::vector<sim::policy> all_of(std::string_view names) {
  return sim::select_policies(sim::published_policies(), names);
}

/// `p`, with something changed in the cluster that it is given.
template <class Change>
sim::policy on(sim::policy p, std::string name, Change change) {
  p.run = [run = p.run, change](sim::cluster_options o, std::span<const trace_row> rows,
                                const sim::progress_callback& progress) {
    change(o);
    return run(o, rows, progress);
  };
  p.name = std::move(name);
  return p;
}
sim::policy placed_by(std::string_view placement, sim::policy p) {
  return on(std::move(p), fmt::format("{}, {}", p.name, placement),
            [placement](sim::cluster_options& o) { o.placement = sim::find_placement(placement); });
}
/// The policies of the main comparison: the library's, and round-robin in its other reading. What `due-first` knows
/// of the traffic is that of `history`.
std::vector<sim::policy> compared_policies(const rows_type& history) {
  std::vector<sim::policy> all =
      all_of("fcfs,sarathi,rr,pascal,pascal-nonadaptive,pascal-nomigration,pascal-paced,oracle");
  all.insert(all.begin() + 3, make_policy<tessera::round_robin<request>>("rr-quanta", "round-robin by quanta used",
                                                                         {.fewest_quanta_first = true}));
  sim::policy ours = published("due-first");
  ours.run = [history](const sim::cluster_options& o, std::span<const trace_row> rows,
                       const sim::progress_callback& progress) {
    return sim::run_due_first(o, rows, history, {}, progress);
  };
  all.insert(all.end() - 1, std::move(ours));
  return all;
}

/// PASCAL with one rule off at a time, and what it is compared with under other placements of new requests.
std::vector<sim::policy> ablations() {
  using placement::pascal_arrival;
  const auto whole = all_of("fcfs,pascal,pascal-nomigration,pascal-nonadaptive,pascal-paced");
  const sim::policy& pascal = whole[1];
  std::vector<sim::policy> all{whole[0], placed_by("least-kv", whole[0]), placed_by("shortest-queue", whole[0]),
                               pascal};
  all.push_back(make_policy<pascal_scheduler, pascal_arrival, adaptively>("arrivals count only what is held", "", {},
                                                                          {.counts_waiting = false}, by_the_paper));
  all.push_back(make_policy<pascal_scheduler, placement::least_load, adaptively>("arrivals ignore t (least-load)", "",
                                                                                 {}, {}, by_the_paper));
  all.push_back(make_policy<pascal_scheduler, placement::least_kv, adaptively>(
      "arrivals count only what is held, ignore t (least-kv)", "", {}, {}, by_the_paper));
  all.push_back(make_policy<pascal_scheduler, placement::least_kv, migrate_without_slo>(
      "nobody looks at t", "", {}, {}, migrate_without_slo{by_the_paper}));
  all.push_back(sim::with_bounded_steps(pascal));
  all.back().name = "steps bounded";
  all.push_back(make_policy<tessera::round_robin<request>, pascal_arrival, adaptively>(
      "no reasoning first", "", {.fewest_quanta_first = true}, {}, by_the_paper));
  all.push_back(make_policy<pascal_scheduler, pascal_arrival, adaptively>(
      "turns in a circle", "", {.fewest_quanta_first = false}, {}, by_the_paper));
  all.push_back(make_policy<pascal_scheduler, pascal_arrival, adaptively>(
      "no quantum", "", {.quantum = tokens{1'000'000}}, {}, by_the_paper));
  all.push_back(make_policy<pascal_scheduler, pascal_arrival, adaptively>(
      "no demotion", "", {.demote_above = tokens{1'000'000}}, {}, by_the_paper));
  all.push_back(make_policy<pascal_scheduler, pascal_arrival, migrate_without_fallback>(
      "no fallback r + a", "", {}, {}, migrate_without_fallback{by_the_paper}));
  all.push_back(whole[2]);
  all.push_back(whole[3]);
  all.push_back(make_policy<pascal_scheduler, pascal_arrival, adaptively>("adaptive, no headroom", ""));
  all.push_back(make_policy<pascal_scheduler, placement::least_load, placement::migrate_when_tight>(
      "moves by memory, when tight", "", {}, {}, {.headroom = sim::quantum_blocks}));
  all.push_back(make_policy<tessera::pascal_paced<request>, pascal_arrival, adaptively>("answers just in time", "", {},
                                                                                        {}, by_the_paper));
  sim::policy both = whole[4];
  both.name = "both: pascal-paced";
  all.push_back(std::move(both));
  return all;
}

// -- runs -----------------------------------------------------------------------------------------------------------

/// What is kept of a run.
struct sample {
  sim::summary numbers;
  bins_type tail;          ///< Tail TTFT per bin of reasoning length.
  bins_type reasoning;     ///< Mean latency of the reasoning phase per bin.
  double same_target = 0;  ///< Mean run of successive phase changes that go on at one instance.
};

double mean_run_of_targets(std::vector<sim::request_record> requests) {
  std::erase_if(requests, [](const auto& r) { return std::isnan(r.phase_change) || r.reasoning_tokens == 0; });
  std::sort(requests.begin(), requests.end(),
            [](const auto& a, const auto& b) { return a.phase_change < b.phase_change; });
  if (requests.empty()) return sim::never;
  std::size_t runs = 1;
  for (std::size_t i = 1; i < requests.size(); ++i) runs += requests[i].instance != requests[i - 1].instance ? 1U : 0U;
  return static_cast<double>(requests.size()) / static_cast<double>(runs);
}

sample keep(sim::run_result&& run) {
  sample s;
  std::map<std::int64_t, std::pair<double, double>> phases;
  for (const sim::request_record& r : run.requests) {
    if (std::isnan(r.phase_change) || !run.window.contains(r.arrival)) continue;
    auto& [sum, n] = phases[r.reasoning_tokens / sim::tail_bin_tokens * sim::tail_bin_tokens];
    sum += r.phase_change - r.arrival;
    n += 1;
  }
  for (const auto& [bin, sum_and_n] : phases) s.reasoning[bin] = sum_and_n.first / sum_and_n.second;
  s.tail = tails_of(run.numbers);
  s.same_target = mean_run_of_targets(std::move(run.requests));
  s.numbers = std::move(run.numbers);
  return s;
}

/// The runs of one policy at one load, one per seed.
using samples = std::vector<sample>;

template <class F>
estimate over(const samples& all, F&& f) {
  std::vector<double> values;
  for (const sample& s : all) values.push_back(static_cast<double>(f(s)));
  std::erase_if(values, [](double x) { return std::isnan(x); });
  return sim::estimate_mean(values);
}

/// How the tails of one policy compare with another's, over the bins; with the 95 % intervals of the differences in
/// the two bins, seed by seed, in parts of the other's mean.
struct compared : comparison {
  double best_half = 0;
  double worst_half = 0;
};
compared compare(const samples& a, const samples& b) {
  const bins_type base = bins(b, &sample::tail);
  compared c{compare_tails(bins(a, &sample::tail), base)};
  const auto half_width = [&](std::int64_t bin) {
    std::vector<double> differences;
    for (std::size_t seed = 0; seed != a.size(); ++seed)
      differences.push_back((a[seed].tail.at(bin) - b[seed].tail.at(bin)) / base.at(bin));
    return sim::estimate_mean(differences).half_width;
  };
  c.best_half = half_width(c.best_bin);
  c.worst_half = half_width(c.worst_bin);
  return c;
}

std::string verdict(const samples& all) {
  std::vector<sim::load_verdict> runs;
  for (const sample& s : all) runs.push_back(s.numbers.load);
  return verdict_of(runs);
}

/// The rows of the comparisons: other ones than those that were looked at while the policies were made (seeds 1 to
/// 4).
constexpr std::uint64_t first_seed = 101;

/// The seed of what `due-first` has seen before.
constexpr std::uint64_t history_seed = 1001;
/// Of the time in which requests arrive: what is left out at its beginning, while the cluster fills, and at its end,
/// where requests see a cluster that empties.
constexpr double left_out = 0.125;

/// Runs every policy on so many seeds of `workload` at `rate`.
std::vector<samples> run_all(const options& o, const std::vector<sim::policy>& policies, const sim::workload& w,
                             double rate, std::size_t requests, std::size_t seeds) {
  std::vector<samples> all(policies.size(), samples(seeds));
  sim::run_parallel(policies.size() * seeds, o.threads, [&](std::size_t i) {
    const std::size_t p = i % policies.size();
    const std::size_t seed = i / policies.size();
    const rows_type rows = sim::generate(w, requests, rate, first_seed + seed);
    sim::cluster_options cluster = cluster_for(rows);
    cluster.warmup_s = cluster.drain_s = left_out * (rows.back().arrival_s - rows.front().arrival_s);
    all[p][seed] = keep(policies[p].run(cluster, rows, [](std::size_t) {}));
  });
  return all;
}

// -- section III ----------------------------------------------------------------------------------------------------

/// Watches one instance and measures each answer's QoE against a first token due `target` after the arrival.
class answer_watch {
 public:
  explicit answer_watch(std::size_t requests) : qoe_(requests, from(0)), seen_(requests) {}

  template <class C>
  [[nodiscard]] std::size_t place(C& c, const request& r) {
    qoe_[r.index] = from(c.now_s());
    return 0;
  }
  template <class C>
  void step_ended(C& c, std::size_t) {
    for (request& r : c.requests()) {
      if (r.prompt == tokens{}) break;
      for (; seen_[r.index] < r.generated(); seen_[r.index] += tokens{1}) qoe_[r.index].on_token(now(c.now_s()));
    }
  }
  template <class C>
  void ended(C&, sim::run_result& result) {
    for (sim::request_record& r : result.requests) {
      qoe_[r.id].finish();
      r.qoe = qoe_[r.id].value();
    }
  }

 private:
  using integrator = tessera::basic_qoe_integrator<tessera::seconds_clock, tessera::qoe_from_arrival>;
  static tessera::time_point now(double s) { return tessera::time_point::at_seconds(s); }
  static integrator from(double arrival) {
    return integrator{{}, tessera::qoe_from_arrival{tessera::duration{0.25}}, now(arrival)};
  }
  std::vector<integrator> qoe_;
  std::vector<tokens> seen_;
};

constexpr std::array<std::int64_t, 5> characterised_lengths{128, 512, 1024, 1536, 2048};
constexpr std::size_t characterised_requests = 300;

/// 300 requests with prompts of 128 tokens that generate a length of the five, all in one phase.
rows_type characterisation_rows(double rate, std::uint64_t seed, bool reasoning) {
  sim::arrival_generator arrivals{{1.0}, rate, seed};
  sim::random_engine rng{seed, 3};
  rows_type rows;
  for (std::size_t i = 0; i != characterised_requests; ++i) {
    const std::int64_t n = characterised_lengths[sim::uniform_below(rng, characterised_lengths.size())];
    sim::trace_row row;
    row.prompt_tokens = 128;
    row.reasoning_tokens = reasoning ? n : 0;
    row.answer_tokens = reasoning ? 1 : n;
    row.output_tokens = row.reasoning_tokens + row.answer_tokens;
    row.arrival_s = arrivals.next();
    rows.push_back(row);
  }
  return rows;
}

/// The highest rate at which the KV of all who run at once just fits on the GPU: the oracle needs all of its memory.
double rate_that_fills(std::size_t seeds) {
  const auto peak = [&](double rate) {
    double most = 0;
    for (std::size_t seed = 1; seed <= seeds; ++seed) {
      const rows_type rows = characterisation_rows(rate, seed, true);
      sim::cluster_options o = cluster_for(rows, 1, characterised_requests);
      const auto real = static_cast<double>(o.instance.limits.blocks);
      o.instance.limits.blocks = characterised_requests * 138;
      o.timeline_interval_s = 0.25;
      const auto run = sim::cluster_of<tessera::fcfs<request>>{o, {.watermark = 0}}.run(rows, [](std::size_t) {});
      double used = 0;
      for (const sim::timeline_point& t : run.timeline) used = std::max(used, t.kv_used);
      most += used * static_cast<double>(o.instance.limits.blocks) / real;
    }
    return most / static_cast<double>(seeds);
  };
  double low = 0.1;
  double high = 20;
  for (int i = 0; i != 10; ++i) {
    const double middle = (low + high) / 2;
    (peak(middle) <= 1 ? low : high) = middle;
  }
  return low;
}

/// One policy of section III: means per length.
struct characterised {
  std::string name;
  std::array<double, 5> executed{}, blocked{}, preempted{}, total{}, attained{}, count{};
};

template <class Scheduler>
void characterise(characterised& c, double rate, std::size_t seeds, bool reasoning, double memory,
                  const typename Scheduler::config& config) {
  for (std::size_t seed = 1; seed <= seeds; ++seed) {
    const rows_type rows = characterisation_rows(rate, seed, reasoning);
    sim::cluster_options o = cluster_for(rows, 1, characterised_requests);
    o.instance.limits.blocks = static_cast<std::size_t>(static_cast<double>(o.instance.limits.blocks) * memory);
    const auto run =
        sim::cluster_of<Scheduler, answer_watch>{o, config, answer_watch{rows.size()}}.run(rows, [](std::size_t) {});
    for (const sim::request_record& r : run.requests) {
      const std::int64_t n = reasoning ? r.reasoning_tokens : r.answer_tokens;
      const auto i = static_cast<std::size_t>(std::find(characterised_lengths.begin(), characterised_lengths.end(), n) -
                                              characterised_lengths.begin());
      c.count[i] += 1;
      c.executed[i] += r.executed;
      c.blocked[i] += r.blocked;
      c.preempted[i] += r.preempted;
      c.total[i] += r.e2e();
      c.attained[i] += r.qoe >= tessera::qoe_target ? 1 : 0;
    }
  }
  for (std::size_t i = 0; i != characterised_lengths.size(); ++i) {
    for (auto* sum : {&c.executed, &c.blocked, &c.preempted, &c.total, &c.attained})
      (*sum)[i] /= std::max(c.count[i], 1.0);
  }
}

std::array<characterised, 4> characterise_all(const options& o, double rate, bool reasoning) {
  std::array<characterised, 4> all{{{.name = "oracle"}, {.name = "fcfs"}, {.name = "rr"}, {.name = "rr-quanta"}}};
  sim::run_parallel(4, o.threads, [&](std::size_t i) {
    switch (i) {
      case 0: characterise<tessera::fcfs<request>>(all[0], rate, o.seeds, reasoning, 4.0, {.watermark = 0}); break;
      case 1: characterise<tessera::fcfs<request>>(all[1], rate, o.seeds, reasoning, 0.5, {}); break;
      case 2: characterise<tessera::round_robin<request>>(all[2], rate, o.seeds, reasoning, 0.5, {}); break;
      default:
        characterise<tessera::round_robin<request>>(all[3], rate, o.seeds, reasoning, 0.5,
                                                    {.fewest_quanta_first = true});
    }
  });
  return all;
}

// -- the page -------------------------------------------------------------------------------------------------------

std::string percent(double x, int digits = 1) { return fmt::format("{:+.{}f} %", 100 * x, digits); }
std::string share(const estimate& e) { return fmt::format("{:.2f} ± {:.2f} %", 100 * e.mean, 100 * e.half_width); }
/// How many times `b` is in `a`; nothing where there is nothing to compare with.
std::string times(double a, double b, int digits) {
  return a > 0 && b > 0 ? fmt::format(" ({:.{}f} times)", a / b, digits) : std::string{};
}
std::string seconds(const estimate& e) { return fmt::format("{:.2f} ± {:.2f}", e.mean, e.half_width); }

void show_section_three(page& p, const options& o) {
  p.heading("Section III: what blocking and preemption do to each phase (figures 4 and 5)");
  const double rate = o.quick ? 3.0 : rate_that_fills(std::min<std::size_t>(o.seeds, 3));
  p.text(fmt::format(
      "One instance, {} requests with prompts of 128 tokens, one of 128, 512, 1024, 1536 and 2048 tokens to "
      "generate, "
      "each "
      "as likely; Poisson arrivals at {:.2f}/s, where the requests that run at once just fill the GPU's KV memory if "
      "nobody ever waits (the paper names no rate). The oracle has all the memory it wants, the others half of the "
      "GPU's. Figure 4: all tokens are reasoning. Figure 5: all are answer, and a first token is due 0.25 s after "
      "the "
      "arrival, then one every 0.1 s; `rr` takes turns in a circle, `rr-quanta` by the quanta used.",
      characterised_requests, rate));
  for (const bool reasoning : {true, false}) {
    const auto all = characterise_all(o, rate, reasoning);
    std::vector<std::vector<std::string>> rows;
    plot figure{.title = reasoning ? "Reasoning latency relative to the oracle" : "Answers that meet their SLO",
                .x_label = "tokens",
                .y_label = reasoning ? "times the oracle" : "share",
                .curves = {},
                .drawn_as = style::bars};
    for (const std::int64_t n : characterised_lengths) figure.x_names.push_back(fmt::format("{}", n));
    for (const characterised& c : all) {
      series curve{.name = c.name, .x = {}, .y = {}};
      for (std::size_t i = 0; i != characterised_lengths.size(); ++i) {
        curve.y.push_back(reasoning ? c.total[i] / all[0].total[i] : c.attained[i]);
        rows.push_back({c.name, fmt::format("{}", characterised_lengths[i]), fmt::format("{:.1f}", c.executed[i]),
                        fmt::format("{:.1f}", c.blocked[i]), fmt::format("{:.1f}", c.preempted[i]),
                        fmt::format("{:.1f}", c.total[i]), fmt::format("{:.2f}", c.total[i] / all[0].total[i]),
                        reasoning ? "" : fmt::format("{:.1f} %", 100 * c.attained[i])});
      }
      figure.curves.push_back(std::move(curve));
    }
    p.figure(reasoning ? "figure4" : "figure5", reasoning ? "Figure 4" : "Figure 5 (b)", figure);
    p.table({"policy", "tokens", "executed s", "blocked s", "preempted s", "total s", "of the oracle's", "SLO met"},
            rows);
    if (reasoning) {
      p.text(fmt::format(
          "The paper: FCFS up to 5.14 times the oracle, on the shortest; RR up to 1.75 times, on the "
          "longest. Here: FCFS {:.2f} times on the shortest; RR {:.2f} times on the longest in a circle, "
          "{:.2f} by quanta.",
          all[1].total[0] / all[0].total[0], all[2].total[4] / all[0].total[4], all[3].total[4] / all[0].total[4]));
    }
  }
}

/// Loads, in parts of saturation. The paper's "high" may lie on either side of it.
const std::vector<double> all_levels{0.80, 0.93, 0.99, 1.05, 1.10};
const std::vector<double> about_saturation{0.99, 1.05};
constexpr double high = 0.99;
int in_percent(double level) { return static_cast<int>(std::lround(100 * level)); }

/// All runs of one workload.
struct evaluated {
  std::string workload;
  double saturation = 0;
  std::vector<std::string> names;  ///< Of the policies.
  std::vector<double> levels;
  std::vector<std::vector<samples>> at;  ///< Per level, per policy.
  /// Per policy.
  [[nodiscard]] const std::vector<samples>& at_level(double level) const {
    return at[static_cast<std::size_t>(std::find(levels.begin(), levels.end(), level) - levels.begin())];
  }
  [[nodiscard]] const samples& of(std::string_view name, double level) const {
    return at_level(level)[static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin())];
  }
};

/// The policy of a name.
struct lookup {
  const std::vector<sim::policy>& policies;
  [[nodiscard]] std::size_t operator[](std::string_view name) const {
    for (std::size_t i = 0; i != policies.size(); ++i) {
      if (policies[i].name == name) return i;
    }
    throw sim::usage_error{fmt::format("no policy {}", name)};
  }
};

series curve_of(const std::string& name, const std::map<std::int64_t, double>& values) {
  series s{.name = name, .x = {}, .y = {}};
  for (const auto& [bin, value] : values) {
    s.x.push_back(static_cast<double>(bin));
    s.y.push_back(value);
  }
  return s;
}

void tail_figure(page& p, const std::string& name, const std::string& caption, const std::vector<sim::policy>& policies,
                 const std::vector<samples>& all, std::span<const std::size_t> shown) {
  plot figure{.title = caption, .x_label = "reasoning tokens (bins of 256)", .y_label = "tail TTFT, s", .curves = {}};
  for (const std::size_t i : shown) figure.curves.push_back(curve_of(policies[i].name, bins(all[i], &sample::tail)));
  p.figure(name, caption, figure);
}

void bars_over_levels(page& p, const std::string& name, const std::string& caption, const std::string& y,
                      const std::vector<sim::policy>& policies, const evaluated& e, double (*value)(const sample&)) {
  plot figure{
      .title = caption, .x_label = "load, % of saturation", .y_label = y, .curves = {}, .drawn_as = style::bars};
  for (const double l : e.levels) figure.x_names.push_back(fmt::format("{}", in_percent(l)));
  for (std::size_t i = 0; i != policies.size(); ++i) {
    series s{.name = policies[i].name, .x = {}, .y = {}};
    for (std::size_t k = 0; k != e.levels.size(); ++k) s.y.push_back(over(e.at[k][i], value).mean);
    figure.curves.push_back(std::move(s));
  }
  p.figure(name, caption, figure);
}

void summary_table(page& p, const std::vector<sim::policy>& policies, const std::vector<samples>& all) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i != policies.size(); ++i) {
    const samples& s = all[i];
    rows.push_back({policies[i].name, seconds(over(s, [](const sample& x) { return x.numbers.ttft.mean; })),
                    seconds(over(s, [](const sample& x) { return x.numbers.ttft.p99; })),
                    share(over(s, [](const sample& x) { return x.numbers.slo_violation_rate; })),
                    seconds(over(s, [](const sample& x) { return x.numbers.blocking_p99; })),
                    seconds(over(s, [](const sample& x) { return x.numbers.kv_transfer_p99; })),
                    fmt::format("{:.0f}", over(s, [](const sample& x) { return x.numbers.window_tokens_per_s; }).mean),
                    fmt::format("{:.0f}", over(s, [](const sample& x) { return x.numbers.preemptions; }).mean),
                    fmt::format("{:.0f}", over(s, [](const sample& x) { return x.numbers.migrations; }).mean),
                    fmt::format("{:.2f}", over(s, [](const sample& x) { return x.same_target; }).mean), verdict(s)});
    for (std::string& cell : rows.back()) {
      if (cell.find("nan") != std::string::npos) cell = "-";
    }
  }
  p.table({"policy", "TTFT mean s", "TTFT P99 s", "SLO missed", "blocking P99 s", "KV transfer P99 s", "tokens/s",
           "preemptions", "migrations", "successive answers on one instance", "load"},
          rows);
}

/// Tail TTFT against FCFS and both round-robins.
void tail_table(page& p, const std::vector<sim::policy>& policies, const std::vector<samples>& all) {
  const lookup at{policies};
  std::vector<std::vector<std::string>> rows;
  for (const char* name :
       {"sarathi", "pascal", "pascal-nonadaptive", "pascal-nomigration", "pascal-paced", "due-first", "oracle"}) {
    std::vector<std::string> row{name};
    for (const char* base : {"fcfs", "rr", "rr-quanta"}) {
      const compared c = compare(all[at[name]], all[at[base]]);
      row.push_back(fmt::format("{} ± {:.1f} ({:.1f} s, bin {})", percent(c.best), 100 * c.best_half, c.best_seconds,
                                c.best_bin));
      row.push_back(fmt::format("{} ± {:.1f} (bin {})", percent(c.worst), 100 * c.worst_half, c.worst_bin));
    }
    rows.push_back(std::move(row));
  }
  p.table({"policy", "best bin, of FCFS", "worst", "best bin, of rr", "worst", "best bin, of rr-quanta", "worst"},
          rows);
}

/// The paper's claims beside what `name` does at every level.
void claims_table(page& p, const std::vector<sim::policy>& policies, const evaluated& e, const char* name) {
  const lookup at{policies};
  const auto mean = [&](std::size_t k, const char* who, auto f) { return over(e.at[k][at[who]], f).mean; };
  const auto slo = [](const sample& s) { return s.numbers.slo_violation_rate; };
  const auto blocking = [](const sample& s) { return s.numbers.blocking_p99; };
  const auto speed = [](const sample& s) { return s.numbers.window_tokens_per_s; };
  const auto median = [](const sample& s) { return s.numbers.e2e.p50; };
  const auto tail = [](const sample& s) { return s.numbers.e2e.p99; };
  const auto against = [&](std::size_t k, const char* who) { return compare(e.at[k][at[name]], e.at[k][at[who]]); };
  std::vector<std::vector<std::string>> rows;
  const auto row = [&](const char* what, const char* paper, auto f) {
    rows.push_back({what, paper});
    for (std::size_t k = 0; k != e.at.size(); ++k) rows.back().push_back(f(k));
  };
  row("best bin of tail TTFT, of FCFS", "-61 % (AlpacaEval), -72 % (Arena-Hard)", [&](std::size_t k) {
    const compared c = against(k, "fcfs");
    return fmt::format("{} ± {:.1f}", percent(c.best), 100 * c.best_half);
  });
  row("worst bin, of FCFS", "+6.12 %", [&](std::size_t k) { return percent(against(k, "fcfs").worst); });
  row("best bin, of RR (circle; by quanta)", "-33 % (AlpacaEval), -29 % (Arena-Hard)", [&](std::size_t k) {
    return fmt::format("{}; {}", percent(against(k, "rr").best), percent(against(k, "rr-quanta").best));
  });
  row("worst bin, of RR (circle; by quanta)", "+9.23 %", [&](std::size_t k) {
    return fmt::format("{}; {}", percent(against(k, "rr").worst), percent(against(k, "rr-quanta").worst));
  });
  row("throughput, of FCFS's", "within 3 %",
      [&](std::size_t k) { return percent(mean(k, name, speed) / mean(k, "fcfs", speed) - 1); });
  row("SLO missed", "no more than FCFS and RR", [&](std::size_t k) { return share(over(e.at[k][at[name]], slo)); });
  row("SLO missed by FCFS; RR in a circle; by quanta", "", [&](std::size_t k) {
    return fmt::format("{:.2f} %; {:.2f} %; {:.2f} %", 100 * mean(k, "fcfs", slo), 100 * mean(k, "rr", slo),
                       100 * mean(k, "rr-quanta", slo));
  });
  row("P99 blocking; without migration", "near 0; 27.39 s", [&](std::size_t k) {
    return fmt::format("{:.2f} s; {:.2f} s", mean(k, name, blocking), mean(k, "pascal-nomigration", blocking));
  });
  row("SLO missed when always migrating", "7.45 % (10.8 times)", [&](std::size_t k) {
    return fmt::format("{:.2f} %{}", 100 * mean(k, "pascal-nonadaptive", slo),
                       times(mean(k, "pascal-nonadaptive", slo), mean(k, name, slo), 1));
  });
  row("end-to-end latency when always migrating: median; P99", "+20.1 %; +9.7 %", [&](std::size_t k) {
    return fmt::format("{}; {}", percent(mean(k, "pascal-nonadaptive", median) / mean(k, name, median) - 1),
                       percent(mean(k, "pascal-nonadaptive", tail) / mean(k, name, tail) - 1));
  });
  row("load, of FCFS's runs", "", [&](std::size_t k) { return verdict(e.at[k][at["fcfs"]]); });
  row("load, of its runs", "", [&](std::size_t k) { return verdict(e.at[k][at[name]]); });
  std::vector<std::string> header{fmt::format("`{}`: claim", name), "paper, high load"};
  for (const double l : e.levels) header.push_back(fmt::format("{} %", in_percent(l)));
  p.table(header, rows);
}

/// How much a workload is looked at.
struct effort {
  std::size_t requests;    ///< Of a run.
  std::size_t saturating;  ///< Of a run that looks for saturation.
  std::vector<double> levels;
  /// Runs per number: far below saturation they differ little.
  [[nodiscard]] static std::size_t seeds_at(double load, std::size_t seeds) {
    return load < 0.9 ? (seeds + 1) / 2 : seeds;
  }
};

evaluated evaluate(page& p, const options& o, const sim::workload& w, const effort& f, bool migration_figures) {
  evaluated e;
  e.workload = w.name;
  e.levels = f.levels;
  e.saturation = saturation_rate(w, f.saturating, o.quick ? 1 : 2, o.threads);
  const std::vector<sim::policy> policies =
      compared_policies(sim::generate(w, f.requests, high * e.saturation, history_seed));
  for (const sim::policy& policy : policies) e.names.push_back(policy.name);
  const lookup at{policies};
  const sim::length_means means = sim::mean_lengths(w);
  p.heading(fmt::format("Section V on {}", w.name));
  p.text(fmt::format(
      "{}. Source: {}. Mean lengths: prompt {:.0f}, reasoning {:.0f}, answer {:.0f}. FCFS saturates at "
      "{:.2f} requests/s (found with {} arrivals). {} requests a run.",
      w.summary, w.source, means.prompt, means.reasoning, means.answer, e.saturation, f.saturating, f.requests));
  for (const double l : e.levels) {
    e.at.push_back(run_all(o, policies, w, l * e.saturation, f.requests, effort::seeds_at(l, o.seeds)));
  }
  for (const char* name : {"pascal", "pascal-paced", "due-first"}) claims_table(p, policies, e, name);
  for (std::size_t k = 0; k != e.levels.size(); ++k) {
    p.text(fmt::format("**{} at {} % of saturation, {:.2f} requests/s**, {} seeds", w.name, in_percent(e.levels[k]),
                       e.levels[k] * e.saturation, e.at[k].front().size()));
    summary_table(p, policies, e.at[k]);
    tail_table(p, policies, e.at[k]);
    const std::array<std::size_t, 5> shown{at["fcfs"], at["rr"], at["rr-quanta"], at["pascal"], at["pascal-paced"]};
    tail_figure(
        p, fmt::format("{}_tail_{}", w.name, in_percent(e.levels[k])),
        fmt::format("{}: {}, {} % of saturation", w.name == "reasoning-heavy" ? "Figure 16" : "Figures 9 and 10",
                    w.name, in_percent(e.levels[k])),
        policies, e.at[k], shown);
  }
  bars_over_levels(p, fmt::format("{}_slo", w.name), fmt::format("Figure 11: SLO missed, {}", w.name), "share",
                   policies, e, [](const sample& s) { return s.numbers.slo_violation_rate; });
  bars_over_levels(p, fmt::format("{}_throughput", w.name), fmt::format("Figure 12: throughput, {}", w.name),
                   "output tokens/s", policies, e, [](const sample& s) { return s.numbers.window_tokens_per_s; });
  if (!migration_figures) return e;
  const std::array<std::size_t, 3> migration{at["pascal"], at["pascal-nomigration"], at["pascal-nonadaptive"]};
  tail_figure(p, fmt::format("{}_migration", w.name),
              fmt::format("Figures 13 (a) and 15 (a): with and without migration, {}, {} % of saturation", w.name,
                          in_percent(high)),
              policies, e.at_level(high), migration);
  plot reasoning{.title = "Figure 13 (b): reasoning latency",
                 .x_label = "reasoning tokens (bins of 256)",
                 .y_label = "mean, s",
                 .curves = {}};
  for (const std::size_t i : migration) {
    reasoning.curves.push_back(curve_of(policies[i].name, bins(e.at_level(high)[i], &sample::reasoning)));
  }
  p.figure(fmt::format("{}_reasoning", w.name),
           fmt::format("Figure 13 (b): {}, {} % of saturation", w.name, in_percent(high)), reasoning);
  return e;
}

evaluated show_ablation(page& p, const options& o, const sim::workload& w, const effort& f, double saturation) {
  p.heading("What each rule contributes");
  p.text(
      fmt::format("{} at {} % of saturation. First FCFS by other placements of new requests; then `pascal`, one rule "
                  "off or changed at a time, all else as it is.",
                  w.name, in_percent(high)));
  const std::vector<sim::policy> policies = ablations();
  const auto all = run_all(o, policies, w, high * saturation, f.requests, o.seeds);
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i != policies.size(); ++i) {
    const compared c = compare(all[i], all[0]);
    rows.push_back({policies[i].name, seconds(over(all[i], [](const sample& s) { return s.numbers.ttft.mean; })),
                    fmt::format("{} ± {:.1f}", percent(c.best), 100 * c.best_half), percent(c.worst),
                    share(over(all[i], [](const sample& s) { return s.numbers.slo_violation_rate; })),
                    seconds(over(all[i], [](const sample& s) { return s.numbers.blocking_p99; })),
                    fmt::format("{:.0f}", over(all[i], [](const sample& s) { return s.numbers.preemptions; }).mean),
                    fmt::format("{:.2f}", over(all[i], [](const sample& s) { return s.same_target; }).mean)});
  }
  p.table({"policy", "TTFT mean s", "best bin, of FCFS", "worst", "SLO missed", "blocking P99 s", "preemptions",
           "successive answers on one instance"},
          rows);
  evaluated e;
  e.workload = w.name;
  e.levels = {high};
  e.at = {all};
  for (const sim::policy& policy : policies) e.names.push_back(policy.name);
  return e;
}

/// What of the paper's evaluation these runs repeat, and what not.
void conclude(page& p, const std::vector<evaluated>& chats, const std::vector<evaluated>& others,
              const evaluated& rules) {
  const auto slo = [](const sample& s) { return s.numbers.slo_violation_rate; };
  const auto missed = [&](const evaluated& e, const char* who, double l) {
    return fmt::format("{:.2f}", 100 * over(e.of(who, l), slo).mean);
  };
  const auto best = [](const evaluated& e, const char* who, const char* base, double l) {
    const compared c = compare(e.of(who, l), e.of(base, l));
    return fmt::format("{:.0f} ± {:.0f}", 100 * c.best, 100 * c.best_half);
  };
  const auto worst = [](const evaluated& e, const char* who, const char* base, double l) {
    return fmt::format("{:+.0f}", 100 * compare(e.of(who, l), e.of(base, l)).worst);
  };
  // "alpaca-chat x, arena-chat y"
  const auto each = [&](auto&& f) {
    std::string text;
    for (const evaluated& e : chats) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", e.workload, f(e));
    return text;
  };
  double widest = 0;
  for (const evaluated& e : chats) {
    for (const double l : e.levels) {
      const auto speed = [&](const char* who) {
        return over(e.of(who, l), [](const sample& s) { return s.numbers.window_tokens_per_s; }).mean;
      };
      for (const char* base : {"fcfs", "rr", "rr-quanta"})
        widest = std::max(widest, std::abs(speed("pascal") / speed(base) - 1));
    }
  }
  const auto at = [&](const char* who, auto f) { return over(rules.of(who, high), f).mean; };
  const auto ttft = [](const sample& s) { return s.numbers.ttft.mean; };
  const auto p99 = [](const sample& s) { return s.numbers.ttft.p99; };
  const auto blocking = [](const sample& s) { return s.numbers.blocking_p99; };
  const auto against = [](const evaluated& e, auto f) {
    return fmt::format("{:.2f} s against {:.2f} s", over(e.of("pascal", 1.05), f).mean,
                       over(e.of("fcfs", 1.05), f).mean);
  };
  const auto chance = [&](const char* who) {
    const compared c = compare(rules.of(who, high), rules.of("fcfs", high));
    return fmt::format("{:.0f} ± {:.0f} at best and {:+.0f} at worst", 100 * c.best, 100 * c.best_half, 100 * c.worst);
  };
  p.lead(fmt::format(
      "**How much of a best bin is luck.** FCFS that places by the fewest requests, or by the KV that is held, "
      "instead "
      "of "
      "by the least load, is no other discipline. Its bins at 99 % on {}, in per cent of FCFS's: {}; {}. `pascal`'s: "
      "{}. "
      "So much of a best or a worst bin, chosen afterwards, is what any change has.",
      rules.workload, chance("fcfs, shortest-queue"), chance("fcfs, least-kv"), chance("pascal")));
  p.lead(
      "**What holds, on the chat workloads.** Changes are in per cent; the best bin is the best of many, chosen "
      "after "
      "the fact, and so is the paper's.");
  p.lead(fmt::format(
      "- *Tail TTFT up to 61 and 72 % below FCFS*: repeated close to saturation. Best bin at 99 %: {}; at 93 %: {}. "
      "At "
      "80 "
      "% there is nothing to gain: {}. **Above saturation it gives way**: at 105 % {} at best, {} at worst; at 110 % "
      "{} "
      "at best, {} at worst.\n"
      "- *Up to 33 and 29 % below round-robin*: best bin at 99 %, of the circle {}; of quanta {}.\n"
      "- *Throughput within 3 %*: repeated at every load; in the window in which requests arrive `pascal` differs "
      "from "
      "FCFS and both round-robins by {:.1f} % at most.\n"
      "- *SLO missed no more often than by FCFS and RR*: repeated up to 93 %. **At 99 % it falls**: `pascal` misses "
      "{} "
      "%, "
      "FCFS {} %, RR {} % in a circle and {} % by quanta; at 105 % `pascal` {} %, FCFS {} %.\n"
      "- *Past capacity PASCAL keeps TTFT low and lets the SLO suffer*: half of it. Its mean TTFT at 105 % stays "
      "below "
      "FCFS's ({}), its P99 does not everywhere ({}), the tail of short reasoning grows (the worst bins above), and "
      "more "
      "is left behind than under FCFS. `pascal-paced` and `due-first`, which serve readers who are about to run dry, "
      "miss "
      "at 105 % {} % and {} % of the SLO, with mean TTFTs of {} and {}.\n"
      "- *Without migration answers block, with it they hardly do*: up to 93 % neither does. At 99 % P99 of blocking "
      "is "
      "{}: less, not near zero.\n"
      "- *Always migrating costs*: repeated up to 99 % in kind; SLO missed there: {}; in the paper 10.8 times "
      "`pascal`'s. Above saturation both miss about as much.",
      each([&](auto& e) { return best(e, "pascal", "fcfs", 0.99); }),
      each([&](auto& e) { return best(e, "pascal", "fcfs", 0.93); }),
      each([&](auto& e) { return best(e, "pascal", "fcfs", 0.80); }),
      each([&](auto& e) { return best(e, "pascal", "fcfs", 1.05); }),
      each([&](auto& e) { return worst(e, "pascal", "fcfs", 1.05); }),
      each([&](auto& e) { return best(e, "pascal", "fcfs", 1.10); }),
      each([&](auto& e) { return worst(e, "pascal", "fcfs", 1.10); }),
      each([&](auto& e) { return best(e, "pascal", "rr", 0.99); }),
      each([&](auto& e) { return best(e, "pascal", "rr-quanta", 0.99); }), 100 * widest,
      each([&](auto& e) { return missed(e, "pascal", 0.99); }), each([&](auto& e) { return missed(e, "fcfs", 0.99); }),
      each([&](auto& e) { return missed(e, "rr", 0.99); }), each([&](auto& e) { return missed(e, "rr-quanta", 0.99); }),
      each([&](auto& e) { return missed(e, "pascal", 1.05); }), each([&](auto& e) { return missed(e, "fcfs", 1.05); }),
      each([&](auto& e) { return against(e, ttft); }), each([&](auto& e) { return against(e, p99); }),
      each([&](auto& e) { return missed(e, "pascal-paced", 1.05); }),
      each([&](auto& e) { return missed(e, "due-first", 1.05); }),
      each([&](auto& e) { return fmt::format("{:.2f} s", over(e.of("pascal-paced", 1.05), ttft).mean); }),
      each([&](auto& e) { return fmt::format("{:.2f} s", over(e.of("due-first", 1.05), ttft).mean); }),
      each([&](auto& e) {
        return fmt::format("{:.1f} s without, {:.1f} s with it", over(e.of("pascal-nomigration", 0.99), blocking).mean,
                           over(e.of("pascal", 0.99), blocking).mean);
      }),
      each([&](auto& e) {
        const double always = over(e.of("pascal-nonadaptive", 0.99), slo).mean;
        return fmt::format("{:.2f} %{}", 100 * always, times(always, over(e.of("pascal", 0.99), slo).mean, 1));
      })));
  for (const evaluated& e : others) {
    p.lead(fmt::format(
        "**On {}** at 99 and 105 %: best bin {} and {}, worst {} and {}, of FCFS's; SLO missed {} and {} "
        "%, by FCFS {} "
        "and "
        "{} %. Load at 99 %: {}; under FCFS {}.{}",
        e.workload, best(e, "pascal", "fcfs", 0.99), best(e, "pascal", "fcfs", 1.05), worst(e, "pascal", "fcfs", 0.99),
        worst(e, "pascal", "fcfs", 1.05), missed(e, "pascal", 0.99), missed(e, "pascal", 1.05), missed(e, "fcfs", 0.99),
        missed(e, "fcfs", 1.05), verdict(e.of("pascal", 0.99)), verdict(e.of("fcfs", 0.99)),
        e.workload == "reasoning-heavy" ? " The paper's figure 16, -70 at best, is repeated; its +6.8 at worst is not."
                                        : ""));
  }
  p.lead(fmt::format(
      "**Which load is meant.** The paper names no rate. Its numbers are nearest to those at 99 % here, where most "
      "runs "
      "of FCFS still carry what arrives ({}), but not all of `pascal`'s ({}). At 105 and 110 % FCFS does not: {}; "
      "{}. "
      "Where the load is not carried, latencies say how long the run was. Close to saturation the draw decides much: "
      "see "
      "the intervals, which are of {} seeds. At 105 % the best bin of `pascal-paced` is {}, of `due-first` {}.",
      each([&](auto& e) { return verdict(e.of("fcfs", 0.99)); }),
      each([&](auto& e) { return verdict(e.of("pascal", 0.99)); }),
      each([&](auto& e) { return verdict(e.of("fcfs", 1.05)); }),
      each([&](auto& e) { return verdict(e.of("fcfs", 1.10)); }), chats.front().of("fcfs", high).size(),
      each([&](auto& e) { return best(e, "pascal-paced", "fcfs", 1.05); }),
      each([&](auto& e) { return best(e, "due-first", "fcfs", 1.05); })));
  p.lead(fmt::format(
      "**Baselines and placement.** FCFS and both round-robins send new requests where the least KV is held or "
      "waited "
      "for (`least-load`). By KV held alone, or by the fewest requests, FCFS's mean TTFT on {} at 99 % is {:.2f} and "
      "{:.2f} s instead of {:.2f}; with stall-free steps (`sarathi`) it is FCFS, prompts being short. PASCAL's "
      "Algorithm 1 counts what waits, too, which the paper leaves open; counting only what is held changes its mean "
      "TTFT from {:.2f} to {:.2f} s and its SLO misses from {:.2f} to {:.2f} %.",
      rules.workload, at("fcfs, least-kv", ttft), at("fcfs, shortest-queue", ttft), at("fcfs", ttft),
      at("pascal", ttft), at("arrivals count only what is held", ttft), 100 * at("pascal", slo),
      100 * at("arrivals count only what is held", slo)));
}

void run(const options& o) {
  page p{o, "PASCAL: phase-aware scheduling of reasoning requests"};
  p.text(fmt::format(
      "Simulated: 8 instances of `{}` ({} KV blocks of 16 tokens each), batches of at most 256, 8,192 tokens a step, "
      "100 Gbit/s between instances, Poisson arrivals (r1-servegen: as bursty as its data). Every number is a mean "
      "over "
      "{} seeds, half as many at 80 %, ± half of its 95 % interval. Tail TTFT per 256-token bin of reasoning length "
      "as "
      "in the paper's figure 10, averaged over the seeds; "
      "bins that some seed lacks are left out. Saturation is the highest rate at which FCFS completes, during the "
      "last "
      "two thirds of the arrivals, at least {:.0f} % of the tokens that arrive. An eighth of the time in which "
      "requests "
      "arrive is left out at either end; tokens/s are those generated in between. \"Load\" says of how many runs the "
      "number that waits has a trend or not (see [replay](../../replay.md)), and by what part of the arrivals it "
      "grows.",
      profile_name, sim::find_profile(profile_name).kv_blocks(block_size).count(), o.seeds, 100 * follows_at_least));
  p.heading("How the paper is read");
  p.text(
      "**Whose turn it is.** `rr` takes turns in a circle: whoever has used a quantum goes behind everyone, and so "
      "does "
      "whoever arrives. `rr-quanta` and `pascal` put first who has used the fewest quanta. The paper's text speaks "
      "for "
      "the second (requests \"receive progressively lower priority\", an answer in its first quantum is \"more "
      "likely "
      "to "
      "be scheduled next\"), and so does its figure 5: answers that begin promptly while memory is full are possible "
      "only "
      "if arrivals go ahead. Figure 2 (c) is the same either way, and figure 4 speaks against it: "
      "the 1.75 times on the longest is nearer to the circle. Neither reading gives both figures. Both are shown "
      "wherever "
      "RR is compared with.");
  p.text(
      "**Enough memory to stay.** The adaptive rule keeps an answer where there is memory for it. `pascal` asks for "
      "one "
      "quantum of it, 32 blocks. Asked only for the block of the next token, an instance that is all but full counts "
      "as "
      "roomy, and answers that stay lose their blocks to the next arrival: \"adaptive, no headroom\" below.");
  p.text(
      "**`pascal-paced`** is not in the paper. Reasoning goes first as in PASCAL, except before an answer whose "
      "reader "
      "is "
      "about to run dry; answers go by their readers' deadlines; an answer moves only if memory is short where it "
      "is, "
      "to "
      "where the least KV is held. What each half of it does alone is in the table of the rules. "
      "Its parameters, PASCAL's headroom and the reading by quanta were chosen on alpaca-chat, arena-chat and "
      "reasoning-chat at 80 to 99 % of saturation with other seeds than those here; r1-servegen and reasoning-heavy "
      "were "
      "not tuned on. `due-first` is [our composition](../due_first/README.md); what it knows of lengths it knows "
      "from "
      "a "
      "workload drawn under another seed.");
  p.text(
      "**Where the paper's rules end.** At low load memory does not bind, and all policies are the oracle's equals. "
      "Below saturation the rules hold. Close to it and above, reasoning takes memory from answers and nothing "
      "limits "
      "that: an answer which has used its first quantum waits for every reasoning request and every fresh answer, "
      "those "
      "of its instance miss their SLO one after the other, and those that stay or arrive there wait at their phase "
      "change, which shows in the tail TTFT of short reasoning. \"Successive answers on one instance\" measures "
      "herding: "
      "the mean run of phase changes, in order of time, that go on at the same of 8 instances (1.14 if they were "
      "independent and even). Always following Algorithm 2 herds most.");
  show_section_three(p, o);
  const effort chat{o.quick ? 300U : 10'000U, o.quick ? 300U : 24'000U, all_levels};
  const effort other{4'000, 24'000, about_saturation};
  const sim::workload& alpaca = sim::find_workload("alpaca-chat");
  std::vector<evaluated> chats;
  chats.push_back(evaluate(p, o, alpaca, chat, true));
  chats.push_back(evaluate(p, o, sim::find_workload("arena-chat"), chat, true));
  std::vector<evaluated> others;
  if (!o.quick) {
    for (const char* name : {"r1-servegen", "reasoning-heavy"})
      others.push_back(evaluate(p, o, sim::find_workload(name), other, false));
  }
  conclude(p, chats, others, show_ablation(p, o, alpaca, chat, chats.front().saturation));
  p.finish();
}

const bool added = reproduce::add({"pascal", "PASCAL: figures 4, 5, 9 to 13, 15, 16 and section V-C", run});

}  // namespace
