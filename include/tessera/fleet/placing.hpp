// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/status.hpp>
#include <tessera/fleet/controller.hpp>
#include <tessera/placement/concepts.hpp>
#include <tessera/placement/pascal.hpp>

#include <concepts>
#include <cstddef>

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// Makes a controller of two policies: a placement policy for new requests, and a migration policy for running ones.
/// The migration policy decides about a request that begins to answer or has outgrown its replica, or if memory is
/// tight there.
/// @tparam Placement from candidates to an index; any of placement/. If it reads the request too, it takes a
///         `request_view` after them. If it has a member `expected`, that is set to `port::others_sent`.
/// @tparam Migration from candidates, the current index and the blocks needed there and elsewhere to an index; any of
///         placement/.
/// When to use: for every policy that needs only the views. Complexity: that of the policy.
template <class Placement, class Migration = placement::stay>
class placing final : public controller {
 public:
  placing() = default;
  /// Uses copies of these policies.
  explicit placing(const Placement& p, const Migration& m = {}) : placement_{p}, migration_{m} {}

  [[nodiscard]] reading reads() const noexcept override {
    bool phases = placement::phase_reader<Placement> || placement::phase_reader<Migration>;
    bool prefixes = placement::prefix_reader<Placement>;
    if constexpr (requires { placement_.reads(); }) {
      phases = phases || placement_.reads().phases;
      prefixes = placement_.reads().prefixes;
    }
    return {.phases = phases, .prefixes = prefixes};
  }

  void arrived(const request_view& r, port& p) noexcept override {
    if constexpr (requires { placement_.expected; }) placement_.expected = p.others_sent();
    const candidates<> all = p.replicas(r);
    const std::size_t k = chosen(all, r);
    if (k >= all.size()) return p.note(r.id, no_replica, "no replica takes it");
    p.place_or_note(r.id, static_cast<replica_id>(all[k].id));
  }

  void may_move(const request_view& r, move_reason /*why*/, port& p) noexcept override {
    if constexpr (!std::same_as<Migration, placement::stay>) {
      const destinations d = p.where_to(r);
      if (d.replicas.size() == 0) return;
      const std::size_t k = migration_(d.replicas, d.here, d.grows, d.moves);
      if (k >= d.replicas.size() || k == d.here) return;
      p.move_or_note(r.id, static_cast<replica_id>(d.replicas[k].id));
    } else {
      static_cast<void>(r), static_cast<void>(p);
    }
  }

 private:
  [[nodiscard]] std::size_t chosen(const candidates<>& all, const request_view& r) noexcept {
    if constexpr (requires { placement_(all, r); }) {
      return placement_(all, r);
    } else {
      static_cast<void>(r);
      return placement_(all);
    }
  }

  Placement placement_{};
  Migration migration_{};
};

}  // namespace fleet
TESSERA_NAMESPACE_END
