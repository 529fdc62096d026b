// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/storage.hpp>
#include <tessera/order/fcfs.hpp>
#include <tessera/pipeline/kv_ledger.hpp>
#include <tessera/pipeline/limits.hpp>
#include <tessera/pipeline/plan.hpp>
#include <tessera/pipeline/refusal.hpp>
#include <tessera/pipeline/resident_set.hpp>
#include <tessera/queue/ordered_queue.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// The requests of one instance, each waiting, resident or suspended, with the KV that it holds; and the ways from one
/// to the other, for good. Knows nothing of a step's limits, nor of who is chosen for it. Tells the refusal that is
/// remembered of what may make it false.
///
/// Residents and suspended requests together are at most `scheduler_limits::residents`: who starts one sees to that.
template <schedulable Request, class Order, class BlockStore>
struct roster {
  using state = typename Request::state_type;
  using time_point = basic_time_point<typename Request::clock_type>;
  using ledger = kv_ledger<Request, BlockStore>;

  [[nodiscard]] static constexpr std::size_t required_bytes(const scheduler_limits& l) noexcept {
    return storage_layout{}
        .add_bytes(kv_ledger<Request, BlockStore>::required_bytes(l))
        .add_bytes(resident_set<Request, Order>::required_bytes(l.residents))
        .add_bytes(fixed_vector<std::uint32_t>::required_bytes(l.residents))
        .bytes();
  }

  roster(arena& memory, const scheduler_limits& l, const Order& order) noexcept
      : waiting{order},
        kv{memory, l},
        residents{memory, l.residents, waiting.discipline()},
        left_rows{memory, l.residents},
        block_size{l.block_size} {}

  static state& state_of(Request& r) noexcept { return request_access::state(r); }
  Order& discipline() noexcept { return waiting.discipline(); }

  [[nodiscard]] bool contains(const Request& r) const noexcept {
    switch (r.state().life) {
      case lifecycle::waiting: return waiting.contains(r);
      case lifecycle::resident: return residents.contains(r);
      case lifecycle::suspended: return suspended.contains(r);
      default: return false;
    }
  }

  /// Lets `now` come: whose time has come ages, residents at once, those who wait when it is their turn.
  void advance(time_point now) noexcept {
    waiting.advance(now);
    if constexpr (Order::ages) residents.advance(now, [this](Request& r) noexcept { discipline().age(r); });
  }

  /// A request comes. It has waited since it arrived, here or elsewhere.
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
  }

  /// A request begins as a copy of a resident one, with its KV. False, and no change, if there is no room for it.
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
    s.shared_blocks = static_cast<std::uint32_t>(kv.held(child));
    s.guest = parent.state().guest;  // it is there by the same grace
    s.life = lifecycle::resident;
    residents.insert(child);
    return true;
  }

  /// Takes a request out of wherever it is and gives back all it holds.
  void remove(Request& r, lifecycle as) noexcept {
    state& s = state_of(r);
    if (s.life == lifecycle::waiting) {
      waiting.erase(r);
      // A copy that does not have what was left to others is of no use elsewhere.
      if (as == lifecycle::idle && kv.left_to_others(r) != 0) s.computed = tokens{};
      kv.forget_host_copy(r);
      s.swapped = false;
      if (refused.sequence == s.sequence) refused.forget();
    } else {
      if (s.life == lifecycle::resident) {
        departs(r, residents.erase(r));
      } else {
        leave_suspended(r);
      }
      kv.release(r);
    }
    end(r, as);
  }

  /// A resident stands aside with its blocks, and comes back.
  void suspend(Request& r) noexcept {
    departs(r, residents.erase(r));  // what it was promised is promised no more
    suspended.insert(r);
    suspended_blocks += blocks{kv.held(r)};
    state_of(r).life = lifecycle::suspended;
  }
  void resume(Request& r) noexcept {
    leave_suspended(r);
    residents.insert(r);
    state_of(r).life = lifecycle::resident;
  }

  /// A resident loses its KV, and waits at the place that it has.
  void preempt(Request& r) noexcept {
    departs(r, residents.erase(r));
    kv.release(r);
    wait_again(r, preemption_mode::recompute);
  }

  /// The prefix cache knows nothing any more.
  void forget_prefixes() noexcept {
    kv.store().clear();
    refused.forget();
    // What has been computed before is not to be found again, nor what is computed on top of it.
    const auto keep_to_itself = [](Request& r) noexcept { state_of(r).cached_blocks = ledger::keeps_to_itself; };
    for (Request* r : residents.all()) keep_to_itself(*r);
    for (Request* r = suspended.front(); r != nullptr; r = suspended.next(*r)) keep_to_itself(*r);
    for (Request* r = waiting.front(); r != nullptr; r = waiting.next(*r)) {
      if (r->state().swapped) keep_to_itself(*r);
    }
  }

  /// `f(r)` changes what the order looks at.
  template <class F>
  void update(Request& r, F& f) noexcept {
    switch (r.state().life) {
      case lifecycle::waiting: waiting.update(r, f); break;
      case lifecycle::suspended: f(r); break;
      default:
        residents.erase(r);
        f(r);
        residents.insert(r);
    }
    refused.forget();
  }

  /// A suspended request goes while a plan is pending. The plan must be undoable to the letter: the blocks go when it
  /// is settled.
  void leave_behind(Request& r) noexcept {
    leave_suspended(r);
    left_rows.push_back(kv.leave_row(r));
    discipline().leave(r);
    state_of(r).life = lifecycle::idle;
  }
  void settle_left_behind() noexcept {
    for (const std::uint32_t row : left_rows) {
      refused.given_back(blocks{static_cast<std::int64_t>(kv.table().size(row))});
      kv.release_row(row);
    }
    left_rows.clear();
  }

  /// The plan's victims are all residents but the first `kept`: they leave together, and wait at the place they have.
  void settle_evictions(std::size_t kept) noexcept {
    if (kept == residents.size()) return;
    for (std::size_t i = kept; i != residents.size(); ++i) departs(*residents[i], i);
    residents.truncate(kept);
    for (const preemption<Request>& v : kv.victims()) {
      kv.close_row(*v.request);
      wait_again(*v.request, v.mode);
    }
  }

  /// Those who start stop waiting; `settle_places` makes them residents. From `first_guest` on they are guests.
  void settle_admissions(std::span<Request* const> admitted, std::size_t first_guest) noexcept {
    for (std::size_t i = 0; i != admitted.size(); ++i) {
      Request* const r = admitted[i];
      state& s = state_of(*r);
      s.guest = i >= first_guest;
      if (refused.sequence == s.sequence) refused.forget();
      waiting.erase(*r);
      s.life = lifecycle::resident;
      // What it had left to others may be gone, and with it the use of its copy: it begins anew.
      const bool comes_back = s.swapped && kv.left_to_others(*r) <= s.shared_blocks;
      if (s.swapped && !comes_back) s.restarted = true;
      if (!comes_back || s.cached_blocks != ledger::keeps_to_itself) s.cached_blocks = s.shared_blocks;
      refused.more_in_use(blocks{static_cast<std::int64_t>(s.shared_blocks)});
      kv.forget_host_copy(*r);
      s.swapped = false;
    }
  }

  /// The common case of `settle`: one token of a resident that goes on. False, and no change, if it is not that.
  [[nodiscard]] bool settle_decode(const scheduled<Request>& e, const outcome& o, std::uint32_t at,
                                   std::uint32_t mark) noexcept {
    Request& r = *e.request;
    state& s = state_of(r);
    if (o.produced != 1 || o.finished || o.failed || o.end_of_reasoning || at == no_index || s.restarted ||
        e.lookahead != tokens{} || s.ends_as != lifecycle::idle) {
      return false;
    }
    s.computed = s.length;
    s.length += tokens{1};
    s.marked_in = mark;
    s.mark = plan_mark::runs;
    if (e.new_blocks != 0) kv.table().tell(s.row);
    if constexpr (kv_ledger<Request, BlockStore>::shares) {
      if (s.computed % block_size == tokens{}) publish(r);  // else no block is full that was not
    }
    if (discipline().charge(r, tokens{1})) move(r, at, true, false, {});
    return true;
  }

  /// What came of an entry of a plan. `at`: where the request stands among the residents; `no_index` if it has started
  /// in this plan. Places are given, but not taken before `settle_places`.
  void settle(const scheduled<Request>& e, const outcome& o, std::uint32_t at, time_point now,
              std::uint32_t mark) noexcept {
    Request& r = *e.request;
    state& s = state_of(r);
    s.marked_in = mark;
    s.mark = plan_mark::runs;
    s.computed = e.first + e.count;
    tokens produced{};
    if (e.samples) {
      TESSERA_ASSERT(o.produced > 0 || o.failed, "a sampling entry produces a token or fails");
      TESSERA_ASSERT(tokens{o.produced} <= tokens{1} + e.lookahead || o.failed, "more tokens than lookahead slots");
      // What has no KV, or would leave nothing to compute, is not believed.
      produced = min(max(tokens{o.produced}, tokens{o.failed ? 0 : 1}), tokens{1} + e.lookahead);
      s.length += produced;
      if (produced > tokens{1}) s.computed = s.length - tokens{1};
    }
    if (e.new_blocks != 0) kv.table().tell(s.row);
    if (!o.failed) publish(r);
    if (o.finished || o.failed) {
      departs(r, at);
      if (at != no_index) residents.vacate(at);
      kv.release(r);
      end(r, o.failed ? lifecycle::failed : lifecycle::finished);
      return;
    }
    if (e.lookahead > tokens{}) {
      const auto needed = static_cast<std::size_t>(blocks_for(s.computed, block_size).count());
      refused.given_back(blocks{static_cast<std::int64_t>(kv.trim(r, needed))});
    }
    const bool due = discipline().charge(r, produced);
    const bool ends_reasoning = e.samples && o.end_of_reasoning && s.phase == phase::reasoning;
    const bool made_up = s.restarted && produced > tokens{};
    if (due || ends_reasoning || made_up) {
      if (made_up) s.restarted = false;
      move(r, at, due, ends_reasoning, now);
    } else if (at == no_index) {
      residents.collect(r);
    }
  }
  /// One that started in the plan, and was cancelled meanwhile, is a resident until that is settled.
  void settle_cancelled(Request& r, std::uint32_t at) noexcept {
    if (at == no_index) residents.collect(r);
  }
  void settle_places() noexcept { residents.settle(); }

  ordered_queue<Request, Order> waiting;
  kv_ledger<Request, BlockStore> kv;
  resident_set<Request, Order> residents;
  ordered_queue<Request, order::fcfs> suspended;  ///< In no order that matters: to be found.
  fixed_vector<std::uint32_t> left_rows;          ///< Of requests that have left since the plan was made.
  tokens block_size;
  blocks suspended_blocks{};        ///< That suspended requests hold; a block that two of them share counts twice.
  std::uint64_t next_sequence = 1;  ///< Of the next request that joins.
  refusal refused;                  ///< What is known of the waiting request that was refused last,
  const Request* refused_request = nullptr;  ///< and which it is, while `refused.matched`.

 private:
  /// Full blocks of the prompt become findable. What was only cached of a refused prefix, or not known, is in use then.
  void publish(Request& r) noexcept {
    const std::size_t seen = kv.publish(r, refused.matched ? refused_request : nullptr, refused.known);
    refused.more_in_use(blocks{static_cast<std::int64_t>(seen)});
  }
  /// A resident gets another place, perhaps behind who was refused.
  void move(Request& r, std::uint32_t at, bool due, bool ends_reasoning, time_point now) noexcept {
    state& s = state_of(r);
    departs(r, at);
    if (at != no_index) residents.vacate(at);
    residents.collect(r);
    if (due) discipline().requeue(r);
    if (ends_reasoning) {
      s.phase = phase::answering;
      s.reasoning = r.generated();
      s.answering_since = now;
      discipline().change_phase(r);
    }
  }
  /// Perhaps one of those who may be evicted from now on, or gone.
  void leave_suspended(Request& r) noexcept {
    suspended.erase(r);
    suspended_blocks -= blocks{kv.held(r)};
    departs(r, no_index);
  }
  /// One that stands at `at`, or nowhere (`no_index`), is about to give back what it has and what it was promised. Its
  /// row is still its own.
  void departs(const Request& r, std::size_t at) noexcept {
    if (at <= residents.bookmark() || at == no_index) {
      refused.given_back(max(blocks{kv.held(r)}, blocks_for(r.state().length, block_size)));
    }
  }
  void end(Request& r, lifecycle as) noexcept {
    state& s = state_of(r);
    discipline().leave(r);
    s.life = as;
    s.ends_as = lifecycle::idle;
    s.restarted = s.guest = false;
  }
  void wait_again(Request& r, preemption_mode mode) noexcept {
    state& s = state_of(r);
    ++s.preemptions;
    s.swapped = mode == preemption_mode::swap;
    if (!s.swapped) {
      s.computed = tokens{};
      s.restarted = true;
    }
    s.guest = false;
    s.life = lifecycle::waiting;
    waiting.insert(r);
  }
};

}  // namespace detail
TESSERA_NAMESPACE_END
