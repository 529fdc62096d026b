// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/admit/watermark.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/core/status.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/kv/block_pool.hpp>
#include <tessera/order/concepts.hpp>
#include <tessera/order/fcfs.hpp>
#include <tessera/pipeline/limits.hpp>
#include <tessera/pipeline/plan.hpp>
#include <tessera/pipeline/refusal.hpp>
#include <tessera/pipeline/roster.hpp>
#include <tessera/preempt/swap.hpp>
#include <tessera/queue/ordered_queue.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// The scheduler of one engine instance: continuous batching, step by step, from four policies.

TESSERA_NAMESPACE_BEGIN

/// Decides, step by step, which requests compute which tokens and where their KV lives.
///
/// A step serves requests in the order of the discipline, resident and waiting ones merged, until the batch, the token
/// budget or the blocks run out. A waiting request starts when its whole sequence fits; if it outranks residents, the
/// lowest-ranked of them give up their blocks for it, but only once it is certain that this will be enough.
///
/// Transactional: `plan` reserves, then exactly one of `commit` and `abandon` settles it. An abandoned plan leaves no
/// trace: the same blocks are handed out again, in the same order.
///
/// Complexity of a step: O(scheduled + evicted + blocks given or taken), whatever the number of requests that wait and
/// of blocks that are cached; the CSR view moves the batch's indices (4 bytes a block) when rows grow, and a request
/// whose place changes, also by ageing, moves up to `residents` pointers. The prefix of the first who cannot start is
/// matched again only after something has changed that may let it start (without chunked prefill, also while another
/// prompt is in the plan). Allocation: none after construction. Errors:
/// values; misuse is asserted. One thread, one plan at a time. Deterministic: the same calls give the same plans.
///
/// @tparam Order      who goes first: a `queue_discipline`.
/// @tparam Preempt    how blocks are given up: a `preemption_policy`.
/// @tparam Admit      whether one who fits may start: an `admission_policy`.
/// @tparam BlockStore the blocks: `kv::block_pool`, or `kv::prefix_cache` to share equal prompt prefixes.
template <schedulable Request, class Order = order::fcfs, class Preempt = preempt::swap, class Admit = admit::watermark,
          class BlockStore = kv::block_pool>
class iteration_scheduler {
  static_assert(sizeof(detail::explain_queue_discipline<Order, Request>) != 0);
  static_assert(queue_discipline<Order, Request>, "tessera: Order is not a queue_discipline for this request type");
  static_assert(preemption_policy<Preempt, Request>,
                "tessera: Preempt lacks `preemption_mode mode(const Request&, blocks) const noexcept`");
  static_assert(admission_policy<Admit, Request>,
                "tessera: Admit lacks `bool admits(const Request&, const admission_view<Request>&) const noexcept`");
  static_assert(kv::block_store<BlockStore>, "tessera: BlockStore is not a kv::block_store");
  static_assert(!kv::prefix_store<BlockStore> || prefix_hashed<Request>,
                "tessera: a prefix cache needs requests with "
                "`std::span<const std::uint64_t> prefix_hashes() const noexcept`");

 public:
  using request_type = Request;                     ///< The type of the requests.
  using clock_type = typename Request::clock_type;  ///< The clock of every time point and duration in the interface.
  using time_point = basic_time_point<clock_type>;  ///< A moment on that clock.
  using plan_type = step_plan<Request>;             ///< What `plan` returns.
  using limits = scheduler_limits;                  ///< What there must be room for; fixed at construction.

  /// The policies' values.
  struct config {
    Order order{};      ///< Parameters of the order.
    Preempt preempt{};  ///< Parameters of the preemption policy.
    Admit admit{};      ///< Parameters of the admission policy.
    bool chunked_prefill =
        true;  ///< False: a prompt is computed in one step, or waits for a step with the budget for it.
  };

  /// Bytes that a scheduler of these limits takes from the caller's memory.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add_bytes(roster::required_bytes(l))
        .add_bytes(fixed_vector<scheduled<Request>>::required_bytes(l.residents) * 2)
        .add_bytes(fixed_vector<Request*>::required_bytes(l.residents) * 2)
        .add_bytes(fixed_vector<Request*>::required_bytes(2 * l.residents))
        .bytes_unaligned();
  }

  /// Over the caller's memory, at least `required_bytes(l)` (asserted), which must outlive the scheduler.
  iteration_scheduler(std::span<std::byte> memory, const limits& l, const config& c = {}) noexcept
      : iteration_scheduler{arena{memory}, l, c} {}

  /// Over what `storage_for` made.
  explicit iteration_scheduler(owned_storage<limits>& storage, const config& c = {}) noexcept
      : iteration_scheduler{storage.memory(), storage.limits(), c} {}

  iteration_scheduler(const iteration_scheduler&) = delete;
  iteration_scheduler& operator=(const iteration_scheduler&) = delete;

  // -- requests in and out -----------------------------------------------------------------------------------------

  /// Puts a request into the waiting queue. O(log waiting). Allowed while a plan is pending.
  /// Returns `accepted`; `never_fits` if prompt + max_output cannot run even on the empty instance; `queue_full`;
  /// `busy` if it is in a scheduler; `invalid` if the prompt is empty or max_output negative.
  [[nodiscard]] status submit(Request& r, time_point now) noexcept {
    return adopt(r, {.length = r.prompt, .phase = r.starts_in, .arrived = now, .answering_since = now});
  }

  /// Goes on with a request that another instance gave up with `evacuate`. The plan that starts it lists it in `fetch`:
  /// the engine brings its KV then. O(log waiting). Returns as `submit`; `invalid` if nobody gave it up.
  [[nodiscard]] status adopt(Request& r) noexcept {
    if (is_live(r.state().life)) return status::busy;
    if (r.state().life != lifecycle::idle) return status::invalid;
    return adopt(r, r.progress());
  }

  /// The same for a request that was given up in another process: `r` has its description, `p` is its `progress()`
  /// there, with the times on this time line. Set `p.computed` to 0 if its KV is lost: everything is computed anew.
  /// Returns as `submit`; `invalid` also unless `prompt <= length`, `computed < length`, `reasoning <= length -
  /// prompt`.
  [[nodiscard]] status adopt(Request& r, const request_progress<clock_type>& p) noexcept {
    if (is_live(r.state().life)) return status::busy;
    if (r.prompt < tokens{1} || r.max_output < tokens{0} || p.length < r.prompt) return status::invalid;
    if (p.computed < tokens{0} || p.computed >= p.length) return status::invalid;
    if (p.reasoning < tokens{0} || p.reasoning > p.length - r.prompt) return status::invalid;
    const tokens to_come = max(r.max_output - (p.length - r.prompt), tokens{0});
    if (!fits(p.length, to_come)) return status::never_fits;
    if (roster_.waiting.size() >= limits_.requests) return status::queue_full;
    roster_.join(r, p);
    return status::accepted;
  }

  /// Gives a request up: its blocks are free at once, its progress stays in its state for `adopt`. Copy its KV before;
  /// if another instance has yet to agree, `suspend` it until then. O(log n + blocks held). `unknown_request` if it is
  /// not here; `busy` while a plan is pending, unless it is suspended: then its blocks are free when that is settled.
  [[nodiscard]] status evacuate(Request& r) noexcept {
    if (!roster_.contains(r)) return status::unknown_request;
    if (!pending_) {
      roster_.remove(r, lifecycle::idle);
    } else if (r.state().life == lifecycle::suspended && r.state().ends_as == lifecycle::idle) {
      roster_.leave_behind(r);
    } else {
      return status::busy;
    }
    return status::ok;
  }

  /// Lets a resident stand aside: it keeps its blocks and its place among the residents, no plan computes anything for
  /// it, and nobody evicts it. The others make do with the blocks that are left: if these are too few for the first of
  /// them, plans are empty. O(log residents) comparisons and a move of pointers. `resume`, `evacuate`, `cancel` and
  /// `finish` end it. Returns `unknown_request` if it is not a resident here, `busy` while a plan is pending.
  [[nodiscard]] status suspend(Request& r) noexcept {
    if (r.state().life != lifecycle::resident || !roster_.contains(r)) return status::unknown_request;
    if (pending_) return status::busy;
    roster_.suspend(r);
    return status::ok;
  }

  /// Lets a suspended request go on where it was. As `suspend`; `unknown_request` if it is not suspended here.
  [[nodiscard]] status resume(Request& r) noexcept {
    if (r.state().life != lifecycle::suspended || !roster_.contains(r)) return status::unknown_request;
    if (pending_) return status::busy;
    roster_.resume(r);
    return status::ok;
  }

  /// Calls `f(r)`, which may change what the order's `before` looks at (its priority, members of yours), and moves `r`
  /// to where it then belongs. It keeps its KV. O(log n) comparisons and, for a resident, a move of pointers. Returns
  /// `unknown_request` if it is not here, `busy` while a plan is pending: nothing is called then.
  template <std::invocable<Request&> F>
  [[nodiscard]] status update(Request& r, F&& f) noexcept {
    if (!roster_.contains(r)) return status::unknown_request;
    if (pending_) return status::busy;
    roster_.update(r, f);
    return status::ok;
  }

  /// Ends a request at any moment, as cancelled. Its blocks are free when this returns, or, if it holds some and a plan
  /// is pending, when that plan is settled. O(log n + blocks held). Returns `unknown_request` if it is not here.
  status cancel(Request& r) noexcept { return end(r, lifecycle::cancelled); }

  /// As `cancel`, but the request counts as finished: for one that has outgrown the instance, or whose last token the
  /// engine recognises late.
  status finish(Request& r) noexcept { return end(r, lifecycle::finished); }

  // -- one step ----------------------------------------------------------------------------------------------------

  /// Chooses the next step. Requires: no plan is pending, `step.max_batch > 0`, `step.token_budget > 0`,
  /// `step.lookahead >= 0` (asserted).
  /// The plan may be empty. Its spans are valid until `commit` or `abandon`.
  [[nodiscard]] plan_type plan(time_point now, const step_limits& step) noexcept {
    TESSERA_ASSERT(!pending_, "the previous plan is neither committed nor abandoned");
    TESSERA_ASSERT(step.max_batch > 0 && step.token_budget > tokens{0}, "a step needs a batch and a token budget");
    TESSERA_ASSERT(step.lookahead >= tokens{0}, "negative lookahead");
    roster_.advance(now);
    begin(step);
    Request* candidate = roster_.waiting.front();
    while (true) {
      Request* resident = next_ < kept_ ? roster_.residents[next_] : nullptr;
      const bool candidate_first =
          candidate != nullptr && (resident == nullptr || Order::displaces(*candidate, *resident));
      if (!candidate_first && resident == nullptr) break;
      if (step_is_full()) {
        if (candidate != nullptr) block(*candidate, stopped_);
        break;
      }
      if (candidate_first) {
        candidate = start(*candidate, resident != nullptr) ? roster_.waiting.next(*candidate) : nullptr;
      } else {
        ++next_;
        if (!go_on(*resident)) candidate = nullptr;  // nobody starts while a resident lacks a block
      }
    }
    return finish_plan();
  }

  /// Settles a plan that was run. `outcomes[i]` belongs to `p[i]`: decode entries, then prefill entries.
  /// Requires: `p` is the pending plan, `outcomes.size() == p.size()`, a sampling entry produced at least one token or
  /// failed (asserted). O(scheduled + evicted), plus O(log residents) comparisons and a move of pointers per request
  /// whose place changes.
  void commit(const plan_type& p, std::span<const outcome> outcomes, time_point now) noexcept {
    TESSERA_ASSERT(pending_ && p.id == plan_id_ && p.decode.data() == decode_.data(), "not the pending plan");
    TESSERA_ASSERT(outcomes.size() == decode_.size() + prefill_.size(), "one outcome per scheduled entry");
    roster_.settle_evictions(kept_);
    roster_.settle_admissions(admitted_);
    std::size_t i = 0;
    for (const scheduled<Request>& e : decode_) settle(e, outcomes[i++], now);
    for (const scheduled<Request>& e : prefill_) settle(e, outcomes[i++], now);
    pending_ = false;
    settle_endings();
  }

  /// Drops the pending plan as if it had never been made (except that its `now` has come: requests have aged). O(blocks
  /// it had reserved). Only for a plan that was not run, not even in part: blocks that it took from others count as
  /// untouched again.
  void abandon(const plan_type& p) noexcept {
    TESSERA_ASSERT(pending_ && p.id == plan_id_ && p.decode.data() == decode_.data(), "not the pending plan");
    // What was found out beside admissions and victims that are undone now is not true any more.
    if (!admitted_.empty() || kept_ != roster_.residents.size()) refusal_ = refusal_before_;
    kept_ += roster_.kv.roll_back(0);
    for (const scheduled<Request>& e : decode_) state_of(*e.request).planned = false;
    for (const scheduled<Request>& e : prefill_) state_of(*e.request).planned = false;
    pending_ = false;
    seen_ = 0;  // for `why`: nobody is in this plan
    settle_endings();
  }

  // -- what is known -----------------------------------------------------------------------------------------------

  /// Why a live request is not in the latest plan; `none` if it is, or has ended; `not_planned` after an `abandon`.
  /// O(1). Requires: if it lives, it is here.
  [[nodiscard]] wait_reason why(const Request& r) const noexcept {
    const state& s = r.state();
    if (!is_live(s.life)) return wait_reason::none;
    if (s.life == lifecycle::suspended) return wait_reason::suspended;
    if (s.planned) return s.preempted_by == plan_id_ ? wait_reason::preempted : wait_reason::none;
    if (s.sequence >= seen_) return wait_reason::not_planned;
    if (s.stalled_by == plan_id_ || s.length > longest_) return wait_reason::stalled;
    if (s.sequence == blocked_) return blocked_reason_;
    if (s.preempted_by == plan_id_) return wait_reason::preempted;
    if (s.life != lifecycle::resident) return wait_reason::behind_others;
    if (s.served_by == plan_id_) return wait_reason::none;
    return stopped_ != wait_reason::none ? stopped_ : wait_reason::not_planned;  // suspended at the time
  }

  /// Whether a plan waits for `commit` or `abandon`. O(1).
  [[nodiscard]] bool plan_pending() const noexcept { return pending_; }
  /// Requests that hold no blocks: new or preempted. O(1).
  [[nodiscard]] std::size_t waiting_count() const noexcept { return roster_.waiting.size(); }
  /// Requests that hold blocks and run. O(1).
  [[nodiscard]] std::size_t resident_count() const noexcept { return roster_.residents.size(); }
  /// Requests that hold blocks and are suspended. O(1).
  [[nodiscard]] std::size_t suspended_count() const noexcept { return roster_.suspended.size(); }
  /// No request is here.
  [[nodiscard]] bool idle() const noexcept {
    return roster_.waiting.empty() && roster_.residents.size() == 0 && roster_.suspended.empty();
  }
  /// Requests that hold device blocks and run, in rank order. Invalidated by every other call.
  [[nodiscard]] std::span<Request* const> residents() const noexcept { return roster_.residents.all(); }
  /// The waiting requests, in rank order from `front()`.
  [[nodiscard]] const ordered_queue<Request, Order>& waiting() const noexcept { return roster_.waiting; }
  /// The block store, to look at.
  [[nodiscard]] const BlockStore& store() const noexcept { return roster_.kv.store(); }
  /// The block table; rows are named by the entries of a plan.
  [[nodiscard]] const kv::block_table& tables() const noexcept { return roster_.kv.tables(); }
  /// The host tier, to look at.
  [[nodiscard]] const kv::host_tier& host() const noexcept { return roster_.kv.host(); }
  /// As given at construction.
  [[nodiscard]] const limits& size_limits() const noexcept { return limits_; }
  /// Device blocks that requests hold (cached blocks that nobody uses do not count).
  [[nodiscard]] blocks device_blocks_held() const noexcept { return capacity() - blocks{free_blocks()}; }
  /// Host blocks that swapped requests hold.
  [[nodiscard]] blocks host_blocks_held() const noexcept {
    return blocks{static_cast<std::int64_t>(host().capacity() - host().free())};
  }

 private:
  using state = typename Request::state_type;
  using roster = detail::roster<Request, Order, BlockStore>;

  iteration_scheduler(arena memory, const limits& l, const config& c) noexcept
      : limits_{l},
        config_{c},
        roster_{memory, l, c.order},
        decode_{memory, l.residents},
        prefill_{memory, l.residents},
        admitted_{memory, l.residents},
        outgrown_{memory, l.residents},
        ended_{memory, 2 * l.residents} {
    TESSERA_ASSERT(l.block_size > tokens{0} && l.residents > 0 && l.blocks > 0, "empty limits");
  }

  static state& state_of(Request& r) noexcept { return request_access::state(r); }
  [[nodiscard]] std::int64_t free_blocks() const noexcept { return roster_.kv.free_blocks(); }
  [[nodiscard]] blocks capacity() const noexcept { return blocks{static_cast<std::int64_t>(store().capacity())}; }

  /// The last token generated needs no KV, hence the - 1.
  [[nodiscard]] bool fits(tokens length, tokens to_come) const noexcept {
    return length <= longest_ && max(to_come, tokens{1}) - tokens{1} <= longest_ - length;
  }

  status end(Request& r, lifecycle as) noexcept {
    if (!roster_.contains(r)) return status::unknown_request;
    state& s = state_of(r);
    if (pending_ && (s.planned || s.life != lifecycle::waiting)) {
      if (s.ends_as == lifecycle::idle) ended_.push_back(&r);
      s.ends_as = as;
    } else {
      roster_.remove(r, as);
    }
    return status::ok;
  }

  void settle(const scheduled<Request>& e, const outcome& o, time_point now) noexcept {
    state& s = state_of(*e.request);
    s.planned = false;
    s.served_by = plan_id_;
    if (s.ends_as == lifecycle::idle) [[likely]]
      roster_.settle(e, o, now);
  }

  void settle_endings() noexcept {
    for (Request* r : ended_) roster_.remove(*r, state_of(*r).ends_as);
    ended_.clear();
    roster_.settle_left_behind();
  }

  // -- planning ----------------------------------------------------------------------------------------------------

  void begin(const step_limits& step) noexcept {
    step_ = step;
    step_.lookahead = min(step.lookahead, longest_);
    budget_ = step.token_budget;
    max_batch_ = step.max_batch < limits_.residents ? step.max_batch : limits_.residents;
    next_ = 0;
    kept_ = roster_.residents.size();
    blocked_ = 0;
    stopped_ = wait_reason::none;
    seen_ = roster_.next_sequence;
    refusal_before_ = refusal_;
    decode_.clear();
    prefill_.clear();
    admitted_.clear();
    outgrown_.clear();
    roster_.kv.begin();
    ++plan_id_;
    pending_ = true;
  }

  [[nodiscard]] bool step_is_full() noexcept {
    if (decode_.size() + prefill_.size() >= max_batch_) stopped_ = wait_reason::batch_full;
    if (budget_ <= tokens{0}) stopped_ = wait_reason::budget_spent;
    return stopped_ != wait_reason::none;
  }

  void block(const Request& r, wait_reason why_not) noexcept {
    blocked_ = r.state().sequence;
    blocked_reason_ = why_not;
  }

  /// A resident's turn. False: it lacks a block and nobody behind it can give one.
  [[nodiscard]] bool go_on(Request& r) noexcept {
    state& s = state_of(r);
    if (s.length > longest_) [[unlikely]]
      return pass_over(r);
    const tokens left = s.length - s.computed;
    if (left == tokens{1}) [[likely]] {
      if (s.room < s.length && !make_room_to_grow(r)) return false;
      s.planned = true;
      decode_.push_back({&r, s.computed, tokens{1}, tokens{}, s.row, true});
      budget_ -= tokens{1};
      return true;
    }
    schedule_prefill(r, s.computed, left);
    return true;
  }

  /// One that can never go on keeps nobody from starting.
  [[nodiscard]] bool pass_over(Request& r) noexcept {
    if (!outgrown_.full()) outgrown_.push_back(&r);
    return true;
  }

  /// Without chunked prefill, a prompt that the budget does not cover waits, unless it is the step's only prefill.
  [[nodiscard]] bool may_compute(tokens left) const noexcept {
    return config_.chunked_prefill || left <= budget_ || prefill_.empty();
  }

  void schedule_prefill(Request& r, tokens first, tokens left) noexcept {
    tokens count = left;
    if (config_.chunked_prefill) {
      // A long prompt must not stop those who decode: a token of the budget is left to each resident that can follow.
      const std::size_t slots = max_batch_ - decode_.size() - prefill_.size() - 1;
      const tokens others{static_cast<std::int64_t>(kept_ - next_ < slots ? kept_ - next_ : slots)};
      count = min(left, max(budget_ - others, tokens{1}));
      if (step_.max_chunk > tokens{0}) count = min(count, step_.max_chunk);
    }
    state& s = state_of(r);
    s.planned = true;
    budget_ -= count;
    const scheduled<Request> entry{&r, first, count, tokens{}, s.row, count == left};
    if (left == tokens{1}) {
      decode_.push_back(entry);
    } else {
      prefill_.push_back(entry);
    }
  }

  /// Gives a resident the block that its next token needs, evicting for it if need be. False: there is none.
  [[nodiscard]] bool make_room_to_grow(Request& r) noexcept {
    const auto more =
        static_cast<std::size_t>(blocks_for(r.state().length, limits_.block_size).count() - roster_.kv.held(r));
    if (!make_free(more, 0)) {
      state_of(r).stalled_by = plan_id_;
      return false;
    }
    roster_.kv.take(r, more);
    return true;
  }

  /// Lookahead slots for those who sample, in rank order, from what is still free when all have had their turn:
  /// speculation is not worth an eviction, nor anybody's start.
  void give_lookahead(fixed_vector<scheduled<Request>>& entries) noexcept {
    for (scheduled<Request>& e : entries) {
      if (!e.samples) continue;
      const state& s = e.request->state();
      std::int64_t more = blocks_for(min(s.length + step_.lookahead, longest_), limits_.block_size).count() -
                          roster_.kv.held(*e.request);
      if (more > free_blocks()) more = free_blocks();
      if (more > 0) roster_.kv.take(*e.request, static_cast<std::size_t>(more));
      e.lookahead = min(step_.lookahead, min(s.room, longest_) - s.length);
    }
  }

  /// A waiting request's turn. `outranks`: residents rank behind it. Either it is in the plan afterwards, with all the
  /// blocks of its sequence, or nothing has changed. False: nobody behind it may start.
  [[nodiscard]] bool start(Request& r, bool outranks) noexcept {
    state& s = state_of(r);
    if (s.length > longest_) [[unlikely]]
      return pass_over(r);
    const std::size_t held = kept_ + admitted_.size() + roster_.suspended.size();
    const std::size_t slots = held < limits_.residents ? 0 : 1;
    if (slots != 0 && next_ == kept_) return block(r, wait_reason::residents_full), false;
    // What a victim leaves over is not for those who rank behind it.
    if (kept_ != roster_.residents.size() && !Order::before(r, *roster_.residents[kept_])) {
      return block(r, wait_reason::behind_others), false;
    }

    const blocks total = blocks_for(s.length, limits_.block_size);
    wait_reason why_not = refused_as_before(r, outranks, total);
    if (why_not != wait_reason::none) return block(r, why_not), false;

    const std::size_t mark = roster_.kv.mark();
    const std::int64_t free_before = free_blocks();
    roster_.kv.open_row(r);
    const std::size_t hits = s.swapped ? 0 : roster_.kv.share_prefix(r);

    const tokens first = s.swapped ? s.computed : tokens{static_cast<std::int64_t>(hits)} * limits_.block_size.count();
    const tokens left = s.length - first;
    const std::size_t more = static_cast<std::size_t>(total.count()) - hits;

    if (!may_compute(left)) {
      why_not = wait_reason::budget_spent;
    } else if (!outranks && (why_not = refuses(r, blocks{static_cast<std::int64_t>(more)})) != wait_reason::none) {
      // One that outranks residents is not asked: they are its headroom.
      refusal_.of_prefix(s.sequence, roster_.sharings,
                         blocks{static_cast<std::int64_t>(hits) - (free_before - free_blocks())});
    } else if (!make_free(more, slots)) {
      why_not = wait_reason::no_blocks;
    }
    if (why_not != wait_reason::none) {
      if (why_not == wait_reason::no_blocks) refusal_.of_blocks(s.sequence, roster_.changes, next_);
      kept_ += roster_.kv.roll_back(mark);
      return block(r, why_not), false;
    }

    roster_.kv.take(r, more);
    s.shared_blocks = static_cast<std::uint32_t>(hits);
    admitted_.push_back(&r);
    if (s.swapped) roster_.kv.bring_back(r);
    schedule_prefill(r, first, left);
    return true;
  }

  /// Why one that was refused is refused again, if that can be told without matching its prefix; else `none`.
  [[nodiscard]] wait_reason refused_as_before(const Request& r, bool outranks, blocks total) const noexcept {
    if (refusal_.sequence != r.state().sequence) return wait_reason::none;
    // Without chunked prefill, the budget may be a reason that comes first.
    if (!config_.chunked_prefill && !prefill_.empty()) return wait_reason::none;
    // A victim of this plan has given something back.
    if (kept_ == roster_.residents.size() && refusal_.still_lacks_blocks(roster_.changes, next_)) {
      return wait_reason::no_blocks;
    }
    if (outranks || !admitted_.empty() || !refusal_.knows_prefix(roster_.sharings)) return wait_reason::none;
    return refuses(r, total - refusal_.in_use);
  }

  /// Why the admission policy, or the free blocks, do not let `r` take `more` blocks; `none` if they do.
  [[nodiscard]] wait_reason refuses(const Request& r, blocks more) const noexcept {
    const blocks free_after = blocks{free_blocks()} - more;
    if (free_after < blocks{0}) return wait_reason::no_blocks;
    const admission_view<Request> view{.free_after = free_after,
                                       .capacity = max(capacity() - roster_.suspended_blocks, blocks{free_blocks()}),
                                       .block_size = limits_.block_size,
                                       .residents = residents().first(kept_),
                                       .admitted = admitted_};
    return config_.admit.admits(r, view) ? wait_reason::none : wait_reason::held_back;
  }

  /// Makes `n` blocks free by evicting, from the lowest-ranked resident up, at least `at_least` of those whose turn has
  /// not come. Either they suffice, or nobody is evicted.
  [[nodiscard]] bool make_free(std::size_t n, std::size_t at_least) noexcept {
    const auto want = static_cast<std::int64_t>(n);
    if (at_least == 0 && free_blocks() >= want) return true;
    std::int64_t most = free_blocks();
    for (std::size_t i = kept_; i > next_ && most < want; --i) {
      most += roster_.kv.held(*roster_.residents[i - 1]);
    }
    if (most < want) return false;
    // Blocks that are shared with someone who stays do not become free: only trying tells.
    const std::size_t mark = roster_.kv.mark();
    const std::size_t keep = kept_ - at_least;
    while (kept_ > next_ && (free_blocks() < want || kept_ > keep)) evict_last();
    if (free_blocks() >= want && kept_ <= keep) return true;
    kept_ += roster_.kv.roll_back(mark);
    return false;
  }

  void evict_last() noexcept {
    Request& r = *roster_.residents[--kept_];
    roster_.kv.evict(r, config_.preempt.mode(r, blocks_for(r.state().computed, limits_.block_size)), plan_id_);
  }

  [[nodiscard]] plan_type finish_plan() noexcept {
    if (step_.lookahead > tokens{}) {
      give_lookahead(decode_);
      give_lookahead(prefill_);
    }
    kv::block_table& tables = roster_.kv.tables();
    tables.begin_batch();
    for (const scheduled<Request>& e : decode_) tables.add(e.row, e.first + e.count);
    for (const scheduled<Request>& e : prefill_) tables.add(e.row, e.first + e.count);
    return {.decode = decode_,
            .prefill = prefill_,
            .swap_out = roster_.kv.swap_out(),
            .swap_in = roster_.kv.swap_in(),
            .fetch = roster_.kv.fetch(),
            .preempted = roster_.kv.victims(),
            .outgrown = outgrown_,
            .tables = tables.view(),
            .computed = step_.token_budget - budget_,
            .id = plan_id_};
  }

  limits limits_;
  tokens longest_{limits_.longest()};
  config config_;
  roster roster_;

  // The pending plan.
  fixed_vector<scheduled<Request>> decode_;
  fixed_vector<scheduled<Request>> prefill_;
  fixed_vector<Request*> admitted_;
  fixed_vector<Request*> outgrown_;
  fixed_vector<Request*> ended_;  ///< Ended while the plan is pending.
  step_limits step_{};
  tokens budget_{};
  std::size_t max_batch_ = 0;
  std::size_t next_ = 0;                      ///< Residents before it have had their turn.
  std::size_t kept_ = 0;                      ///< Residents from here on are victims.
  detail::refusal refusal_, refusal_before_;  ///< Now, and as it was before the plan.
  std::uint64_t blocked_ = 0;                 ///< Sequence number of the first who waits and could not start.
  wait_reason blocked_reason_ = wait_reason::none;
  wait_reason stopped_ = wait_reason::none;
  std::uint64_t plan_id_ = 0;
  std::uint64_t seen_ = 0;
  bool pending_ = false;
};

TESSERA_NAMESPACE_END
