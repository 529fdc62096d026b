// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/input/did_you_mean.hpp>
#include <tessera/sim/input/trace.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/names.hpp>
#include <tessera/sim/random.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

const std::vector<workload>& workloads() {
  using enum length_law::form;
  // Rank correlations below are those of the data named in the source.
  static const length_law alpaca{
      1, reasoning_and_answer, &detail::alpacaeval_prompt, &detail::gpt_oss_reasoning, &detail::sharegpt_output, 0.71};
  static const length_law arena{
      1, reasoning_and_answer, &detail::arena_hard_prompt, &detail::gpt_oss_reasoning, &detail::sharegpt_output, 0.71};
  static const length_law longer_arena{
      1, reasoning_and_answer, &detail::arena_hard_prompt, &detail::o1_mini_reasoning, &detail::sharegpt_output, 0.54};
  static const std::vector<workload> all{
      {.name = "reasoning-chat",
       .summary = "chat with a reasoning model: short prompts, answers about as long as the reasoning",
       .source = "prompts: AlpacaEval 2.0 and Arena-Hard 0.1 in equal parts (token counts); reasoning: gpt-oss-20b in "
                 "LRMTokenEconomy (Apache-2.0, cpldcpu); answers: ShareGPT turns (Apache-2.0 repository "
                 "microsoft/sarathi-serve); rank correlation of reasoning and answer: gpt-oss-20b's",
       .rate = 18,
       .cv = 1,
       .laws = {alpaca, arena}},
      {.name = "alpaca-chat",
       .summary = "as reasoning-chat, with AlpacaEval's prompts alone",
       .source = "prompts: AlpacaEval 2.0 (token counts); reasoning: gpt-oss-20b in LRMTokenEconomy (Apache-2.0, "
                 "cpldcpu); answers: ShareGPT turns (Apache-2.0 repository microsoft/sarathi-serve); rank correlation "
                 "of reasoning and answer: gpt-oss-20b's",
       .rate = 18,
       .cv = 1,
       .laws = {alpaca}},
      {.name = "arena-chat",
       .summary = "chat with harder questions: Arena-Hard's prompts, longer reasoning, answers half as long",
       .source = "prompts: Arena-Hard 0.1 (token counts); reasoning: o1-mini in LRMTokenEconomy (Apache-2.0, cpldcpu); "
                 "answers: ShareGPT turns (Apache-2.0 repository microsoft/sarathi-serve); rank correlation of "
                 "reasoning and answer: o1-mini's",
       .rate = 12.5,
       .cv = 1,
       .laws = {longer_arena}},
      {.name = "reasoning-heavy",
       .summary = "half chat, half mathematics, science and code problems: long reasoning, short answers",
       .source =
           "the mix of PASCAL section V-D: half Arena-Hard requests as in reasoning-chat; half problems with the "
           "prompts of MATH level 5, GPQA diamond and LiveCodeBench (token counts) and the reasoning and answers of "
           "deepseek-r1 on mathematics and planning problems in LRMTokenEconomy (Apache-2.0, cpldcpu)",
       .rate = 2.8,
       .cv = 1,
       .laws = {{3, reasoning_and_answer, &detail::arena_hard_prompt, &detail::gpt_oss_reasoning,
                 &detail::sharegpt_output, 0.71},
                {1, reasoning_and_answer, &detail::math_prompt, &detail::r1_problem_reasoning,
                 &detail::r1_problem_answer, 0.23},
                {1, reasoning_and_answer, &detail::gpqa_prompt, &detail::r1_problem_reasoning,
                 &detail::r1_problem_answer, 0.23},
                {1, reasoning_and_answer, &detail::livecodebench_prompt, &detail::r1_problem_reasoning,
                 &detail::r1_problem_answer, 0.23}}},
      {.name = "azure-conv",
       .summary = "conversation without reasoning: one hour of a production service",
       .source = "Azure LLM inference trace 2023, conversation (CC-BY 4.0, Azure/AzurePublicDataset): quantiles of "
                 "prompt and output, rate, variation of the arrivals",
       .rate = 5.53,
       .cv = 1.09,
       .laws = {{1, answer, &detail::azure_prompt, &detail::azure_output, nullptr, 0}}},
      {.name = "noisy-neighbour",
       .summary = "as azure-conv, of four tenants: one sends seven of ten requests, the others one each",
       .source = "Azure LLM inference trace 2023, conversation (CC-BY 4.0, Azure/AzurePublicDataset), as azure-conv; "
                 "assumed: the tenants",
       .rate = 5.53,
       .cv = 1.09,
       .laws = {{1, answer, &detail::azure_prompt, &detail::azure_output, nullptr, 0}},
       .tenants = {0.7, 0.1, 0.1, 0.1}},
      {.name = "r1-servegen",
       .summary = "DeepSeek-R1 in production: long-tailed prompts, reasoning about 70 % of an output",
       .source = "ServeGen (Apache-2.0, alibaba/ServeGen): quantiles of prompt, output and share of reasoning, drawn "
                 "independently; rate and variation of the arrivals of a quiet hour",
       .rate = 5.16,
       .cv = 1.14,
       .laws = {{1, output_and_share, &detail::servegen_prompt, &detail::servegen_output, &detail::servegen_share, 0}}},
      {.name = "sharegpt",
       .summary = "multi-turn chat without reasoning, prompts with the conversation so far",
       .source = "ShareGPT turns of at most 8,192 tokens (Apache-2.0 repository microsoft/sarathi-serve): quantiles of "
                 "prompt and output; the data has no arrivals, so they are Poisson",
       .rate = 15,
       .cv = 1,
       .laws = {{1, answer, &detail::sharegpt_prompt, &detail::sharegpt_output, nullptr, 0}}},
      {.name = "multi-turn",
       .summary = "conversations of several turns without reasoning; each prompt is the history and a question",
       .source =
           "ShareGPT turns (Apache-2.0 repository microsoft/sarathi-serve) joined to conversations of at most "
           "8,192 tokens: quantiles of turns, first prompt, what a prompt adds, answer, drawn independently; time "
           "between turns: quantiles of a production chat published by the project agentic-kvc; sessions are "
           "Poisson, and nothing is shared between them",
       .rate = 12,
       .cv = 1,
       .laws = {},
       .sessions = session_law{&detail::sharegpt_turns, &detail::sharegpt_first, &detail::sharegpt_fresh,
                               &detail::sharegpt_output, &detail::chat_think, 0, 8192}},
      {.name = "agentic",
       .summary = "a coding agent: tens of calls a session on a growing context, short answers, tools in between",
       .source = "Codex on SWE-bench Pro (MIT, Inferact/codex_swebenchpro_traces): quantiles of calls and of the first "
                 "context, means of the answer and of what a call adds, about which we assume exponentials; time "
                 "between calls: quantiles of production coding agents published by the project agentic-kvc; assumed: "
                 "11,500 tokens of instructions and tools that all sessions share, a context of 65,536 tokens, "
                 "Poisson arrivals of sessions",
       .rate = 0.4,
       .cv = 1,
       .laws = {},
       .sessions = session_law{&detail::codex_calls, &detail::codex_first, &detail::codex_fresh, &detail::codex_answer,
                               &detail::agent_think, 11500, 65536, true}},
      {.name = "noisy-agents",
       .summary = "as agentic, of four tenants with instructions of their own: one sends seven of ten sessions",
       .source = "as agentic; assumed besides: the tenants, and that 11,500 tokens of instructions and tools are the "
                 "same for the sessions of a tenant",
       .rate = 0.4,
       .cv = 1,
       .laws = {},
       .sessions = session_law{&detail::codex_calls, &detail::codex_first, &detail::codex_fresh, &detail::codex_answer,
                               &detail::agent_think, 11500, 65536, true},
       .tenants = {0.7, 0.1, 0.1, 0.1}},
  };
  return all;
}

std::vector<std::string_view> workload_names() { return names_of(workloads()); }

const workload& find_workload(std::string_view name) {
  for (const workload& w : workloads()) {
    if (w.name == name) return w;
  }
  throw usage_error{fmt::format("unknown workload {}{}; there are: {}", shown(name),
                                did_you_mean(name, workload_names()), fmt::join(workload_names(), ", "))};
}

length_means mean_lengths(const workload& w) noexcept {
  TESSERA_ASSERT(!w.sessions, "the lengths of turns are in no table");
  length_means sum;
  double weight = 0;
  for (const length_law& law : w.laws) {
    weight += law.weight;
    sum.prompt += law.weight * law.prompt->mean();
    const double first = law.first->mean();
    switch (law.is) {
      case length_law::form::answer: sum.answer += law.weight * first; break;
      case length_law::form::reasoning_and_answer:
        sum.reasoning += law.weight * first;
        sum.answer += law.weight * law.second->mean();
        break;
      case length_law::form::output_and_share:
        sum.reasoning += law.weight * first * law.second->mean();
        sum.answer += law.weight * first * (1 - law.second->mean());
        break;
    }
  }
  return {sum.prompt / weight, sum.reasoning / weight, sum.answer / weight};
}

}  // namespace sim

namespace sim {
namespace detail {

std::int64_t whole_tokens(double x, double share) noexcept {
  const double rounded = std::floor(std::fma(x, share, 0.5));
  return rounded < 1 ? 1 : static_cast<std::int64_t>(rounded);
}

/// Draws the lengths of one request: always the same number of random words, so that laws do not shift each other.
trace_row draw_lengths(const workload& w, double total_weight, random_engine& rng) noexcept {
  const double kind = uniform(rng) * total_weight;
  const double at_prompt = uniform(rng);
  const double at_first = uniform(rng);
  const double at_other = uniform(rng);
  const double together = uniform(rng);

  std::size_t i = 0;
  for (double upto = w.laws[0].weight; i + 1 < w.laws.size() && kind >= upto; upto += w.laws[i].weight) ++i;
  const length_law& law = w.laws[i];
  const double at_second = together < law.correlation ? at_first : at_other;

  trace_row row;
  row.prompt_tokens = whole_tokens(law.prompt->at(at_prompt));
  const std::int64_t first = whole_tokens(law.first->at(at_first));
  switch (law.is) {
    case length_law::form::answer: row.answer_tokens = first; break;
    case length_law::form::reasoning_and_answer:
      row.reasoning_tokens = first;
      row.answer_tokens = whole_tokens(law.second->at(at_second));
      break;
    case length_law::form::output_and_share: {
      // At least one token of answer; the share is below 1, so only the shortest outputs are touched.
      const std::int64_t reasoning = whole_tokens(static_cast<double>(first), law.second->at(at_second));
      row.reasoning_tokens = reasoning < first ? reasoning : first - 1;
      row.answer_tokens = first - row.reasoning_tokens;
      break;
    }
  }
  row.output_tokens = row.reasoning_tokens + row.answer_tokens;
  return row;
}

/// Draws the tenant of each row, or of each session; sessions share beginnings only within a tenant. The lengths and
/// arrivals are those of the workload without tenants.
void draw_tenants(std::span<const double> parts, std::vector<trace_row>& rows, std::uint64_t seed) {
  random_engine rng{seed, 3};
  double total = 0;
  for (const double part : parts) total += part;
  for (std::size_t i = 0; i != rows.size(); ++i) {
    trace_row& row = rows[i];
    if (i != 0 && row.session >= 0 && row.session == rows[i - 1].session) {
      row.tenant = rows[i - 1].tenant;
      continue;
    }
    double left = uniform(rng) * total;
    row.tenant = 0;
    while (row.tenant + 1 < static_cast<std::int32_t>(parts.size()) &&
           left >= parts[static_cast<std::size_t>(row.tenant)]) {
      left -= parts[static_cast<std::size_t>(row.tenant++)];
    }
    if (!row.runs.empty()) row.runs.front().id = static_cast<std::uint64_t>(row.tenant);
  }
}

/// The sessions one after the other, each with its turns in order, without arrivals; the last may be cut short.
std::vector<trace_row> draw_sessions(const session_law& law, std::size_t requests, random_engine& rng) {
  std::vector<trace_row> rows;
  rows.reserve(requests);
  for (std::int64_t session = 0; rows.size() != requests; ++session) {
    std::int64_t history = 0;
    for (std::int64_t left = whole_tokens(law.turns->at(uniform(rng))); left > 0 && rows.size() != requests; --left) {
      const bool first = history == 0;
      const double at_prompt = uniform(rng);
      const double at_answer = uniform(rng);
      const double at_think = uniform(rng);
      trace_row row;
      row.session = session;
      row.prompt_tokens = history + whole_tokens((first ? law.first : law.fresh)->at(at_prompt));
      row.output_tokens = row.answer_tokens = whole_tokens(law.answer->at(at_answer));
      if (!first && row.prompt_tokens + row.output_tokens > law.longest) break;
      if (first && law.shared > 0) row.runs = {{0, std::min(law.shared, row.prompt_tokens)}};
      if (!first) row.think_s = law.think->at(at_think);
      if (!first && law.agent) rows.back().calls_tool = true;
      history = row.prompt_tokens + row.output_tokens;
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace detail
}  // namespace sim

namespace sim {

std::vector<trace_row> generate(const workload& w, std::size_t requests, std::optional<double> rate,
                                std::uint64_t seed) {
  if (requests == 0 || requests > max_trace_rows) {
    throw usage_error{fmt::format("the number of requests must be from 1 to {}, not {}", max_trace_rows, requests)};
  }
  random_engine lengths{seed, 2};
  if (w.sessions) {
    const double asked = rate.value_or(w.rate);
    static_cast<void>(arrival_generator{{w.cv}, asked, seed});  // rejects an invalid rate
    std::vector<trace_row> rows = detail::draw_sessions(*w.sessions, requests, lengths);
    const auto sessions = static_cast<double>(rows.back().session + 1);
    arrival_generator arrivals{{w.cv}, asked * sessions / static_cast<double>(requests), seed};
    for (std::size_t i = 0; i != rows.size(); ++i) {
      const bool later = i != 0 && rows[i].session == rows[i - 1].session;
      rows[i].arrival_s = later ? rows[i - 1].arrival_s : arrivals.next();
    }
    if (!w.tenants.empty()) detail::draw_tenants(w.tenants, rows, seed);
    return rows;
  }
  arrival_generator arrivals{{w.cv}, rate.value_or(w.rate), seed};
  double total_weight = 0;
  for (const length_law& law : w.laws) total_weight += law.weight;
  std::vector<trace_row> rows;
  rows.reserve(requests);
  for (std::size_t i = 0; i < requests; ++i) {
    rows.push_back(detail::draw_lengths(w, total_weight, lengths));
    rows.back().arrival_s = arrivals.next();
  }
  if (!w.tenants.empty()) detail::draw_tenants(w.tenants, rows, seed);
  return rows;
}

double mean_rate(const std::vector<trace_row>& rows) noexcept {
  if (rows.size() < 2) return 0;
  const double span = rows.back().arrival_s - rows.front().arrival_s;
  return span > 0 ? static_cast<double>(rows.size() - 1) / span : 0;
}

std::vector<trace_row> schedule_arrivals(const trace& t, const replay_options& options) {
  if (!(options.rate_scale > 0) || !std::isfinite(options.rate_scale)) {
    throw usage_error{fmt::format("the rate scale must be a positive number, not {}", options.rate_scale)};
  }
  if (options.rate && (!(*options.rate > 0) || !std::isfinite(*options.rate))) {
    throw usage_error{
        fmt::format("the arrival rate must be a positive number of requests per second, not {}", *options.rate)};
  }
  const std::size_t count =
      options.requests == 0 || options.requests > t.rows.size() ? t.rows.size() : options.requests;
  std::vector<trace_row> rows(t.rows.begin(), t.rows.begin() + static_cast<std::ptrdiff_t>(count));
  if (!t.has_arrivals) {
    if (!options.rate) throw usage_error{no_arrivals(t, "a rate")};
    // Later turns do not arrive by themselves, so sessions begin less often.
    std::unordered_set<std::int64_t> begun;
    std::vector<bool> later;
    for (const trace_row& row : rows) later.push_back(row.session >= 0 && !begun.insert(row.session).second);
    const auto first = static_cast<double>(std::count(later.begin(), later.end(), false));
    arrival_generator arrivals{options.arrivals,
                               *options.rate * options.rate_scale * (first / static_cast<double>(count)), options.seed};
    double at_s = 0;
    for (std::size_t i = 0; i != count; ++i) rows[i].arrival_s = at_s = later[i] ? at_s : arrivals.next();
    return rows;
  }
  double scale = options.rate_scale;
  if (options.rate || scale != 1) {
    const double own = mean_rate(rows);
    if (own == 0) {
      throw usage_error{fmt::format("{}: all {} requests come at once, so there is no rate to change", t.name, count)};
    }
    if (options.rate) scale *= *options.rate / own;
  }
  const double begin = rows.front().arrival_s;
  for (trace_row& row : rows) row.arrival_s = (row.arrival_s - begin) / scale;
  return rows;
}

}  // namespace sim
TESSERA_NAMESPACE_END
