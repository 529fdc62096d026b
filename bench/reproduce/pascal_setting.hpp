// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "settings.hpp"

#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pars.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/compose/pascal_paced.hpp>
#include <tessera/compose/round_robin.hpp>
#include <tessera/sim/input/archetypes.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/policies/policies.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <string_view>
#include <vector>

/// @file
/// PASCAL's clusters, loads and measures.

namespace reproduce {

namespace pascal_setting {

inline constexpr std::string_view profile_name = "h100-96gb-qwen-32b";
inline constexpr tokens block_size{16};
/// The paper's cluster: `instances` H100 with 96 GB, DeepSeek-R1-Distill-Qwen-32B, 100 Gbit/s.
inline sim::cluster_options cluster_for(const rows_type& rows, std::size_t instances = 8, std::size_t batch = 256) {
  const sim::profile profile = sim::find_profile(profile_name);
  std::int64_t longest = 0;
  std::int64_t all = 0;
  for (const trace_row& row : rows) {
    longest = std::max(longest, row.prompt_tokens + row.output_tokens);
    all += tessera::blocks_for(tokens{row.prompt_tokens + row.output_tokens}, block_size).count();
  }
  sim::cluster_options o{
      .instances = instances,
      .instance = {
          .limits = {.requests = rows.size(),
                     .blocks = static_cast<std::size_t>(profile.kv_blocks(block_size).count()),
                     .block_size = block_size,
                     .residents = batch,
                     .host_blocks = static_cast<std::size_t>(std::min(profile.host_blocks(block_size).count(), all)),
                     .max_length = tokens{longest}},
          .step = {.max_batch = batch, .token_budget = tokens{8192}},
          .timer = sim::step_timer{profile},
          .swap_seconds_per_block = sim::swap_seconds(profile, block_size)}};
  o.fabric_bytes_per_s = profile.links.fabric_bytes_per_s;
  o.kv_bytes_per_token = profile.model.kv_bytes_per_token();
  return o;
}

/// Something by reasoning length, in bins.
using bins_type = std::map<std::int64_t, double>;

/// Tail TTFT per bin.
inline bins_type tails_of(const sim::summary& s) {
  bins_type tails;
  for (const sim::tail_bin& b : s.ttft_by_reasoning_bin) tails[b.bin] = b.value;
  return tails;
}

/// Mean per bin over the seeds, of the bins that every seed has.
template <class Sample>
bins_type bins(const std::vector<Sample>& all, bins_type Sample::*which) {
  bins_type mean;
  for (const auto& [bin, first] : all.front().*which) {
    double sum = 0;
    const bool everywhere = std::all_of(all.begin(), all.end(), [&](const Sample& s) {
      const auto found = (s.*which).find(bin);
      if (found == (s.*which).end()) return false;
      sum += found->second;
      return true;
    });
    if (everywhere) mean[bin] = sum / static_cast<double>(all.size());
  }
  return mean;
}

/// How the tails of one policy compare with another's, over the bins.
struct comparison {
  double best = 0;   ///< Most negative change.
  double worst = 0;  ///< Largest change: positive where it is worse.
  std::int64_t best_bin = 0;
  std::int64_t worst_bin = 0;
  double best_seconds = 0;
};

inline comparison compare_tails(const bins_type& a, const bins_type& base) {
  comparison c{.best = std::numeric_limits<double>::infinity(), .worst = -std::numeric_limits<double>::infinity()};
  for (const auto& [bin, value] : a) {
    const auto found = base.find(bin);
    if (found == base.end()) continue;
    const double change = value / found->second - 1;
    if (change < c.best) {
      c.best = change;
      c.best_bin = bin;
      c.best_seconds = value - found->second;
    }
    if (change > c.worst) {
      c.worst = change;
      c.worst_bin = bin;
    }
  }
  return c;
}

/// Output tokens of requests that end in the last two thirds of the arrivals, per token that arrives then.
inline double followed(const sim::run_result& run) {
  double end = 0;
  for (const auto& r : run.requests) end = std::max(end, r.arrival);
  double in = 0;
  double out = 0;
  for (const auto& r : run.requests) {
    const auto n = static_cast<double>(r.output_tokens());
    if (r.arrival >= end / 3) in += n;
    if (r.finish >= end / 3 && r.finish <= end) out += n;
  }
  return in > 0 ? out / in : 0;
}

inline constexpr double follows_at_least = 0.99;
/// The highest rate at which the throughput of FCFS follows the arrivals, to 1 %.
inline double saturation_rate(const sim::workload& w, std::size_t requests, std::size_t seeds, std::size_t threads) {
  const sim::policy fcfs = sim::select_policies(sim::published_policies(), "fcfs").front();
  const auto follows = [&](double rate) {
    std::vector<double> share(seeds);
    sim::run_parallel(seeds, threads, [&](std::size_t seed) {
      const rows_type rows = sim::generate(w, requests, rate, 1000 + seed);
      share[seed] = followed(fcfs.run(cluster_for(rows), rows, [](std::size_t) {}));
    });
    return std::accumulate(share.begin(), share.end(), 0.0) / static_cast<double>(seeds) >= follows_at_least;
  };
  double low = w.rate;
  while (!follows(low)) low /= 1.25;
  double high = low * 1.25;
  while (follows(high)) {
    low = high;
    high *= 1.25;
  }
  while (high / low > 1.01) {
    const double middle = (low + high) / 2;
    (follows(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace pascal_setting

/// `instances` instances of a profile, for rows of any length. Each has `blocks` blocks; 0: what its memory holds.
inline cluster_options servers(const rows_type& rows, std::string_view name, std::size_t instances,
                               std::size_t blocks = 0) {
  const sim::profile profile = sim::find_profile(name);
  const tokens block_size = pascal_setting::block_size;
  cluster_options o = pascal_setting::cluster_for(rows, instances);
  o.instance.timer = sim::step_timer{profile};
  o.instance.limits.blocks = blocks != 0 ? blocks : static_cast<std::size_t>(profile.kv_blocks(block_size).count());
  o.instance.limits.host_blocks = static_cast<std::size_t>(profile.host_blocks(block_size).count()) / instances;
  o.instance.swap_seconds_per_block = sim::swap_seconds(profile, block_size);
  o.fabric_bytes_per_s = profile.links.fabric_bytes_per_s;
  o.kv_bytes_per_token = profile.model.kv_bytes_per_token();
  return o;
}

}  // namespace reproduce
