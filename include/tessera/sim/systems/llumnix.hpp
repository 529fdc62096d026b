// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/placement/turn.hpp>
#include <tessera/sim/cluster/cluster.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

/// @file
/// Many instances balanced by what they hold, whatever the lengths: a baseline of CascadeInfer's evaluation.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Load-aware dispatching and live migration in the manner of Llumnix. The freeness of an instance is the memory it has
/// left for each of its requests: (free blocks - blocks that its queue waits for) / requests. A new request goes where
/// that is highest. Every `epoch_s` seconds, instances with less than `low` are paired with instances with more than
/// `high`, the lowest with the highest. Each pair migrates the shortest running request of its lower one. Ties go
/// round-robin.
///
/// As published, only the first waiting request counts, because the instance must free its blocks next
/// (`counts_queue = false`). So instances with long queues look alike. Priorities, and instances that come and go, are
/// not modelled.
/// Source: Llumnix (Sun et al. 2024, "Llumnix: dynamic scheduling for large language model serving", section 4.4 and
/// algorithm 1).
class llumnix : public cluster_control {
 public:
  /// Parameters of the parts; each is described at its own type.
  struct config {
    double epoch_s = 0.5;      ///< Seconds between two looks at the loads.
    double low = 10;           ///< Blocks per request below which an instance gives requests away.
    double high = 20;          ///< Above which it takes some.
    bool counts_queue = true;  ///< All that waits counts; otherwise only the first waiting request.
  };

  llumnix() = default;
  /// Nothing is allocated before the cluster starts.
  explicit llumnix(const config& c) : config_{c} {}

  /// Called once, before the first event.
  void starts(cluster& c) override {
    freeness_.resize(c.size());
    c.call_after(config_.epoch_s, 0);
  }

  /// The instance that a request which has just arrived goes to.
  [[nodiscard]] std::size_t place(cluster& c, const request& r) override {
    look_at(c);
    if (c.asks(r)) c.because("the most free blocks for each request, less what its queue waits for", freeness_seen(c));
    return ties_.least(
        0, freeness_.size(),
        [&](std::size_t i) {
          return std::pair{-freeness_[i], c.views()[i].requests};
        },
        [&](std::size_t i) { return c.takes(i, r); });
  }

  /// Called at the time that was asked for with `call_after`.
  void alarm(cluster& c, std::uint64_t /*what*/) override {
    look_at(c);
    std::vector<bool> paired(c.size(), false);
    while (true) {
      const std::size_t low = low_ties_.least(
          0, c.size(), [&](std::size_t i) { return freeness_[i]; },
          [&](std::size_t i) { return c.in_service(i) && !paired[i] && freeness_[i] < config_.low; });
      const std::size_t high = high_ties_.least(
          0, c.size(), [&](std::size_t i) { return -freeness_[i]; },
          [&](std::size_t i) { return c.in_service(i) && !paired[i] && freeness_[i] > config_.high; });
      if (low == placement::nowhere || high == placement::nowhere) break;
      paired[low] = paired[high] = true;
      migrate_one(c, low, high);
    }
    c.call_after(config_.epoch_s, 0);
  }

 private:
  void look_at(cluster& c) {
    for (std::size_t i = 0; i != c.size(); ++i) {
      const blocks demand = config_.counts_queue ? c.queued_blocks(i) : c.first_blocks(i);
      const double requests = static_cast<double>(c.views()[i].requests == 0 ? 1 : c.views()[i].requests);
      freeness_[i] = static_cast<double>((c.views()[i].free_blocks - demand).count()) / requests;
    }
  }

  void migrate_one(cluster& c, std::size_t from, std::size_t to) {
    request* shortest = nullptr;
    for (request* r : c.at(from).requests()) {
      if (!may_migrate(*r)) continue;
      if (shortest == nullptr || r->state().length < shortest->state().length ||
          (r->state().length == shortest->state().length && r->index < shortest->index)) {
        shortest = r;
      }
    }
    if (shortest == nullptr) return;
    const blocks needs = blocks_for(shortest->state().length, c.options().instance.limits.block_size) + blocks{1};
    if (needs > c.views()[to].free_blocks) return;
    if (c.asks(*shortest)) {
      c.because(
          fmt::format(
              "instance {} has {:.1f} free blocks for each request, less than {:g}, instance {} {:.1f}, more than "
              "{:g}: the shortest that runs moves",
              from, freeness_[from], config_.low, to, freeness_[to], config_.high),
          freeness_seen(c));
    }
    c.migrate(*shortest, to);
  }
  [[nodiscard]] comparison freeness_seen(const cluster& c) const {
    comparison all{.columns = {"requests", "KV free", "freeness"}};
    for (const instance_view& v : c.views()) {
      all.rows.push_back(
          {v.id, {}, {static_cast<double>(v.requests), static_cast<double>(v.free_blocks.count()), freeness_[v.id]}});
    }
    return all;
  }

  config config_{};
  placement::turn ties_{};
  placement::turn low_ties_{};
  placement::turn high_ties_{};
  std::vector<double> freeness_;
};

}  // namespace sim
TESSERA_NAMESPACE_END
