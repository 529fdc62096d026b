// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/admit/watermark.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/core/status.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/draft/concepts.hpp>
#include <tessera/gate/concepts.hpp>
#include <tessera/kv/block_pool.hpp>
#include <tessera/kv/csr_tables.hpp>
#include <tessera/order/concepts.hpp>
#include <tessera/order/fcfs.hpp>
#include <tessera/pipeline/config.hpp>
#include <tessera/pipeline/joining.hpp>
#include <tessera/pipeline/limits.hpp>
#include <tessera/pipeline/lookahead.hpp>
#include <tessera/pipeline/plan.hpp>
#include <tessera/pipeline/plan_ring.hpp>
#include <tessera/pipeline/reasons.hpp>
#include <tessera/pipeline/roster.hpp>
#include <tessera/pipeline/settlement.hpp>
#include <tessera/pipeline/step.hpp>
#include <tessera/pipeline/step_frame.hpp>
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
/// The parts of a plan: `pipeline/walk.hpp` the order of turns, `share.hpp` a resident's share, `admission.hpp` starts,
/// `eviction.hpp` evictions, `lookahead.hpp` drafts. `reasons.hpp` says why a request is not in a plan. `plan_ring.hpp`
/// holds the plans in flight, and `settlement.hpp` settles them. `roster.hpp` holds the requests as they come, go and
/// change. `kv_ledger.hpp` holds the memory, `refusal.hpp` refusals that need not be found again.

TESSERA_NAMESPACE_BEGIN

/// Decides, step by step, which requests compute which tokens and where their KV lives.
///
/// A step serves requests in the order of the discipline, resident and waiting ones merged, until batch, token budget
/// or blocks are used up. A waiting request starts when its whole sequence fits. If it outranks residents, the
/// lowest-ranked of them are evicted for it, but only once it is certain that this suffices. A request that lost its KV
/// goes before all others, once it has restarted, until it has sampled a token. So no request restarts twice without
/// progress.
///
/// Transactional: `plan` reserves, and exactly one of `commit` and `abandon` settles it. An abandoned plan leaves no
/// trace: the same blocks are handed out again, in the same order.
///
/// Several plans may be in flight (`scheduler_limits::plans_in_flight`). A step is planned while others run, continues
/// from their expected results, and is settled after them. A request *expects* tokens that are not known yet
/// (`state().expected`): a token from each plan that samples, and all of its drafts. If a plan produces fewer, its
/// settlement corrects that. An ended request keeps its blocks until the last plan that contains it is settled. A
/// victim's outcomes count while it waits, and it restarts when all are known. The engine must run plans in the order
/// in which they were made, and the copies of one after the kernels of the one before.
/// A plan is *open* until another is made or one is settled. As long as it is open, it can be abandoned, and calls that
/// would make that inexact return `busy`. With one plan in flight it is open until it is settled.
///
/// Complexity of a step: O(scheduled + evicted + blocks given or taken), whatever the number of requests that wait, age
/// or are cached. If places change: one pass over the residents' pointers. For each request that starts or is refused:
/// O(log residents), or O(residents) if it outranks some or the policies look at them. The prefix of the first request
/// that cannot start is matched once. It is matched again only after changes that might let it start; the same holds
/// for the choice of victims. The CSR view moves the batch's indices (4 bytes a block) when rows grow.
/// Allocation: none after construction. Errors: values. Misuse is asserted; what would read past an end or take a
/// request twice is refused in unchecked builds as well. One thread. Deterministic: the same calls give the same plans.
///
/// @tparam Order      which request goes first: a `queue_discipline`.
/// @tparam Preempt    how blocks are given up: a `preemption_policy`.
/// @tparam Admit      whether a request that fits may start: an `admission_policy`.
/// @tparam BlockStore the blocks: `kv::block_pool`, or `kv::prefix_cache` to share equal prompt prefixes, or, for a
/// model with different kinds of layers, `kv::groups` (`pipeline/grouped_ledger.hpp`).
/// @tparam Tables     the block tables in the engine's form: `kv::csr_tables`, `kv::row_tables`, `kv::changed_tables`.
/// @tparam Gate       which requests may also start, are skipped, or pass the first that cannot: a `gate_policy`.
/// @tparam Draft      how many drafts a request has in a step: a `draft_policy`.
template <schedulable Request, class Order = order::fcfs, class Preempt = preempt::swap, class Admit = admit::watermark,
          class BlockStore = kv::block_pool, class Tables = kv::csr_tables, class Gate = gate::in_line,
          class Draft = draft::same_for_all>
class iteration_scheduler {
  static_assert(sizeof(detail::explain_queue_discipline<Order, Request>) != 0);
  static_assert(queue_discipline<Order, Request>, "tessera: Order is not a queue_discipline for this request type");
  static_assert(!detail::preemption_chooses<Preempt> || detail::preemption_says_loss<Preempt, Request>,
                "tessera: a Preempt that chooses needs `window` and `double loss(const Request&, const victim_view&) "
                "const noexcept`");
  static_assert(preemption_policy<Preempt, Request> ||
                    (detail::preemption_chooses<Preempt> && !detail::preemption_says_loss<Preempt, Request>),
                "tessera: Preempt lacks `preemption_mode mode(const Request&, blocks) const noexcept`");
  static_assert(admission_policy<Admit, Request>,
                "tessera: Admit lacks `bool admits(const Request&, const admission_view<Request>&) const noexcept`");
  static_assert(kv::block_store<BlockStore> || detail::is_kv_groups<BlockStore>,
                "tessera: BlockStore is not a kv::block_store (for kv::groups include "
                "<tessera/pipeline/grouped_ledger.hpp>)");
  static_assert(!kv::prefix_store<BlockStore> || prefix_hashed<Request, kv::hash_of<BlockStore>>,
                "tessera: a prefix cache needs requests with "
                "`std::span<const std::uint64_t> prefix_hashes() const noexcept` (or of the cache's hashes)");
  static_assert(detail::hashes_by_group<Request, BlockStore>,
                "tessera: with kv::groups, a request that has prefix_hashes() has them for each group: "
                "`std::array<std::span<const std::uint64_t>, Groups> prefix_hashes() const noexcept`");
  static_assert(kv::table_policy<Tables>, "tessera: Tables is not a kv::table_policy");
  static_assert(sizeof(detail::explain_gate_policy<Gate, Request>) != 0);
  static_assert(gate_policy<Gate, Request>, "tessera: Gate is not a gate_policy for this request type");
  static_assert(
      draft_policy<Draft, Request>,
      "tessera: Draft lacks `tokens drafts(const Request&, const draft_view&) const noexcept`, or the request "
      "what that asks of it, as `drafts`");

  using ledger = detail::ledger_for<Request, BlockStore>;
  using shown_tables = typename ledger::template shown_by<Tables>;

 public:
  using request_type = Request;                     ///< The type of the requests.
  using clock_type = typename Request::clock_type;  ///< The clock of all time points and durations of the interface.
  using time_point = basic_time_point<clock_type>;  ///< A moment on that clock.
  using table_view = typename shown_tables::view_type;  ///< The block tables in a plan.
  using plan_type = step_plan<Request, table_view>;     ///< What `plan` returns.
  using limits = typename ledger::limits;               ///< Capacities; fixed at construction.

  using config = scheduler_config<Order, Preempt, Admit, Gate, Draft>;  ///< The policies' parameters.

  /// Bytes that a scheduler with these limits takes from the caller's memory.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add_bytes(roster::required_bytes(l))
        .add_bytes(shown_tables::required_bytes(ledger::table_limits(l)))
        .add_bytes(detail::plan_ring<Request>::required_bytes(l))
        .bytes_unaligned();
  }

  /// Over the caller's memory, at least `required_bytes(l)` (checked in every build), which must outlive the scheduler.
  iteration_scheduler(std::span<std::byte> memory, const limits& l, const config& c) noexcept
      : iteration_scheduler{arena{memory}, l, c} {}
  /// The same with the policies' defaults.
  iteration_scheduler(std::span<std::byte> memory, const limits& l) noexcept
    requires std::default_initializable<config>
      : iteration_scheduler{arena{memory}, l, config{}} {}

  /// Over storage from `storage_for`.
  iteration_scheduler(owned_storage<limits>& storage, const config& c) noexcept
      : iteration_scheduler{storage.memory(), storage.limits(), c} {}
  /// The same with the policies' defaults.
  explicit iteration_scheduler(owned_storage<limits>& storage) noexcept
    requires std::default_initializable<config>
      : iteration_scheduler{storage.memory(), storage.limits(), config{}} {}

  iteration_scheduler(const iteration_scheduler&) = delete;
  iteration_scheduler& operator=(const iteration_scheduler&) = delete;

  // -- requests in and out -----------------------------------------------------------------------------------------

  /// Puts a request into the waiting queue. O(log waiting). Allowed at any moment.
  /// Returns `accepted`, or the first of these. `never_fits`: prompt + max_output cannot run even on the empty
  /// instance. `queue_full`. `busy`: it is in a scheduler, or in a queue of yours. `invalid`: the prompt is empty,
  /// max_output is negative, or the gate cannot account for it (its tenant is out of range). `invalid` as well if it
  /// has more `prefix_hashes()` than full blocks: the last hash would find another request's tokens. `refused`: the
  /// gate rejects it.
  [[nodiscard]] status submit(Request& r, time_point now) noexcept {
    const request_progress<clock_type> p{
        .length = r.prompt, .phase = r.starts_in, .arrived = now, .answering_since = now};
    if constexpr (detail::gate_refuses<Gate>) {
      const status s = may_join(r, p);
      if (ok(s) && roster_.gate.refuses(r, now)) {
        ++roster_.counters.refused;
        return status::refused;
      }
    }
    return adopt(r, p);
  }

  /// Continues a request that another instance gave up with `evacuate`. The plan that starts it lists it in `fetch`:
  /// the engine then fetches its KV. O(log waiting). Returns as `submit`; `invalid` if it was not given up.
  [[nodiscard]] status adopt(Request& r) noexcept {
    if (is_live(r.state().life)) return status::busy;
    if (r.state().life != lifecycle::idle) return status::invalid;
    return adopt(r, r.progress());
  }

  /// The same for a request that was given up in another process. `r` has its description; `p` is its `progress()`
  /// there, with the times on this time line. Set `p.computed` to 0 if its KV is lost: everything is computed anew.
  /// Returns as `submit`; `invalid` also unless `prompt <= length`, `computed < length`, `reasoning <= length -
  /// prompt`.
  [[nodiscard]] status adopt(Request& r, const request_progress<clock_type>& p) noexcept {
    const status s = may_join(r, p);
    if (ok(s)) {
      roster_.join(r, p);
    } else {
      ++roster_.counters.refused;
    }
    return s;
  }

  /// Gives a request up: its blocks are free at once, and its progress stays in its state for `adopt`. Copy its KV
  /// before; if another instance has yet to agree, `suspend` it until then. For a request that is swapped out and left
  /// its first blocks to others, no KV is worth copying: its progress says so. O(log n + blocks held).
  /// `unknown_request` if it is not here. `busy` while a plan in flight contains it, which decides its progress, or has
  /// yet to copy the last block of a forked request. `busy` as well while a plan is open, unless the request is
  /// suspended. Then its blocks are free when that plan is not open any more.
  [[nodiscard]] status evacuate(Request& r) noexcept {
    if (!roster_.contains(r)) return status::unknown_request;
    if (roster_.kv.awaits_copy(r) || is_in_flight(r) || is_loading(r)) return status::busy;
    if (!plans_.has_open()) {
      roster_.remove(r, lifecycle::idle);
    } else if (r.state().life == lifecycle::suspended && r.state().ends_as == lifecycle::idle) {
      roster_.leave_behind(r);
    } else {
      return status::busy;
    }
    return status::ok;
  }

  /// Suspends a resident: it keeps its blocks and its place among the residents, no plan computes anything for it, and
  /// it is not evicted. The other requests use the blocks that are left: if these are too few for the first of them,
  /// plans are empty. O(log residents) comparisons and a move of pointers. `resume`, `evacuate`, `cancel` and `finish`
  /// end it. Results of plans in flight count. Returns `unknown_request` if it is not a resident here, `busy` while a
  /// plan is open.
  [[nodiscard]] status suspend(Request& r) noexcept {
    if (r.state().life != lifecycle::resident || !roster_.contains(r)) return status::unknown_request;
    if (plans_.has_open()) return status::busy;
    roster_.suspend(r);
    return status::ok;
  }

  /// Resumes a suspended request at its place. As `suspend`; `unknown_request` if it is not suspended here.
  [[nodiscard]] status resume(Request& r) noexcept {
    const auto& s = r.state();
    if (s.life != lifecycle::suspended || s.parked || s.loads || !roster_.contains(r)) return status::unknown_request;
    if (plans_.has_open()) return status::busy;
    roster_.resume(r);
    return status::ok;
  }

  /// Parks a waiting or resident request, with its place kept, until `ready` or the deadline: its grammar is being
  /// compiled, or its input streams. No request waits behind it, and no plan computes anything for it. A resident keeps
  /// its blocks, as a suspended one. Results of plans in flight count. After `deadline` (`never()`: none) it is ready,
  /// or fails if `at_deadline` says so; the plan that finds this reports it (`late`).
  /// May be called again, for another deadline. O(log n); a move of pointers for a resident. Returns `unknown_request`
  /// if it is neither waiting nor resident. `busy` if the open plan contains it or, for a resident, if there is an open
  /// plan. `exhausted` without room for the deadline (`limits.deadlines`).
  [[nodiscard]] status park(Request& r, time_point deadline, park_end at_deadline = park_end::ready) noexcept {
    const auto& s = r.state();
    if ((s.life != lifecycle::waiting && s.life != lifecycle::resident && !s.parked) || !roster_.contains(r)) {
      return status::unknown_request;
    }
    if (s.life == lifecycle::resident ? plans_.has_open() : is_starting(r)) return status::busy;
    if (!roster_.deadlines.set(deadline_of::parked, r, deadline, at_deadline == park_end::fails))
      return status::exhausted;
    if (!s.parked) roster_.park(r);
    return status::ok;
  }

  /// Unparks a request at its place. As `park`; `unknown_request` if it is not parked here, `busy` only for one with
  /// blocks.
  [[nodiscard]] status ready(Request& r) noexcept {
    if (!r.state().parked || !roster_.contains(r)) return status::unknown_request;
    if (r.state().life != lifecycle::waiting && plans_.has_open()) return status::busy;
    roster_.ready(r);
    return status::ok;
  }

  /// The KV of a waiting request's first `n` tokens is elsewhere, and takes longer than a step to fetch. When its turn
  /// comes it takes all its blocks. The plan lists them in `load`, less those that the prefix cache has. Then it is
  /// suspended until `arrived`. From `deadline` on (`never()`: none) it computes what has not arrived: the engine must
  /// have stopped writing to its blocks by then. If it is cancelled, it ends only with `arrived` or the deadline.
  /// O(log deadlines). Returns `unknown_request` if it does not wait here. `busy` if the open plan contains it, or
  /// plans in flight decide its length. `invalid` unless 0 < n < length, or if its KV is in the host tier. `exhausted`
  /// without room for the deadline (`limits.deadlines`).
  [[nodiscard]] status loading(Request& r, tokens n, time_point deadline) noexcept {
    if (n == tokens{}) return status::invalid;
    if (const status s = detail::may_expect(roster_, r, n, is_starting(r)); !ok(s)) return s;
    if (!roster_.deadlines.set(deadline_of::loading, r, deadline, false)) return status::exhausted;
    roster_.expect_kv(r, n, true);
    return status::ok;
  }

  /// The same for KV that the engine fetches before it runs the plan that starts the request. That plan lists its
  /// blocks in `fetch`. If the KV does not come, the outcome is `spoilt`. Replaces what was announced; 0: nothing
  /// comes. Returns as `loading`; `invalid` unless 0 <= n < length, or if its KV is in the host tier.
  [[nodiscard]] status fetching(Request& r, tokens n) noexcept {
    if (const status s = detail::may_expect(roster_, r, n, is_starting(r)); !ok(s)) return s;
    roster_.deadlines.drop(deadline_of::loading, r);
    roster_.expect_kv(r, n, false);
    return status::ok;
  }

  /// The first `n` tokens of the sequence have KV in the blocks that `load` named. If they are fewer than announced, it
  /// computes the rest. Where a window or state cannot begin with these, it waits as after `preempt`. Nothing else
  /// writes to these blocks from now on, and other requests can find the whole ones.
  /// O(log n), a move of pointers, and a look at each of its blocks. Returns `unknown_request` if it is not loading
  /// here. `busy` while a plan is open, including the one that lists it in `load`. `invalid` if `n` is negative or more
  /// than announced.
  [[nodiscard]] status arrived(Request& r, tokens n) noexcept {
    if (r.state().loads && roster_.contains(r) && is_starting(r))
      return status::busy;  // `load` of the open plan lists it
    if (!is_loading(r) || !roster_.contains(r)) return status::unknown_request;
    if (plans_.has_open()) return status::busy;
    if (n < tokens{} || n > r.state().computed) return status::invalid;
    settling().arrived(r, n);
    return status::ok;
  }

  /// The next plan after `deadline` reports it (`late`) if the request has not started by then: it waits, or is parked
  /// without blocks. Nothing else happens to it. `never()` removes the deadline. O(log deadlines), at any moment.
  /// Returns `unknown_request` if it does not wait here, `exhausted` without room for the deadline
  /// (`limits.deadlines`).
  [[nodiscard]] status start_by(Request& r, time_point deadline) noexcept {
    if (r.state().life != lifecycle::waiting || !roster_.contains(r)) return status::unknown_request;
    return roster_.deadlines.set(deadline_of::waiting, r, deadline, false) ? status::ok : status::exhausted;
  }

  /// As `evacuate(r)`, for a copy of its KV that is still in progress. Its blocks are `draining`: they are not handed
  /// out again before `drained(ticket)`, and count as one of `limits.residents`. After `deadline` (`never()`: none)
  /// they are handed out all the same, and a copy that ends later must be discarded. Returns as `evacuate`, and `busy`
  /// while any plan is open. `unknown_request` also if it holds no blocks; `exhausted` without room for it
  /// (`limits.deadlines`).
  [[nodiscard]] status evacuate(Request& r, time_point deadline, std::uint64_t& ticket) noexcept {
    return drain(r, lifecycle::idle, deadline, ticket);
  }
  /// The same for a finished request: its KV is on its way to another instance, or to storage. (An outcome that says
  /// `finished` would give its blocks back at once.)
  [[nodiscard]] status finish(Request& r, time_point deadline, std::uint64_t& ticket) noexcept {
    return drain(r, lifecycle::finished, deadline, ticket);
  }
  /// Ends the draining of blocks: their copy is done. At any moment; if a plan is open, the blocks are free when it is
  /// not open any more. O(log deadlines + blocks). `unknown_request` if there is no such ticket, or its deadline has
  /// passed.
  status drained(std::uint64_t ticket) noexcept {
    auto* const e = roster_.deadlines.empty() ? nullptr : roster_.deadlines.find(deadline_of::draining, ticket);
    if (e == nullptr) return status::unknown_request;
    roster_.drained(*e, plans_.has_open());
    return status::ok;
  }

  /// Takes a resident's KV away, as `preempt::recompute` would: it waits again, at its place. For an engine that needs
  /// its blocks, or has lost their content. Results of plans in flight count. Plans made from now on may use the
  /// blocks. O(blocks held). Returns as `suspend`.
  [[nodiscard]] status preempt(Request& r) noexcept {
    if (r.state().life != lifecycle::resident || !roster_.contains(r)) return status::unknown_request;
    if (plans_.has_open()) return status::busy;
    settling().preempt(r);
    return status::ok;
  }

  /// Starts `child` as a copy of a resident, for parallel sampling: it has the same progress and shares its KV. A last
  /// block that is not full is copied: the next plan lists it in `copies`, whatever else it contains. `child` has its
  /// description, with `prompt` as its parent's, and is resident when this returns.
  /// With several plans in flight the parent needs a member `forks_due`, as for `gate::groups`. While it is not 0, no
  /// plan continues a request if a plan in flight will produce its next token. All children start between that plan's
  /// commit and the next plan. O(log residents + blocks held).
  /// Returns `unknown_request` if the parent is no resident here. `invalid` if the prompts differ, max_output is
  /// negative or the gate cannot account for the child. `busy` while a plan is open or one in flight contains the
  /// parent, or if the child is in a scheduler. `never_fits`. `exhausted` if there is no place, or no block for the
  /// copy.
  [[nodiscard]] status fork(const Request& parent, Request& child) noexcept {
    if (parent.state().life != lifecycle::resident || !roster_.contains(parent)) return status::unknown_request;
    if (plans_.has_open() || is_in_flight(parent) || is_live(child.state().life) ||
        static_cast<const detail::rank_hook&>(child).is_linked()) {
      return status::busy;
    }
    if (child.prompt != parent.prompt || child.max_output < tokens{} || !detail::is_known_to(roster_.gate, child))
      return status::invalid;
    if (!fits(parent.state().length, max(child.max_output - parent.generated(), tokens{}))) return status::never_fits;
    if (roster_.residents.size() + roster_.suspended.size() + roster_.draining >= limits_.residents) {
      return status::exhausted;
    }
    return roster_.fork(parent, child) ? status::ok : status::exhausted;
  }

  /// Calls `f(r)`, which may change what the order's `before` reads (its priority, members of yours), and moves `r` to
  /// its new place. What the gate reads must stay as it is. It keeps its KV. O(log n) comparisons and, for a resident,
  /// a move of pointers. Returns `unknown_request` if it is not here, `busy` while a plan is open: then `f` is not
  /// called.
  template <std::invocable<Request&> F>
  [[nodiscard]] status update(Request& r, F&& f) noexcept {
    if (!roster_.contains(r)) return status::unknown_request;
    if (plans_.has_open()) return status::busy;
    roster_.update(r, f);
    return status::ok;
  }

  /// Ends a request at any moment, as cancelled. Its blocks are free when this returns. If it holds some and a plan is
  /// open or in flight with it, they are free when the last of these plans is settled. Until then it lives, but is in
  /// no further plan. Results for it are ignored. O(log n + blocks held). Returns `unknown_request` if it is not here.
  status cancel(Request& r) noexcept { return settling().end(r, lifecycle::cancelled); }

  /// As `cancel`, but the request counts as finished: for one that has outgrown the instance, or with a last token that
  /// the engine recognises late.
  status finish(Request& r) noexcept { return settling().end(r, lifecycle::finished); }

  // -- one step ----------------------------------------------------------------------------------------------------

  /// Chooses the next step. Requires: fewer plans are in flight than the limits allow. `step.max_batch > 0`,
  /// `step.token_budget > 0`, `step.lookahead >= 0`, `step.prefill_budget >= 0`, `step.max_chunk >= 0`. All are
  /// asserted; else the plan is empty and has the id 0, and nothing has changed (a negative `max_chunk` counts as 0).
  /// The plan may be empty. Its spans are valid until it is committed or abandoned, `tables` until another is made.
  /// With other plans in flight, it continues from their expected results: with tokens that are not known yet.
  [[nodiscard]] plan_type plan(time_point now, const step_limits& l) noexcept {
    TESSERA_ASSERT(!plans_.full(), "the previous plan is neither committed nor abandoned");
    TESSERA_ASSERT(l.max_batch > 0 && l.token_budget > tokens{0}, "a step needs a batch and a token budget");
    TESSERA_ASSERT(l.lookahead >= tokens{0}, "negative lookahead");
    TESSERA_ASSERT(l.prefill_budget >= tokens{0}, "negative prefill budget");
    TESSERA_ASSERT(l.max_chunk >= tokens{0}, "negative chunk");
    if (plans_.full() || l.max_batch == 0 || l.token_budget <= tokens{} || l.lookahead < tokens{} ||
        l.prefill_budget < tokens{}) {
      return {};
    }
    settling().close();
    step& s = detail::begin_step(roster_, plans_, l, limits_.residents, now);
    planning p{limits_, longest_, config_, roster_, s};
    detail::walk(p);
    detail::top_up(p);
    if (l.lookahead > tokens{}) detail::give_lookahead(p);
    return detail::show_step<plan_type>(tables_, roster_.kv.tables(), s, plans_.oldest().id);
  }

  /// Settles the oldest plan in flight, which was run. `outcomes[i]` belongs to `p[i]`: decode entries, then prefill
  /// entries. Outcomes of requests that have ended meanwhile are ignored: an earlier plan may end requests that this
  /// plan still contains.
  /// Requires: `p` is the oldest plan in flight, `outcomes.size() == p.size()` (asserted; else `invalid`, and nothing
  /// has changed). A sampling entry failed, was spoilt or produced from 1 to 1 + lookahead tokens (else it counts as
  /// the nearest valid value). O(scheduled + evicted), and a pass over the residents' pointers if places change.
  status commit(const plan_type& p, std::span<const outcome> outcomes, time_point now) noexcept {
    TESSERA_ASSERT(is_oldest(p), "not the pending plan, or not the oldest of those");
    TESSERA_ASSERT(outcomes.size() == p.size(), "one outcome per scheduled entry");
    if (!is_oldest(p) || outcomes.size() != plans_.oldest().size()) return status::invalid;
    settling().commit(outcomes, now);
    return status::ok;
  }

  /// Drops the newest plan as if it had never been made, except for its `now`: requests have aged. O(blocks it had
  /// reserved). Only for a plan that was not run, not even in part: blocks that it took from others count as untouched
  /// again. Requires: `p` is the newest plan in flight, with no commit or abandon since it was made (asserted; else
  /// `invalid`, and nothing has changed).
  status abandon(const plan_type& p) noexcept {
    TESSERA_ASSERT(is_open(p), "not the pending plan, or others have been made or settled since");
    if (!is_open(p)) return status::invalid;
    settling().abandon();
    return status::ok;
  }

  // -- queries -----------------------------------------------------------------------------------------------------

  /// Whether a sequence of this length with `to_come` more tokens to generate can run here, on the empty instance.
  /// O(1).
  [[nodiscard]] bool fits(tokens length, tokens to_come) const noexcept {
    return detail::fits(longest_, length, to_come);
  }

  /// Why a live request is not in the latest plan. `none` if it is, or has ended; `not_planned` after an `abandon`.
  /// O(1), or O(log residents) for a resident while a plan is open. Requires: if it lives, it is here.
  [[nodiscard]] wait_reason why(const Request& r) const noexcept {
    if (!is_live(r.state().life)) return wait_reason::none;
    const bool is_bounded = detail::is_bounded<Gate>(r, r.state().computed);
    return detail::why_not_in(plans_.latest(), roster_.residents, longest_, r, is_bounded);
  }

  /// Whether a plan waits for `commit` or `abandon`. O(1).
  [[nodiscard]] bool plan_pending() const noexcept { return plans_.size() != 0; }
  /// The number of plans that wait for `commit`. O(1).
  [[nodiscard]] std::size_t plans_in_flight() const noexcept { return plans_.size(); }
  /// Whether the newest plan can still be abandoned: no plan has been made or settled since. O(1).
  [[nodiscard]] bool can_abandon() const noexcept { return plans_.has_open(); }
  /// Whether a plan in flight contains the request: it computes something for it, took its blocks, or copies its last
  /// one. For an open plan this may be incomplete. O(plans in flight). Requires: it is here.
  [[nodiscard]] bool is_in_flight(const Request& r) const noexcept {
    bool copied = false;
    plans_.for_each([&](const step& s) noexcept { copied = copied || roster_.kv.is_filled_by(r, s.moves.copies); });
    return copied || plans_.last_with(r) != nullptr;
  }
  /// Requests that hold no blocks, new or preempted, and are not parked. O(1).
  [[nodiscard]] std::size_t waiting_count() const noexcept { return roster_.waiting.size(); }
  /// Requests that hold blocks and run. O(1).
  [[nodiscard]] std::size_t resident_count() const noexcept { return roster_.residents.size(); }
  /// Requests that hold no blocks and are parked. O(1).
  [[nodiscard]] std::size_t parked_count() const noexcept { return roster_.parked.size(); }
  /// Copies out in progress: rows of blocks that their requests have left. O(1).
  [[nodiscard]] std::size_t draining_count() const noexcept { return roster_.draining; }
  /// Requests that hold blocks and are suspended, parked or loading their KV. O(1).
  [[nodiscard]] std::size_t suspended_count() const noexcept { return roster_.suspended.size(); }
  /// Whether no request is here, nor held by a plan in flight. O(plans in flight).
  [[nodiscard]] bool idle() const noexcept {
    bool holds = false;
    plans_.for_each([&](const step& s) noexcept { holds = holds || !s.ended.empty(); });
    return !holds && roster_.waiting.empty() && roster_.parked.empty() && roster_.residents.size() == 0 &&
           roster_.suspended.empty();
  }
  /// Requests that hold device blocks and run, in rank order. Invalidated by every other call.
  [[nodiscard]] std::span<Request* const> residents() const noexcept { return roster_.residents.all(); }
  /// The waiting requests, in rank order from `front()`: an `ordered_queue` or, if the gate sees classes, a
  /// `class_queue`.
  [[nodiscard]] const auto& waiting() const noexcept { return roster_.waiting; }
  /// The counters so far. O(1).
  [[nodiscard]] const scheduler_counters& counters() const noexcept { return roster_.counters; }
  /// The order. Its parameters may be changed while no plan is open: then `update` each request, by `order().retune`.
  [[nodiscard]] Order& order() noexcept { return roster_.discipline(); }
  /// The gate, with its present state.
  [[nodiscard]] const Gate& gate() const noexcept { return roster_.gate; }
  [[nodiscard]] Gate& gate() noexcept { return roster_.gate; }  ///< The same, for what a gate may be told.
  /// The block store, for reading.
  [[nodiscard]] const auto& store() const noexcept { return roster_.kv.store(); }
  /// The block table; rows are named by the entries of a plan.
  [[nodiscard]] const typename ledger::tables_type& tables() const noexcept { return roster_.kv.tables(); }
  /// The host tier, for reading.
  [[nodiscard]] const auto& host() const noexcept { return roster_.kv.host(); }
  /// The limits given at construction.
  [[nodiscard]] const limits& size_limits() const noexcept { return limits_; }
  /// Device blocks that a request holds, shared ones included; 0 while it waits. O(1). Requires: it is here.
  [[nodiscard]] blocks blocks_held(const Request& r) const noexcept {
    return r.state().row == no_index ? blocks{} : roster_.kv.held(r);
  }
  /// Clears the prefix cache (the weights have changed): requests that start from now on share no KV computed before,
  /// nor any that continues it. Blocks in use stay in use. A request with computed KV keeps it, also if it is swapped
  /// out; `preempt` or cancel it if it must not. Requests adopted later count as new. O(blocks + requests). `busy`
  /// while a plan is open.
  [[nodiscard]] status forget_prefixes() noexcept
    requires requires(BlockStore& store) { store.clear(); }
  {
    if (plans_.has_open()) return status::busy;
    roster_.forget_prefixes();
    return status::ok;
  }
  /// The sink of prefix cache events (`kv::event_ring`): its content is final when no plan is open.
  [[nodiscard]] auto& cache_events() noexcept
    requires requires(ledger& kv) { kv.store().sink(); }
  {
    return roster_.kv.store().sink();
  }
  /// Device blocks that requests hold (cached blocks without an owner do not count).
  [[nodiscard]] blocks device_blocks_held() const noexcept { return capacity() - blocks{free_blocks()}; }
  /// Host blocks that swapped requests hold.
  [[nodiscard]] blocks host_blocks_held() const noexcept {
    return blocks{static_cast<std::int64_t>(host().capacity() - host().free())};
  }

 private:
  using roster = detail::roster<Request, Order, BlockStore, Gate>;
  using step = detail::step<Request>;
  using settlement = detail::settlement<Request, Order, BlockStore, Gate>;
  using planning = detail::planning<Request, Order, Preempt, Admit, BlockStore, Gate, Draft>;

  iteration_scheduler(arena memory, const limits& l, const config& c) noexcept
      : limits_{l},
        config_{c},
        roster_{memory, l, c.order, c.gate},
        tables_{memory, ledger::table_limits(l)},
        plans_{memory, l} {
    roster_.keep_draft_blocks = c.keep_draft_blocks;
    detail::require_possible<ledger::slides>(l, c);
    if constexpr (detail::gate_is_set_up<Gate>) roster_.gate.set_up(roster_.kv.block_size());
  }

  [[nodiscard]] std::int64_t free_blocks() const noexcept { return roster_.kv.free_blocks(); }
  [[nodiscard]] blocks capacity() const noexcept { return blocks{roster_.kv.capacity()}; }
  [[nodiscard]] bool is_oldest(const plan_type& p) noexcept { return plans_.size() != 0 && is(p, plans_.oldest()); }
  [[nodiscard]] bool is_open(const plan_type& p) noexcept { return plans_.has_open() && is(p, plans_.latest()); }
  [[nodiscard]] static bool is(const plan_type& p, const step& s) noexcept {
    return p.id == s.id && p.decode.data() == s.decode.data();
  }

  [[nodiscard]] settlement settling() noexcept { return {roster_, plans_}; }

  [[nodiscard]] status may_join(const Request& r, const request_progress<clock_type>& p) const noexcept {
    return detail::may_join(roster_, r, p, longest_, limits_.requests);
  }
  /// Whether a transfer writes to its blocks.
  [[nodiscard]] static bool is_loading(const Request& r) noexcept {
    return r.state().life == lifecycle::suspended && r.state().loads;
  }
  /// Whether the open plan starts a waiting request.
  [[nodiscard]] bool is_starting(const Request& r) const noexcept {
    return plans_.has_open() && r.state().life == lifecycle::waiting && plans_.latest().has_mark(r, plan_mark::runs);
  }
  /// `as`: the state of a request after its blocks are held until the copy is done.
  [[nodiscard]] status drain(Request& r, lifecycle as, time_point deadline, std::uint64_t& ticket) noexcept {
    if (!roster_.contains(r) || r.state().row == no_index) return status::unknown_request;
    if (plans_.has_open() || is_in_flight(r) || roster_.kv.awaits_copy(r) || is_loading(r)) return status::busy;
    if (roster_.deadlines.full()) return status::exhausted;
    ticket = ++tickets_;
    roster_.drain(r, as, ticket, deadline);
    return status::ok;
  }

  limits limits_;
  tokens longest_{ledger::longest(limits_)};
  config config_;
  roster roster_;
  [[no_unique_address]] shown_tables tables_;
  detail::plan_ring<Request> plans_;
  std::uint64_t tickets_ = 0;  ///< Tickets given for draining blocks.
};

TESSERA_NAMESPACE_END
