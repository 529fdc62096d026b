// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/report/alone.hpp>
#include <tessera/sim/report/remarks.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

std::string describe_idle(std::span<const machines> cluster, const cluster_options& options,
                          std::span<const trace_row> rows, std::span<const slo_bound> slo) {
  if (cluster.size() != 1) return {};
  return describe_idle_misses(slo, rows,
                              {.timer = options.instance.timer,
                               .token_budget = options.instance.step.token_budget.count(),
                               .host_request_seconds = options.host_request_seconds});
}

std::string describe_load(std::span<const machines> cluster, const cluster_options& options,
                          const std::vector<trace_row>& rows, std::span<const slo_bound> slo, bool has_times) {
  std::string out = describe_idle(cluster, options, rows, slo);
  const model_spec& model = cluster.front().profile.model;
  const auto too_long = std::count_if(rows.begin(), rows.end(), [&](const trace_row& r) {
    return r.prompt_tokens + r.output_tokens > model.max_context;
  });
  if (model.max_context > 0 && too_long != 0) {
    out +=
        fmt::format("Longer than the {} tokens of context that {} has, so a server would refuse them: {} requests.\n",
                    model.max_context, model.name, too_long);
  }
  if (has_times && mean_rate(rows) > 0) {
    constexpr std::size_t fewest = 32;
    std::size_t together = 0;
    double tick = 0;
    for (std::size_t i = 0; i != rows.size(); ++i) {
      const bool before = i != 0 && rows[i - 1].arrival_s == rows[i].arrival_s;
      const bool after = i + 1 != rows.size() && rows[i + 1].arrival_s == rows[i].arrival_s;
      together += before || after ? 1U : 0U;
      if (i != 0 && !before && (tick == 0 || rows[i].arrival_s - rows[i - 1].arrival_s < tick)) {
        tick = rows[i].arrival_s - rows[i - 1].arrival_s;
      }
    }
    if (rows.size() >= fewest && 2 * together >= rows.size()) {
      out += fmt::format(
          "{:.0f} % of the requests arrive at the same moment as another: the file's times are ticks of {:.3g} s, each "
          "replayed as a burst, so tails are longer than they were.\n",
          100 * static_cast<double>(together) / static_cast<double>(rows.size()), tick);
    }
  }
  for (const machines& m : cluster) {
    if (m.profile.source.find("not measured") == m.profile.source.npos) continue;
    out += fmt::format("The profile {}: {}.\n", m.profile.name, m.profile.source);
  }
  return out;
}

std::string name_unplanned(std::span<const policy> policies, const std::string& pools, bool has_slo) {
  std::vector<std::string_view> names;
  for (const policy& p : policies) {
    if (p.pools != 0) names.push_back(p.name);
  }
  if (names.empty() || !pools.empty()) return {};
  return fmt::format(
      "The instances of {} are divided by a rule, not by this load: --pools auto{} plans the division, as `capacity` "
      "does.\n",
      fmt::join(names, ", "), has_slo ? "" : " with --slo");
}

}  // namespace sim
TESSERA_NAMESPACE_END
