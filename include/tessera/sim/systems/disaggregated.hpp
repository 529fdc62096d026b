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

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// Serving with prefill and decode on different workers: a control of `cluster` with pools, and the policies that are
/// compared in Phasor's evaluation. A request is computed up to its first token by a prefill worker, then its KV
/// crosses the fabric to a decode worker, where it goes on. Its blocks on the prefill worker are free as soon as its KV
/// has crossed; while the decode worker has no room for it, its KV waits beside that one's blocks.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// A worker as the routing policies see it.
struct pool_worker {
  std::size_t id = 0;                         ///< Which instance.
  control::role role = control::role::mixed;  ///< What it does now.
  bool elastic = false;                       ///< Whether its role may change.
  bool open = true;                           ///< It is in service, and takes the request that is to be routed.
  headroom::prefill_load load{};              ///< Prompts that are not computed yet.
  double phi = 0;                             ///< Whichever freeness the policy has filled in.
  std::size_t requests = 0;                   ///< Whichever queue the policy counts.
  blocks free_blocks{};                       ///< Less what is on its way here.
};

/// What the freeness of prefill workers is computed with.
struct prefill_model {
  headroom::prefill_cost cost{};      ///< Calibrated to the simulated engine.
  headroom::prefill_budget budget{};  ///< What a worker can do within the TTFT.
  double r_squared = 0;               ///< How well the calibration fits.
};

/// Measures the prefill times of a step model and calibrates alpha and beta from them (Phasor, appendix B.2).
/// @param peak_flops cancels out of the freeness; it only gives alpha and beta their unit.
[[nodiscard]] inline prefill_model calibrate_prefill(const step_timer& timer, duration ttft, double peak_flops = 1e12) {
  std::vector<headroom::prefill_sample> samples;
  for (std::int64_t length = 128; length <= 8192; length += 128) {
    step_shape shape;
    shape.add_prefill(tokens{}, tokens{length});
    samples.push_back({tokens{length}, timer(shape)});
  }
  const headroom::calibration fit = headroom::calibrate(samples, peak_flops);
  TESSERA_ASSERT(ok(fit.status), "every step model has prefill times");
  return {.cost = fit.cost, .budget = {.peak_flops = peak_flops, .ttft = ttft}, .r_squared = fit.r_squared};
}

namespace detail {

/// As tables call a pool.
[[nodiscard]] constexpr const char* role_name(control::role role) noexcept {
  return role == control::role::prefill ? "prefill" : role == control::role::decode ? "decode" : "mixed";
}

}  // namespace detail

/// The workers that a policy chooses from, and what was measured of them.
class pools {
 public:
  /// `demand_memory` holds the window of recent prompts.
  pools(const pool_sizes& sizes, tokens block_size, std::span<std::byte> demand_memory)
      : arena_{demand_memory}, demand_{arena_, {}, {.block_size = block_size}} {
    for (std::size_t i = 0; i != sizes.prefill + sizes.decode + sizes.mixed; ++i) {
      pool_worker w;
      w.id = i;
      w.role = i < sizes.prefill                  ? control::role::prefill
               : i < sizes.prefill + sizes.decode ? control::role::decode
                                                  : control::role::mixed;
      w.elastic = w.role == control::role::mixed;
      workers_.push_back(w);
    }
    queue_seconds_.assign(workers_.size(), 0.0);
  }

  /// All workers, by instance.
  [[nodiscard]] std::vector<pool_worker>& workers() noexcept { return workers_; }
  /// The reference demand of the requests seen so far.
  [[nodiscard]] headroom::reference_demand& demand() noexcept { return demand_; }

  /// The open workers for which `takes(worker)` holds, as views for a placement policy.
  template <class Takes>
  [[nodiscard]] const std::vector<pool_worker>& choose_from(Takes&& takes) {
    chosen_.clear();
    for (const pool_worker& w : workers_) {
      if (w.open && takes(w)) chosen_.push_back(w);
    }
    return chosen_;
  }

  /// Free blocks of a decode worker that are of no use to a typical request.
  [[nodiscard]] static blocks stranded(blocks free, blocks total, blocks demand) noexcept {
    return kv::stranded_below{demand}({.total = total, .free = free});
  }

  /// What was before is none of theirs.
  void measures_from(double now_s) noexcept { measured_s_ = now_s; }
  /// Takes the time average of queues and fragmentation up to `now_s`. `head_of_line`: by worker, the blocks that its
  /// first waiting request needs, or 0.
  void measure(double now_s, std::span<const instance_view> views, std::span<const blocks> head_of_line) {
    const double passed = now_s - measured_s_;
    measured_s_ = now_s;
    blocks lost{};
    blocks free{};
    blocks all{};
    for (const pool_worker& w : workers_) {
      queue_seconds_[w.id] += passed * static_cast<double>(w.load.requests());
      if (w.role == control::role::prefill) continue;
      lost += stranded(views[w.id].free_blocks, views[w.id].capacity, demand_.value());
      free += views[w.id].free_blocks;
      all += views[w.id].capacity;
    }
    bool blocked = false;
    for (const pool_worker& w : workers_) {
      if (w.role == control::role::prefill) continue;
      blocked = blocked || (views[w.id].free_blocks < head_of_line[w.id] && head_of_line[w.id] <= free);
    }
    if (all == blocks{}) return;
    const auto part = [&](blocks b) { return static_cast<double>(b.count()) / static_cast<double>(all.count()); };
    stranded_.add(part(lost), passed);
    blocked_.add(blocked ? part(free) : 0, passed);
    if (now_s < next_sample_s_) return;
    next_sample_s_ = now_s + 1;
    constexpr std::size_t most_curves = 64;  // nobody can tell more apart
    for (const pool_worker& w : std::span{workers_}.first(std::min(workers_.size(), most_curves))) {
      curves["queue " + std::to_string(w.id)].emplace_back(now_s, static_cast<double>(w.load.requests()));
    }
    curves["blocked"].emplace_back(now_s, blocked ? part(free) : 0);
  }

  /// Series over time for plots: (seconds, value).
  std::map<std::string, std::vector<std::pair<double, double>>> curves;
  std::size_t role_changes = 0;      ///< Role changes carried out.
  std::size_t defragmentations = 0;  ///< Sequences moved to free room.

  /// The mean length of the longest prefill queue over the mean of the others, among workers that only ever prefilled.
  [[nodiscard]] double queue_skew(std::size_t prefill_workers) const {
    const std::span<const double> queues{queue_seconds_.data(), prefill_workers};
    if (queues.size() < 2) return 1;
    const double most = *std::max_element(queues.begin(), queues.end());
    double all = 0;
    for (const double q : queues) all += q;
    const double others = (all - most) / static_cast<double>(queues.size() - 1);
    return others > 0 ? most / others : 1;
  }
  /// The part of the decode memory that is free and of no use: to a typical request, where it is (H_frag); and while a
  /// request waits on one worker for memory that the workers together have.
  [[nodiscard]] const time_average& stranded_part() const noexcept { return stranded_; }
  /// See `stranded_part`.
  [[nodiscard]] const time_average& blocked_part() const noexcept { return blocked_; }

 private:
  arena arena_;
  headroom::reference_demand demand_;
  std::vector<pool_worker> workers_;
  std::vector<pool_worker> chosen_;
  std::vector<double> queue_seconds_;
  time_average stranded_;
  time_average blocked_;
  double measured_s_ = 0;
  double next_sample_s_ = 0;
};

/// A control with pools. Where KV waits that has no room at its decode worker, `cluster_options::kv_waits_at_source`
/// says.
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
      let_in(c, to);
    } else if (c.up(to)) {
      c.admit(r);
    }
  }
  /// An instance is between two steps: there may be room. Whoever was to leave it, and could not, leaves now.
  void step_ended(cluster& c, std::size_t i) override {
    let_in(c, i);
    const auto leaves = [&](const request* r) { return r->where == i && may_migrate(*r); };
    for (auto at = std::find_if(stuck_.begin(), stuck_.end(), leaves); at != stuck_.end();
         at = std::find_if(stuck_.begin(), stuck_.end(), leaves)) {
      request& r = **at;
      stuck_.erase(at);
      prefilled(c, r);
    }
  }
  /// The move of `r` was called off, for its destination has died: a prefill worker is no place to stay.
  void migration_failed(cluster& c, request& r) override {
    if (c.in_service(r.where) && pools_->workers()[r.where].role == control::role::prefill) stuck_.push_back(&r);
  }
  /// A request has gone on elsewhere, and left room where it was.
  void moved(cluster& c, request& /*r*/) override {
    if (!c.options().kv_waits_at_source) return;
    for (std::size_t i = 0; i != c.size(); ++i) let_in(c, i);
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
  /// Who was chosen, and why.
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

  /// Lets those in, first come, first served, whose KV is at instance `to`, while there is room.
  void let_in(cluster& c, std::size_t to) {
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
  /// Whether its scheduler would start `r` at its destination now, were it the first there. Prompts that wait there do
  /// not count, or it would wait behind all that come after it; those that were let in and have not started do.
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
  /// Where nothing runs, and what is on its way from there takes the room of what has come, somebody has to go back.
  void break_cycles(cluster& c) {
    for (std::size_t i = 0; i != c.size(); ++i) {
      let_in(c, i);
      if (arrived_[i].empty() || !c.up(i) || c.at(i).served() != 0) continue;
      request& r = *arrived_[i].front();
      arrived_[i].pop_front();
      c.cut_migration(r);
    }
  }
  /// Who could serve `r`.
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
  std::vector<std::deque<request*>> arrived_;    ///< By destination: whose KV is there, and who run nowhere.
  std::vector<request*> stuck_;                  ///< On prefill workers, for their moves were called off.
  std::vector<std::vector<request*>> entering_;  ///< By instance: who have been let in, and had not started.
  std::vector<blocks> heads_;
};

namespace detail {

/// Of the open ones that it `takes` the one with the least `key`, then in turn; `placement::nowhere` of none.
template <class Key, class Takes>
[[nodiscard]] std::size_t least_of(placement::turn& ties, const std::vector<pool_worker>& workers, Key key,
                                   Takes takes) {
  return ties.least(
      0, workers.size(), [&](std::size_t i) { return key(workers[i]); },
      [&](std::size_t i) { return workers[i].open && takes(workers[i]); });
}
/// Likewise, with the fewest requests.
template <class Takes>
[[nodiscard]] std::size_t shortest_queue(placement::turn& ties, const std::vector<pool_worker>& workers, Takes takes) {
  return least_of(
      ties, workers, [](const pool_worker& w) { return w.requests; }, takes);
}
/// Of a role's open workers the one with the least `key`, then in turn. If the pool has lost its last one, the mixed
/// pool serves, and if there is none, the other.
template <class Key>
[[nodiscard]] std::size_t least_in(placement::turn& ties, const std::vector<pool_worker>& workers, control::role role,
                                   Key key) {
  for (const control::role serves : {role, control::role::mixed}) {
    const std::size_t best = least_of(ties, workers, key, [&](const pool_worker& w) { return w.role == serves; });
    if (best != placement::nowhere) return best;
  }
  return least_of(ties, workers, key, [](const pool_worker&) { return true; });
}
/// Likewise, with the fewest requests.
[[nodiscard]] inline std::size_t shortest_in(placement::turn& ties, const std::vector<pool_worker>& workers,
                                             control::role role) {
  return least_in(ties, workers, role, [](const pool_worker& w) { return w.requests; });
}

}  // namespace detail

/// DistServe's control plane: a static split, each phase to the worker with the fewest requests.
struct distserve {
  static constexpr bool compares_phi = false;                               ///< Or queues.
  static constexpr std::string_view prefill_reason = "the shortest queue";  ///< In words.
  static constexpr std::string_view decode_reason = "the fewest requests";  ///< In words.

  placement::turn prefill_ties{};  ///< Whose turn it is among prefill workers with as many requests.
  placement::turn decode_ties{};   ///< Among decode workers.

  /// The worker that computes a request's prompt.
  [[nodiscard]] std::size_t prefill_worker(cluster& /*c*/, pools& p, const request&) {
    for (pool_worker& w : p.workers()) w.requests = w.load.requests();
    return detail::shortest_in(prefill_ties, p.workers(), control::role::prefill);
  }
  /// The worker that decodes a request, or none if it has to wait.
  [[nodiscard]] std::size_t decode_worker(cluster& c, pools& p, const request&) {
    for (pool_worker& w : p.workers()) w.requests = c.views()[w.id].requests;
    return detail::shortest_in(decode_ties, p.workers(), control::role::decode);
  }
};

/// DistServe's pools with prefill routed to the most free memory: the scheduler that Phasor's section 2 takes apart.
struct memory_aware : distserve {
  static constexpr std::string_view prefill_reason = "the most free memory";  ///< In words.

  /// The worker that computes a request's prompt.
  [[nodiscard]] std::size_t prefill_worker(cluster& /*c*/, pools& p, const request&) {
    return detail::least_in(prefill_ties, p.workers(), control::role::prefill,
                            [](const pool_worker& w) { return -w.free_blocks.count(); });
  }
};

/// Splitwise's control plane: shortest queue, and a mixed pool that helps out: a prompt goes there when every queue of
/// the prefill pool is longer than `threshold`, a sequence when no decode worker has room for it.
struct splitwise {
  static constexpr bool compares_phi = false;  ///< Or queues.
  static constexpr std::string_view prefill_reason =
      "the shortest queue, of the prefill pool while one there is short";  ///< In words.
  static constexpr std::string_view decode_reason =
      "the fewest requests, of the decode pool while one there has room";  ///< In words.

  std::size_t threshold = 4;       ///< Requests in a queue.
  placement::turn prefill_ties{};  ///< Whose turn it is among workers with as many prompts.
  placement::turn decode_ties{};   ///< Among workers with as many sequences.

  /// The worker that computes a request's prompt.
  [[nodiscard]] std::size_t prefill_worker(cluster& /*c*/, pools& p, const request&) {
    for (pool_worker& w : p.workers()) w.requests = w.load.requests();
    placement::turn ties = prefill_ties;
    const std::size_t best = detail::shortest_in(ties, p.workers(), control::role::prefill);
    if (p.workers()[best].requests <= threshold) return prefill_ties.chose(best);
    const std::size_t other = detail::shortest_queue(
        prefill_ties, p.workers(), [](const pool_worker& w) { return w.role != control::role::decode; });
    return other != placement::nowhere ? other : prefill_ties.chose(best);
  }
  /// The worker that decodes a request, or none if it has to wait.
  [[nodiscard]] std::size_t decode_worker(cluster& c, pools& p, const request& r) {
    // A mixed worker keeps what it has prefilled.
    if (p.workers()[r.where].role == control::role::mixed) return r.where;
    const blocks needs = blocks_for(r.state().length, c.options().instance.limits.block_size) + blocks{1};
    for (pool_worker& w : p.workers()) w.requests = c.views()[w.id].requests;
    for (const control::role role : {control::role::decode, control::role::mixed}) {
      const std::size_t roomy = detail::shortest_queue(
          decode_ties, p.workers(), [&](const pool_worker& w) { return w.role == role && needs <= w.free_blocks; });
      if (roomy != placement::nowhere) return roomy;
    }
    return detail::shortest_in(decode_ties, p.workers(), control::role::decode);
  }
};

/// Phasor: prompts go to the highest Phi_T, sequences to the highest Phi_S; each epoch the controllers move KV away
/// from workers whose free memory is stranded, and workers between the pools. Each part can be switched off.
class phasor_control {
 public:
  static constexpr bool compares_phi = true;                               ///< Or queues.
  static constexpr std::string_view prefill_reason = "the highest Phi_T";  ///< In words.
  static constexpr std::string_view decode_reason = "the highest Phi_S";   ///< In words.

  /// Parameters of the parts; each is described at its own type.
  struct config {
    prefill_model model{};                    ///< What a prefill costs.
    control::phasor::settings controllers{};  ///< Parameters of the controllers.
    bool by_phi = true;                       ///< Off: to the shortest queue.
    bool defragments = true;                  ///< Off: KV stays where it is.
    bool changes_roles = true;                ///< Off: the pools keep their sizes.
    bool counts_queues = false;               ///< Not in the paper: what sequences wait for counts as used in Phi_S.
  };

  /// The controllers are made when the cluster starts.
  explicit phasor_control(const config& c) : config_{c} {}

  /// Called once, before the first event.
  void starts(cluster& c, pools&) {
    const control::phasor::limits limits{.workers = c.size(), .defragment = {}};
    memory_.resize(control::phasor::required_bytes(limits));
    arena_ = std::make_unique<arena>(memory_);
    controllers_ = std::make_unique<control::phasor>(*arena_, limits, config_.controllers);
    telemetry_.resize(c.size());
    sequences_.resize(c.size());
  }

  /// The worker that computes a request's prompt.
  [[nodiscard]] std::size_t prefill_worker(cluster& /*c*/, pools& p, const request&) {
    for (pool_worker& w : p.workers()) {
      w.requests = w.load.requests();
      w.phi = config_.by_phi ? headroom::time_freeness(w.load, config_.model.cost, config_.model.budget)
                             : -static_cast<double>(w.requests);
    }
    return highest(p, control::role::prefill, most_time_);
  }
  /// The worker that decodes a request, or none if it has to wait.
  [[nodiscard]] std::size_t decode_worker(cluster& c, pools& p, const request&) {
    for (pool_worker& w : p.workers()) {
      const blocks total = c.capacity(w.id);
      w.requests = c.views()[w.id].requests;
      const blocks free = w.free_blocks;
      const blocks used = total - free + (config_.counts_queues ? c.queued_blocks(w.id) : blocks{});
      w.phi = config_.by_phi ? headroom::space_freeness(used, pools::stranded(free, total, p.demand().value()), total)
                             : -static_cast<double>(w.requests);
    }
    return highest(p, control::role::decode, most_space_);
  }

  /// One round of the controllers: telemetry in, actions carried out.
  void epoch(cluster& c, pools& p) {
    const cluster_options& o = c.options();
    for (pool_worker& w : p.workers()) {
      const blocks total = c.capacity(w.id);
      control::worker& t = telemetry_[w.id];
      std::vector<control::sequence>& movable = sequences_[w.id];
      movable.clear();
      blocks leaving{};
      for (const request* r : c.at(w.id).requests()) {
        const blocks held = c.at(w.id).scheduler().blocks_held(*r);
        if (r->migration.stage != migration_stage::none) {
          leaving += held;
        } else if (may_migrate(*r)) {
          const double size = o.kv_bytes_per_token * static_cast<double>(r->state().computed.count());
          movable.push_back(
              {.id = r->index, .held = held, .size = bytes{std::max<std::int64_t>(1, std::llround(size))}});
        }
      }
      // The requests of an instance are in no order that means anything; the telemetry is in the order of arrival.
      std::sort(movable.begin(), movable.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
      t = {.role = w.role,
           .elastic = w.elastic,
           .available = c.in_service(w.id),
           .time_phi = headroom::time_freeness(w.load, config_.model.cost, config_.model.budget),
           .total = total,
           .free = w.free_blocks,
           .leaving = std::min(leaving, total - w.free_blocks),
           .queued = config_.counts_queues ? c.queued_blocks(w.id) : blocks{},
           .demand = p.demand().value(),
           .sequences_held = c.views()[w.id].requests,
           .sequences = movable};
    }
    const control::phasor_actions actions = controllers_->epoch(telemetry_);
    if (config_.defragments) {
      for (const control::move& m : actions.moves) {
        request& r = c.requests()[m.sequence];
        if (c.asks(r)) {
          c.because(fmt::format("defragmentation: the {} free blocks of instance {} are less than a request needs, {}",
                                telemetry_[r.where].free.count(), r.where, telemetry_[r.where].demand.count()));
        }
        p.defragmentations += c.migrate(r, m.to) ? 1U : 0U;
      }
    }
    if (config_.changes_roles && actions.change) {
      p.workers()[actions.change->worker].role = actions.change->to;
      if (c.options().watcher != nullptr) {
        c.options().watcher->note(c.now_s(), fmt::format("instance {} becomes a {} worker", actions.change->worker,
                                                         detail::role_name(actions.change->to)));
      }
      ++p.role_changes;
    }
  }

 private:
  /// Prompts never go to a decode worker nor sequences to a prefill worker; if a pool is empty, the mixed one serves.
  [[nodiscard]] static std::size_t highest(pools& p, control::role role, placement::highest_phi& choice) {
    const auto* workers = &p.choose_from([&](const pool_worker& w) { return w.role == role; });
    if (workers->empty()) workers = &p.choose_from([](const pool_worker& w) { return w.role == control::role::mixed; });
    if (workers->empty()) workers = &p.choose_from([](const pool_worker&) { return true; });
    return (*workers)[choice(*workers)].id;
  }

  config config_;
  placement::highest_phi most_time_{};
  placement::highest_phi most_space_{};
  std::vector<std::byte> memory_;
  std::unique_ptr<arena> arena_;
  std::unique_ptr<control::phasor> controllers_;
  std::vector<control::worker> telemetry_;
  std::vector<std::vector<control::sequence>> sequences_;
};

/// Pools whose sizes were planned: they keep them, and what sequences wait for counts, so that a shortage of memory on
/// the decode side is seen. What is tried before is what runs then.
[[nodiscard]] inline phasor_control planned_pools(const prefill_model& model) {
  return phasor_control{{.model = model, .changes_roles = false, .counts_queues = true}};
}

}  // namespace sim
TESSERA_NAMESPACE_END
