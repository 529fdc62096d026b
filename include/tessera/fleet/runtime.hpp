// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/clock.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/core/split_mix.hpp>
#include <tessera/core/status.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/fleet/controller.hpp>
#include <tessera/fleet/event.hpp>
#include <tessera/fleet/keyed_pool.hpp>
#include <tessera/fleet/ledger.hpp>
#include <tessera/fleet/router_share.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <tuple>

/// @file
/// A controller in front of engines: events in, actions out.

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// What there must be room for in a runtime; fixed at construction.
struct runtime_limits {
  ledger_limits book{};         ///< The limits of its ledger.
  std::size_t requests = 2048;  ///< Requests at a time.
  std::size_t actions = 64;     ///< Actions that follow from one event, notes included. At least 1.
  std::size_t alarms = 64;      ///< Alarms at a time.
};

/// How a runtime keeps its book, and which of several routers it is.
struct runtime_settings {
  ledger_settings<> book{};     ///< The settings of its ledger.
  router_share router{};        ///< Which router of how many; each has a runtime of its own.
  bool keeps_to_share = false;  ///< It chooses from its `router_share` while a replica there takes the request.
  double report_s = 1;          ///< Between two reports of a replica, for what other routers send meanwhile.
};

/// Runs a controller in front of engines, with its book and its alarms. The front end of a router calls `handle` with
/// each event, and carries out the actions that it returns, in their order. The outcome of an action is another event.
/// The same events give the same actions, so a log can be run again.
///
/// **Abilities.** An engine says at joining what it can do (`replica::can`). Any other action is refused to the
/// controller and not returned. A note says so once for each replica and ability.
///
/// **What a network may do** is as for `ledger`: reports and messages about requests may be late, doubled or lost. A
/// request without a message for a lease counts as ended. A request that `arrived` and was not placed must be `ended`.
/// The death of a replica cancels the moves to it. It also cancels the moves from it, unless all KV had come: then
/// `moved` says that the request goes on at the target.
///
/// **Time.** The moment of an event is the time, and alarms that are due by then come before it. Say `clock` at
/// `next_wake_s`, and several times a lease. One thread. Nothing allocates after construction. Complexity: as the
/// ledger's calls, the controller's own, and O(alarms due).
class runtime final : private port {
 public:
  using limits = runtime_limits;  ///< What there must be room for; fixed at construction.

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add_bytes(ledger<>::required_bytes(l.book))
        .add_bytes(detail::keyed_pool<known>::required_bytes(l.requests))
        .add<action>(l.actions)
        .add<alarm>(l.alarms)
        .add<orphan>(l.book.reservations)
        .add<assignment>(l.book.replicas)
        .add<at_replica>(l.book.replicas)
        .add<replica_id>(l.book.replicas)
        .bytes_unaligned();
  }
  /// Over the caller's memory, at least `required_bytes(l)` (checked in every build), which must outlive it, as must
  /// the controller. No replica is there.
  runtime(controller& by, std::span<std::byte> memory, const limits& l, const runtime_settings& s = {}) noexcept
      : runtime{by, arena{memory}, l, s} {}
  /// Over what `storage_for` made.
  runtime(controller& by, owned_storage<limits>& storage, const runtime_settings& s = {}) noexcept
      : runtime{by, storage.memory(), storage.limits(), s} {}
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;

  /// Something has happened. Returns what is to be done, valid until the next call.
  std::span<const action> handle(const event& e) noexcept {
    actions_.clear();
    if (!has_begun_) {
      has_begun_ = true;
      began_s_ = now_s_ = e.at_s;
      by_.started(*this);
    }
    if (e.at_s > now_s_) now_s_ = e.at_s;
    ring();
    happens(e);
    return {actions_.data(), actions_.size()};
  }

  /// Does an action of a log in the book, without asking the controller. Returns why not. Notes, plans and actions that
  /// concern only an engine change nothing. Requires a range that is not empty (asserted). Complexity: that of the
  /// port's call.
  status carry_out(const action& a) noexcept {
    actions_.clear();
    switch (a.what) {
      case action_kind::place: return place(a.request, a.replica);
      case action_kind::move: return move(a.request, a.replica, a.how);
      case action_kind::cancel_move: return cancel_move(a.request);
      case action_kind::set_role: return set_role(a.replica, a.role);
      default: return status::ok;
    }
  }

  /// When the next alarm is due, in seconds; infinity if none is set.
  [[nodiscard]] double next_wake_s() const noexcept {
    return alarms_.empty() ? std::numeric_limits<double>::infinity() : alarms_[0].at_s;
  }
  /// What the controller reads of views: without prefixes, `offers` of cached tokens change nothing but the book.
  [[nodiscard]] reading reads() const noexcept { return reads_; }
  /// The book.
  [[nodiscard]] const ledger<>& book() const noexcept { return book_; }
  /// Requests that have arrived and not ended.
  [[nodiscard]] std::size_t requests() const noexcept { return known_.size(); }
  /// A request as the controller sees it; null if it is not there.
  [[nodiscard]] const request_view* find(request_id request) const noexcept {
    const std::uint32_t i = known_.find(request);
    return i == no_index ? nullptr : &known_.data()[i].view;
  }
  /// Notes that were left out because one event had too many actions.
  [[nodiscard]] std::uint64_t dropped_notes() const noexcept { return dropped_; }

 private:
  struct known {
    using key = request_id;
    request_view view{};
    tokens before{};                       // What it had generated when it was placed.
    replica_id avoid = no_replica;         // Has refused it.
    replica_id was_going_to = no_replica;  // When its replica died.
    bool has_first = false;                // A token since it was placed.
    std::uint32_t next_free = no_index;

    [[nodiscard]] static constexpr known named(request_id id) noexcept {
      known k;
      k.view.id = id;
      return k;
    }
    [[nodiscard]] constexpr request_id name() const noexcept { return view.id; }
    [[nodiscard]] static constexpr std::uint64_t hash(request_id id) noexcept {
      return tessera::detail::split_mix(id + tessera::detail::split_mix_step);
    }
  };
  struct alarm {
    double at_s;
    std::uint64_t number;
    std::uint64_t what;
    /// For a heap with the first on top.
    friend constexpr bool operator<(const alarm& a, const alarm& b) noexcept {
      return std::tie(b.at_s, b.number) < std::tie(a.at_s, a.number);
    }
  };
  struct at_replica {
    abilities can{};
    abilities said = no_abilities;  // Those that a note has been about.
    tokens cached{};                // Cached tokens of the prompt of the request that arrives.
    bool excluded = false;          // From its choices.
    bool offered = false;           // One of these was said.
  };

  runtime(controller& by, arena memory, const limits& l, const runtime_settings& s) noexcept
      : by_{by},
        settings_{s},
        reads_{by.reads()},
        book_{{reinterpret_cast<std::byte*>(memory.take_uninitialised<unsigned char>(ledger<>::required_bytes(l.book))),
               ledger<>::required_bytes(l.book)},
              l.book,
              s.book},
        known_{memory, l.requests},
        actions_{memory, l.actions},
        alarms_{memory, l.alarms},
        gone_{memory, l.book.reservations},
        layout_{memory, l.book.replicas},
        at_{memory.take<at_replica>(l.book.replicas)},
        offered_{memory, l.book.replicas},
        replicas_{l.book.replicas} {
    TESSERA_ASSERT(l.actions >= 1, "an event may have an action");
    TESSERA_ASSERT(s.router.router < s.router.routers && s.report_s > 0, "it is one of the routers");
  }

  [[nodiscard]] time_point now() const noexcept { return time_point::at_seconds(now_s_); }

  // What happens.

  void happens(const event& e) noexcept {
    switch (e.what) {
      case event_kind::none: return;
      case event_kind::joined: return joins(e);
      case event_kind::drained:
        if (book_.drain(e.replica)) by_.left(e.replica, *this);
        return;
      case event_kind::unreachable: book_.lost(e.replica, e.number); return;
      case event_kind::failed: return fails(e);
      case event_kind::asks_report: return book_.asked(e.replica);
      case event_kind::reported:
        if (book_.receive(e.replica, e.said, now()) != reception::taken) return;
        by_.reported(book_.at(e.replica), *this);
        return ask_movers();
      case event_kind::role_changed: book_.changed_role(e.replica); return;
      case event_kind::serves:
        if (!book_.contains(e.replica) || e.low < blocks{} || e.low >= e.high) return;
        book_.set_range(e.replica, e.low, e.high);
        return ask_movers();
      case event_kind::offers: return offer(e);
      case event_kind::arrived: return arrives(e);
      case event_kind::planned: by_.planned(e.number, {layout_.data(), layout_.size()}, *this); return layout_.clear();
      case event_kind::lays_out:
        if (!layout_.full()) layout_.push_back({e.replica, e.role, e.low, e.high, e.count});
        return;
      case event_kind::clock: return passes();
      default: break;
    }
    const std::uint32_t i = known_.find(e.request);
    if (i != no_index) happens(e, known_[i]);
    if (e.what == event_kind::refused) forget_offers();  // also if it was on that replica no more
  }
  /// Something happens to a request that is known.
  void happens(const event& e, known& r) noexcept {
    switch (e.what) {
      case event_kind::refused:
      case event_kind::lost:
        if (r.view.where != e.replica || !book_.release(e.request, e.replica)) return;
        r.view.where = r.view.moves_to = no_replica;
        by_.lost(r.view, *this);
        if (e.what == event_kind::lost) return;
        r.avoid = e.replica;
        return place_anew(r);
      case event_kind::cache_hit:
        if (e.count >= tokens{}) book_.cache_hit(e.request, e.replica, e.count, now());
        return;
      case event_kind::first_token: return progresses(e, r, r.before + tokens{1});
      case event_kind::progressed: return progresses(e, r, e.count);
      case event_kind::reasoning_ended:
        if (!book_.answers(e.request, e.replica, now())) return;
        if (r.view.is == phase::reasoning) {
          r.view.is = phase::answering;
          by_.reasoning_ended(r.view, *this);
        }
        return ask_movers();
      case event_kind::moved:
        if (book_.moved(e.request, e.replica, now())) {
          arrives_with_kv(r);
        } else if (!goes_on(e, r)) {
          return;
        }
        return ask_movers();
      case event_kind::move_failed:
        if (r.view.moves_to == e.replica && book_.release(e.request, e.replica)) stays(r);
        return;
      case event_kind::ended: return ends(r);
      default: return;
    }
  }

  void joins(const event& e) noexcept {
    if (const status s = book_.join(e.replica, e.number, e.joins, now()); !ok(s)) {
      return note(no_request, e.replica, to_string(s));
    }
    at_[e.replica].can = e.joins.can;
    at_[e.replica].said = no_abilities;
    by_.joined(e.replica, e.joins, *this);
  }
  void fails(const event& e) noexcept {
    gone_.clear();
    if (!book_.fence(e.replica, e.number, [&](const orphan& o) noexcept { gone_.push_back(o); })) return;
    by_.failed(e.replica, *this);
    // Requests that were on their way there stay where they are.
    known_.each([&](known& r) noexcept {
      if (r.view.moves_to == e.replica) stays(r);
    });
    for (const orphan& o : gone_) {
      if (o.elsewhere != no_replica) book_.release(o.request, o.elsewhere);
      known& r = known_[known_.find(o.request)];
      r.view.where = r.view.moves_to = no_replica;
      r.was_going_to = o.elsewhere;
      by_.lost(r.view, *this);
    }
  }
  void offer(const event& e) noexcept {
    if (e.replica >= replicas_) return;
    at_replica& a = at_[e.replica];
    if (!a.offered) offered_.push_back(e.replica);
    a.offered = true;
    a.cached = e.count;
    a.excluded = e.excluded;
  }
  void arrives(const event& e) noexcept {
    const request_view& asks = e.asks;
    const bool makes_sense = e.request != no_request && tokens{} <= asks.prompt && tokens{} <= asks.generated &&
                             asks.prompt <= headroom::longest_prompt && asks.generated <= headroom::longest_prompt &&
                             asks.length() <= headroom::longest_prompt;
    std::uint32_t i = known_.find(e.request);
    if (!makes_sense) {
      note(e.request, no_replica, to_string(status::invalid));
    } else if (i == no_index && known_.full()) {
      note(e.request, no_replica, to_string(status::exhausted));
    } else if (i == no_index || known_[i].view.where == no_replica) {
      if (i == no_index) i = known_.insert(e.request);
      known& r = known_[i];
      r.view = asks;
      r.view.id = e.request;
      r.view.where = r.view.moves_to = r.was_going_to = no_replica;
      place_anew(r);
      return;
    }
    forget_offers();
  }
  void place_anew(known& r) noexcept {
    if (reads_.prefixes) {
      const auto cached = [this](replica_id id) noexcept { return at_[id].cached; };
      book_.show_prefix(prefix<decltype(cached)>{r.view.prompt, r.view.prefix_key, cached});
    }
    by_.arrived(r.view, *this);
    forget_offers();
  }
  void forget_offers() noexcept {
    for (const replica_id id : offered_) {
      at_[id].cached = tokens{};
      at_[id].excluded = at_[id].offered = false;
    }
    offered_.clear();
  }
  void progresses(const event& e, known& r, tokens generated) noexcept {
    if (generated < r.before || !book_.progress(e.request, e.replica, generated - r.before, now())) return;
    if (generated <= r.view.generated && r.has_first) return;
    const blocks size = blocks_for(r.view.length(), settings_.book.block_size);
    r.view.generated = max(r.view.generated, generated);
    if (!r.has_first && generated > r.before) {
      r.has_first = true;
      by_.first_token(r.view, *this);
    }
    if (blocks_for(r.view.length(), settings_.book.block_size) == size) return;
    by_.progressed(r.view, *this);
    ask_movers();
  }
  void arrives_with_kv(known& r) noexcept {
    r.view.where = r.view.moves_to;
    r.view.moves_to = no_replica;
    by_.arrived_with_kv(r.view, *this);
  }
  /// Its source has died when its KV had left: it goes on where it was going to.
  bool goes_on(const event& e, known& r) noexcept {
    if (r.view.where != no_replica || e.replica != r.was_going_to || e.replica == no_replica) return false;
    const arrival a{.prompt = r.view.length(), .starts_in = r.view.is};
    if (!ok(book_.reserve(e.request, e.replica, a, now()))) return false;
    r.view.where = e.replica;
    r.was_going_to = no_replica;
    r.before = r.view.generated;
    r.has_first = false;
    by_.arrived_with_kv(r.view, *this);
    return true;
  }
  void stays(known& r) noexcept {
    r.view.moves_to = no_replica;
    by_.move_failed(r.view, *this);
  }
  void ends(known& r) noexcept {
    const request_view v = r.view;
    if (v.where != no_replica) book_.release(v.id, v.where);
    if (v.moves_to != no_replica) book_.release(v.id, v.moves_to);
    known_.erase(known_.find(v.id));
    by_.ended(v, *this);
  }
  void passes() noexcept {
    gone_.clear();
    book_.expire(now(), [&](request_id request, replica_id where) noexcept { gone_.push_back({request, where, {}}); });
    // The book is ahead of what is known here, and the controller may act between two of these.
    for (const orphan& o : gone_) {
      const std::uint32_t i = known_.find(o.request);
      if (i == no_index) continue;
      known& r = known_[i];
      if (r.view.moves_to == o.on) {
        stays(r);
      } else if (r.view.where == o.on && r.view.moves_to != no_replica) {
        arrives_with_kv(r);
      } else if (!book_.reserved(o.request, r.view.where)) {
        note(o.request, o.on, "not heard of for a lease");
        ends(r);
      }
    }
    ask_movers();
  }
  /// Alarms that are due. One that is set meanwhile waits for the next event, lest this never ends.
  void ring() noexcept {
    const std::uint64_t before = alarms_set_;
    while (!alarms_.empty() && alarms_[0].at_s <= now_s_ && alarms_[0].number < before) {
      std::pop_heap(alarms_.begin(), alarms_.end());
      const alarm a = alarms_.back();
      alarms_.pop_back();
      by_.woke(a.what, *this);
    }
  }
  void ask_movers() noexcept {
    book_.ask_movers(
        [&](request_id request, replica_id from, move_reason why) noexcept {
          const known& r = known_[known_.find(request)];
          if (!r.view.movable || !may(from, &abilities::moves, "it cannot move requests")) return;
          asked_about_ = request;
          by_.may_move(r.view, why, *this);
          asked_about_ = no_request;
        },
        now());
  }

  // What is done.

  bool act(const action& a) noexcept {
    if (actions_.full()) return false;
    actions_.push_back(a);
    return true;
  }
  /// Whether a replica said that it can; if not, a note says so, once.
  bool may(replica_id id, bool abilities::*what, const char* cannot) noexcept {
    if (!book_.contains(id)) return false;
    at_replica& a = at_[id];
    if (a.can.*what) return true;
    if (!(a.said.*what)) note(no_request, id, cannot);
    a.said.*what = true;
    return false;
  }
  /// What is the same for all that a replica is told. `refused` if it cannot.
  status send_setting(bool abilities::*what, const char* cannot, const action& a) noexcept {
    if (!may(a.replica, what, cannot)) return status::refused;
    return act(a) ? status::ok : status::exhausted;
  }

  [[nodiscard]] double now_s() const noexcept override { return now_s_; }
  [[nodiscard]] candidates<> replicas(const request_view& r) noexcept override {
    const std::uint32_t i = known_.find(r.id);
    const replica_id avoid = i == no_index ? no_replica : known_[i].avoid;
    if (avoid == no_replica && offered_.empty() && !settings_.keeps_to_share) return book_.shown();
    const auto open = [&](const view& v) noexcept { return !at_[v.id].excluded && v.id != avoid; };
    candidates<> all{nullptr, nullptr, 0};
    if (settings_.keeps_to_share) {
      all = book_.among([&](const view& v) noexcept { return open(v) && settings_.router(v); });
    }
    if (all.size() == 0) all = book_.among(open);
    if (all.size() != 0 || avoid == no_replica) return all;
    return book_.among([&](const view& v) noexcept { return !at_[v.id].excluded; });
  }
  [[nodiscard]] destinations where_to(const request_view& r) noexcept override {
    const bool can = r.movable && r.moves_to == no_replica && r.where != no_replica && at_[r.where].can.moves;
    return book_.where_to(r.id, can ? r.where : no_replica,
                          [&](const view& v) noexcept { return at_[v.id].can.moves; });
  }
  void requests_at(replica_id id, const request_visitor& look) noexcept override {
    book_.each_at(id, now(), [&](request_id request, bool may_leave) noexcept {
      const request_view& r = known_[known_.find(request)].view;
      look(r, may_leave && r.movable && r.moves_to == no_replica && at_[id].can.moves);
    });
  }
  [[nodiscard]] double age_s(const view& v) const noexcept override { return now_s_ - v.reported_s; }
  [[nodiscard]] double others_sent() const noexcept override {
    const double elapsed_s = now_s_ - began_s_;
    if (settings_.keeps_to_share || !(elapsed_s > 0)) return 0;
    return static_cast<double>((settings_.router.routers - 1) * sent_) * settings_.report_s / 2 / elapsed_s;
  }

  status place(request_id request, replica_id to) noexcept override {
    const std::uint32_t i = known_.find(request);
    if (i == no_index) return status::unknown_request;
    known& r = known_[i];
    if (r.view.where != no_replica) return status::busy;
    if (to >= replicas_ || at_[to].excluded) return status::refused;
    if (actions_.full()) return status::exhausted;
    const tokens cached = min(max(at_[to].cached, tokens{}), r.view.prompt);
    const status s =
        book_.reserve(request, to, {.prompt = r.view.length(), .cached = cached, .starts_in = r.view.is}, now());
    if (!ok(s)) return s;
    r.view.where = to;
    r.was_going_to = no_replica;
    r.before = r.view.generated;
    r.has_first = false;
    ++sent_;
    act({.what = action_kind::place, .replica = to, .request = request});
    return s;
  }
  status move(request_id request, replica_id to, transfer how) noexcept override {
    const std::uint32_t i = known_.find(request);
    if (i == no_index) return status::unknown_request;
    known& r = known_[i];
    if (asked_about_ != no_request && request != asked_about_) return status::refused;
    if (r.view.where == no_replica || !r.view.movable) return status::refused;
    if (r.view.moves_to != no_replica) return status::busy;  // until its controller knows that it came to nothing
    if (!may(r.view.where, &abilities::moves, "it cannot move requests") ||
        !may(to, &abilities::moves, "it cannot move requests") ||
        (how == transfer::live && !may(r.view.where, &abilities::live_moves, "it cannot move requests that run"))) {
      return status::refused;
    }
    if (actions_.full()) return status::exhausted;
    const status s = book_.begin_move(request, r.view.where, to, now());
    if (!ok(s)) return s;
    r.view.moves_to = to;
    act({.what = action_kind::move, .how = how, .replica = to, .from = r.view.where, .request = request});
    return s;
  }
  status cancel_move(request_id request) noexcept override {
    const std::uint32_t i = known_.find(request);
    if (i == no_index) return status::unknown_request;
    known& r = known_[i];
    if (r.view.moves_to == no_replica) return status::refused;
    if (actions_.full()) return status::exhausted;
    book_.release(request, r.view.moves_to);
    act({.what = action_kind::cancel_move, .replica = r.view.moves_to, .request = request});
    r.view.moves_to = no_replica;
    return status::ok;
  }
  status set_role(replica_id id, control::role role) noexcept override {
    if (asked_about_ != no_request) return status::busy;
    if (actions_.full()) return status::exhausted;
    if (!may(id, &abilities::roles, "it cannot change its role") || !book_.set_role(id, role)) return status::refused;
    act({.what = action_kind::set_role, .role = role, .replica = id});
    return status::ok;
  }
  status set_length_range(replica_id id, blocks from, blocks to) noexcept override {
    TESSERA_ASSERT(blocks{} <= from && from < to, "a range of lengths is not empty");
    // The book keeps the range even where the engine is not told: placement and moves go by it.
    if (!book_.contains(id)) return status::refused;
    if (actions_.full()) return status::exhausted;
    book_.set_range(id, from, to);
    return send_setting(
        &abilities::ranges, "it cannot be told which lengths it serves",
        {.what = action_kind::set_length_range, .replica = id, .low = from.count(), .high = to.count()});
  }
  status set_prefill_budget(replica_id id, tokens most) noexcept override {
    return send_setting(&abilities::budgets, "its prompts per step cannot be bounded",
                        {.what = action_kind::set_prefill_budget, .replica = id, .low = most.count()});
  }
  status set_order(replica_id id, order_parameter parameter, double value) noexcept override {
    return send_setting(&abilities::orders, "its order has no parameters",
                        {.what = action_kind::set_order, .parameter = parameter, .replica = id, .value = value});
  }
  status wake_after(double seconds, std::uint64_t what) noexcept override {
    if (alarms_.full()) return status::exhausted;
    alarms_.push_back({now_s_ + std::max(seconds, 0.0), alarms_set_++, what});
    std::push_heap(alarms_.begin(), alarms_.end());
    return status::ok;
  }
  status plan_async(std::uint64_t plan) noexcept override {
    return act({.what = action_kind::plan, .number = plan}) ? status::ok : status::exhausted;
  }
  void note(request_id request, replica_id replica, const short_text& why) noexcept override {
    if (!act({.what = action_kind::note, .replica = replica, .request = request, .why = why})) ++dropped_;
  }

  controller& by_;
  runtime_settings settings_;
  reading reads_;
  ledger<> book_;
  detail::keyed_pool<known> known_;
  fixed_vector<action> actions_;
  fixed_vector<alarm> alarms_;  // A heap.
  fixed_vector<orphan> gone_;
  fixed_vector<assignment> layout_;
  at_replica* at_;
  fixed_vector<replica_id> offered_;
  std::size_t replicas_;
  double now_s_ = 0;
  double began_s_ = 0;
  std::uint64_t alarms_set_ = 0;
  std::uint64_t dropped_ = 0;
  std::size_t sent_ = 0;
  request_id asked_about_ = no_request;
  bool has_begun_ = false;
};

}  // namespace fleet
TESSERA_NAMESPACE_END
