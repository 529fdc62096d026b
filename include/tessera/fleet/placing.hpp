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

/// A controller of a placement policy for requests that come and a migration policy for requests that run. The
/// migration policy is asked about a request when it begins to answer, has outgrown its replica, or memory is tight
/// there.
/// @tparam Placement from candidates to an index; any of placement/. One that goes by the request as well takes the
///         `request_view` after them. With a member `expected` it is told what other routers send meanwhile.
/// @tparam Migration from candidates, the current index and the blocks needed there and elsewhere to an index; any of
///         placement/.
/// When to use: for every policy that needs nothing but the views. Each call takes what the policy takes.
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
