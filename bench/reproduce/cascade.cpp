// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CascadeInfer's evaluation: figures 6 to 16.
#include "cascade_runs.hpp"

#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profiles.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace reproduce::cascade_runs {

namespace {

// Figure 13: the errors of the cost model on held-out batches, and against the scheduler itself.
void cost_model(results& out) {
  const sim::profile h20 = on_h20(llama_3b());
  const auto rows = sim::profile_costs(h20);
  cost::fit_result relative;
  cost::fit_result absolute;
  static_cast<void>(cost::fit(rows, {}, relative));
  static_cast<void>(cost::fit(rows, {.relative = false}, absolute));
  // The same model against the scheduler itself: closed loops with a constant number in flight.
  double error = 0;
  int loops = 0;
  for (const std::int64_t length : {256, 1024, 4096, 16384}) {
    for (const std::size_t batch : {std::size_t{4}, std::size_t{32}}) {
      rows_type loop;
      std::mt19937_64 random{7};
      cost::batch_features load;
      const std::size_t n = 4 * batch;
      for (std::size_t i = 0; i != n; ++i) {
        const auto prompt = length + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(length));
        const auto output = 128 + static_cast<std::int64_t>(random() % 256);
        loop.push_back({.prompt_tokens = prompt, .output_tokens = output, .answer_tokens = output});
        if (i >= batch && i < 2 * batch) load.join({tokens{prompt}, tokens{prompt + output / 2}});
      }
      cluster_options c = cluster_of(h20, n, 1);
      c.in_flight = batch;
      const run_result r = simulate(c, sim::placed<tessera::placement::round_robin>{}, loop);
      double latency = 0;
      double counted = 0;
      for (const sim::request_record& q : r.requests) {
        if (q.id < batch || q.id >= 3 * batch) continue;  // the loop's start and end are not a loop
        latency += q.normalized_latency();
        counted += 1;
      }
      error += std::fabs(relative.model.per_request(load.features()) / (latency / counted) - 1);
      ++loops;
    }
  }
  out.table("cost_model", {"fit", "error_pct", "constant_error_pct"},
            {{"paper", 8.9, 64},
             {"relative least squares", 100 * relative.held_out_error, 100 * relative.constant_error},
             {"absolute least squares", 100 * absolute.held_out_error, 100 * absolute.constant_error},
             {"relative, against the scheduler", 100 * error / loops, {}}});
}

void run(const options& o) {
  results out{o};
  const sim::profile small = on_h20(llama_3b());
  const auto at = [](std::initializer_list<double> rates) {
    std::vector<load_point> loads;
    for (const double r : rates) loads.push_back({"", r});
    return loads;
  };
  std::vector<sweep> sweeps;
  const auto add_sweep = [&](const options& seeds, std::string name, const source& s, const sim::profile& t,
                             std::size_t instances, const std::vector<load_point>& loads, bool with_slo = false,
                             double seconds = 40, double warmup = 0) {
    sweeps.push_back(sweep_of(seeds, std::move(name), s, t, instances, loads, with_slo, seconds, warmup));
  };
  // Figures 6, 7 and 10.
  add_sweep(o, "long-tailed", long_chat(), small, gpus, at({30, 60, 90, 120, 200}), true);
  add_sweep(o, "ShareGPT", chat(o), small, gpus, loads_of(chat(o), small, gpus, {0.25, 0.5, 0.7, 0.85}), true);
  for (const sim::model_spec& m : {llama_8b(), qwen_14b(), qwen_32b()}) {
    const sim::profile t = on_h20(m);
    add_sweep(o, fmt::format("ShareGPT, {}", m.name), chat(o), t, gpus, loads_of(chat(o), t, gpus, {0.5, 0.75}));
  }
  // In 40 s no output of the longest tenth ends: the cluster only fills. So here is one in service.
  options fewer = o;
  fewer.seeds = std::min<std::size_t>(o.seeds, 5);
  constexpr double minute = 60;
  add_sweep(fewer, "long-tailed, 40 minutes", long_chat(), small, gpus, at({30, 40, 50, 60}), false, 40 * minute,
            40 * minute / 3);
  add_sweep(fewer, "ShareGPT, 15 minutes", chat(o), small, gpus, loads_of(chat(o), small, gpus, {0.5, 0.7}), false,
            15 * minute, 5 * minute);
  // Figures 9 and 11: the rates are where the baselines begin to queue.
  add_sweep(o, "long-tailed, L40", long_chat(), on_l40(llama_3b()), gpus, at({8, 14}));
  for (const int ways : {2, 4}) {
    const sim::profile t = in_parallel(on_h20(llama_70b()), ways);
    const double scale = ways == 2 ? 1 : 2;
    add_sweep(o, fmt::format("long-tailed, Llama-3.1-70B TP={}", ways), long_chat(), t,
              gpus / static_cast<std::size_t>(ways), at({2 * scale, 3.5 * scale}));
  }
  show_sweeps(out, sweeps);
  attainment(out, {&sweeps[0], &sweeps[1]});
  cost_model(out);
  variants(out, o);
  balance(out, o);
  limits(out, o);
  out.finish();
}

[[maybe_unused]] const bool added = add({"cascade", "figures 6, 7, 9 to 16: stages by length", run});

}  // namespace

}  // namespace reproduce::cascade_runs
