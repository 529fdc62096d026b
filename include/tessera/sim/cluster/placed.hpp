// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/fleet/view.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/pascal.hpp>
#include <tessera/sim/cluster/cluster.hpp>
#include <tessera/sim/cluster/compare_views.hpp>
#include <tessera/sim/cluster/named_placement.hpp>
#include <tessera/sim/cluster/placement_name.hpp>
#include <tessera/sim/cluster/routers.hpp>
#include <tessera/sim/cluster/run_watcher.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// @file
/// A cluster under a placement policy and a migration policy.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// One quantum of answer in blocks of the usual 16 tokens: what PASCAL wants free before an answer stays.
inline constexpr blocks quantum_blocks{32};

/// The control of a placement policy for new requests and a migration policy for those that begin to answer. Where the
/// cluster's options name a placement, it is that instead. It sees every instance as it is; where the options have
/// `routed`, there is one for each router, and sees what that knows (`routers`).
/// @tparam Placement a function from a range of `instance_view` to the index of the instance for a new request. Equals
///         are chosen from another turn by each router on, and random policies draw from a seed of each router.
/// @tparam Migration a function from the range, the current instance and the blocks needed there and elsewhere to the
///         instance on which a request goes on when it begins to answer. With routers, a `fleet::migration_policy`.
template <class Placement = placement::least_load, class Migration = placement::stay>
class placed : public cluster_control {
 public:
  /// Of these policies, or copies of them.
  placed(const Placement& placement = {}, const Migration& migration = {})
      : seats_(1, seat{placement, migration, {}}) {}

  /// Called once, before the first event.
  void starts(cluster& c) override {
    const auto& o = c.options();
    if (o.routed) {
      seats_.resize(o.routed->routers, seats_.front());
      routers_ = std::make_shared<routers>(c, *o.routed);
    }
    for (std::size_t k = 0; k != seats_.size(); ++k) {
      const router_seat at{k, seats_.size(), c.size()};
      take_seat(seats_[k].placement, at);
      if (o.placement) seats_[k].other = o.placement->make(at);
    }
  }
  /// The instance that a request which has just arrived goes to.
  [[nodiscard]] std::size_t place(cluster& c, const request& r) override {
    const auto& other = c.options().placement;
    if (other ? other->reads_prefixes : prefix_reader<Placement>) c.look_at_prefixes(r);
    if (routers_) {
      return routers_->place(c, r, [&](const std::vector<instance_view>& v, double others) {
        if (c.asks(r)) explain(c, v);
        return seats_[routers_->of(r)].choose(v, others);
      });
    }
    if (reads_phases(c)) c.look_at_phases();
    const auto& instances = c.candidates(r);
    const std::size_t to = seats_.front().choose(instances, 0);
    TESSERA_ASSERT(to < instances.size(), "a request is placed on an instance");
    const std::size_t chosen = instances[to].id;
    if (c.asks(r)) explain(c, instances);
    return chosen;
  }
  /// A request begins to answer: it may move.
  void answers(cluster& c, request& r) override {
    if (routers_) {
      if constexpr (std::same_as<Migration, placement::stay>) {
        routers_->answers(c, r);
      } else if constexpr (fleet::migration_policy<Migration>) {
        routers_->answers(c, r, seats_[routers_->of(r)].migration);
      } else {
        TESSERA_ASSERT(false, "this migration policy knows no views of routers");
      }
      return;
    }
    if constexpr (!std::same_as<Migration, placement::stay>) {
      if constexpr (phase_reader<Migration>) c.look_at_phases();
      const tokens block_size = c.options().instance.limits.block_size;
      const blocks moves = blocks_for(r.state().length, block_size);
      const blocks grows = moves - c.at(r.where).scheduler().blocks_held(r);
      const auto& instances = c.candidates(r);
      const auto here =
          std::find_if(instances.begin(), instances.end(), [&](const auto& v) { return v.id == r.where; });
      const auto current = static_cast<std::size_t>(here - instances.begin());
      const std::size_t to = instances[seats_.front().migration(instances, current, max(grows, blocks{}), moves)].id;
      if (c.asks(r)) {
        std::string why = fmt::format("{}; it needs {} more blocks here, {} elsewhere", placement_summary<Migration>,
                                      max(grows, blocks{}).count(), moves.count());
        comparison seen = compare_views(c.candidates(r), phase_reader<Migration>);
        if (to == r.where) {
          c.tell(r, happening::stays, to, std::move(why), std::move(seen));
        } else {
          c.because(std::move(why), std::move(seen));
        }
      }
      if (to != r.where) c.move(r, to);
    }
  }

  // What else routers hear.

  /// An instance reports.
  void alarm(cluster& c, std::uint64_t instance) override {
    routers_->report(c, instance, reads_phases(c) || phase_reader<Migration>);
  }
  /// Tokens have come back.
  void step_ended(cluster& c, std::size_t i) override {
    if (routers_) routers_->step_ended(c, i);
  }
  /// A request has arrived with its KV.
  void moved(cluster& c, request& r) override {
    if (routers_) routers_->moved(c, r);
  }
  /// A request has ended.
  void finished(cluster& /*c*/, request& r) override {
    if (routers_) routers_->finished(r);
  }
  /// An instance has refused a request.
  void rejected(cluster& /*c*/, request& r) override {
    if (routers_) routers_->finished(r);
  }
  /// That an instance is dead has become known.
  void failed(cluster& /*c*/, std::size_t i) override {
    if (routers_) routers_->failed(i);
  }
  /// An instance is back, and empty.
  void returned(cluster& c, std::size_t i) override {
    if (routers_) routers_->returned(c, i);
  }
  /// All requests have ended, and so have all books.
  void ended(cluster& /*c*/, run_result& result) override {
    if (routers_) result.measures["left_in_books"] = static_cast<double>(routers_->in_books());
  }

 private:
  /// What one router chooses by.
  struct seat {
    Placement placement;
    Migration migration;
    std::function<std::size_t(const std::vector<instance_view>&, double)> other;  // If the options name one.

    [[nodiscard]] std::size_t choose(const std::vector<instance_view>& v, double others) {
      if (other) return other(v, others);
      expect_others(placement, others);
      return placement(v);
    }
  };

  /// Says why a request goes where it goes.
  static void explain(cluster& c, const std::vector<instance_view>& seen) {
    const auto& other = c.options().placement;
    c.because(other ? fmt::format("{}: {}", other->name, other->summary)
                    : fmt::format("{}: {}", placement_name<Placement>, placement_summary<Placement>),
              compare_views(seen, reads_phases(c), other ? other->reads_prefixes : prefix_reader<Placement>));
  }
  [[nodiscard]] static bool reads_phases(const cluster& c) noexcept {
    const auto& other = c.options().placement;
    return other ? other->reads_phases : phase_reader<Placement>;
  }

  std::vector<seat> seats_;
  std::shared_ptr<routers> routers_{};  // Shared by nobody: a control may be copied before its run.
};

}  // namespace sim
TESSERA_NAMESPACE_END
