// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/compose/due_first.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/sim/planning/best_layout.hpp>
#include <tessera/sim/planning/step_bounds.hpp>
#include <tessera/sim/systems/replanning.hpp>

#include "sim/due_first_inputs.hpp"

#include <span>
#include <utility>
#include <vector>

namespace tessera_test::due_first_inputs {

using namespace tessera;
using sim::due_first_config;
using sim::request;
using sim::trace_row;

/// Trials made again, one by one, to see what the planner chose by them.
struct tried_layouts {
  using scheduler = tessera::due_first<sim::request, rank::expected_length<>, order::pacer_member>;

  sim::cluster_options options;
  std::vector<trace_row> rows;
  double rate;
  sim::prefill_model model = sim::calibrate_prefill(options.instance.timer, sim::default_ttft_target);
  std::vector<tokens> steps = sim::step_bounds(options, model, due_first_config{}.step_s);
  sim::progress_callback progress = quiet;
  sim::layout_trials trials{sim::bounded_steps(options, steps), model, sim::engines_of<scheduler>(), progress};

  tried_layouts(sim::cluster_options o, std::vector<trace_row> seen, double requests_a_second)
      : options{std::move(o)}, rows{std::move(seen)}, rate{requests_a_second} {}

  [[nodiscard]] sim::instance_layout best(const due_first_config& config, const sim::instance_layout& now,
                                          std::span<const std::vector<tokens>> longer = {}, double lately = 0) {
    return sim::best_layout(options, config, steps, longer, trials,
                            {.rows = rows, .rate = rate, .lately = lately, .ended = rows.size()}, now);
  }
};

}  // namespace tessera_test::due_first_inputs
