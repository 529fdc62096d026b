// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/compose/pars.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

void rank_scores(std::span<trace_row> rows) {
  std::vector<float> sorted;
  for (const trace_row& r : rows) {
    if (r.score == r.score) sorted.push_back(r.score);
  }
  std::sort(sorted.begin(), sorted.end());
  for (trace_row& r : rows) {
    if (r.score != r.score) continue;
    const auto [from, to] = std::equal_range(sorted.begin(), sorted.end(), r.score);
    r.score =
        static_cast<float>((from - sorted.begin()) + (to - sorted.begin())) / static_cast<float>(2 * sorted.size());
  }
}

namespace {

/// The arrival of a request, plus the place of its score as waiting time.
struct arrival_and_rank {
  template <schedulable R>
  float operator()(const R& r) const noexcept {
    return static_cast<float>(r.state().arrived.seconds() +
                              longest_overtaking.seconds() * static_cast<double>(r.score));
  }
};

}  // namespace

/// PARS with smooth ageing instead of a threshold: the place of a score counts as waiting time, and no more.
policy published::pars_smooth() {
  policy p = make_policy<tessera::pars<request, arrival_and_rank, kv_store>>(
      "pars-smooth", "lowest score first, but no request is overtaken by one that comes 600 s later (needs scores)",
      {.threshold = duration::forever()});
  p.run = [by_score = p.run](const cluster_options& options, std::span<const trace_row> rows,
                             const progress_callback& progress) {
    std::vector<trace_row> due{rows.begin(), rows.end()};
    rank_scores(due);
    return by_score(options, due, progress);
  };
  return needing_scores(std::move(p));
}

}  // namespace sim
TESSERA_NAMESPACE_END
