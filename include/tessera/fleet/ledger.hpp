// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/control/flow_controller.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/core/status.hpp>
#include <tessera/fleet/ledger_moves.hpp>
#include <tessera/fleet/ledger_types.hpp>
#include <tessera/fleet/report.hpp>
#include <tessera/fleet/view.hpp>
#include <tessera/headroom/prefill_load.hpp>
#include <tessera/placement/phasor_router.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

/// @file
/// A fleet of engines as one router sees it: the book between what replicas report and what policies are shown.

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// The book of one router: the replicas, their reports, and this router's own requests. It shows views of these to
/// placement policies, and decides about requests that run.
///
/// **What is exact, what is stale.** This router's own requests count from the call that places them (`reserve`) to the
/// call that ends them, whatever reports say. So an old report does not send all requests to one replica. The load of
/// other routers is what a replica last reported less this router's part. It is as old as that report: so routers do
/// not see each other's arrivals in between, nor a replica that has just become slow.
///
/// **Blocks.** A view shows the blocks of the last report and what the book has changed since: `report + (book now -
/// book at the report)`. Both count a shared block once, for the request that computed it. A request adds what is not
/// in the replica's prefix cache (`arrival::cached`, then `cache_hit`). The request that computed a prefix may end
/// before those that share it. Then the book keeps the prefix until the last one ends. It knows no prompts: it keeps
/// one prefix for each replica, the longest, and any request with a shorter hit may have computed it. Where no hit is
/// said, a prompt may be shared. If the report has fewer blocks than the book, the difference was counted twice and is
/// taken off. Then a request that ends frees only its last block and its answer, until the next report.
///
/// Between two reports a view may show less than the replica holds, by at most the sum of:
/// - blocks that a hit brings back from an idle cache;
/// - shared prefixes that are not kept, and the longest once more where another router shares it;
/// - what other routers have added.
///
/// It may show more, by at most the sum of:
/// - the shared prefixes of the report, and the longest once more;
/// - what other routers have given back;
/// - the prompts that have ended since, where neither hits nor `report::own` are said.
///
/// It never shows less than the blocks of this router's requests that no other request can share.
///
/// **What a network may do.** Reports may be late, doubled, reordered, or come from dead replicas. Each names its
/// incarnation and epoch. Only the latest of the live incarnation counts (`received` says how many did not).
/// `first_token`, `progress`, `answers`, `moved` and `release` may come twice, late or after the end. They name request
/// and replica, and say how far it is instead of what has changed. For a request that is not known any more they return
/// false and have no effect. `expire` gives back requests without a call for a lease, in case a message never comes. So
/// books end at zero.
///
/// **Moves.** `propose_moves` reserves a request's room at its destination and takes it off its source in one step.
/// Then no second request is sent after it, and none is moved off the source because of it. It goes on counting at the
/// source, in `own`, until `moved`. If the move comes to nothing (`release` at the destination, its lease, the death of
/// it) the source has it again. A request rests after each move, and no move is to where there is no room. Policies
/// that ask for a gain make cycles impossible while loads stand still.
///
/// It has no transport, no failure detector and no clock: its caller does, and `now` must not run backwards. One
/// thread. O(1) unless said otherwise, on average where a hash table is used. (If strangers choose the ids of requests,
/// hash them with a secret first.) Nothing allocates. About 780 bytes a replica and 150 a reservation. Not checked:
/// that what a caller says of a request is true.
template <clock_policy Clock = seconds_clock>
class ledger : private detail::ledger_moves<Clock> {
  using base = detail::ledger_moves<Clock>;

 public:
  using time_point = basic_time_point<Clock>;  ///< A moment on that clock.
  using settings = ledger_settings<Clock>;     ///< How the book is kept.

  using limits = ledger_limits;  ///< What there must be room for; fixed at construction.

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add_bytes(base::required_bytes(l))
        .template add<control::worker>(l.replicas)
        .bytes_unaligned();
  }

  /// Over the caller's memory, at least `required_bytes(l)` (checked in every build), which must outlive it. No replica
  /// is there.
  ledger(std::span<std::byte> memory, const limits& l, const settings& s = {}) noexcept : ledger{arena{memory}, l, s} {}
  /// Over what `storage_for` made.
  ledger(owned_storage<limits>& storage, const settings& s = {}) noexcept
      : ledger{storage.memory(), storage.limits(), s} {}
  ledger(const ledger&) = delete;
  ledger& operator=(const ledger&) = delete;

  // -- replicas ----------------------------------------------------------------------------------------------------

  /// A replica comes. O(replicas). Returns `invalid` if there is no room for its number, or `incarnation` is 0, or
  /// `what` makes no sense. That is: memory that is negative, or none where requests decode; prices and budgets that
  /// are no numbers from 0. Returns `busy` if the number is taken, by this incarnation or another: `fence` that one
  /// first. Returns `refused` if this incarnation or a later one of it is dead.
  [[nodiscard]] status join(replica_id id, std::uint64_t incarnation, const replica& what, time_point now) noexcept {
    if (id >= limits_.replicas || incarnation == 0 || !makes_sense(what)) return status::invalid;
    entry& r = replicas_[id];
    if (r.is != condition::absent) return status::busy;
    if (incarnation <= r.incarnation) return status::refused;
    r = {};
    r.what = what;
    r.incarnation = incarnation;
    r.is = condition::open;
    r.total_room = what.capacity;
    r.heard = now;
    by_time_.push_back(replicas_, id);
    views_[id] = {};
    views_[id].id = id;
    views_[id].capacity = what.capacity;
    views_[id].role = what.role;
    refresh(id);
    reopen();
    return status::ok;
  }
  /// It takes no new requests; those that it has go on. False if it is not there. O(replicas).
  bool drain(replica_id id) noexcept {
    if (!contains(id)) return false;
    replicas_[id].is = condition::draining;
    reopen();
    return true;
  }
  /// A replica could not be reached. It counts as silent until it reports, and gets nothing while another replica that
  /// takes requests reports. Its requests stay in the book, because it may live. False if this incarnation is not
  /// there. O(replicas).
  bool lost(replica_id id, std::uint64_t incarnation) noexcept {
    if (!lives(id, incarnation)) return false;
    silence(id);
    reopen();
    return true;
  }
  /// This incarnation is dead for sure, and cannot come back. What it says no longer counts, and its requests are given
  /// back. `gone(const orphan&)` is called for each request that was on it, and must not call the ledger. These
  /// requests may be tried elsewhere. A request that was on its way to it goes on where it is. False if this
  /// incarnation is not there. O(replicas) and its requests.
  template <class Gone>
  bool fence(replica_id id, std::uint64_t incarnation, Gone gone) noexcept {
    if (!lives(id, incarnation)) return false;
    entry& r = replicas_[id];
    while (r.requests.first != no_index) {
      const std::uint32_t i = r.requests.first;
      const held& h = book_.data()[i];
      const std::uint32_t twin = h.twin;
      const orphan o{h.request, id, h.generated, twin != no_index ? book_.data()[twin].where : no_replica};
      const bool was_here = h.stands != standing::incoming;
      if (twin != no_index) was_here ? untie(twin) : stays(twin);
      remove(i);
      if (was_here) gone(o);
    }
    if (!r.is_silent) by_time_.erase(replicas_, id);
    r.is = condition::absent;
    r.is_silent = false;
    reopen();
    return true;
  }
  /// The same, for a caller that knows by itself which requests were there.
  bool fence(replica_id id, std::uint64_t incarnation) noexcept {
    return fence(id, incarnation, [](const orphan&) noexcept {});
  }

  /// The router asks a replica for a report now. If the report does not say which part is this router's, the book of
  /// now stands for that part. Call it before each such report, one at a time.
  void asked(replica_id id) noexcept {
    if (!contains(id)) return;
    replicas_[id].then = replicas_[id].here;
    replicas_[id].was_asked = true;
  }
  /// A report has come. O(1); O(replicas) if the replica has been silent, or it is its first.
  reception receive(replica_id id, const report& said, time_point now) noexcept {
    const reception r = take(id, said, now);
    ++receptions_[static_cast<std::size_t>(r)];
    return r;
  }

  /// The replica serves requests with KV of at least `from` blocks and less than `to`. It does so as a stage of
  /// `partition::stage` does, with its ends in blocks. For `placement::stay_in_range`, and for choosing from the views.
  /// A request that has outgrown it already asks where to go on. O(requests there). Requires that it is there, and a
  /// range that is not empty (asserted).
  void set_range(replica_id id, blocks from, blocks to) noexcept {
    TESSERA_ASSERT(contains(id), "this replica is not there");
    TESSERA_ASSERT(blocks{} <= from && from < to, "a range of lengths is not empty");
    views_[id].from = from;
    views_[id].to = to;
    for (std::uint32_t i = replicas_[id].requests.first; i != no_index; i = book_.data()[i].there.after) {
      if (book_.data()[i].size >= to) ask(i);
    }
  }

  // -- requests ----------------------------------------------------------------------------------------------------

  /// The replicas for a request, best first, at most `choices`: others than the first are for when it refuses. Valid
  /// until the next call. The policy is shown replicas that take requests, are not about to change their role, and have
  /// a true `may(view)`. Such a `may` is "has room", or "is in the subset that a gateway names". O(replicas) and what
  /// the policy takes. A policy with a `rank(candidates, span)` is asked once, as those that go by one order; else it
  /// is asked `choices` times.
  template <placement_policy Policy, class May = everyone>
  [[nodiscard]] std::span<const replica_id> rank(Policy& policy, std::size_t choices = 1, May may = {}) noexcept {
    return choices_.choose(views_, {open_.data(), open_.size()}, policy, choices, may, [&](std::size_t n) noexcept {
      return candidates<>{views_, choices_.left(), n};
    });
  }
  /// The same for policies that read what each replica has of the prompt.
  template <class Cached, placement_policy<prefix<Cached>> Policy, class May = everyone>
  [[nodiscard]] std::span<const replica_id> rank(Policy& policy, const prefix<Cached>& of, std::size_t choices = 1,
                                                 May may = {}) noexcept {
    return choices_.choose(views_, {open_.data(), open_.size()}, policy, choices, may, [&](std::size_t n) noexcept {
      return candidates<prefix<Cached>>{views_, choices_.left(), n, of};
    });
  }

  /// A request is sent to a replica, and counts there from now on. Returns `refused` if the replica is not there or
  /// drains, and `busy` if the request is there already. Returns `exhausted` if there is no room in the book, and
  /// `invalid` if its lengths make no sense.
  [[nodiscard]] status reserve(request_id request, replica_id id, const arrival& a, time_point now) noexcept {
    if (!contains(id) || replicas_[id].is != condition::open) return status::refused;
    if (!(tokens{} <= a.cached && a.cached <= a.prompt && a.prompt <= headroom::longest_prompt)) return status::invalid;
    if (book_.find(request, id) != no_index) return status::busy;
    if (book_.full()) return status::exhausted;
    const std::uint32_t i = book_.insert(request, id);
    held& h = book_.data()[i];
    h.prompt = a.prompt;
    h.cached = a.cached;
    h.size = blocks_for(a.prompt, settings_.block_size);
    h.shared = prefix_of(h, a.cached);
    h.answers = a.starts_in == phase::answering;
    enlist(i, now);
    return status::ok;
  }
  /// It has its first token there. False if it is not there.
  bool first_token(request_id request, replica_id id, time_point now) noexcept {
    return progress(request, id, tokens{1}, now);
  }
  /// `generated` tokens of it have come from there in all. If that is not more than before, it says only that the
  /// request lives. False if it is not there, or `generated` is more than any sequence has
  /// (`headroom::longest_prompt`). Requires: not negative (asserted).
  bool progress(request_id request, replica_id id, tokens generated, time_point now) noexcept {
    TESSERA_ASSERT(generated >= tokens{}, "a number of tokens is not negative");
    if (generated > headroom::longest_prompt) return false;
    const std::uint32_t i = touch(request, id, now);
    if (i == no_index) return false;
    grow(i, generated);
    const std::uint32_t twin = book_.data()[i].twin;
    if (twin != no_index) grow(twin, generated);
    return true;
  }
  /// The engine says how many tokens of the prompt it has found in its prefix cache; more than the prompt has count as
  /// the prompt. Until then `arrival::cached` is what is expected, and the rest of the prompt may be shared as well. A
  /// later call counts instead of the one before it. Tokens with KV from a peer do not count: their blocks are the
  /// request's own. False if the request is not there. O(1). Requires: not negative (asserted).
  bool cache_hit(request_id request, replica_id id, tokens cached, time_point now) noexcept {
    TESSERA_ASSERT(cached >= tokens{}, "a number of tokens is not negative");
    const std::uint32_t i = touch(request, id, now);
    if (i == no_index) return false;
    held& h = book_.data()[i];
    const tokens found = min(cached, h.prompt);
    const blocks shared = prefix_of(h, found);
    entry& r = replicas_[id];
    if (h.stands != standing::incoming) reshare(r.here, h, shared);
    update(i, [&](held& of) {
      of.cached = found;
      of.shared = shared;
      of.has_hit = true;
    });
    return true;
  }
  /// It has ended its reasoning: it asks where it is to answer, once; if it moves, when it is there. False if it is not
  /// there.
  bool answers(request_id request, replica_id id, time_point now) noexcept {
    const std::uint32_t i = touch(request, id, now);
    if (i == no_index) return false;
    begin_to_answer(i);
    const std::uint32_t twin = book_.data()[i].twin;
    if (twin != no_index) begin_to_answer(twin);
    return true;
  }
  /// It has ended there, was refused, was cancelled, or its move there came to nothing. False if it is not there.
  bool release(request_id request, replica_id id) noexcept {
    const std::uint32_t i = book_.find(request, id);
    if (i == no_index) return false;
    const std::uint32_t twin = book_.data()[i].twin;
    if (twin != no_index) {
      if (book_.data()[i].stands == standing::incoming) {
        stays(twin);
      } else {
        remove(twin);  // it has ended while it moved
      }
    }
    remove(i);
    return true;
  }
  /// A request that was on its way to this replica goes on there, and nowhere else. False if it was not.
  bool moved(request_id request, replica_id to, time_point now) noexcept {
    const std::uint32_t i = book_.find(request, to);
    if (i == no_index || book_.data()[i].stands != standing::incoming) return false;
    name(i, now);
    const std::uint32_t twin = book_.data()[i].twin;
    arrive(i, now);
    if (twin != no_index) remove(twin);
    return true;
  }

  // -- decisions ---------------------------------------------------------------------------------------------------

  // Requests that run, described in ledger_moves.hpp: which may go on elsewhere, where to, and that they do.
  using base::ask_movers;
  using base::begin_move;
  using base::each_at;
  using base::propose_moves;
  using base::where_to;
  // The replicas for a request that comes, for callers that choose by themselves.
  using base::among;
  using base::show_prefix;

  /// At most one replica's new role, by the macro controller of Phasor over the views as they are. Each call is an
  /// epoch of it. The replica counts in its new pool at once; until `changed_role` is said, nothing new is sent there.
  /// Replicas that are silent or drain count for nothing. Where reports do not say what is left of prompts, Phi_T
  /// counts only this router's requests. Then let the router decide that sends most of them. O(replicas).
  [[nodiscard]] std::optional<control::role_change> propose_roles(control::flow_controller& controller) noexcept {
    for (std::size_t id = 0; id != limits_.replicas; ++id) {
      const entry& r = replicas_[id];
      const view& v = views_[id];
      control::worker& w = workers_[id];
      w = {};
      w.available = r.is == condition::open && !r.is_silent;
      if (!w.available) continue;
      w.role = v.role;
      w.elastic = r.what.elastic;
      w.changing = r.is_changing;
      w.time_phi = time_phi(static_cast<replica_id>(id));
      w.total = v.capacity;
      w.free = v.free_blocks;
      w.queued = v.waiting_blocks;
      w.demand = settings_.demand;
      w.sequences_held = v.requests;
    }
    const std::optional<control::role_change> change = controller.decide({workers_, limits_.replicas});
    if (change) give_role(change->worker, change->to);
    return change;
  }
  /// A replica is told to take a role. It counts as having it at once; until `changed_role` is said, nothing new is
  /// sent there. False if it is not there, has that role, or is about to change already. O(replicas).
  bool set_role(replica_id id, control::role role) noexcept {
    if (!contains(id) || replicas_[id].is_changing || views_[id].role == role) return false;
    give_role(id, role);
    return true;
  }
  /// A replica has the role that it was given. False if it was not given any. O(replicas).
  bool changed_role(replica_id id) noexcept {
    if (!contains(id) || !replicas_[id].is_changing) return false;
    replicas_[id].is_changing = false;
    reopen();
    return true;
  }

  /// Time has passed: gives back requests that have not been named for a lease. Calls `gone(request, replica)` for
  /// each, which must not call the ledger. (Either end of a move may be given back: if that is its destination, its
  /// source has it again.) Replicas that have not reported for long are not shown any more. To be called now and then.
  /// O(requests given back), and O(replicas) if one has become silent.
  template <class Gone>
  void expire(time_point now, Gone gone) noexcept {
    while (named_.first != no_index) {
      const std::uint32_t i = named_.first;
      const held& h = book_.data()[i];
      if (now - h.heard < settings_.lease) break;
      const request_id request = h.request;
      const replica_id where = h.where;
      if (h.twin != no_index) {
        // A request that moves is where it was heard of last.
        h.stands == standing::incoming ? stays(h.twin) : arrive(h.twin, now);
      }
      remove(i);
      ++expired_;
      gone(request, where);
    }
    bool changed = false;
    while (by_time_.first != no_index && !(now - replicas_[by_time_.first].heard < settings_.silence)) {
      silence(by_time_.first);
      changed = true;
    }
    if (changed) reopen();
  }
  /// The same, for a caller that need not be told of the requests.
  void expire(time_point now) noexcept {
    expire(now, [](request_id, replica_id) noexcept {});
  }

  // -- to look at --------------------------------------------------------------------------------------------------

  /// Whether a replica has joined by this number, and is not dead.
  [[nodiscard]] bool contains(replica_id id) const noexcept {
    return id < limits_.replicas && replicas_[id].is != condition::absent;
  }
  /// Its incarnation, or its last if it is dead; 0 if there has been none.
  [[nodiscard]] std::uint64_t incarnation(replica_id id) const noexcept {
    return id < limits_.replicas ? replicas_[id].incarnation : 0;
  }
  /// Whether it has been silent for long, or was lost.
  [[nodiscard]] bool silent(replica_id id) const noexcept { return contains(id) && replicas_[id].is_silent; }
  /// Those that policies are shown, by number.
  [[nodiscard]] candidates<> shown() const noexcept { return {views_, open_.data(), open_.size()}; }
  /// A replica as policies are shown it. Requires that it is there (asserted).
  [[nodiscard]] const view& at(replica_id id) const noexcept {
    TESSERA_ASSERT(contains(id), "this replica is not there");
    return views_[id];
  }
  /// This router's part of a replica's load, as the replica would count it. A request that is leaving is there, a
  /// request on its way there is not. A shared block counts for the request that computed it. Requires that it is there
  /// (asserted).
  [[nodiscard]] load own(replica_id id) const noexcept {
    TESSERA_ASSERT(contains(id), "this replica is not there");
    return as_load(id, replicas_[id].here);
  }
  /// The part of other routers, as of its last report; where that has fewer blocks than the book, what may be theirs.
  /// Requires that it is there (asserted).
  [[nodiscard]] const load& others(replica_id id) const noexcept {
    TESSERA_ASSERT(contains(id), "this replica is not there");
    return replicas_[id].others;
  }
  /// Whether a request is in the book at a replica.
  [[nodiscard]] bool reserved(request_id request, replica_id id) const noexcept {
    return book_.find(request, id) != no_index;
  }
  /// Reservations in the book.
  [[nodiscard]] std::size_t size() const noexcept { return book_.size(); }
  /// Requests on their way.
  [[nodiscard]] std::size_t moving() const noexcept { return moving_; }
  /// How many reports have ended so.
  [[nodiscard]] std::uint64_t received(reception r) const noexcept { return receptions_[static_cast<std::size_t>(r)]; }
  /// Reservations that were given back because they had not been named for a lease.
  [[nodiscard]] std::uint64_t expired() const noexcept { return expired_; }

 private:
  using condition = typename base::condition;
  using entry = typename base::entry;
  using held = typename base::held;
  using standing = detail::standing;
  using base::arrive;
  using base::as_load;
  using base::ask;
  using base::begin_to_answer;
  using base::book_;
  using base::by_time_;
  using base::choices_;
  using base::enlist;
  using base::frees;
  using base::grow;
  using base::limits_;
  using base::moving_;
  using base::name;
  using base::named_;
  using base::open_;
  using base::prefix_of;
  using base::refresh;
  using base::remove;
  using base::reopen;
  using base::replicas_;
  using base::reshare;
  using base::settings_;
  using base::silence;
  using base::stays;
  using base::take;
  using base::time_phi;
  using base::touch;
  using base::untie;
  using base::update;
  using base::views_;

  ledger(arena memory, const limits& l, const settings& s) noexcept
      : base{memory, l, s}, workers_{memory.take<control::worker>(l.replicas)} {
    TESSERA_ASSERT(l.replicas >= 1 && l.replicas < no_index && l.reservations < no_index / 4, "ids have 32 bits");
    TESSERA_ASSERT(s.block_size > tokens{}, "a block has a size");
    TESSERA_ASSERT(s.lease > basic_duration<Clock>{} && s.silence > basic_duration<Clock>{}, "patience is positive");
    TESSERA_ASSERT(
        s.rest >= basic_duration<Clock>{} && s.tight >= blocks{} && s.demand >= blocks{} && s.quantum >= tokens{},
        "a bound is not negative");
  }

  [[nodiscard]] bool lives(replica_id id, std::uint64_t incarnation) const noexcept {
    return contains(id) && replicas_[id].incarnation == incarnation;
  }

  void give_role(replica_id id, control::role role) noexcept {
    replicas_[id].is_changing = true;
    views_[id].role = role;
    refresh(id);
    reopen();
  }

  [[nodiscard]] static bool makes_sense(const replica& what) noexcept {
    const auto price = [](double x) noexcept { return x >= 0 && x <= std::numeric_limits<double>::max(); };
    const placement::prefill_worker& p = what.prefill;
    return what.capacity <= blocks{greatest_count} &&
           what.capacity >= (what.role == control::role::prefill ? blocks{} : blocks{1}) && price(p.cost.alpha) &&
           price(p.cost.beta) && price(p.budget.flops());
  }

  control::worker* workers_;
  std::array<std::uint64_t, receptions> receptions_{};
  std::uint64_t expired_ = 0;
};

}  // namespace fleet
TESSERA_NAMESPACE_END
