// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// What tests of replanning have in common.

#include <tessera/sim/cluster/run_watcher.hpp>
#include <tessera/sim/input/archetypes.hpp>
#include <tessera/sim/input/workload.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera_test::replanning_runs {

using namespace tessera;
using sim::trace_row;

inline constexpr auto quiet = [](std::size_t) {};
inline constexpr float nan = std::numeric_limits<float>::quiet_NaN();

inline std::vector<trace_row> long_tailed(std::size_t n, double rate, std::uint64_t seed) {
  auto rows = sim::generate(sim::find_workload("r1-servegen"), n, rate, seed);
  for (trace_row& r : rows) {
    r.reasoning_tokens = 0;
    r.answer_tokens = r.output_tokens;
  }
  return rows;
}

/// Keeps what a run says of no one request.
class listener : public sim::run_watcher {
 public:
  [[nodiscard]] bool asks(std::size_t, double) const override { return false; }
  [[nodiscard]] bool asks_of_steps(double) const override { return false; }
  void notify(sim::request_event) override {}
  void notify(sim::request_step) override {}
  void notify(sim::instance_step) override {}
  void note(double at_s, std::string words) override { said.emplace_back(at_s, std::move(words)); }

  [[nodiscard]] double first(std::string_view part) const {
    const auto at = std::find_if(said.begin(), said.end(),
                                 [part](const auto& s) { return s.second.find(part) != std::string::npos; });
    return at == said.end() ? -1 : at->first;
  }
  std::vector<std::pair<double, std::string>> said;
};

}  // namespace tessera_test::replanning_runs
