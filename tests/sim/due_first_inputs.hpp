// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// What the tests of due_first in the simulator are run with.

#include <tessera/compose/due_first.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/input/archetypes.hpp>
#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/systems/by_headroom.hpp>
#include <tessera/sim/systems/replanning.hpp>

#include "sim/profile_cluster.hpp"
#include "sim/toy_profile.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tessera_test::due_first_inputs {

using namespace tessera;
using sim::request;
using sim::trace_row;

inline constexpr auto quiet = [](std::size_t) {};
using cluster = sim::cluster_of<tessera::due_first<request, sim::scored_length>, sim::by_headroom>;

/// Scores in the order of the lengths, except for noise.
inline void score(std::vector<trace_row>& rows, double noise) {
  sim::random_engine random{5};
  for (trace_row& r : rows) {
    r.score =
        static_cast<float>(std::log(static_cast<double>(r.output_tokens)) + noise * sim::normal(random, 0, 1)) - 100;
  }
}

/// As requests that do not reason.
inline std::vector<trace_row> all_answer(std::vector<trace_row> rows) {
  for (trace_row& r : rows) {
    r.reasoning_tokens = 0;
    r.answer_tokens = r.output_tokens;
  }
  return rows;
}

inline std::int64_t lognormal(sim::random_engine& random, double median, double sigma, std::int64_t least,
                              std::int64_t most) {
  return std::clamp(static_cast<std::int64_t>(std::llround(median * std::exp(sigma * sim::normal(random)))), least,
                    most);
}

/// Phasor's production mix.
inline const sim::archetype& mix() {
  return *std::find_if(sim::archetypes().begin(), sim::archetypes().end(),
                       [](const sim::archetype& a) { return a.name == "mix"; });
}

/// Eight instances that it strains.
inline sim::cluster_options v100s() {
  sim::cluster_options o = profile_cluster("v100-qwen2.5-7b", 8, 0, 256);
  o.instance.step.token_budget = tokens{2048};
  o.fabric_bytes_per_s = 75e9;
  return o;
}

inline sim::summary numbers(std::string_view policy, const sim::cluster_options& o,
                            const std::vector<trace_row>& rows) {
  const auto chosen = sim::select_policies(sim::published_policies(), policy);
  return chosen.front().run(o, rows, quiet).numbers;
}

/// Requests that are all alike, as benchmarks draw them.
inline std::vector<trace_row> alike_rows(std::size_t n, double rate, std::uint64_t seed, std::int64_t prompt = 1024,
                                         std::int64_t output = 128) {
  sim::random_engine random{seed};
  std::vector<trace_row> rows;
  double at = 0;
  for (std::size_t i = 0; i != n; ++i) {
    at += sim::exponential(random, rate);
    rows.push_back(row(at, prompt, 0, output));
  }
  return rows;
}

}  // namespace tessera_test::due_first_inputs
