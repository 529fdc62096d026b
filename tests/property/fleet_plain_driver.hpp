// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// @file
/// What `fleet::runtime` does, plainly: lines of text in, lines of text out, maps, and everything looked up anew. It
/// shares the ledger with the library; the ledger has a plain model of its own.

#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/controller.hpp>
#include <tessera/fleet/ledger.hpp>
#include <tessera/fleet/log.hpp>
#include <tessera/fleet/runtime.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tessera_test {

namespace plain {

using namespace tessera;
using fleet::action_kind;
using fleet::event_kind;
using fleet::no_replica;
using fleet::replica_id;
using fleet::request_id;
using fleet::request_view;

class driver final : fleet::port {
 public:
  driver(std::shared_ptr<fleet::controller> by, const fleet::runtime_limits& l, const fleet::runtime_settings& s)
      : by_{std::move(by)},
        limits_{l},
        settings_{s},
        storage_{storage_for<fleet::ledger<>>(l.book)},
        book_{storage_, s.book} {}

  /// The lines of the actions that follow from an event, read from its line unless a log may not say that.
  std::vector<std::string> handle(const std::string& line, const fleet::event& said) {
    actions_.clear();
    fleet::event e;
    if (fleet::read(line, e)) e = said;
    if (!began_) {
      began_ = true;
      began_s_ = now_s_ = e.at_s;
      by_->started(*this);
    }
    now_s_ = std::max(now_s_, e.at_s);
    // Alarms that were set before this event.
    const std::uint64_t before = alarms_set_;
    while (true) {
      const auto due = std::find_if(alarms_.begin(), alarms_.end(),
                                    [&](const auto& a) { return a.first.first <= now_s_ && a.first.second < before; });
      if (due == alarms_.end() || due != alarms_.begin()) break;
      const std::uint64_t what = due->second;
      alarms_.erase(due);
      by_->woke(what, *this);
    }
    happens(e);
    return actions_;
  }
  [[nodiscard]] std::size_t requests() const { return known_.size(); }
  [[nodiscard]] std::size_t in_book() const { return book_.size(); }

 private:
  struct known {
    request_view view{};
    replica_id goes_to = no_replica;  // When its replica died.
    tokens before{};
    replica_id avoid = no_replica;
    bool first = false;
    time_point rests_until{};
  };

  [[nodiscard]] time_point now() const { return time_point::at_seconds(now_s_); }

  void happens(const fleet::event& e) {
    const auto at = known_.find(e.request);
    known* const r = at == known_.end() ? nullptr : &at->second;
    const bool is_there = r != nullptr && book_.reserved(e.request, e.replica);
    switch (e.what) {
      case event_kind::none: break;
      case event_kind::joined:
        if (const status s = book_.join(e.replica, e.number, e.joins, now()); ok(s)) {
          can_[e.replica] = e.joins.can;
          for (auto i = said_.begin(); i != said_.end();) i = i->first == e.replica ? said_.erase(i) : std::next(i);
          by_->joined(e.replica, e.joins, *this);
        } else {
          note(fleet::no_request, e.replica, to_string(s));
        }
        break;
      case event_kind::drained:
        if (book_.drain(e.replica)) by_->left(e.replica, *this);
        break;
      case event_kind::unreachable: book_.lost(e.replica, e.number); break;
      case event_kind::failed: fails(e); break;
      case event_kind::asks_report: book_.asked(e.replica); break;
      case event_kind::reported:
        if (book_.receive(e.replica, e.said, now()) == fleet::reception::taken) {
          by_->reported(book_.at(e.replica), *this);
          movers();
        }
        break;
      case event_kind::role_changed: book_.changed_role(e.replica); break;
      case event_kind::serves:
        if (book_.contains(e.replica) && blocks{} <= e.low && e.low < e.high) {
          book_.set_range(e.replica, e.low, e.high);
          movers();
        }
        break;
      case event_kind::offers:
        if (e.replica < limits_.book.replicas) offers_[e.replica] = {e.count, e.excluded};
        break;
      case event_kind::arrived: arrives(e); break;
      case event_kind::refused:
        if (is_there && r->view.where == e.replica) {
          leaves(*r, e.replica);
          r->avoid = e.replica;
          place_anew(*r);
        }
        offers_.clear();
        break;
      case event_kind::lost:
        if (is_there && r->view.where == e.replica) leaves(*r, e.replica);
        break;
      case event_kind::cache_hit:
        if (is_there && e.count >= tokens{}) book_.cache_hit(e.request, e.replica, e.count, now());
        break;
      case event_kind::first_token:
        if (is_there) progresses(e, *r, r->before + tokens{1});
        break;
      case event_kind::progressed:
        if (is_there) progresses(e, *r, e.count);
        break;
      case event_kind::reasoning_ended:
        if (!is_there) break;
        book_.answers(e.request, e.replica, now());
        if (std::exchange(r->view.is, phase::answering) == phase::reasoning) by_->reasoning_ended(r->view, *this);
        movers();
        break;
      case event_kind::moved:
        if (is_there && book_.moved(e.request, e.replica, now())) {
          r->view.where = std::exchange(r->view.moves_to, no_replica);
          r->rests_until = now() + settings_.book.rest;
          by_->arrived_with_kv(r->view, *this);
          movers();
        } else if (r != nullptr && r->view.where == no_replica && e.replica != no_replica && e.replica == r->goes_to &&
                   ok(book_.reserve(e.request, e.replica, {.prompt = r->view.length(), .starts_in = r->view.is},
                                    now()))) {
          // Its source has died, and all its KV had come.
          r->view.where = std::exchange(r->goes_to, no_replica);
          r->before = r->view.generated;
          r->first = false;
          r->rests_until = {};
          by_->arrived_with_kv(r->view, *this);
          movers();
        }
        break;
      case event_kind::move_failed:
        if (is_there && r->view.moves_to == e.replica) {
          book_.release(e.request, e.replica);
          r->view.moves_to = no_replica;
          by_->move_failed(r->view, *this);
        }
        break;
      case event_kind::ended:
        if (r != nullptr) ends(e.request);
        break;
      case event_kind::lays_out:
        if (layout_.size() < limits_.book.replicas) layout_.push_back({e.replica, e.role, e.low, e.high, e.count});
        break;
      case event_kind::planned:
        by_->planned(e.number, layout_, *this);
        layout_.clear();
        break;
      case event_kind::clock: passes(); break;
    }
  }
  void leaves(known& r, replica_id replica) {
    book_.release(r.view.id, replica);
    r.view.where = r.view.moves_to = no_replica;
    by_->lost(r.view, *this);
  }
  void fails(const fleet::event& e) {
    std::vector<fleet::orphan> gone;
    if (!book_.fence(e.replica, e.number, [&](const fleet::orphan& o) { gone.push_back(o); })) return;
    by_->failed(e.replica, *this);
    // In the order in which the runtime's pool has them: as they came, and the place of one that is gone is the next's.
    std::vector<request_id> ids{slots_};
    for (const request_id id : ids) {
      const auto at = known_.find(id);
      if (at == known_.end() || at->second.view.moves_to != e.replica) continue;
      at->second.view.moves_to = no_replica;
      by_->move_failed(at->second.view, *this);
    }
    for (const fleet::orphan& o : gone) {
      known& r = known_.at(o.request);
      if (o.elsewhere != no_replica) book_.release(o.request, o.elsewhere);
      r.view.where = r.view.moves_to = no_replica;
      r.goes_to = o.elsewhere;
      by_->lost(r.view, *this);
    }
  }
  void arrives(const fleet::event& e) {
    const std::int64_t most = headroom::longest_prompt.count();
    const std::int64_t prompt = e.asks.prompt.count();
    const std::int64_t generated = e.asks.generated.count();
    const auto at = known_.find(e.request);
    const bool is_length = [&] {
      return prompt >= 0 && generated >= 0 && prompt <= most && generated <= most && prompt + generated <= most;
    }();
    if (e.request == fleet::no_request || !is_length) {
      note(e.request, no_replica, to_string(status::invalid));
    } else if (at == known_.end() && known_.size() == limits_.requests) {
      note(e.request, no_replica, to_string(status::exhausted));
    } else if (at == known_.end() || at->second.view.where == no_replica) {
      if (at == known_.end()) {
        if (free_.empty()) {
          slots_.push_back(e.request);
        } else {
          slots_[free_.back()] = e.request;
          free_.pop_back();
        }
      }
      known& r = known_[e.request];
      r.view = e.asks;
      r.view.id = e.request;
      r.view.where = r.view.moves_to = r.goes_to = no_replica;
      return place_anew(r);
    }
    offers_.clear();
  }
  void place_anew(known& r) {
    asked_prompt_ = r.view.prompt;
    asked_key_ = r.view.prefix_key;
    by_->arrived(r.view, *this);
    offers_.clear();
  }
  void progresses(const fleet::event& e, known& r, tokens count) {
    if (count < r.before || !book_.progress(e.request, e.replica, count - r.before, now())) return;
    const std::int64_t block = settings_.book.block_size.count();
    const auto blocks_of = [&] { return (r.view.length().count() + block - 1) / block; };
    const std::int64_t size = blocks_of();
    const bool is_first = !r.first && count > r.before;
    if (count > r.view.generated) r.view.generated = count;
    if (is_first) {
      r.first = true;
      by_->first_token(r.view, *this);
    }
    if (blocks_of() == size) return;
    by_->progressed(r.view, *this);
    movers();
  }
  void ends(request_id id) {
    const request_view v = known_.at(id).view;
    if (v.where != no_replica) book_.release(id, v.where);
    if (v.moves_to != no_replica) book_.release(id, v.moves_to);
    known_.erase(id);
    free_.push_back(static_cast<std::size_t>(std::find(slots_.begin(), slots_.end(), id) - slots_.begin()));
    slots_[free_.back()] = fleet::no_request;
    by_->ended(v, *this);
  }
  void passes() {
    std::vector<std::pair<request_id, replica_id>> gone;
    book_.expire(now(), [&](request_id r, replica_id at) { gone.emplace_back(r, at); });
    for (const auto& [id, at] : gone) {
      const auto of = known_.find(id);
      if (of == known_.end()) continue;
      request_view& v = of->second.view;
      if (v.moves_to == at) {
        v.moves_to = no_replica;
        by_->move_failed(v, *this);
      } else if (v.where == at && v.moves_to != no_replica) {
        v.where = std::exchange(v.moves_to, no_replica);
        of->second.rests_until = now() + settings_.book.rest;
        by_->arrived_with_kv(v, *this);
      } else if (!book_.reserved(id, v.where)) {
        note(id, at, "not heard of for a lease");
        ends(id);
      }
    }
    movers();
  }
  void movers() {
    book_.ask_movers(
        [&](request_id id, replica_id from, fleet::move_reason why) noexcept {
          const known& r = known_.at(id);
          if (!r.view.movable) return;
          if (!can(from, &fleet::abilities::moves, "it cannot move requests")) return;
          asked_about_ = id;
          by_->may_move(r.view, why, *this);
          asked_about_ = fleet::no_request;
        },
        now());
  }

  // What a port does.

  bool act(const fleet::action& a) {
    if (actions_.size() == limits_.actions) return false;
    fleet::log_line line;
    actions_.emplace_back(fleet::write(a, line));
    return true;
  }
  [[nodiscard]] bool has_room() const { return actions_.size() < limits_.actions; }
  bool can(replica_id id, bool fleet::abilities::*what, const char* cannot) {
    if (!book_.contains(id)) return false;
    if (can_.at(id).*what) return true;
    if (said_.insert({id, cannot}).second) note(fleet::no_request, id, cannot);
    return false;
  }

  [[nodiscard]] double now_s() const noexcept override { return now_s_; }
  [[nodiscard]] fleet::candidates<> shown_of(const std::vector<replica_id>& ids) {
    views_.assign(limits_.book.replicas, {});
    for (const replica_id id : ids) {
      views_[id] = book_.at(id);
      if (by_->reads().prefixes) {
        const auto o = offers_.find(id);
        const tokens cached = o == offers_.end() ? tokens{} : o->second.first;
        views_[id].cached_tokens = std::clamp(cached, tokens{}, asked_prompt_);
        views_[id].new_prefill_tokens = asked_prompt_ - views_[id].cached_tokens;
        views_[id].prefix_key = asked_key_;
      }
    }
    ids_ = ids;
    return {views_.data(), ids_.data(), ids_.size()};
  }
  [[nodiscard]] std::vector<replica_id> shown() const {
    std::vector<replica_id> ids;
    const auto all = book_.shown();
    for (std::size_t i = 0; i != all.size(); ++i) ids.push_back(static_cast<replica_id>(all[i].id));
    return ids;
  }
  [[nodiscard]] fleet::candidates<> replicas(const request_view& r) noexcept override {
    const auto at = known_.find(r.id);
    const replica_id avoid = at == known_.end() ? no_replica : at->second.avoid;
    const auto only = [&](bool share, bool but_avoided) {
      std::vector<replica_id> ids = shown();
      std::erase_if(ids, [&](replica_id id) {
        const auto o = offers_.find(id);
        return (o != offers_.end() && o->second.second) || (but_avoided && id == avoid) ||
               (share && id % settings_.router.routers != settings_.router.router);
      });
      return ids;
    };
    std::vector<replica_id> ids;
    if (settings_.keeps_to_share) ids = only(true, true);
    if (ids.empty()) ids = only(false, true);
    if (ids.empty()) ids = only(false, false);
    return shown_of(ids);
  }
  [[nodiscard]] fleet::destinations where_to(const request_view& r) noexcept override {
    std::vector<replica_id> ids;
    const auto all = shown();
    if (!r.movable || r.moves_to != no_replica || r.where == no_replica || !book_.reserved(r.id, r.where) ||
        !can_.at(r.where).moves || book_.silent(r.where) || std::find(all.begin(), all.end(), r.where) == all.end()) {
      return {shown_of({}), 0, {}, {}};
    }
    // The book's own idea of its length is at hand in what it would copy.
    const fleet::destinations d = book_.where_to(r.id, r.where);
    for (const replica_id id : all) {
      const fleet::view& v = book_.at(id);
      const bool takes = v.free_blocks >= d.moves && v.role != control::role::prefill && !book_.silent(id) &&
                         !book_.reserved(r.id, id) && can_.at(id).moves;
      if (id == r.where || takes) ids.push_back(id);
    }
    const auto here = std::find(ids.begin(), ids.end(), r.where) - ids.begin();
    return {shown_of(ids), static_cast<std::size_t>(here), d.grows, d.moves};
  }
  void requests_at(replica_id id, const fleet::request_visitor& look) noexcept override {
    const std::vector<replica_id> all = shown();
    const bool gives = std::find(all.begin(), all.end(), id) != all.end() && !book_.silent(id) && can_.at(id).moves;
    for (const auto& [request, r] : known_) {
      if (r.view.where != id || !book_.reserved(request, id)) continue;
      look(r.view, gives && r.first && r.view.moves_to == no_replica && r.view.movable && !(now() < r.rests_until));
    }
  }
  [[nodiscard]] double age_s(const fleet::view& v) const noexcept override { return now_s_ - v.reported_s; }
  [[nodiscard]] double others_sent() const noexcept override {
    if (settings_.keeps_to_share || now_s_ <= began_s_) return 0;
    const auto others = static_cast<double>((settings_.router.routers - 1) * sent_);
    return others * settings_.report_s / 2 / (now_s_ - began_s_);
  }
  status place(request_id id, replica_id to) noexcept override {
    const auto at = known_.find(id);
    if (at == known_.end()) return status::unknown_request;
    if (at->second.view.where != no_replica) return status::busy;
    const auto o = offers_.find(to);
    if (o != offers_.end() && o->second.second) return status::refused;
    if (to >= limits_.book.replicas) return status::refused;
    if (!has_room()) return status::exhausted;
    request_view& v = at->second.view;
    const tokens cached = o == offers_.end() ? tokens{} : std::clamp(o->second.first, tokens{}, v.prompt);
    const status s = book_.reserve(id, to, {.prompt = v.length(), .cached = cached, .starts_in = v.is}, now());
    if (!ok(s)) return s;
    v.where = to;
    at->second.goes_to = no_replica;
    at->second.before = v.generated;
    at->second.first = false;
    at->second.rests_until = {};
    ++sent_;
    act({.what = action_kind::place, .replica = to, .request = id});
    return s;
  }
  status move(request_id id, replica_id to, fleet::transfer how) noexcept override {
    const auto at = known_.find(id);
    if (at == known_.end()) return status::unknown_request;
    request_view& v = at->second.view;
    if ((asked_about_ != fleet::no_request && asked_about_ != id) || v.where == no_replica || !v.movable) {
      return status::refused;
    }
    if (v.moves_to != no_replica) return status::busy;
    if (!can(v.where, &fleet::abilities::moves, "it cannot move requests")) return status::refused;
    if (!can(to, &fleet::abilities::moves, "it cannot move requests")) return status::refused;
    if (how == fleet::transfer::live &&
        !can(v.where, &fleet::abilities::live_moves, "it cannot move requests that run")) {
      return status::refused;
    }
    if (!has_room()) return status::exhausted;
    const status s = book_.begin_move(id, v.where, to, now());
    if (!ok(s)) return s;
    v.moves_to = to;
    at->second.rests_until = now() + settings_.book.rest;
    act({.what = action_kind::move, .how = how, .replica = to, .from = v.where, .request = id});
    return s;
  }
  status cancel_move(request_id id) noexcept override {
    const auto at = known_.find(id);
    if (at == known_.end()) return status::unknown_request;
    request_view& v = at->second.view;
    if (v.moves_to == no_replica) return status::refused;
    if (!has_room()) return status::exhausted;
    const replica_id to = std::exchange(v.moves_to, no_replica);
    book_.release(id, to);
    act({.what = action_kind::cancel_move, .replica = to, .request = id});
    return status::ok;
  }
  status set_role(replica_id id, control::role role) noexcept override {
    if (asked_about_ != fleet::no_request) return status::busy;
    if (!has_room()) return status::exhausted;
    if (!can(id, &fleet::abilities::roles, "it cannot change its role")) return status::refused;
    if (!book_.set_role(id, role)) return status::refused;
    act({.what = action_kind::set_role, .role = role, .replica = id});
    return status::ok;
  }
  status send_setting(bool fleet::abilities::*what, const char* cannot, const fleet::action& a) {
    if (!can(a.replica, what, cannot)) return status::refused;
    return act(a) ? status::ok : status::exhausted;
  }
  status set_length_range(replica_id id, blocks from, blocks to) noexcept override {
    if (!book_.contains(id)) return status::refused;
    if (!has_room()) return status::exhausted;
    book_.set_range(id, from, to);
    return send_setting(
        &fleet::abilities::ranges, "it cannot be told which lengths it serves",
        {.what = action_kind::set_length_range, .replica = id, .low = from.count(), .high = to.count()});
  }
  status set_prefill_budget(replica_id id, tokens most) noexcept override {
    return send_setting(&fleet::abilities::budgets, "its prompts per step cannot be bounded",
                        {.what = action_kind::set_prefill_budget, .replica = id, .low = most.count()});
  }
  status set_order(replica_id id, fleet::order_parameter parameter, double value) noexcept override {
    return send_setting(&fleet::abilities::orders, "its order has no parameters",
                        {.what = action_kind::set_order, .parameter = parameter, .replica = id, .value = value});
  }
  status wake_after(double seconds, std::uint64_t what) noexcept override {
    if (alarms_.size() == limits_.alarms) return status::exhausted;
    alarms_.insert({{now_s_ + std::max(seconds, 0.0), alarms_set_++}, what});
    return status::ok;
  }
  status plan_async(std::uint64_t plan) noexcept override {
    return act({.what = action_kind::plan, .number = plan}) ? status::ok : status::exhausted;
  }
  void note(request_id request, replica_id replica, const fleet::short_text& why) noexcept override {
    act({.what = action_kind::note, .replica = replica, .request = request, .why = why});
  }

  std::shared_ptr<fleet::controller> by_;
  fleet::runtime_limits limits_;
  fleet::runtime_settings settings_;
  owned_storage<fleet::ledger_limits> storage_;
  fleet::ledger<> book_;
  std::map<request_id, known> known_{};
  std::vector<request_id> slots_{};
  std::vector<std::size_t> free_{};
  std::map<replica_id, fleet::abilities> can_{};
  std::set<std::pair<replica_id, std::string>> said_{};
  std::map<replica_id, std::pair<tokens, bool>> offers_{};
  std::map<std::pair<double, std::uint64_t>, std::uint64_t> alarms_{};
  std::vector<fleet::assignment> layout_{};
  std::vector<fleet::view> views_{};
  std::vector<replica_id> ids_{};
  std::vector<std::string> actions_{};
  tokens asked_prompt_{};
  std::uint64_t asked_key_ = 0;
  std::uint64_t alarms_set_ = 0;
  std::size_t sent_ = 0;
  double now_s_ = 0;
  double began_s_ = 0;
  request_id asked_about_ = fleet::no_request;
  bool began_ = false;
};

}  // namespace plain

}  // namespace tessera_test
