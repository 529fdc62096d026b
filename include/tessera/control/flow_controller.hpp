// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/control/telemetry.hpp>
#include <tessera/core/storage.hpp>

#include <limits>
#include <optional>

/// @file
/// The macro scale of Phasor: workers move from the mixed pool to whichever of prefill and decode lacks headroom.
/// Source: Phasor, algorithm 1, lines 12 to 18, and appendices B.4 and B.5.

TESSERA_NAMESPACE_BEGIN
namespace control {

/// Whether a pool with mean freeness `a` is starved beside one with mean freeness `b`.
///
/// The paper's test, a < theta b with 0 < theta < 1, turns over when b is negative: a = b = -1 would starve both pools.
/// For b < 0 this says a < b / theta instead. It is the only test that
///   1. is the paper's wherever `b` is not negative;
///   2. does not depend on the unit: starved(ca, cb) = starved(a, b) for c > 0;
///   3. treats overload as it treats headroom: a is starved beside b if and only if -b, as headroom, is beside -a.
/// For by 2 the bound on a at b < 0 is k b. By 3 and the paper's rule, a < k b is -b < theta (-a), so k = 1 / theta.
/// The bound, theta b or b / theta, rises with b, is never above b, and is continuous. Hence less headroom never ends
/// starvation, a starved pool always has the lower mean, and two pools are never starved at once.
/// False if either is NaN. Requires 0 < theta <= 1.
[[nodiscard]] constexpr bool starved(double a, double b, double theta) noexcept {
  return a < (b >= 0 ? theta * b : b / theta);
}

/// Mean freeness of the two pools: Phi_T of prefill workers, Phi_S of decode workers. A pool without workers has the
/// least headroom: minus infinity.
struct pool_means {
  /// Mean Phi_T of the prefill workers; minus infinity if there are none.
  double prefill = -std::numeric_limits<double>::infinity();
  /// Mean Phi_S of the decode workers; minus infinity if there are none.
  double decode = -std::numeric_limits<double>::infinity();
  std::size_t prefill_workers = 0;  ///< Available workers that prefill, or are changing to it.
  std::size_t decode_workers = 0;   ///< Available workers that decode, or are changing to it.
  std::size_t prefill_coming = 0;   ///< The number of these that are changing.
  std::size_t decode_coming = 0;    ///< The number of these that are changing.
};

/// The means of a report. O(workers), no allocation. Requires plausible counts of available workers (asserted).
[[nodiscard]] constexpr pool_means mean_freeness(std::span<const worker> workers) noexcept {
  pool_means m;
  double prefill = 0;
  double decode = 0;
  for (const worker& w : workers) {
    if (!w.available) continue;
    TESSERA_ASSERT(plausible(w), "the telemetry contradicts itself");
    if (w.role == role::prefill) {
      prefill += w.time_phi;
      ++m.prefill_workers;
      m.prefill_coming += w.changing ? 1U : 0U;
    } else if (w.role == role::decode) {
      decode += space_phi(w);
      ++m.decode_workers;
      m.decode_coming += w.changing ? 1U : 0U;
    }
  }
  if (m.prefill_workers != 0) m.prefill = prefill / static_cast<double>(m.prefill_workers);
  if (m.decode_workers != 0) m.decode = decode / static_cast<double>(m.decode_workers);
  return m;
}

/// Mean freeness that a pool of `n` workers would have without one of them, with its load spread over the others. Loads
/// are 1 - Phi, and add up. Minus infinity if none is left.
[[nodiscard]] constexpr double mean_without_one(double mean, std::size_t n) noexcept {
  if (n <= 1) return -std::numeric_limits<double>::infinity();
  return 1.0 - (1.0 - mean) * static_cast<double>(n) / static_cast<double>(n - 1);
}

/// Decides, once an epoch, whether one worker changes its role.
///
/// 1. A `starved` pool gets a mixed worker. If none is available, it gets an elastic worker of the other pool, if that
///    pool can spare it. Without the worker, that pool must still have at least the mean of the starved one.
/// 2. If none is starved, an elastic worker goes back to the mixed pool. Without it, its pool must still have at least
///    the mean of the other one. No pool gives up its last worker.
/// 3. After a change of role a worker keeps its role for `cooldown` epochs, whatever happens. Workers that are neither
///    elastic nor mixed never change. Among several, the one with the most headroom in both phases goes; ties go to the
///    first.
/// 4. A changing worker (`worker::changing`) counts in its new pool, with the freeness that it reports. So a change
///    that takes several epochs is not repeated every epoch. It does not count as a pool's last worker.
///
/// A cluster of mixed workers only is not changed: neither pool has less than the other, and a mixed worker does both
/// phases. The paper starts with workers in both pools. A pool that has lost all of its workers gets one first, if the
/// other pool has one.
///
/// Stability: a worker leaves a pool only if that pool, without it, has the higher mean. It joins a pool only if that
/// pool has less than theta of the other's mean. Within the band between these, noise moves nothing. Wider noise meets
/// rule 3: at most one change per worker in any `cooldown` consecutive epochs, whatever the telemetry. (The paper says
/// when a worker may be recalled, not when it is: rule 2 is ours. `recall = false` leaves out it and the second half of
/// rule 1: algorithm 1 as printed.)
///
/// Holds the number of epochs and 8 bytes a worker. `decide` is O(workers); nothing allocates.
class flow_controller {
 public:
  /// Capacities; fixed at construction.
  struct limits {
    std::size_t workers = 0;  ///< Most workers in a report. Below 2^32 - 1.
  };
  /// Parameters. The defaults are the paper's where it gives one.
  struct settings {
    double theta = 0.62;          ///< theta_flow: above 0, at most 1.
    std::uint64_t cooldown = 20;  ///< T_cool in epochs: one second of 50 ms.
    bool recall = true;           ///< Whether workers may return from a pool.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}.add<std::uint64_t>(l.workers).bytes_unaligned();
  }

  /// Takes `required_bytes(l)` from `memory`.
  flow_controller(arena& memory, const limits& l, const settings& s) noexcept
      : free_from_{memory.take<std::uint64_t>(l.workers)}, workers_{l.workers}, settings_{s} {
    TESSERA_ASSERT(l.workers < no_index, "worker ids have 32 bits");
    TESSERA_ASSERT(s.theta > 0 && s.theta <= 1, "theta is above 0 and at most 1");
  }
  /// The same with the default settings.
  flow_controller(arena& memory, const limits& l) noexcept : flow_controller(memory, l, settings{}) {}
  flow_controller(const flow_controller&) = delete;
  flow_controller& operator=(const flow_controller&) = delete;

  /// The role change of this epoch, if any. Each call is an epoch, and the next report has its effect: see
  /// `worker::changing`. Requires: no more workers than `limits` says, and plausible counts of available ones
  /// (asserted). A mean that is NaN changes nothing.
  [[nodiscard]] std::optional<role_change> decide(std::span<const worker> workers) noexcept {
    TESSERA_REQUIRE(workers.size() <= workers_, "more workers than the controller has room for");
    means_ = mean_freeness(workers);
    const std::optional<role_change> change = choose(workers);
    if (change) {
      constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();
      free_from_[change->worker] = settings_.cooldown < never - epoch_ ? epoch_ + settings_.cooldown : never;
    }
    ++epoch_;
    return change;
  }

  /// The means behind the last decision.
  [[nodiscard]] const pool_means& means() const noexcept { return means_; }
  /// Decisions so far.
  [[nodiscard]] std::uint64_t epochs() const noexcept { return epoch_; }
  /// Whether a worker has to keep its role in the next epoch. Requires `worker` below the limit.
  [[nodiscard]] bool cooling(std::size_t worker) const noexcept {
    TESSERA_ASSERT(worker < workers_, "no such worker");
    return epoch_ < free_from_[worker];
  }

 private:
  [[nodiscard]] std::optional<role_change> choose(std::span<const worker> workers) const noexcept {
    const double p = means_.prefill;
    const double d = means_.decode;
    const bool prefill_has_spare =
        means_.prefill_workers - means_.prefill_coming > 1 && mean_without_one(p, means_.prefill_workers) >= d;
    const bool decode_has_spare =
        means_.decode_workers - means_.decode_coming > 1 && mean_without_one(d, means_.decode_workers) >= p;
    if (starved(p, d, settings_.theta)) return reinforce(workers, role::prefill, role::decode, decode_has_spare);
    if (starved(d, p, settings_.theta)) return reinforce(workers, role::decode, role::prefill, prefill_has_spare);
    if (!settings_.recall) return std::nullopt;
    if (prefill_has_spare) {
      if (const auto w = idlest(workers, role::prefill); w != no_index) {
        return role_change{w, role::prefill, role::mixed};
      }
    }
    if (decode_has_spare) {
      if (const auto w = idlest(workers, role::decode); w != no_index) return role_change{w, role::decode, role::mixed};
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<role_change> reinforce(std::span<const worker> workers, role to, role other,
                                                     bool other_has_spare) const noexcept {
    if (const auto w = idlest(workers, role::mixed); w != no_index) return role_change{w, role::mixed, to};
    if (!settings_.recall || !other_has_spare) return std::nullopt;
    if (const auto w = idlest(workers, other); w != no_index) return role_change{w, other, to};
    return std::nullopt;
  }

  /// The worker of a pool with the most headroom, by the phase with less of it, among those that may change.
  [[nodiscard]] std::uint32_t idlest(std::span<const worker> workers, role pool) const noexcept {
    std::uint32_t best = no_index;
    double most = 0;
    for (std::size_t i = 0; i != workers.size(); ++i) {
      const worker& w = workers[i];
      if (w.role != pool || !w.available || w.changing || epoch_ < free_from_[i]) continue;
      if (pool != role::mixed && !w.elastic) continue;
      const double space = space_phi(w);
      const double headroom = w.time_phi < space ? w.time_phi : space;
      if (best == no_index || headroom > most) {
        best = static_cast<std::uint32_t>(i);
        most = headroom;
      }
    }
    return best;
  }

  std::uint64_t* free_from_;  // By worker: the first epoch in which it may change again.
  std::size_t workers_;
  settings settings_;
  std::uint64_t epoch_ = 0;
  pool_means means_{};
};

}  // namespace control
TESSERA_NAMESPACE_END
