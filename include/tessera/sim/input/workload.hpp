// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/did_you_mean.hpp>
#include <tessera/sim/input/trace.hpp>
#include <tessera/sim/names.hpp>
#include <tessera/sim/random.hpp>

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
/// Workloads generated from published statistics: arrivals and lengths of requests.
///
/// Lengths are drawn from quantile tables, which we computed from the data that each workload names as its source. No
/// row of any data set is kept here. The same workload, number and seed give the same rows on every machine.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// The levels of every quantile table here: dense in the tails.
inline constexpr std::array<double, 29> quantile_levels{0,   0.01, 0.02, 0.05, 0.1,  0.15, 0.2,   0.25,  0.3, 0.35,
                                                        0.4, 0.45, 0.5,  0.55, 0.6,  0.65, 0.7,   0.75,  0.8, 0.85,
                                                        0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999, 1};

/// A distribution: its quantiles at `quantile_levels`, linear in between.
struct quantile_table {
  std::array<double, quantile_levels.size()> values;  ///< One for each of `quantile_levels`, ascending.

  /// The quantile at `u`. Requires `u` in [0, 1].
  [[nodiscard]] double at(double u) const noexcept { return interpolate_quantile(quantile_levels, values, u); }

  /// The mean of the drawn values.
  [[nodiscard]] constexpr double mean() const noexcept {
    double sum = 0;
    for (std::size_t i = 1; i < values.size(); ++i) {
      sum += (quantile_levels[i] - quantile_levels[i - 1]) * (values[i] + values[i - 1]) / 2;
    }
    return sum;
  }
};

/// The distribution of lengths of one kind of request. The prompt is independent of the rest.
struct length_law {
  /// The meaning of `first` and `second`.
  enum class form : std::uint8_t {
    answer,                ///< `first`: answer tokens; no reasoning. `second` is not used.
    reasoning_and_answer,  ///< `first`: reasoning tokens, `second`: answer tokens.
    output_and_share,      ///< `first`: output tokens, `second`: the reasoning share of the output.
  };

  double weight = 1;                       ///< Frequency of this kind, relative to the others of the workload.
  form is = form::answer;                  ///< Which lengths are drawn.
  const quantile_table* prompt = nullptr;  ///< Prompt tokens.
  const quantile_table* first = nullptr;   ///< See `form`.
  const quantile_table* second = nullptr;  ///< See `form`.
  /// Rank correlation of `first` and `second`, 0 to 1: the probability that both are drawn at the same level; otherwise
  /// they are independent.
  double correlation = 0;
};

/// The distribution of a workload's sessions. Each turn's prompt is the history, which is the earlier prompt and its
/// answer, plus new tokens.
struct session_law {
  const quantile_table* turns = nullptr;   ///< Number of turns.
  const quantile_table* first = nullptr;   ///< Tokens of the first prompt.
  const quantile_table* fresh = nullptr;   ///< Tokens that a later prompt adds to the history.
  const quantile_table* answer = nullptr;  ///< Tokens of each answer.
  const quantile_table* think = nullptr;   ///< Seconds from an answer's end to the next turn.
  std::int64_t shared = 0;   ///< This many tokens at the beginning of first prompts are the same for all sessions.
  std::int64_t longest = 0;  ///< A session ends before a turn that would exceed this length, in tokens.
  bool agent = false;        ///< All turns except the last end with a tool call.
};

/// A built-in workload.
struct workload {
  std::string_view name;     ///< As in `--workload`.
  std::string_view summary;  ///< One line.
  std::string_view source;   ///< Data, licence, and the computation from it.
  /// Requests per second if the caller gives no rate; turns per second if there are sessions. It is the rate of the
  /// data. If the data have no arrivals, or invented ones, it is about 85 % of what the KV of eight instances of
  /// `h100-96gb-qwen-32b` sustains.
  double rate = 1;
  double cv = 1;                 ///< Coefficient of variation of the gaps between arrivals (see `arrival_process`).
  std::vector<length_law> laws;  ///< The kinds of requests, with their weights; empty if it has sessions.
  std::optional<session_law> sessions{};  ///< Instead of single requests.
  std::vector<double> tenants{};  ///< The share of requests, or sessions, of each tenant; empty: no tenants. What
                                  ///< sessions share is then shared within a tenant.
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
// gaps. 60 at most.
inline constexpr quantile_table chat_think{{0.2,  0.4,   0.6,   1.18,  2.1, 3.02, 3.93, 4.85, 5.1,   5.62,
                                            6.14, 6.66,  7.18,  7.39,  7.6, 7.8,  8.01, 8.22, 10.83, 12.92,
                                            15,   20.63, 24.37, 28.12, 30,  43,   51.5, 58.3, 60}};
// Codex on SWE-bench Pro, 610 runs: calls per run and the context of the first, from the published 50, 90 and 99 %.
inline constexpr quantile_table codex_calls{{5,  6,  6,  8,  10, 12, 15, 18, 20, 22, 25, 28,  30,  33, 37,
                                             40, 44, 47, 50, 54, 57, 68, 75, 83, 86, 90, 100, 108, 110}};
inline constexpr quantile_table codex_first{{11900, 11908, 11915, 11938, 11976, 12013, 12051, 12089, 12127, 12165,
                                             12202, 12240, 12278, 12345, 12412, 12479, 12546, 12612, 12679, 12746,
                                             12813, 13123, 13330, 13537, 13641, 13744, 13872, 13974, 14000}};
// Tokens that a call adds besides its answer, and the answer: exponential about the published means, 1,732 and 522.
inline constexpr quantile_table codex_fresh{{1,    17,   35,   88,   182,  280,  385,  496,   615,  743,
                                             881,  1031, 1195, 1377, 1580, 1810, 2076, 2390,  2775, 3271,
                                             3970, 4585, 5165, 6045, 6744, 7939, 9134, 11909, 16309}};
inline constexpr quantile_table codex_answer{{1,    5,    11,   27,   55,   85,   116,  150,  185, 224,
                                              266,  311,  360,  415,  476,  546,  626,  721,  837, 987,
                                              1197, 1383, 1558, 1823, 2034, 2395, 2755, 3592, 4080}};
// Seconds between the calls of coding agents in production, from the published 25, 39, 50, 67, 75, 77, 87 and 90 % of
// 783,000 gaps. 60 at most: a longer pause is not that of a tool.
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

}  // namespace detail

/// The built-in workloads.
[[nodiscard]] const std::vector<workload>& workloads();

/// The names of the built-in workloads.
[[nodiscard]] std::vector<std::string_view> workload_names();

/// The built-in workload of that name.
/// @throws usage_error that lists the available names.
[[nodiscard]] const workload& find_workload(std::string_view name);

/// Mean lengths of a workload, from its tables.
struct length_means {
  double prompt = 0;     ///< Tokens.
  double reasoning = 0;  ///< Tokens.
  double answer = 0;     ///< Tokens.
};

/// The means of the rows that `generate` draws, except for rounding to whole tokens. Requires: it has no sessions,
/// because their lengths depend on the number of earlier turns.
[[nodiscard]] length_means mean_lengths(const workload& w) noexcept;

namespace detail {

/// `x` times `share` to the nearest whole number, at least 1.
[[nodiscard]] std::int64_t whole_tokens(double x, double share = 1) noexcept;

}  // namespace detail

/// Draws `requests` rows in order of arrival. The lengths do not depend on the rate, nor the arrival pattern on the
/// lengths. So the same seed at another rate is the same work, faster or slower. If the workload has sessions, the
/// sessions arrive, at a rate that gives `rate` requests per second. The rows of a session are contiguous, with the
/// arrival of its first turn.
/// @param rate requests per second; the workload's own if empty.
/// @throws usage_error for no requests, too many, or a rate that is not positive.
[[nodiscard]] std::vector<trace_row> generate(const workload& w, std::size_t requests, std::optional<double> rate = {},
                                              std::uint64_t seed = 1);

/// Options of a replay.
struct replay_options {
  std::optional<double> rate{};  ///< Mean requests per second; empty: the trace's own.
  double rate_scale = 1;         ///< Factor on the rate: 2 replays twice as fast.
  std::size_t requests = 0;      ///< Only the first `requests` rows; 0: all.
  arrival_process arrivals{};    ///< For a trace without arrivals.
  std::uint64_t seed = 1;        ///< For a trace without arrivals.
};

/// The mean rate of rows in order of arrival: gaps per second between the first and the last. 0 if all come at once.
[[nodiscard]] double mean_rate(const std::vector<trace_row>& rows) noexcept;

/// The rows of a trace with the arrivals to replay. These are its own, shifted to 0 and scaled to the given rate. If it
/// has none, they are drawn at the given rate.
/// @throws usage_error in three cases. A trace without arrivals and no rate. A rate or scale that is not positive. A
/// rate, or a scale other than 1, for a trace with all requests at once.
[[nodiscard]] std::vector<trace_row> schedule_arrivals(const trace& t, const replay_options& options = {});

}  // namespace sim
TESSERA_NAMESPACE_END
