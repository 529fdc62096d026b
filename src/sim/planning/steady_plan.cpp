// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/partition/plan.hpp>
#include <tessera/sim/input/trace.hpp>
#include <tessera/sim/model/step_time.hpp>
#include <tessera/sim/planning/steady_plan.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

steady_stages steady_plan(const step_timer& timer, const steady_load& load, std::size_t instances) {
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
    if (prompts == 0 && generated == 0) return impossible;  // no work here
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
