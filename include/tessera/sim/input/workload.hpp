// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/did_you_mean.hpp>
#include <tessera/sim/input/trace.hpp>
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

/// @file
/// Workloads that are generated from published statistics: when requests come, and how long they are.
///
/// Lengths are drawn from quantile tables, computed by us from the data that each workload names as its source. No row
/// of any data set is kept here. The same workload, number and seed give the same rows on every machine.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// The levels of every quantile table here: dense where tails matter.
inline constexpr std::array<double, 29> quantile_levels{0,   0.01, 0.02, 0.05, 0.1,  0.15, 0.2,   0.25,  0.3, 0.35,
                                                        0.4, 0.45, 0.5,  0.55, 0.6,  0.65, 0.7,   0.75,  0.8, 0.85,
                                                        0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999, 1};

/// A distribution: its quantiles at `quantile_levels`, linear in between.
struct quantile_table {
  std::array<double, quantile_levels.size()> values;  ///< One for each of `quantile_levels`, ascending.

  /// The quantile at `u`. Requires `u` in [0, 1].
  [[nodiscard]] double at(double u) const noexcept { return interpolate_quantile(quantile_levels, values, u); }

  /// The mean of what is drawn.
  [[nodiscard]] constexpr double mean() const noexcept {
    double sum = 0;
    for (std::size_t i = 1; i < values.size(); ++i) {
      sum += (quantile_levels[i] - quantile_levels[i - 1]) * (values[i] + values[i - 1]) / 2;
    }
    return sum;
  }
};

/// How the lengths of one kind of request are drawn. The prompt is independent of the rest.
struct length_law {
  /// What `first` and `second` are.
  enum class form : std::uint8_t {
    answer,                ///< `first`: answer tokens; no reasoning. `second` is not used.
    reasoning_and_answer,  ///< `first`: reasoning tokens, `second`: answer tokens.
    output_and_share,      ///< `first`: output tokens, `second`: the share of it that is reasoning.
  };

  double weight = 1;                       ///< How often this kind comes, relative to the others of the workload.
  form is = form::answer;                  ///< What is drawn.
  const quantile_table* prompt = nullptr;  ///< Prompt tokens.
  const quantile_table* first = nullptr;   ///< See `form`.
  const quantile_table* second = nullptr;  ///< See `form`.
  /// Rank correlation of `first` and `second`, 0 to 1: so often both are drawn at the same level, else independently.
  double correlation = 0;
};

/// How the sessions of a workload are drawn: each turn's prompt is the history, which is the earlier prompt and its
/// answer, and something new.
struct session_law {
  const quantile_table* turns = nullptr;   ///< How many.
  const quantile_table* first = nullptr;   ///< Tokens of the first prompt.
  const quantile_table* fresh = nullptr;   ///< Tokens that a later prompt adds to the history.
  const quantile_table* answer = nullptr;  ///< Tokens of each answer.
  const quantile_table* think = nullptr;   ///< Seconds from an answer's end to the next turn.
  std::int64_t shared = 0;   ///< So many tokens at the beginning of first prompts are the same for all sessions.
  std::int64_t longest = 0;  ///< A session ends before a turn that would make it longer, in tokens.
  bool agent = false;        ///< All turns but the last end with the call of a tool.
};

/// A built-in workload.
struct workload {
  std::string_view name;     ///< As in `--workload`.
  std::string_view summary;  ///< One line.
  std::string_view source;   ///< Data, licence, and what was computed from it.
  /// Requests per second if the caller names none: the data's, or, where it has no arrivals or they are made up,
  /// about 85 % of what the KV of eight instances of `h100-96gb-qwen-32b` sustains; of turns, where there are sessions.
  double rate = 1;
  double cv = 1;                 ///< Coefficient of variation of the gaps between arrivals (see `arrival_process`).
  std::vector<length_law> laws;  ///< The kinds of requests, with their weights; none if it has sessions.
  std::optional<session_law> sessions{};  ///< Instead of single requests.
  std::vector<double> tenants{};  ///< The part of the requests, or sessions, that each sends; empty: nobody says whose.
                                  ///< What sessions share is then shared within a tenant.
};

/// Gaps between arrivals: gamma distributed with the coefficient of variation `cv`. 1: Poisson. More than 1: bursty.
/// 0: as regular as a clock.
struct arrival_process {
  double cv = 1;  ///< Coefficient of variation of the gaps: 1 is Poisson, 0 a clock.
};

/// Draws arrivals one after the other, beginning with the first gap.
class arrival_generator {
 public:
  /// Arrivals at a mean `rate` per second. The same seed at another rate gives the same pattern, stretched.
  /// @throws usage_error for a rate that is not positive or a `cv` that is not in [0, 100].
  arrival_generator(arrival_process process, double rate, std::uint64_t seed)
      : rng_{seed, 1}, cv_{process.cv}, rate_{rate} {
    if (!(rate > 0) || !std::isfinite(rate)) {
      throw usage_error{fmt::format("the arrival rate must be a positive number of requests per second, not {}", rate)};
    }
    if (!(cv_ >= 0 && cv_ <= 100)) {
      throw usage_error{fmt::format("the coefficient of variation of the arrivals must be from 0 to 100, not {}", cv_)};
    }
  }

  /// The time of the next arrival, in seconds.
  [[nodiscard]] double next() noexcept {
    now_ += gap();
    return now_ / rate_;
  }

 private:
  [[nodiscard]] double gap() noexcept {
    if (cv_ == 0) return 1;
    if (cv_ == 1) return exponential(rng_);
    const double shape = 1 / (cv_ * cv_);
    return gamma(rng_, shape, shape);
  }

  random_engine rng_;
  double cv_;
  double rate_;
  double now_ = 0;
};

namespace detail {

// AlpacaEval 2.0, 805 prompts: tokens.
inline constexpr quantile_table alpacaeval_prompt{{3,  5,  6,  7,  9,  10, 11, 13,  14,  15,  17,  19,  21,  24, 26,
                                                   29, 34, 39, 47, 55, 74, 92, 114, 151, 165, 252, 264, 407, 483}};
// Arena-Hard 0.1, 500 prompts.
inline constexpr quantile_table arena_hard_prompt{{6,   8,   8,   11,  12,  14,   16,   18,   20,  22,
                                                   24,  27,  30,  35,  41,  49,   56,   69,   85,  139,
                                                   241, 316, 405, 566, 629, 1142, 1490, 1958, 2107}};
// MATH, level 5, 721 prompts.
inline constexpr quantile_table math_prompt{{11, 16, 18, 26, 30,  34,  38,  42,  45,  49,  52,  56,  59,  62, 67,
                                             73, 79, 87, 95, 110, 137, 182, 222, 301, 361, 410, 515, 767, 776}};
// GPQA diamond, 198 prompts.
inline constexpr quantile_table gpqa_prompt{{38,  50,  50,  77,  89,  102, 111, 121, 135, 144, 153, 161, 170,  179, 189,
                                             201, 221, 232, 255, 283, 320, 379, 416, 466, 498, 594, 884, 2386, 2762}};
// LiveCodeBench, 880 prompts.
inline constexpr quantile_table livecodebench_prompt{{114, 162, 174, 202, 236, 262,  288,  309,  328, 353,
                                                      377, 401, 424, 447, 473, 500,  528,  558,  605, 647,
                                                      700, 771, 822, 906, 961, 1076, 1206, 1416, 1521}};
// LRMTokenEconomy, gpt-oss-20b, all 95 runs: reasoning tokens. 79 % are below 1000.
inline constexpr quantile_table gpt_oss_reasoning{{23,   30,   31,   33,   38,   45,   54,   82,   90,   111,
                                                   169,  234,  295,  377,  520,  685,  757,  918,  1010, 1187,
                                                   1426, 1641, 1765, 2509, 2580, 2905, 4192, 5222, 5479}};
// LRMTokenEconomy, o1-mini as reported by its provider, all 95 runs: reasoning tokens. 71 % are below 1000.
inline constexpr quantile_table o1_mini_reasoning{{64,   64,   64,   64,   128,  128,  128,  192,  192,  256,
                                                   256,  256,  384,  621,  704,  832,  960,  1120, 1357, 1786,
                                                   2022, 2294, 2522, 3136, 3144, 3231, 3471, 3664, 3712}};
// LRMTokenEconomy, deepseek-r1, its 50 runs on mathematics and planning problems: reasoning, answer.
inline constexpr quantile_table r1_problem_reasoning{{838,  849,  860,  909,  987,  1370, 1566, 1727, 1909, 2143,
                                                      2350, 2420, 2554, 2665, 3014, 3099, 3495, 4345, 5084, 6840,
                                                      7614, 8585, 9072, 9423, 9551, 9655, 9706, 9748, 9758}};
inline constexpr quantile_table r1_problem_answer{{101, 110, 120, 160,  198,  254,  306,  348,  396, 409,
                                                   417, 432, 441, 450,  454,  462,  470,  477,  523, 527,
                                                   540, 562, 838, 1331, 1577, 1772, 1869, 1947, 1967}};
// Azure LLM inference trace 2023, conversation, 19,366 requests: prompt, output.
inline constexpr quantile_table azure_prompt{{2,    29,   91,   181,  207,  372,  387,  396,  403,  414,
                                              703,  984,  1020, 1045, 1071, 1097, 1130, 1189, 1315, 1876,
                                              2734, 4076, 4083, 4090, 4098, 4142, 4831, 6179, 14050}};
inline constexpr quantile_table azure_output{{7,   16,  24,  41,  54,  67,  77,  85,  91,  96,  103, 113, 129, 151, 177,
                                              217, 384, 395, 400, 411, 424, 433, 451, 509, 540, 601, 643, 954, 1000}};
// ShareGPT turns of at most 8,192 tokens, 30,731 of them: prompt (with the conversation so far), output.
inline constexpr quantile_table sharegpt_prompt{{1,    12,   16,   29,   74,   180,  382,  580,  777,  973,
                                                 1203, 1457, 1730, 2060, 2401, 2799, 3235, 3734, 4278, 4918,
                                                 5696, 6203, 6563, 6950, 7164, 7434, 7622, 7854, 8141}};
inline constexpr quantile_table sharegpt_output{{2,   6,   19,  44,  84,  130, 181,  228,  271, 312,
                                                 346, 381, 415, 453, 493, 534, 581,  628,  683, 754,
                                                 834, 883, 920, 957, 975, 998, 1009, 1021, 1024}};
// The same turns as conversations: 5,678, where a turn continues the one before if its prompt is no shorter than that
// one's prompt and answer. Turns, first prompt, what a later prompt adds.
inline constexpr quantile_table sharegpt_turns{
    {1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9, 10, 12, 13, 15, 17, 19, 23, 26, 40, 56}};
inline constexpr quantile_table sharegpt_first{{1,   7,   9,    11,   16,   19,   23,   27,   32,  38,
                                                45,  54,  64,   80,   95,   115,  150,  194,  262, 384,
                                                600, 842, 1089, 1421, 1788, 2383, 2969, 4080, 7398}};
inline constexpr quantile_table sharegpt_fresh{{1,   2,   2,   3,    6,    8,    10,   13,   15,  17,
                                                20,  23,  26,  31,   36,   42,   51,   65,   84,  124,
                                                230, 433, 711, 1155, 1447, 2131, 2821, 4114, 6999}};
// Seconds between the turns of a production chat, from the published 4, 25, 29, 50, 75, 78, 90, 98 and 99 % of 42,228
// gaps; 60 at most.
inline constexpr quantile_table chat_think{{0.2,  0.4,   0.6,   1.18,  2.1, 3.02, 3.93, 4.85, 5.1,   5.62,
                                            6.14, 6.66,  7.18,  7.39,  7.6, 7.8,  8.01, 8.22, 10.83, 12.92,
                                            15,   20.63, 24.37, 28.12, 30,  43,   51.5, 58.3, 60}};
// Codex on SWE-bench Pro, 610 runs: calls per run and the context of the first, from the published 50, 90 and 99 %.
inline constexpr quantile_table codex_calls{{5,  6,  6,  8,  10, 12, 15, 18, 20, 22, 25, 28,  30,  33, 37,
                                             40, 44, 47, 50, 54, 57, 68, 75, 83, 86, 90, 100, 108, 110}};
inline constexpr quantile_table codex_first{{11900, 11908, 11915, 11938, 11976, 12013, 12051, 12089, 12127, 12165,
                                             12202, 12240, 12278, 12345, 12412, 12479, 12546, 12612, 12679, 12746,
                                             12813, 13123, 13330, 13537, 13641, 13744, 13872, 13974, 14000}};
// What a call adds besides its answer, and the answer: exponential about the published means, 1,732 and 522.
inline constexpr quantile_table codex_fresh{{1,    17,   35,   88,   182,  280,  385,  496,   615,  743,
                                             881,  1031, 1195, 1377, 1580, 1810, 2076, 2390,  2775, 3271,
                                             3970, 4585, 5165, 6045, 6744, 7939, 9134, 11909, 16309}};
inline constexpr quantile_table codex_answer{{1,    5,    11,   27,   55,   85,   116,  150,  185, 224,
                                              266,  311,  360,  415,  476,  546,  626,  721,  837, 987,
                                              1197, 1383, 1558, 1823, 2034, 2395, 2755, 3592, 4080}};
// Seconds between the calls of coding agents in production, from the published 25, 39, 50, 67, 75, 77, 87 and 90 % of
// 783,000 gaps; 60 at most: who pauses for longer is not a tool.
inline constexpr quantile_table agent_think{{0.1,  0.12, 0.15, 0.22, 0.34, 0.45, 0.57, 0.69, 0.8, 0.91,
                                             1.05, 1.33, 1.6,  2.6,  3.6,  4.6,  6.35, 8.6,  16,  26,
                                             44,   60,   60,   60,   60,   60,   60,   60,   60}};
// ServeGen, DeepSeek-R1: the published marginals of prompt, output, share of reasoning in the output.
inline constexpr quantile_table servegen_prompt{{4,    9,    10,   13,    18,    26,    29,    41,    57,   76,
                                                 113,  172,  208,  222,   266,   349,   406,   482,   748,  1165,
                                                 2092, 3951, 6714, 12390, 16479, 23423, 28228, 33783, 57284}};
inline constexpr quantile_table servegen_output{{9,    141,  170,  225,  287,  341,   387,   427,   470,  519,
                                                 582,  668,  792,  944,  1104, 1244,  1367,  1499,  1680, 2196,
                                                 3432, 4537, 5701, 7617, 9338, 12607, 15737, 20833, 32768}};
inline constexpr quantile_table servegen_share{{0.0,    0.2555, 0.2794, 0.3194, 0.3613, 0.3992, 0.4411, 0.501,
                                                0.5689, 0.6347, 0.6886, 0.7305, 0.7645, 0.7924, 0.8184, 0.8443,
                                                0.8703, 0.8962, 0.9182, 0.9361, 0.9541, 0.9661, 0.9741, 0.984,
                                                0.99,   0.992,  0.996,  0.998,  0.998}};

inline constexpr std::string_view prompt_source =
    "prompt lengths counted from the public benchmarks AlpacaEval 2.0, Arena-Hard, MATH, GPQA and LiveCodeBench";

}  // namespace detail

/// The built-in workloads.
[[nodiscard]] inline const std::vector<workload>& workloads() {
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

/// The names of the built-in workloads.
[[nodiscard]] inline std::vector<std::string_view> workload_names() { return names_of(workloads()); }

/// The built-in workload of that name.
/// @throws usage_error that lists the names there are.
[[nodiscard]] inline const workload& find_workload(std::string_view name) {
  for (const workload& w : workloads()) {
    if (w.name == name) return w;
  }
  throw usage_error{fmt::format("unknown workload {}{}; there are: {}", shown(name),
                                did_you_mean(name, workload_names()), fmt::join(workload_names(), ", "))};
}

/// Mean lengths of a workload, from its tables.
struct length_means {
  double prompt = 0;     ///< Tokens.
  double reasoning = 0;  ///< Tokens.
  double answer = 0;     ///< Tokens.
};

/// The means of what `generate` draws, but for rounding to whole tokens. Requires: it has no sessions, whose lengths
/// depend on how many turns come before.
[[nodiscard]] inline length_means mean_lengths(const workload& w) noexcept {
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

namespace detail {

/// `x` times `share` to the nearest whole number, at least 1.
[[nodiscard]] inline std::int64_t whole_tokens(double x, double share = 1) noexcept {
  const double rounded = std::floor(std::fma(x, share, 0.5));
  return rounded < 1 ? 1 : static_cast<std::int64_t>(rounded);
}

/// Draws the lengths of one request: always the same number of random words, so that laws do not shift each other.
[[nodiscard]] inline trace_row draw_lengths(const workload& w, double total_weight, random_engine& rng) noexcept {
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

/// Whose each row is, or each session, which share beginnings only with others of theirs. The lengths and arrivals are
/// those of the workload without tenants.
inline void draw_tenants(std::span<const double> parts, std::vector<trace_row>& rows, std::uint64_t seed) {
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

/// Session after session, the turns of each one after the other, without arrivals; the last may be cut short.
[[nodiscard]] inline std::vector<trace_row> draw_sessions(const session_law& law, std::size_t requests,
                                                          random_engine& rng) {
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

/// Draws `requests` rows in order of arrival. The lengths do not depend on the rate, nor the pattern of the arrivals on
/// the lengths: the same seed at another rate is the same work, faster or slower. Where the workload has sessions, it
/// is they that arrive, so often that there are so many requests per second; the rows of a session stand together, with
/// the arrival of its first turn.
/// @param rate requests per second; the workload's own if empty.
/// @throws usage_error for no requests, too many, or a rate that is not positive.
[[nodiscard]] inline std::vector<trace_row> generate(const workload& w, std::size_t requests,
                                                     std::optional<double> rate = {}, std::uint64_t seed = 1) {
  if (requests == 0 || requests > max_trace_rows) {
    throw usage_error{fmt::format("the number of requests must be from 1 to {}, not {}", max_trace_rows, requests)};
  }
  random_engine lengths{seed, 2};
  if (w.sessions) {
    const double asked = rate.value_or(w.rate);
    static_cast<void>(arrival_generator{{w.cv}, asked, seed});  // which refuses what is no rate
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

/// How a trace is to be replayed.
struct replay_options {
  std::optional<double> rate{};  ///< Mean requests per second; empty: the trace's own.
  double rate_scale = 1;         ///< Factor on the rate: 2 replays twice as fast.
  std::size_t requests = 0;      ///< Only the first so many rows; 0: all.
  arrival_process arrivals{};    ///< For a trace without arrivals.
  std::uint64_t seed = 1;        ///< For a trace without arrivals.
};

/// The mean rate of rows in order of arrival: gaps per second between the first and the last. 0 when all come at once.
[[nodiscard]] inline double mean_rate(const std::vector<trace_row>& rows) noexcept {
  if (rows.size() < 2) return 0;
  const double span = rows.back().arrival_s - rows.front().arrival_s;
  return span > 0 ? static_cast<double>(rows.size() - 1) / span : 0;
}

/// The rows of a trace with the arrivals to replay: its own, begun at 0 and stretched to the rate asked for; or, if it
/// has none, drawn at the rate asked for.
/// @throws usage_error a trace without arrivals and no rate; a rate or scale that is not positive; a rate, or a scale
///         but 1, for a trace whose requests all come at once.
[[nodiscard]] inline std::vector<trace_row> schedule_arrivals(const trace& t, const replay_options& options = {}) {
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
    // Later turns do not arrive by themselves: sessions begin so much less often.
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
