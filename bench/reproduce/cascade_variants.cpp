// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What each part of CascadeInfer contributes, and where it does not pay.
#include "cascade_page.hpp"

#include <tessera/sim/planning/cascade_plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace reproduce::cascade_page {

namespace {

/// A comparison of variants at some rates of the long-tailed workload, 3B on H20.
void variants(page& p, const options& o, const std::vector<contestant>& all, const std::vector<double>& rates,
              std::size_t base) {
  std::vector<point> points;
  for (const double rate : rates) {
    for (const contestant& c : all) {
      points.push_back({.from = long_chat(), .testbed = on_h20(llama_3b()), .rate = rate, .system = c});
    }
  }
  const auto runs = run_all(o, points);
  std::vector<std::vector<std::string>> table;
  for (std::size_t i = 0; i != points.size(); ++i) {
    const samples& reference = runs[i / all.size() * all.size() + base];
    table.push_back({i % all.size() == 0 ? fmt::format("{:g}/s", points[i].rate) : "", points[i].system.name,
                     show(mean_of(runs[i], &numbers::ttft), 3), show_ms(runs[i], &numbers::normalized),
                     i % all.size() == base ? "-" : change(runs[i], reference, &numbers::normalized),
                     show(mean_of(runs[i], &numbers::throughput), 0),
                     i % all.size() == base ? "-" : ratio(runs[i], reference, &numbers::throughput)});
  }
  p.table(
      {"", "", "TTFT, s", "normalised latency, ms", "to " + all[base].name, "tokens per s", "times " + all[base].name},
      table);
}

}  // namespace

void layouts(page& p, const options& o) {
  p.heading("Figure 14: layouts");
  p.text(
      "Long-tailed workload, 3B. Paper: CascadeInfer's layout has 30 % less latency and 7.1 % more throughput than the "
      "chain; no pipeline is worst. `exact` is the optimum of the paper's objective, `merge` the paper's heuristic for "
      "it.");
  variants(p, o,
           {cascade("exact"), cascade("merge (paper)", sim::layout::merge), cascade("bucketed", sim::layout::bucketed),
            cascade("chain", sim::layout::chain), cascade("flat", sim::layout::flat)},
           {90, 120}, 0);
  const sim::profile h20 = on_h20(llama_3b());
  std::vector<std::vector<std::string>> table;
  for (const auto& [name, from, rate] :
       {std::tuple{"ShareGPT", chat(o), 90.0}, std::tuple{"long-tailed", long_chat(), 90.0}}) {
    const rows_type history = draw(from, rate, o.quick ? 300 : 20'000, 1);
    const cluster_options c = cluster_of(h20, history.size());
    for (const auto& [method, how] :
         {std::pair{"exact", sim::layout::exact}, std::pair{"merge", sim::layout::merge},
          std::pair{"chain", sim::layout::chain}, std::pair{"steady", sim::layout::steady}}) {
      const sim::cascade_plan plan = sim::plan_cascade(c, history, rate, how);
      table.push_back({name, method, describe_stages(plan.stages), fixed(1e3 * plan.seconds, 1)});
    }
  }
  p.text(
      "The plans for ShareGPT at 90 and the long-tailed workload at 90 requests per second, from 20,000 requests, and "
      "how "
      "long planning took here (paper: 60 ms for its heuristic, an estimated 51 hours without):");
  p.table({"", "method", "stages", "ms"}, table);
}

void refinement(page& p, const options& o) {
  p.heading("Figure 15: range refinement");
  p.text(
      "Long-tailed workload, 3B, stages by `exact`. Paper: 21 % less latency and 12 % more throughput than the "
      "memory-based policy; by quantity is worst.");
  const auto by = [](sim::refinement r) { return [r](sim::cascade::config& c) { c.refine = r; }; };
  variants(p, o,
           {cascade("quality"), cascade("memory", sim::layout::exact, by(sim::refinement::memory)),
            cascade("count", sim::layout::exact, by(sim::refinement::count)),
            cascade("none", sim::layout::exact, by(sim::refinement::none))},
           {90, 120}, 0);
}

void balance(page& p, const options& o) {
  p.heading("Figure 16: balance within stages");
  p.text(
      "Four stages of four instances, cut at the quartiles of the final lengths; *refined* as the published system "
      "does, or left there. Coefficient of variation of the output tokens per instance, mean of the stages. Paper: the "
      "full protocol has 40 % less than hand-over alone and 47 % less than round-robin.");
  std::vector<std::vector<std::string>> table;
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
           {std::pair{"round-robin", sim::stage_balance::in_turn},
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
        table.push_back({i == 0 ? fmt::format("{}, {:g}/s, {}", from.name, rate,
                                              refine == sim::refinement::none ? "ranges fixed" : "refined")
                                : "",
                         points[i].system.name, show(mean_of(runs[i], &numbers::stage_cv), 3),
                         i == 0 ? "-" : change(runs[i], runs[0], &numbers::stage_cv),
                         i == 2 ? change(runs[2], runs[1], &numbers::stage_cv) : "-",
                         show(mean_of(runs[i], &numbers::load_cv), 3),
                         i == 0 ? "-" : change(runs[i], runs[0], &numbers::load_cv),
                         show(mean_of(runs[i], &numbers::ttft), 3), show_ms(runs[i], &numbers::normalized)});
      }
    }
  }
  p.table({"", "", "CV of output tokens", "to round-robin", "to hand-over", "CV of the loads", "to round-robin",
           "TTFT, s", "normalised latency, ms"},
          table);
}

void limits(page& p, const options& o) {
  p.heading("What the gain depends on");
  p.text(
      "CascadeInfer and steady against the Llumnix-like baseline while one thing changes; 3B on H20. *Bound*: the same "
      "baseline on an attention kernel that spreads every batch perfectly: no grouping by length can take more from "
      "the "
      "kernel than this.");
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
  std::vector<std::vector<std::string>> table;
  for (std::size_t i = 0; i != all.size(); ++i) {
    const samples& base = runs[4 * i];
    const auto three = [&](double numbers::*what) {
      return change(runs[4 * i + 1], base, what) + " / " + change(runs[4 * i + 2], base, what) + " / " +
             change(runs[4 * i + 3], base, what);
    };
    table.push_back({all[i].what, three(&numbers::ttft), three(&numbers::tpot), three(&numbers::throughput)});
  }
  p.table({"CascadeInfer / steady / bound, to Llumnix-like", "TTFT", "TPOT", "throughput"}, table);
  p.text(
      "The bound is on what the kernel can give back, not on a mean over requests: stages also give short requests "
      "small "
      "batches of short requests, so that their time per token, and with it the mean, can fall further. Where prompts "
      "take most of the time, or the kernel splits long sequences, there is little to give back.");
}

}  // namespace reproduce::cascade_page
