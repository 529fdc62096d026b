// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/measure/distribution.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

/// @file
/// The life of one request in a run, and the choice of measured requests. Times are in seconds. A moment that never
/// came is NaN.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// The life of one request.
struct request_record {
  std::uint64_t id = 0;               ///< Row of the workload, from 0.
  std::uint32_t instance = 0;         ///< The instance on which it ended.
  std::uint32_t preemptions = 0;      ///< How often it lost its blocks.
  std::uint32_t migrations = 0;       ///< How often it moved.
  std::uint32_t recoveries = 0;       ///< How often it lost its KV with its instance.
  std::int64_t cached_tokens = 0;     ///< Tokens of its prompt found in the prefix cache when it first started.
  std::int32_t tenant = -1;           ///< Its tenant; -1: unknown.
  std::int64_t session = -1;          ///< The session of which it is a turn, or call; -1: none.
  bool rejected = false;              ///< Refused at submission: it can never fit, or the queue was full.
  std::int64_t prompt_tokens = 0;     ///< As in the workload.
  std::int64_t reasoning_tokens = 0;  ///< As in the workload.
  std::int64_t answer_tokens = 0;     ///< As in the workload.
  double arrival = 0;                 ///< In simulated seconds.
  double first_scheduled = never;     ///< Start of the first step it was in.
  double first_token = never;         ///< End of the step that gave its first token, reasoning or answer.
  double phase_change = never;        ///< End of its reasoning; its arrival if it does not reason.
  double answer_scheduled = never;    ///< Start of the first step it was in after the phase change.
  double first_answer = never;        ///< End of the step that gave its first answering token.
  double finish = never;              ///< End of the step that gave its last token.
  double executed = 0;                ///< Time in steps.
  double blocked = 0;                 ///< Time ready to run, never yet run or not preempted, and not in a step.
  double preempted = 0;               ///< Time without its blocks after a preemption.
  double qoe = never;                 ///< For a finished request with an answer.

  /// Reasoning and answer.
  [[nodiscard]] std::int64_t output_tokens() const noexcept { return reasoning_tokens + answer_tokens; }
  /// Whether its last token was produced.
  [[nodiscard]] bool completed() const noexcept { return !std::isnan(finish); }
  /// Seconds from arrival to the first token of any kind, reasoning or answer: what engines call TTFT.
  [[nodiscard]] double first_token_s() const noexcept { return first_token - arrival; }
  /// Submission to first *answering* token (PASCAL, section V-A).
  [[nodiscard]] double ttft() const noexcept { return first_answer - arrival; }
  /// Mean time between the answering tokens; NaN for less than two.
  [[nodiscard]] double tpot() const noexcept {
    return answer_tokens < 2 ? never : (finish - first_answer) / static_cast<double>(answer_tokens - 1);
  }
  /// Seconds from arrival to the last token.
  [[nodiscard]] double e2e() const noexcept { return finish - arrival; }
  /// End-to-end latency per output token (PARS).
  [[nodiscard]] double normalized_latency() const noexcept { return e2e() / static_cast<double>(output_tokens()); }
  /// Phase change to first scheduled (PASCAL, section V-D); NaN for a request that does not reason.
  [[nodiscard]] double blocking() const noexcept {
    return reasoning_tokens == 0 ? never : answer_scheduled - phase_change;
  }
};

/// The part of a run that is measured: requests that arrive in it, and the tokens that are generated in it. A run
/// begins with empty instances and ends with idle ones; these periods say little about a cluster that serves all day.
struct measured_window {
  double from = -std::numeric_limits<double>::infinity();  ///< In simulated seconds.
  double to = std::numeric_limits<double>::infinity();     ///< The last arrival that counts.
  double output_tokens = never;  ///< Generated in it by all requests, in steps that ended in it.

  /// Whether a request that arrives then is measured.
  [[nodiscard]] bool contains(double arrival) const noexcept { return from <= arrival && arrival <= to; }
  /// Seconds.
  [[nodiscard]] double length() const noexcept { return to - from; }
};

}  // namespace sim
TESSERA_NAMESPACE_END
