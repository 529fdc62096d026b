// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/fleet/controller.hpp>
#include <tessera/sim/cluster/cluster.hpp>
#include <tessera/sim/cluster/make_controller.hpp>
#include <tessera/sim/cluster/routing.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// @file
/// A simulated cluster under a controller of a fleet.

TESSERA_NAMESPACE_BEGIN
namespace sim {

class routers;

/// A controller, and in words what it looks for, which explanations of a run quote.
struct seated_controller {
  std::shared_ptr<fleet::controller> decides;  ///< Not null.
  std::string places_by{};                     ///< How it places requests.
  std::string moves_by{};                      ///< How it moves requests.
  /// With a budget: what prompts cost, for Phi_T, instead of `routing::prefill`.
  placement::prefill_worker prefill{.cost = {}, .budget = {}};
  /// Makes the plan of this number from what the controller knows. Empty: nothing plans, and none is asked for.
  std::function<std::vector<fleet::assignment>(std::uint64_t plan)> plans{};
};
/// Makes the controller of a router.
using controller_maker = std::function<seated_controller(const cluster_options&, const router_seat&)>;

/// A request as its router knows it.
[[nodiscard]] fleet::request_view request_view_of(const request& r);

/// A cluster under a `fleet::controller`: the same object that `fleet::runtime` runs in front of engines.
///
/// Where the cluster's options have `routed`, each router has a controller of its own, inside a `fleet::runtime`. That
/// controller knows what its router knows, by reports that are as old as the options say. Its actions are carried out
/// as late as the options say (`routers`). Otherwise there is one controller, and it is shown every instance as it is
/// at that moment. A router's book at age 0 would show something else. Between two reports a book estimates what its
/// own requests hold, and only the instance knows of chunks, preemption and shared blocks.
///
/// An instance serves, moves requests and bounds its prompts per step. Its role and its range of lengths are what
/// controllers see of it; it serves all that is sent there. Its order does not change. Each request must be placed at
/// once.
///
/// A plan is made when it is asked for (`seated_controller::plans`), and the controller is told of it `plan_s` seconds
/// later, as the cluster's options say. Plans that are under way at a time have different numbers.
class controlled : public cluster_control {
 public:
  /// @param make makes the controllers, when the run begins.
  explicit controlled(controller_maker make) : make_{std::move(make)} {}

  // As `cluster_control` says.

  void starts(cluster& c) override;
  [[nodiscard]] std::size_t place(cluster& c, const request& r) override;
  void answers(cluster& c, request& r) override;
  void prefilled(cluster& c, request& r) override;
  void moved(cluster& c, request& r) override;
  void migration_failed(cluster& c, request& r) override;
  void lost(cluster& c, request& r) override;
  void finished(cluster& c, request& r) override;
  void rejected(cluster& c, request& r) override;
  void failed(cluster& c, std::size_t i) override;
  void returned(cluster& c, std::size_t i) override;
  void alarm(cluster& c, std::uint64_t what) override;
  void step_ended(cluster& c, std::size_t i) override;
  void ended(cluster& c, run_result& result) override;

 private:
  class all_seeing;

  [[nodiscard]] all_seeing& seeing(cluster& c);

  controller_maker make_;
  std::shared_ptr<all_seeing> seeing_{};  // Either this, of which there is no copy before a run,
  std::shared_ptr<routers> routers_{};    // or these.
};

}  // namespace sim
TESSERA_NAMESPACE_END
