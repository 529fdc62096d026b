// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/admit/watermark.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/core/status.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/kv/block_pool.hpp>
#include <tessera/kv/block_table.hpp>
#include <tessera/kv/concepts.hpp>
#include <tessera/kv/host_tier.hpp>
#include <tessera/order/concepts.hpp>
#include <tessera/order/fcfs.hpp>
#include <tessera/pipeline/plan.hpp>
#include <tessera/pipeline/resident_set.hpp>
#include <tessera/preempt/swap.hpp>
#include <tessera/queue/ordered_queue.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// The scheduler of one engine instance: continuous batching, step by step, from four policies.

TESSERA_NAMESPACE_BEGIN

/// How large a scheduler is. All storage follows from it.
struct scheduler_limits {
  std::size_t requests = 4096;   ///< Most requests waiting; `submit` refuses more. Preempted ones always find room.
  std::size_t blocks = 0;        ///< KV blocks on the device.
  tokens block_size{16};         ///< Tokens per block.
  std::size_t residents = 256;   ///< Most requests that hold device blocks at once.
  std::size_t host_blocks = 0;   ///< KV blocks in host memory for swapped requests; 0: preemption always recomputes.
  tokens max_length{};           ///< Most KV of one sequence (the model's context); 0: as much as the blocks allow.

  /// Most tokens of one sequence that have KV.
  [[nodiscard]] constexpr tokens longest() const noexcept {
    const tokens all = block_size * static_cast<std::int64_t>(blocks);
    return max_length > tokens{} ? min(max_length, all) : all;
  }
  /// Blocks that one sequence can have: the width of a block table row.
  [[nodiscard]] constexpr std::size_t blocks_per_row() const noexcept {
    return static_cast<std::size_t>(blocks_for(longest(), block_size).count());
  }
};

/// Decides, step by step, which requests compute which tokens and where their KV lives.
///
/// A step serves requests in the order of the discipline, resident and waiting ones merged, until the batch, the token
/// budget or the blocks run out. A waiting request starts when its whole sequence fits; if it outranks residents, the
/// lowest-ranked of them give up their blocks for it, but only once it is certain that this will be enough.
///
/// Transactional: `plan` reserves, then exactly one of `commit` and `abandon` settles it. An abandoned plan leaves no
/// trace: the same blocks are handed out again, in the same order.
///
/// Complexity of a step: O(scheduled + evicted + blocks given or taken); it does not depend on how many requests wait,
/// how many blocks are held or cached. Allocation: none after construction. Errors: values; misuse is asserted.
/// One thread. Deterministic: the same calls give the same plans.
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
  using request_type = Request;
  using clock_type = typename Request::clock_type;
  using time_point = basic_time_point<clock_type>;
  using plan_type = step_plan<Request>;
  using limits = scheduler_limits;

  /// The policies' values.
  struct config {
    Order order{};
    Preempt preempt{};
    Admit admit{};
    bool chunked_prefill = true;  ///< False: a prompt is computed in one step, or waits for a step with the budget for it.
  };

  /// Bytes that a scheduler of these limits takes from the caller's memory.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add_bytes(BlockStore::required_bytes(store_limits(l)))
        .add_bytes(kv::block_table::required_bytes(table_limits(l)))
        .add_bytes(kv::host_tier::required_bytes(host_limits(l)))
        .add_bytes(resident_list::required_bytes(l.residents))
        .add_bytes(fixed_vector<scheduled<Request>>::required_bytes(l.residents) * 2)
        .add_bytes(fixed_vector<kv_transfer<Request>>::required_bytes(l.residents) * 2)
        .add_bytes(fixed_vector<kv_fetch<Request>>::required_bytes(l.residents))
        .add_bytes(fixed_vector<preemption<Request>>::required_bytes(l.residents))
        .add_bytes(fixed_vector<Request*>::required_bytes(l.residents) * 2)
        .add_bytes(fixed_vector<Request*>::required_bytes(2 * l.residents))
        .add_bytes(fixed_vector<kv::block_id>::required_bytes(l.host_blocks))
        .add_bytes(fixed_vector<reservation>::required_bytes(reservations(l)))
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
  status submit(Request& r, time_point now) noexcept {
    state& s = state_of(r);
    if (s.life == lifecycle::waiting || s.life == lifecycle::resident) return status::busy;
    if (r.prompt < tokens{1} || r.max_output < tokens{0}) return status::invalid;
    if (!fits(r.prompt, r.max_output)) return status::never_fits;
    if (waiting_.size() >= limits_.requests) return status::queue_full;
    s = state{};
    s.length = r.prompt;
    s.phase = r.starts_in;
    s.arrived = now;
    s.answering_since = now;
    join(r, now);
    return status::accepted;
  }

  /// Takes over a request that another instance gave up with `evacuate`, its progress kept. Its KV is somewhere else:
  /// the plan that starts it lists it in `fetch`, and the engine brings it then.
  /// O(log waiting). Returns as `submit`.
  status adopt(Request& r, time_point now) noexcept {
    state& s = state_of(r);
    if (s.life == lifecycle::waiting || s.life == lifecycle::resident) return status::busy;
    if (s.length < tokens{1}) return status::invalid;
    const tokens to_come = max(r.max_output - (s.length - r.prompt), tokens{0});
    if (!fits(s.length, to_come)) return status::never_fits;
    if (waiting_.size() >= limits_.requests) return status::queue_full;
    s.swapped = s.computed > tokens{0};
    s.cached_blocks = 0;
    s.preempted_by = 0;
    join(r, now);
    return status::accepted;
  }

  /// Gives a request up without ending it: its blocks are free at once, its progress stays in its state for `adopt`.
  /// Copy its KV before. O(log n + blocks held). Returns `unknown_request` if it is not here, `busy` while a plan is
  /// pending.
  status evacuate(Request& r) noexcept {
    if (!here(r)) return status::unknown_request;
    if (pending_) return status::busy;
    remove(r, lifecycle::idle);
    return status::ok;
  }

  /// Ends a request at any moment, as cancelled. Its blocks are free when this returns, or, if it is resident and a plan
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
    begin(step);
    waiting_.advance(now);
    Request* candidate = waiting_.front();
    while (true) {
      Request* resident = next_ < kept_ ? residents_[next_] : nullptr;
      const bool candidate_first = candidate != nullptr && (resident == nullptr || Order::displaces(*candidate, *resident));
      if (!candidate_first && resident == nullptr) break;
      if (step_is_full()) {
        if (candidate != nullptr) block(*candidate, stopped_);
        break;
      }
      if (candidate_first) {
        candidate = start(*candidate, resident != nullptr) ? waiting_.next(*candidate) : nullptr;
      } else {
        ++next_;
        if (!go_on(*resident)) candidate = nullptr;  // nobody starts while a resident lacks a block
      }
    }
    return finish_plan();
  }

  /// Settles a plan that was run. `outcomes[i]` belongs to `p[i]`: decode entries, then prefill entries.
  /// Requires: `p` is the pending plan, `outcomes.size() == p.size()`, a sampling entry produced at least one token or
  /// failed (asserted). O(scheduled + evicted), plus O(log residents) per request whose place changes.
  void commit(const plan_type& p, std::span<const outcome> outcomes, time_point now) noexcept {
    TESSERA_ASSERT(pending_ && p.id == plan_id_, "not the pending plan");
    TESSERA_ASSERT(outcomes.size() == decode_.size() + prefill_.size(), "one outcome per scheduled entry");
    settle_evictions();
    settle_admissions();
    std::size_t i = 0;
    for (const scheduled<Request>& e : decode_) settle(e, outcomes[i++], now);
    for (const scheduled<Request>& e : prefill_) settle(e, outcomes[i++], now);
    pending_ = false;
    settle_endings();
  }

  /// Drops the pending plan as if it had never been made. O(blocks it had reserved).
  /// Only for a plan that was not run, not even in part: blocks that it took from others count as untouched again.
  void abandon(const plan_type& p) noexcept {
    TESSERA_ASSERT(pending_ && p.id == plan_id_, "not the pending plan");
    roll_back(0);
    for (const scheduled<Request>& e : decode_) state_of(*e.request).planned = false;
    for (const scheduled<Request>& e : prefill_) state_of(*e.request).planned = false;
    pending_ = false;
    settle_endings();
  }

  // -- what is known -----------------------------------------------------------------------------------------------

  /// Why a live request is not in the latest plan; `none` if it is, or if it is not here. O(1).
  [[nodiscard]] wait_reason why(const Request& r) const noexcept {
    const state& s = r.state();
    if (s.life != lifecycle::waiting && s.life != lifecycle::resident) return wait_reason::none;
    if (s.planned) return s.preempted_by == plan_id_ ? wait_reason::preempted : wait_reason::none;
    if (s.sequence >= seen_) return wait_reason::not_planned;
    if (&r == stalled_ || s.length > longest_) return wait_reason::stalled;
    if (&r == blocked_) return blocked_reason_;
    if (s.preempted_by == plan_id_) return wait_reason::preempted;
    if (s.life == lifecycle::resident) return s.served_by == plan_id_ ? wait_reason::none : stopped_;
    return wait_reason::behind_others;
  }

  [[nodiscard]] bool plan_pending() const noexcept { return pending_; }
  [[nodiscard]] std::size_t waiting_count() const noexcept { return waiting_.size(); }
  [[nodiscard]] std::size_t resident_count() const noexcept { return residents_.size(); }
  /// No request is here.
  [[nodiscard]] bool idle() const noexcept { return waiting_.empty() && residents_.size() == 0; }
  /// Requests that hold device blocks, in rank order. Invalidated by every other call.
  [[nodiscard]] std::span<Request* const> residents() const noexcept { return residents_.all(); }
  /// The waiting requests, in rank order from `front()`.
  [[nodiscard]] const ordered_queue<Request, Order>& waiting() const noexcept { return waiting_; }
  [[nodiscard]] const BlockStore& store() const noexcept { return blocks_; }
  [[nodiscard]] const kv::block_table& tables() const noexcept { return table_; }
  [[nodiscard]] const kv::host_tier& host() const noexcept { return host_; }
  [[nodiscard]] const limits& size_limits() const noexcept { return limits_; }
  /// Device blocks that requests hold (cached blocks that nobody uses do not count).
  [[nodiscard]] blocks device_blocks_held() const noexcept {
    return blocks{static_cast<std::int64_t>(blocks_.capacity() - blocks_.free())};
  }
  /// Host blocks that swapped requests hold.
  [[nodiscard]] blocks host_blocks_held() const noexcept {
    return blocks{static_cast<std::int64_t>(host_.capacity() - host_.free())};
  }

 private:
  using state = typename Request::state_type;
  using resident_list = detail::resident_set<Request, Order>;

  /// One undoable thing that a plan has done, undone in reverse.
  struct reservation {
    enum class what : std::uint8_t { row, shared, grown, evicted } kind;
    Request* request;
    std::uint64_t count;  ///< Blocks (`shared`, `grown`), or the previous `preempted_by` (`evicted`).
  };

  // Rows of victims stay readable until the plan is settled, so there are twice as many rows as residents.
  static constexpr std::size_t reservations(const limits& l) noexcept { return 5 * l.residents; }
  static constexpr typename BlockStore::limits store_limits(const limits& l) noexcept { return {.blocks = l.blocks}; }
  static constexpr kv::block_table::limits table_limits(const limits& l) noexcept {
    return {.rows = 2 * l.residents, .blocks_per_row = l.blocks_per_row(), .block_size = l.block_size};
  }
  static constexpr kv::host_tier::limits host_limits(const limits& l) noexcept { return {.host_blocks = l.host_blocks}; }

  iteration_scheduler(arena memory, const limits& l, const config& c) noexcept
      : limits_{l},
        config_{c},
        waiting_{c.order},
        blocks_{memory, store_limits(l)},
        table_{memory, table_limits(l)},
        host_{memory, host_limits(l)},
        residents_{memory, l.residents},
        decode_{memory, l.residents},
        prefill_{memory, l.residents},
        swap_out_{memory, l.residents},
        swap_in_{memory, l.residents},
        fetch_{memory, l.residents},
        victims_{memory, l.residents},
        admitted_{memory, l.residents},
        outgrown_{memory, l.residents},
        ended_{memory, 2 * l.residents},
        host_ids_{memory, l.host_blocks},
        journal_{memory, reservations(l)} {
    TESSERA_ASSERT(l.block_size > tokens{0} && l.residents > 0 && l.blocks > 0, "empty limits");
  }

  static state& state_of(Request& r) noexcept { return request_access::state(r); }
  Order& discipline() noexcept { return waiting_.discipline(); }

  [[nodiscard]] std::int64_t free_blocks() const noexcept { return static_cast<std::int64_t>(blocks_.free()); }

  [[nodiscard]] bool here(const Request& r) const noexcept {
    return r.state().life == lifecycle::resident ? residents_.contains(r)
                                                 : r.state().life == lifecycle::waiting && waiting_.contains(r);
  }

  /// The last token generated needs no KV, hence the - 1.
  [[nodiscard]] bool fits(tokens length, tokens to_come) const noexcept {
    return length <= longest_ && max(to_come, tokens{1}) - tokens{1} <= longest_ - length;
  }

  status end(Request& r, lifecycle as) noexcept {
    if (!here(r)) return status::unknown_request;
    state& s = state_of(r);
    if (pending_ && (s.planned || s.life == lifecycle::resident)) {
      if (s.ends_as == lifecycle::idle) ended_.push_back(&r);
      s.ends_as = as;
    } else {
      remove(r, as);
    }
    return status::ok;
  }

  void join(Request& r, time_point now) noexcept {
    state& s = state_of(r);
    s.sequence = next_sequence_++;
    s.life = lifecycle::waiting;
    discipline().enter(r, now);
    waiting_.insert(r);
  }

  // -- planning ----------------------------------------------------------------------------------------------------

  void begin(const step_limits& step) noexcept {
    step_ = step;
    step_.lookahead = min(step.lookahead, longest_);
    budget_ = step.token_budget;
    max_batch_ = step.max_batch < limits_.residents ? step.max_batch : limits_.residents;
    next_ = 0;
    kept_ = residents_.size();
    blocked_ = nullptr;
    stalled_ = nullptr;
    stopped_ = wait_reason::none;
    seen_ = next_sequence_;
    decode_.clear();
    prefill_.clear();
    swap_out_.clear();
    swap_in_.clear();
    fetch_.clear();
    victims_.clear();
    admitted_.clear();
    outgrown_.clear();
    host_ids_.clear();
    journal_.clear();
    ++plan_id_;
    pending_ = true;
  }

  [[nodiscard]] bool step_is_full() noexcept {
    if (decode_.size() + prefill_.size() >= max_batch_) stopped_ = wait_reason::batch_full;
    if (budget_ <= tokens{0}) stopped_ = wait_reason::budget_spent;
    return stopped_ != wait_reason::none;
  }

  void block(Request& r, wait_reason why_not) noexcept {
    blocked_ = &r;
    blocked_reason_ = why_not;
  }

  /// A resident's turn. False: it lacks a block and nobody behind it can give one.
  [[nodiscard]] bool go_on(Request& r) noexcept {
    state& s = state_of(r);
    if (s.length > longest_) [[unlikely]] return pass_over(r), true;
    const tokens left = s.length - s.computed;
    if (left == tokens{1}) [[likely]] {
      if (s.room < s.length + step_.lookahead && !make_room_to_grow(r)) return false;
      s.planned = true;
      decode_.push_back({&r, s.computed, tokens{1}, spare(s), s.row, true});
      budget_ -= tokens{1};
      return true;
    }
    if (!may_compute(left)) return true;
    schedule_prefill(r, s.computed, left);
    return true;
  }

  /// One that can never go on keeps nobody from starting.
  void pass_over(Request& r) noexcept {
    if (!outgrown_.full()) outgrown_.push_back(&r);
  }

  /// Slots for speculative tokens behind the sequence, once it is computed.
  [[nodiscard]] tokens spare(const state& s) const noexcept {
    return min(step_.lookahead, min(s.room, longest_) - s.length);
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
    const bool samples = count == left;
    const scheduled<Request> entry{&r, first, count, samples ? spare(s) : tokens{}, s.row, samples};
    if (left == tokens{1}) {
      decode_.push_back(entry);
    } else {
      prefill_.push_back(entry);
    }
  }

  /// Gives a resident the block that its next token needs, evicting for it if need be, and blocks for the lookahead if
  /// they are free: speculation is not worth an eviction. False: the next token has no room.
  [[nodiscard]] bool make_room_to_grow(Request& r) noexcept {
    const state& s = state_of(r);
    const auto held = static_cast<std::int64_t>(table_.row(s.row).size());
    const std::int64_t need = blocks_for(s.length, limits_.block_size).count();
    if (need > held && !make_free(static_cast<std::size_t>(need - held), 0)) {
      stalled_ = &r;
      return false;
    }
    std::int64_t wanted = blocks_for(min(s.length + step_.lookahead, longest_), limits_.block_size).count();
    if (wanted - held > free_blocks()) wanted = held + free_blocks();
    if (wanted > held) take(r, static_cast<std::size_t>(wanted - held));
    return true;
  }

  /// A waiting request's turn. `outranks`: residents rank behind it. Either it is in the plan afterwards, with all the
  /// blocks of its sequence, or nothing has changed. False: nobody behind it may start.
  [[nodiscard]] bool start(Request& r, bool outranks) noexcept {
    state& s = state_of(r);
    if (s.length > longest_) [[unlikely]] return pass_over(r), true;
    const std::size_t residents = kept_ + admitted_.size();
    const std::size_t slots = residents < limits_.residents ? 0 : 1;
    if (slots != 0 && next_ == kept_) return block(r, wait_reason::residents_full), false;

    const std::size_t mark = journal_.size();
    s.row = table_.acquire_row();
    TESSERA_ASSERT(s.row != no_index, "rows are twice the residents");
    note(reservation::what::row, r, 0);
    const std::size_t hits = s.swapped ? 0 : share_prefix(r);

    const tokens first = s.swapped ? s.computed : tokens{static_cast<std::int64_t>(hits)} * limits_.block_size.count();
    const tokens left = s.length - first;
    const blocks total = blocks_for(min(s.length + step_.lookahead, longest_), limits_.block_size);
    const std::size_t more = static_cast<std::size_t>(total.count()) - hits;

    wait_reason why_not = wait_reason::none;
    if (!may_compute(left)) {
      why_not = wait_reason::budget_spent;
    } else if (!outranks && !admits(r, more)) {
      // One that outranks residents is not asked: they are its headroom.
      why_not = blocks_.free() < more ? wait_reason::no_blocks : wait_reason::held_back;
    } else if (!make_free(more, slots)) {
      why_not = wait_reason::no_blocks;
    }
    if (why_not != wait_reason::none) {
      roll_back(mark);
      block(r, why_not);
      return false;
    }

    take(r, more);
    s.shared_blocks = static_cast<std::uint32_t>(hits);
    admitted_.push_back(&r);
    if (s.swapped) plan_swap_in(r);
    schedule_prefill(r, first, left);
    return true;
  }

  [[nodiscard]] bool admits(const Request& r, std::size_t more) const noexcept {
    const blocks free_after{free_blocks() - static_cast<std::int64_t>(more)};
    if (free_after < blocks{0}) return false;
    return config_.admit.admits(r, admission_view<Request>{.free_after = free_after,
                                                           .capacity = blocks{static_cast<std::int64_t>(blocks_.capacity())},
                                                           .block_size = limits_.block_size,
                                                           .residents = residents_.all().first(kept_),
                                                           .admitted = admitted_});
  }

  /// Takes the blocks that the prefix cache has of this prompt. At least one token is left to compute, because the
  /// step must sample from it.
  [[nodiscard]] std::size_t share_prefix(Request& r) noexcept {
    if constexpr (prefix_hashed<Request> && kv::prefix_store<BlockStore>) {
      state& s = state_of(r);
      std::span<const std::uint64_t> hashes = r.prefix_hashes();
      const auto most = static_cast<std::size_t>((s.length.count() - 1) / limits_.block_size.count());
      if (hashes.size() > most) hashes = hashes.first(most);
      const std::span<kv::block_id> ids = table_.extend(s.row, hashes.size());
      const std::size_t hits = blocks_.match(hashes, ids);
      table_.truncate(s.row, hits);
      const status shared = blocks_.share(ids.first(hits));
      TESSERA_ASSERT(shared == status::ok, "a matched block can be shared");
      static_cast<void>(shared);
      note(reservation::what::shared, r, hits);
      s.room = tokens{static_cast<std::int64_t>(hits)} * limits_.block_size.count();
      return hits;
    } else {
      static_cast<void>(r);
      return 0;
    }
  }

  /// Makes `n` blocks free by evicting, from the lowest-ranked resident up, at least `at_least` of those whose turn has
  /// not come. Either they suffice, or nobody is evicted.
  [[nodiscard]] bool make_free(std::size_t n, std::size_t at_least) noexcept {
    const auto want = static_cast<std::int64_t>(n);
    if (at_least == 0 && free_blocks() >= want) return true;
    std::int64_t most = free_blocks();
    for (std::size_t i = kept_; i > next_ && most < want; --i) {
      most += static_cast<std::int64_t>(table_.row(residents_[i - 1]->state().row).size());
    }
    if (most < want) return false;
    // Blocks that are shared with someone who stays do not become free: only trying tells.
    const std::size_t mark = journal_.size();
    const std::size_t keep = kept_ - at_least;
    while (kept_ > next_ && (free_blocks() < want || kept_ > keep)) evict(*residents_[--kept_]);
    if (free_blocks() >= want && kept_ <= keep) return true;
    roll_back(mark);
    return false;
  }

  void take(Request& r, std::size_t n) noexcept {
    state& s = state_of(r);
    const status taken = blocks_.allocate(table_.extend(s.row, n));
    TESSERA_ASSERT(taken == status::ok, "make_free promised the blocks");
    static_cast<void>(taken);
    s.room += tokens{static_cast<std::int64_t>(n)} * limits_.block_size.count();
    note(reservation::what::grown, r, n);
  }

  void evict(Request& r) noexcept {
    state& s = state_of(r);
    const std::span<const kv::block_id> row = table_.row(s.row);
    const auto written = static_cast<std::size_t>(blocks_for(s.computed, limits_.block_size).count());
    preemption_mode mode = config_.preempt.mode(r, blocks{static_cast<std::int64_t>(row.size())});
    if (written == 0 || (mode == preemption_mode::swap && host_.store(written, s.host_head) != status::ok)) {
      mode = preemption_mode::recompute;
    }
    if (mode == preemption_mode::swap) {
      s.host_blocks = static_cast<std::uint32_t>(written);
      swap_out_.push_back({&r, row.first(written), copy_host_ids(s)});
    }
    s.planned = true;
    victims_.push_back({&r, mode});
    const status released = blocks_.release(row);
    TESSERA_ASSERT(released == status::ok, "a resident's blocks are its own");
    static_cast<void>(released);
    note(reservation::what::evicted, r, s.preempted_by);
    s.preempted_by = plan_id_;
  }

  void plan_swap_in(Request& r) noexcept {
    const state& s = state_of(r);
    const auto written = static_cast<std::size_t>(blocks_for(s.computed, limits_.block_size).count());
    const std::span<const kv::block_id> device = table_.row(s.row).first(written);
    if (s.host_blocks == 0) {
      fetch_.push_back({&r, device});
    } else {
      swap_in_.push_back({&r, device, copy_host_ids(s)});
    }
  }

  /// The request's host blocks as a span for the plan.
  [[nodiscard]] std::span<const kv::block_id> copy_host_ids(const state& s) noexcept {
    const std::size_t begin = host_ids_.size();
    host_.for_each(s.host_head, [this](kv::block_id id) noexcept { host_ids_.push_back(id); });
    return {host_ids_.data() + begin, host_ids_.size() - begin};
  }

  void note(typename reservation::what kind, Request& r, std::uint64_t count) noexcept {
    journal_.push_back({kind, &r, count});
  }

  /// Undoes reservations, latest first, down to the first `mark`.
  void roll_back(std::size_t mark) noexcept {
    for (; journal_.size() > mark; journal_.pop_back()) {
      const reservation& done = journal_.back();
      Request& r = *done.request;
      state& s = state_of(r);
      switch (done.kind) {
        case reservation::what::row:
          table_.release_row(s.row);
          s.row = no_index;
          s.room = tokens{};
          break;
        case reservation::what::shared:
          if constexpr (kv::prefix_store<BlockStore>) blocks_.undo_share(table_.row(s.row).first(done.count));
          table_.truncate(s.row, table_.row(s.row).size() - done.count);
          break;
        case reservation::what::grown: {
          const std::span<const kv::block_id> row = table_.row(s.row);
          blocks_.undo_allocate(row.last(done.count));
          table_.truncate(s.row, row.size() - done.count);
          s.room -= tokens{static_cast<std::int64_t>(done.count)} * limits_.block_size.count();
          break;
        }
        case reservation::what::evicted:
          blocks_.undo_release(table_.row(s.row));
          if (victims_.back().mode == preemption_mode::swap) {
            for (std::size_t i = 0; i != s.host_blocks; ++i) host_ids_.pop_back();
            forget_host_copy(s);
            swap_out_.pop_back();
          }
          victims_.pop_back();
          s.preempted_by = done.count;
          s.planned = false;
          ++kept_;
          break;
      }
    }
  }

  [[nodiscard]] plan_type finish_plan() noexcept {
    table_.begin_batch();
    for (const scheduled<Request>& e : decode_) table_.add(e.row, e.first + e.count);
    for (const scheduled<Request>& e : prefill_) table_.add(e.row, e.first + e.count);
    return {.decode = decode_,
            .prefill = prefill_,
            .swap_out = swap_out_,
            .swap_in = swap_in_,
            .fetch = fetch_,
            .preempted = victims_,
            .outgrown = outgrown_,
            .tables = table_.view(),
            .computed = step_.token_budget - budget_,
            .id = plan_id_};
  }

  // -- settling ----------------------------------------------------------------------------------------------------

  /// Victims are the tail of the residents: they leave together, and wait at the place they have.
  void settle_evictions() noexcept {
    residents_.truncate(kept_);
    for (const preemption<Request>& v : victims_) {
      state& s = state_of(*v.request);
      table_.release_row(s.row);
      s.row = no_index;
      s.room = tokens{};
      s.planned = false;
      ++s.preemptions;
      s.swapped = v.mode == preemption_mode::swap;
      if (!s.swapped) s.computed = tokens{};
      s.life = lifecycle::waiting;
      waiting_.insert(*v.request);
    }
  }

  void settle_admissions() noexcept {
    for (Request* r : admitted_) {
      state& s = state_of(*r);
      waiting_.erase(*r);
      s.life = lifecycle::resident;
      s.cached_blocks = s.shared_blocks;
      if (s.swapped) forget_host_copy(s);
      s.swapped = false;
      residents_.insert(*r);
    }
  }

  void settle(const scheduled<Request>& e, const outcome& o, time_point now) noexcept {
    Request& r = *e.request;
    state& s = state_of(r);
    s.planned = false;
    s.served_by = plan_id_;
    if (s.ends_as != lifecycle::idle) [[unlikely]] return;
    s.computed = e.first + e.count;
    tokens produced{};
    if (e.samples) {
      TESSERA_ASSERT(o.produced > 0 || o.failed, "a sampling entry produces a token or fails");
      TESSERA_ASSERT(tokens{o.produced} <= tokens{1} + e.lookahead || o.failed, "more tokens than lookahead slots");
      produced = tokens{o.produced};
      s.length += produced;
      if (o.produced > 1) s.computed = s.length - tokens{1};
    }
    if (!o.failed) publish(r);
    if (o.finished || o.failed) {
      remove(r, o.failed ? lifecycle::failed : lifecycle::finished);
      return;
    }
    const bool due = discipline().charge(r, produced);
    const bool ends_reasoning = e.samples && o.end_of_reasoning && s.phase == phase::reasoning;
    if (due || ends_reasoning) {
      residents_.erase(r);
      if (due) discipline().requeue(r);
      if (ends_reasoning) {
        s.phase = phase::answering;
        s.reasoning = r.generated();
        s.answering_since = now;
        discipline().change_phase(r);
      }
      residents_.insert(r);
    }
  }

  /// Prompt blocks that are now full become findable.
  void publish(Request& r) noexcept {
    if constexpr (prefix_hashed<Request> && kv::prefix_store<BlockStore>) {
      state& s = state_of(r);
      const std::span<const std::uint64_t> hashes = r.prefix_hashes();
      if (s.cached_blocks >= hashes.size()) return;
      const auto full = static_cast<std::size_t>(s.computed / limits_.block_size);
      const std::span<const kv::block_id> row = table_.row(s.row);
      for (; s.cached_blocks < hashes.size() && s.cached_blocks < full; ++s.cached_blocks) {
        static_cast<void>(blocks_.publish(row[s.cached_blocks], hashes[s.cached_blocks]));
      }
    } else {
      static_cast<void>(r);
    }
  }

  void settle_endings() noexcept {
    for (Request* r : ended_) remove(*r, state_of(*r).ends_as);
    ended_.clear();
  }

  void forget_host_copy(state& s) noexcept {
    if (s.host_blocks != 0) {
      const status released = host_.release(s.host_head);
      TESSERA_ASSERT(released == status::ok, "a swapped request's host blocks are its own");
      static_cast<void>(released);
    }
    s.host_head = no_index;
    s.host_blocks = 0;
  }

  /// Takes a request out of wherever it is and gives back all it holds.
  void remove(Request& r, lifecycle as) noexcept {
    state& s = state_of(r);
    if (s.life == lifecycle::resident) {
      residents_.erase(r);
      const status released = blocks_.release(table_.row(s.row));
      TESSERA_ASSERT(released == status::ok, "a resident's blocks are its own");
      static_cast<void>(released);
      table_.release_row(s.row);
      s.row = no_index;
      s.room = tokens{};
    } else {
      waiting_.erase(r);
      forget_host_copy(s);
      s.swapped = false;
    }
    s.life = as;
    s.ends_as = lifecycle::idle;
    if (blocked_ == &r) blocked_ = nullptr;
    if (stalled_ == &r) stalled_ = nullptr;
  }

  limits limits_;
  tokens longest_{limits_.longest()};
  config config_;
  ordered_queue<Request, Order> waiting_;
  BlockStore blocks_;
  kv::block_table table_;
  kv::host_tier host_;
  resident_list residents_;

  // The pending plan.
  fixed_vector<scheduled<Request>> decode_;
  fixed_vector<scheduled<Request>> prefill_;
  fixed_vector<kv_transfer<Request>> swap_out_;
  fixed_vector<kv_transfer<Request>> swap_in_;
  fixed_vector<kv_fetch<Request>> fetch_;
  fixed_vector<preemption<Request>> victims_;
  fixed_vector<Request*> admitted_;
  fixed_vector<Request*> outgrown_;
  fixed_vector<Request*> ended_;  ///< Ended while the plan is pending.
  fixed_vector<kv::block_id> host_ids_;
  fixed_vector<reservation> journal_;
  step_limits step_{};
  tokens budget_{};
  std::size_t max_batch_ = 0;
  std::size_t next_ = 0;  ///< Residents before it have had their turn.
  std::size_t kept_ = 0;  ///< Residents from here on are victims.
  Request* blocked_ = nullptr;
  Request* stalled_ = nullptr;
  wait_reason blocked_reason_ = wait_reason::none;
  wait_reason stopped_ = wait_reason::none;
  std::uint64_t plan_id_ = 0;
  std::uint64_t seen_ = 0;
  std::uint64_t next_sequence_ = 1;
  bool pending_ = false;
};

TESSERA_NAMESPACE_END
