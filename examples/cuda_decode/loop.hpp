// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "engine.hpp"

#include <tessera/core/status.hpp>
#include <tessera/qoe/integrator.hpp>
#include <tessera/sim/input/split_list.hpp>
#include <tessera/sim/input/trace.hpp>
#include <tessera/sim/measure/metrics.hpp>
#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/random.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

/// @file
/// Continuous batching on one device: requests arrive on the clock, a scheduler decides each step, a decoder runs it.
/// All decisions are the scheduler's; this file carries them out and measures.

namespace cuda_decode {

namespace sim = tessera::sim;
using tessera::time_point;
using tessera::tokens;

/// A request of the load: prompt and lengths are given, and what has been measured so far.
struct served : engine_request {
  std::size_t id = 0;
  tokens output{};     ///< It ends when it has generated as many tokens.
  tokens reasoning{};  ///< Tokens of the output that are reasoning. Less than `output`.

  // The loop's.
  double preempted_since = -1;
  tessera::qoe_integrator qoe{};
  sim::request_record record;
};

/// The parts of a step that are timed apart.
enum class step_part : std::size_t {
  scheduling,  ///< plan, commit, and the host's part of making the batch.
  sorting,     ///< Attention's work list, on the device.
  copying,     ///< The next two.
  upload,      ///< Tokens, block table and work list to the device.
  swap,        ///< KV blocks between device and host.
  kernels,     ///< The transformer.
  rest,        ///< What is left of the step: launches, waiting for the tokens, bookkeeping of requests.
  step,        ///< All of it, on the host's clock.
};
inline constexpr std::size_t step_parts = 8;
inline constexpr std::array<std::string_view, step_parts> step_part_names{"scheduling", "sorting", "copying", "upload",
                                                                          "swap",       "kernels", "rest",    "step"};

/// Where the time of all steps went. With two in flight parts of one are in the time of another, and a step is as long
/// as it holds up the next. O(1) a step, allocates nothing.
class step_split {
 public:
  void add(double scheduling, const step_times& t, double step) {
    const double known = scheduling + t.host + t.sort + t.upload + t.swap + t.kernels;
    const std::array<double, step_parts> parts{
        scheduling + t.host, t.sort, t.upload + t.swap, t.upload, t.swap, t.kernels, std::max(step - known, 0.0), step};
    for (std::size_t i = 0; i < step_parts; ++i) {
      total_[i] += parts[i];
      ns_[i].add(static_cast<std::uint64_t>(std::max(parts[i], 0.0) * 1e9));
    }
  }
  [[nodiscard]] std::uint64_t steps() const noexcept { return ns_[0].count(); }
  [[nodiscard]] double total(step_part p) const noexcept { return total_[index(p)]; }
  [[nodiscard]] double mean(step_part p) const noexcept { return total(p) / static_cast<double>(steps()); }
  [[nodiscard]] double p99(step_part p) const noexcept { return ns_[index(p)].quantile(0.99) * 1e-9; }
  [[nodiscard]] double share(step_part p) const noexcept { return total(p) / total(step_part::step); }

 private:
  [[nodiscard]] static std::size_t index(step_part p) noexcept { return static_cast<std::size_t>(p); }

  std::array<double, step_parts> total_{};
  std::array<sim::count_histogram, step_parts> ns_{};
};

/// What a loop tells the time by, in seconds. It never runs backwards, but that it can be set back to 0.
struct loop_clock {
  std::function<double()> now;
  std::function<void(double)> sleep_until;
  std::function<void()> restart;
};

/// The wall clock. With a scale, one second counts as `scale` seconds: a tiny model can then be given a trace that was
/// made for a large one.
[[nodiscard]] inline loop_clock wall_clock(double scale = 1) {
  using clock = std::chrono::steady_clock;
  const auto start = std::make_shared<clock::time_point>(clock::now());
  const auto now = [=] { return scale * std::chrono::duration<double>(clock::now() - *start).count(); };
  const auto sleep_until = [=](double t) {
    // The kernel wakes up late; the last stretch is waited for awake.
    const double left = (t - now()) / scale - 1e-4;
    if (left > 0) std::this_thread::sleep_for(std::chrono::duration<double>(left));
    while (now() < t) std::this_thread::yield();
  };
  return {now, sleep_until, [=] { *start = clock::now(); }};
}

/// How a loop is set up.
struct loop_options {
  tessera::scheduler_limits limits;  ///< `plans_in_flight` 2: a step is planned and launched while another runs.
  tessera::step_limits step;
  tokens quantum{500};        ///< Quantum of compositions that have one.
  tokens demote_above{5000};  ///< Limit of compositions that have one.
  bool late_stops = false;    ///< The scheduler is not told how long requests get, as where a stop token ends them.
  loop_clock clock;
  std::function<void(served&, std::int32_t)> token{};  ///< Every token that is sampled, before the commit. Optional.
};

/// The loop without its scheduler's type. One thread.
class loop {
 public:
  explicit loop(loop_options o) : options_{std::move(o)} {}
  virtual ~loop() = default;
  loop(const loop&) = delete;
  loop& operator=(const loop&) = delete;

  /// Accepts a request, or says why not. Its `sequence`, `output` and `reasoning` are set. It must stay where it is
  /// until it has ended. @param arrival when it came: its latency counts from then.
  tessera::status submit(served& r, double arrival) {
    r.prompt = tokens{static_cast<std::int64_t>(r.sequence.size())};
    r.starts_in = r.reasoning > tokens{} ? tessera::phase::reasoning : tessera::phase::answering;
    r.record = {.id = r.id,
                .prompt_tokens = r.prompt.count(),
                .reasoning_tokens = r.reasoning.count(),
                .answer_tokens = (r.output - r.reasoning).count(),
                .arrival = arrival};
    if (options_.late_stops) r.max_output = tokens{};
    r.preempted_since = -1;
    r.qoe = tessera::qoe_integrator{};
    const bool makes_sense = r.output >= tokens{1} && r.reasoning >= tokens{} && r.reasoning < r.output;
    const tessera::status s = makes_sense ? submit_to_scheduler(r) : tessera::status::invalid;
    r.record.rejected = !ok(s);
    if (!ok(s)) return s;
    r.sequence.reserve(r.sequence.size() + static_cast<std::size_t>(r.output.count()));
    if (r.reasoning == tokens{}) r.record.phase_change = arrival;
    return s;
  }

  /// Ends a request now; one that is in steps in flight, with the last of them. False if it is not live.
  virtual bool cancel(served& r) = 0;
  /// Launches as many steps as may be in flight, and settles the oldest. False: there was nothing to run.
  /// @throws device_error; what was in flight has then failed.
  virtual bool step() = 0;
  /// No request is live, and no step is in flight.
  [[nodiscard]] virtual bool idle() const = 0;
  /// Compares the scheduler's books with the requests', between two steps. Empty: they agree.
  [[nodiscard]] virtual std::string inconsistency() const = 0;

  [[nodiscard]] const loop_options& options() const noexcept { return options_; }
  [[nodiscard]] const step_split& split() const noexcept { return split_; }
  [[nodiscard]] std::uint64_t computed_tokens() const noexcept { return computed_; }
  [[nodiscard]] std::uint64_t preemptions() const noexcept { return preemptions_; }
  [[nodiscard]] std::uint64_t swapped_blocks() const noexcept { return swapped_blocks_; }
  /// Computed tokens of requests that had ended by then. With two steps in flight, one is launched before the outcome
  /// of the other is known.
  [[nodiscard]] std::uint64_t tokens_in_vain() const noexcept { return in_vain_; }
  /// Forgets what was measured so far.
  void reset() {
    split_ = {};
    computed_ = in_vain_ = preemptions_ = swapped_blocks_ = 0;
  }

 protected:
  virtual tessera::status submit_to_scheduler(served& r) = 0;

  /// Takes what was sampled for an entry, and says what becomes of it.
  [[nodiscard]] tessera::outcome sample(served& r, std::int32_t token, double now) {
    const tokens generated = r.generated() + tokens{1};
    const bool reasoning = r.state().phase == tessera::phase::reasoning;
    r.sequence.push_back(token);
    if (std::isnan(r.record.first_token)) r.record.first_token = now;
    tessera::outcome o;
    o.end_of_reasoning = reasoning && generated == r.reasoning;
    o.finished = generated == r.output;
    if (o.end_of_reasoning) r.record.phase_change = now;
    if (!reasoning) {
      if (std::isnan(r.record.first_answer)) r.record.first_answer = now;
      r.qoe.on_token(time_point::at_seconds(now));
    }
    if (o.finished) r.record.finish = now;
    return o;
  }

  /// It was in a step.
  static void measure(served& r, double started, double ended) {
    r.record.executed += ended - started;
    if (std::isnan(r.record.first_scheduled)) r.record.first_scheduled = started;
    if (r.state().phase == tessera::phase::answering && std::isnan(r.record.answer_scheduled)) {
      r.record.answer_scheduled = started;
    }
    if (r.preempted_since >= 0) {
      r.record.preempted += started - r.preempted_since;
      r.preempted_since = -1;
    }
  }

  /// It no longer runs.
  static void ended(served& r) {
    sim::request_record& a = r.record;
    a.preemptions = r.state().preemptions;
    if (r.state().life != tessera::lifecycle::finished) a.finish = sim::never;  // cancelled with its last token
    if (!a.completed()) return;
    a.blocked = std::max(a.finish - a.arrival - a.executed - a.preempted, 0.0);
    a.qoe = r.qoe.value();
  }

  loop_options options_;
  step_split split_;
  std::uint64_t computed_ = 0;
  std::uint64_t in_vain_ = 0;
  std::uint64_t preemptions_ = 0;
  std::uint64_t swapped_blocks_ = 0;
};

/// A scheduler under a name, for the loop and for the simulator.
struct composition {
  std::string name;
  std::string summary;
  std::function<std::unique_ptr<loop>(decoder&, const loop_options&)> make;
  /// The same scheduler, limits and rows, on steps that last as long as the profile says.
  std::function<sim::run_result(const sim::profile&, const loop_options&, std::span<const sim::trace_row>)> simulate;
};

/// The compositions that can be chosen: see compositions.cpp.
[[nodiscard]] const std::vector<composition>& compositions();

/// Finds compositions by a comma-separated list of names. @throws tessera::sim::usage_error
[[nodiscard]] inline std::vector<const composition*> select_compositions(std::string_view names) {
  std::vector<const composition*> chosen;
  for (const std::string_view name : sim::split_list(names)) {
    const auto found = std::find_if(compositions().begin(), compositions().end(),
                                    [&](const composition& c) { return c.name == name; });
    if (found == compositions().end()) {
      std::vector<std::string_view> known;
      for (const composition& c : compositions()) known.push_back(c.name);
      throw sim::usage_error{fmt::format("unknown policy {}; there are: {}", sim::shown(name), fmt::join(known, ", "))};
    }
    chosen.push_back(&*found);
  }
  return chosen;
}

/// One request that will come.
struct arrival {
  double at_s = 0;
  served request;
};

/// A prompt that means nothing: `n` tokens of the vocabulary.
inline void fill_prompt(std::vector<std::int32_t>& prompt, std::size_t n, std::int32_t vocabulary,
                        sim::random_engine& rng) {
  prompt.resize(n);
  for (std::int32_t& t : prompt) {
    t = static_cast<std::int32_t>(sim::uniform_below(rng, static_cast<std::uint64_t>(vocabulary)));
  }
}

/// The requests of a trace, with made-up prompts and the trace's lengths. As in the simulator, an answer has at least
/// one token.
[[nodiscard]] inline std::list<arrival> load_of(std::span<const sim::trace_row> rows, std::int32_t vocabulary,
                                                std::uint64_t seed) {
  sim::random_engine rng{seed};
  std::list<arrival> all;
  for (const sim::trace_row& row : rows) {
    arrival& a = all.emplace_back();
    a.at_s = row.arrival_s;
    a.request.id = all.size() - 1;
    a.request.output = a.request.max_output = tokens{row.output_tokens};
    a.request.reasoning = min(tokens{row.reasoning_tokens}, a.request.output - tokens{1});
    fill_prompt(a.request.sequence, static_cast<std::size_t>(row.prompt_tokens), vocabulary, rng);
  }
  return all;
}

/// Made-up rows: lengths spread evenly over orders of magnitude up to these, all at once or at a mean rate.
struct made_up_load {
  std::size_t requests = 64;
  double rate = 0;  ///< Arrivals per second; 0: all at once.
  std::uint64_t seed = 1;
  std::int64_t longest_prompt = 1024;
  std::int64_t longest_reasoning = 512;
  std::int64_t longest_answer = 128;
};
[[nodiscard]] inline std::vector<sim::trace_row> make_rows(const made_up_load& l) {
  sim::random_engine rng{l.seed};
  const auto up_to = [&](std::int64_t most) {
    const double low = std::max(1.0, static_cast<double>(most) / 16);
    return static_cast<std::int64_t>(low * std::exp(sim::uniform(rng) * std::log(static_cast<double>(most) / low)));
  };
  std::vector<sim::trace_row> rows(l.requests);
  double now = 0;
  for (sim::trace_row& row : rows) {
    if (l.rate > 0) now += sim::exponential(rng, l.rate);
    row.arrival_s = now;
    row.prompt_tokens = up_to(l.longest_prompt);
    row.reasoning_tokens = up_to(l.longest_reasoning);
    row.answer_tokens = up_to(l.longest_answer);
    row.output_tokens = row.reasoning_tokens + row.answer_tokens;
  }
  return rows;
}

/// Serves requests as they arrive from now on, until all have ended. What is refused has `record.rejected` afterwards.
/// @param arrivals in order of their times. Their addresses are kept.
/// @throws device_error
inline void serve(loop& l, std::list<arrival>& arrivals) {
  const loop_clock& clock = l.options().clock;
  clock.restart();
  auto next = arrivals.begin();
  while (next != arrivals.end() || !l.idle()) {
    for (; next != arrivals.end() && next->at_s <= clock.now(); ++next) {
      static_cast<void>(l.submit(next->request, next->at_s));
    }
    if (l.step() || l.idle()) {
      if (l.idle() && next != arrivals.end()) clock.sleep_until(next->at_s);
      continue;
    }
    if (next == arrivals.end()) throw device_error{"requests are live, but none can run"};
    clock.sleep_until(next->at_s);
  }
}

/// Runs a trace under a composition: what the requests saw, as the simulator reports it, and the split of the steps.
struct loop_result {
  sim::run_result run;
  step_split split;
  std::uint64_t computed_tokens = 0;
  std::uint64_t tokens_in_vain = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t swapped_blocks = 0;
};
[[nodiscard]] inline loop_result run_trace(const composition& c, decoder& d, const loop_options& o,
                                           std::span<const sim::trace_row> rows, std::int32_t vocabulary,
                                           std::uint64_t seed) {
  std::list<arrival> arrivals = load_of(rows, vocabulary, seed);
  const std::unique_ptr<loop> l = c.make(d, o);
  const auto started = std::chrono::steady_clock::now();
  serve(*l, arrivals);
  loop_result result;
  sim::run_facts facts;
  facts.policy = c.name;
  facts.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  facts.simulated_tokens = static_cast<double>(l->computed_tokens());
  for (const arrival& a : arrivals) result.run.requests.push_back(a.request.record);
  result.run.numbers = sim::summarize(result.run.requests, facts);
  result.run.numbers.scheduler_ns_mean = l->split().mean(step_part::scheduling) * 1e9;
  result.run.numbers.scheduler_ns_p99 = l->split().p99(step_part::scheduling) * 1e9;
  result.split = l->split();
  result.computed_tokens = l->computed_tokens();
  result.tokens_in_vain = l->tokens_in_vain();
  result.preemptions = l->preemptions();
  result.swapped_blocks = l->swapped_blocks();
  return result;
}

}  // namespace cuda_decode
