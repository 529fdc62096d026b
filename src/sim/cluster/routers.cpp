// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/fleet/router_share.hpp>
#include <tessera/sim/cluster/compare_views.hpp>
#include <tessera/sim/cluster/routers.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

namespace {

/// Orders the alarms at which an instance has its role.
constexpr std::uint64_t about_roles = std::numeric_limits<std::uint64_t>::max() - 1;

}  // namespace

routers::router::router(seated_controller what, const fleet::runtime_limits& l, const fleet::runtime_settings& s)
    : by{std::move(what)},
      storage{storage_for<fleet::runtime>(l)},
      decides{*by.decides, storage, s},
      wakes_s{std::numeric_limits<double>::infinity()} {}

routers::routers(cluster& c, const routing& how, const controller_maker& make) : how_{how} {
  TESSERA_ASSERT(how.routers > 0 && how.report_s > 0, "at least one router, and an interval between reports");
  TESSERA_ASSERT(how.action_s >= 0, "nothing is done before it is decided");
  fleet::runtime_settings s;
  s.book.block_size = c.options().instance.limits.block_size;
  s.book.lease = s.book.silence = duration::forever();
  s.book.rest = duration{};
  s.book.moving = std::numeric_limits<std::size_t>::max();
  s.book.quantum = c.options().quantum;
  s.keeps_to_share = how.shares;
  s.report_s = how.report_s;
  for (std::size_t k = 0; k != how.routers; ++k) {
    s.router = {k, how.routers};
    // Requests are dealt in turn, and each may move.
    const std::size_t requests = c.requests().size() / how.routers + 1;
    all_.push_back(std::make_unique<router>(
        make(c.options(), {.router = k, .routers = how.routers, .instances = c.size()}),
        fleet::runtime_limits{.book = {.replicas = c.size(), .reservations = 2 * requests}, .requests = requests}, s));
  }
  if (const placement::prefill_worker& own = all_.front()->by.prefill; own.budget.flops() > 0) how_.prefill = own;
  before_.resize(c.requests().size());
  lives_.resize(c.size());
  epochs_.resize(c.size());
  own_.resize(how.routers);
  for (std::size_t i = 0; i != c.size(); ++i) {
    returned(c, i);
    c.call_after(how.report_s * static_cast<double>(i + 1) / static_cast<double>(c.size()), i);
  }
}

fleet::replica_id routers::notify(cluster& c, std::size_t k, const fleet::event& e) {
  router& to = *all_[k];
  const std::span<const fleet::action> said = to.decides.handle(e);
  if (how_.heard) how_.heard(k, e, said);
  fleet::replica_id placed = fleet::no_replica;
  for (const fleet::action& a : said) {
    switch (a.what) {
      case fleet::action_kind::place:
        TESSERA_ASSERT(e.what == fleet::event_kind::arrived && a.request == e.request, "a request is placed at once");
        placed = a.replica;
        break;
      case fleet::action_kind::move:
        moves_.add({c.now_s() + how_.action_s, static_cast<std::size_t>(a.request), a.from, a.replica, a.how});
        break;
      case fleet::action_kind::cancel_move: {
        request& r = c.requests()[a.request];
        if (!moves_.remove(r.index) && r.migration.stage != migration_stage::none) c.cut_migration(r);
        break;
      }
      case fleet::action_kind::set_role:
        changing_.push_back({k, a.replica});
        c.call_after(how_.action_s, changing_.size() - 1, about_roles);
        if (run_watcher* const watcher = c.options().watcher) {
          watcher->note(c.now_s(), fmt::format("instance {} becomes a {} worker", a.replica, to_string(a.role)));
        }
        break;
      case fleet::action_kind::set_prefill_budget: c.bound_prompts(a.replica, tokens{a.low}); break;
      case fleet::action_kind::plan: plan(c, k, a.number); break;
      default: break;  // what an instance cannot, and what is said alone
    }
  }
  if (const double at_s = to.decides.next_wake_s(); at_s < to.wakes_s || to.wakes_s <= c.now_s()) {
    to.wakes_s = at_s;
    if (at_s < std::numeric_limits<double>::infinity()) {
      c.call_after(std::max(at_s - c.now_s(), 0.0), c.size() + k);
    }
  }
  return placed;
}

void routers::notify(cluster& c, const request& r, fleet::event_kind what, std::size_t i, tokens count) {
  fleet::event e = event_on(c, what, i);
  e.request = r.index;
  e.count = count;
  notify(c, of(r), e);
}

void routers::tell_all(cluster& c, const fleet::event& e) {
  for (std::size_t k = 0; k != how_.routers; ++k) notify(c, k, e);
}

fleet::event routers::event_on(const cluster& c, fleet::event_kind what, std::size_t i) {
  return {.at_s = c.now_s(), .what = what, .replica = at(i)};
}

std::vector<instance_view> routers::shown_to(const cluster& c, const request& r) const {
  std::vector<instance_view> all;
  const fleet::ledger<>& book = all_[of(r)]->decides.book();
  const auto look = [&](auto may) {
    for (std::size_t i = 0; i != c.size(); ++i) {
      if (!c.takes(i, r) || !may(book.at(at(i)))) continue;
      all.push_back(book.at(at(i)));
      all.back().cached_tokens = c.views()[i].cached_tokens;
      all.back().new_prefill_tokens = c.views()[i].new_prefill_tokens;
    }
  };
  if (how_.shares) look(fleet::router_share{of(r), how_.routers});
  if (all.empty()) look(fleet::everyone{});
  return all;
}

std::size_t routers::place(cluster& c, const request& r) {
  router& by = *all_[of(r)];
  const fleet::reading reads = by.decides.reads();
  if (reads.prefixes) c.look_at_prefixes(r);
  std::vector<instance_view> seen;
  if (c.asks(r)) seen = shown_to(c, r);
  fleet::event e{.at_s = c.now_s(), .what = fleet::event_kind::offers, .request = r.index};
  for (std::size_t i = 0; i != c.size(); ++i) {
    e.replica = at(i);
    e.count = reads.prefixes ? c.views()[i].cached_tokens : tokens{};
    e.excluded = c.in_service(i) && !c.takes(i, r);
    if (e.excluded || e.count != tokens{}) notify(c, of(r), e);
  }
  e = {.at_s = c.now_s(), .what = fleet::event_kind::arrived, .request = r.index};
  e.asks = request_view_of(r);
  if (reads.prefixes) e.asks.prefix_key = c.views().front().prefix_key;
  before_[r.index] = r.generated();
  const fleet::replica_id to = notify(c, of(r), e);
  TESSERA_ASSERT(to != fleet::no_replica, "a request is placed at once");
  if (c.asks(r)) c.because(by.by.places_by, compare_views(seen, reads));
  return to;
}

void routers::alarm(cluster& c, std::uint64_t what) {
  if (c.alarm_is_of() == about_roles) {
    const role_change& now = changing_[static_cast<std::size_t>(what)];
    notify(c, now.router, event_on(c, fleet::event_kind::role_changed, now.instance));
    return;
  }
  if (what < c.size()) return report(c, static_cast<std::size_t>(what));
  if (const auto made = plans_.find(what); made != plans_.end()) {
    const made_plan p = std::move(made->second);
    plans_.erase(made);
    return planned(c, p);
  }
  notify(c, static_cast<std::size_t>(what) - c.size(), {.at_s = c.now_s(), .what = fleet::event_kind::clock});
}

void routers::plan(cluster& c, std::size_t k, std::uint64_t number) {
  if (!all_[k]->by.plans) return;  // and none ever comes
  const std::uint64_t alarm = c.size() + how_.routers + plans_made_++;
  plans_[alarm] = {k, number, all_[k]->by.plans(number)};
  c.call_after(c.options().plan_s, alarm);
}

void routers::planned(cluster& c, const made_plan& p) {
  for (const fleet::assignment& a : p.layout) {
    fleet::event e = event_on(c, fleet::event_kind::lays_out, a.replica);
    e.role = a.role;
    e.low = a.from;
    e.high = a.to;
    e.count = a.prefill_budget;
    notify(c, p.router, e);
  }
  notify(c, p.router, {.at_s = c.now_s(), .what = fleet::event_kind::planned, .number = p.number});
}

void routers::report(cluster& c, std::size_t i) {
  c.call_after(how_.report_s, i);
  if (!c.up(i) || !c.in_service(i)) return;
  const auto& one = c.at(i);
  const tokens quantum = c.options().quantum;
  fleet::event e = event_on(c, fleet::event_kind::reported, i);
  fleet::report& said = e.said;
  said.incarnation = lives_[i];
  said.epoch = ++epochs_[i];
  for (fleet::load& l : own_) l = {};
  for (const request* r : one.requests()) {
    fleet::load& l = own_[of(*r)];
    ++l.requests;
    const blocks held = r->state().swapped ? r->needs : min(one.scheduler().blocks_held(*r), r->needs);
    // A shared block counts for the request that computed it.
    l.kv_held += held - min(blocks{r->state().shared_blocks}, held);
    l.waiting_blocks += r->needs - held;
    if (r->prefills && r->state().computed < r->state().length) {
      l.prefill_flops += how_.prefill.cost.flops(r->state().length, r->state().computed);
    }
    if (r->state().phase == phase::reasoning) {
      l.reasoning += r->counted_demoted ? 0 : 1;
    } else if (r->generated() - r->state().reasoning < quantum) {
      ++l.fresh_answers;
    }
  }
  said.all = {.requests = one.requests().size(),
              .kv_held = one.blocks_held(),
              .waiting_blocks = max(one.needed_blocks() - one.blocks_held(), blocks{})};
  for (const fleet::load& l : own_) {
    said.all.prefill_flops += l.prefill_flops;
    said.all.reasoning += l.reasoning;
    said.all.fresh_answers += l.fresh_answers;
  }
  said.free = one.free_blocks();
  if (all_.front()->decides.reads().phases) said.slo_met = one.slo_met(c.now_s());
  for (std::size_t k = 0; k != how_.routers; ++k) {
    said.own = own_[k];
    notify(c, k, e);
  }
}

void routers::step_ended(cluster& c, std::size_t i) {
  for (const request* r : c.at(i).requests()) hear(c, *r, i);
  begin_moves(c, i, fleet::no_request);
}

void routers::begin_moves(cluster& c, std::size_t i, fleet::request_id only) {
  moves_.begin(
      c, i, [only](std::size_t r) { return only == fleet::no_request || r == only; },
      [&](const decided_moves::decided& m) {
        notify(c, c.requests()[m.request], fleet::event_kind::move_failed, m.to);
      });
}

void routers::answers(cluster& c, request& r) {
  hear(c, r, r.where);
  notify(c, r, fleet::event_kind::reasoning_ended, r.where);
  begin_moves(c, r.where, r.index);
}

void routers::moved(cluster& c, const request& r) { notify(c, r, fleet::event_kind::moved, r.where); }

void routers::move_failed(cluster& c, const request& r) {
  const fleet::request_view* const v = all_[of(r)]->decides.find(r.index);
  if (v == nullptr || v->moves_to == fleet::no_replica) return;
  notify(c, r, fleet::event_kind::move_failed, v->moves_to);
}

void routers::finished(cluster& c, const request& r) { notify(c, r, fleet::event_kind::ended, r.where); }

void routers::failed(cluster& c, std::size_t i) {
  moves_.forget(i);
  fleet::event e = event_on(c, fleet::event_kind::failed, i);
  e.number = lives_[i];
  tell_all(c, e);
}

void routers::returned(cluster& c, std::size_t i) {
  ++lives_[i];
  epochs_[i] = 0;
  const bool by_time = how_.prefill.budget.flops() > 0;
  const std::optional<pool_sizes>& pools = c.options().pools;
  fleet::event e = event_on(c, fleet::event_kind::joined, i);
  e.number = lives_[i];
  e.joins = {.capacity = c.capacity(i),
             .role = pools     ? pools->role_of(i)
                     : by_time ? control::role::prefill
                               : control::role::mixed,
             .elastic = pools && pools->role_of(i) == control::role::mixed,
             .prefill = how_.prefill,
             .can = {.roles = pools && how_.routers == 1, .orders = false}};
  tell_all(c, e);
}

std::size_t routers::in_books() const noexcept {
  std::size_t n = 0;
  for (const std::unique_ptr<router>& by : all_) n += by->decides.book().size();
  return n;
}

void routers::hear(cluster& c, const request& r, std::size_t i) {
  notify(c, r, fleet::event_kind::progressed, i, r.generated());
  if (r.generated() - before_[r.index] != tokens{1}) return;
  const tokens cached = c.options().instance.limits.block_size * static_cast<std::int64_t>(r.state().shared_blocks);
  notify(c, r, fleet::event_kind::cache_hit, i, cached);
}

}  // namespace sim
TESSERA_NAMESPACE_END
