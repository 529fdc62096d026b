// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/control/phasor.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/headroom/calibration.hpp>
#include <tessera/headroom/prefill_load.hpp>
#include <tessera/headroom/reference_demand.hpp>
#include <tessera/headroom/space.hpp>
#include <tessera/placement/phi.hpp>
#include <tessera/placement/turn.hpp>
#include <tessera/sim/cluster/cluster.hpp>
#include <tessera/sim/systems/pool_policies.hpp>
#include <tessera/sim/systems/pools.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// Serving with prefill and decode on different workers: a control of `cluster` with pools, and the policies that are
/// compared in Phasor's evaluation. A prefill worker computes a request up to its first token. Then the KV of the
/// request crosses the fabric to a decode worker, where the request goes on. Its blocks on the prefill worker are free
/// as soon as its KV has crossed. While the decode worker has no room for it, its KV waits next to the blocks of that
/// worker.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// A control with pools. `cluster_options::kv_waits_at_source` says where KV waits while its decode worker has no room.
/// @tparam Policy has `prefill_worker(c, pools, r)` and `decode_worker(c, pools, r)`, each the id of a worker, and
///         perhaps `epoch(c, pools)`, which is called every `epoch_s` seconds.
template <class Policy>
class disaggregated : public cluster_control {
 public:
  /// `policy` chooses workers; every `epoch_s` seconds it may move sequences and change roles.
  disaggregated(const pool_sizes& sizes, Policy policy, double epoch_s = 0.05)
      : sizes_{sizes}, policy_{std::move(policy)}, epoch_s_{epoch_s} {}

  /// Called once: before the first event, or when it takes over from another control, with the requests that are there.
  void starts(cluster& c) override {
    TESSERA_ASSERT(sizes_.prefill + sizes_.decode + sizes_.mixed == c.size(), "every instance is in a pool");
    memory_.resize(headroom::reference_demand::required_bytes({}));
    pools_ = std::make_unique<pools>(sizes_, c.options().instance.limits.block_size, memory_);
    queued_.assign(c.requests().size(), false);
    arrived_.resize(c.size());
    entering_.resize(c.size());
    bool takes_over = false;
    for (std::size_t i = 0; i != c.size(); ++i) {
      for (const request* r : c.at(i).requests()) {
        takes_over = true;
        if (!r->prefills) continue;
        pools_->workers()[i].load.join(r->prompt);
        queued_[r->index] = true;
      }
    }
    if (takes_over) pools_->measures_from(c.now_s());
    if constexpr (requires { policy_.starts(c, *pools_); }) policy_.starts(c, *pools_);
    c.call_after(epoch_s_, 0);
  }

  /// The instance that a request which has just arrived goes to.
  [[nodiscard]] std::size_t place(cluster& c, const request& r) override {
    pools_->demand().observe(r.prompt);
    look_at(c, r);
    const std::size_t w = policy_.prefill_worker(c, *pools_, r);
    if (c.asks(r)) c.because("its prompt, to " + reason(w, Policy::prefill_reason), seen());
    pools_->workers()[w].load.join(r.prompt);
    queued_[r.index] = true;
    return w;
  }

  /// The prompt of a request is computed: its KV goes to a decode worker.
  void prefilled(cluster& c, request& r) override {
    if (queued_[r.index]) computed(r);
    look_at(c, r);
    const std::size_t w = policy_.decode_worker(c, *pools_, r);
    if (c.asks(r)) c.because("its tokens, to " + reason(w, Policy::decode_reason), seen());
    if (w != r.where) c.move(r, w);
  }

  /// The KV of `r` has crossed.
  void arrived(cluster& c, request& r) override {
    const std::size_t to = r.migration.to;
    if (c.options().kv_waits_at_source) {
      arrived_[to].push_back(&r);
      admit(c, to);
    } else if (c.up(to)) {
      c.admit(r);
    }
  }
  /// An instance is between two steps: there may be room. Requests that were to leave it, and could not, leave now.
  void step_ended(cluster& c, std::size_t i) override {
    admit(c, i);
    const auto leaves = [&](const request* r) { return r->where == i && may_migrate(*r); };
    for (auto at = std::find_if(stuck_.begin(), stuck_.end(), leaves); at != stuck_.end();
         at = std::find_if(stuck_.begin(), stuck_.end(), leaves)) {
      request& r = **at;
      stuck_.erase(at);
      prefilled(c, r);
    }
  }
  /// The move of `r` was called off because its destination has died: a prefill worker is no place to stay.
  void migration_failed(cluster& c, request& r) override {
    if (c.in_service(r.where) && pools_->workers()[r.where].role == control::role::prefill) stuck_.push_back(&r);
  }
  /// A request has gone on elsewhere, and left room where it was.
  void moved(cluster& c, request& /*r*/) override {
    if (!c.options().kv_waits_at_source) return;
    for (std::size_t i = 0; i != c.size(); ++i) admit(c, i);
  }

  /// A request is done.
  void finished(cluster& /*c*/, request& r) override {
    if (queued_[r.index]) computed(r);
    std::erase(stuck_, &r);
  }
  /// `r` was refused.
  void rejected(cluster& c, request& r) override { finished(c, r); }
  /// The worker of `r` has died.
  void lost(cluster& c, request& r) override { finished(c, r); }

  /// Called at the time that was asked for with `call_after`.
  void alarm(cluster& c, std::uint64_t /*what*/) override {
    if (c.options().kv_waits_at_source) break_cycles(c);
    find_heads_of_line(c);
    pools_->measure(c.now_s(), c.views(), heads_);
    if constexpr (requires { policy_.epoch(c, *pools_); }) {
      for (pool_worker& w : pools_->workers()) w.free_blocks = c.views()[w.id].free_blocks;
      policy_.epoch(c, *pools_);
    }
    c.call_after(epoch_s_, 0);
  }

  /// Called once, after the last event: adds its own measures to the result.
  void ended(cluster& /*c*/, run_result& result) override {
    result.numbers.fragmentation_mean = pools_->stranded_part().mean();
    result.numbers.fragmentation_peak = pools_->stranded_part().peak();
    result.measures["blocked_memory_mean"] = pools_->blocked_part().mean();
    result.measures["blocked_memory_peak"] = pools_->blocked_part().peak();
    result.curves = std::move(pools_->curves);
    result.measures["prefill_queue_skew"] = pools_->queue_skew(sizes_.prefill);
    result.measures["role_changes"] = static_cast<double>(pools_->role_changes);
    result.measures["defragmentation_moves"] = static_cast<double>(pools_->defragmentations);
  }

 private:
  /// Which worker was chosen, and why.
  [[nodiscard]] std::string reason(std::size_t w, std::string_view why) const {
    return fmt::format("a {} worker: {}", detail::role_name(pools_->workers()[w].role), why);
  }
  /// What its policy has just compared.
  [[nodiscard]] comparison seen() const {
    comparison all{.columns = {Policy::compares_phi ? "Phi" : "queue", "prompts", "KV free"}};
    for (const pool_worker& w : pools_->workers()) {
      all.rows.push_back({w.id,
                          detail::role_name(w.role),
                          {Policy::compares_phi ? w.phi : static_cast<double>(w.requests),
                           static_cast<double>(w.load.requests()), static_cast<double>(w.free_blocks.count())}});
    }
    return all;
  }

  /// Admits requests that have their KV at instance `to`, first come, first served, while there is room.
  void admit(cluster& c, std::size_t to) {
    std::deque<request*>& here = arrived_[to];
    while (!here.empty()) {
      request& r = *here.front();
      const bool waits = r.migration.stage == migration_stage::arrived && r.migration.to == to;
      if (waits && !has_room(c, r)) return;
      here.pop_front();
      if (!waits) continue;
      entering_[to].push_back(&r);
      c.admit(r);
    }
  }
  /// Whether the scheduler of its destination would start `r` now, if `r` were the first there. Prompts that wait there
  /// do not count; else `r` would wait behind all that come after it. Requests that were let in and have not started do
  /// count.
  [[nodiscard]] bool has_room(cluster& c, const request& r) {
    const std::size_t to = r.migration.to;
    if (!c.up(to)) return false;
    const auto& one = c.at(to);
    const tokens block_size = c.options().instance.limits.block_size;
    blocks needs = blocks_for(r.state().length, block_size);
    if (one.served() == 0) return needs <= one.free_blocks();
    std::erase_if(entering_[to],
                  [to](const request* e) { return e->where != to || e->state().life != lifecycle::waiting; });
    for (const request* e : entering_[to]) needs += blocks_for(e->state().length, block_size);
    const blocks kept{c.capacity(to).count() / 100};  // the watermark
    return needs + kept <= one.free_blocks() &&
           one.holding() + entering_[to].size() < c.options().of(to).limits.residents;
  }
  /// If nothing runs on an instance, its free blocks may be taken by requests on their way from it, while arrived ones
  /// wait for room. Then the first arrived request goes back.
  void break_cycles(cluster& c) {
    for (std::size_t i = 0; i != c.size(); ++i) {
      admit(c, i);
      if (arrived_[i].empty() || !c.up(i) || c.at(i).served() != 0) continue;
      request& r = *arrived_[i].front();
      arrived_[i].pop_front();
      c.cut_migration(r);
    }
  }
  /// Looks up which workers could serve `r`, and their free blocks.
  void look_at(cluster& c, const request& r) {
    for (pool_worker& w : pools_->workers()) {
      w.free_blocks = c.views()[w.id].free_blocks;
      w.open = c.takes(w.id, r);
    }
  }
  /// What the request that waits first on each worker needs; the oldest one waits first.
  void find_heads_of_line(cluster& c) {
    heads_.assign(c.size(), blocks{});
    for (std::size_t i = 0; i != c.size(); ++i) {
      const request* first = nullptr;
      for (const request* r : c.at(i).requests()) {
        if (r->state().life == lifecycle::waiting && (first == nullptr || r->index < first->index)) first = r;
      }
      if (first != nullptr) heads_[i] = blocks_for(first->state().length, c.options().instance.limits.block_size);
    }
  }
  void computed(const request& r) {
    pools_->workers()[r.where].load.leave(r.prompt);
    queued_[r.index] = false;
  }

  pool_sizes sizes_;
  Policy policy_;
  double epoch_s_;
  std::vector<std::byte> memory_;
  std::unique_ptr<pools> pools_;
  std::vector<bool> queued_;
  std::vector<std::deque<request*>> arrived_;    ///< By destination: requests with their KV there that run nowhere.
  std::vector<request*> stuck_;                  ///< On prefill workers, because their moves were called off.
  std::vector<std::vector<request*>> entering_;  ///< By instance: requests let in that had not started.
  std::vector<blocks> heads_;
};

}  // namespace sim
TESSERA_NAMESPACE_END
