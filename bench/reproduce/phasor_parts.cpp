// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fragmentation, skew, what each part of Phasor contributes, and energy.
#include "phasor_runs.hpp"

#include <tessera/sim/input/archetypes.hpp>
#include <tessera/sim/systems/disaggregated.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace reproduce::phasor_runs {

// Figure 6: code at 10 requests a second, where decode memory binds. Stranded: free blocks of workers that have fewer
// than a typical request needs. Blocked: all free blocks while a request waits on one worker for memory that all
// together have.
void fragmentation(results& out, const options& o) {
  const std::vector<contestant> all{splitwise(), distserve(), phasor("Phasor", {}),
                                    phasor("Phasor without defragmentation", {.defragments = false})};
  const auto runs = run_all(o, all.size(), [&](std::size_t i, std::uint64_t seed) {
    const auto rows = steady(find("S-L"), 10, requests_at(o, 10), seed);
    return all[i].run(cluster_of(testbed(), rows.size()), find("S-L"), rows);
  });
  std::vector<row> rows;
  for (std::size_t i = 0; i != all.size(); ++i) {
    const auto measure = [&](const char* name, double scale) {
      return mean_of(runs[i], [&](const run_result& r) {
        const auto found = r.measures.find(name);
        return found == r.measures.end() ? 0.0 : scale * found->second;
      });
    };
    std::vector<sim::load_verdict> load;
    for (const run_result& r : runs[i]) load.push_back(r.numbers.load);
    rows.push_back(joined<cell>(
        {all[i].name, measure("blocked_memory_mean", 100), measure("blocked_memory_peak", 100),
         mean_of(runs[i], [](const run_result& r) { return 100 * r.numbers.fragmentation_mean; }).mean,
         measure("defragmentation_moves", 1), mean_of(runs[i], [](const run_result& r) { return r.numbers.e2e.p99; })},
        load_cells(load)));
  }
  out.table("fragmentation",
            joined<std::string>(
                {"system", "blocked_mean_pct±", "blocked_peak_pct±", "stranded_mean_pct", "moves±", "e2e_p99_s±"},
                load_columns),
            rows);
}

// Figure 7: the production mix. From 90 s to 210 s, 35 requests a second come, more than four of these workers can
// compute. The mean length of the longest prefill queue over that of the others.
void skew(results& out, const options& o) {
  const contestant by_memory{"memory-aware",
                             [](const sim::cluster_options& c, const archetype&, const std::vector<trace_row>& rows) {
                               return simulate(c, {workers / 2, workers / 2, 0}, sim::memory_aware{}, rows);
                             }};
  const std::vector<contestant> all{by_memory, distserve(), phasor("Phi", {.mixed_pool = false})};
  const auto runs = run_all(o, all.size(), [&](std::size_t i, std::uint64_t seed) {
    const auto rows = shock(find("mix"), seed, 120, 35);
    return all[i].run(cluster_of(testbed(), rows.size()), find("mix"), rows);
  });
  std::vector<row> rows;
  for (std::size_t i = 0; i != all.size(); ++i) {
    rows.push_back({all[i].name,
                    mean_of(runs[i], [](const run_result& r) { return r.measures.at("prefill_queue_skew"); }),
                    mean_of(runs[i], [](const run_result& r) { return r.numbers.ttft.p99; })});
  }
  out.table("queues", {"routing", "queue_skew±", "ttft_p99_s±"}, rows);
}

// Table 2 and the capacity of figure 5, relative to DistServe. P99 TTFT is that of summaries at 10 requests a second.
// P99 end to end is that of code at 10 and of the mix at 30.
void ablation(results& out, const options& o) {
  const std::vector<contestant> all{splitwise(),
                                    distserve(),
                                    phasor("Phasor", {}),
                                    phasor("without Phi", {.by_phi = false}),
                                    phasor("without mixed pool", {.mixed_pool = false}),
                                    phasor("without defragmentation", {.defragments = false}),
                                    phasor_with_queues()};
  const std::vector<std::array<double, 6>> paper{
      {1.22, 1.13, 1.34, 0.91, 0.86, 0.93}, {1, 1, 1, 1, 1, 1},
      {0.66, 0.91, 0.74, 1.59, 1.63, 1.85}, {0.92, 0.95, 0.90, 1.42, 1.55, 1.52},
      {0.72, 0.93, 0.82, 1.50, 1.58, 1.48}, {0.68, 0.96, 0.82, 1.35, 1.60, 1.68}};
  const std::size_t requests = capacity_requests(o);
  struct measured {
    double summaries, code, mix, code_capacity, summaries_capacity, mix_capacity;
  };
  const auto runs = run_all(o, all.size(), [&](std::size_t i, std::uint64_t seed) {
    const auto run = [&](const char* name, double rate) {
      const auto rows = steady(find(name), rate, requests_at(o, rate), seed);
      return all[i].run(cluster_of(testbed(), rows.size()), find(name), rows).numbers;
    };
    return measured{run("L-S", 10).ttft.p99,
                    run("S-L", 10).e2e.p99,
                    run("mix", 30).e2e.p99,
                    slo_concurrency(all[i], find("S-L"), requests, requests, seed),
                    slo_concurrency(all[i], find("L-S"), requests, requests, seed),
                    slo_concurrency(all[i], find("mix"), requests, requests, seed)};
  });
  const std::array<double measured::*, 6> columns{
      &measured::summaries,          &measured::code,        &measured::mix, &measured::code_capacity,
      &measured::summaries_capacity, &measured::mix_capacity};
  std::vector<row> rows;
  for (std::size_t i = 0; i != all.size(); ++i) {
    row cells{all[i].name};
    for (const auto& column : columns) {
      const auto get = [&](const measured& r) { return r.*column; };
      cells.emplace_back(mean_of(runs[i], get).mean / mean_of(runs[1], get).mean);
    }
    for (std::size_t c = 0; c != columns.size(); ++c) cells.push_back(i < paper.size() ? cell{paper[i][c]} : cell{});
    rows.push_back(std::move(cells));
  }
  std::vector<std::string> header{"system"};
  for (const char* from : {"", "paper_"}) {
    for (const char* name :
         {"summaries_ttft_p99", "code_e2e_p99", "mix_e2e_p99", "code_capacity", "summaries_capacity", "mix_capacity"}) {
      header.push_back(fmt::format("{}{}_ratio", from, name));
    }
  }
  out.table("parts", header, rows);
}

// Table 5: the production mix at 20 requests a second, relative to the published settings.
void sensitivity(results& out, const options& o) {
  const std::vector<contestant> all{phasor("as published", {}),
                                    phasor("alpha x 0.5", {.alpha = 0.5}),
                                    phasor("alpha x 2", {.alpha = 2}),
                                    phasor("theta_frag 0.10", {.theta_frag = 0.10}),
                                    phasor("theta_frag 0.35", {.theta_frag = 0.35}),
                                    phasor("epoch 20 ms", {.epoch_s = 0.02}),
                                    phasor("epoch 200 ms", {.epoch_s = 0.2}),
                                    phasor("theta_flow 0.50", {.theta_flow = 0.5}),
                                    phasor("theta_flow 0.80", {.theta_flow = 0.8})};
  using pair = std::array<double, 2>;
  const std::array<pair, 9> paper{pair{1, 1},       pair{1.14, 1.18}, pair{0.99, 1.00},
                                  pair{1.09, 1.12}, pair{1.00, 1.00}, pair{0.99, 0.99},
                                  pair{1.06, 1.08}, pair{1.02, 1.01}, pair{1.04, 1.03}};
  const auto runs = run_all(o, all.size(), [&](std::size_t i, std::uint64_t seed) {
    const auto rows = steady(find("mix"), 20, requests_at(o, 20), seed);
    return all[i].run(cluster_of(testbed(), rows.size()), find("mix"), rows).numbers;
  });
  const auto e2e = [](const sim::summary& s) { return s.e2e.p99; };
  const auto ttft = [](const sim::summary& s) { return s.ttft.p99; };
  std::vector<row> rows;
  for (std::size_t i = 0; i != all.size(); ++i) {
    rows.push_back({all[i].name, mean_of(runs[i], e2e).mean / mean_of(runs[0], e2e).mean,
                    mean_of(runs[i], ttft).mean / mean_of(runs[0], ttft).mean, paper[i][0], paper[i][1]});
  }
  out.table("sensitivity",
            {"parameter", "e2e_p99_ratio", "ttft_p99_ratio", "paper_e2e_p99_ratio", "paper_ttft_p99_ratio"}, rows);
}

// Table 6: the production mix at 30 requests a second. The power model is an assumption, not a measurement.
void energy(results& out, const options& o) {
  constexpr double idle_watts = 60;
  constexpr double busy_watts = 250;
  const std::vector<contestant> all{splitwise(), distserve(), phasor("Phasor", {})};
  using pair = std::array<double, 2>;
  const std::array<pair, 3> paper{pair{1315, 0.243}, pair{1410, 0.201}, pair{1720, 0.175}};
  const auto runs = run_all(o, all.size(), [&](std::size_t i, std::uint64_t seed) {
    const auto rows = steady(find("mix"), 30, requests_at(o, 30), seed);
    return all[i].run(cluster_of(testbed(), rows.size()), find("mix"), rows);
  });
  const auto seconds = [](const run_result& r) {
    double last = 0;
    for (const sim::request_record& q : r.requests) last = std::max(last, q.finish);
    return last - r.requests.front().arrival;
  };
  const auto joules = [&](const run_result& r) {
    double sum = idle_watts * seconds(r) * workers;
    for (const sim::instance_facts& f : r.instances) sum += (busy_watts - idle_watts) * f.busy_s;
    return sum;
  };
  const auto outputs = [](const run_result& r) {
    double sum = 0;
    for (const sim::instance_facts& f : r.instances) sum += static_cast<double>(f.output_tokens);
    return sum;
  };
  std::vector<row> rows;
  for (std::size_t i = 0; i != all.size(); ++i) {
    rows.push_back({all[i].name, mean_of(runs[i], [&](const run_result& r) { return joules(r) / seconds(r); }).mean,
                    mean_of(runs[i], [&](const run_result& r) { return outputs(r) / seconds(r); }).mean,
                    mean_of(runs[i], [&](const run_result& r) { return joules(r) / outputs(r); }).mean, paper[i][0],
                    paper[i][1]});
  }
  out.table("energy", {"system", "watts", "tokens_per_s", "joules_per_token", "paper_watts", "paper_joules_per_token"},
            rows);
}

}  // namespace reproduce::phasor_runs
