// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "adapter.hpp"
#include "metrics.hpp"
#include "model.hpp"
#include "prompt_lookup.hpp"

#include <tessera/core/status.hpp>
#include <tessera/pacing/token_pacer.hpp>
#include <tessera/pipeline/limits.hpp>
#include <tessera/qoe/integrator.hpp>
#include <tessera/sim/measure/metrics.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// A continuous-batching server: instances of one model, each a llama.cpp context and a scheduler. All decisions are
/// the scheduler's and the placement policies'; this file carries them out, samples, paces and measures.

namespace llama_cpp {

using tessera::blocks;
using tessera::time_point;
using tessera::tokens;

/// A request as the server keeps it. The client fills in the first part and keeps it alive until it is closed.
struct served : engine_request {
  std::size_t id = 0;
  tokens reasoning_budget{};  ///< End the reasoning with the model's token when it is that long; 0: never.
  bool fixed_length = false;  ///< For load: the model's own ends do not count, only `reasoning_budget`, `max_output`.
  /// Others that are to answer the same prompt, each with its own `how`: give them an id, and submit this one only. Its
  /// prompt is computed once. Keep them alive as requests of their own.
  std::vector<served*> samples{};

  // The server's.
  std::uint32_t forks_due = 0;   ///< Number of `samples` that wait for its prompt.
  tokens shared{};               ///< KV that it began with as a fork and has not computed or restored itself.
  std::size_t where = 0;         ///< Its instance.
  std::size_t place = 0;         ///< In the list of live requests.
  std::size_t answer_begin = 0;  ///< Where the answer begins in the sequence; 0: not yet.
  std::size_t answer_end = 0;    ///< One past the last token that is for the reader.
  std::size_t shown = 0;         ///< Answering tokens that the reader has been given.
  double preempted_since = -1;
  tessera::token_pacer pacer{};
  tessera::qoe_integrator qoe{};
  tessera::sim::request_record record;
};

/// How a server is set up.
struct server_options {
  std::size_t instances = 1;
  tessera::scheduler_limits limits{.requests = 4096,
                                   .blocks = 256,
                                   .block_size = tokens{16},
                                   .residents = 16,
                                   .host_blocks = 1024,
                                   .max_length = tokens{}};
  tokens step_tokens{512};            ///< Tokens in a step (llama.cpp's n_batch): longer prompts come in chunks.
  bool unified = true;                ///< See `context_options`.
  bool flash_attention = true;        ///< The same.
  int threads = 1;                    ///< For each instance. Their steps take turns.
  tokens drafts{};                    ///< Most tokens of a request that are guessed from its own text and verified.
  tokens quantum{500};                ///< Quantum of compositions that have one.
  tokens demote_above{5000};          ///< Limit of compositions that have one.
  tessera::pacing_config pace;        ///< What a reader expects.
  llama_token end_of_reasoning = -1;  ///< -1: the model does not reason.
  std::function<time_point()> clock;  ///< Never runs backwards.
  std::function<void(const served&, llama_token)> token;  ///< Every token that is sampled. Optional.
  std::function<void(const served&, std::span<const llama_token>)>
      read;                             ///< Answering tokens, when released. Optional.
  std::function<void(served&)> closed;  ///< It has ended and is read: nothing refers to it any more. Optional.

  [[nodiscard]] context_options context() const {
    const std::int64_t cells = unified ? limits.block_size.count() * static_cast<std::int64_t>(limits.blocks)
                                       : limits.longest().count() * static_cast<std::int64_t>(limits.residents);
    return {.cells = static_cast<std::uint32_t>(cells),
            .slots = static_cast<std::uint32_t>(limits.residents),
            .batch = static_cast<std::uint32_t>(step_tokens.count()),
            .unified = unified,
            .flash_attention = flash_attention,
            .threads = threads};
  }
};

/// What a server has done so far.
struct server_counts {
  std::uint64_t steps = 0;
  std::uint64_t tokens = 0;  ///< Computed: prompts and outputs.
  std::uint64_t sampled = 0;
  std::uint64_t drafts = 0;    ///< Guessed and verified,
  std::uint64_t accepted = 0;  ///< and appended, of those.
  std::uint64_t forks = 0;     ///< Requests that began with the prompt of another.
  std::uint64_t preemptions = 0;
  std::uint64_t swaps_in = 0;
  std::uint64_t moves = 0;                     ///< Live sequences moved to another context.
  double step_seconds = 0;                     ///< Wall time of all steps, plan to commit.
  double scheduler_seconds = 0;                ///< The part of it in `plan`, `commit` and placement.
  tessera::sim::count_histogram scheduler_ns;  ///< Wall time of plan and commit, per step.
  std::vector<double> move_seconds;            ///< What each move took, on the server's clock.
};

/// The server without its scheduler's type. One thread. Instances take turns, so that two on one thread are as
/// deterministic as one.
class server {
 public:
  explicit server(server_options o) : options_{std::move(o)} {}
  virtual ~server() = default;
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  /// Accepts a request with `sequence` and `max_output`, or says why not. More than 0 tokens of output must be allowed,
  /// and tokens must be of the vocabulary. Its `samples` come when its prompt is there, and not at all if it ends
  /// before.
  [[nodiscard]] tessera::status submit(served& r) {
    const time_point now = options_.clock();
    if (r.max_output < tokens{1}) return tessera::status::invalid;
    const bool reasons = describe(r, now);
    r.forks_due = static_cast<std::uint32_t>(r.samples.size());
    guess(r);
    const tessera::status s = place_arrival(r, now);
    if (!ok(s)) {
      r.record.rejected = true;
      return s;
    }
    if (!reasons) r.record.phase_change = now.seconds();
    lives(r);
    return s;
  }

  /// The client hung up: nothing more is computed or read. Also from within `token`, while a step runs. False if the
  /// request was closed, or cancelled already.
  bool cancel(served& r) {
    if (cancel_run(r)) return true;
    if (r.state().life != tessera::lifecycle::finished || std::erase(reading_, &r) == 0) return false;
    close(r);
    return true;
  }

  /// Gives up a request's KV and has it go on in the instance `to`, which may be the one where it is: in another slot.
  /// False if it holds none now, or there is no room in the queue.
  virtual bool move(served& r, std::size_t to) = 0;

  /// Runs one step of every instance that has something to run. False if none has. @throws engine_error
  virtual bool step() = 0;

  /// Gives readers what their pace allows by now, and closes requests that are read.
  void deliver() {
    const time_point now = options_.clock();
    for (std::size_t i = 0; i < reading_.size();) {
      served& r = *reading_[i];
      const auto released = static_cast<std::size_t>(r.pacer.released(now).count());
      if (released > r.shown) {
        if (options_.read) {
          options_.read(r,
                        std::span<const llama_token>{r.sequence}.subspan(r.answer_begin + r.shown, released - r.shown));
        }
        r.shown = released;
      }
      if (r.pacer.drained(now)) {
        reading_[i] = reading_.back();
        reading_.pop_back();
        close(r);
      } else {
        ++i;
      }
    }
  }
  /// When `deliver` will have something to do, if no step is run; `never()`: not at all.
  [[nodiscard]] time_point next_release() const {
    const time_point now = options_.clock();
    time_point next = time_point::never();
    for (const served* r : reading_) {
      const time_point t = r->pacer.drained(now) ? now : r->pacer.next_release(now);
      if (t < next) next = t;
    }
    return next;
  }

  /// No request is live, and none is being read.
  [[nodiscard]] bool idle() const noexcept { return live_.empty() && reading_.empty(); }
  [[nodiscard]] std::span<served* const> live() const noexcept { return live_; }
  [[nodiscard]] const server_options& options() const noexcept { return options_; }
  [[nodiscard]] const server_counts& counts() const noexcept { return counts_; }
  void reset_counts() { counts_ = {}; }

  /// What is in use now: all zero when the server is idle, or something was lost.
  struct usage {
    std::size_t blocks = 0;
    std::size_t host_blocks = 0;
    std::size_t slots = 0;
    std::size_t sequences = 0;  ///< As llama.cpp counts them.
    std::size_t requests = 0;
    friend bool operator==(const usage&, const usage&) = default;
  };
  [[nodiscard]] virtual usage in_use() const = 0;
  /// What each instance's scheduler has done, for metrics: on the thread that runs steps.
  [[nodiscard]] virtual std::vector<scheduler_snapshot> snapshots() const = 0;
  /// Compares the schedulers' books with what llama.cpp holds, between two steps. Empty: they agree.
  [[nodiscard]] virtual std::string inconsistency() const = 0;

 protected:
  virtual tessera::status place_arrival(served& r, time_point now) = 0;
  virtual bool cancel_run(served& r) = 0;

  /// What the server keeps of a request that comes. Whether it reasons.
  bool describe(served& r, time_point now) {
    r.prompt = tokens{static_cast<std::int64_t>(r.sequence.size())};
    const bool reasons = r.reasoning_budget > tokens{} || (!r.fixed_length && options_.end_of_reasoning >= 0);
    r.starts_in = reasons ? tessera::phase::reasoning : tessera::phase::answering;
    r.pacer = tessera::token_pacer{options_.pace};
    r.qoe = tessera::qoe_integrator{options_.pace};
    r.record = {.id = r.id, .prompt_tokens = r.prompt.count(), .arrival = now.seconds()};
    return reasons;
  }
  void lives(served& r) {
    r.place = live_.size();
    live_.push_back(&r);
  }
  /// `child` is to answer the prompt of `r`.
  static void like(served& child, const served& r) {
    child.sequence.assign(r.sequence.begin(), r.sequence.begin() + static_cast<std::ptrdiff_t>(r.prompt.count()));
    child.max_output = r.max_output;
    child.reasoning_budget = r.reasoning_budget;
    child.fixed_length = r.fixed_length;
  }
  /// Whether a request simply goes on after this first token.
  [[nodiscard]] bool goes_on(const served& r, llama_token first, const model& m) const {
    return r.max_output > tokens{1} && r.reasoning_budget != tokens{1} && first != options_.end_of_reasoning &&
           (r.fixed_length || !m.ends_output(first));
  }

  /// It no longer runs. What is left of its answer is still to be read, unless its reader has gone.
  void ended(served& r) {
    live_[r.place] = live_.back();
    live_[r.place]->place = r.place;
    live_.pop_back();
    const bool read_on = r.state().life == tessera::lifecycle::finished;
    r.pacer.finish();
    r.qoe.finish();
    r.record.preemptions = r.state().preemptions;
    r.record.instance = static_cast<std::uint32_t>(r.where);
    const tokens reasoning = r.state().phase == tessera::phase::answering ? r.state().reasoning : r.generated();
    r.record.reasoning_tokens = reasoning.count();
    r.record.answer_tokens = (r.generated() - reasoning).count();
    if (read_on) {
      r.record.blocked = std::max(r.record.finish - r.record.arrival - r.record.executed - r.record.preempted, 0.0);
      if (r.qoe.delivered() > tokens{}) r.record.qoe = r.qoe.value();
    }
    if (!read_on || r.answer_begin == 0) {
      if (r.answer_begin != 0) std::erase(reading_, &r);
      close(r);
    }
  }
  void close(served& r) {
    if (options_.closed) options_.closed(r);
  }

  /// Guesses what its next step is to verify.
  void guess(served& r) {
    r.guesses.clear();
    r.drafts = tokens{};
    // With drafts it would come further than its samples go on from.
    if (options_.drafts == tokens{} || r.forks_due != 0) return;
    r.guesses.reserve(static_cast<std::size_t>(options_.drafts.count()));
    look_up(r.sequence, static_cast<std::size_t>(options_.drafts.count()), r.guesses);
    r.drafts = tokens{static_cast<std::int64_t>(r.guesses.size())};
  }

  /// Takes what was sampled for an entry, and says what becomes of it: no more than up to where its phase changes or it
  /// ends.
  [[nodiscard]] tessera::outcome sample(served& r, std::span<const llama_token> sampled, const model& m,
                                        time_point now) {
    tessera::outcome o;
    std::uint16_t n = 0;
    do {
      o = sample(r, sampled[n], m, now);
      o.produced = ++n;
    } while (n != sampled.size() && !o.finished && !o.end_of_reasoning);
    counts_.accepted += std::min<std::size_t>(n, sampled.size() - 1);
    if (!o.finished) guess(r);
    return o;
  }
  [[nodiscard]] tessera::outcome sample(served& r, llama_token token, const model& m, time_point now) {
    const tokens generated = tokens{static_cast<std::int64_t>(r.sequence.size()) + 1} - r.prompt;
    const bool reasoning = r.state().phase == tessera::phase::reasoning;
    const bool spent = reasoning && r.reasoning_budget > tokens{} && generated >= r.reasoning_budget;
    if (spent && options_.end_of_reasoning >= 0) token = options_.end_of_reasoning;
    r.sequence.push_back(token);
    ++counts_.sampled;
    const bool ends = !r.fixed_length && m.ends_output(token);
    tessera::outcome o;
    o.end_of_reasoning = reasoning && (spent || (!r.fixed_length && token == options_.end_of_reasoning));
    o.finished = ends || generated == r.max_output;
    if (std::isnan(r.record.first_token)) r.record.first_token = now.seconds();
    if (o.end_of_reasoning) r.record.phase_change = now.seconds();
    if (!reasoning && !ends) {
      if (r.answer_begin == 0) {
        r.answer_begin = r.answer_end = r.sequence.size() - 1;
        r.record.first_answer = now.seconds();
        reading_.push_back(&r);
      }
      ++r.answer_end;
      r.pacer.on_token(now);
      r.qoe.on_token(now);
    }
    if (o.finished) r.record.finish = now.seconds();
    if (options_.token) options_.token(r, token);
    return o;
  }

  server_options options_;
  server_counts counts_;
  std::vector<served*> live_;     ///< Submitted and not ended.
  std::vector<served*> reading_;  ///< Answering, and not read to the end.
};

/// A scheduler and its placement under a name.
struct composition {
  std::string name;
  std::string summary;
  std::function<std::unique_ptr<server>(const model&, const server_options&)> make;
};

/// The compositions that can be chosen: see compositions.cpp.
[[nodiscard]] const std::vector<composition>& compositions();

/// @throws tessera::sim::usage_error
[[nodiscard]] inline const composition& find_composition(std::string_view name) {
  std::vector<std::string_view> names;
  for (const composition& c : compositions()) {
    if (c.name == name) return c;
    names.push_back(c.name);
  }
  throw sim::usage_error{fmt::format("unknown policy {}; there are: {}", sim::shown(name), fmt::join(names, ", "))};
}

/// Makes a request of a prompt's text. Returns why it is refused, or nothing.
[[nodiscard]] inline std::optional<std::string> prepare(served& r, std::string_view text, const model& m,
                                                        tokens max_output, tokens longest) {
  if (text.find_first_not_of(" \t\r\n") == text.npos) return "the prompt is empty";
  if (!is_utf8(text)) return "the prompt is not UTF-8";
  // No token has more than some hundred bytes: what is far too long need not be cut into tokens to be refused.
  constexpr std::size_t longest_token = 256;
  if (text.size() / longest_token <= static_cast<std::size_t>(longest.count())) {
    r.sequence = m.tokenize(text);
    r.max_output = max_output;
    if (r.sequence.empty()) return "the prompt has no tokens";
    if (tokens{static_cast<std::int64_t>(r.sequence.size())} + max_output - tokens{1} <= longest) return std::nullopt;
  }
  return fmt::format("the prompt is too long: with {} tokens of output it exceeds the context of {}",
                     max_output.count(), longest.count());
}

}  // namespace llama_cpp
