// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PARS's evaluation: how well rankings of prompts are learnt (tables II and IV of the paper). Then, what they are worth
// in a server (sections IV-D and IV-E).
#include "pars_runs.hpp"

#include <tessera/rank/features.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/policies/policies.hpp>

#include <fmt/ranges.h>
#include <boost/math/distributions/normal.hpp>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace reproduce::pars_runs {

namespace {

void run_all(const options& o) {
  results out{o};
  const bool real = !o.data.empty();
  context c{.o = o,
            .out = out,
            .prompts = real ? read_prompts(o.data / prompts_file) : made_up_prompts(o.quick ? 400 : 6000),
            .data = rank::dataset{rank::hashed_features{}},
            .seeds = {}};
  if (o.quick && c.prompts.size() > 400) c.prompts.resize(400);
  c.data = features_of(c.prompts);
  c.held_out = o.quick ? 100 : 2000;
  const std::size_t before = o.quick ? 64 : history_prompts;
  predictors(c);
  c.seeds.resize(o.seeds);
  sim::run_parallel(o.seeds, o.threads,
                    [&](std::size_t s) { c.seeds[s] = split_and_train(c.prompts, c.data, c.held_out, before, s + 1); });
  facts(c);
  // The prompts' own answers are short and alike. How much any order can gain depends on the spread of the lengths. So
  // the same requests are also run with the lengths of other services. The order stays, and so does the quality of
  // every ranking.
  const answerer gpt4{real ? "GPT-4's lengths" : "made-up lengths"};
  const answerer sharegpt = spread_of("ShareGPT's spread", sim::detail::sharegpt_output);
  const answerer r1 = spread_of("R1's spread", sim::detail::servegen_output);
  std::vector<row> lengths;
  for (const answerer& a : {gpt4, sharegpt, r1}) {
    const experiment e = with_lengths(c.seeds.front(), a);
    std::vector<double> x;
    for (const auto& r : e.rows) x.push_back(static_cast<double>(r.output_tokens));
    const auto d = sim::describe(x);
    lengths.push_back({a.name, d.mean, d.p50, d.p90, spread(e.rows)});
  }
  out.table("lengths", {"lengths", "mean_tokens", "median_tokens", "p90_tokens", "length_spread"}, lengths);
  bursts(c, {gpt4, sharegpt, r1});
  spreads(c);
  tau_curve(c, {gpt4, r1});
  rates(c, {gpt4, r1});
  own_prompts(c);
  out.table("runs",
            joined<std::string>({"arrivals", "lengths", "load", "rate_per_s", "policy", "mean_ms_per_token±",
                                 "p90_ms_per_token±", "fcfs_mean_ratio±", "fcfs_p90_ratio±", "to_oracle_mean_ratio±",
                                 "ttft_p99_s±", "longest_wait_s±", "boosted_pct±"},
                                load_columns),
            c.runs);
  run_lengths(c, r1);
  starvation(c, r1);
  other_answerers(c);
  out.finish();
}

const bool added = add({"pars", "PARS: tau-b of rankings, and latency by rate and in bursts", run_all});

}  // namespace

}  // namespace reproduce::pars_runs
