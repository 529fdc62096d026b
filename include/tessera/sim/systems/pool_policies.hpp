// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/control/phasor.hpp>
#include <tessera/headroom/space.hpp>
#include <tessera/placement/phi.hpp>
#include <tessera/placement/turn.hpp>
#include <tessera/sim/cluster/cluster.hpp>
#include <tessera/sim/systems/pools.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// Which prefill and which decode worker a request goes to: the policies that are compared in Phasor's evaluation.

TESSERA_NAMESPACE_BEGIN
namespace sim {

namespace detail {

/// The open worker with the least `key` that `takes` accepts; ties go round-robin. `placement::nowhere` if none.
template <class Key, class Takes>
[[nodiscard]] std::size_t least_of(placement::turn& ties, const std::vector<pool_worker>& workers, Key key,
                                   Takes takes) {
  return ties.least(
      0, workers.size(), [&](std::size_t i) { return key(workers[i]); },
      [&](std::size_t i) { return workers[i].open && takes(workers[i]); });
}
/// Likewise, with the fewest requests.
template <class Takes>
[[nodiscard]] std::size_t shortest_queue(placement::turn& ties, const std::vector<pool_worker>& workers, Takes takes) {
  return least_of(
      ties, workers, [](const pool_worker& w) { return w.requests; }, takes);
}
/// The open worker of a role with the least `key`; ties go round-robin. If the pool has lost its last worker, the mixed
/// pool serves, and if there is none, the other pool.
template <class Key>
[[nodiscard]] std::size_t least_in(placement::turn& ties, const std::vector<pool_worker>& workers, control::role role,
                                   Key key) {
  for (const control::role serves : {role, control::role::mixed}) {
    const std::size_t best = least_of(ties, workers, key, [&](const pool_worker& w) { return w.role == serves; });
    if (best != placement::nowhere) return best;
  }
  return least_of(ties, workers, key, [](const pool_worker&) { return true; });
}
/// Likewise, with the fewest requests.
[[nodiscard]] inline std::size_t shortest_in(placement::turn& ties, const std::vector<pool_worker>& workers,
                                             control::role role) {
  return least_in(ties, workers, role, [](const pool_worker& w) { return w.requests; });
}

}  // namespace detail

/// DistServe's control plane: a static split, each phase to the worker with the fewest requests.
struct distserve {
  static constexpr bool compares_phi = false;                               ///< Or queues.
  static constexpr std::string_view prefill_reason = "the shortest queue";  ///< In words.
  static constexpr std::string_view decode_reason = "the fewest requests";  ///< In words.

  placement::turn prefill_ties{};  ///< Round-robin position for ties among prefill workers.
  placement::turn decode_ties{};   ///< The same among decode workers.

  /// The worker that computes a request's prompt.
  [[nodiscard]] std::size_t prefill_worker(cluster& /*c*/, pools& p, const request&) {
    for (pool_worker& w : p.workers()) w.requests = w.load.requests();
    return detail::shortest_in(prefill_ties, p.workers(), control::role::prefill);
  }
  /// The worker that decodes a request, or none if it has to wait.
  [[nodiscard]] std::size_t decode_worker(cluster& c, pools& p, const request&) {
    for (pool_worker& w : p.workers()) w.requests = c.views()[w.id].requests;
    return detail::shortest_in(decode_ties, p.workers(), control::role::decode);
  }
};

/// DistServe's pools with prefill routed to the most free memory: the scheduler that Phasor's section 2 takes apart.
struct memory_aware : distserve {
  static constexpr std::string_view prefill_reason = "the most free memory";  ///< In words.

  /// The worker that computes a request's prompt.
  [[nodiscard]] std::size_t prefill_worker(cluster& /*c*/, pools& p, const request&) {
    return detail::least_in(prefill_ties, p.workers(), control::role::prefill,
                            [](const pool_worker& w) { return -w.free_blocks.count(); });
  }
};

/// Splitwise's control plane: shortest queue, and a mixed pool that helps out. A prompt goes there if every queue of
/// the prefill pool is longer than `threshold`. A sequence goes there if no decode worker has room for it.
struct splitwise {
  static constexpr bool compares_phi = false;  ///< Or queues.
  static constexpr std::string_view prefill_reason =
      "the shortest queue, of the prefill pool while one there is short";  ///< In words.
  static constexpr std::string_view decode_reason =
      "the fewest requests, of the decode pool while one there has room";  ///< In words.

  std::size_t threshold = 4;       ///< Requests in a queue.
  placement::turn prefill_ties{};  ///< Round-robin position for ties in prompts.
  placement::turn decode_ties{};   ///< Round-robin position for ties in sequences.

  /// The worker that computes a request's prompt.
  [[nodiscard]] std::size_t prefill_worker(cluster& /*c*/, pools& p, const request&) {
    for (pool_worker& w : p.workers()) w.requests = w.load.requests();
    placement::turn ties = prefill_ties;
    const std::size_t best = detail::shortest_in(ties, p.workers(), control::role::prefill);
    if (p.workers()[best].requests <= threshold) return prefill_ties.chose(best);
    const std::size_t other = detail::shortest_queue(
        prefill_ties, p.workers(), [](const pool_worker& w) { return w.role != control::role::decode; });
    return other != placement::nowhere ? other : prefill_ties.chose(best);
  }
  /// The worker that decodes a request, or none if it has to wait.
  [[nodiscard]] std::size_t decode_worker(cluster& c, pools& p, const request& r) {
    // A mixed worker keeps what it has prefilled.
    if (p.workers()[r.where].role == control::role::mixed) return r.where;
    const blocks needs = blocks_for(r.state().length, c.options().instance.limits.block_size) + blocks{1};
    for (pool_worker& w : p.workers()) w.requests = c.views()[w.id].requests;
    for (const control::role role : {control::role::decode, control::role::mixed}) {
      const std::size_t roomy = detail::shortest_queue(
          decode_ties, p.workers(), [&](const pool_worker& w) { return w.role == role && needs <= w.free_blocks; });
      if (roomy != placement::nowhere) return roomy;
    }
    return detail::shortest_in(decode_ties, p.workers(), control::role::decode);
  }
};

/// Phasor: prompts go to the highest Phi_T, sequences to the highest Phi_S. Each epoch the controllers move KV away
/// from workers with stranded free memory, and move workers between the pools. Each part can be switched off.
class phasor_control {
 public:
  static constexpr bool compares_phi = true;                               ///< Or queues.
  static constexpr std::string_view prefill_reason = "the highest Phi_T";  ///< In words.
  static constexpr std::string_view decode_reason = "the highest Phi_S";   ///< In words.

  /// Parameters of the parts; each is described at its own type.
  struct config {
    prefill_model model{};                    ///< What a prefill costs.
    control::phasor::settings controllers{};  ///< Parameters of the controllers.
    bool by_phi = true;                       ///< Off: to the shortest queue.
    bool defragments = true;                  ///< Off: KV stays where it is.
    bool changes_roles = true;                ///< Off: the pools keep their sizes.
    bool counts_queues = false;               ///< Not in the paper: what sequences wait for counts as used in Phi_S.
  };

  /// The controllers are made when the cluster starts.
  explicit phasor_control(const config& c) : config_{c} {}

  /// Called once, before the first event.
  void starts(cluster& c, pools&) {
    const control::phasor::limits limits{.workers = c.size(), .defragment = {}};
    memory_.resize(control::phasor::required_bytes(limits));
    arena_ = std::make_unique<arena>(memory_);
    controllers_ = std::make_unique<control::phasor>(*arena_, limits, config_.controllers);
    telemetry_.resize(c.size());
    sequences_.resize(c.size());
  }

  /// The worker that computes a request's prompt.
  [[nodiscard]] std::size_t prefill_worker(cluster& /*c*/, pools& p, const request&) {
    for (pool_worker& w : p.workers()) {
      w.requests = w.load.requests();
      w.phi = config_.by_phi ? headroom::time_freeness(w.load, config_.model.cost, config_.model.budget)
                             : -static_cast<double>(w.requests);
    }
    return highest(p, control::role::prefill, most_time_);
  }
  /// The worker that decodes a request, or none if it has to wait.
  [[nodiscard]] std::size_t decode_worker(cluster& c, pools& p, const request&) {
    for (pool_worker& w : p.workers()) {
      const blocks total = c.capacity(w.id);
      w.requests = c.views()[w.id].requests;
      const blocks free = w.free_blocks;
      const blocks used = total - free + (config_.counts_queues ? c.queued_blocks(w.id) : blocks{});
      w.phi = config_.by_phi ? headroom::space_freeness(used, pools::stranded(free, total, p.demand().value()), total)
                             : -static_cast<double>(w.requests);
    }
    return highest(p, control::role::decode, most_space_);
  }

  /// One round of the controllers: telemetry in, actions carried out.
  void epoch(cluster& c, pools& p) {
    const cluster_options& o = c.options();
    for (pool_worker& w : p.workers()) {
      const blocks total = c.capacity(w.id);
      control::worker& t = telemetry_[w.id];
      std::vector<control::sequence>& movable = sequences_[w.id];
      movable.clear();
      blocks leaving{};
      for (const request* r : c.at(w.id).requests()) {
        const blocks held = c.at(w.id).scheduler().blocks_held(*r);
        if (r->migration.stage != migration_stage::none) {
          leaving += held;
        } else if (may_migrate(*r)) {
          const double size = o.kv_bytes_per_token * static_cast<double>(r->state().computed.count());
          movable.push_back(
              {.id = r->index, .held = held, .size = bytes{std::max<std::int64_t>(1, std::llround(size))}});
        }
      }
      // The requests of an instance are in no order that means anything; the telemetry is in the order of arrival.
      std::sort(movable.begin(), movable.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
      t = {.role = w.role,
           .elastic = w.elastic,
           .available = c.in_service(w.id),
           .time_phi = headroom::time_freeness(w.load, config_.model.cost, config_.model.budget),
           .total = total,
           .free = w.free_blocks,
           .leaving = std::min(leaving, total - w.free_blocks),
           .queued = config_.counts_queues ? c.queued_blocks(w.id) : blocks{},
           .demand = p.demand().value(),
           .sequences_held = c.views()[w.id].requests,
           .sequences = movable};
    }
    const control::phasor_actions actions = controllers_->epoch(telemetry_);
    if (config_.defragments) {
      for (const control::move& m : actions.moves) {
        request& r = c.requests()[m.sequence];
        if (c.asks(r)) {
          c.because(fmt::format("defragmentation: the {} free blocks of instance {} are less than a request needs, {}",
                                telemetry_[r.where].free.count(), r.where, telemetry_[r.where].demand.count()));
        }
        p.defragmentations += c.migrate(r, m.to) ? 1U : 0U;
      }
    }
    if (config_.changes_roles && actions.change) {
      p.workers()[actions.change->worker].role = actions.change->to;
      if (c.options().watcher != nullptr) {
        c.options().watcher->note(c.now_s(), fmt::format("instance {} becomes a {} worker", actions.change->worker,
                                                         detail::role_name(actions.change->to)));
      }
      ++p.role_changes;
    }
  }

 private:
  /// Prompts never go to a decode worker nor sequences to a prefill worker; if a pool is empty, the mixed one serves.
  [[nodiscard]] static std::size_t highest(pools& p, control::role role, placement::highest_phi& choice) {
    const auto* workers = &p.choose_from([&](const pool_worker& w) { return w.role == role; });
    if (workers->empty()) workers = &p.choose_from([](const pool_worker& w) { return w.role == control::role::mixed; });
    if (workers->empty()) workers = &p.choose_from([](const pool_worker&) { return true; });
    return (*workers)[choice(*workers)].id;
  }

  config config_;
  placement::highest_phi most_time_{};
  placement::highest_phi most_space_{};
  std::vector<std::byte> memory_;
  std::unique_ptr<arena> arena_;
  std::unique_ptr<control::phasor> controllers_;
  std::vector<control::worker> telemetry_;
  std::vector<std::vector<control::sequence>> sequences_;
};

/// Pools of planned sizes, which they keep. What sequences wait for counts, so that a shortage of memory on the decode
/// side is seen. The planner's trials use the same control that then runs.
[[nodiscard]] inline phasor_control planned_pools(const prefill_model& model) {
  return phasor_control{{.model = model, .changes_roles = false, .counts_queues = true}};
}

}  // namespace sim
TESSERA_NAMESPACE_END
