// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What one death costs: 60 s without one of eight instances, under each published policy.
#include "pascal_setting.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using namespace reproduce;

constexpr std::size_t instances = 8;
constexpr double rate = 24;     // requests per second
constexpr double dies_s = 120;  // after the first arrival
constexpr double dead_s = 60;
constexpr double length_s = 360;
constexpr double bin_s = 5;      // of arrivals; the mean TTFT of each bin is followed
constexpr double normal = 1.25;  // times what it is without the death
constexpr std::size_t quiet_bins = 3;
constexpr const char* objectives = "ttft=2,tpot=0.1";

/// What is compared between a run with the death and one without.
struct sample {
  double ttft = 0, ttft_before = 0;  // P99 of the requests that arrive from the death to a minute after the return
  double goodput = 0, goodput_before = 0;  // the part of the same requests that is within the objectives
  double recovered = 0, recomputed = 0;
  double settles_s = 0;  // from the death until TTFT is as without it
};

/// Mean TTFT of the arrivals in each `bin_s` from the death on.
std::vector<double> followed(const run_result& r, double from) {
  std::vector<double> sum;
  std::vector<double> n;
  for (const sim::request_record& q : r.requests) {
    if (q.arrival < from) continue;
    const auto bin = static_cast<std::size_t>((q.arrival - from) / bin_s);
    if (bin >= sum.size()) sum.resize(bin + 1), n.resize(bin + 1);
    sum[bin] += q.ttft();
    n[bin] += 1;
  }
  for (std::size_t b = 0; b != sum.size(); ++b) sum[b] /= n[b];  // NaN of none
  return sum;
}

/// Seconds until the first of `quiet_bins` bins in a row in which the TTFT is as without the death.
double settles(const std::vector<double>& with, const std::vector<double>& without) {
  std::size_t quiet = 0;
  for (std::size_t b = 0; b != with.size(); ++b) {
    quiet = with[b] > normal * without[b] ? 0 : quiet + 1;
    if (quiet == quiet_bins) return bin_s * static_cast<double>(b + 1 - quiet_bins);
  }
  return bin_s * static_cast<double>(with.size());
}

sample compare(const run_result& with, const run_result& without, double died) {
  sample s;
  const sim::measured_window window{.from = died, .to = died + dead_s + 60};
  const auto bounds = sim::parse_slo(objectives);
  const auto p99 = [&](const run_result& r) {
    std::vector<double> ttft;
    for (const sim::request_record& q : r.requests) {
      if (window.contains(q.arrival)) ttft.push_back(q.ttft());
    }
    return sim::describe(std::move(ttft)).p99;
  };
  s.ttft = p99(with);
  s.ttft_before = p99(without);
  s.goodput = sim::evaluate_slo(bounds, with.requests, window).attainment;
  s.goodput_before = sim::evaluate_slo(bounds, without.requests, window).attainment;
  s.recovered = static_cast<double>(with.numbers.faults.recovered);
  s.recomputed = with.numbers.faults.recomputed;
  s.settles_s = settles(followed(with, died), followed(without, died));
  return s;
}

estimate mean_of(const std::vector<sample>& runs, double sample::*which, double scale = 1) {
  std::vector<double> values;
  for (const sample& s : runs) values.push_back(scale * (s.*which));
  return sim::estimate_mean(values);
}

void run(const options& o) {
  results out{o};
  struct death {
    sim::policy policy;
    std::size_t instance;
    std::string worker;  ///< Which kind dies, in systems with pools.
  };
  std::vector<death> deaths;
  for (const sim::policy& one : compared_with()) {
    if (one.needs_scores) continue;
    deaths.push_back({one, 0, one.pools == 0 ? "" : "prefill"});
    const sim::pool_sizes pools = one.pools == 2 ? sim::halves(instances) : sim::three_pools(instances);
    if (one.pools != 0) deaths.push_back({one, pools.prefill, "decode"});
  }
  const auto requests = static_cast<std::size_t>(rate * (o.quick ? 200 : length_s));
  const sim::workload& w = sim::find_workload("azure-conv");
  std::vector<std::vector<sample>> samples(deaths.size(), std::vector<sample>(o.seeds));
  sim::run_parallel(deaths.size() * o.seeds, o.threads, [&](std::size_t k) {
    const std::size_t seed = k / deaths.size();
    const death& d = deaths[k % deaths.size()];
    const rows_type rows = sim::generate(w, requests, rate, seed + 1);
    cluster_options c = pascal_setting::cluster_for(rows, instances);
    c.seed = seed + 1;
    const auto quiet = [](std::size_t) {};
    const run_result without = d.policy.run(c, rows, quiet);
    const double died = rows.front().arrival_s + (o.quick ? 30 : dies_s);
    c.faults = {{.kind = sim::fault_kind::dies, .instance = d.instance, .at_s = died, .for_s = dead_s}};
    samples[k % deaths.size()][seed] = compare(d.policy.run(c, rows, quiet), without, died);
  });
  std::vector<row> rows;
  for (std::size_t i = 0; i != deaths.size(); ++i) {
    const std::vector<sample>& s = samples[i];
    rows.push_back({deaths[i].policy.name, deaths[i].worker, mean_of(s, &sample::ttft),
                    mean_of(s, &sample::ttft_before), mean_of(s, &sample::goodput, 100),
                    mean_of(s, &sample::goodput_before, 100), mean_of(s, &sample::recovered),
                    mean_of(s, &sample::recomputed), mean_of(s, &sample::settles_s)});
  }
  out.table("deaths",
            {"policy", "dead_worker", "ttft_p99_s±", "ttft_p99_without_s±", "good_pct±", "good_without_pct±",
             "recovered_requests±", "recomputed_tokens±", "settles_s±"},
            rows);
  out.finish();
}

[[maybe_unused]] const bool added =
    reproduce::add({"faults", "what the death of one of eight instances costs, under each published policy", run});

}  // namespace
