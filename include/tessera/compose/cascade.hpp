// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/owned_storage.hpp>
#include <tessera/market/trader.hpp>
#include <tessera/market/triggers.hpp>
#include <tessera/partition/plan.hpp>
#include <tessera/partition/range_refiner.hpp>
#include <tessera/placement/turn.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

/// @file
/// CascadeInfer: instances in stages by length. Requests pass through the stages as they grow.
///
/// `stage_map` is the known state of the cluster: the stages, and each instance's load and range as last reported. The
/// front end has one, to route new requests. So has every instance, within its `cascade_instance`.

TESSERA_NAMESPACE_BEGIN

/// A report of an instance to its peers, to the stage before it and to the front end, sent now and then.
struct load_report {
  market::instance_id from = 0;  ///< The instance that reports.
  tokens load{};                 ///< KV of its requests, waiting ones included.
  tokens range_end{};            ///< The first length outside its range; `partition::unbounded` in the last stage.
};

/// The stages, and the known state of their instances. Instances are numbered through the stages, from 0. All are
/// available until reported otherwise.
class stage_map {
 public:
  /// Capacities; fixed at construction.
  struct limits {
    std::size_t instances = 64;  ///< Most instances.
    std::size_t stages = 64;     ///< Most stages.
  };
  /// The instances [first, last).
  struct group {
    std::size_t first = 0;  ///< The first.
    std::size_t last = 0;   ///< One past the last.
    /// The number of instances.
    [[nodiscard]] constexpr std::size_t size() const noexcept { return last - first; }
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add<group>(l.stages)
        .add<std::uint32_t>(l.instances)
        .add<tokens>(l.instances)
        .add<tokens>(l.instances)
        .add<bool>(l.instances)
        .add<placement::turn>(l.stages)
        .bytes_unaligned();
  }

  /// Over caller-provided storage of `required_bytes(l)`, which must outlive it.
  /// @param stages a plan: ranges that join from 0 to `unbounded`, each with an instance; within the limits (asserted).
  stage_map(std::span<std::byte> memory, const limits& l, std::span<const partition::stage> stages) noexcept
      : stage_map{arena{memory}, l, stages} {}
  /// Over storage from `storage_for`.
  stage_map(owned_storage<limits>& storage, std::span<const partition::stage> stages) noexcept
      : stage_map{storage.memory(), storage.limits(), stages} {}
  stage_map(const stage_map&) = delete;
  stage_map& operator=(const stage_map&) = delete;

  /// Number of stages.
  [[nodiscard]] std::size_t stages() const noexcept { return stages_; }
  /// Number of instances.
  [[nodiscard]] std::size_t instances() const noexcept { return instances_; }
  /// The instances of stage `s`.
  [[nodiscard]] group stage(std::size_t s) const noexcept {
    TESSERA_ASSERT(s < stages_, "no such stage");
    return groups_[s];
  }
  /// The stage of instance `i`.
  [[nodiscard]] std::size_t stage_of(std::size_t i) const noexcept {
    TESSERA_ASSERT(i < instances_, "no such instance");
    return stage_of_[i];
  }
  /// The load of instance `i` as last reported.
  [[nodiscard]] tokens load(std::size_t i) const noexcept {
    TESSERA_ASSERT(i < instances_, "no such instance");
    return loads_[i];
  }
  /// The end of the range of instance `i` as last reported.
  [[nodiscard]] tokens range_end(std::size_t i) const noexcept {
    TESSERA_ASSERT(i < instances_, "no such instance");
    return ends_[i];
  }

  /// Whether requests may be sent to instance `i`.
  [[nodiscard]] bool available(std::size_t i) const noexcept {
    TESSERA_ASSERT(i < instances_, "no such instance");
    return !gone_[i];
  }
  /// The number of available instances in a group. O(group).
  [[nodiscard]] std::size_t available(group g) const noexcept {
    return static_cast<std::size_t>(std::count(gone_ + g.first, gone_ + g.last, false));
  }

  /// Takes in a report. False, and no effect, if the report is invalid. It may name an unknown instance, an impossible
  /// load, an empty range, or a range without end before the last stage.
  bool update(const load_report& r) noexcept {
    if (r.from >= instances_ || !market::believable(r.load) || r.range_end < tokens{1}) return false;
    const bool in_last_stage = stage_of_[r.from] + 1 == stages_;
    if (!in_last_stage && r.range_end == partition::unbounded) return false;
    loads_[r.from] = r.load;
    if (!in_last_stage) ends_[r.from] = r.range_end;
    return true;
  }
  /// An instance has died, or is back. Nothing is sent to an unavailable instance. Its load and range do not count,
  /// because they are not up to date.
  void available(std::size_t i, bool is) noexcept {
    TESSERA_ASSERT(i < instances_, "no such instance");
    gone_[i] = !is;
  }
  /// The front end has sent `length` tokens there: counted until the next report.
  void sent(std::size_t i, tokens length) noexcept {
    TESSERA_ASSERT(i < instances_, "no such instance");
    loads_[i] += length;
  }

  /// Whether instance `i` is available and its range has this length.
  [[nodiscard]] bool takes(std::size_t i, tokens length) const noexcept {
    return available(i) && !market::outgrows(length, ends_[i]);
  }
  /// The earliest stage, from `from` on, with an instance that takes this length; the last one if there is none.
  /// O(instances).
  [[nodiscard]] std::size_t stage_for(tokens length, std::size_t from = 0) const noexcept {
    std::size_t s = from;
    for (; s + 1 < stages_; ++s) {
      for (std::size_t i = groups_[s].first; i != groups_[s].last; ++i) {
        if (takes(i, length)) return s;
      }
    }
    return s;
  }
  /// The instance for a new request. In the earliest stage that takes its length, the instance with the least load;
  /// ties go round-robin, and the position of that stage advances. If no instance takes it (the last stage is not
  /// available), the same in the latest stage with an available instance. `instances()` if none is available at all.
  /// O(instances).
  [[nodiscard]] std::size_t route(tokens length) noexcept {
    std::size_t s = stage_for(length);
    std::size_t best = least_load(s, [&](std::size_t i) { return takes(i, length); });
    while (best == placement::nowhere && s-- != 0) {
      best = least_load(s, [&](std::size_t i) { return available(i); });
    }
    return best != placement::nowhere ? best : instances_;
  }

 private:
  stage_map(arena memory, const limits& l, std::span<const partition::stage> stages) noexcept
      : groups_{memory.take<group>(l.stages)},
        stage_of_{memory.take<std::uint32_t>(l.instances)},
        loads_{memory.take<tokens>(l.instances)},
        ends_{memory.take<tokens>(l.instances)},
        gone_{memory.take<bool>(l.instances)},
        ties_{memory.take<placement::turn>(l.stages)} {
    TESSERA_ASSERT(!stages.empty() && stages.size() <= l.stages, "there are stages, and no more than the limit");
    TESSERA_ASSERT(stages.back().to == partition::unbounded, "the last stage takes all lengths");
    for (const partition::stage& s : stages) {
      TESSERA_ASSERT(s.instances > 0 && s.instances <= l.instances - instances_,
                     "a stage has instances that there are");
      groups_[stages_] = {instances_, instances_ + s.instances};
      for (; instances_ != groups_[stages_].last; ++instances_) {
        stage_of_[instances_] = static_cast<std::uint32_t>(stages_);
        ends_[instances_] = s.to;
      }
      ++stages_;
    }
  }

  /// The instance of stage `s` with the least load among those with `may(i)`; ties go round-robin. `nowhere` if there
  /// is none.
  template <class May>
  [[nodiscard]] std::size_t least_load(std::size_t s, May may) noexcept {
    return ties_[s].least(
        groups_[s].first, groups_[s].last, [&](std::size_t i) noexcept { return loads_[i]; }, may);
  }

  group* groups_;
  std::uint32_t* stage_of_;
  tokens* loads_;
  tokens* ends_;
  bool* gone_;
  placement::turn* ties_;  // by stage
  std::size_t stages_ = 0;
  std::size_t instances_ = 0;
};

/// Makes an engine instance a member of a cascade (CascadeInfer, section 3.1). It has the load tracker, the coordinator
/// that hands requests over, and the refinement of the instance's range.
///
/// The engine calls
/// - `update` for each report that it receives, and for its own, which it sends as often as it likes;
/// - `available` when the failure detector says that an instance has died, and when it is back;
/// - `hand_over` between two steps, with the movable requests: those that outgrow the range are offered to the next
///   stage;
/// - `rebalance` now and then: load above the mean of the stage is offered to the peers;
/// - `refine` now and then, with the lengths of its requests and of its successors';
/// - the members of `trader()` as described there: every message, every tick, and `hand_over` once a request is copied.
///
/// A movable request has KV, is not on offer, and is not resting after an offer without a taker (`port::unsold`). Only
/// the engine knows which requests these are.
///
/// Starvation: the scheduler orders the requests, with its own bound. A request on offer goes on there, and a request
/// that no instance takes stays and rests (`port::unsold`). So offers add no wait except the pause of the last copy.
/// After `starving_after` failed pulls (`market/receiver.hpp`) the source sends the request next.
///
/// Decentralised: instances share nothing except messages. No allocation after construction.
/// @tparam Rule refines the ranges, a `partition::split_rule`.
template <partition::split_rule Rule = partition::by_quality, clock_policy Clock = seconds_clock>
class cascade_instance {
 public:
  using time_point = basic_time_point<Clock>;      ///< A moment on that clock.
  using refiner = partition::range_refiner<Rule>;  ///< Moves the end of its range.

  /// Capacities; fixed at construction.
  struct limits {
    std::size_t instances = 64;  ///< Most instances.
    std::size_t stages = 64;     ///< Most stages.
    std::size_t offers = 64;     ///< See `market::trader`.
    std::size_t purchases = 64;  ///< See `market::trader`.
  };
  /// Parameters of the parts; each is described at its own type.
  struct config {
    typename refiner::options refinement{};  ///< How the end of its range follows the requests.
    market::rebalance trigger{};             ///< When its load counts as above the mean.
    market::trader_config<Clock> market{};   ///< The trader's parameters.
    /// The range of the last stage but one ends here at the latest. Not before the plan's last cut (asserted).
    tokens longest = partition::unbounded;
  };
  /// A movable request.
  struct candidate {
    market::request_id request = 0;  ///< The request.
    std::uint32_t epoch = 0;         ///< How often it has changed hands.
    tokens length{};                 ///< Tokens of its KV.
    blocks size{};                   ///< Blocks of its KV.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add_bytes(market::trader<Clock>::required_bytes({l.instances, l.offers, l.purchases}))
        .add_bytes(stage_map::required_bytes({l.instances, l.stages}))
        .template add<market::instance_id>(l.instances)
        .template add<tokens>(l.instances)
        .bytes_unaligned();
  }

  /// Over the caller's memory, at least `required_bytes(l)` (checked in every build), which must outlive it.
  /// @param stages the plan, the same for all instances. @param self see `market::trader`; one of the plan's instances
  /// (asserted).
  cascade_instance(std::span<std::byte> memory, const limits& l, std::span<const partition::stage> stages,
                   market::peer self, const config& c = {}) noexcept
      : cascade_instance{arena{memory}, l, stages, self, c} {}
  /// Over storage from `storage_for`. `stages` is the plan, `self` this instance.
  cascade_instance(owned_storage<limits>& storage, std::span<const partition::stage> stages, market::peer self,
                   const config& c = {}) noexcept
      : cascade_instance{storage.memory(), storage.limits(), stages, self, c} {}
  cascade_instance(const cascade_instance&) = delete;
  cascade_instance& operator=(const cascade_instance&) = delete;

  /// Its place on the market.
  [[nodiscard]] market::trader<Clock>& trader() noexcept { return trader_; }
  /// Its place on the market.
  [[nodiscard]] const market::trader<Clock>& trader() const noexcept { return trader_; }
  /// This instance's view of the cluster.
  [[nodiscard]] const stage_map& map() const noexcept { return map_; }
  /// The stage that it belongs to.
  [[nodiscard]] std::size_t stage() const noexcept { return map_.stage_of(self()); }
  /// Whether its range has no end.
  [[nodiscard]] bool in_last_stage() const noexcept { return !refiner_; }
  /// The first length of the next stage.
  [[nodiscard]] tokens range_end() const noexcept { return refiner_ ? refiner_->boundary() : partition::unbounded; }

  // -- the load tracker --------------------------------------------------------------------------------------------

  /// A report for the others, with the present load.
  [[nodiscard]] load_report report(tokens load) noexcept {
    const load_report r{trader_.self().id, load, range_end()};
    map_.update(r);
    return r;
  }
  /// A report of another instance. Returns as `stage_map::update`.
  bool update(const load_report& r) noexcept { return map_.update(r); }
  /// An instance has died, or is back; see `stage_map::available`. Its trades end by `trader().peer_failed`.
  void available(std::size_t i, bool is) noexcept { map_.available(i, is); }

  /// Moves the end of the range to where `Rule` splits the requests of this instance and its average successor. It
  /// stays within the ranges that the neighbours have reported (section 4.3).
  /// @param own the requests here. @param theirs those of all successors. @param scratch room for both.
  /// @return whether the end was looked at. False in the last stage, with too little traffic, or without successors.
  /// False as well while the neighbours' reports leave no room for the end. O(n log n).
  bool refine(std::span<const cost::request_lengths> own, std::span<const cost::request_lengths> theirs,
              std::span<cost::request_lengths> scratch) noexcept {
    if (in_last_stage()) return false;
    tokens low{1};
    if (stage() != 0) {
      const stage_map::group before = map_.stage(stage() - 1);
      for (std::size_t i = before.first; i != before.last; ++i) {
        if (map_.available(i)) low = max(low, map_.range_end(i) + tokens{1});
      }
    }
    tokens high = config_.longest;
    const stage_map::group after = map_.stage(stage() + 1);
    for (std::size_t i = after.first; i != after.last; ++i) {
      if (map_.available(i) && map_.range_end(i) != partition::unbounded)
        high = min(high, map_.range_end(i) - tokens{1});
    }
    const std::size_t successors = map_.available(after);
    return successors != 0 && low <= high && refiner_->update(own, theirs, successors, low, high, scratch).has_value();
  }

  // -- the coordinator ---------------------------------------------------------------------------------------------

  /// Offers those of `movable` that have outgrown the range to the next stage with instances that take their length,
  /// and only to these. Goes in the order given, as far as the market has room. A request without a taker stays. Calls
  /// `offered(candidate)` for each that is on offer now. Returns their number. O(movable (instances + offers)).
  template <market::port P, class Offered>
  std::size_t hand_over(std::span<const candidate> movable, time_point now, P& p, Offered&& offered) noexcept {
    std::size_t offers = 0;
    if (in_last_stage()) return offers;
    for (const candidate& r : movable) {
      if (!market::outgrows(r.length, range_end())) continue;
      const std::size_t n = select(map_.stage(map_.stage_for(r.length, stage() + 1)),
                                   [&](std::size_t i) { return map_.takes(i, r.length); });
      if (n == 0) continue;
      if (!offer(r, n, now, p)) break;
      offered(r);
      ++offers;
    }
    return offers;
  }

  /// If the load exceeds the mean of the stage by more than the threshold, offers the excess not yet on offer to the
  /// peers. It chooses the longest of `movable` that fit into the excess, so that few have to move. Sorts `movable`.
  /// Returns as `hand_over`.
  template <market::port P, class Offered>
  std::size_t rebalance(std::span<candidate> movable, time_point now, P& p, Offered&& offered) noexcept {
    const stage_map::group peers = map_.stage(stage());
    tokens excess = excess_of(peers) - trader_.selling().load();
    const std::size_t n = select(peers, [&](std::size_t i) { return map_.available(i); });
    if (n == 0 || excess <= tokens{}) return 0;
    std::sort(movable.begin(), movable.end(), [](const candidate& a, const candidate& b) {
      return a.length != b.length ? a.length > b.length : a.request < b.request;
    });
    std::size_t offers = 0;
    for (const candidate& r : movable) {
      if (r.length > excess) continue;
      if (!offer(r, n, now, p)) break;
      offered(r);
      excess -= r.length;
      ++offers;
    }
    return offers;
  }

 private:
  cascade_instance(arena memory, const limits& l, std::span<const partition::stage> stages, market::peer self,
                   const config& c) noexcept
      : config_{c},
        trader_{part_of(memory, market::trader<Clock>::required_bytes({l.instances, l.offers, l.purchases})),
                {l.instances, l.offers, l.purchases},
                self,
                c.market},
        map_{part_of(memory, stage_map::required_bytes({l.instances, l.stages})), {l.instances, l.stages}, stages},
        receivers_{memory.take<market::instance_id>(l.instances)},
        loads_{memory.take<tokens>(l.instances)} {
    TESSERA_ASSERT(self.id < map_.instances(), "an instance of the plan");
    TESSERA_ASSERT(c.longest >= stages.back().from, "the plan cuts above the longest request");
    if (const std::size_t s = map_.stage_of(self.id); s + 1 != map_.stages())
      refiner_.emplace(stages[s].to, c.refinement);
  }

  static std::span<std::byte> part_of(arena& memory, std::size_t size) noexcept {
    return {memory.take_uninitialised<std::byte>(size), size};
  }

  [[nodiscard]] std::size_t self() const noexcept { return trader_.self().id; }

  /// This instance's load above the mean of the available instances of its stage.
  [[nodiscard]] tokens excess_of(stage_map::group peers) noexcept {
    std::size_t n = 0;
    std::size_t at = 0;
    for (std::size_t i = peers.first; i != peers.last; ++i) {
      if (i == self()) at = n;
      if (i == self() || map_.available(i)) loads_[n++] = map_.load(i);
    }
    return config_.trigger.excess({loads_, n}, at);
  }
  /// Puts the other instances of `to` with `may(i)` into `receivers_`. Returns their number.
  template <class May>
  [[nodiscard]] std::size_t select(stage_map::group to, May may) noexcept {
    std::size_t n = 0;
    for (std::size_t i = to.first; i != to.last; ++i) {
      if (i != self() && may(i)) receivers_[n++] = static_cast<market::instance_id>(i);
    }
    return n;
  }
  /// Offers to the first `n` of `receivers_`.
  template <market::port P>
  bool offer(const candidate& r, std::size_t n, time_point now, P& p) noexcept {
    return ok(trader_.offer(r.request, r.epoch, r.length, r.size, {receivers_, n}, now, p));
  }

  config config_;
  market::trader<Clock> trader_;
  stage_map map_;
  market::instance_id* receivers_;  // of an offer
  tokens* loads_;                   // of its stage
  std::optional<refiner> refiner_;
};

TESSERA_NAMESPACE_END
