// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/assert.hpp>
#include <tessera/sim/input/resample.hpp>
#include <tessera/sim/input/trace_row.hpp>
#include <tessera/sim/random.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

std::size_t resample_windows(std::span<const trace_row> rows) noexcept {
  constexpr std::size_t most = 24;
  constexpr std::size_t fewest = 4;
  constexpr std::size_t requests = 32;
  if (rows.size() < fewest * requests || !(rows.back().arrival_s > rows.front().arrival_s)) return 0;
  const bool tied =
      std::any_of(rows.begin(), rows.end(), [](const trace_row& r) { return r.session >= 0 || !r.runs.empty(); });
  return tied ? 0 : std::min(most, rows.size() / requests);
}

std::vector<trace_row> resample(std::span<const trace_row> rows, std::size_t windows, std::uint64_t seed) {
  TESSERA_ASSERT(windows != 0 && !rows.empty(), "something to cut");
  constexpr std::uint64_t stream = 2'000'000;  // of the seed; other components have other numbers
  random_engine draws{seed, stream};
  const double first = rows.front().arrival_s;
  const double span = rows.back().arrival_s - first;
  const double width = span / static_cast<double>(windows);
  std::vector<trace_row> out;
  out.reserve(rows.size());
  for (std::size_t k = 0; k != windows; ++k) {
    const double at = first + width * static_cast<double>(k);
    const double from = std::clamp(at + width * (2 * uniform(draws) - 1), first, first + span - width);
    const auto before = [](const trace_row& r, double t) { return r.arrival_s < t; };
    auto r = std::lower_bound(rows.begin(), rows.end(), from, before);
    for (; r != rows.end() && r->arrival_s < from + width; ++r) {
      out.push_back(*r);
      out.back().arrival_s = std::max(at + (r->arrival_s - from), out.size() > 1 ? out[out.size() - 2].arrival_s : at);
    }
  }
  if (out.empty()) out.assign(rows.begin(), rows.end());
  return out;
}

}  // namespace sim
TESSERA_NAMESPACE_END
