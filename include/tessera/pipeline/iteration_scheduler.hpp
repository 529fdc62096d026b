// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/admit/watermark.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/core/prefetch.hpp>
#include <tessera/core/status.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/gate/concepts.hpp>
#include <tessera/kv/block_pool.hpp>
#include <tessera/kv/csr_tables.hpp>
#include <tessera/order/concepts.hpp>
#include <tessera/order/fcfs.hpp>
#include <tessera/pipeline/config.hpp>
#include <tessera/pipeline/limits.hpp>
#include <tessera/pipeline/lookahead.hpp>
#include <tessera/pipeline/plan.hpp>
#include <tessera/pipeline/reasons.hpp>
#include <tessera/pipeline/roster.hpp>
#include <tessera/pipeline/step.hpp>
#include <tessera/pipeline/walk.hpp>
#include <tessera/preempt/swap.hpp>
#include <tessera/queue/ordered_queue.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// The scheduler of one engine instance: continuous batching, step by step, from a few policies.
///
/// Where to read what: `pipeline/walk.hpp` who has its turn when, `share.hpp` what a resident gets, `admission.hpp`
/// whether one that waits starts, `eviction.hpp` who gives way, `lookahead.hpp` drafts, `reasons.hpp` why somebody is
/// not in a plan; `roster.hpp` how requests come, go and change, `kv_ledger.hpp` the memory, `refusal.hpp` what need
/// not be found out twice.

TESSERA_NAMESPACE_BEGIN

/// Decides, step by step, which requests compute which tokens and where their KV lives.
///
/// A step serves requests in the order of the discipline, resident and waiting ones merged, until the batch, the token
/// budget or the blocks run out. A waiting request starts when its whole sequence fits; if it outranks residents, the
/// lowest-ranked of them give up their blocks for it, but only once it is certain that this will be enough. One whose
/// KV was dropped goes before everybody, once it has started again, until it has sampled a token: nobody is made to
/// begin twice for nothing.
///
/// Transactional: `plan` reserves, then exactly one of `commit` and `abandon` settles it. An abandoned plan leaves no
/// trace: the same blocks are handed out again, in the same order.
///
/// Complexity of a step: O(scheduled + evicted + blocks given or taken), whatever the number of requests that wait, age
/// or are cached; where places change, one pass over the residents' pointers; for each request that starts or is
/// refused O(log residents), and O(residents) if it outranks some or the policies look at them. The prefix of the first
/// who cannot start is matched once, and again only after so much has changed that it might start; so is whom to evict
/// for it. The CSR view moves the batch's indices (4 bytes a block) when rows grow. Allocation: none after
/// construction. Errors: values; misuse is asserted, and what would read past an end or take a request twice is refused
/// in unchecked builds, too. One thread, one plan at a time. Deterministic: the same calls give the same plans.
///
/// @tparam Order      who goes first: a `queue_discipline`.
/// @tparam Preempt    how blocks are given up: a `preemption_policy`.
/// @tparam Admit      whether one who fits may start: an `admission_policy`.
/// @tparam BlockStore the blocks: `kv::block_pool`, or `kv::prefix_cache` to share equal prompt prefixes.
/// @tparam Tables     the block tables as the engine takes them: `kv::csr_tables`, `kv::row_tables`,
///                    `kv::changed_tables`.
/// @tparam Gate       who may pass the first who cannot start: `gate::in_line`, `gate::backfill`.
template <schedulable Request, class Order = order::fcfs, class Preempt = preempt::swap, class Admit = admit::watermark,
          class BlockStore = kv::block_pool, class Tables = kv::csr_tables, class Gate = gate::in_line>
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
  static_assert(kv::table_policy<Tables>, "tessera: Tables is not a kv::table_policy");
  static_assert(gate_policy<Gate, Request>,
                "tessera: Gate lacks `static constexpr bool passes`, or `most_skipped` and "
                "`passage ask(const Request&, const gate_view<Request>&) const noexcept`");

 public:
  using request_type = Request;                      ///< The type of the requests.
  using clock_type = typename Request::clock_type;   ///< The clock of every time point and duration in the interface.
  using time_point = basic_time_point<clock_type>;   ///< A moment on that clock.
  using table_view = typename Tables::view_type;     ///< The block tables in a plan.
  using plan_type = step_plan<Request, table_view>;  ///< What `plan` returns.
  using limits = scheduler_limits;                   ///< What there must be room for; fixed at construction.

  using config = scheduler_config<Order, Preempt, Admit, Gate>;  ///< The policies' values.

  /// Bytes that a scheduler of these limits takes from the caller's memory.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add_bytes(roster::required_bytes(l))
        .add_bytes(Tables::required_bytes(table_limits(l)))
        .add_bytes(step::required_bytes(l))
        .bytes_unaligned();
  }

  /// Over the caller's memory, at least `required_bytes(l)` (asserted), which must outlive the scheduler.
  iteration_scheduler(std::span<std::byte> memory, const limits& l, const config& c) noexcept
      : iteration_scheduler{arena{memory}, l, c} {}
  /// The same with the policies' defaults.
  iteration_scheduler(std::span<std::byte> memory, const limits& l) noexcept
    requires std::default_initializable<config>
      : iteration_scheduler{arena{memory}, l, config{}} {}

  /// Over what `storage_for` made.
  iteration_scheduler(owned_storage<limits>& storage, const config& c) noexcept
      : iteration_scheduler{storage.memory(), storage.limits(), c} {}
  /// The same with the policies' defaults.
  explicit iteration_scheduler(owned_storage<limits>& storage) noexcept
    requires std::default_initializable<config>
      : iteration_scheduler{storage.memory(), storage.limits(), config{}} {}

  iteration_scheduler(const iteration_scheduler&) = delete;
  iteration_scheduler& operator=(const iteration_scheduler&) = delete;

  // -- requests in and out -----------------------------------------------------------------------------------------

  /// Puts a request into the waiting queue. O(log waiting). Allowed while a plan is pending.
  /// Returns `accepted`; `never_fits` if prompt + max_output cannot run even on the empty instance; `queue_full`;
  /// `busy` if it is in a scheduler, or in a queue of yours; `invalid` if the prompt is empty or max_output negative.
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
    if (is_live(r.state().life) || static_cast<const detail::rank_hook&>(r).is_linked()) return status::busy;
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
  /// if another instance has yet to agree, `suspend` it until then. Of one that is swapped out and left its first
  /// blocks to others, nothing is worth copying: its progress says so. O(log n + blocks held). `unknown_request` if it
  /// is not here; `busy` while a plan is pending, unless it is suspended: then its blocks are free when that is
  /// settled; `busy`, too, of one that was forked and whose last block a plan is yet to copy.
  [[nodiscard]] status evacuate(Request& r) noexcept {
    if (!roster_.contains(r)) return status::unknown_request;
    if (roster_.kv.awaits_copy(r)) return status::busy;
    if (!step_.pending) {
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
    if (step_.pending) return status::busy;
    roster_.suspend(r);
    return status::ok;
  }

  /// Lets a suspended request go on where it was. As `suspend`; `unknown_request` if it is not suspended here.
  [[nodiscard]] status resume(Request& r) noexcept {
    if (r.state().life != lifecycle::suspended || !roster_.contains(r)) return status::unknown_request;
    if (step_.pending) return status::busy;
    roster_.resume(r);
    return status::ok;
  }

  /// Takes a resident's KV away, as `preempt::recompute` would: it waits again, at the place that it has. For an engine
  /// that needs its blocks, or has lost what is in them. O(blocks held). Returns as `suspend`.
  [[nodiscard]] status preempt(Request& r) noexcept {
    if (r.state().life != lifecycle::resident || !roster_.contains(r)) return status::unknown_request;
    if (step_.pending) return status::busy;
    roster_.preempt(r);
    return status::ok;
  }

  /// Lets `child` begin as a copy of a resident, for parallel sampling: it has the same progress and shares its KV. A
  /// last block that is not full is copied: the next plan lists it in `copies`, whoever is in it. `child` has its
  /// description, `prompt` as its parent's, and is resident when this returns. O(log residents + blocks held). Returns
  /// `unknown_request` if the parent is no resident here, `invalid` if the prompts differ or max_output is negative;
  /// `busy` while a plan is pending or if the child is in a scheduler; `never_fits`; `exhausted` if there is no place,
  /// or no block for the copy.
  [[nodiscard]] status fork(const Request& parent, Request& child) noexcept {
    if (parent.state().life != lifecycle::resident || !roster_.contains(parent)) return status::unknown_request;
    if (step_.pending || is_live(child.state().life) || static_cast<const detail::rank_hook&>(child).is_linked()) {
      return status::busy;
    }
    if (child.prompt != parent.prompt || child.max_output < tokens{}) return status::invalid;
    if (!fits(parent.state().length, max(child.max_output - parent.generated(), tokens{}))) return status::never_fits;
    if (roster_.residents.size() + roster_.suspended.size() >= limits_.residents) return status::exhausted;
    return roster_.fork(parent, child) ? status::ok : status::exhausted;
  }

  /// Calls `f(r)`, which may change what the order's `before` looks at (its priority, members of yours), and moves `r`
  /// to where it then belongs. It keeps its KV. O(log n) comparisons and, for a resident, a move of pointers. Returns
  /// `unknown_request` if it is not here, `busy` while a plan is pending: nothing is called then.
  template <std::invocable<Request&> F>
  [[nodiscard]] status update(Request& r, F&& f) noexcept {
    if (!roster_.contains(r)) return status::unknown_request;
    if (step_.pending) return status::busy;
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
  /// `step.lookahead >= 0` (asserted; else the plan is empty and has the id 0, and nothing has changed).
  /// The plan may be empty. Its spans are valid until `commit` or `abandon`.
  [[nodiscard]] plan_type plan(time_point now, const step_limits& step) noexcept {
    TESSERA_ASSERT(!step_.pending, "the previous plan is neither committed nor abandoned");
    TESSERA_ASSERT(step.max_batch > 0 && step.token_budget > tokens{0}, "a step needs a batch and a token budget");
    TESSERA_ASSERT(step.lookahead >= tokens{0}, "negative lookahead");
    if (step_.pending || step.max_batch == 0 || step.token_budget <= tokens{} || step.lookahead < tokens{}) return {};
    roster_.advance(now);
    begin(step);
    planning p{limits_, longest_, config_, roster_, step_};
    detail::walk(p);
    if (step.lookahead > tokens{}) detail::give_lookahead(p);
    return finish_plan();
  }

  /// Settles a plan that was run. `outcomes[i]` belongs to `p[i]`: decode entries, then prefill entries.
  /// Requires: `p` is the pending plan, `outcomes.size() == p.size()` (asserted; else `invalid`, and nothing has
  /// changed); a sampling entry produced at least one token or failed, and at most one more than its lookahead
  /// (asserted; else it counts as the nearest that is possible). O(scheduled + evicted), and a pass over the residents'
  /// pointers if places change.
  status commit(const plan_type& p, std::span<const outcome> outcomes, time_point now) noexcept {
    TESSERA_ASSERT(is_pending(p), "not the pending plan");
    TESSERA_ASSERT(outcomes.size() == step_.size(), "one outcome per scheduled entry");
    if (!is_pending(p) || outcomes.size() != step_.size()) return status::invalid;
    roster_.settle_evictions(step_.kept);
    roster_.settle_admissions(step_.admitted, step_.first_guest);
    const outcome* o = outcomes.data();
    const std::uint32_t mark = step_.mark();
    constexpr std::size_t ahead = 8;
    for (std::size_t i = 0; i != step_.decode.size(); ++i, ++o) {
      if (i + ahead < step_.decode.size()) detail::prefetch(&step_.decode[i + ahead].request->state());
      if (!roster_.settle_decode(step_.decode[i], *o, step_.decode_at[i], mark)) [[unlikely]]
        settle(step_.decode[i], *o, step_.decode_at[i], now);
    }
    for (std::size_t i = 0; i != step_.prefill.size(); ++i) settle(step_.prefill[i], *o++, step_.prefill_at[i], now);
    roster_.settle_places();
    roster_.kv.copies_done();
    step_.pending = false;
    settle_endings();
    return status::ok;
  }

  /// Drops the pending plan as if it had never been made (except that its `now` has come: requests have aged). O(blocks
  /// it had reserved). Only for a plan that was not run, not even in part: blocks that it took from others count as
  /// untouched again. Requires: `p` is the pending plan (asserted; else `invalid`, and nothing has changed).
  status abandon(const plan_type& p) noexcept {
    TESSERA_ASSERT(is_pending(p), "not the pending plan");
    if (!is_pending(p)) return status::invalid;
    // What was found out beside what is undone now may not be true any more.
    if (roster_.kv.mark() != 0) {
      roster_.refused = step_.refused_before;
      roster_.refused_request = step_.refused_request_before;
      roster_.residents.set_bookmark(step_.bookmark_before);
    }
    step_.kept += roster_.kv.roll_back(0);
    step_.pending = false;
    step_.seen = 0;  // for `why`: nobody is in this plan
    settle_endings();
    return status::ok;
  }

  // -- what is known -----------------------------------------------------------------------------------------------

  /// Whether a sequence of this length that is to generate so many tokens more can run here, on the empty instance.
  /// O(1).
  [[nodiscard]] bool fits(tokens length, tokens to_come) const noexcept {
    // The last token generated needs no KV, hence the - 1.
    return length <= longest_ && max(to_come, tokens{1}) - tokens{1} <= longest_ - length;
  }

  /// Why a live request is not in the latest plan; `none` if it is, or has ended; `not_planned` after an `abandon`.
  /// O(1), or O(log residents) for a resident while a plan is pending. Requires: if it lives, it is here.
  [[nodiscard]] wait_reason why(const Request& r) const noexcept {
    return is_live(r.state().life) ? detail::why_not_in(step_, roster_.residents, longest_, r) : wait_reason::none;
  }

  /// Whether a plan waits for `commit` or `abandon`. O(1).
  [[nodiscard]] bool plan_pending() const noexcept { return step_.pending; }
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
  [[nodiscard]] const kv::block_table& tables() const noexcept { return roster_.kv.table(); }
  /// The host tier, to look at.
  [[nodiscard]] const kv::host_tier& host() const noexcept { return roster_.kv.host(); }
  /// As given at construction.
  [[nodiscard]] const limits& size_limits() const noexcept { return limits_; }
  /// Device blocks that a request holds, shared ones included; 0 while it waits. O(1). Requires: it is here.
  [[nodiscard]] blocks blocks_held(const Request& r) const noexcept {
    return r.state().row >= tables().rows() ? blocks{} : blocks{roster_.kv.held(r)};
  }
  /// Forgets what the prefix cache knows (the weights have changed): nobody who starts from now on shares what was
  /// computed before, nor what is computed on top of it. Blocks in use stay in use. Who has computed something goes on
  /// with it, also one that is swapped out; `preempt` or cancel it if it must not. What is adopted later counts as new.
  /// O(blocks + requests). `busy` while a plan is pending.
  [[nodiscard]] status forget_prefixes() noexcept
    requires requires(BlockStore& store) { store.clear(); }
  {
    if (step_.pending) return status::busy;
    roster_.forget_prefixes();
    return status::ok;
  }
  /// Device blocks that requests hold (cached blocks that nobody uses do not count).
  [[nodiscard]] blocks device_blocks_held() const noexcept { return capacity() - blocks{free_blocks()}; }
  /// Host blocks that swapped requests hold.
  [[nodiscard]] blocks host_blocks_held() const noexcept {
    return blocks{static_cast<std::int64_t>(host().capacity() - host().free())};
  }

 private:
  using roster = detail::roster<Request, Order, BlockStore>;
  using step = detail::step<Request>;
  using planning = detail::planning<Request, Order, Preempt, Admit, BlockStore, Gate>;

  static constexpr kv::block_table::limits table_limits(const limits& l) noexcept {
    return detail::kv_ledger<Request, BlockStore>::table_limits(l);
  }

  iteration_scheduler(arena memory, const limits& l, const config& c) noexcept
      : limits_{l},
        config_{c},
        roster_{memory, l, c.order},
        tables_{memory, table_limits(l)},
        step_{memory, l.residents} {
    TESSERA_ASSERT(l.block_size > tokens{0} && l.residents > 0 && l.blocks > 0, "empty limits");
  }

  [[nodiscard]] std::int64_t free_blocks() const noexcept { return roster_.kv.free_blocks(); }
  [[nodiscard]] blocks capacity() const noexcept { return blocks{static_cast<std::int64_t>(store().capacity())}; }
  [[nodiscard]] bool is_pending(const plan_type& p) const noexcept {
    return step_.pending && p.id == step_.id && p.decode.data() == step_.decode.data();
  }

  status end(Request& r, lifecycle as) noexcept {
    if (!roster_.contains(r)) return status::unknown_request;
    auto& s = request_access::state(r);
    if (step_.pending && (s.life != lifecycle::waiting || step_.has_mark(r, plan_mark::runs))) {
      if (s.ends_as == lifecycle::idle) step_.ended.push_back(&r);
      s.ends_as = as;
    } else {
      if (step_.refused_before.sequence == s.sequence) step_.refused_before.forget();
      roster_.remove(r, as);
    }
    return status::ok;
  }

  void begin(const step_limits& limits) noexcept {
    step_.limits = limits;
    step_.budget = limits.token_budget;
    step_.drafts = tokens{};
    step_.max_batch = limits.max_batch < limits_.residents ? limits.max_batch : limits_.residents;
    step_.starts = limits.max_starts;
    step_.next = 0;
    step_.kept = roster_.residents.size();
    step_.obtainable = capacity();
    step_.promised = blocks{};
    step_.blocked = 0;
    step_.stopped = wait_reason::none;
    step_.seen = roster_.next_sequence;
    step_.refused_before = roster_.refused;
    step_.refused_request_before = roster_.refused_request;
    step_.bookmark_before = roster_.residents.bookmark();
    step_.decode.clear();
    step_.prefill.clear();
    step_.decode_at.clear();
    step_.prefill_at.clear();
    step_.admitted.clear();
    step_.first_guest = ~std::size_t{0};
    step_.outgrown.clear();
    roster_.kv.begin();
    ++step_.id;
    step_.pending = true;
  }

  [[nodiscard]] plan_type finish_plan() noexcept {
    kv::block_table& table = roster_.kv.table();
    tables_.begin();
    for (auto* entries : {&step_.decode, &step_.prefill}) {
      for (const scheduled<Request>& e : *entries) {
        tables_.add(table, e.row, e.first + e.count + e.lookahead, e.new_blocks);
      }
    }
    return {.decode = step_.decode,
            .prefill = step_.prefill,
            .swap_out = roster_.kv.swap_out(),
            .copies = roster_.kv.copies(),
            .swap_in = roster_.kv.swap_in(),
            .fetch = roster_.kv.fetch(),
            .preempted = roster_.kv.victims(),
            .outgrown = step_.outgrown,
            .tables = tables_.view(table),
            .computed = step_.limits.token_budget - step_.budget - step_.drafts,
            .id = step_.id};
  }

  void settle(const scheduled<Request>& e, const outcome& o, std::uint32_t at, time_point now) noexcept {
    if (e.request->state().ends_as == lifecycle::idle) [[likely]] {
      roster_.settle(e, o, at, now, step_.mark());
    } else {
      roster_.settle_cancelled(*e.request, at);
    }
  }

  void settle_endings() noexcept {
    for (Request* r : step_.ended) roster_.remove(*r, r->state().ends_as);
    step_.ended.clear();
    roster_.settle_left_behind();
  }

  limits limits_;
  tokens longest_{limits_.longest()};
  config config_;
  roster roster_;
  [[no_unique_address]] Tables tables_;
  step step_;
};

TESSERA_NAMESPACE_END
