// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/partition/plan.hpp>
#include <tessera/sim/input/trace.hpp>
#include <tessera/sim/model/step_time.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

/// @file
/// Stages planned for what instances do over time, rather than for one batch.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// What a plan has to cope with.
struct steady_load {
  std::span<const trace_row> sample;  ///< At least one request.
  double rate = 1;                    ///< Of requests like these, per second.
  double kv_tokens = 0;               ///< Room of an instance.
  std::size_t max_batch = 256;        ///< Largest batch.
  std::size_t least = 1;              ///< Fewest instances of a stage, unless there is only one stage.
  double hand_over_s = 0.01;          ///< What a hand-over takes beside the step that it waits for.
  double most_handing = 0.6;          ///< Part of the time that an instance may be handing over; it does one at a time.
};

/// Stages, and what they are expected to gain.
struct steady_stages {
  std::vector<partition::stage> stages{};  ///< All instances, all lengths.
  double gain = 1;  ///< Requests in the system without stages, over those with these, at the rate that was planned for:
                    ///< if no plan can keep up with the load, the largest that one can. Infinity: without stages it
                    ///< cannot keep up with that. At least 1.
  double carried = 1;  ///< Part of the rate that was planned for: less than 1 if no plan keeps up with all of it.
};

/// Divides lengths and instances into stages like CascadeInfer's planner (section 4.2), with another cost of a stage.
///
/// The published cost is that of a sample in flight all at once, in which every request is in the stage of its final
/// length. Here the load is a rate: a prompt is computed in the stage that its length belongs to, and each output token
/// in the stage of the length at which it is generated. A stage of k instances that computes prompts for a part p of
/// the time and generates x tokens a second on each has as many requests in a batch as Little's law says:
///
///     n = x T(n) / (1 - p),    T(n) = the decode step of n sequences of the stage's mean length and of its longest
///
/// and its cost is k n plus the requests that wait for the prompts before theirs (Pollaczek and Khinchine), so the plan
/// has the fewest requests in the system, which means the least time in it. A stage that cannot keep up, p + x T' >= 1,
/// whose batch does not fit, or that cannot hand over as fast as requests outgrow it, has no finite cost: no plan
/// overloads some instances while others are idle. If every plan is overloaded, the rate is lowered until one is not.
/// The longest of n sequences is taken to be the quantile 1 - 1 / (2 n) of the lengths in the stage, by tokens
/// generated.
///
/// Cuts are on a grid of four per doubling. O(instances cuts^2 (instances + cuts)) for each rate that is tried.
[[nodiscard]] inline steady_stages steady_plan(const step_timer& timer, const steady_load& load,
                                               std::size_t instances) {
  TESSERA_ASSERT(!load.sample.empty() && instances > 0 && load.rate > 0, "requests to plan for, and instances");
  std::int64_t longest = 1;
  for (const trace_row& r : load.sample) longest = std::max(longest, r.prompt_tokens + r.output_tokens);
  std::vector<std::int64_t> cuts{0};
  for (double at = 64; at < static_cast<double>(longest); at *= std::pow(2.0, 0.25)) {
    cuts.push_back(static_cast<std::int64_t>(at));
  }
  cuts.push_back(longest + 1);
  const std::size_t bins = cuts.size() - 1;

  /// Sums over the requests of the sample, up to each cut.
  struct sums {
    double prompts = 0, prefill = 0, prefill_squared = 0, generated = 0, context = 0, ended = 0;
  };
  std::vector<sums> upto(bins + 1);
  const auto bin = [&](std::int64_t length) {
    return static_cast<std::size_t>(std::upper_bound(cuts.begin(), cuts.end(), length) - cuts.begin()) - 1;
  };
  for (const trace_row& r : load.sample) {
    step_shape shape;
    shape.add_prefill(tokens{}, tokens{r.prompt_tokens});
    const double seconds = timer(shape);
    sums& s = upto[bin(r.prompt_tokens) + 1];
    s.prompts += 1;
    s.prefill += seconds;
    s.prefill_squared += seconds * seconds;
    const std::int64_t end = r.prompt_tokens + r.output_tokens;
    upto[bin(end) + 1].ended += 1;
    for (std::size_t b = bin(r.prompt_tokens); b <= bin(end); ++b) {
      const auto from = static_cast<double>(std::max(r.prompt_tokens, cuts[b]));
      const auto to = static_cast<double>(std::min(end, cuts[b + 1]));
      if (to <= from) continue;
      upto[b + 1].generated += to - from;
      upto[b + 1].context += (to - from) * (from + to) / 2;
    }
  }
  for (std::size_t b = 1; b <= bins; ++b) {
    upto[b].prompts += upto[b - 1].prompts;
    upto[b].prefill += upto[b - 1].prefill;
    upto[b].prefill_squared += upto[b - 1].prefill_squared;
    upto[b].generated += upto[b - 1].generated;
    upto[b].context += upto[b - 1].context;
    upto[b].ended += upto[b - 1].ended;
  }

  constexpr double impossible = std::numeric_limits<double>::infinity();
  const auto uniform = [&](std::int64_t n, double length) {
    step_shape shape;
    shape.decodes = n;
    shape.longest_context = static_cast<std::int64_t>(length);
    shape.decode_context = n * shape.longest_context;
    return timer(shape);
  };
  const auto cost = [&](std::size_t i, std::size_t j, std::size_t k, double rate) {
    const double each = rate / static_cast<double>(load.sample.size()) / static_cast<double>(k);
    const double prompts = upto[j].prompts - upto[i].prompts;
    const double prefill = (upto[j].prefill - upto[i].prefill) * each;
    const double generated = upto[j].generated - upto[i].generated;
    if (prompts == 0 && generated == 0) return impossible;  // nothing to do here
    double batch = 0;
    double busy = prefill;
    if (generated > 0) {
      const double mean = (upto[j].context - upto[i].context) / generated;
      const double x = generated * each;
      const double slope = (uniform(256, mean) - uniform(64, mean)) / 192;
      const double fixed = uniform(64, mean) - 64 * slope;
      busy += x * slope;
      if (busy >= 1) return impossible;
      batch = 1;
      for (int round = 0; round != 4; ++round) {
        // By tokens generated, all but 1 / (2 n) are below `high`.
        const double most = upto[i].generated + generated * (1 - 0.5 / std::max(batch, 1.0));
        std::size_t b = i + 1;
        while (b < j && upto[b].generated < most) ++b;
        const double inside = upto[b].generated - upto[b - 1].generated;
        const double part = inside > 0 ? std::clamp((most - upto[b - 1].generated) / inside, 0.0, 1.0) : 1.0;
        const double high = static_cast<double>(cuts[b - 1]) + part * static_cast<double>(cuts[b] - cuts[b - 1]);
        step_shape shape;
        shape.decodes = std::max<std::int64_t>(1, static_cast<std::int64_t>(batch + 0.5));
        shape.decode_context = static_cast<std::int64_t>(mean * static_cast<double>(shape.decodes));
        shape.longest_context = static_cast<std::int64_t>(std::max(high, mean));
        batch = x * (fixed + timer.tail(shape)) / (1 - busy);
      }
      if (batch > static_cast<double>(load.max_batch) || batch * mean > load.kv_tokens) return impossible;
    }
    if (busy >= 1) return impossible;
    if (j != bins && generated > 0) {
      // At the full rate: requests that cannot leave would fill the stage.
      const double outgrow = (upto[j].prompts - upto[j].ended) * each * load.rate / rate;
      if (outgrow * (batch / (generated * each) + load.hand_over_s) > load.most_handing) return impossible;
    }
    const double waiting =
        prompts * each * (upto[j].prefill_squared - upto[i].prefill_squared) * each / (2 * (1 - busy));
    return static_cast<double>(k) * (batch + prefill + waiting);
  };

  /// The best division of the bins below j among e instances, and where its last stage begins.
  struct entry {
    double cost = std::numeric_limits<double>::infinity();
    std::size_t instances = 0;
    std::size_t from = 0;
  };
  for (double rate = load.rate;; rate *= 0.95) {
    std::vector<std::vector<entry>> best(instances + 1, std::vector<entry>(bins + 1));
    best[0][0].cost = 0;
    for (std::size_t j = 1; j <= bins; ++j) {
      for (std::size_t i = 0; i != j; ++i) {
        for (std::size_t k = std::min(load.least, instances); k <= instances; ++k) {
          const double c = cost(i, j, k, rate);
          if (c == impossible) continue;
          for (std::size_t e = k; e <= instances; ++e) {
            const double total = best[e - k][i].cost + c;
            if (total < best[e][j].cost) best[e][j] = {total, k, i};
          }
        }
      }
    }
    if (best[instances][bins].cost == impossible) continue;
    std::vector<partition::stage> stages;
    for (std::size_t e = instances, j = bins; j != 0;) {
      const entry& last = best[e][j];
      stages.push_back({.from = tokens{cuts[last.from]},
                        .to = j == bins ? partition::unbounded : tokens{cuts[j]},
                        .instances = last.instances,
                        .requests = static_cast<std::size_t>(upto[j].ended - upto[last.from].ended),
                        .quality = cost(last.from, j, last.instances, rate)});
      e -= last.instances;
      j = last.from;
    }
    std::reverse(stages.begin(), stages.end());
    return {.stages = std::move(stages),
            .gain = cost(0, bins, instances, rate) / best[instances][bins].cost,
            .carried = rate / load.rate};
  }
}

}  // namespace sim
TESSERA_NAMESPACE_END
