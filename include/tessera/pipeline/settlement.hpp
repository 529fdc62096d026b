// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/prefetch.hpp>
#include <tessera/pipeline/plan_ring.hpp>
#include <tessera/pipeline/roster.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// Settles plans, and ends requests while plans contain them.
///
/// A plan that is alone when it is committed is settled at once. Otherwise it was closed before, when another was made
/// or settled: its evictions and starts are done, and its entries count as run (`advance`). Its outcomes then only
/// correct that.
template <schedulable R, class Order, class BlockStore, class Gate>
struct settlement {
  using time_point = typename R::time_point;

  detail::roster<R, Order, BlockStore, Gate>& roster;
  plan_ring<R>& plans;

  /// Counts the open plan, if there is one, as run from now on.
  void close() const noexcept {
    step<R>* const s = plans.open();
    if (s == nullptr) return;
    s->open = false;
    count(*s);
    roster.settle_evictions(s->kept, s->moves);
    roster.settle_admissions(s->admitted, s->first_guest);
    for (std::size_t i = 0; i != s->decode.size(); ++i) roster.advance(s->decode[i], s->decode_at[i], s->mark());
    for (std::size_t i = 0; i != s->prefill.size(); ++i) roster.advance(s->prefill[i], s->prefill_at[i], s->mark());
    roster.residents.settle();
    roster.kv.copies_done();
    let_ended_go(*s);
  }

  /// Settles the oldest plan.
  void commit(std::span<const outcome> outcomes, time_point now) const noexcept {
    step<R>& s = plans.oldest();
    if (plans.size() == 1 && s.open) [[likely]] {
      settle<false>(s, outcomes, now);
      roster.kv.copies_done();
    } else {
      close();  // it cannot be undone together with what is settled now
      settle<true>(s, outcomes, now);
    }
  }

  /// Undoes the open plan.
  void abandon() const noexcept {
    step<R>& s = plans.latest();
    // Findings that depend on what is undone now may not be true any more.
    if (roster.kv.mark() != 0) {
      roster.refused = s.refused_before;
      roster.refused_request = s.refused_request_before;
      roster.residents.set_bookmark(s.bookmark_before);
    }
    s.kept = roster.residents.take_back(s.kept, roster.kv.roll_back(0));
    roster.kv.forget_plan();
    for (std::size_t i = s.held_for_prefix.size(); i-- != 0;) {
      const auto& held = s.held_for_prefix[i];
      if (held.request != nullptr) request_access::state(*held.request).cached_blocks = held.cached_before;
    }
    s.seen = 0;  // for `why`: no request is in this plan
    plans.pop_open();
    let_ended_go(s);
  }

  /// The KV in transfer has arrived, for `n` tokens. A request that has ended meanwhile leaves.
  void arrived(R& r, tokens n) const noexcept {
    const lifecycle as = r.state().ends_as;
    const bool is_all = n == r.state().computed;
    roster.arrived(r, n);
    if (as != lifecycle::idle) {
      request_access::state(r).ends_as = lifecycle::idle;
      end_now(r, as);
    } else if (!is_all && !roster.kv.can_go_back(r, r.state().computed)) {
      preempt(r);
    }
  }
  /// A resident loses its KV, and waits at its place.
  void preempt(R& r) const noexcept {
    step<R>* const last = plans.last_with(r);
    roster.preempt(r, last != nullptr ? &last->moves : nullptr);
  }

  /// Requests with passed deadlines continue without what they waited for. They are listed in `s`, the present plan.
  void pass_deadlines(time_point now, step<R>& s) const noexcept {
    auto& all = roster.deadlines;
    for (auto* e = all.due(now); e != nullptr; e = all.due(now)) {
      R* const r = e->request;
      const bool fails = e->fails;
      ++roster.counters.late[static_cast<std::size_t>(e->what)];
      s.late.push_back({r, e->what, e->what == deadline_of::draining ? e->name : 0});
      switch (e->what) {
        case deadline_of::parked:
          roster.ready(*r);
          if (fails) end_now(*r, lifecycle::failed);
          break;
        case deadline_of::loading:
          if (r->state().life == lifecycle::suspended) {
            arrived(*r, tokens{});
          } else {
            all.erase(*e);
            roster.expect_kv(*r, tokens{}, false);
          }
          break;
        case deadline_of::waiting: all.erase(*e); break;
        case deadline_of::draining: roster.drained(*e, false); break;
      }
    }
  }

  /// Ends a request, in any state. `unknown_request` if it is not here.
  status end(R& r, lifecycle as) const noexcept {
    if (!roster.contains(r)) return status::unknown_request;
    auto& s = request_access::state(r);
    step<R>* const open = plans.open();
    if (open != nullptr && (s.life != lifecycle::waiting || open->has_mark(r, plan_mark::runs))) {
      if (s.ends_as == lifecycle::idle) open->ended.push_back(&r);
      s.ends_as = as;
      return status::ok;
    }
    if (open != nullptr && open->refused_before.sequence == s.sequence) open->refused_before.forget();
    if (open != nullptr) open->forget_held(r);
    end_now(r, as);
    return status::ok;
  }

 private:
  void count(const step<R>& s) const noexcept {
    ++roster.counters.plans;
    if constexpr (gate_limits<Gate>) roster.gate.runs();
    if (s.blocked != 0) ++roster.counters.held_up[static_cast<std::size_t>(s.blocked_reason)];
  }
  /// Ends a request. It leaves at once, or when the last plan in flight that contains it is settled.
  void end_now(R& r, lifecycle as) const noexcept {
    if (r.state().loads && r.state().life == lifecycle::suspended) {
      request_access::state(r).ends_as = as;  // a transfer writes to its blocks until `arrived`
      return;
    }
    roster.take_out(r);
    if (step<R>* const last = plans.last_with(r); last != nullptr) {
      hold(r, as, *last);
    } else {
      roster.let_go(r, as);
    }
  }
  static void hold(R& r, lifecycle as, step<R>& until) noexcept {
    request_access::state(r).ends_as = as;
    until.ended.push_back(&r);
  }
  /// Removes requests that ended while a plan was open, which is open no more.
  void let_ended_go(step<R>& s) const noexcept {
    const std::size_t n = s.ended.size();
    R** const first = s.ended.begin();
    s.ended.clear();
    // A request that is held until this plan is settled takes a place of a request that has had its turn.
    for (std::size_t i = 0; i != n; ++i) end_now(*first[i], first[i]->state().ends_as);
    roster.settle_left_behind();
  }

  /// @tparam Advanced whether the plan counts as run already.
  template <bool Advanced>
  void settle(step<R>& s, std::span<const outcome> outcomes, time_point now) const noexcept {
    if constexpr (Advanced) {
      find_again(s.decode, s.decode_at);
      find_again(s.prefill, s.prefill_at);
    } else {
      count(s);
      roster.settle_evictions(s.kept, s.moves);
      roster.kv.close_rows(s.moves);
      roster.settle_admissions(s.admitted, s.first_guest);
    }
    const outcome* o = outcomes.data();
    bool spoilt = false;
    const std::uint32_t mark = s.mark();
    const std::span<const scheduled<R>> decode = s.decode;
    const std::uint32_t* const decode_at = s.decode_at.data();
    constexpr std::size_t ahead = 8;
    for (std::size_t i = 0; i != decode.size(); ++i, ++o) {
      if (i + ahead < decode.size()) detail::prefetch(&decode[i + ahead].request->state());
      if (!roster.template settle_decode<Advanced>(decode[i], *o, decode_at[i], mark)) [[unlikely]] {
        settle_entry<Advanced>(decode[i], *o, decode_at[i], now, mark);
        spoilt = spoilt || o->spoilt;
      }
    }
    for (std::size_t i = 0; i != s.prefill.size(); ++i, ++o) {
      settle_entry<Advanced>(s.prefill[i], *o, s.prefill_at[i], now, mark);
      spoilt = spoilt || o->spoilt;
    }
    roster.residents.settle();
    plans.pop_oldest();
    if constexpr (Advanced) {
      for (R* r : s.ended) roster.let_go_late(*r);
      s.ended.clear();
      roster.kv.close_rows(s.moves);
    } else {
      let_ended_go(s);
    }
    if (spoilt) [[unlikely]]
      take_spoilt(s, outcomes);
  }
  /// Takes the KV of requests that was computed from KV that did not come, on the device or the host.
  void take_spoilt(const step<R>& s, std::span<const outcome> outcomes) const noexcept {
    for (std::size_t i = 0; i != outcomes.size(); ++i) {
      const scheduled<R>& e = i < s.decode.size() ? s.decode[i] : s.prefill[i - s.decode.size()];
      R& r = *e.request;
      if (!outcomes[i].spoilt || r.state().ends_as != lifecycle::idle) continue;
      if (r.state().life == lifecycle::waiting) {
        drop_host_copy(r);
      } else if (r.state().row == e.row || (swapped_in_flight(r) && !r.state().loads)) {
        if (r.state().parked) roster.ready(r);
        if (r.state().life == lifecycle::suspended) roster.resume(r);
        preempt(r);
      }  // else it has lost those blocks since, and perhaps has others by now
    }
  }
  /// A waiting request loses its copy on the host, if it has one, and restarts.
  void drop_host_copy(R& r) const noexcept {
    auto& s = request_access::state(r);
    if (s.host_head == no_index) return;
    roster.kv.forget_host_copy(r);
    roster.expect_kv(r, tokens{}, false);
    s.cached_blocks = 0;
    s.restarted = true;
  }
  /// Whether a plan in flight swaps the request out: KV of earlier plans may have come back with it.
  [[nodiscard]] bool swapped_in_flight(const R& r) const noexcept {
    bool found = false;
    plans.for_each([&](const step<R>& p) noexcept {
      for (const kv_transfer<R>& t : p.moves.swap_out) found = found || t.request == &r;
    });
    return found;
  }
  template <bool Advanced>
  void settle_entry(const scheduled<R>& e, const outcome& o, std::uint32_t at, time_point now,
                    std::uint32_t mark) const noexcept {
    R& r = *e.request;
    if (r.state().ends_as == lifecycle::idle) [[likely]] {
      if (roster.template settle<Advanced>(e, o, at, now, mark)) {
        hold(r, r.state().ends_as, *plans.last_with(r));
      }
    } else if (!Advanced && at == no_index) {
      roster.residents.collect(r);  // it started in the plan, and is a resident until that is settled
    }
  }
  /// The present places of a plan's requests among the residents; `no_index`: they wait, are suspended or have ended.
  /// Mostly each has moved as far as the one before.
  void find_again(const fixed_vector<scheduled<R>>& entries, fixed_vector<std::uint32_t>& at) const noexcept {
    const std::span<R* const> all = roster.residents.all();
    std::uint32_t moved = 0;
    for (std::size_t i = 0; i != entries.size(); ++i) {
      const R& r = *entries[i].request;
      const std::uint32_t guess = at[i] + moved;
      if (guess < all.size() && all[guess] == &r) [[likely]] {
        at[i] = guess;
      } else if (r.state().life == lifecycle::resident && r.state().ends_as == lifecycle::idle) {
        const auto found = static_cast<std::uint32_t>(roster.residents.place_of(r));
        moved = found - at[i];
        at[i] = found;
      } else {
        at[i] = no_index;
      }
    }
  }
};

}  // namespace detail
TESSERA_NAMESPACE_END
