// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The settings of the four papers, sessions and tenants.
#include "due_first_runs.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace reproduce::due_first_runs {

namespace {

// -- the settings ---------------------------------------------------------------------------------------------------

constexpr std::string_view large_model = "h100-96gb-qwen-32b";
constexpr std::string_view small_model = "h200-llama-3.1-8b";
constexpr std::string_view old_machine = "v100-qwen2.5-7b";

}  // namespace

setting pascals(const options& o) {
  using namespace pascal_setting;
  const auto against = [](auto& a, auto& b) { return compare_tails(tails_of(a.numbers), tails_of(b.numbers)); };
  const auto best = [=](auto& a, auto& b) { return 100 * (1 + against(a, b).best); };
  const auto worst = [=](auto& a, auto& b) { return 100 * (1 + against(a, b).worst); };
  setting s{.name = "PASCAL",
            .ablated = "arena-chat, 0.99",
            .theirs = 1,
            .metrics =
                {
                    {"best bin, % of FCFS", best, true, false, true},
                    {"worst bin, % of FCFS", worst, true, false, true},
                    {"TTFT mean, s", [](auto& a, auto&) { return a.numbers.ttft.mean; }},
                    {"TTFT P99, s", [](auto& a, auto&) { return a.numbers.ttft.p99; }},
                    slo_missed(),
                    {"blocking P99, s", [](auto& a, auto&) { return a.numbers.blocking_p99; }},
                    {"tokens/s", [](auto& a, auto&) { return a.numbers.window_tokens_per_s; }, false, true},
                },
            .trials = {}};
  for (const auto& [name, seen] :
       {std::pair{"arena-chat", true}, std::pair{"r1-servegen", true}, std::pair{"reasoning-heavy", true},
        std::pair{"alpaca-chat", true}, std::pair{"reasoning-chat", false}}) {
    const sim::workload& w = sim::find_workload(name);
    const double saturated = saturation_rate(w, o.quick ? 300 : 24'000, o.quick ? 1 : 2, o.threads);
    const std::size_t n = o.quick ? 300 : w.name == "r1-servegen" || w.name == "reasoning-heavy" ? 4'000 : 8'000;
    for (const double load : {0.93, 0.99, 1.05, 1.1}) {
      const double rate = load * saturated;
      s.trials.push_back({.workload = fmt::format("{}, {:g}", name, load),
                          .seen = seen,
                          .rows = [&w, rate, n](std::uint64_t seed) { return sim::generate(w, n, rate, seed); },
                          .cluster = [](const rows_type& rows) { return cluster_for(rows); },
                          .contestants = and_ours(named("fcfs,pascal,sarathi,pascal-paced"))});
    }
  }
  return s;
}

setting parss(const options& o) {
  using namespace pars_setting;
  const auto mean = [](auto& a, auto&) { return ms(a.numbers.normalized_latency.mean); };
  const auto p90 = [](auto& a, auto&) { return ms(a.numbers.normalized_latency.p90); };
  setting s{.name = "PARS",
            .ablated = "r1-servegen, burst",
            .theirs = 1,
            .has_scores = true,
            .metrics = {{"mean, ms/token", mean, true},
                        {"P90, ms/token", p90, true},
                        {"FCFS / it, mean", [=](auto& a, auto& b) { return mean(b, b) / mean(a, a); }, false, true},
                        {"FCFS / it, P90", [=](auto& a, auto& b) { return p90(b, b) / p90(a, a); }, false, true},
                        {"end to end mean, s", [](auto& a, auto&) { return a.numbers.e2e.mean; }},
                        slo_missed()},
            .trials = {}};
  const std::size_t burst = o.quick ? 200 : 2'000;
  const std::size_t n = o.quick ? 300 : 4'000;
  for (const auto& [name, seen] : {std::pair{"r1-servegen", true}, std::pair{"sharegpt", true},
                                   std::pair{"azure-conv", false}, std::pair{"reasoning-chat", false}}) {
    const sim::workload& w = sim::find_workload(name);
    const double noise = noise_for(lengths_of(answers_of(w, 4'000, 1, 1)), tau_of_pars, 1);
    // Load 1 is what FCFS completes of a seed's requests when they come much too fast.
    std::vector<double> capacity(o.seeds);
    sim::run_parallel(o.seeds, o.threads, [&](std::size_t k) {
      const rows_type rows = scored(answers_of(w, n, 1e4, first_seed + k), noise, first_seed + k);
      double end = 0;
      for (const auto& r : named("fcfs").front().run(server_for(testbed(), rows), {}, rows).requests) {
        end = std::max(end, r.finish);
      }
      capacity[k] = static_cast<double>(n) / end;
    });
    const auto add = [&](const std::string& load, std::function<rows_type(std::uint64_t)> rows) {
      s.trials.push_back({.workload = fmt::format("{}, {}", name, load),
                          .seen = seen,
                          .rows = std::move(rows),
                          .cluster = [p = testbed()](const rows_type& r) { return server_for(p, r); },
                          .contestants = and_ours(named("fcfs,pars,pars-unboosted,pars-smooth,sarathi,sjf"))});
    };
    add("burst", [&w, burst, noise](std::uint64_t seed) {
      rows_type rows = scored(answers_of(w, burst, 1, seed), noise, seed);
      for (trace_row& r : rows) r.arrival_s = 0;
      return rows;
    });
    for (const double load : {0.95, 1.1}) {
      add(fmt::format("load {:g}", load), [&w, n, noise, load, capacity](std::uint64_t seed) {
        return scored(answers_of(w, n, load * capacity[(seed - first_seed) % capacity.size()], seed), noise, seed);
      });
    }
  }
  return s;
}

setting phasors(const options& o) {
  using namespace phasor_setting;
  constexpr double seconds = 500;
  setting s{.name = "Phasor",
            .ablated = "production mix, 30/s",
            .theirs = 1,
            .metrics = {{"P99 end to end, s", [](auto& a, auto&) { return a.numbers.e2e.p99; }, true},
                        {"P99 TTFT, s", [](auto& a, auto&) { return a.numbers.ttft.p99; }},
                        {"TPOT mean, ms", [](auto& a, auto&) { return ms(a.numbers.tpot.mean); }},
                        {"tokens/s", [](auto& a, auto&) { return a.numbers.throughput_tokens_per_s; }, false, true},
                        fall_behind()},
            .trials = {}};
  // A workload's lengths, if one is named, in place of the archetype's.
  for (const auto& [kind, rate, seen, lengths] :
       {std::tuple{"mix", 20, true, ""}, std::tuple{"mix", 30, true, ""}, std::tuple{"mix", 40, true, ""},
        std::tuple{"S-L", 10, true, ""}, std::tuple{"L-S", 10, true, ""}, std::tuple{"L-L", 10, true, ""},
        std::tuple{"M-M", 5, true, ""}, std::tuple{"M-M", 10, true, ""}, std::tuple{"S-S", 40, true, ""},
        std::tuple{"S-L", 5, false, ""}, std::tuple{"mix", 15, false, "sharegpt"},
        std::tuple{"mix", 40, true, "azure-conv"}}) {
    const archetype& a = find(kind);
    const std::string_view drawn = lengths;
    const std::size_t n = o.quick ? 200 : static_cast<std::size_t>(seconds * rate);
    trial t{.workload = fmt::format("{}, {}/s", drawn.empty() ? a.task : drawn, rate),
            .seen = seen,
            .rows =
                [&a, rate = rate, n, drawn](std::uint64_t seed) {
                  rows_type rows = steady(a, rate, n, seed);
                  if (drawn.empty()) return rows;
                  const rows_type from = pars_setting::answers_of(sim::find_workload(drawn), rows.size(), 1, seed);
                  for (std::size_t i = 0; i != rows.size(); ++i) {
                    rows[i].prompt_tokens = from[i].prompt_tokens;
                    rows[i].output_tokens = rows[i].answer_tokens = from[i].output_tokens;
                  }
                  return rows;
                },
            .cluster = [](const rows_type& rows) { return cluster_of(testbed(), rows.size()); },
            .contestants = {}};
    const auto with_best_pools = [&](const std::string& system, bool mixed, auto&& make) {
      rows_type other = t.rows(planning_seed);
      other.resize(other.size() / 2);
      const sim::pool_sizes sizes = best_pools(
          o, sim::pool_divisions(workers, mixed && !o.quick),
          [&](const sim::pool_sizes& p) { return -make(p).run(t.cluster(other), a, other).numbers.e2e.p99; });
      return phasor_setting::contestant{fmt::format("{} {}", system, phasor_setting::show(sizes)), make(sizes).run};
    };
    const std::vector<phasor_setting::contestant> others{
        with_best_pools("distserve", false, [](const sim::pool_sizes& p) { return distserve(p); }),
        phasor("phasor", {}),
        with_best_pools("phasor", true,
                        [](const sim::pool_sizes& p) { return phasor("phasor", {.mixed_pool = p.mixed != 0}, p); }),
        with_best_pools("splitwise", true, [](const sim::pool_sizes& p) { return splitwise(p); }),
        phasor_setting::named("sarathi")};
    for (const auto& system : others) {
      t.contestants.push_back({system.name, [&a, run = system.run](const cluster_options& c, const rows_type&,
                                                                   const rows_type& rows) { return run(c, a, rows); }});
    }
    t.contestants.push_back(ours("due-first"));
    s.trials.push_back(std::move(t));
  }
  return s;
}

setting cascades(const options& o) {
  using namespace cascade_setting;
  setting s{.name = "CascadeInfer",
            .ablated = "long-tailed, 120/s",
            .theirs = 3,
            .metrics = {{"TTFT mean, s", [](auto& a, auto&) { return a.numbers.ttft.mean; }, true},
                        {"TPOT mean, ms", [](auto& a, auto&) { return ms(a.numbers.tpot.mean); }, true},
                        {"tokens/s", [](auto& a, auto&) { return a.throughput; }, true, true},
                        {"TTFT P99, s", [](auto& a, auto&) { return a.numbers.ttft.p99; }},
                        {"end to end mean, s", [](auto& a, auto&) { return a.numbers.e2e.mean; }},
                        fall_behind()},
            .trials = {}};
  const auto add = [&](const source& from, const sim::model_spec& model, double part, double rate, bool seen,
                       double seconds = 40) {
    const sim::profile p = on_h20(model);
    const std::string load = (part > 0 ? fmt::format("{:g}", part) : fmt::format("{:g}/s", rate)) +
                             (seconds > 40 ? fmt::format(", {:g} s", seconds) : "");
    const double warmup = seconds > 40 && !o.quick ? seconds / 3 : 0;
    if (part > 0) rate = rate_for(from, p, gpus, part);
    const std::size_t n = o.quick ? 120 : static_cast<std::size_t>(rate * seconds);
    s.trials.push_back(
        {.workload = fmt::format("{}{}, {}", from.name, model.name == llama_3b().name ? "" : " on " + model.name, load),
         .seen = seen,
         .rows = [from, rate, n](std::uint64_t seed) { return draw(from, rate, n, seed); },
         .cluster =
             [p, warmup](const rows_type& rows) {
               cluster_options c = cluster_of(p, rows.size());
               c.warmup_s = warmup;
               return c;
             },
         .contestants = {}});
    std::vector<contestant> others = named("in-turn,llumnix,sarathi");
    others.push_back(cascade("cascade"));
    others.push_back(cascade("cascade-steady", sim::layout::steady));
    s.trials.back().contestants = and_ours(std::move(others));
  };
  const source azure{.name = "azure-conv", .built_in = &sim::find_workload("azure-conv")};
  const source reasoning{.name = "reasoning-chat", .built_in = &sim::find_workload("reasoning-chat")};
  add(long_chat(), llama_3b(), 0, 60, true);
  add(long_chat(), llama_3b(), 0, 120, true);
  add(long_chat(), llama_3b(), 0, 200, true);
  add(long_chat(), llama_3b(), 0, 40, true, 1200);
  add(long_chat(), llama_3b(), 0, 60, true, 1200);
  add(chat(o), llama_3b(), 0.5, 0, true);
  add(chat(o), llama_3b(), 0.85, 0, true);
  add(azure, llama_3b(), 0.75, 0, true);
  add(reasoning, llama_3b(), 0, 150, true);
  add(chat(o), qwen_14b(), 0.75, 0, true);
  add(azure, qwen_14b(), 0.6, 0, false);
  add(reasoning, llama_3b(), 0, 250, false);
  return s;
}

setting sessions(const options& o) {
  setting s{.name = "sessions",
            .ablated = "",
            .theirs = 3,
            .metrics = {{"sessions, mean s", [](auto& a, auto&) { return a.numbers.session.mean; }, true},
                        {"sessions, P99 s", [](auto& a, auto&) { return a.numbers.session.p99; }, true},
                        {"TTFT mean, s", [](auto& a, auto&) { return a.numbers.ttft.mean; }, true},
                        {"TTFT P99, s", [](auto& a, auto&) { return a.numbers.ttft.p99; }, true},
                        {"good, %", [](auto& a, auto&) { return 100 * a.good; }, true, true, false, 100},
                        {"prefix hits, %", [](auto& a, auto&) { return 100 * a.numbers.prefix_hit_rate; }, false, true},
                        {"TPOT P99, ms", [](auto& a, auto&) { return ms(a.numbers.tpot.p99); }},
                        fall_behind()},
            .trials = {}};
  const auto add = [&](std::string_view workload, double rate, std::string_view machine, std::size_t blocks,
                       bool seen) {
    const sim::workload& w = sim::find_workload(workload);
    const std::size_t n = o.quick ? 200 : 3'000;
    s.trials.push_back(
        {.workload = fmt::format("{}, {:g}/s, {}{}", workload, rate, machine,
                                 blocks != 0 ? fmt::format(" of {} blocks", blocks) : ""),
         .seen = seen,
         .rows = [&w, rate, n](std::uint64_t seed) { return sim::generate(w, n, rate, seed); },
         .cluster = [machine, blocks](const rows_type& rows) { return servers(rows, machine, 8, blocks); },
         .contestants = {}});
    std::vector<contestant> others = named("fcfs");
    for (const auto& [policy, placement] :
         {std::pair{"fcfs", "lmetric"}, std::pair{"fcfs", "prefix-affinity"}, std::pair{"autellix", "lmetric"},
          std::pair{"autellix", "prefix-affinity"}, std::pair{"sarathi", "lmetric"}, std::pair{"continuum", "lmetric"},
          std::pair{"kvflow", "lmetric"}}) {
      others.push_back(with_placement(policy, placement));
    }
    for (contestant& c : named("llumnix")) others.push_back(std::move(c));
    s.trials.back().contestants = and_ours(std::move(others));
  };
  add("multi-turn", 12, large_model, 0, true);
  add("multi-turn", 22, large_model, 0, true);
  add("agentic", 8, small_model, 0, true);
  add("agentic", 8, small_model, 20'000, true);
  add("multi-turn", 50, small_model, 0, true);
  add("agentic", 1, large_model, 0, true);
  add("multi-turn", 15, old_machine, 0, false);
  add("agentic", 1, old_machine, 0, false);
  return s;
}

setting tenants(const options& o) {
  setting s{.name = "tenants",
            .ablated = "",
            .theirs = 1,
            .metrics = {{"worst share, %", [](auto& a, auto&) { return 100 * a.numbers.worst_tenant; }, true, true,
                         false, 100},
                        {"TTFT P99, s", [](auto& a, auto&) { return a.numbers.ttft.p99; }, true},
                        {"end to end mean, s", [](auto& a, auto&) { return a.numbers.e2e.mean; }, true},
                        {"tokens/s", [](auto& a, auto&) { return a.numbers.window_tokens_per_s; }, false, true}},
            .trials = {}};
  const sim::workload& w = sim::find_workload("noisy-neighbour");
  for (const double rate : {6.0, 60.0}) {
    const std::size_t n = o.quick ? 200 : 3'000;
    s.trials.push_back({.workload = fmt::format("noisy-neighbour, {:g}/s", rate),
                        .seen = false,
                        .rows = [&w, rate, n](std::uint64_t seed) { return sim::generate(w, n, rate, seed); },
                        .cluster = [](const rows_type& rows) { return servers(rows, large_model, 2); },
                        .contestants = and_ours(named("fcfs,vtc,sarathi,llumnix"))});
  }
  return s;
}

}  // namespace reproduce::due_first_runs
