// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/storage.hpp>
#include <tessera/gate/concepts.hpp>
#include <tessera/order/fcfs.hpp>
#include <tessera/pipeline/counters.hpp>
#include <tessera/pipeline/deadlines.hpp>
#include <tessera/pipeline/kv_ledger.hpp>
#include <tessera/pipeline/limits.hpp>
#include <tessera/pipeline/plan.hpp>
#include <tessera/pipeline/prefix_leaders.hpp>
#include <tessera/pipeline/prompt_limits.hpp>
#include <tessera/pipeline/refusal.hpp>
#include <tessera/pipeline/resident_set.hpp>
#include <tessera/pipeline/waiting_queue.hpp>
#include <tessera/queue/ordered_queue.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// Requests as they come to a scheduler, leave, and change between waiting, resident and suspended.

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// The requests of one instance, each waiting, resident or suspended, with the KV that it holds, and the transitions
/// between these. All changes are final. Independent of a step's limits and of its choices. Reports to the remembered
/// refusal what may make it false.
///
/// A parked request is not in any queue: the order's state keeps its place, and `ready` finds it again.
///
/// Residents, suspended requests and requests that have left their blocks to a copy (`draining`) are at most
/// `scheduler_limits::residents` together. The caller that starts a request ensures that.
template <schedulable Request, class Order, class BlockStore, class Gate>
struct roster {
  using state = typename Request::state_type;
  using time_point = basic_time_point<typename Request::clock_type>;
  using ledger = ledger_for<Request, BlockStore>;
  using limits = typename ledger::limits;
  using hash = typename ledger::hash;
  using waiting_queue = detail::waiting_queue<Request, Order, Gate>;

  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add_bytes(ledger::required_bytes(l))
        .add_bytes(resident_set<Request, Order>::required_bytes(l.residents))
        .add_bytes(fixed_vector<std::uint32_t>::required_bytes(l.residents))
        .add_bytes(detail::deadlines<Request>::required_bytes(l.deadlines))
        .add_bytes(prefix_leaders<Request, hash>::required_bytes(most_prompts(l)))
        .add_bytes(waiting_bytes<Request, Order, Gate>(l))
        .bytes();
  }

  roster(arena& memory, const limits& l, const Order& order, const Gate& g) noexcept
      : waiting(make_waiting<Request>(memory, l, order, gate)),
        kv{memory, l},
        residents{memory, l.residents, waiting.discipline()},
        left_rows{memory, l.residents},
        deadlines{memory, l.deadlines},
        leaders{memory, most_prompts(l)},
        gate{g} {}

  /// Prompts in the plans in flight, and in the present plan.
  [[nodiscard]] static constexpr std::size_t most_prompts(const limits& l) noexcept {
    return ledger::shares ? l.residents * l.plans_in_flight : 0;
  }

  static state& state_of(Request& r) noexcept { return request_access::state(r); }
  Order& discipline() noexcept { return waiting.discipline(); }

  [[nodiscard]] bool contains(const Request& r) const noexcept {
    switch (r.state().life) {
      case lifecycle::waiting: return r.state().parked ? parked.contains(r) : waiting.contains(r);
      case lifecycle::resident: return residents.contains(r);
      case lifecycle::suspended: return suspended.contains(r);
      default: return false;
    }
  }

  /// Tells the time: residents age at once, waiting requests when their turn comes.
  void advance(time_point now) noexcept {
    waiting.advance(now);
    if constexpr (Order::ages) residents.advance(now, [this](Request& r) noexcept { discipline().age(r); });
    if constexpr (requires { kv.store().advance(now); }) kv.store().advance(now);
  }

  /// A request joins. It has waited since it arrived, here or elsewhere.
  void join(Request& r, const request_progress<typename Request::clock_type>& p) noexcept {
    state& s = state_of(r);
    s = state{};
    s.length = p.length;
    s.computed = p.computed;
    s.swapped = p.computed > tokens{};
    s.reasoning = p.reasoning;
    s.phase = p.phase;
    s.carried = p.carried;
    s.preemptions = p.preemptions;
    s.arrived = p.arrived;
    s.answering_since = p.answering_since;
    s.sequence = next_sequence++;
    s.life = lifecycle::waiting;
    request_access::begin_order_state<Order>(r);
    discipline().enter(r, s.arrived);
    waiting.insert(r);
    ++counters.joined;
    if constexpr (gate_counts<Gate>) gate.joins(r);
  }

  /// Starts a request as a copy of a resident one, with its KV. False, and no change, if there is no room for it.
  [[nodiscard]] bool fork(const Request& parent, Request& child) noexcept {
    request_progress<typename Request::clock_type> p = parent.progress();
    p.preemptions = 0;
    state& s = state_of(child);
    if (!kv.fork(parent, child)) return false;
    const std::uint32_t row = s.row;
    join(child, p);
    waiting.erase(child);
    s.row = row;
    s.swapped = false;
    s.cached_blocks = parent.state().cached_blocks;
    s.shared_blocks = static_cast<std::uint32_t>(blocks_for(s.computed, kv.block_size()).count());
    s.backfilled = parent.state().backfilled;  // it is backfilled like its parent
    s.forked = true;
    s.life = lifecycle::resident;
    residents.insert(child);
    if constexpr (gate_counts<Gate>) gate.started(child);
    return true;
  }

  /// Takes a request out of its present container. It keeps what it holds, for `let_go`.
  void take_out(Request& r) noexcept {
    const state& s = r.state();
    if (s.life == lifecycle::waiting) {
      if constexpr (gate_counts<Gate>) {
        if (!s.parked) gate.left(r);
      }
      leave_line(r);
      if (s.loads) state_of(r).computed = tokens{};  // none of it has come here
    } else if (s.life == lifecycle::resident) {
      return departs(r, residents.erase(r));
    } else {
      leave_suspended(r);
    }
    stand_nowhere(r);
  }
  /// A request that has been taken out gives back all it holds, and has ended or left.
  void let_go(Request& r, lifecycle as) noexcept {
    state& s = state_of(r);
    if (s.row != no_index) kv.release(r);
    // A copy without the blocks that were left to others is of no use elsewhere.
    if (as == lifecycle::idle && s.life == lifecycle::waiting && kv.left_to_others(r) != 0) s.computed = tokens{};
    kv.forget_host_copy(r);
    s.swapped = false;
    discipline().leave(r);
    if constexpr (gate_counts<Gate>) {
      if (s.life != lifecycle::waiting) gate.stopped(r), gate.left(r);  // else the gate has been told
    }
    s.life = as;
    count_end(as);
    s.ends_as = lifecycle::idle;
    s.restarted = s.backfilled = s.drafted = false;
    s.expected = 0;
  }
  /// The same for a request that was held by plans in flight, which are settled now.
  void let_go_late(Request& r) noexcept {
    if (r.state().row != no_index) refused.given_back(kv.held(r));
    let_go(r, r.state().ends_as);
  }
  void remove(Request& r, lifecycle as) noexcept {
    take_out(r);
    let_go(r, as);
  }

  /// Suspends a resident with its blocks, and resumes it.
  void suspend(Request& r) noexcept {
    departs(r, residents.erase(r));  // the promise of blocks to it ends
    stand_aside(r);
  }
  void resume(Request& r) noexcept {
    leave_suspended(r);
    residents.insert(r);
    state_of(r).life = lifecycle::resident;
  }

  /// Parks a waiting request or a resident, and brings it back to its place.
  void park(Request& r) noexcept {
    if (r.state().life == lifecycle::waiting) {
      leave_line(r);
      parked.insert(r);
      if constexpr (gate_counts<Gate>) gate.left(r);
    } else {
      suspend(r);
    }
    state_of(r).parked = true;
  }
  void ready(Request& r) noexcept {
    deadlines.drop(deadline_of::parked, r);
    if (r.state().life == lifecycle::waiting) {
      parked.erase(r);
      waiting.insert(r);
      if constexpr (gate_counts<Gate>) gate.joins(r);
    } else {
      resume(r);
    }
    state_of(r).parked = false;
  }

  /// The KV of the first `n` tokens of a waiting request is in transfer (`later`), or comes when it starts. 0: none
  /// comes, and `later` is false.
  void expect_kv(Request& r, tokens n, bool later) noexcept {
    state& s = state_of(r);
    s.computed = n;
    s.swapped = n != tokens{};
    s.loads = later;
    if (refused.sequence == s.sequence) refused.forget();
  }
  /// The KV of a suspended request has arrived. Only the KV of its first `n` tokens (or its shared prefix) is resident.
  void arrived(Request& r, tokens n) noexcept {
    state& s = state_of(r);
    deadlines.drop(deadline_of::loading, r);
    s.loads = false;
    s.computed = max(n, kv.block_size() * static_cast<std::int64_t>(s.shared_blocks));
    publish(r, s.computed);  // not when its next block is full: an equal prompt may come before
    resume(r);
  }

  /// A request leaves, and its blocks stay held until `drained`. Requires: no plan with it is open or in flight, and
  /// there is room for a deadline.
  void drain(Request& r, lifecycle as, std::uint64_t ticket, time_point deadline) noexcept {
    const blocks n = kv.held(r);
    take_out(r);
    deadlines.add(deadline_of::draining, ticket, deadline).row = kv.leave_row(r);
    let_go(r, as);
    ++draining;
    suspended_blocks += n;
  }
  /// Frees drained blocks; if there is an open plan, only once it is not open any more.
  void drained(typename detail::deadlines<Request>::entry& e, bool is_open) noexcept {
    const blocks n = kv.held(e.row);
    if (is_open) {
      left_rows.push_back(e.row);
    } else {
      refused.given_back(n);
      kv.release_row(e.row);
    }
    --draining;
    suspended_blocks -= n;
    deadlines.erase(e);
  }

  /// A resident loses its KV, and waits at its place. `last_plan`: the moves of the last plan in flight that contains
  /// it; null if there is none.
  void preempt(Request& r, kv_moves<Request>* last_plan) noexcept {
    departs(r, residents.erase(r));
    if (last_plan != nullptr) {
      kv.release(r, *last_plan);
    } else {
      kv.release(r);
    }
    wait_again(r, preemption_mode::recompute);
  }

  /// Clears the prefix cache.
  void forget_prefixes() noexcept {
    kv.forget_prefixes();
    refused.forget();
    // KV computed before must not be found again, nor KV that continues it.
    const auto keep_to_itself = [](Request& r) noexcept { state_of(r).cached_blocks = ledger::keeps_to_itself; };
    for (Request* r : residents.all()) keep_to_itself(*r);
    for (Request* r = suspended.front(); r != nullptr; r = suspended.next(*r)) keep_to_itself(*r);
    const auto keep_to_themselves = [&](const auto& line) noexcept {
      line.for_each([&](const Request& r) noexcept {
        if (r.state().swapped) keep_to_itself(const_cast<Request&>(r));  // the queue gives const access
      });
    };
    keep_to_themselves(waiting);
    keep_to_themselves(parked);
  }

  /// `f(r)` changes what the order reads.
  template <class F>
  void update(Request& r, F& f) noexcept {
    switch (r.state().life) {
      case lifecycle::waiting: r.state().parked ? static_cast<void>(f(r)) : waiting.update(r, f); break;
      case lifecycle::suspended: f(r); break;
      default:
        residents.erase(r);
        f(r);
        residents.insert(r);
    }
    refused.forget();
  }

  /// A suspended request leaves while a plan is open. That plan must be undoable exactly, so the blocks are freed when
  /// it is not open any more.
  void leave_behind(Request& r) noexcept {
    leave_suspended(r);
    left_rows.push_back(kv.leave_row(r));
    discipline().leave(r);
    stand_nowhere(r);
    if constexpr (gate_counts<Gate>) gate.stopped(r), gate.left(r);
    state_of(r).life = lifecycle::idle;
    count_end(lifecycle::idle);
  }
  void settle_left_behind() noexcept {
    for (const std::uint32_t row : left_rows) {
      refused.given_back(kv.held(row));
      kv.release_row(row);
    }
    left_rows.clear();
  }

  /// The plan's victims are all residents except the first `kept`: they leave together, and wait at their places. The
  /// plan owns their rows.
  void settle_evictions(std::size_t kept, kv_moves<Request>& moves) noexcept {
    kv.stands(moves);
    counters.host_hit_blocks += moves.found_on_host;
    if (kept == residents.size()) return;
    // If victims were chosen, it is unknown which of them stood before the bookmark.
    const bool chosen = !residents.in_order();
    for (std::size_t i = kept; i != residents.size(); ++i) departs(*residents[i], chosen ? no_index : i);
    residents.truncate(kept);
    for (const preemption<Request>& v : moves.victims) {
      moves.left_rows.push_back(kv.leave_row(*v.request));
      wait_again(*v.request, v.mode);
    }
  }

  /// Takes starting requests off the queue; `residents.settle` makes them residents. From `first_guest` on they are
  /// backfilled.
  void settle_admissions(std::span<Request* const> admitted, std::size_t first_guest) noexcept {
    for (std::size_t i = 0; i != admitted.size(); ++i) {
      Request* const r = admitted[i];
      state& s = state_of(*r);
      s.backfilled = i >= first_guest;
      if (refused.sequence == s.sequence) refused.forget();
      waiting.erase(*r);
      s.life = lifecycle::resident;
      // The blocks that it had left to others may be gone, and with them the use of its copy: it restarts.
      const bool comes_back = s.swapped && kv.left_to_others(*r) <= s.shared_blocks;
      if (s.swapped && !comes_back) s.restarted = true;
      if (!comes_back || s.cached_blocks != ledger::keeps_to_itself) s.cached_blocks = s.shared_blocks;
      refused.more_in_use(kv.found(*r));
      ++counters.started;
      counters.hit_blocks += s.shared_blocks;
      counters.all_blocks += static_cast<std::uint64_t>(blocks_for(s.length, kv.block_size()).count());
      kv.forget_host_copy(*r);
      s.swapped = false;
      deadlines.drop(deadline_of::waiting, *r);
      if constexpr (gate_counts<Gate>) gate.started(*r);
      if (!s.loads) continue;
      if (kv.block_size() * static_cast<std::int64_t>(s.shared_blocks) >= s.computed) {
        deadlines.drop(deadline_of::loading, *r);  // all KV was here already
        s.loads = false;
      } else {
        stand_aside(*r);
      }
    }
  }

  /// Counts an entry of a plan as run before its outcome is known, because another plan is made on top. `at`: its place
  /// among the residents; `no_index` if it starts in this plan. Places are assigned; `residents.settle` moves the
  /// requests.
  void advance(const scheduled<Request>& e, std::uint32_t at, std::uint32_t mark) noexcept {
    Request& r = *e.request;
    state& s = state_of(r);
    count_as_run(e, mark);
    const bool made_up = s.restarted && e.samples;
    if (made_up) s.restarted = false;
    if (at == no_index) {
      residents.collect(r);
    } else if (made_up) {
      move(r, at, false, false, {});
    }
  }

  /// The common case of `settle`: one token of a resident that continues. False, and no change, if it is another case.
  /// @tparam Advanced whether `advance` has been called for the entry.
  template <bool Advanced>
  [[nodiscard]] bool settle_decode(const scheduled<Request>& e, const outcome& o, std::uint32_t at,
                                   std::uint32_t mark) noexcept {
    Request& r = *e.request;
    state& s = state_of(r);
    if (o.produced != 1 || o.finished || o.failed || o.spoilt || o.end_of_reasoning || at == no_index || s.restarted ||
        e.lookahead != tokens{} || s.ends_as != lifecycle::idle || is_bounded<Gate>(r, e.first)) {
      return false;
    }
    if constexpr (Advanced) {
      if (s.drafted || !e.samples) return false;
      --s.expected;
    } else {
      s.computed = s.length;
      s.marked_in = mark;
      s.mark = plan_mark::runs;
      if (e.new_blocks != 0) kv.tell(s.row);
    }
    const tokens known = s.length;
    s.length += tokens{1};
    if constexpr (gate_counts<Gate>) gate.charge(r, tokens{1});
    if (kv.fills_block(r, known)) publish(r, known);  // else no further block is full
    if (discipline().charge(r, tokens{1})) move(r, at, true, false, {});
    return true;
  }

  /// Applies the outcome of an entry of a plan. `at`: its place among the residents; `no_index` if it has none yet,
  /// because it starts in this plan, or none any more. Places are assigned; `residents.settle` moves the requests.
  /// True: it has ended, but a later plan in flight contains it, and it leaves when that is settled.
  template <bool Advanced>
  [[nodiscard]] bool settle(const scheduled<Request>& e, const outcome& o, std::uint32_t at, time_point now,
                            std::uint32_t mark) noexcept {
    Request& r = *e.request;
    state& s = state_of(r);
    if constexpr (!Advanced) count_as_run(e, mark);
    tokens produced{};
    if (e.samples) {
      TESSERA_ASSERT(o.produced > 0 || o.failed || o.spoilt, "a sampling entry produces a token or fails");
      TESSERA_ASSERT(tokens{o.produced} <= tokens{1} + e.lookahead || o.failed || o.spoilt,
                     "more tokens than lookahead slots");
      // A value without KV, or that would leave nothing to compute, is not accepted.
      const tokens most = tokens{1} + e.lookahead;
      produced = o.spoilt ? tokens{} : min(max(tokens{o.produced}, tokens{o.failed ? 0 : 1}), most);
      s.length += produced;
      if constexpr (gate_counts<Gate>) gate.charge(r, produced);
      s.expected = static_cast<std::uint16_t>(s.expected - most.count());
      kv.take_back(r, most - max(produced, tokens{1}));
    }
    // All tokens except the last have known KV. (A request that has lost its blocks since has another row, or none.)
    if (!o.failed && !o.spoilt && s.row == e.row) {
      publish(r, e.samples ? s.length - tokens{1} : e.first + e.count);
      has_run_prompt(gate, r, e.first, e.count);
    }
    if (o.finished || o.failed) {
      const lifecycle as = o.failed ? lifecycle::failed : lifecycle::finished;
      if (s.life != lifecycle::resident) {
        take_out(r);
      } else {
        departs(r, at);
        if (at != no_index) residents.vacate(at);
      }
      if (s.marked_in != mark) {
        s.ends_as = as;
        return true;
      }
      let_go(r, as);
      return false;
    }
    if (s.drafted && s.expected == 0) give_back_drafts(r);
    const bool due = discipline().charge(r, produced);
    const bool ends_reasoning = produced > tokens{} && o.end_of_reasoning && s.phase == phase::reasoning;
    const bool made_up = s.restarted && produced > tokens{} && s.life == lifecycle::resident;
    if (due || ends_reasoning || made_up) {
      if (made_up) s.restarted = false;
      move(r, at, due, ends_reasoning, now);
    } else if (!Advanced && at == no_index) {
      residents.collect(r);
    }
    return false;
  }

  waiting_queue waiting;
  ledger kv;
  resident_set<Request, Order> residents;
  ordered_queue<Request, order::fcfs> suspended;  ///< In no particular order: only to be found.
  ordered_queue<Request, order::fcfs> parked;     ///< Parked requests without blocks, in no particular order.
  fixed_vector<std::uint32_t> left_rows;          ///< Rows of requests that have left since the open plan was made.
  detail::deadlines<Request> deadlines;
  prefix_leaders<Request, hash> leaders;  ///< Leaders of this plan and those in flight.
  [[no_unique_address]] Gate gate;
  scheduler_counters counters;
  std::size_t draining = 0;         ///< Draining rows: their requests have left, their blocks have not.
  blocks suspended_blocks{};        ///< Blocks that suspended requests hold, or that are draining; a block that two of
                                    ///< them share counts twice.
  std::uint64_t next_sequence = 1;  ///< For the next request that joins.
  refusal refused;                  ///< The remembered refusal of the waiting request that was refused last,
  const Request* refused_request = nullptr;  ///< and that request, while `refused.matched`.
  bool keep_draft_blocks = false;            ///< `scheduler_config::keep_draft_blocks`.

 private:
  /// Makes full blocks of the prompt findable. Blocks of a refused prefix that were only cached, or unknown, are then
  /// in use. Blocks that a window has passed are given back.
  void publish(Request& r, tokens computed) noexcept {
    const std::size_t seen = kv.publish(r, computed, refused.matched ? refused_request : nullptr, refused.known);
    refused.more_in_use(blocks{static_cast<std::int64_t>(seen)});
    if constexpr (ledger::slides) {
      const blocks n = kv.slide(r, computed);
      refused.given_back(n);
      if (r.state().life == lifecycle::suspended) suspended_blocks -= n;
    }
  }
  /// Counts an entry of a plan as run, with the most that it can produce.
  void count_as_run(const scheduled<Request>& e, std::uint32_t mark) noexcept {
    state& s = state_of(*e.request);
    s.marked_in = mark;
    s.mark = plan_mark::runs;
    s.computed = e.first + e.count + e.lookahead;
    if (e.samples) s.expected = static_cast<std::uint16_t>(s.expected + 1 + e.lookahead.count());
    if (e.lookahead > tokens{}) s.drafted = true;
    if (e.new_blocks != 0) kv.tell(s.row);
    runs_prompt(gate, *e.request, e.first, e.count);
  }
  /// A request with slots for drafts has no plan in flight any more.
  void give_back_drafts(Request& r) noexcept {
    state& s = state_of(r);
    s.drafted = false;
    if (s.row == no_index || keep_draft_blocks) return;
    const blocks n = kv.trim(r, s.computed);
    refused.given_back(n);
    if (s.life == lifecycle::suspended) suspended_blocks -= n;
  }
  /// A request gets another place, perhaps behind the refused one. It is a resident at `at`, or a future one
  /// (`no_index`), or waits, or is suspended by now.
  void move(Request& r, std::uint32_t at, bool due, bool ends_reasoning, time_point now) noexcept {
    const auto change = [&](Request& q) noexcept { take_place(q, due, ends_reasoning, now); };
    switch (r.state().life) {
      case lifecycle::waiting:
        if (r.state().parked) return change(r);
        waiting.update(r, change);
        refused.forget();
        break;
      case lifecycle::suspended: change(r); break;
      default:
        departs(r, at);
        if (at != no_index) residents.vacate(at);
        residents.collect(r);
        change(r);
    }
  }
  void take_place(Request& r, bool due, bool ends_reasoning, time_point now) noexcept {
    state& s = state_of(r);
    if (due) discipline().requeue(r);
    if (ends_reasoning) {
      s.phase = phase::answering;
      s.reasoning = r.generated();
      s.answering_since = now;
      discipline().change_phase(r);
    }
  }
  void count_end(lifecycle as) noexcept {
    switch (as) {
      case lifecycle::finished: ++counters.finished; break;
      case lifecycle::cancelled: ++counters.cancelled; break;
      case lifecycle::failed: ++counters.failed; break;
      default: ++counters.left;
    }
  }
  void leave_line(Request& r) noexcept {
    // For a parked request as well: an abandoned plan may have restored an earlier refusal.
    if (refused.sequence == r.state().sequence) refused.forget();
    if (r.state().parked) return parked.erase(r);
    waiting.erase(r);
  }
  void stand_aside(Request& r) noexcept {
    suspended.insert(r);
    suspended_blocks += kv.held(r);
    state_of(r).life = lifecycle::suspended;
  }
  void stand_nowhere(Request& r) noexcept {
    deadlines.drop_all(r);
    state_of(r).parked = state_of(r).loads = false;
  }
  /// It may be evicted from now on, or be gone.
  void leave_suspended(Request& r) noexcept {
    suspended.erase(r);
    suspended_blocks -= kv.held(r);
    departs(r, no_index);
  }
  /// A request at `at`, or nowhere (`no_index`), is about to give back its blocks and its promised ones. It still has
  /// its row.
  void departs(const Request& r, std::size_t at) noexcept {
    if (at <= residents.bookmark() || at == no_index) {
      refused.given_back(kv.held(r) + kv.to_come(r, r.state().reach()));
    }
  }
  void wait_again(Request& r, preemption_mode mode) noexcept {
    state& s = state_of(r);
    ++s.preemptions;
    s.swapped = mode == preemption_mode::swap;
    ++(s.swapped ? counters.swapped : counters.recomputed);
    if (!s.swapped) {
      s.computed = tokens{};
      s.cached_blocks = 0;
      s.restarted = true;
    }
    s.backfilled = false;
    s.life = lifecycle::waiting;
    waiting.insert(r);
    if constexpr (gate_counts<Gate>) gate.stopped(r);
  }
};

}  // namespace detail
TESSERA_NAMESPACE_END
