// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/storage.hpp>
#include <tessera/pipeline/config.hpp>
#include <tessera/pipeline/kv_moves.hpp>
#include <tessera/pipeline/plan.hpp>
#include <tessera/pipeline/roster.hpp>

#include <cstddef>
#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// Whether a request cannot be planned before the outcomes of plans in flight are known. With all that they can
/// produce, it has ended. Or one of the latest samples for it (`scheduler_limits::plans_apart`): `apart` is the mark of
/// the first of these.
/// @tparam Apart false: none of the latest is too near.
template <bool Apart = true, class Request>
[[nodiscard]] bool waits_in_flight(const Request& r, tokens longest, std::uint32_t apart) noexcept {
  const auto& s = r.state();
  if (s.expected == 0) return false;
  // The latest plan that contains it samples for it, since an earlier one does.
  if (Apart && static_cast<std::int32_t>(s.marked_in - apart) >= 0) return true;
  // Nor is a request planned that is to be forked, before its children have started.
  if constexpr (requires { r.forks_due != 0; }) {
    if (r.forks_due != 0) return true;
  }
  return s.reach() > longest || (r.max_output > tokens{} && s.reach() - r.prompt >= r.max_output);
}

/// The step that is being planned, or is in flight: its entries, and the progress of the walk.
template <class Request>
struct step {
  /// A request that could have started, but lacks a block of its prompt that another computes.
  struct held_back {
    Request* request;             ///< Null once it has ended.
    std::uint64_t sequence;       ///< Its number.
    std::uint32_t cached_before;  ///< Its `cached_blocks` before the plan.
  };

  template <class Limits>
  [[nodiscard]] static constexpr std::size_t required_bytes(const Limits& l) noexcept {
    return storage_layout{}
        .add_bytes(fixed_vector<scheduled<Request>>::required_bytes(l.residents) * 2)
        .add_bytes(fixed_vector<std::uint32_t>::required_bytes(l.residents) * 2)
        .add_bytes(fixed_vector<Request*>::required_bytes(l.residents) * 2)
        .add_bytes(fixed_vector<Request*>::required_bytes(l.rows()))
        .add_bytes(kv_moves<Request>::required_bytes(l))
        .add_bytes(fixed_vector<kv_fetch<Request>>::required_bytes(kv_moves<Request>::of_groups(l)))
        .add_bytes(fixed_vector<deadline_passed<Request>>::required_bytes(l.deadlines))
        .add_bytes(fixed_vector<std::uint64_t>::required_bytes(l.residents))
        .add_bytes(fixed_vector<held_back>::required_bytes(l.residents))
        .bytes();
  }
  template <class Limits>
  step(arena& memory, const Limits& l) noexcept
      : decode{memory, l.residents},
        prefill{memory, l.residents},
        decode_at{memory, l.residents},
        prefill_at{memory, l.residents},
        admitted{memory, l.residents},
        outgrown{memory, l.residents},
        ended{memory, l.rows()},
        moves{memory, l},
        load{memory, kv_moves<Request>::of_groups(l)},
        late{memory, l.deadlines},
        skipped{memory, l.residents},
        held_for_prefix{memory, l.residents} {}

  fixed_vector<scheduled<Request>> decode;
  fixed_vector<scheduled<Request>> prefill;
  fixed_vector<std::uint32_t>
      decode_at;  ///< Places of `decode`'s requests among the residents; `no_index`: they start.
  fixed_vector<std::uint32_t> prefill_at;  ///< The same for `prefill`.
  fixed_vector<Request*> admitted;
  fixed_vector<Request*> outgrown;
  fixed_vector<Request*> ended;  ///< Requests that ended meanwhile: they leave when the plan is settled.
  kv_moves<Request> moves;
  fixed_vector<kv_fetch<Request>> load;         ///< Blocks of starting requests with KV in transfer.
  std::uint64_t load_after = 0;                 ///< The last plan that reads their blocks.
  std::uint64_t fetch_after = 0;                ///< The same for requests with KV that is fetched for this plan.
  fixed_vector<deadline_passed<Request>> late;  ///< Deadlines that had passed when it was made.
  fixed_vector<std::uint64_t> skipped;          ///< Sequence numbers of the requests that the gate skipped, the first
                                                ///< of their classes, as far as there is room.
  fixed_vector<held_back> held_for_prefix;      ///< A place among the residents is kept for each.

  step_limits limits{};
  tokens budget{};        ///< Tokens left in the budget,
  tokens prefill_left{};  ///< and those left for prefill.
  tokens drafts{};        ///< Lookahead given.
  std::size_t max_batch = 0;
  std::size_t starts = 0;       ///< Requests that may still start.
  int waiting_priority = 0;     ///< Priority of the first waiting request when the plan begins; the lowest value if
                                ///< none waits.
  std::size_t next = 0;         ///< Residents before it have had their turn.
  std::size_t kept = 0;         ///< Residents from here on are victims.
  std::size_t first_guest = 0;  ///< In `admitted`: requests from here on are backfilled.
  blocks obtainable{};          ///< Most blocks that can become free for requests with a turn to come.
  blocks promised{};            ///< Blocks that prefills have yet to take.
  refusal refused_before;       ///< The refusal before the plan,
  const Request* refused_request_before = nullptr;
  std::size_t bookmark_before = 0;  ///< and its bookmark.
  std::uint64_t blocked = 0;        ///< Sequence number of the first waiting request that could not start.
  wait_reason blocked_reason = wait_reason::none;
  wait_reason stopped = wait_reason::none;
  std::uint64_t id = 0;
  std::uint64_t seen = 0;   ///< Sequence numbers from here on came after the plan.
  std::uint32_t apart = 0;  ///< The mark of the first plan that is too near for another sample; its own: none is.
  bool expects = false;     ///< Others were in flight when it was made.
  bool open = false;        ///< It is in flight, and no plan has been made or settled since.

  [[nodiscard]] std::uint32_t mark() const noexcept { return static_cast<std::uint32_t>(id); }
  [[nodiscard]] std::size_t size() const noexcept { return decode.size() + prefill.size(); }
  [[nodiscard]] bool is_full() noexcept {
    if (size() >= max_batch) stopped = wait_reason::batch_full;
    if (budget <= tokens{}) stopped = wait_reason::budget_spent;
    return stopped != wait_reason::none;
  }
  /// Residents that are kept, requests that start, and places that are kept for others.
  [[nodiscard]] std::size_t places_taken() const noexcept { return kept + admitted.size() + held_for_prefix.size(); }
  /// A waiting request leaves: its state is not restored if the plan is undone.
  void forget_held(const Request& r) noexcept {
    for (held_back& h : held_for_prefix) {
      if (h.request == &r) h.request = nullptr;
    }
  }
  [[nodiscard]] bool has_mark(const Request& r, plan_mark m) const noexcept {
    return r.state().marked_in == mark() && r.state().mark == m;
  }
  void set_mark(Request& r, plan_mark m) const noexcept {
    auto& s = request_access::state(r);
    s.marked_in = mark();
    s.mark = m;
  }
  void block(const Request& r, wait_reason why_not) noexcept {
    blocked = r.state().sequence;
    blocked_reason = why_not;
  }
};

/// The state that the parts of planning share.
template <schedulable R, class Order, class Preempt, class Admit, class BlockStore, class Gate, class Draft>
struct planning {
  using request = R;
  using order = Order;
  using preempt = Preempt;
  using gate = Gate;
  using ledger = typename detail::roster<R, Order, BlockStore, Gate>::ledger;

  const scheduler_limits& limits;
  tokens longest;
  const scheduler_config<Order, Preempt, Admit, Gate, Draft>& config;
  detail::roster<R, Order, BlockStore, Gate>& roster;
  detail::step<R>& step;

  [[nodiscard]] blocks whole(const R& r) const noexcept { return roster.kv.whole(r.state().reach()); }
  [[nodiscard]] blocks free() const noexcept { return blocks{roster.kv.free_blocks()}; }
  /// The number of kept residents that are not backfilled: they stand before the backfilled ones.
  [[nodiscard]] std::size_t ordinary() const noexcept {
    const std::size_t n = roster.residents.size() - roster.residents.guests();
    return n < step.kept ? n : step.kept;
  }
};

}  // namespace detail
TESSERA_NAMESPACE_END
