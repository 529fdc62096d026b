// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/fleet/ledger.hpp>
#include <tessera/fleet/share.hpp>
#include <tessera/placement/pascal.hpp>
#include <tessera/sim/cluster/cluster.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

/// @file
/// Routers that know what routers know: their own books, and reports that are old.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// What stands in front of a cluster.
struct routing {
  std::size_t routers = 1;  ///< Each has a book of its own, and every so-manieth request.
  bool shares = false;      ///< Each chooses from its `fleet::share` while one of that takes the request.
  double report_s = 1;      ///< Between two reports of an instance; so old are they at most. Above 0.
  /// With a budget: policies that go by Phi are shown the time-bound one, as of prefill workers; else the space-bound.
  placement::prefill_worker prefill{.cost = {}, .budget = {}};
};

/// As `placed`, but each request is placed by one of several routers, through its `fleet::ledger`: it knows at once
/// what it has sent and what has come back of that, and of the others' requests only what each instance has reported,
/// every `report_s` seconds, the instances one after the other. Reports arrive at once and say what of their load is
/// whose. Which instances are dead all know when the cluster does.
///
/// What an instance has cached (`reads_prefixes`) is known as it is. Equals are chosen from another turn by each router
/// on, and random policies draw from a seed of each router, lest all do the same. A placement with a member `expected`
/// is told there how many requests the other routers have sent, on the average, since an instance reported, as far as
/// one's own tell.
template <class Placement = placement::least_load, class Migration = placement::stay>
class routed {
 public:
  /// Nothing is made before the cluster starts.
  explicit routed(const routing& how, const Placement& placement = {}, const Migration& migration = {})
      : how_{how}, placement_{placement}, migration_{migration} {
    TESSERA_ASSERT(how.routers > 0 && how.report_s > 0, "somebody routes, and instances report now and then");
  }

  /// Called once, before the first event.
  template <class C>
  void starts(C& c) {
    began_s_ = c.now_s();
    typename ledger::settings s;
    s.block_size = c.options().instance.limits.block_size;
    s.lease = s.silence = duration::forever();
    s.rest = duration{};
    s.moving = std::numeric_limits<std::size_t>::max();
    s.quantum = c.options().quantum;
    for (std::size_t k = 0; k != how_.routers; ++k) {
      // Each may have all requests, and each of those may move.
      routers_.push_back(std::make_unique<router>(
          typename ledger::limits{.replicas = c.size(), .reservations = 2 * c.requests().size() / how_.routers + 2}, s,
          placement_, migration_));
      spread(routers_.back()->placement, k, how_.routers, c.size());
    }
    before_.resize(c.requests().size());
    lives_.resize(c.size());
    epochs_.resize(c.size());
    own_.resize(how_.routers);
    for (std::size_t i = 0; i != c.size(); ++i) {
      returned(c, i);
      c.call_after(how_.report_s * static_cast<double>(i + 1) / static_cast<double>(c.size()), i);
    }
  }

  /// The instance that a request which has just arrived goes to.
  template <class C>
  [[nodiscard]] std::size_t place(C& c, const request& r) {
    router& by = of(r);
    if constexpr (requires { by.placement.expected; }) {
      const double others = static_cast<double>((how_.routers - 1) * by.sent) * how_.report_s / 2;
      by.placement.expected = !how_.shares && c.now_s() > began_s_ ? others / (c.now_s() - began_s_) : 0;
    }
    ++by.sent;
    const fleet::share mine{r.index % how_.routers, how_.routers};
    const auto mine_may = [&](const fleet::view& v) noexcept { return mine(v) && c.takes(v.id, r); };
    const auto may = [&](const fleet::view& v) noexcept { return c.takes(v.id, r); };
    fleet::replica_id to = how_.shares ? choose(c, r, by, mine_may) : fleet::no_replica;
    if (to == fleet::no_replica) to = choose(c, r, by, may);
    TESSERA_ASSERT(to != fleet::no_replica, "there is an instance that takes it");
    tokens cached{};
    if constexpr (prefix_reader<Placement>) cached = c.views()[to].cached_tokens;
    before_[r.index] = r.generated();
    const status s = by.book.reserve(r.index, to,
                                     {.prompt = max(r.state().length, r.prompt),
                                      .cached = cached,
                                      .starts_in = r.state().length == tokens{} ? r.starts_in : r.state().phase},
                                     now(c));
    TESSERA_ASSERT(ok(s), "there is room in the book for every request");
    static_cast<void>(s);
    return to;
  }

  /// An instance reports to all routers.
  template <class C>
  void alarm(C& c, std::uint64_t what) {
    const std::size_t i = what;
    c.call_after(how_.report_s, what);
    if (!c.up(i) || !c.in_service(i)) return;
    const auto& one = c.at(i);
    const tokens quantum = c.options().quantum;
    fleet::report report{.incarnation = lives_[i], .epoch = ++epochs_[i]};
    for (fleet::load& l : own_) l = {};
    for (const request* r : one.requests()) {
      fleet::load& l = own_[r->index % how_.routers];
      ++l.requests;
      const blocks held = r->state().swapped ? r->needs : min(one.scheduler().blocks_held(*r), r->needs);
      l.kv_held += held;
      l.waiting_blocks += r->needs - held;
      if (r->prefills && r->state().computed < r->state().length) {
        l.prefill_flops += how_.prefill.cost.flops(r->state().length, r->state().computed);
      }
      if (r->state().phase == phase::reasoning) {
        l.reasoning += r->counted_demoted ? 0 : 1;
      } else if (r->generated() - r->state().reasoning < quantum) {
        ++l.fresh_answers;
      }
    }
    report.all = {.requests = one.requests().size(),
                  .kv_held = one.blocks_held(),
                  .waiting_blocks = max(one.needed_blocks() - one.blocks_held(), blocks{})};
    for (const fleet::load& l : own_) {
      report.all.prefill_flops += l.prefill_flops;
      report.all.reasoning += l.reasoning;
      report.all.fresh_answers += l.fresh_answers;
    }
    report.free = one.free_blocks();
    if constexpr (phase_reader<Placement> || phase_reader<Migration>) report.slo_met = one.slo_met(c.now_s());
    for (std::size_t k = 0; k != how_.routers; ++k) {
      report.own = own_[k];
      const fleet::reception got = routers_[k]->book.receive(static_cast<fleet::replica_id>(i), report, now(c));
      TESSERA_ASSERT(got == fleet::reception::taken, "it lives, and reports in order");
      static_cast<void>(got);
    }
  }

  /// Instance `i` is between two steps: its tokens have come back.
  template <class C>
  void step_ended(C& c, std::size_t i) {
    for (const request* r : c.at(i).requests()) hear(c, *r, i);
  }
  /// A request begins to answer: its router may move it.
  template <class C>
  void answers(C& c, request& r) {
    router& by = of(r);
    hear(c, r, r.where);
    by.book.answers(r.index, at(r.where), now(c));
    if constexpr (!std::same_as<Migration, placement::stay>) {
      for (const fleet::move& m : by.book.propose_moves(by.migration, now(c))) {
        TESSERA_ASSERT(m.request == r.index, "nobody else has asked");
        if (!c.move(r, m.to)) by.book.release(m.request, m.to);
      }
    }
  }
  /// A request has arrived with its KV.
  template <class C>
  void moved(C& c, request& r) {
    of(r).book.moved(r.index, at(r.where), now(c));
  }
  /// A request has ended.
  template <class C>
  void finished(C& /*c*/, const request& r) {
    of(r).book.release(r.index, at(r.where));
  }
  /// An instance has refused a request.
  template <class C>
  void rejected(C& c, const request& r) {
    finished(c, r);
  }
  /// That an instance is dead has become known.
  template <class C>
  void failed(C& /*c*/, std::size_t i) {
    for (const std::unique_ptr<router>& by : routers_) {
      by->orphans.clear();
      by->book.fence(at(i), lives_[i], [&](const fleet::orphan& o) { by->orphans.push_back(o); });
      for (const fleet::orphan& o : by->orphans) {
        if (o.elsewhere != fleet::no_replica) by->book.release(o.request, o.elsewhere);
      }
    }
  }
  /// An instance is back, and empty.
  template <class C>
  void returned(C& c, std::size_t i) {
    ++lives_[i];
    epochs_[i] = 0;
    const bool by_time = how_.prefill.budget.flops() > 0;
    const fleet::replica what{.capacity = c.capacity(i),
                              .role = by_time ? control::role::prefill : control::role::mixed,
                              .prefill = how_.prefill};
    for (const std::unique_ptr<router>& by : routers_) {
      const status s = by->book.join(at(i), lives_[i], what, now(c));
      TESSERA_ASSERT(ok(s), "its former life is fenced");
      static_cast<void>(s);
    }
  }
  /// All requests have ended, and so have all books.
  template <class C>
  void ended(C& /*c*/, run_result& result) {
    std::size_t left = 0;
    for (const std::unique_ptr<router>& by : routers_) left += by->book.size();
    result.measures["left_in_books"] = static_cast<double>(left);
  }

 private:
  using ledger = fleet::ledger<>;

  struct router {
    owned_storage<ledger::limits> storage;
    ledger book;
    Placement placement;
    Migration migration;
    std::vector<fleet::orphan> orphans{};
    std::size_t sent = 0;

    router(const ledger::limits& l, const ledger::settings& s, const Placement& p, const Migration& m)
        : storage{storage_for<ledger>(l)}, book{storage, s}, placement{p}, migration{m} {}
  };

  [[nodiscard]] router& of(const request& r) noexcept { return *routers_[r.index % how_.routers]; }
  [[nodiscard]] static fleet::replica_id at(std::size_t i) noexcept { return static_cast<fleet::replica_id>(i); }
  template <class C>
  [[nodiscard]] static time_point now(const C& c) noexcept {
    return time_point::at_seconds(c.now_s());
  }
  /// The router's choice; `no_replica` if nobody may.
  template <class C, class May>
  [[nodiscard]] static fleet::replica_id choose(C& c, const request& r, router& by, May may) {
    const auto first = [](std::span<const fleet::replica_id> ids) {
      return ids.empty() ? fleet::no_replica : ids.front();
    };
    if constexpr (prefix_reader<Placement>) {
      c.look_at_prefixes(r);
      const auto cached_on = [&](fleet::replica_id i) noexcept { return c.views()[i].cached_tokens; };
      const fleet::prefix<decltype(cached_on)> prompt{r.prompt, c.views()[0].prefix_key, cached_on};
      return first(by.book.rank(by.placement, prompt, 1, may));
    } else {
      return first(by.book.rank(by.placement, 1, may));
    }
  }
  template <class C>
  void hear(const C& c, const request& r, std::size_t i) noexcept {
    of(r).book.progress(r.index, at(i), r.generated() - before_[r.index], now(c));
  }
  /// Router `k` begins elsewhere than the others.
  static void spread(Placement& p, std::size_t k, std::size_t routers, std::size_t instances) {
    static_cast<void>(routers), static_cast<void>(instances);  // of no use to some
    if constexpr (requires { p.ties.next; }) p.ties.next = k * instances / routers;
    if constexpr (requires { p.next; }) p.next = k * instances / routers;
    if constexpr (requires { p.state; }) p.state += k;
    if constexpr (requires { p.draws.state; }) p.draws.state += k;
  }

  routing how_;
  Placement placement_;
  Migration migration_;
  std::vector<std::unique_ptr<router>> routers_;
  double began_s_ = 0;
  std::vector<tokens> before_;         // By request: what it had generated when it was placed.
  std::vector<std::uint64_t> lives_;   // By instance.
  std::vector<std::uint64_t> epochs_;  // By instance.
  std::vector<fleet::load> own_;       // By router, of the instance that reports.
};

}  // namespace sim
TESSERA_NAMESPACE_END
