// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/storage.hpp>
#include <tessera/pipeline/kv_ledger.hpp>
#include <tessera/pipeline/limits.hpp>
#include <tessera/pipeline/plan.hpp>
#include <tessera/pipeline/resident_set.hpp>
#include <tessera/queue/ordered_queue.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// The requests of one instance, each waiting, resident or suspended, with the KV that it holds; and the ways from one
/// to the other, for good. Knows nothing of a step's limits, nor of who is chosen for it.
///
/// Residents and suspended requests together are at most `scheduler_limits::residents`: who starts one sees to that.
template <schedulable Request, class Order, class BlockStore>
struct roster {
  using state = typename Request::state_type;
  using time_point = basic_time_point<typename Request::clock_type>;
  using queue = ordered_queue<Request, Order>;

  [[nodiscard]] static constexpr std::size_t required_bytes(const scheduler_limits& l) noexcept {
    return storage_layout{}
        .add_bytes(kv_ledger<Request, BlockStore>::required_bytes(l))
        .add_bytes(resident_set<Request, Order>::required_bytes(l.residents))
        .add_bytes(fixed_vector<std::uint32_t>::required_bytes(l.residents))
        .bytes();
  }

  roster(arena& memory, const scheduler_limits& l, const Order& order) noexcept
      : waiting{order}, kv{memory, l}, residents{memory, l.residents}, left_rows{memory, l.residents} {}

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

  /// Lets `now` come: whose time has come is boosted, waiting or resident.
  void advance(time_point now) noexcept {
    waiting.advance(now);
    if (residents.advance(now)) ++changes;
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
    s.demoted = p.demoted;
    s.preemptions = p.preemptions;
    s.arrived = p.arrived;
    s.answering_since = p.answering_since;
    s.sequence = next_sequence++;
    s.life = lifecycle::waiting;
    discipline().enter(r, s.arrived);
    waiting.insert(r);
  }

  /// Takes a request out of wherever it is and gives back all it holds.
  void remove(Request& r, lifecycle as) noexcept {
    state& s = state_of(r);
    if (s.life == lifecycle::waiting) {
      waiting.erase(r);
      kv.forget_host_copy(r);
      s.swapped = false;
    } else {
      if (s.life == lifecycle::resident) {
        residents.erase(r);
      } else {
        leave_suspended(r);
      }
      kv.release(r);
    }
    ++changes;
    s.life = as;
    s.ends_as = lifecycle::idle;
  }

  /// A resident stands aside with its blocks, and comes back.
  void suspend(Request& r) noexcept {
    residents.erase(r);
    suspended.insert(r);
    suspended_blocks += blocks{kv.held(r)};
    state_of(r).life = lifecycle::suspended;
    ++changes;
  }
  void resume(Request& r) noexcept {
    leave_suspended(r);
    residents.insert(r);
    state_of(r).life = lifecycle::resident;
    ++changes;
  }

  /// `f(r)` changes what the order looks at.
  template <class F>
  void update(Request& r, F& f) noexcept {
    switch (r.state().life) {
      case lifecycle::waiting: waiting.update(r, f); break;
      case lifecycle::suspended: suspended.update(r, f); break;
      default:
        residents.erase(r);
        f(r);
        residents.insert(r);
    }
    ++changes;
  }

  /// A suspended request goes while a plan is pending. The plan must be undoable to the letter: the blocks go when it
  /// is settled.
  void leave_behind(Request& r) noexcept {
    leave_suspended(r);
    left_rows.push_back(kv.leave_row(r));
    state_of(r).life = lifecycle::idle;
  }
  void settle_left_behind() noexcept {
    if (!left_rows.empty()) ++changes;
    for (const std::uint32_t row : left_rows) kv.release_row(row);
    left_rows.clear();
  }

  /// The plan's victims are all residents but the first `kept`: they leave together, and wait at the place they have.
  void settle_evictions(std::size_t kept) noexcept {
    if (kept != residents.size()) ++changes;
    residents.truncate(kept);
    for (const preemption<Request>& v : kv.victims()) {
      state& s = state_of(*v.request);
      kv.close_row(*v.request);
      s.planned = false;
      ++s.preemptions;
      s.swapped = v.mode == preemption_mode::swap;
      if (!s.swapped) s.computed = tokens{};
      s.life = lifecycle::waiting;
      waiting.insert(*v.request);
    }
  }

  void settle_admissions(std::span<Request* const> admitted) noexcept {
    if (!admitted.empty()) ++sharings;
    for (Request* r : admitted) {
      state& s = state_of(*r);
      waiting.erase(*r);
      s.life = lifecycle::resident;
      s.cached_blocks = s.shared_blocks;
      kv.forget_host_copy(*r);
      s.swapped = false;
      residents.insert(*r);
    }
  }

  /// What came of an entry of a plan.
  void settle(const scheduled<Request>& e, const outcome& o, time_point now) noexcept {
    Request& r = *e.request;
    state& s = state_of(r);
    s.computed = e.first + e.count;
    tokens produced{};
    if (e.samples) {
      TESSERA_ASSERT(o.produced > 0 || o.failed, "a sampling entry produces a token or fails");
      TESSERA_ASSERT(tokens{o.produced} <= tokens{1} + e.lookahead || o.failed, "more tokens than lookahead slots");
      produced = tokens{o.produced};
      s.length += produced;
      if (o.produced > 1) s.computed = s.length - tokens{1};
    }
    if (!o.failed && kv.publish(r)) {
      ++changes;
      ++sharings;
    }
    if (o.finished || o.failed) {
      remove(r, o.failed ? lifecycle::failed : lifecycle::finished);
      return;
    }
    const bool due = discipline().charge(r, produced);
    const bool ends_reasoning = e.samples && o.end_of_reasoning && s.phase == phase::reasoning;
    if (due || ends_reasoning) {
      ++changes;
      residents.erase(r);
      if (due) discipline().requeue(r);
      if (ends_reasoning) {
        s.phase = phase::answering;
        s.reasoning = r.generated();
        s.answering_since = now;
        discipline().change_phase(r);
      }
      residents.insert(r);
    }
  }

  queue waiting;
  kv_ledger<Request, BlockStore> kv;
  resident_set<Request, Order> residents;
  queue suspended;
  fixed_vector<std::uint32_t> left_rows;  ///< Of requests that have left since the plan was made.
  blocks suspended_blocks{};        ///< That suspended requests hold; a block that two of them share counts twice.
  std::uint64_t changes = 0;        ///< Grows whenever blocks, places or published prefixes may have changed.
  std::uint64_t sharings = 0;       ///< Grows whenever more of a prefix may be in use.
  std::uint64_t next_sequence = 1;  ///< Of the next request that joins.

 private:
  void leave_suspended(Request& r) noexcept {
    suspended.erase(r);
    suspended_blocks -= blocks{kv.held(r)};
  }
};

}  // namespace detail
TESSERA_NAMESPACE_END
