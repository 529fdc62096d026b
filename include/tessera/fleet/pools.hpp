// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/control/phasor.hpp>
#include <tessera/core/assert.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/core/status.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/fleet/controller.hpp>
#include <tessera/headroom/reference_demand.hpp>
#include <tessera/placement/turn.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// How `pools` chooses, and what it changes.
struct pools_config {
  bool by_phi = true;  ///< To the highest Phi_T and Phi_S; otherwise to the shortest queue, as DistServe.
  /// Splitwise: where the best prefill replica has more than this in its queue, mixed ones take prompts as well.
  std::size_t helps_above = std::numeric_limits<std::size_t>::max();
  bool changes_roles = true;                ///< Replicas change between the pools, as they need it.
  bool defragments = true;                  ///< Requests move so that free blocks join.
  double epoch_s = 0.05;                    ///< Seconds between two rounds of the controllers. Above 0.
  tokens block_size{16};                    ///< Tokens of a KV block, as in the router's book.
  double kv_bytes_per_token = 1;            ///< KV of a token, for what a move costs. Above 0.
  control::phasor::settings controllers{};  ///< Parameters of the controllers.
};

/// DistServe: a static split, by the shortest queue.
inline constexpr pools_config distserve_pools{.by_phi = false, .changes_roles = false, .defragments = false};
/// Splitwise: the same, and mixed replicas help out. More than four requests are a long queue.
inline constexpr pools_config splitwise_pools{
    .by_phi = false, .helps_above = 4, .changes_roles = false, .defragments = false};

/// What there must be room for in `pools`; fixed at construction.
struct pools_limits {
  std::size_t replicas = 64;    ///< Numbers are below this.
  std::size_t requests = 2048;  ///< Requests of this router that an epoch looks at: the first ones of each replica.
};

/// Prefill and decode on different replicas. A new request goes to a prefill replica. When it has its first token, it
/// moves with its KV to a decode replica that has room, and goes on there. If a pool is empty, mixed replicas do its
/// part, and if there are none, the other pool. A mixed replica keeps what it has prefilled. A request for which no
/// decode replica has room goes on where it is, and is tried again each epoch. Ties go to the shortest queue, or the
/// fewest requests, and then round-robin.
///
/// By Phi this is Phasor: prompts go to the highest Phi_T, requests that decode to the highest Phi_S. Each epoch
/// `control::phasor` moves requests away from decode replicas with stranded free memory, and may give an elastic or
/// mixed replica another role. A replica that changes gets nothing new until it has its role; its requests stay.
/// Without Phi, roles and defragmentation it is DistServe with a static split, and Splitwise with `helps_above`.
///
/// What it asks of the router: replicas that join with their roles, and with a prefill budget for Phi_T. Let
/// `ledger_settings::moving` allow as many hand-overs as prompts end meanwhile. With several routers, one changes
/// roles.
///
/// When to use: prompts must not touch the time per token. `arrived` and `first_token` are O(replicas). An epoch is
/// O(replicas + requests log requests), and what `control::phasor` takes. Nothing allocates after construction.
/// Source: Phasor, algorithm 1. DistServe (Zhong et al. 2024) and Splitwise (Patel et al. 2024).
class pools final : public controller {
 public:
  using config = pools_config;  ///< How it chooses, and what it changes.
  using limits = pools_limits;  ///< What there must be room for; fixed at construction.

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add_bytes(headroom::reference_demand::required_bytes({}))
        .add_bytes(control::phasor::required_bytes({.workers = l.replicas, .defragment = {}}))
        .add<control::worker>(l.replicas)
        .add<standing>(l.replicas)
        .add<control::sequence>(l.requests)
        .add<request_view>(l.requests)
        .bytes_unaligned();
  }
  /// Over the caller's memory, at least `required_bytes(l)` (checked in every build), which must outlive it.
  pools(std::span<std::byte> memory, const limits& l, const config& c = {}) noexcept : pools{arena{memory}, l, c} {}
  /// Over what `storage_for` made.
  explicit pools(owned_storage<limits>& storage, const config& c = {}) noexcept
      : pools{storage.memory(), storage.limits(), c} {}
  pools(const pools&) = delete;
  pools& operator=(const pools&) = delete;

  void started(port& p) noexcept override { p.wake_after(config_.epoch_s, 0); }
  void joined(replica_id id, const replica& what, port& /*p*/) noexcept override {
    TESSERA_REQUIRE(id < limits_.replicas, "there is room for this replica");
    replicas_[id] = {.role = what.role, .elastic = what.elastic || what.role == control::role::mixed};
  }
  void left(replica_id id, port& /*p*/) noexcept override { replicas_[id] = {}; }
  void failed(replica_id id, port& /*p*/) noexcept override { replicas_[id] = {}; }

  void arrived(const request_view& r, port& p) noexcept override {
    demand_.observe(r.prompt);
    const candidates<> all = p.replicas(r);
    const auto key = [&](const view& v) noexcept { return std::pair{config_.by_phi ? -v.time_phi : 0.0, v.queued}; };
    placement::turn ties = prefill_ties_;
    std::size_t k = best(all, control::role::prefill, ties, key, all.size());
    if (k != placement::nowhere && all[k].role == control::role::prefill && all[k].queued > config_.helps_above) {
      k = prefill_ties_.least(
          0, all.size(), [&](std::size_t i) noexcept { return key(all[i]); },
          [&](std::size_t i) noexcept { return all[i].role != control::role::decode; });
    } else {
      prefill_ties_ = ties;
    }
    if (k == placement::nowhere) return p.note(r.id, no_replica, "no replica takes it");
    p.place_or_note(r.id, static_cast<replica_id>(all[k].id));
  }
  void first_token(const request_view& r, port& p) noexcept override {
    if (const status s = hand_over(r, p); !ok(s)) p.note(r.id, r.where, to_string(s));
  }

  void woke(std::uint64_t /*alarm*/, port& p) noexcept override {
    hand_over_the_rest(p);
    look(p);
    const control::phasor_actions a = controllers_.epoch({workers_, limits_.replicas});
    if (config_.defragments) {
      for (const control::move& m : a.moves) p.move_or_note(m.sequence, m.to, transfer::live);
    }
    if (config_.changes_roles && a.change) {
      const status s = p.set_role(a.change->worker, a.change->to);
      if (ok(s)) {
        replicas_[a.change->worker].role = a.change->to;
        replicas_[a.change->worker].changes = true;
      } else {
        p.note(no_request, a.change->worker, to_string(s));
      }
    }
    p.wake_after(config_.epoch_s, 0);
  }

 private:
  struct standing {
    control::role role = control::role::mixed;
    bool elastic = false;
    bool changes = false;  // It was told to take a role, and has not been shown since.
  };

  pools(arena memory, const limits& l, const config& c) noexcept
      : config_{c},
        limits_{l},
        demand_{memory, {}, {.block_size = c.block_size}},
        controllers_{memory, {.workers = l.replicas, .defragment = {}}, c.controllers},
        workers_{memory.take<control::worker>(l.replicas)},
        replicas_{memory.take<standing>(l.replicas)},
        sequences_{memory, l.requests},
        left_{memory, l.requests} {
    TESSERA_ASSERT(c.epoch_s > 0 && c.block_size > tokens{} && c.kv_bytes_per_token > 0, "an epoch takes time");
  }

  /// The best of the replicas of a role by the least `key(view)`, else of the mixed ones, else of all. `never`: one
  /// that does not count.
  template <class Key>
  [[nodiscard]] static std::size_t best(const candidates<>& all, control::role role, placement::turn& ties, Key key,
                                        std::size_t never) noexcept {
    const auto among = [&](auto may) noexcept {
      return ties.least(
          0, all.size(), [&](std::size_t i) noexcept { return key(all[i]); },
          [&](std::size_t i) noexcept { return i != never && may(all[i].role); });
    };
    for (const control::role serves : {role, control::role::mixed}) {
      const std::size_t k = among([serves](control::role r) noexcept { return r == serves; });
      if (k != placement::nowhere) return k;
    }
    return among([](control::role) noexcept { return true; });
  }
  /// A request on a prefill replica that has its first token goes on at a decode replica, if one has room.
  status hand_over(const request_view& r, port& p) noexcept {
    const destinations d = p.where_to(r);
    if (d.replicas.size() == 0 || d.replicas[d.here].role != control::role::prefill) return status::ok;
    const std::size_t k = best(
        d.replicas, control::role::decode, decode_ties_,
        [&](const view& v) noexcept {
          return std::pair{config_.by_phi ? -v.phi : 0.0, v.requests};
        },
        d.here);
    if (k == placement::nowhere || d.replicas[k].role == control::role::prefill) return status::ok;
    return p.move(r.id, static_cast<replica_id>(d.replicas[k].id));
  }
  /// Those for which there was no room, or which have come back because their move failed.
  void hand_over_the_rest(port& p) noexcept {
    left_.clear();
    for (replica_id id = 0; id != limits_.replicas; ++id) {
      if (replicas_[id].role != control::role::prefill) continue;
      p.requests_at(id, [&](const request_view& r, bool may_move) noexcept {
        if (may_move && !left_.full()) left_.push_back(r);
      });
    }
    std::sort(left_.begin(), left_.end(), [](const auto& a, const auto& b) noexcept { return a.id < b.id; });
    for (const request_view& r : left_) {
      if (hand_over(r, p) == status::exhausted) break;  // the rest in a later epoch; a note each would take its room
    }
  }
  /// The telemetry of an epoch.
  void look(port& p) noexcept {
    for (replica_id id = 0; id != limits_.replicas; ++id) {
      control::worker& w = workers_[id];
      // Until it has its role it is not shown; it counts with what it had.
      w.role = replicas_[id].role;
      w.available = w.changing = replicas_[id].changes;
      w.sequences = {};
    }
    const candidates<> all = p.replicas({});
    for (std::size_t i = 0; i != all.size(); ++i) {
      const view& v = all[i];
      replicas_[v.id].changes = false;
      workers_[v.id] = {.role = v.role,
                        .elastic = replicas_[v.id].elastic,
                        .time_phi = v.time_phi,
                        .total = v.capacity,
                        .free = min(v.free_blocks, v.capacity),
                        .demand = demand_.value(),
                        .sequences_held = v.requests};
    }
    if (!config_.defragments) return;
    sequences_.clear();
    for (replica_id id = 0; id != limits_.replicas; ++id) {
      control::worker& w = workers_[id];
      if (!w.available || w.changing || w.role != control::role::decode) continue;
      const std::size_t first = sequences_.size();
      p.requests_at(id, [&](const request_view& r, bool may_move) noexcept {
        if (!may_move || sequences_.full()) return;
        const double size = config_.kv_bytes_per_token * static_cast<double>(r.length().count());
        sequences_.push_back({.id = r.id,
                              .held = blocks_for(r.length(), config_.block_size),
                              .size = bytes{std::max<std::int64_t>(1, std::llround(size))}});
      });
      std::sort(sequences_.begin() + first, sequences_.end(),
                [](const auto& a, const auto& b) noexcept { return a.id < b.id; });
      w.sequences = {sequences_.data() + first, sequences_.size() - first};
    }
  }

  config config_;
  limits limits_;
  headroom::reference_demand demand_;
  control::phasor controllers_;
  control::worker* workers_;  // By replica, as of the last epoch.
  standing* replicas_;        // By replica.
  fixed_vector<control::sequence> sequences_;
  fixed_vector<request_view> left_;
  placement::turn prefill_ties_{};
  placement::turn decode_ties_{};
};

}  // namespace fleet
TESSERA_NAMESPACE_END
