// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/control/phasor.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/headroom/calibration.hpp>
#include <tessera/headroom/prefill_load.hpp>
#include <tessera/headroom/reference_demand.hpp>
#include <tessera/headroom/space.hpp>
#include <tessera/sim/cluster/cluster.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// @file
/// The workers of a cluster with pools, and what is measured of them.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// A worker as the routing policies see it.
struct pool_worker {
  std::size_t id = 0;                         ///< Which instance.
  control::role role = control::role::mixed;  ///< What it does now.
  bool elastic = false;                       ///< Whether its role may change.
  bool open = true;                           ///< It is in service, and takes the request that is to be routed.
  headroom::prefill_load load{};              ///< Prompts that are not computed yet.
  double phi = 0;                             ///< Whichever freeness the policy has filled in.
  std::size_t requests = 0;                   ///< Whichever queue the policy counts.
  blocks free_blocks{};                       ///< Less what is on its way here.
};

/// What the freeness of prefill workers is computed with.
struct prefill_model {
  headroom::prefill_cost cost{};      ///< Calibrated to the simulated engine.
  headroom::prefill_budget budget{};  ///< What a worker can do within the TTFT.
  double r_squared = 0;               ///< How well the calibration fits.
};

/// Measures the prefill times of a step model and calibrates alpha and beta from them (Phasor, appendix B.2).
/// @param peak_flops cancels out of the freeness; it only gives alpha and beta their unit.
[[nodiscard]] inline prefill_model calibrate_prefill(const step_timer& timer, duration ttft, double peak_flops = 1e12) {
  std::vector<headroom::prefill_sample> samples;
  for (std::int64_t length = 128; length <= 8192; length += 128) {
    step_shape shape;
    shape.add_prefill(tokens{}, tokens{length});
    samples.push_back({tokens{length}, timer(shape)});
  }
  const headroom::calibration fit = headroom::calibrate(samples, peak_flops);
  TESSERA_ASSERT(ok(fit.status), "every step model has prefill times");
  return {.cost = fit.cost, .budget = {.peak_flops = peak_flops, .ttft = ttft}, .r_squared = fit.r_squared};
}

namespace detail {

/// As tables call a pool.
[[nodiscard]] constexpr const char* role_name(control::role role) noexcept {
  return role == control::role::prefill ? "prefill" : role == control::role::decode ? "decode" : "mixed";
}

}  // namespace detail

/// The workers that a policy chooses from, and what was measured of them.
class pools {
 public:
  /// `demand_memory` holds the window of recent prompts.
  pools(const pool_sizes& sizes, tokens block_size, std::span<std::byte> demand_memory)
      : arena_{demand_memory}, demand_{arena_, {}, {.block_size = block_size}} {
    for (std::size_t i = 0; i != sizes.prefill + sizes.decode + sizes.mixed; ++i) {
      pool_worker w;
      w.id = i;
      w.role = sizes.role_of(i);
      w.elastic = w.role == control::role::mixed;
      workers_.push_back(w);
    }
    queue_seconds_.assign(workers_.size(), 0.0);
  }

  /// All workers, by instance.
  [[nodiscard]] std::vector<pool_worker>& workers() noexcept { return workers_; }
  /// The reference demand of the requests seen so far.
  [[nodiscard]] headroom::reference_demand& demand() noexcept { return demand_; }

  /// The open workers for which `takes(worker)` holds, as views for a placement policy.
  template <class Takes>
  [[nodiscard]] const std::vector<pool_worker>& choose_from(Takes&& takes) {
    chosen_.clear();
    for (const pool_worker& w : workers_) {
      if (w.open && takes(w)) chosen_.push_back(w);
    }
    return chosen_;
  }

  /// Free blocks of a decode worker that are of no use to a typical request.
  [[nodiscard]] static blocks stranded(blocks free, blocks total, blocks demand) noexcept {
    return kv::stranded_below{demand}({.total = total, .free = free});
  }

  /// Measures from `now_s` on; what was before does not count.
  void measures_from(double now_s) noexcept { measured_s_ = now_s; }
  /// Takes the time average of queues and fragmentation up to `now_s`. `head_of_line`: by worker, the blocks that its
  /// first waiting request needs, or 0.
  void measure(double now_s, std::span<const instance_view> views, std::span<const blocks> head_of_line) {
    const double passed = now_s - measured_s_;
    measured_s_ = now_s;
    blocks lost{};
    blocks free{};
    blocks all{};
    for (const pool_worker& w : workers_) {
      queue_seconds_[w.id] += passed * static_cast<double>(w.load.requests());
      if (w.role == control::role::prefill) continue;
      lost += stranded(views[w.id].free_blocks, views[w.id].capacity, demand_.value());
      free += views[w.id].free_blocks;
      all += views[w.id].capacity;
    }
    bool blocked = false;
    for (const pool_worker& w : workers_) {
      if (w.role == control::role::prefill) continue;
      blocked = blocked || (views[w.id].free_blocks < head_of_line[w.id] && head_of_line[w.id] <= free);
    }
    if (all == blocks{}) return;
    const auto part = [&](blocks b) { return static_cast<double>(b.count()) / static_cast<double>(all.count()); };
    stranded_.add(part(lost), passed);
    blocked_.add(blocked ? part(free) : 0, passed);
    if (now_s < next_sample_s_) return;
    next_sample_s_ = now_s + 1;
    constexpr std::size_t most_curves = 64;  // more cannot be told apart in a plot
    for (const pool_worker& w : std::span{workers_}.first(std::min(workers_.size(), most_curves))) {
      curves["queue " + std::to_string(w.id)].emplace_back(now_s, static_cast<double>(w.load.requests()));
    }
    curves["blocked"].emplace_back(now_s, blocked ? part(free) : 0);
  }

  /// Series over time for plots: (seconds, value).
  std::map<std::string, std::vector<std::pair<double, double>>> curves;
  std::size_t role_changes = 0;      ///< Role changes carried out.
  std::size_t defragmentations = 0;  ///< Sequences moved to free room.

  /// The mean length of the longest prefill queue over the mean of the others, among workers that only ever prefilled.
  [[nodiscard]] double queue_skew(std::size_t prefill_workers) const {
    const std::span<const double> queues{queue_seconds_.data(), prefill_workers};
    if (queues.size() < 2) return 1;
    const double most = *std::max_element(queues.begin(), queues.end());
    double all = 0;
    for (const double q : queues) all += q;
    const double others = (all - most) / static_cast<double>(queues.size() - 1);
    return others > 0 ? most / others : 1;
  }
  /// The part of the decode memory that is free, but of no use to a typical request where it is (H_frag).
  [[nodiscard]] const time_average& stranded_part() const noexcept { return stranded_; }
  /// The part of the decode memory that is free while a request waits on one worker for memory that the workers
  /// together have.
  [[nodiscard]] const time_average& blocked_part() const noexcept { return blocked_; }

 private:
  arena arena_;
  headroom::reference_demand demand_;
  std::vector<pool_worker> workers_;
  std::vector<pool_worker> chosen_;
  std::vector<double> queue_seconds_;
  time_average stranded_;
  time_average blocked_;
  double measured_s_ = 0;
  double next_sample_s_ = 0;
};

}  // namespace sim
TESSERA_NAMESPACE_END
