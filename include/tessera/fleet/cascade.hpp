// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/core/status.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/cost/qoe_model.hpp>
#include <tessera/fleet/controller.hpp>
#include <tessera/market/selection.hpp>
#include <tessera/market/triggers.hpp>
#include <tessera/partition/plan.hpp>
#include <tessera/partition/range_refiner.hpp>
#include <tessera/placement/turn.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// How `cascade` shares requests and moves boundaries.
template <partition::split_rule Rule = partition::by_quality>
struct cascade_config {
  /// The plan: ranges that join from 0 to `partition::unbounded`. Replicas are numbered through the stages; those
  /// beyond the plan belong to the last stage. Copied.
  std::span<const partition::stage> stages{};
  typename partition::range_refiner<Rule>::options refinement{};  ///< How boundaries follow the requests.
  market::rebalance trigger{};                                    ///< When a load is above the mean of its stage.
  tokens longest = partition::unbounded;  ///< The last boundary stays at or below this; not below the plan's.
  tokens block_size{16};                  ///< Tokens of a KV block, as in the router's book.
  double backlog_weight = 1;  ///< How much more a block that a queue waits for weighs than one that is held.
  double rebalance_s = 0.5;   ///< Between two looks at the loads within stages; 0: none is sold within a stage.
  double refine_s = 1;        ///< Between two refinements of the ranges; 0: they stay as planned.
  std::size_t outgoing = 1;   ///< Requests on their way from a replica at a time. At least 1.
  std::size_t keep = 3;       ///< Bids that are kept: those that could start earliest.
};

/// What there must be room for in a `cascade`; fixed at construction.
struct cascade_limits {
  std::size_t replicas = 64;    ///< Numbers are below this.
  std::size_t stages = 16;      ///< Most stages. At least 1.
  std::size_t requests = 2048;  ///< Requests of this router: from more than these no boundary is refined.
  std::size_t transfers = 64;   ///< Requests on their way at a time.
};

/// CascadeInfer by one router: replicas in stages by length. A new request goes to the replica with the least load in
/// the earliest stage that takes its length. A request that has outgrown its replica moves live to the next stage that
/// takes it. Every `rebalance_s` seconds, replicas with a load above the mean of their stage give requests to their
/// peers: the longest that fit into the excess. Every `refine_s` seconds, the end of each range moves to where `Rule`
/// splits the replica's requests and those of its successors (`partition::range_refiner`).
///
/// A request that moves is sold as on the paper's market. Each replica of the stage with room for it makes a bid. That
/// is its load, and the tokens that are on their way to it, after which it could start. The half with less load is
/// kept, then the `keep` earliest starts, and then the earliest bid (`market::select_bids`). Bids are asked for in
/// turn. The router knows all bids, so there are no messages between replicas, and no replica waits for another's
/// answer. Where each instance decides for itself, use `cascade_instance`.
///
/// Lengths count in whole blocks. A load is the tokens of KV of a replica's requests, waiting ones included. Several
/// routers have boundaries of their own, each by its own requests.
///
/// When to use: lengths lie far apart, and steps are slow because of that. `arrived` and `may_move` are O(replicas).
/// Rebalancing is O(replicas^2), and O(requests) of each replica that gives. Refinement sorts the requests of two
/// stages for each replica. Nothing allocates after construction. Source: CascadeInfer, sections 3.1, 4.3 and 4.4.
template <partition::split_rule Rule = partition::by_quality>
class cascade final : public controller {
 public:
  using config = cascade_config<Rule>;  ///< How requests are shared and boundaries move.
  using limits = cascade_limits;        ///< What there must be room for; fixed at construction.

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .template add<member>(l.replicas)
        .template add<stage>(l.stages)
        .template add<market::bid>(l.replicas)
        .template add<tokens>(l.replicas)
        .template add<transfer_underway>(l.transfers)
        .template add<cost::request_lengths>(l.requests)
        .template add<cost::request_lengths>(l.requests)
        .template add<cost::request_lengths>(l.requests)
        .bytes_unaligned();
  }
  /// Over the caller's memory, at least `required_bytes(l)` (checked in every build), which must outlive it.
  cascade(std::span<std::byte> memory, const limits& l, const config& c) noexcept : cascade{arena{memory}, l, c} {}
  /// Over what `storage_for` made.
  cascade(owned_storage<limits>& storage, const config& c) noexcept : cascade{storage.memory(), storage.limits(), c} {}
  cascade(const cascade&) = delete;
  cascade& operator=(const cascade&) = delete;

  /// The first length, in blocks, that has outgrown a replica. Requires `id` below the limit (asserted).
  [[nodiscard]] blocks range_end(replica_id id) const noexcept {
    TESSERA_ASSERT(id < limits_.replicas, "there is room for this replica");
    return end_of(members_[id]);
  }
  /// Its stage. Requires `id` below the limit (asserted).
  [[nodiscard]] std::size_t stage_of(replica_id id) const noexcept {
    TESSERA_ASSERT(id < limits_.replicas, "there is room for this replica");
    return members_[id].stage;
  }

  void started(port& p) noexcept override {
    if (config_.rebalance_s > 0) p.wake_after(config_.rebalance_s, rebalance);
    if (config_.refine_s > 0) p.wake_after(config_.refine_s, refine);
  }
  void joined(replica_id id, const replica& /*what*/, port& p) noexcept override {
    TESSERA_REQUIRE(id < limits_.replicas, "there is room for this replica");
    members_[id].is_there = true;
    members_[id].told_to = {};
    tell_range(id, p);
  }
  void left(replica_id id, port& /*p*/) noexcept override { members_[id].is_there = false; }
  void failed(replica_id id, port& /*p*/) noexcept override { members_[id].is_there = false; }

  void arrived(const request_view& r, port& p) noexcept override {
    forget(r.id);
    const candidates<> all = p.replicas(r);
    const blocks size = size_of(r);
    std::size_t s = no_stage;
    std::size_t last = 0;
    for (std::size_t i = 0; i != all.size(); ++i) {
      const member& m = members_[all[i].id];
      if (size < end_of(m)) s = std::min<std::size_t>(s, m.stage);
      last = std::max<std::size_t>(last, m.stage);
    }
    // If no replica takes this length, the latest stage that is there.
    const bool fits = s != no_stage;
    if (!fits) s = last;
    const std::size_t k = stages_[s].ties.least(
        0, all.size(), [&](std::size_t i) noexcept { return load(all[i]); },
        [&](std::size_t i) noexcept {
          const member& m = members_[all[i].id];
          return m.stage == s && (!fits || size < end_of(m));
        });
    if (k == placement::nowhere) return p.note(r.id, no_replica, "no replica takes it");
    p.place_or_note(r.id, static_cast<replica_id>(all[k].id));
  }

  void may_move(const request_view& r, move_reason why, port& p) noexcept override {
    if (why != move_reason::outgrown) return;
    const member& m = members_[r.where];
    const blocks size = size_of(r);
    if (m.stage + 1 == stages_.size() || size < end_of(m) || !may_send(m)) return;
    const std::size_t s = stage_for(size, m.stage + 1);
    const destinations d = p.where_to(r);
    bids_.clear();
    for (std::size_t i = 0; i != d.replicas.size(); ++i) {
      const view& v = d.replicas[i];
      const member& to = members_[v.id];
      if (i != d.here && to.stage == s && size < end_of(to)) bid(v.id, load(v));
    }
    sell(r, p);
  }
  void arrived_with_kv(const request_view& r, port& /*p*/) noexcept override { forget(r.id); }
  void move_failed(const request_view& r, port& /*p*/) noexcept override { forget(r.id); }
  void lost(const request_view& r, port& /*p*/) noexcept override { forget(r.id); }
  void ended(const request_view& r, port& /*p*/) noexcept override { forget(r.id); }

  void woke(std::uint64_t alarm, port& p) noexcept override {
    if (alarm == rebalance) {
      rebalance_stages(p);
      p.wake_after(config_.rebalance_s, rebalance);
    } else if (alarm == refine) {
      for (std::size_t s = 0; s + 1 < stages_.size(); ++s) refine_stage(s, p);
      for (replica_id id = 0; id != limits_.replicas; ++id) {
        if (members_[id].is_there && members_[id].stage + 1 == stages_.size()) tell_range(id, p);
      }
      p.wake_after(config_.refine_s, refine);
    }
  }
  /// The stages become those of the layout: replicas with the same first length are one. A replica that it does not
  /// name belongs to the last stage. No effect without a range that begins at 0, or with more stages than there is room
  /// for.
  void planned(std::uint64_t /*plan*/, std::span<const assignment> layout, port& p) noexcept override {
    if (!take_plan(layout)) return p.note(no_request, no_replica, "this layout makes no stages");
    for (replica_id id = 0; id != limits_.replicas; ++id) {
      if (members_[id].is_there) tell_range(id, p);
    }
  }

 private:
  using refiner = partition::range_refiner<Rule>;
  static constexpr std::size_t no_stage = static_cast<std::size_t>(-1);
  static constexpr std::uint64_t rebalance = 0;
  static constexpr std::uint64_t refine = 1;

  struct stage {
    tokens from{};  // The first length that a replica of the stage before does not serve.
    placement::turn ties{};
  };
  struct member {
    std::optional<refiner> range{};  // None in the last stage.
    std::uint32_t stage = 0;
    std::uint32_t sends = 0;  // Requests that are on their way from it.
    tokens coming{};          // Those on their way to it.
    blocks told_from{};       // Its range, as the port knows it;
    blocks told_to{};         // 0: it has not been told.
    // As of the last look at all replicas.
    blocks load{};
    blocks free{};
    bool is_shown = false;
    bool is_there = false;
  };
  struct transfer_underway {
    request_id request = no_request;
    replica_id from = no_replica;
    replica_id to = no_replica;
    tokens length{};
  };

  cascade(arena memory, const limits& l, const config& c) noexcept
      : config_{c},
        limits_{l},
        members_{memory.take<member>(l.replicas)},
        stages_{memory, l.stages},
        bids_{memory, l.replicas},
        loads_{memory, l.replicas},
        underway_{memory, l.transfers},
        own_{memory, l.requests},
        theirs_{memory, l.requests},
        scratch_{memory.take<cost::request_lengths>(l.requests), l.requests} {
    TESSERA_REQUIRE(!c.stages.empty() && c.stages.size() <= l.stages, "there are stages, and no more than the limit");
    TESSERA_ASSERT(c.stages.back().to == partition::unbounded, "the last stage takes all lengths");
    TESSERA_ASSERT(c.longest >= c.stages.back().from, "the plan cuts above the longest request");
    TESSERA_ASSERT(c.block_size > tokens{} && c.outgoing >= 1 && c.keep >= 1, "requests move between replicas");
    std::size_t id = 0;
    for (const partition::stage& s : c.stages) {
      for (std::size_t n = 0; n != s.instances && id != l.replicas; ++n) assign(id++, stages_.size(), s.to);
      stages_.push_back({s.from, {}});
    }
    for (; id != l.replicas; ++id) assign(id, stages_.size() - 1, partition::unbounded);
    config_.stages = {};
  }

  void assign(std::size_t id, std::size_t s, tokens to) noexcept {
    members_[id].stage = static_cast<std::uint32_t>(s);
    members_[id].range.reset();
    if (to != partition::unbounded) members_[id].range.emplace(to, config_.refinement);
  }
  [[nodiscard]] bool take_plan(std::span<const assignment> layout) noexcept {
    // The first lengths, ascending, each once.
    fixed_vector<tokens>& firsts = loads_;
    firsts.clear();
    for (const assignment& a : layout) {
      if (a.replica >= limits_.replicas || a.from < blocks{} || !(a.from < a.to) || firsts.full()) return false;
      firsts.push_back(config_.block_size * a.from.count());
    }
    std::sort(firsts.begin(), firsts.end());
    firsts.truncate(static_cast<std::size_t>(std::unique(firsts.begin(), firsts.end()) - firsts.begin()));
    if (firsts.empty() || firsts[0] != tokens{} || firsts.size() > stages_.capacity()) return false;
    stages_.clear();
    for (const tokens from : firsts) stages_.push_back({from, {}});
    const std::size_t last = stages_.size() - 1;
    for (std::size_t id = 0; id != limits_.replicas; ++id) assign(id, last, partition::unbounded);
    for (const assignment& a : layout) {
      const tokens* const at = std::lower_bound(firsts.begin(), firsts.end(), config_.block_size * a.from.count());
      const auto s = static_cast<std::size_t>(at - firsts.begin());
      assign(a.replica, s, s == last ? partition::unbounded : firsts[s + 1]);
    }
    return true;
  }

  [[nodiscard]] blocks size_of(const request_view& r) const noexcept {
    return blocks_for(r.length(), config_.block_size);
  }
  [[nodiscard]] blocks end_of(const member& m) const noexcept {
    return m.range ? blocks_for(m.range->boundary(), config_.block_size) : endless;
  }
  [[nodiscard]] blocks load(const view& v) const noexcept {
    return v.kv_held +
           blocks{static_cast<std::int64_t>(config_.backlog_weight * static_cast<double>(v.waiting_blocks.count()))};
  }
  [[nodiscard]] bool may_send(const member& m) const noexcept {
    return m.sends < config_.outgoing && !underway_.full();
  }
  /// The earliest stage, from `s` on, with a replica that takes this length; the last one if there is none.
  [[nodiscard]] std::size_t stage_for(blocks size, std::size_t s) const noexcept {
    std::size_t best = stages_.size() - 1;
    for (std::size_t id = 0; id != limits_.replicas; ++id) {
      const member& m = members_[id];
      if (m.is_there && m.stage >= s && size < end_of(m)) best = std::min<std::size_t>(best, m.stage);
    }
    return best;
  }
  /// Says the range of a replica, if it has changed. What does not get through is said at the next refinement.
  void tell_range(replica_id id, port& p) noexcept {
    member& m = members_[id];
    const blocks to = end_of(m);
    const blocks from = min(blocks{stages_[m.stage].from / config_.block_size}, to - blocks{1});
    if (from == m.told_from && to == m.told_to) return;
    if (p.set_length_range(id, from, to) == status::exhausted) return;
    m.told_from = from;
    m.told_to = to;
  }

  // The market.

  void bid(std::uint64_t id, blocks load) noexcept {
    bids_.push_back({.from = {static_cast<market::instance_id>(id), 0},
                     .load = config_.block_size * load.count(),
                     .start = static_cast<double>(members_[id].coming.count()),
                     .arrival = 0});
  }
  /// Moves a request to the replica with the best of `bids_` that takes it. Returns whether it has moved.
  bool sell(const request_view& r, port& p) noexcept {
    if (bids_.empty()) return false;
    // The replica that is asked first answers first; each auction begins with the next one.
    const std::size_t n = bids_.size();
    const std::size_t first = auctions_++ % n;
    for (std::size_t i = 0; i != n; ++i) bids_[i].arrival = static_cast<std::uint32_t>((i + n - first) % n);
    bids_.truncate(market::select_bids({bids_.data(), n}, config_.keep));
    for (const market::bid& b : bids_) {
      if (!ok(p.move(r.id, b.from.id, transfer::live))) continue;
      underway_.push_back({r.id, r.where, b.from.id, r.length()});
      ++members_[r.where].sends;
      members_[b.from.id].coming += r.length();
      return true;
    }
    return false;
  }
  void forget(request_id request) noexcept {
    for (transfer_underway& t : underway_) {
      if (t.request != request) continue;
      --members_[t.from].sends;
      members_[t.to].coming -= t.length;
      t = underway_.back();
      underway_.pop_back();
      return;
    }
  }

  // Within a stage.

  void look(port& p) noexcept {
    for (std::size_t id = 0; id != limits_.replicas; ++id) members_[id].is_shown = false;
    const candidates<> all = p.replicas({});
    for (std::size_t i = 0; i != all.size(); ++i) {
      member& m = members_[all[i].id];
      m.load = load(all[i]);
      m.free = all[i].free_blocks;
      m.is_shown = true;
    }
  }
  void rebalance_stages(port& p) noexcept {
    look(p);
    for (replica_id id = 0; id != limits_.replicas; ++id) {
      if (!members_[id].is_shown) continue;
      for (tokens excess = excess_of(id); may_send(members_[id]) && excess > tokens{};) {
        request_view longest;
        p.requests_at(id, [&](const request_view& r, bool may_move) noexcept {
          const bool is_longer = longest.id == no_request || r.length() > longest.length() ||
                                 (r.length() == longest.length() && r.id < longest.id);
          if (may_move && r.length() <= excess && is_longer) longest = r;
        });
        if (longest.id == no_request) break;
        const blocks size = size_of(longest);
        bids_.clear();
        for (replica_id to = 0; to != limits_.replicas; ++to) {
          const member& m = members_[to];
          if (to != id && m.is_shown && m.stage == members_[id].stage && m.free >= size) bid(to, m.load);
        }
        if (!sell(longest, p)) break;
        member& to = members_[underway_.back().to];
        to.load += size;
        to.free -= size;
        excess -= longest.length();
      }
    }
  }
  /// The load of a replica above the mean of those of its stage that are shown.
  [[nodiscard]] tokens excess_of(replica_id id) noexcept {
    loads_.clear();
    std::size_t self = 0;
    for (std::size_t k = 0; k != limits_.replicas; ++k) {
      const member& m = members_[k];
      if (!m.is_shown || m.stage != members_[id].stage) continue;
      if (k == id) self = loads_.size();
      loads_.push_back(config_.block_size * m.load.count());
    }
    return config_.trigger.excess({loads_.data(), loads_.size()}, self);
  }

  // The ranges.

  void refine_stage(std::size_t s, port& p) noexcept {
    tokens low{1};
    tokens high = config_.longest;
    std::size_t successors = 0;
    theirs_.clear();
    for (replica_id id = 0; id != limits_.replicas; ++id) {
      const member& m = members_[id];
      if (!m.is_there) continue;
      if (m.stage + 1 == s) low = max(low, m.range->boundary() + tokens{1});
      if (m.stage != s + 1) continue;
      ++successors;
      if (m.range) high = min(high, m.range->boundary() - tokens{1});
      add_lengths(id, theirs_, p);
    }
    bool is_first = true;
    for (replica_id id = 0; id != limits_.replicas; ++id) {
      member& m = members_[id];
      if (!m.is_there || m.stage != s) continue;
      own_.clear();
      add_lengths(id, own_, p);
      const bool has_room = own_.size() + theirs_.size() <= scratch_.size();
      if (has_room && successors != 0 && low <= high) {
        m.range->update({own_.data(), own_.size()}, {theirs_.data(), theirs_.size()}, successors, low, high, scratch_);
      }
      stages_[s + 1].from = is_first ? m.range->boundary() : min(stages_[s + 1].from, m.range->boundary());
      is_first = false;
      tell_range(id, p);
    }
  }
  static void add_lengths(replica_id id, fixed_vector<cost::request_lengths>& to, port& p) noexcept {
    p.requests_at(id, [&](const request_view& r, bool /*may_move*/) noexcept {
      if (!to.full()) to.push_back({r.prompt, r.length()});
    });
  }

  config config_;
  limits limits_;
  member* members_;  // By replica.
  fixed_vector<stage> stages_;
  fixed_vector<market::bid> bids_;
  fixed_vector<tokens> loads_;
  fixed_vector<transfer_underway> underway_;
  fixed_vector<cost::request_lengths> own_;
  fixed_vector<cost::request_lengths> theirs_;
  std::span<cost::request_lengths> scratch_;
  std::size_t auctions_ = 0;
};

}  // namespace fleet
TESSERA_NAMESPACE_END
