// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/core/status.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/fleet/controller.hpp>
#include <tessera/fleet/headroom_book.hpp>
#include <tessera/fleet/learned_lengths.hpp>
#include <tessera/fleet/traffic_memory.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/placement/phi.hpp>
#include <tessera/placement/stay_in_range.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

/// @file
/// The controller of `due-first`: learned lengths, placement in a layout, and a planner beside the service.

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// What there must be room for in a `layout_controller`; fixed at construction.
struct layout_controller_limits {
  std::size_t replicas = 64;    ///< Numbers are below this.
  std::size_t requests = 2048;  ///< Requests at a time. Those beyond are placed, and nothing is learned of them.
  std::size_t window = 4096;    ///< Requests that are remembered. At least 4.
};

/// How a `layout_controller` decides.
struct layout_controller_settings {
  headroom_book_settings placing{};  ///< What prompts cost, and the time to first token that is aimed at.
  bool predicts = true;           ///< What a request is expected to generate (`request_view::expected`) is looked at.
  bool reads_prefixes = false;    ///< Requests share prefixes, and go where these are cached.
  blocks tight{32};               ///< Fewer free blocks make a request go on elsewhere: a quantum of an answer.
  std::size_t first_plan = 4;     ///< A plan needs as many requests that have ended,
  std::size_t first_window = 64;  ///< and as many that have arrived, or `window` if that is less.
  double look_s = 1;              ///< Between two looks at the traffic, in seconds. Above 0.
  std::size_t patience = 16;  ///< Looks that a queue grows before it is acted upon. 2 to `traffic_memory::most_looks`.
  double rate_changes = 4.0 / 3;  ///< By this factor, up or down, the rate differs from that of the last plan.
  double longest_plan_s = 600;    ///< A plan that has not come by then is asked for again.
};

/// A controller that learns what to expect of the traffic, places requests by that, and gives the replicas the layout
/// that a planner finds. It has three parts.
///
/// **Learned lengths** (`learned_lengths`). Requests that have ended, and those that run, say what another one is
/// expected to generate, and how far off that may be. It knows what a router knows: prompts, what a
/// predictor or the user says (`request_view::expected`), and tokens that were heard of.
///
/// **Placement** in the layout that the views show:
/// - where all replicas do everything, by headroom (`headroom_book`). A request that runs goes on elsewhere where
///   memory is tight (`placement::migrate_when_tight`);
/// - where replicas serve ranges of lengths, to the least load among those with its length in their range. A request
///   that outgrows its range goes on in the next (`placement::stay_in_range`);
/// - where prefill and decode are apart, a prompt goes to the prefill replica with the most time (Phi_T). With its
///   first token the request goes on at the decode replica with the most memory (Phi_S). If no move is possible then,
///   that is tried again with each block that it grows.
///
/// **Planner.** The traffic that it has seen is a sample (`sample`). When a plan is due it asks for one by
/// `port::plan_async`. A planner reads the sample. It says what each replica is to do (`planned`): its role, its range
/// of lengths, its bound on prompts in a step. At most half of the replicas change their roles in a look, so that the
/// others take requests meanwhile. A plan is due:
/// - when enough is known (`first_plan`, `first_window`), and again whenever twice as many requests have arrived;
/// - when lengths have drifted from what was learned (`learned_lengths::drift`). Then the older half is forgotten;
/// - when the rate differs by a third from the rate that was planned for;
/// - when the queue has grown for `patience` looks, and one in twenty that arrived meanwhile waits.
///
/// A replica that comes when another has died has the part of that one.
///
/// While a plan is made, the service goes on, and no other plan is asked for. Without a planner it keeps the layout
/// that there is, and still learns.
///
/// Complexity: O(replicas) for a placement, O(replicas + `patience`) for a look, O(1) for most other events. Where a
/// plan is asked for, O(n log n) of the window. Allocates nothing after construction. When to use: mixed traffic of
/// lengths that are learned. Source: ours; the parts name theirs.
/// @tparam Speed how fast replicas decode, for `headroom_book`.
template <decode_speed Speed = linear_speed>
class layout_controller final : public controller {
 public:
  using limits = layout_controller_limits;      ///< What there must be room for; fixed at construction.
  using settings = layout_controller_settings;  ///< Its parameters.

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add_bytes(learned_lengths::required_bytes({l.window}))
        .add_bytes(headroom_book<Speed>::required_bytes({l.replicas, l.requests}))
        .add_bytes(traffic_memory::required_bytes({.requests = l.requests, .window = l.window}))
        .template add<seen_output>(l.window)
        .template add<view>(l.replicas)
        .template add<at_replica>(l.replicas)
        .bytes_unaligned();
  }
  /// Over the caller's memory, at least `required_bytes(l)` (checked in every build), which must outlive it.
  layout_controller(std::span<std::byte> memory, const limits& l, const settings& s, const Speed& speed = {}) noexcept
      : layout_controller{arena{memory}, l, s, speed} {}
  /// Over storage from `storage_for`.
  layout_controller(owned_storage<limits>& storage, const settings& s, const Speed& speed = {}) noexcept
      : layout_controller{storage.memory(), storage.limits(), s, speed} {}
  layout_controller(const layout_controller&) = delete;
  layout_controller& operator=(const layout_controller&) = delete;

  /// What a plan is made from: the traffic as it was when the last plan was asked for. Valid until the next one is.
  [[nodiscard]] const traffic_sample& sample() const noexcept { return sample_; }
  /// A request with what is expected of it now, and how far off that may be. What was not learned stays as it is.
  /// O(log n).
  [[nodiscard]] request_view expecting(const request_view& r) const noexcept {
    request_view v = r;
    const float expected = lengths_.expected_of(score_of(r), r.prompt);
    if (!(expected > 0)) return v;
    v.expected = tokens{static_cast<std::int64_t>(expected)};
    v.spread = lengths_.spread_of(expected);
    return v;
  }
  /// What it has learned.
  [[nodiscard]] const learned_lengths& lengths() const noexcept { return lengths_; }
  /// Plans that were asked for.
  [[nodiscard]] std::uint64_t plans() const noexcept { return plans_; }

  [[nodiscard]] reading reads() const noexcept override {
    return {.phases = false, .prefixes = settings_.reads_prefixes};
  }

  void started(port& p) noexcept override { look_later(p); }
  void joined(replica_id id, const replica& what, port& p) noexcept override {
    if (id >= replicas_) return p.note(no_request, id, "no room for another replica in the layout");
    at_replica& a = at_[id];
    a.is_there = true;
    a.role = what.role;
    a.from = blocks{};
    a.to = endless;
    a.prefill_budget = unknown;
    a.keeps_role = a.changes = false;
    carry_out(p);
  }
  void failed(replica_id id, port& /*p*/) noexcept override {
    if (id < replicas_) at_[id].is_there = false;
  }

  void arrived(const request_view& r, port& p) noexcept override {
    memory_.arrived(r, score_of(r), p.now_s());
    const candidates<> all = p.replicas(r);
    const request_view v = expecting(r);
    const std::size_t k = choose(all, v);
    if (k >= shown_.size()) return p.note(r.id, no_replica, "no replica takes it");
    const auto to = static_cast<replica_id>(shown_[k].id);
    const tokens cached = settings_.reads_prefixes ? shown_[k].cached_tokens : tokens{};
    if (!ok(p.place_or_note(r.id, to))) return;
    book_.take(r.id, to, r.prompt, v.expected, cached);
  }
  void first_token(const request_view& r, port& p) noexcept override {
    book_.has_token(r.id);
    memory_.progressed(r);
    hand_over(r, p);
  }
  void progressed(const request_view& r, port& p) noexcept override {
    memory_.progressed(r);
    hand_over(r, p);
  }
  void reasoning_ended(const request_view& r, port& /*p*/) noexcept override {
    book_.has_token(r.id);
    memory_.answers(r);
  }
  void may_move(const request_view& r, move_reason why, port& p) noexcept override {
    if (prefills_only(r.where)) return hand_over(r, p);
    const destinations d = p.where_to(r);
    if (d.replicas.size() == 0) return;
    std::size_t k = d.here;
    if (d.replicas[d.here].to != endless) {
      k = next_stage_(d.replicas, d.here, d.grows, d.moves);
    } else if (why != move_reason::outgrown) {
      k = when_tight_(d.replicas, d.here, d.grows, d.moves);
    }
    if (k >= d.replicas.size() || k == d.here || d.replicas[k].id >= replicas_) return;
    p.move_or_note(r.id, static_cast<replica_id>(d.replicas[k].id));
  }
  void arrived_with_kv(const request_view& r, port& /*p*/) noexcept override { book_.moved(r.id, r.where); }
  void lost(const request_view& r, port& /*p*/) noexcept override { book_.leave(r.id); }
  void ended(const request_view& r, port& /*p*/) noexcept override {
    book_.leave(r.id);
    if (memory_.ended(r)) lengths_.ended(score_of(r), r.prompt, r.generated);
  }

  void woke(std::uint64_t alarm, port& p) noexcept override {
    if (alarm != look_alarm) return;
    look_later(p);
    carry_out(p);
    look(p);
  }
  /// A plan that is not the last that was asked for comes too late, and is not carried out.
  void planned(std::uint64_t plan, std::span<const assignment> layout, port& p) noexcept override {
    if (plan != plans_ || !is_planning_) return p.note(no_request, no_replica, "a plan comes too late");
    is_planning_ = false;
    for (const assignment& a : layout) {
      if (a.replica >= replicas_ || !(blocks{} <= a.from && a.from < a.to) || a.prefill_budget < tokens{}) {
        p.note(no_request, a.replica, "a plan for no such replica or range");
        continue;
      }
      at_[a.replica].has_plan = true;
      at_[a.replica].plan = a;
    }
    carry_out(p);
  }

 private:
  static constexpr std::uint64_t look_alarm = 1;
  static constexpr std::size_t lately = 256;  // Requests that must have come before the rate counts.
  static constexpr tokens unknown{-1};
  static constexpr double many = 0.05;  // Part of what arrived while the queue grew.

  /// A replica as this has told it to be.
  struct at_replica {
    bool is_there = false;
    bool has_plan = false;
    bool keeps_role = false;  // It cannot change it.
    bool changes = false;     // It was told a role, and has not been shown since.
    control::role role = control::role::mixed;
    blocks from{};
    blocks to = endless;
    tokens prefill_budget = unknown;  // The engine's own, until it is told.
    assignment plan{};
  };

  layout_controller(arena memory, const limits& l, const settings& s, const Speed& speed) noexcept
      : settings_{s},
        lengths_{part(memory, learned_lengths::required_bytes({l.window})), {l.window}},
        book_{part(memory, headroom_book<Speed>::required_bytes({l.replicas, l.requests})),
              {l.replicas, l.requests},
              s.placing,
              speed},
        memory_{part(memory, traffic_memory::required_bytes({.requests = l.requests, .window = l.window})),
                {.requests = l.requests, .window = l.window}},
        outputs_{memory, l.window},
        shown_{memory, l.replicas},
        at_{memory.take<at_replica>(l.replicas)},
        replicas_{l.replicas},
        window_{l.window},
        when_tight_{.headroom = s.tight} {
    TESSERA_ASSERT(l.window >= 4, "a window has two halves");
    TESSERA_ASSERT(s.look_s > 0, "time passes between two looks");
    TESSERA_ASSERT(s.patience >= 2 && s.patience <= traffic_memory::most_looks, "2 to 64 looks");
  }
  [[nodiscard]] static std::span<std::byte> part(arena& memory, std::size_t n) noexcept {
    return {reinterpret_cast<std::byte*>(memory.take_uninitialised<unsigned char>(n)), n};
  }

  /// What a predictor says of it. Only the order counts.
  [[nodiscard]] static float score_of(const request_view& r) noexcept {
    return r.expected > tokens{} ? static_cast<float>(r.expected.count()) : std::numeric_limits<float>::quiet_NaN();
  }
  [[nodiscard]] bool prefills_only(replica_id id) const noexcept {
    return id < replicas_ && at_[id].role == control::role::prefill;
  }

  // Placement.

  /// Fills in the views of those for which `may(view)` is true; false if there is none.
  template <class Views, class May>
  bool show(const Views& all, May may) noexcept {
    shown_.clear();
    for (std::size_t i = 0; i != all.size(); ++i) {
      const view& v = all[i];
      if (v.id < replicas_ && may(v)) shown_.push_back(v);
    }
    return !shown_.empty();
  }
  /// The index in `shown_`; `placement::nowhere` if there is none.
  [[nodiscard]] std::size_t choose(const candidates<>& all, const request_view& r) noexcept {
    bool apart = false, staged = false;
    for (std::size_t i = 0; i != all.size(); ++i) {
      apart = apart || all[i].role == control::role::prefill;
      staged = staged || all[i].from > blocks{} || all[i].to != endless;
    }
    if (apart) {
      static_cast<void>(show(all, [](const view& v) noexcept { return v.role == control::role::prefill; }));
      for (view& v : shown_) {
        v.phi = book_.time_phi(v);
        v.requests = book_.in_line(static_cast<replica_id>(v.id));
      }
      return most_time_(shown_);
    }
    const blocks size = blocks_for(r.length(), settings_.placing.block_size);
    if (staged && show(all, [&](const view& v) noexcept { return v.from <= size && size < v.to; })) {
      return least_load_(shown_);
    }
    // A pool that has lost its prefill replicas: those that do both are better than those that decode.
    if (!show(all, [](const view& v) noexcept { return v.role == control::role::mixed; })) show(all, everyone{});
    return shown_.empty() ? placement::nowhere : book_.choose(shown_, r.prompt, r.expected, settings_.reads_prefixes);
  }
  /// A request with a token on a prefill replica goes on at a decode replica.
  void hand_over(const request_view& r, port& p) noexcept {
    if (!prefills_only(r.where) || r.moves_to != no_replica) return;
    const destinations d = p.where_to(r);
    const auto decodes = [&](const view& v) noexcept { return v.id != r.where && v.role != control::role::prefill; };
    if (!show(d.replicas, decodes)) return;
    p.move_or_note(r.id, static_cast<replica_id>(shown_[most_space_(shown_)].id));
  }

  // Planning.

  void look_later(port& p) noexcept {
    if (ok(p.wake_after(settings_.look_s, look_alarm))) return;
    p.note(no_request, no_replica, "no room for an alarm: no plans");
  }
  void look(port& p) noexcept {
    std::size_t waiting = 0;
    for (std::size_t i = 0; i != replicas_; ++i) waiting += book_.in_line(static_cast<replica_id>(i));
    memory_.look(waiting, settings_.patience);
    if (is_planning_) {
      if (p.now_s() >= asked_s_ + settings_.longest_plan_s) plan(p, "a plan: the last one has not come");
      return;
    }
    if (memory_.ended() < settings_.first_plan || memory_.size() < std::min(settings_.first_window, window_)) return;
    if (std::abs(lengths_.drift()) > rank::length_distribution::drifts_at &&
        memory_.newer_ended() >= settings_.first_plan) {
      memory_.forget_half();
      return plan(p, "a plan: lengths have changed");
    }
    if (memory_.arrivals() >= 2 * planned_at_) return plan(p, "a plan: more is known");
    const double rate = memory_.rate();
    const double far = settings_.rate_changes;
    if (memory_.arrivals() >= planned_at_ + lately && rate > 0 && planned_rate_ > 0 &&
        (rate > planned_rate_ * far || rate * far < planned_rate_)) {
      return plan(p, "a plan: the rate has changed");
    }
    if (memory_.queue_grows(settings_.patience, many)) {
      plan(p, "a plan: it falls behind", true);
      memory_.forget_looks();
    }
  }
  void plan(port& p, const char* why, bool behind = false) noexcept {
    const double rate = memory_.rate();
    sample_ = {.requests = memory_.sample(),
               .rate = rate,
               .lately = memory_.rate_lately(settings_.look_s),
               .here = memory_.here(),
               .held = memory_.held(settings_.patience),
               .behind = behind};
    outputs_.clear();
    for (const seen_request& r : sample_.requests) {
      if (!r.refused) outputs_.push_back({r.score, r.generated, r.ended, r.prompt});
    }
    lengths_.learn({outputs_.data(), outputs_.size()}, settings_.predicts);
    is_planning_ = ok(p.plan_async(plans_ + 1));
    if (!is_planning_) return;  // asked for again at the next look
    p.note(no_request, no_replica, why);
    planned_at_ = memory_.arrivals();
    planned_rate_ = rate;
    ++plans_;
    asked_s_ = p.now_s();
  }

  /// What a dead replica was to do, a replica that has come since does. In front of engines a replica that is started
  /// again is another one, with another number. O(replicas).
  void take_over() noexcept {
    std::size_t dead = 0;
    for (std::size_t i = 0; i != replicas_; ++i) {
      if (!at_[i].is_there || at_[i].has_plan) continue;
      while (dead != replicas_ && (at_[dead].is_there || !at_[dead].has_plan)) ++dead;
      if (dead == replicas_) return;
      at_[i].plan = at_[dead].plan;
      at_[i].has_plan = true;
      at_[dead].has_plan = false;
    }
  }
  /// Tells the replicas what the plan has for them, and what they are not yet. At most half of them get another role:
  /// they take nothing new until they have it. O(replicas).
  void carry_out(port& p) noexcept {
    take_over();
    const auto all = static_cast<std::size_t>(
        std::count_if(at_, at_ + replicas_, [](const at_replica& a) noexcept { return a.is_there; }));
    const candidates<> shown = p.replicas({});
    for (std::size_t i = 0; i != shown.size(); ++i) {
      if (shown[i].id < replicas_) at_[shown[i].id].changes = false;
    }
    const auto changing = static_cast<std::size_t>(
        std::count_if(at_, at_ + replicas_, [](const at_replica& a) noexcept { return a.is_there && a.changes; }));
    std::size_t left = std::max<std::size_t>(1, all / 2);
    left -= std::min(left, changing);
    for (std::size_t i = 0; i != replicas_; ++i) {
      at_replica& a = at_[i];
      const auto id = static_cast<replica_id>(i);
      const assignment& to = a.plan;
      if (!a.is_there || !a.has_plan) continue;
      // Placement goes by a range even where the engine cannot be told.
      if ((a.from != to.from || a.to != to.to) && is_told(p.set_length_range(id, to.from, to.to), id, p)) {
        a.from = to.from;
        a.to = to.to;
      }
      if (a.prefill_budget != to.prefill_budget && is_told(p.set_prefill_budget(id, to.prefill_budget), id, p)) {
        a.prefill_budget = to.prefill_budget;
      }
      if (a.role == to.role || a.keeps_role || a.changes || left == 0) continue;
      const status s = p.set_role(id, to.role);
      if (!is_told(s, id, p)) continue;
      a.keeps_role = !ok(s);
      if (!ok(s)) continue;
      a.role = to.role;
      a.changes = true;
      --left;
    }
  }
  /// Whether a replica need not be told again: it does so, or cannot.
  static bool is_told(status s, replica_id id, port& p) noexcept {
    if (!ok(s)) p.note(no_request, id, to_string(s));
    return ok(s) || s == status::refused;
  }

  settings settings_;
  learned_lengths lengths_;
  headroom_book<Speed> book_;
  traffic_memory memory_;
  fixed_vector<seen_output> outputs_;  // During `plan`.
  fixed_vector<view> shown_;           // Those that are chosen from.
  at_replica* at_;                     // By replica.
  std::size_t replicas_;
  std::size_t window_;
  placement::highest_phi most_time_{};
  placement::highest_phi most_space_{};
  placement::least_load least_load_{};
  placement::stay_in_range next_stage_{};
  placement::migrate_when_tight when_tight_;
  traffic_sample sample_{};
  std::uint64_t plans_ = 0;
  std::size_t planned_at_ = 0;  // Arrivals at the last plan.
  double planned_rate_ = 0;
  double asked_s_ = 0;
  bool is_planning_ = false;
};

}  // namespace fleet
TESSERA_NAMESPACE_END
