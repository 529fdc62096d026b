// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/cluster/pool_sizes.hpp>
#include <tessera/sim/measure/metrics.hpp>
#include <tessera/sim/measure/slo.hpp>
#include <tessera/sim/planning/capacity.hpp>
#include <tessera/sim/planning/load_search.hpp>
#include <tessera/sim/planning/pool_plan.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

double strain(const slo_report& slo) noexcept {
  double most = 0;
  for (const slo_report::line& l : slo.lines) {
    // A request that was refused or has not ended has no value, and keeps no bound.
    const double ratio =
        std::isnan(l.value) ? (l.met ? 0 : std::numeric_limits<double>::infinity()) : l.value / l.bound.seconds;
    most = std::max(most, ratio);
  }
  return most;
}

bool is_close(const summary& s) noexcept {
  return s.load.state != load_state::overload && std::abs(strain(s.slo) - 1) <= alike_margin;
}

std::string describe_margin(const slo_report& slo) {
  const slo_report::line* nearest = nullptr;
  double most = 0;
  for (const slo_report::line& l : slo.lines) {
    if (const double ratio = l.value / l.bound.seconds; ratio > most) {
      most = ratio;
      nearest = &l;
    }
  }
  if (nearest == nullptr) return {};
  return fmt::format("{} {:.2g} % {}", to_string(nearest->bound), 100 * std::abs(most - 1),
                     most > 1 ? "above" : "below");
}

std::string describe_failure(const summary& s) {
  std::string why;
  if (s.load.state == load_state::overload) {
    why = fmt::format("the queue grows by {} of what arrives", show_growth(s.load.left_behind));
  }
  for (const slo_report::line& l : s.slo.lines) {
    if (l.met) continue;
    if (!why.empty()) why += ", ";
    why += std::isnan(l.value) ? fmt::format("only {:.4g} % end within {}", 100 * l.within, to_string(l.bound))
                               : fmt::format("{} is {} s", to_string(l.bound), show_beside(l.value, l.bound.seconds));
  }
  return why;
}

}  // namespace sim
TESSERA_NAMESPACE_END
