// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/runtime.hpp>
#include <tessera/sim/cluster/cluster.hpp>
#include <tessera/sim/cluster/controlled.hpp>
#include <tessera/sim/cluster/decided_moves.hpp>
#include <tessera/sim/cluster/routing.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

/// @file
/// The routers in front of a simulated cluster.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// The routers of a cluster `c`. Each is a `fleet::runtime` that is told what a router hears. It hears at once what it
/// has sent and what has come back of that. It hears of other routers' requests only by the reports of the instances.
/// An instance reports every `report_s` seconds, one instance after the other. Reports arrive at once and say which
/// load is of which router. All routers know that an instance is dead when the cluster does. What an instance has
/// cached is known as it is. An action of a router is carried out `action_s` later. A request is on its way for that
/// long, and a move begins at the first step after it. A role takes as long; if there are several routers, none changes
/// any, because the others would not hear of it. A plan is made when its router asks for it, and that router is told of
/// it `cluster_options::plan_s` later.
///
/// Requests go to the routers in turn.
class routers {
 public:
  /// No instance has reported. Orders the first reports.
  routers(cluster& c, const routing& how, const controller_maker& make);

  /// Sends a request to one of those instances that take it, as its router sees them.
  [[nodiscard]] std::size_t place(cluster& c, const request& r);
  /// An alarm that these have ordered.
  void alarm(cluster& c, std::uint64_t what);
  /// Instance `i` is between two steps: its tokens have come back.
  void step_ended(cluster& c, std::size_t i);
  /// A request begins to answer: its router may move it.
  void answers(cluster& c, request& r);
  /// A request has arrived with its KV.
  void moved(cluster& c, const request& r);
  /// The move of a request has come to nothing.
  void move_failed(cluster& c, const request& r);
  /// A request has ended, or was refused.
  void finished(cluster& c, const request& r);
  /// That an instance is dead has become known.
  void failed(cluster& c, std::size_t i);
  /// An instance is back, and empty.
  void returned(cluster& c, std::size_t i);
  /// Requests that are in any book: none when all have ended.
  [[nodiscard]] std::size_t in_books() const noexcept;

 private:
  struct router {
    seated_controller by;
    owned_storage<fleet::runtime_limits> storage;
    fleet::runtime decides;
    double wakes_s;  // The earliest alarm that is ordered.

    router(seated_controller what, const fleet::runtime_limits& l, const fleet::runtime_settings& s);
  };

  [[nodiscard]] std::size_t of(const request& r) const noexcept { return r.index % how_.routers; }
  [[nodiscard]] static fleet::replica_id at(std::size_t i) noexcept { return static_cast<fleet::replica_id>(i); }

  /// Tells a router, and returns the replica that it places a request on, if it does.
  fleet::replica_id notify(cluster& c, std::size_t k, const fleet::event& e);
  /// Tells the router of a request what has come of it on instance `i`.
  void notify(cluster& c, const request& r, fleet::event_kind what, std::size_t i, tokens count = {});
  void tell_all(cluster& c, const fleet::event& e);
  /// What happens now on instance `i`.
  [[nodiscard]] static fleet::event event_on(const cluster& c, fleet::event_kind what, std::size_t i);
  void hear(cluster& c, const request& r, std::size_t i);
  void report(cluster& c, std::size_t i);
  /// Begins the moves from instance `i` that are due. @param only of this request; no_request: of all.
  void begin_moves(cluster& c, std::size_t i, fleet::request_id only);
  [[nodiscard]] std::vector<instance_view> shown_to(const cluster& c, const request& r) const;

  struct role_change {
    std::size_t router;
    std::size_t instance;
  };
  /// A plan that is made.
  struct made_plan {
    std::size_t router = 0;
    std::uint64_t number = 0;
    std::vector<fleet::assignment> layout{};
  };
  void plan(cluster& c, std::size_t k, std::uint64_t number);
  void planned(cluster& c, const made_plan& p);

  routing how_;
  std::vector<std::unique_ptr<router>> all_{};
  decided_moves moves_{};
  std::vector<role_change> changing_{};  // In the order in which they were decided, those that are done included.
  std::vector<std::uint64_t> lives_{};   // By instance.
  std::vector<std::uint64_t> epochs_{};  // By instance.
  std::vector<fleet::load> own_{};       // By router, of the instance that reports.
  std::vector<tokens> before_{};         // By request: what it had generated when it was placed.
  std::map<std::uint64_t, made_plan> plans_{};  // By the number of their alarm.
  std::uint64_t plans_made_ = 0;
};

}  // namespace sim
TESSERA_NAMESPACE_END
