// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What each part of CascadeInfer contributes, and where it does not pay.
#include "cascade_runs.hpp"

#include <tessera/sim/planning/cascade_plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace reproduce::cascade_runs {

namespace {

/// Variants at two rates of the long-tailed workload, 3B on H20, beside the first.
void compare(const options& o, std::string_view what, const std::vector<contestant>& all, std::vector<row>& rows) {
  std::vector<point> points;
  for (const double rate : {90.0, 120.0}) {
    for (const contestant& c : all) {
      points.push_back({.from = long_chat(), .testbed = on_h20(llama_3b()), .rate = rate, .system = c});
    }
  }
  const auto runs = run_all(o, points);
  for (std::size_t i = 0; i != points.size(); ++i) {
    const bool first = i % all.size() == 0;
    const samples& reference = runs[i / all.size() * all.size()];
    rows.push_back({what, points[i].rate, points[i].system.name, mean_of(runs[i], &numbers::ttft),
                    in_ms(runs[i], &numbers::normalized),
                    first ? cell{} : cell{change(runs[i], reference, &numbers::normalized)},
                    mean_of(runs[i], &numbers::throughput),
                    first ? cell{} : cell{ratio(runs[i], reference, &numbers::throughput)}});
  }
}

/// The stages that each method plans, from 20,000 requests.
void plans(results& out, const options& o) {
  const sim::profile h20 = on_h20(llama_3b());
  std::vector<row> rows;
  for (const auto& [name, from, rate] :
       {std::tuple{"ShareGPT", chat(o), 90.0}, std::tuple{"long-tailed", long_chat(), 90.0}}) {
    const rows_type history = draw(from, rate, o.quick ? 300 : 20'000, 1);
    const cluster_options c = cluster_of(h20, history.size());
    for (const auto& [method, how] :
         {std::pair{"exact", sim::layout::exact}, std::pair{"merge", sim::layout::merge},
          std::pair{"chain", sim::layout::chain}, std::pair{"steady", sim::layout::steady}}) {
      const sim::cascade_plan plan = sim::plan_cascade(c, history, rate, how);
      rows.push_back({name, method, describe_stages(plan.stages), 1e3 * plan.seconds});
    }
  }
  out.table("plans", {"workload", "method", "stages", "planning_ms"}, rows);
}

}  // namespace

void variants(results& out, const options& o) {
  std::vector<row> rows;
  // `exact` is the optimum of the paper's objective, `merge` the paper's heuristic for it.
  compare(o, "layout",
          {cascade("exact"), cascade("merge", sim::layout::merge), cascade("bucketed", sim::layout::bucketed),
           cascade("chain", sim::layout::chain), cascade("flat", sim::layout::flat)},
          rows);
  const auto by = [](sim::refinement r) { return [r](sim::cascade::config& c) { c.refine = r; }; };
  compare(o, "refinement",
          {cascade("quality"), cascade("memory", sim::layout::exact, by(sim::refinement::memory)),
           cascade("count", sim::layout::exact, by(sim::refinement::count)),
           cascade("none", sim::layout::exact, by(sim::refinement::none))},
          rows);
  out.table("variants",
            {"what", "rate_per_s", "variant", "ttft_s±", "normalized_ms±", "normalized_to_first_pct±", "tokens_per_s±",
             "tokens_to_first_ratio±"},
            rows);
  plans(out, o);
}

// Four stages of four instances, cut at the quartiles of the final lengths; refined as the published system does, or
// left there. The coefficient of variation of the output tokens per instance, mean of the stages.
void balance(results& out, const options& o) {
  std::vector<row> rows;
  for (const auto& [from, rate] : {std::pair{long_chat(), 30.0}, std::pair{chat(o), 7.0}, std::pair{chat(o), 70.0}}) {
    std::vector<std::int64_t> lengths;
    for (const trace_row& r : draw(from, rate, 4000, 1000)) lengths.push_back(r.prompt_tokens + r.output_tokens);
    std::sort(lengths.begin(), lengths.end());
    std::vector<partition::stage> stages;
    for (std::size_t q = 0; q != 4; ++q) {
      stages.push_back({.from = q == 0 ? tokens{} : stages.back().to,
                        .to = q == 3 ? partition::unbounded : tokens{lengths[lengths.size() * (q + 1) / 4]},
                        .instances = 4});
    }
    for (const auto refine : {sim::refinement::quality, sim::refinement::none}) {
      std::vector<point> points;
      for (const auto& [name, how] :
           {std::pair{"round-robin", sim::stage_balance::round_robin},
            std::pair{"hand-over only", sim::stage_balance::hand_over}, std::pair{"full", sim::stage_balance::full}}) {
        contestant in_stages = cascade(name, sim::layout::exact, [stages, how, refine](sim::cascade::config& c) {
          c.stages = stages;
          c.balance = how;
          c.refine = refine;
        });
        points.push_back({.from = from, .testbed = on_h20(llama_3b()), .rate = rate, .system = std::move(in_stages)});
      }
      const auto runs = run_all(o, points);
      for (std::size_t i = 0; i != points.size(); ++i) {
        const auto against = [&](std::size_t k, double numbers::*what) {
          return i <= k ? cell{} : cell{change(runs[i], runs[k], what)};
        };
        rows.push_back({from.name, rate, refine == sim::refinement::none ? "fixed" : "refined", points[i].system.name,
                        mean_of(runs[i], &numbers::stage_cv), against(0, &numbers::stage_cv),
                        against(1, &numbers::stage_cv), mean_of(runs[i], &numbers::load_cv),
                        against(0, &numbers::load_cv), mean_of(runs[i], &numbers::ttft),
                        in_ms(runs[i], &numbers::normalized)});
      }
    }
  }
  out.table("balance",
            {"workload", "rate_per_s", "ranges", "protocol", "output_cv±", "output_cv_to_round_robin_pct±",
             "output_cv_to_hand_over_pct±", "load_cv±", "load_cv_to_round_robin_pct±", "ttft_s±", "normalized_ms±"},
            rows);
}

// `bound`: the baseline on an attention kernel that spreads every batch perfectly. No grouping by length can take more
// from the kernel than this.
void limits(results& out, const options& o) {
  const sim::profile h20 = on_h20(llama_3b());
  struct variation {
    std::string what;
    source from;
    sim::profile testbed;
    double rate;
    double memory = 1;
  };
  std::vector<variation> all;
  const auto with_splits = [&](double splits) {
    sim::profile t = h20;
    t.attention.splits = splits;
    return t;
  };
  for (const double splits : {1.0, 4.0, 16.0}) {
    all.push_back({fmt::format("long-tailed, 90/s, {:g} splits", splits), long_chat(), with_splits(splits), 90});
  }
  for (const double memory : {0.5, 0.25}) {
    all.push_back({fmt::format("long-tailed, 90/s, {:g} of the KV memory", memory), long_chat(), h20, 90, memory});
  }
  for (const double prompts : {1.0, 0.3, 0.1}) {
    source s = chat(o);
    s.prompts = prompts;
    // Prompts and outputs together load the instances about equally.
    all.push_back({fmt::format("ShareGPT, prompts x {:g}", prompts), s, h20,
                   prompts == 1.0   ? 90.0
                   : prompts == 0.3 ? 200.0
                                    : 330.0});
  }
  if (!o.data.empty()) {
    for (const double share : {0.01, 0.05}) {
      source s = chat(o);
      s.tail = sim::read_trace((o.data / "mooncake_synthetic.csv").string()).rows;
      s.tail_share = share;
      all.push_back({fmt::format("ShareGPT, {:g} % of Mooncake's requests (to 128K)", 100 * share), s, h20,
                     share < 0.03 ? 82.0 : 55.0});
    }
  }
  std::vector<point> points;
  for (const variation& v : all) {
    sim::profile perfect = v.testbed;
    perfect.attention.multiprocessors = 0;
    points.push_back({.from = v.from, .testbed = v.testbed, .rate = v.rate, .system = llumnix(), .memory = v.memory});
    points.push_back(
        {.from = v.from, .testbed = v.testbed, .rate = v.rate, .system = cascade("CascadeInfer"), .memory = v.memory});
    points.push_back({.from = v.from,
                      .testbed = v.testbed,
                      .rate = v.rate,
                      .system = cascade("steady", sim::layout::steady),
                      .memory = v.memory});
    points.push_back({.from = v.from, .testbed = perfect, .rate = v.rate, .system = llumnix(), .memory = v.memory});
  }
  const auto runs = run_all(o, points);
  std::vector<row> rows;
  for (std::size_t i = 0; i != points.size(); ++i) {
    if (i % 4 == 0) continue;
    const samples& base = runs[i / 4 * 4];
    rows.push_back({all[i / 4].what, i % 4 == 3 ? "bound" : points[i].system.name,
                    change(runs[i], base, &numbers::ttft), change(runs[i], base, &numbers::tpot),
                    change(runs[i], base, &numbers::throughput)});
  }
  out.table("limits", {"case", "system", "ttft_change_pct±", "tpot_change_pct±", "tokens_per_s_change_pct±"}, rows);
}

}  // namespace reproduce::cascade_runs
