// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PARS's evaluation: how well rankings of prompts are learnt (tables II and IV of the paper), and what they are worth
// in a server (sections IV-D and IV-E).
#include "pars_page.hpp"

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

namespace reproduce::pars_page {

namespace {

/// What of the paper's evaluation these runs repeat, and what not.
void conclude(context& c, const std::vector<runs_type>& burst, const std::vector<gained>& gains,
              const std::vector<std::vector<runs_type>>& by_rate, const std::vector<runs_type>& own,
              const std::vector<at_length>& longer) {
  // Of `bursts`, `rates` and `own_prompts`; the last leaves out two.
  const runs_type& burst_own = burst[0];
  const runs_type& burst_r1 = burst[2];
  constexpr std::size_t left_out_there = 2;
  const auto over_fcfs = [](const runs_type& r, std::size_t k, double outcome::*what = &outcome::mean) {
    return show(ratio_of(r.front(), r[k], what), 2);
  };
  const auto of_oracle = [](const runs_type& r, std::size_t k) {
    return show(ratio_of(r[k], r.back(), &outcome::mean), 2);
  };
  const auto mean = [](const runs_type& r, std::size_t k, double outcome::*what, double unit) {
    return unit * over_seeds(r[k], [&](const outcome& o) { return o.*what; }).mean;
  };
  const std::size_t oracle = burst_own.size() - 1;
  constexpr std::size_t at_095 = 1;
  c.out.lead(fmt::format(
      "**What holds.** Latency per token, FCFS's over the policy's, means of {} seeds.\n\n"
      "- *More than 2x in a burst on a reasoning model*: repeated. With R1's spread PARS gains {} in the mean and {} "
      "in "
      "the P90 if nobody is boosted, of {} and {} that perfect scores gain; with the paper's boost after 120 s {} and "
      "{}. With GPT-4's own short answers {}, of {}.\n"
      "- *Up to 7.7x on Llama*: a matter of the lengths; see [below](#where-77-times-comes-from). With scores as good "
      "as "
      "the paper's (tau-b {:g}) the mean gain is {} where mean(L) x mean(1/L) is 8, and {} where it is 16; the P90's "
      "{} "
      "and {}. Of the prompts here the product is {:.1f}: no ranking gains that much on them.\n"
      "- *Lower latency at every arrival rate*: not where answers are short and alike and the load is carried, for "
      "then "
      "hardly anybody waits: at load 0.95 {} with GPT-4's lengths. Where lengths are spread requests queue earlier: at "
      "0.95 {} with R1's spread and {} on r1-servegen, never boosted.\n"
      "- *PARS ahead of listwise and pointwise*: not repeated with these features. The leads in tau-b are in the next "
      "table; mean latencies differ by a few per cent at most.\n"
      "- *PARS next to the oracle*: in a burst {} times its latency with GPT-4's lengths, {} with R1's spread; at load "
      "1.1 {} and {}.",
      c.seeds.size(), over_fcfs(burst_r1, unboosted_pars), over_fcfs(burst_r1, unboosted_pars, &outcome::p90),
      over_fcfs(burst_r1, oracle), over_fcfs(burst_r1, oracle, &outcome::p90), over_fcfs(burst_r1, boosted_pars),
      over_fcfs(burst_r1, boosted_pars, &outcome::p90), over_fcfs(burst_own, unboosted_pars),
      over_fcfs(burst_own, oracle), paper_tau, show(gains[3].mean, 2), show(gains.back().mean, 2),
      show(gains[3].p90, 2), show(gains.back().p90, 2), spread(c.seeds.front().rows),
      over_fcfs(by_rate[0][at_095], unboosted_pars), over_fcfs(by_rate[1][at_095], unboosted_pars),
      over_fcfs(own[at_095], unboosted_pars - left_out_there), of_oracle(burst_own, unboosted_pars),
      of_oracle(burst_r1, unboosted_pars), of_oracle(by_rate[0].back(), unboosted_pars),
      of_oracle(by_rate[1].back(), unboosted_pars)));
  c.out.lead(
      "**What the boost does, and what the tail pays.** At load 1.1: mean latency per token, P99 of TTFT, longest "
      "wait.");
  const auto cell = [&](const runs_type& r, std::size_t k) {
    return fmt::format("{:.0f} ms, {:.0f} s, {:.0f} s", mean(r, k, &outcome::mean, 1000),
                       mean(r, k, &outcome::ttft_p99, 1), mean(r, k, &outcome::longest_wait, 1));
  };
  std::string table = "| policy | GPT-4's lengths | R1's spread | r1-servegen |\n|---|---|---|---|";
  const std::vector<contestant> who = contestants();
  for (const std::size_t k : {std::size_t{0}, boosted_pars, unboosted_pars, smooth_pars, ours, oracle}) {
    table += fmt::format("\n| {} | {} | {} | {} |", who[k].name, cell(by_rate[0].back(), k), cell(by_rate[1].back(), k),
                         cell(own.back(), k < pointwise_sjf ? k : k - left_out_there));
  }
  c.out.lead(table);
  c.out.lead(fmt::format(
      "Where more arrives than the server carries, whoever has waited 120 s goes in order of arrival, at 1.1 {:.0f} % "
      "of "
      "the requests with R1's spread and {:.0f} % of r1-servegen's: the boost leaves {} of a gain of {}, and {} of {}. "
      "It is the threshold, not the order by length, that fails under overload. What "
      "the gain costs without it is borne by few: the P99 of TTFT is not above FCFS's where lengths are spread, but "
      "the "
      "longest wait is several times as long, until the load lets up. With GPT-4's lengths it is paid in the P99 too. "
      "Smooth ageing bounds the wait and gives up a part of the gain.",
      mean(by_rate[1].back(), boosted_pars, &outcome::boosted, 100),
      mean(own.back(), boosted_pars - left_out_there, &outcome::boosted, 100),
      over_fcfs(by_rate[1].back(), boosted_pars), over_fcfs(by_rate[1].back(), unboosted_pars),
      over_fcfs(own.back(), boosted_pars - left_out_there), over_fcfs(own.back(), unboosted_pars - left_out_there)));
  const auto each = [&](estimate at_length::*what) {
    std::string text;
    for (const at_length& l : longer) text += fmt::format("{}{}", text.empty() ? "" : ", ", show(l.*what, 2));
    return text;
  };
  std::string lengths;
  for (const at_length& l : longer) lengths += fmt::format("{}{}", lengths.empty() ? "" : ", ", l.requests);
  c.out.lead(fmt::format(
      "**Above the capacity a gain is one of a run's length.** At 1.1 with R1's spread, in runs of {} requests, FCFS "
      "has "
      "{} times the mean latency per token of PARS that never boosts, {} of PARS with the boost, and {} with smooth "
      "ageing. What is said of 1.1 above is said of runs as long as those.",
      lengths, each(&at_length::unboosted), each(&at_length::boosted), each(&at_length::smooth)));
}

void run_all(const options& o) {
  page out{o, "PARS: shortest job first by a learned ranking"};
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
  out.text(
      "Yiheng Tao et al., *Prompt-Aware Scheduling for Low-Latency LLM Serving*. Written by `reproduce pars`; numbers "
      "are "
      "means over the seeds, ± the half-width of their 95 % interval.");
  out.text(
      real ? fmt::format("Prompts: {} real ones with the lengths of GPT-4's answers ({}, MIT licence).",
                         c.prompts.size(), prompts_file)
           : fmt::format(
                 "**Prompts: {} made-up ones**, whose lengths follow from their words with log-normal chance. Without "
                 "`--data` nothing here says anything about real prompts.",
                 c.prompts.size()));
  predictors(c);
  costs(c);

  c.seeds.resize(o.seeds);
  sim::run_parallel(o.seeds, o.threads,
                    [&](std::size_t s) { c.seeds[s] = split_and_train(c.prompts, c.data, c.held_out, before, s + 1); });
  out.heading("The server");
  std::vector<double> taus;
  for (const experiment& e : c.seeds) taus.push_back(e.tau);
  out.text(fmt::format(
      "One instance of {} ({} KV blocks of 16 tokens, 256 requests a batch as vLLM's default), which is the paper's "
      "engine "
      "in kind; the paper has two such GPUs. Each of {} seeds draws {} prompts to serve and trains the three models on "
      "the "
      "others but {} that `due-first` has seen served: no request was seen in training (tau-b of PARS's scores here: "
      "{}). All that order by length are one scheduler, `tessera::pars`, with different scores: with the paper's boost "
      "after 120 s, without any, and with smooth ageing, where the place of a score among all is worth up to {:g} s of "
      "waiting (`pars-smooth`). `due-first` is our own composition; it has a bound on steps, which others are given "
      "too.",
      c.profile.name, c.profile.kv_blocks(block_size).count(), o.seeds, c.held_out, before,
      show(sim::estimate_mean(taus)), sim::longest_overtaking.seconds()));
  const answerer gpt4{real ? "GPT-4's lengths" : "made-up lengths"};
  const answerer sharegpt = spread_of("ShareGPT's spread", sim::detail::sharegpt_output);
  const answerer r1 = spread_of("R1's spread", sim::detail::servegen_output);
  const auto describe = [](const experiment& e) {
    std::vector<double> x;
    for (const auto& r : e.rows) x.push_back(static_cast<double>(r.output_tokens));
    const auto d = sim::describe(x);
    return fmt::format("mean {:.0f}, median {:.0f}, P90 {:.0f}, mean x mean of the inverse {:.1f}", d.mean, d.p50,
                       d.p90, spread(e.rows));
  };
  std::string lengths;
  for (const answerer& a : {gpt4, sharegpt, r1})
    lengths += fmt::format("- {}: {}\n", a.name, describe(with_lengths(c.seeds.front(), a)));
  out.text(
      "The prompts' own answers are short and alike. How much any order can gain depends on the spread of the lengths, "
      "so "
      "the same requests are also run with the lengths of other services: the order, and so the quality of every "
      "ranking, stays, and the request at quantile q gets the length at quantile q of the other service (ShareGPT "
      "conversations; DeepSeek-R1 traffic, reasoning included, as ServeGen publishes it). That is a transform, and no "
      "measurement of those models on these prompts.");
  out.text(lengths);
  const std::vector<answerer> all{gpt4, sharegpt, r1};
  const auto burst = bursts(c, all);
  const auto gains = spreads(c);
  tau_curve(c, {gpt4, r1});
  const auto by_rate = rates(c, {gpt4, r1});
  const auto own = own_prompts(c);
  conclude(c, burst, gains, by_rate, own, run_lengths(c, r1));
  starvation(c, r1);
  other_answerers(c);
  out.finish();
}

const bool added = add({"pars", "PARS: tau-b of rankings, and latency by rate and in bursts", run_all});

}  // namespace

}  // namespace reproduce::pars_page
