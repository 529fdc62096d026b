// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/compose/cascade.hpp>
#include <tessera/sim/cluster/cluster.hpp>
#include <tessera/sim/random.hpp>
#include <tessera/sim/systems/refinement_rule.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// @file
/// CascadeInfer on a simulated cluster: one `cascade_instance` for each instance, driven through its public calls, with
/// messages and reports that take time.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// How requests find their instance within a stage (CascadeInfer, figure 16).
enum class stage_balance : std::uint8_t {
  round_robin,  ///< Each goes to the next one, whatever its load.
  hand_over,    ///< To the least loaded on arrival, by the market when they move on.
  full,         ///< And instances above the mean of their stage sell requests to their peers.
};

/// CascadeInfer's control plane. Its measures, besides those of every run:
/// - `market_messages`, `market_offers`, `market_unsold`, `refinements`: how many there were;
/// - `market_unresolved`: requests granted to an instance that died before it took over;
/// - `stage_output_cv`: the coefficient of variation of the output tokens per instance, averaged over the stages with
///   several instances;
/// - `stage_load_cv`: the same of the loads of the instances, averaged over time too;
/// - `most_transfers`: the most transfers that an instance had at a time.
///
/// Curves `boundary N`: where stage N ends, as the mean of its instances.
class cascade : public cluster_control {
 public:
  /// Parameters of the parts; each is described at its own type.
  struct config {
    std::vector<partition::stage> stages{};       ///< As planned; the instances are numbered through them.
    stage_balance balance = stage_balance::full;  ///< How the instances of a stage share its requests.
    refinement refine = refinement::quality;      ///< How boundaries follow the requests.
    cost::qoe_model model{};                      ///< What `refinement::quality` predicts with.
    double backlog_weight = 1;    ///< How much more a prompt token that is not computed yet weighs than one that is,
                                  ///< when the front end looks for the least load. The paper does not say; see below.
    double smoothing = 0.3;       ///< How much refined boundaries are smoothed; see `partition::range_refiner`.
    double message_s = 50e-6;     ///< From one instance to another, on average.
    double message_spread = 0.5;  ///< Each message and report takes its own time, uniform within this part of the
                                  ///< mean above and below it. 0: all take equally long, and the same instance always
                                  ///< answers first, which decides an auction. Below 1.
    double report_s = 0.05;       ///< Between two load reports of an instance.
    double rebalance_s = 0.5;     ///< Between two looks of an instance at its stage.
    double refine_s = 1;          ///< Between two refinements of an instance's range.
    double retry_s = 0.5;         ///< Before a request that no instance took is offered again.
    market::rebalance trigger{};  ///< When it is above the mean.
    market::trader_config<seconds_clock> market{};  ///< Parameters of the trader.
  };

  /// The plan and the models are in `c`.
  explicit cascade(config c) : config_{std::move(c)} {
    TESSERA_ASSERT(config_.refine != refinement::quality || config_.model.valid(), "a model to predict with");
    TESSERA_ASSERT(config_.message_spread >= 0 && config_.message_spread < 1, "no message arrives before it is sent");
    turn_.resize(config_.stages.size());
    // A request grows while it is copied; a few blocks more are set apart for that.
    config_.market.receiving.growth = blocks{4};
  }

  /// Called once: before the first event, or when it takes over from another control, with the requests that are there.
  void starts(cluster& c) override {
    draws_ = random_engine{c.options().seed, message_stream};
    promised_.assign(c.size(), blocks{});
    reserved_.clear();
    trades_.assign(c.requests().size(), {});
    const stage_map::limits of_map{.instances = c.size(), .stages = config_.stages.size()};
    front_memory_ = std::make_unique<owned_storage<stage_map::limits>>(storage_for<stage_map>(of_map));
    front_ = std::make_unique<stage_map>(*front_memory_, config_.stages);
    TESSERA_ASSERT(front_->instances() == c.size(), "every instance is in a stage");
    member::config m{.refinement = {.rule = {config_.refine, config_.model}, .smoothing = config_.smoothing},
                     .trigger = config_.trigger,
                     .market = config_.market};
    tokens most{};
    for (std::size_t i = 0; i != c.size(); ++i) most = max(most, c.options().of(i).limits.max_length);
    // A plan may be of a history with longer requests than come now.
    if (most > tokens{1}) m.longest = max(most, config_.stages.back().from);
    for (std::size_t i = 0; i != c.size(); ++i) {
      memory_.push_back(storage_for<member>(
          {.instances = of_map.instances, .stages = of_map.stages, .offers = 256, .purchases = 256}));
      members_.push_back(nullptr);
      lives_.push_back(0);
      begin_life(i, m);
    }
    for (std::size_t i = 0; i != c.size(); ++i) {
      if (!c.in_service(i)) leave_out(i);  // it has died under another control
    }
    member_ = m;
    c.call_after(tick_s, tick);
    c.call_after(config_.report_s, report);
    if (config_.balance == stage_balance::full) c.call_after(config_.rebalance_s, rebalance);
    if (config_.refine != refinement::none && members_.front()->map().stages() > 1)
      c.call_after(config_.refine_s, refine);
  }

  /// The instance that a request which has just arrived goes to.
  [[nodiscard]] std::size_t place(cluster& c, const request& r) override {
    const tokens length = max(r.prompt, r.state().length);  // more than its prompt, if its instance has died
    std::size_t to = config_.balance == stage_balance::round_robin ? round_robin(front_->stage_for(length), c, r)
                                                                   : front_->route(length);
    // No instance of the stage is alive, or all are too small for it.
    if (to >= c.size() || !c.takes(to, r)) {
      to = others_.least(
          0, c.size(), [&](std::size_t i) { return front_->load(i); }, [&](std::size_t i) { return c.takes(i, r); });
    }
    if (c.asks(r)) {
      comparison seen{.columns = {"load in tokens"}};
      for (std::size_t s = 0; s != front_->stages(); ++s) {
        const stage_map::group g = front_->stage(s);
        for (std::size_t i = g.first; i != g.last; ++i) {
          seen.rows.push_back({i, fmt::format("stage {}", s), {static_cast<double>(front_->load(i).count())}});
        }
      }
      c.because(fmt::format("its {} tokens belong to stage {}; there the {}", length.count(), front_->stage_for(length),
                            config_.balance == stage_balance::round_robin ? "next one" : "least load"),
                std::move(seen));
    }
    if (config_.balance == stage_balance::round_robin) return to;
    front_->sent(to, tokens{static_cast<std::int64_t>(config_.backlog_weight * static_cast<double>(r.prompt.count()))});
    return to;
  }

  /// Instance `i` is between two steps.
  void step_ended(cluster& c, std::size_t i) override {
    member& m = *members_[i];
    if (m.in_last_stage()) return;
    movable_.clear();
    for (const request* r : c.at(i).requests()) {
      if (market::outgrows(r->state().length, m.range_end()) && may_move(*r, c.now_s())) add_movable(c, *r);
    }
    if (movable_.empty()) return;
    std::sort(movable_.begin(), movable_.end(), [](const auto& a, const auto& b) { return a.request < b.request; });
    engine e{*this, c, i};
    if (config_.balance == stage_balance::round_robin) {
      for (const member::candidate& r : movable_) {
        const std::size_t to = round_robin(m.map().stage_for(r.length, m.stage() + 1), c, c.requests()[r.request]);
        if (to == placement::nowhere) break;
        if (!ok(m.trader().assign(r.request, r.epoch, r.length, r.size, static_cast<market::instance_id>(to), now(c),
                                  e)))
          break;
        offered(c, i, r.request, [&] { return outgrown_words(i, r); });
      }
    } else {
      m.hand_over(movable_, now(c), e,
                  [&](const member::candidate& r) { offered(c, i, r.request, [&] { return outgrown_words(i, r); }); });
    }
    withdraw_the_failed(c);
  }

  /// Called at the time that was asked for with `call_after`.
  void alarm(cluster& c, std::uint64_t what) override {
    switch (what) {
      case tick:
        for (std::size_t i = 0; i != members_.size(); ++i) {
          if (!c.up(i)) continue;
          engine e{*this, c, i};
          members_[i]->trader().tick(now(c), e);
        }
        withdraw_the_failed(c);
        return c.call_after(tick_s, tick);
      case report:
        reports_.clear();
        backlogs_.clear();
        for (std::size_t i = 0; i != members_.size(); ++i) {
          reports_.push_back(members_[i]->report(load_of(c, i)));
          backlogs_.push_back(extra_backlog(c, i));
        }
        note_loads();
        TESSERA_ASSERT(config_.message_s * (1 + config_.message_spread) < config_.report_s,
                       "a report arrives before the next one");
        for (std::size_t i = 0; i != members_.size(); ++i) {
          if (c.up(i)) c.call_after(message_time(), first_report + i);
        }
        return c.call_after(config_.report_s, report);
      case rebalance:
        for (std::size_t i = 0; i != members_.size(); ++i) {
          if (c.up(i)) sell_excess(c, i);
        }
        return c.call_after(config_.rebalance_s, rebalance);
      case refine:
        for (std::size_t i = 0; i != members_.size(); ++i) {
          if (c.up(i)) refine_range(c, i);
        }
        note_boundaries(c.now_s());
        return c.call_after(config_.refine_s, refine);
      default: break;
    }
    if (what < first_report + members_.size()) return reported(reports_[static_cast<std::size_t>(what - first_report)]);
    const std::size_t slot = static_cast<std::size_t>(what - first_report) - members_.size();
    const market::message m = messages_[slot];
    free_slots_.push_back(slot);
    if (!c.up(m.to.id)) return;  // the message is lost
    engine e{*this, c, m.to.id};
    members_[m.to.id]->trader().receive(m, now(c), e);
    withdraw_the_failed(c);
  }

  /// The KV of `r` is at its destination and the request has stopped.
  void arrived(cluster& c, request& r) override {
    const std::size_t from = r.where;
    TESSERA_ASSERT(trades_[r.index].on_offer, "only the market moves requests");
    engine e{*this, c, from};
    market::trader<seconds_clock>& t = members_[from]->trader();
    t.update(r.index, r.state().length, blocks_for(r.state().length, c.options().instance.limits.block_size));
    if (ok(t.hand_over(r.index, now(c), e))) return;
    // It has outgrown what was set apart for it: back where it was.
    c.cut_migration(r);
    take_off(c, r);
  }

  /// `r` has ended or lost its blocks while it was being copied.
  void migration_failed(cluster& c, request& r) override { take_off(c, r); }

  /// A request is done.
  void finished(cluster& c, request& r) override { take_off(c, r); }

  /// Instance `i` is dead: its trades end, and no instance sends anything there.
  void failed(cluster& c, std::size_t i) override {
    leave_out(i);
    for (std::size_t k = 0; k != members_.size(); ++k) {
      if (k == i || !c.up(k)) continue;
      engine e{*this, c, k};
      members_[k]->trader().peer_failed({static_cast<market::instance_id>(i), lives_[i]}, now(c), e);
    }
    withdraw_the_failed(c);
    promised_[i] = blocks{};
    std::erase_if(reserved_, [i](const auto& r) { return r.first.first == i; });
  }
  /// Instance `i` is back: a new incarnation that knows only which instances are dead.
  void returned(cluster& c, std::size_t i) override {
    begin_life(i, member_);
    front_->available(i, true);
    front_->update({static_cast<market::instance_id>(i), tokens{}, members_[i]->range_end()});
    for (std::size_t k = 0; k != members_.size(); ++k) {
      if (k == i) continue;
      members_[k]->available(i, true);
      members_[k]->update({static_cast<market::instance_id>(i), tokens{}, members_[i]->range_end()});
      members_[i]->available(k, c.in_service(k));
    }
  }
  /// The instance of `r` has died.
  void lost(cluster& /*c*/, request& r) override {
    trades_[r.index].on_offer = false;
    ++trades_[r.index].epoch;
  }

  /// Called once, after the last event: adds its own measures to the result.
  void ended(cluster& /*c*/, run_result& result) override {
    result.measures["market_messages"] = static_cast<double>(sent_);
    result.measures["market_offers"] = static_cast<double>(offers_);
    result.measures["market_unsold"] = static_cast<double>(unsold_);
    result.measures["market_unresolved"] = static_cast<double>(unresolved_);
    blocks promised{};
    for (const blocks b : promised_) promised += b;
    result.measures["blocks_still_promised"] = static_cast<double>(promised.count());
    result.measures["most_transfers"] = static_cast<double>(most_transfers_);
    result.measures["refinements"] = static_cast<double>(refinements_);
    double sum = 0;
    std::size_t stages = 0;
    for (std::size_t s = 0; s != front_->stages(); ++s) {
      const stage_map::group g = front_->stage(s);
      if (g.size() < 2) continue;
      sum += output_variation(std::span{result.instances}.subspan(g.first, g.size()));
      ++stages;
    }
    result.measures["stage_load_cv"] = load_cvs_ == 0 ? 0.0 : load_cv_ / static_cast<double>(load_cvs_);
    result.measures["stage_output_cv"] = stages == 0 ? 0.0 : sum / static_cast<double>(stages);
    result.curves = std::move(curves_);
  }

  /// Coefficient of variation of the output tokens; 0 if there are none.
  [[nodiscard]] static double output_variation(std::span<const instance_facts> instances) noexcept {
    double mean = 0;
    for (const instance_facts& f : instances) mean += static_cast<double>(f.output_tokens);
    mean /= static_cast<double>(instances.size());
    double squares = 0;
    for (const instance_facts& f : instances) {
      squares += (static_cast<double>(f.output_tokens) - mean) * (static_cast<double>(f.output_tokens) - mean);
    }
    return mean > 0 ? std::sqrt(squares / static_cast<double>(instances.size())) / mean : 0;
  }

 private:
  using member = cascade_instance<refinement_rule>;

  static constexpr double tick_s = 0.005;
  static constexpr std::uint64_t tick = 0;
  static constexpr std::uint64_t rebalance = 1;
  static constexpr std::uint64_t refine = 2;
  static constexpr std::uint64_t report = 3;
  static constexpr std::uint64_t first_report = 4;     // one for each instance, then the messages
  static constexpr std::uint64_t message_stream = 11;  // of the run's seed

  /// What the market knows of a request.
  struct trade {
    bool on_offer = false;
    std::size_t seller = 0;
    std::uint32_t epoch = 0;
    double rests_until_s = 0;
  };

  /// An instance's engine as its trader uses it.
  struct engine {
    cascade& all;
    cluster& c;
    std::size_t me;

    void send(const market::message& m) noexcept { all.post(c, m); }
    void copy(const market::transfer& t) noexcept {
      request& r = c.requests()[t.request];
      all.settle(t.other.id, t.ticket);
      if (c.asks(r)) c.because("that has bought it");
      if (r.where != me || !c.migrate(r, t.other.id)) all.failed_.push_back(&r);
      for (const auto& m : all.members_) all.most_transfers_ = std::max(all.most_transfers_, m->trader().transfers());
    }
    void kept(market::request_id id) noexcept {
      request& r = c.requests()[id];
      if (r.migration.stage != migration_stage::none && r.where == me) c.cut_migration(r);
    }
    void released(market::request_id) noexcept {}
    void unresolved(market::request_id id, market::peer target) noexcept {
      request& r = c.requests()[id];
      // If the target has not got the grant, no instance owns the request.
      const bool waits = r.migration.stage == migration_stage::arrived && r.where == me && r.migration.to == target.id;
      if (!waits) return;
      ++all.unresolved_;
      c.recover(r);
    }
    void unsold(market::request_id id) noexcept {
      ++all.unsold_;
      all.rest(c.requests()[id], c.now_s());
    }
    tokens load() noexcept { return all.load_of(c, me); }
    blocks idle_blocks() noexcept { return max(c.views()[me].free_blocks - all.promised_[me], blocks{}); }
    bool reserve(const market::transfer& t) noexcept {
      if (idle_blocks() < t.room) return false;
      all.reserved_[{me, t.ticket}] = t.room;
      all.promised_[me] += t.room;
      return true;
    }
    void discard(const market::transfer& t) noexcept { all.settle(me, t.ticket); }
    void activate(const market::transfer& t) noexcept {
      request& r = c.requests()[t.request];
      // Its seller has died with it since it was granted, as the target is to learn.
      if (r.migration.stage != migration_stage::arrived || r.migration.to != me) return;
      trade& of = all.trades_[t.request];
      of.on_offer = false;
      of.epoch = t.epoch;
      c.admit(r);
    }
  };

  [[nodiscard]] static time_point now(const cluster& c) { return time_point::at_seconds(c.now_s()); }

  /// An instance of stage `s` that takes `r`; `placement::nowhere` if there is none.
  [[nodiscard]] std::size_t round_robin(std::size_t s, const cluster& c, const request& r) {
    const stage_map::group g = front_->stage(s);
    for (std::size_t k = 0; k != g.size(); ++k) {
      const std::size_t i = g.first + turn_[s]++ % g.size();
      if (c.takes(i, r)) return i;
    }
    return placement::nowhere;
  }
  /// A new incarnation of instance `i`.
  void begin_life(std::size_t i, const member::config& m) {
    members_[i] = std::make_unique<member>(memory_[i], config_.stages,
                                           market::peer{static_cast<market::instance_id>(i), ++lives_[i]}, m);
  }

  /// Keeps all instances from sending anything to instance `i`.
  void leave_out(std::size_t i) noexcept {
    front_->available(i, false);
    for (std::size_t k = 0; k != members_.size(); ++k) {
      if (k != i) members_[k]->available(i, false);
    }
  }

  /// The tokens of all requests of instance `i`, those that wait included.
  [[nodiscard]] static tokens load_of(const cluster& c, std::size_t i) {
    tokens load{};
    for (const request* r : c.at(i).requests()) load += r->state().length;
    return load;
  }

  /// The extra weight of prompt tokens that are not computed yet, in tokens.
  [[nodiscard]] tokens extra_backlog(const cluster& c, std::size_t i) const {
    tokens waits{};
    for (const request* r : c.at(i).requests()) waits += max(r->prompt - r->state().computed, tokens{});
    return tokens{static_cast<std::int64_t>((config_.backlog_weight - 1) * static_cast<double>(waits.count()))};
  }

  [[nodiscard]] bool may_move(const request& r, double now_s) const {
    const trade& t = trades_[r.index];
    return !t.on_offer && t.rests_until_s <= now_s && may_migrate(r);
  }
  void add_movable(const cluster& c, const request& r) {
    const tokens length = r.state().length;
    movable_.push_back(
        {r.index, trades_[r.index].epoch, length, blocks_for(length, c.options().instance.limits.block_size)});
  }
  [[nodiscard]] std::string outgrown_words(std::size_t i, const member::candidate& r) const {
    return fmt::format("its {} tokens have outgrown stage {}, which ends at {}", r.length.count(), members_[i]->stage(),
                       members_[i]->range_end().count());
  }
  template <class Why>
  void offered(cluster& c, std::size_t seller, market::request_id id, Why why) {
    const request& r = c.requests()[id];
    if (c.asks(r)) c.notify(r, event_kind::offered, seller, why());
    trades_[id].on_offer = true;
    trades_[id].seller = seller;
    ++offers_;
  }

  void sell_excess(cluster& c, std::size_t i) {
    static_cast<void>(members_[i]->report(load_of(c, i)));  // its own load as it is now, not as last sent
    movable_.clear();
    for (const request* r : c.at(i).requests()) {
      if (may_move(*r, c.now_s())) add_movable(c, *r);
    }
    engine e{*this, c, i};
    members_[i]->rebalance(movable_, now(c), e, [&](const member::candidate& r) {
      offered(c, i, r.request, [&] {
        return fmt::format("instance {} has more than {:g} times the mean load of its stage", i,
                           config_.trigger.threshold);
      });
    });
    withdraw_the_failed(c);
  }

  static void add_lengths(const cluster& c, std::size_t i, std::vector<cost::request_lengths>& to) {
    for (const request* r : c.at(i).requests()) to.push_back({r->prompt, r->state().length});
  }
  void refine_range(const cluster& c, std::size_t i) {
    member& m = *members_[i];
    if (m.in_last_stage()) return;
    own_.clear();
    theirs_.clear();
    add_lengths(c, i, own_);
    const stage_map::group next = m.map().stage(m.stage() + 1);
    for (std::size_t k = next.first; k != next.last; ++k) add_lengths(c, k, theirs_);
    scratch_.resize(own_.size() + theirs_.size());
    if (m.refine(own_, theirs_, scratch_)) ++refinements_;
  }
  /// How uneven the loads within the stages are at this moment.
  void note_loads() {
    for (std::size_t s = 0; s != front_->stages(); ++s) {
      const stage_map::group g = front_->stage(s);
      double sum = 0;
      double squares = 0;
      for (std::size_t i = g.first; i != g.last; ++i) {
        const auto load = static_cast<double>(reports_[i].load.count());
        sum += load;
        squares += load * load;
      }
      if (g.size() < 2 || sum == 0) continue;
      const auto n = static_cast<double>(g.size());
      load_cv_ += std::sqrt(std::max(squares / n - sum / n * (sum / n), 0.0)) / (sum / n);
      ++load_cvs_;
    }
  }
  void note_boundaries(double now_s) {
    for (std::size_t s = 0; s + 1 < front_->stages(); ++s) {
      const stage_map::group g = front_->stage(s);
      double sum = 0;
      for (std::size_t i = g.first; i != g.last; ++i) sum += static_cast<double>(members_[i]->range_end().count());
      curves_["boundary " + std::to_string(s)].emplace_back(now_s, sum / static_cast<double>(g.size()));
    }
  }

  void post(cluster& c, const market::message& m) {
    std::size_t slot = messages_.size();
    if (free_slots_.empty()) {
      messages_.push_back(m);
    } else {
      slot = free_slots_.back();
      free_slots_.pop_back();
      messages_[slot] = m;
    }
    ++sent_;
    if (m.kind != market::message_kind::restarted && c.asks(c.requests()[m.request])) tell_of_message(c, m);
    c.call_after(message_time(), first_report + members_.size() + slot);
  }
  /// Tells the log what happens to a request on the market, as far as it decides something.
  static void tell_of_message(cluster& c, const market::message& m) {
    const request& r = c.requests()[m.request];
    switch (m.kind) {
      case market::message_kind::ask: return c.notify(r, event_kind::asked, m.to.id, "whether it takes it");
      case market::message_kind::bid:
        return c.notify(r, event_kind::bid, m.from.id,
                        fmt::format("it has {} tokens, and could begin to pull in {:.4g} s", m.load.count(), m.start));
      case market::message_kind::decline: return c.notify(r, event_kind::declined, m.from.id, "it does not take it");
      case market::message_kind::confirm:
        return c.notify(r, event_kind::confirmed, m.to.id, "of the less loaded half of the bids the earliest start");
      case market::message_kind::pull:
        return c.notify(r, event_kind::reserved, m.from.id, fmt::format("{} blocks, and pulls it", m.size.count()));
      default: return;
    }
  }
  /// Seconds that the next message takes.
  [[nodiscard]] double message_time() noexcept {
    return std::fma(config_.message_s * config_.message_spread, 2 * uniform(draws_) - 1, config_.message_s);
  }
  /// A report has arrived, at the front end and at all others.
  void reported(const load_report& r) noexcept {
    front_->update({r.from, r.load + backlogs_[r.from], r.range_end});
    for (std::size_t i = 0; i != members_.size(); ++i) {
      if (i != r.from) members_[i]->update(r);  // a dead one is made anew when it is back
    }
  }

  /// The blocks that an instance set apart under a ticket are announced to the cluster, or not needed any more. They
  /// are not kept by request: a request that is bought again elsewhere may still be called off here.
  void settle(std::size_t on, std::uint64_t ticket) {
    const auto found = reserved_.find({on, ticket});
    if (found == reserved_.end()) return;
    promised_[on] -= found->second;
    reserved_.erase(found);
  }
  void rest(const request& r, double now_s) {
    trades_[r.index].on_offer = false;
    trades_[r.index].rests_until_s = now_s + config_.retry_s;
  }
  void take_off(cluster& c, request& r) {
    const trade t = trades_[r.index];
    if (!t.on_offer) return;
    engine e{*this, c, t.seller};
    rest(r, c.now_s());
    members_[t.seller]->trader().withdraw(r.index, now(c), e);
    withdraw_the_failed(c);
  }
  /// Copies that could not begin: the request had ended, or lost its blocks.
  void withdraw_the_failed(cluster& c) {
    while (!failed_.empty()) {
      request* const r = failed_.back();
      failed_.pop_back();
      take_off(c, *r);
    }
  }

  config config_;
  random_engine draws_{};
  std::unique_ptr<owned_storage<stage_map::limits>> front_memory_;
  std::unique_ptr<stage_map> front_;  ///< What the front end knows.
  std::vector<owned_storage<member::limits>> memory_;
  std::vector<std::unique_ptr<member>> members_;
  std::vector<std::uint32_t> lives_;                                  ///< By instance: its incarnation.
  member::config member_{};                                           ///< As which each life begins.
  placement::turn others_{};                                          ///< Where no stage has an instance for a request.
  std::vector<std::size_t> turn_;                                     ///< By stage.
  std::vector<blocks> promised_;                                      ///< By instance: the sum of `reserved_`.
  std::map<std::pair<std::size_t, std::uint64_t>, blocks> reserved_;  ///< By instance and ticket: not announced yet.
  std::vector<trade> trades_;                                         ///< By request.
  std::vector<load_report> reports_;
  std::vector<tokens> backlogs_;
  std::vector<market::message> messages_;
  std::vector<std::size_t> free_slots_;
  std::vector<member::candidate> movable_;
  std::vector<cost::request_lengths> own_;
  std::vector<cost::request_lengths> theirs_;
  std::vector<cost::request_lengths> scratch_;
  std::vector<request*> failed_;
  std::map<std::string, std::vector<std::pair<double, double>>> curves_;
  std::uint64_t sent_ = 0;
  std::uint64_t offers_ = 0;
  std::uint64_t unsold_ = 0;
  std::uint64_t unresolved_ = 0;
  std::uint64_t refinements_ = 0;
  double load_cv_ = 0;
  std::uint64_t load_cvs_ = 0;
  std::size_t most_transfers_ = 0;
};

}  // namespace sim
TESSERA_NAMESPACE_END
