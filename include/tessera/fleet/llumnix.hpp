// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/core/status.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/fleet/controller.hpp>
#include <tessera/placement/turn.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// When `llumnix` moves requests.
struct llumnix_config {
  double epoch_s = 0.5;    ///< Seconds between two looks at the loads. Above 0.
  double low = 10;         ///< Blocks per request below which a replica gives requests away.
  double high = 20;        ///< Above which it takes some. At least `low`.
  placement::turn ties{};  ///< Where ties of new requests begin: another place for each of several routers.
};

/// What there must be room for in a `llumnix`; fixed at construction.
struct llumnix_limits {
  std::size_t replicas = 64;  ///< Replicas that are shown at a time.
};

/// Load-aware dispatch and live migration in the manner of Llumnix. The freeness of a replica is the memory it has left
/// for each of its requests: (free blocks - blocks that its queue waits for) / requests. A new request goes where that
/// is highest. Every `epoch_s` seconds, replicas with less than `low` are paired with replicas with more than `high`,
/// the lowest with the highest. In each pair, the shortest running request of the lower replica that may move
/// goes to the other one, live. That one must have room for the request and a block more. Ties go round-robin.
///
/// The paper counts only the first request of a queue, because the replica must free its blocks next. No report says
/// which that is, so all that waits counts. Priorities, and replicas that come and go by load, are not modelled.
///
/// When to use: replicas fill unevenly, and nothing is known of lengths. `arrived` is O(replicas). An epoch is
/// O(replicas) for each pair, and O(requests) of the lower replica. Nothing allocates after construction.
/// Source: Llumnix (Sun et al. 2024, "Llumnix: dynamic scheduling for large language model serving", section 4.4 and
/// algorithm 1).
class llumnix final : public controller {
 public:
  using config = llumnix_config;  ///< When requests move.
  using limits = llumnix_limits;  ///< What there must be room for; fixed at construction.

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}.add<standing>(l.replicas).bytes_unaligned();
  }
  /// Over the caller's memory, at least `required_bytes(l)` (checked in every build), which must outlive it.
  llumnix(std::span<std::byte> memory, const limits& l, const config& c = {}) noexcept : llumnix{arena{memory}, l, c} {}
  /// Over what `storage_for` made.
  explicit llumnix(owned_storage<limits>& storage, const config& c = {}) noexcept
      : llumnix{storage.memory(), storage.limits(), c} {}

  [[nodiscard]] reading reads() const noexcept override { return {.queues = true}; }

  void started(port& p) noexcept override { p.wake_after(config_.epoch_s, 0); }

  void arrived(const request_view& r, port& p) noexcept override {
    const candidates<> all = p.replicas(r);
    const std::size_t k = ties_.least(0, all.size(), [&](std::size_t i) noexcept {
      return std::pair{-freeness(all[i]), all[i].requests};
    });
    if (k == placement::nowhere) return p.note(r.id, no_replica, "no replica takes it");
    p.place_or_note(r.id, static_cast<replica_id>(all[k].id));
  }

  void woke(std::uint64_t /*alarm*/, port& p) noexcept override {
    const candidates<> all = p.replicas({});
    TESSERA_REQUIRE(all.size() <= limits_.replicas, "there is room for the replicas that are shown");
    replicas_.clear();
    for (std::size_t i = 0; i != all.size(); ++i) {
      replicas_.push_back({static_cast<replica_id>(all[i].id), all[i].free_blocks, freeness(all[i])});
    }
    while (true) {
      const std::size_t low = low_ties_.least(
          0, replicas_.size(), [&](std::size_t i) noexcept { return replicas_[i].freeness; },
          [&](std::size_t i) noexcept { return !replicas_[i].is_paired && replicas_[i].freeness < config_.low; });
      const std::size_t high = high_ties_.least(
          0, replicas_.size(), [&](std::size_t i) noexcept { return -replicas_[i].freeness; },
          [&](std::size_t i) noexcept { return !replicas_[i].is_paired && replicas_[i].freeness > config_.high; });
      if (low == placement::nowhere || high == placement::nowhere) break;
      replicas_[low].is_paired = replicas_[high].is_paired = true;
      migrate_one(replicas_[low], replicas_[high], p);
    }
    p.wake_after(config_.epoch_s, 0);
  }

 private:
  struct standing {
    replica_id id = no_replica;
    blocks free{};
    double freeness = 0;
    bool is_paired = false;
  };

  llumnix(arena memory, const limits& l, const config& c) noexcept
      : config_{c}, limits_{l}, ties_{c.ties}, replicas_{memory, l.replicas} {
    TESSERA_ASSERT(c.epoch_s > 0 && c.low <= c.high, "an epoch takes time, and no replica is both low and high");
  }

  [[nodiscard]] static double freeness(const view& v) noexcept {
    return static_cast<double>(v.free_after_queue.count()) / static_cast<double>(v.requests == 0 ? 1 : v.requests);
  }
  static void migrate_one(const standing& from, const standing& to, port& p) noexcept {
    request_view shortest;
    p.requests_at(from.id, [&](const request_view& r, bool may_move) noexcept {
      const bool is_shorter = shortest.id == no_request || r.length() < shortest.length() ||
                              (r.length() == shortest.length() && r.id < shortest.id);
      if (may_move && is_shorter) shortest = r;
    });
    if (shortest.id == no_request) return;
    const destinations d = p.where_to(shortest);
    if (d.replicas.size() == 0 || d.moves + blocks{1} > to.free) return;
    p.move_or_note(shortest.id, to.id, transfer::live);
  }

  config config_;
  limits limits_;
  placement::turn ties_;
  placement::turn low_ties_{};
  placement::turn high_ties_{};
  fixed_vector<standing> replicas_;
};

}  // namespace fleet
TESSERA_NAMESPACE_END
