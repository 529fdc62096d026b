// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/measure/load_verdict.hpp>
#include <tessera/sim/measure/request_record.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

trend find_trend(std::span<const double> samples) {
  const std::size_t n = samples.size();
  if (n < 2) return {};
  std::vector<double> slopes;
  slopes.reserve(n * (n - 1) / 2);
  double s = 0;
  for (std::size_t i = 0; i != n; ++i) {
    for (std::size_t k = i + 1; k != n; ++k) {
      const double rise = samples[k] - samples[i];
      s += rise > 0 ? 1 : rise < 0 ? -1 : 0;
      slopes.push_back(rise / static_cast<double>(k - i));
    }
  }
  const auto middle = slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / 2);
  std::nth_element(slopes.begin(), middle, slopes.end());
  const auto count = static_cast<double>(n);
  const double deviation = std::sqrt(count * (count - 1) * (2 * count + 5) / 18);
  return {.z = s == 0 ? 0 : (s - (s > 0 ? 1 : -1)) / deviation, .slope = *middle};
}

load_verdict judge_load(std::span<const timeline_point> timeline, const measured_window& window, double arrivals_per_s,
                        bool open) {
  constexpr std::size_t parts = 16;
  constexpr double sure = 2.33;  // one in a hundred, one-sided
  constexpr double matters = 0.01;
  constexpr double grows = 0.1;  // fraction of its mean, over the examined time
  constexpr double many = 0.05;  // fraction of the arrivals in that time
  constexpr double fewest = 32;  // arrivals for a verdict
  const double from = window.from + window.length() / 4;
  const double part_s = (window.to - from) / parts;
  if (!(part_s > 0) || !std::isfinite(part_s) || !(arrivals_per_s * window.length() >= fewest)) return {};
  struct sum {
    double waiting = 0;
    double running = 0;
    double samples = 0;
  };
  std::vector<sum> sums(parts);
  for (const timeline_point& p : timeline) {
    if (p.time < from || p.time > window.to) continue;
    sum& s = sums[std::min(static_cast<std::size_t>((p.time - from) / part_s), parts - 1)];
    s.waiting += p.waiting;
    s.running += p.running;
    s.samples += 1;
  }
  std::vector<double> waiting;
  std::vector<double> running;
  double all = 0;
  for (const sum& s : sums) {
    if (s.samples == 0) return {};
    waiting.push_back(s.waiting / s.samples);
    running.push_back(s.running / s.samples);
    all += running.back();
  }
  const trend queue = find_trend(waiting);
  const double left_behind = queue.slope / part_s / arrivals_per_s;
  if (queue.z > sure && left_behind > matters) return {load_state::overload, std::min(left_behind, 1.0)};
  const double longest = *std::max_element(waiting.begin(), waiting.end());
  const double waits = longest / (arrivals_per_s * (window.to - from));
  if (open && waits > many && longest > all / parts) return {load_state::overload, std::min(waits, 1.0)};
  const trend batch = find_trend(running);
  if (batch.z > sure && batch.slope * parts > grows * all / parts) return {load_state::unsettled, 0};
  return {load_state::carried, 0};
}

std::string show_growth(double left_behind) {
  const double percent = 100 * left_behind;
  return percent < 9.95 ? fmt::format("{:.2g} %", percent) : fmt::format("{:.0f} %", percent);
}

}  // namespace sim
TESSERA_NAMESPACE_END
