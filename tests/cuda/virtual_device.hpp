// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "cuda/fake_decoder.hpp"
#include "loop.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

/// @file
/// The fake decoder on a clock of its own: a step takes what a formula says, to the last bit. Nothing else takes any
/// time.

namespace cuda_decode_test {

/// Seconds, by what a step does.
struct step_cost {
  double step = 5e-3;           ///< Any step with rows.
  double weights = 0;           ///< Read once, while the matrix products are computed: the longer of both counts.
  double product = 0;           ///< Per token, in the matrix products.
  double row = 2e-6;            ///< Per decode row.
  double context_token = 4e-8;  ///< Per context token that a decode row reads.
  double prompt_token = 2e-5;   ///< Per token of a chunk.
  double pair = 5e-10;          ///< Per query of a chunk and context token before it.
  double block = 4e-5;          ///< Per block that is copied, either way.
  double tail = 0;              ///< Per context token of the longest decode row above the mean, uniform split.

  [[nodiscard]] double operator()(const step_batch& b, bool uniform) const {
    double seconds = b.rows.empty() ? 0 : step;
    double longest = 0;
    double sum = 0;
    double decodes = 0;
    for (const batch_row& r : b.rows) {
      const double first = r.first;
      const double count = r.count;
      if (r.count == 1) {
        seconds += row + context_token * (first + 1);
        longest = std::max(longest, first + 1);
        sum += first + 1;
        ++decodes;
      } else {
        seconds += prompt_token * count + pair * (count * first + count * (count + 1) / 2);
      }
    }
    seconds += std::max(b.rows.empty() ? 0 : weights, product * static_cast<double>(b.tokens.size()));
    if (uniform && decodes > 0) seconds += tail * (longest - sum / decodes);
    return seconds + block * static_cast<double>(b.swap_out.size() + b.swap_in.size());
  }
};

struct virtual_device {
  explicit virtual_device(const decoder_options& o, const step_cost& c = {}) : cost{c}, fake{o} {
    fake.cost = [this](const step_batch& b) {
      const double seconds = cost(b, fake.policy == split_policy::uniform);
      time += seconds;
      return step_times{.kernels = seconds};
    };
    const double layers = o.shape.layers;
    fake.attention = [this, layers](const step_batch& b) {
      double sum = 0;
      for (const batch_row& r : b.rows) sum += r.first + 1;
      return cost.context_token * sum / layers;
    };
  }
  virtual_device(const virtual_device&) = delete;
  virtual_device& operator=(const virtual_device&) = delete;

  [[nodiscard]] loop_clock clock() {
    return {[this] { return time; }, [this](double t) { time = std::max(time, t); }, [this] { time = 0; }};
  }
  [[nodiscard]] loop_options loop(const decoder_options& o) {
    loop_options l;
    l.limits = {.requests = 1024,
                .blocks = o.kv_blocks,
                .block_size = tokens{o.block_size},
                .residents = o.max_rows,
                .host_blocks = o.host_blocks,
                .max_length = tokens{static_cast<std::int64_t>(o.max_context)}};
    l.step = {.max_batch = o.max_rows, .token_budget = tokens{static_cast<std::int64_t>(o.max_tokens)}};
    l.clock = clock();
    return l;
  }

  double time = 0;
  step_cost cost;
  fake_decoder fake;
};

/// Options of a made-up model, so that the formula is the whole truth.
[[nodiscard]] inline decoder_options virtual_options() {
  return {.shape = model_shapes().front(),
          .weights = {},
          .kv_blocks = 512,
          .host_blocks = 512,
          .max_rows = 32,
          .max_tokens = 1024,
          .max_context = 4096};
}

}  // namespace cuda_decode_test
