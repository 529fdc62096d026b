// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>
#include <tessera/request/state.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// @file
/// What a run tells the watcher that asks why things happened: `cluster_options::watcher`. Times are in simulated
/// seconds.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// What happens to a request.
enum class event_kind : std::uint8_t {
  arrived,       ///< At the router.
  predicted,     ///< What its order expects of it.
  placed,        ///< On an instance.
  refused,       ///< There, or everywhere.
  waits,         ///< In the queue, without blocks.
  stands_still,  ///< With its blocks, but in no step.
  starts,        ///< Its first step.
  computes,      ///< Its prompt, or what was lost of it.
  generates,     ///< Tokens.
  first_token,   ///< It has one.
  preempted,     ///< It loses its blocks.
  resumes,       ///< It goes on after that, or elsewhere.
  answers,       ///< Its reasoning has ended.
  offered,       ///< On the market.
  asked,         ///< Other instances, whether they take it.
  bid,           ///< An instance takes it.
  declined,      ///< An instance does not.
  confirmed,     ///< An instance may pull it.
  reserved,      ///< That has set blocks apart, and pulls.
  moves,         ///< Its KV begins to be copied.
  stops,         ///< It runs nowhere until the last of its KV has crossed.
  moved,         ///< It is on another instance.
  stays,         ///< It could have moved, or a move came to nothing.
  lost,          ///< Its instance has died.
  ended,         ///< It has its last token.
};

/// A lower-case name, for people and programs.
[[nodiscard]] constexpr const char* to_string(event_kind h) noexcept {
  switch (h) {
    case event_kind::arrived: return "arrived";
    case event_kind::predicted: return "predicted";
    case event_kind::placed: return "placed";
    case event_kind::refused: return "refused";
    case event_kind::waits: return "waits";
    case event_kind::stands_still: return "stands still";
    case event_kind::starts: return "starts";
    case event_kind::computes: return "computes";
    case event_kind::generates: return "generates";
    case event_kind::first_token: return "first token";
    case event_kind::preempted: return "preempted";
    case event_kind::resumes: return "resumes";
    case event_kind::answers: return "answers";
    case event_kind::offered: return "offered";
    case event_kind::asked: return "asked";
    case event_kind::bid: return "bid";
    case event_kind::declined: return "declined";
    case event_kind::confirmed: return "confirmed";
    case event_kind::reserved: return "reserved";
    case event_kind::moves: return "moves";
    case event_kind::stops: return "stops";
    case event_kind::moved: return "moved";
    case event_kind::stays: return "stays";
    case event_kind::lost: return "lost";
    case event_kind::ended: return "ended";
  }
  return "?";
}

/// What a policy compared when it decided: a row for each instance that it could have chosen.
struct comparison {
  /// What was known of one of them.
  struct row {
    std::size_t instance = 0;    ///< Which one.
    std::string label{};         ///< What it is, for instance its pool; may be empty.
    std::vector<double> values;  ///< By column.
  };
  std::vector<std::string> columns{};  ///< What the numbers are.
  std::vector<row> rows{};             ///< By instance.
};

/// Something that happened to a request, and why.
struct request_event {
  event_kind what = event_kind::arrived;  ///< What.
  double at_s = 0;                        ///< When.
  std::size_t request = 0;                ///< The request: a row of the workload.
  std::size_t instance = 0;               ///< Where; for a decision, the chosen instance.
  std::string why{};                      ///< A plain sentence; may be empty.
  comparison seen{};                      ///< What was compared; may be empty.
};

/// A request's share of one step, or that it has none.
struct request_step {
  event_kind what = event_kind::waits;     ///< `computes`, `generates`, `waits` or `stands_still`.
  double from_s = 0;                       ///< When the step begins,
  double until_s = 0;                      ///< and when it is to end.
  std::size_t request = 0;                 ///< Its row in the workload.
  std::size_t instance = 0;                ///< Where.
  tokens count{};                          ///< Tokens computed, if it runs.
  wait_reason reason = wait_reason::none;  ///< Why it does not run.
  std::size_t ahead = 0;                   ///< How many of those that wait rank before it.
  std::string why{};                       ///< The same in words.
};

/// A step of an instance.
struct instance_step {
  double from_s = 0;         ///< When it begins,
  double until_s = 0;        ///< and when it is to end.
  std::size_t instance = 0;  ///< Which instance.
  std::size_t decodes = 0;   ///< Requests that generate a token.
  std::size_t prompts = 0;   ///< Requests with tokens of the prompt in the step.
  tokens computed{};         ///< In all.
  std::size_t waiting = 0;   ///< Requests that wait for another step.
  blocks free{};             ///< On the device.
  std::string first{};       ///< The first request that waits, and why; empty: none waits.
};

/// Asks why. A run looks at none of this unless it has a watcher that asks, and its results do not depend on it.
class run_watcher {
 public:
  run_watcher() = default;
  run_watcher(const run_watcher&) = delete;
  run_watcher& operator=(const run_watcher&) = delete;
  virtual ~run_watcher() = default;

  /// Whether it wants to hear of a request at this time. Called often.
  [[nodiscard]] virtual bool asks(std::size_t request, double now_s) const = 0;
  /// Whether it wants to hear of the steps of instances at this time.
  [[nodiscard]] virtual bool asks_of_steps(double now_s) const = 0;
  /// Something has happened to a request that it asked for.
  virtual void notify(request_event e) = 0;
  /// A step begins in which a request that it asked for takes part, or does not.
  virtual void notify(request_step s) = 0;
  /// A step begins.
  virtual void notify(instance_step s) = 0;
  /// The policy says something that concerns no single request. Before the run that is how it has divided the
  /// instances, later that an instance goes to another pool. @param at_s NaN before the run.
  virtual void note(double at_s, std::string words) = 0;
  /// The same of what holds from then on, until the next.
  virtual void rule(double at_s, std::string words) { note(at_s, std::move(words)); }
};

}  // namespace sim
TESSERA_NAMESPACE_END
