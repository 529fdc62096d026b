// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/ledger.hpp>
#include <tessera/fleet/share.hpp>
#include <tessera/sim/cluster/instance.hpp>
#include <tessera/sim/cluster/instance_view.hpp>
#include <tessera/sim/cluster/routing.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

/// @file
/// The books of the routers in front of a simulated cluster.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// What each router knows of a cluster `c`, by its `fleet::ledger`: at once what it has sent and what has come back of
/// that, and of the others' requests only what each instance has reported, every `report_s` seconds, the instances one
/// after the other. Reports arrive at once and say what of their load is whose. Which instances are dead all know when
/// the cluster does. What an instance has cached is known as it is.
///
/// Requests go to the routers in turn.
class routers {
 public:
  /// Nobody has reported. Orders the first reports.
  template <class C>
  routers(C& c, const routing& how) : how_{how}, began_s_{c.now_s()} {
    TESSERA_ASSERT(how.routers > 0 && how.report_s > 0, "somebody routes, and instances report now and then");
    typename ledger::settings s;
    s.block_size = c.options().instance.limits.block_size;
    s.lease = s.silence = duration::forever();
    s.rest = duration{};
    s.moving = std::numeric_limits<std::size_t>::max();
    s.quantum = c.options().quantum;
    for (std::size_t k = 0; k != how.routers; ++k) {
      // Requests are dealt in turn, and each may move.
      all_.push_back(std::make_unique<router>(
          typename ledger::limits{.replicas = c.size(), .reservations = 2 * c.requests().size() / how.routers + 2}, s));
    }
    before_.resize(c.requests().size());
    lives_.resize(c.size());
    epochs_.resize(c.size());
    own_.resize(how.routers);
    for (std::size_t i = 0; i != c.size(); ++i) {
      returned(c, i);
      c.call_after(how.report_s * static_cast<double>(i + 1) / static_cast<double>(c.size()), i);
    }
  }

  /// Which router a request comes to.
  [[nodiscard]] std::size_t of(const request& r) const noexcept { return r.index % how_.routers; }

  /// Sends a request to one of those instances that take it, as its router sees them.
  /// @param choose `choose(views, expected) -> std::size_t`, an index; `expected`: see `expect_others`.
  template <class C, class Choose>
  [[nodiscard]] std::size_t place(C& c, const request& r, Choose choose) {
    router& by = *all_[of(r)];
    const double elapsed_s = c.now_s() - began_s_;
    const double others = static_cast<double>((how_.routers - 1) * by.sent) * how_.report_s / 2;
    ++by.sent;
    const fleet::share mine{of(r), how_.routers};
    show(c, r, by, [&](const fleet::view& v) noexcept { return !how_.shares || mine(v); });
    if (seen_.empty()) show(c, r, by, fleet::everyone{});
    TESSERA_ASSERT(!seen_.empty(), "there is an instance that takes it");
    const std::size_t index = choose(std::as_const(seen_), !how_.shares && elapsed_s > 0 ? others / elapsed_s : 0.0);
    TESSERA_ASSERT(index < seen_.size(), "a request is placed on an instance");
    const std::size_t to = seen_[index].id;
    before_[r.index] = r.generated();
    const status s = by.book.reserve(r.index, at(to),
                                     {.prompt = max(r.state().length, r.prompt),
                                      .cached = seen_[index].cached_tokens,
                                      .starts_in = r.state().length == tokens{} ? r.starts_in : r.state().phase},
                                     now(c));
    TESSERA_ASSERT(ok(s), "there is room in the book for every request");
    static_cast<void>(s);
    return to;
  }

  /// An instance reports to all routers. @param says_slo whether it says that its answers keep pace.
  template <class C>
  void report(C& c, std::size_t i, bool says_slo) {
    c.call_after(how_.report_s, i);
    if (!c.up(i) || !c.in_service(i)) return;
    const auto& one = c.at(i);
    const tokens quantum = c.options().quantum;
    fleet::report said{.incarnation = lives_[i], .epoch = ++epochs_[i]};
    for (fleet::load& l : own_) l = {};
    for (const request* r : one.requests()) {
      fleet::load& l = own_[of(*r)];
      ++l.requests;
      const blocks held = r->state().swapped ? r->needs : min(one.scheduler().blocks_held(*r), r->needs);
      // A shared block counts for the request that computed it.
      l.kv_held += held - min(found(*r), held);
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
    said.all = {.requests = one.requests().size(),
                .kv_held = one.blocks_held(),
                .waiting_blocks = max(one.needed_blocks() - one.blocks_held(), blocks{})};
    for (const fleet::load& l : own_) {
      said.all.prefill_flops += l.prefill_flops;
      said.all.reasoning += l.reasoning;
      said.all.fresh_answers += l.fresh_answers;
    }
    said.free = one.free_blocks();
    if (says_slo) said.slo_met = one.slo_met(c.now_s());
    for (std::size_t k = 0; k != how_.routers; ++k) {
      said.own = own_[k];
      const fleet::reception got = all_[k]->book.receive(at(i), said, now(c));
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
  template <class C, class Migration>
  void answers(C& c, request& r, Migration& migration) {
    ledger& book = all_[of(r)]->book;
    hear(c, r, r.where);
    book.answers(r.index, at(r.where), now(c));
    for (const fleet::move& m : book.propose_moves(migration, now(c))) {
      TESSERA_ASSERT(m.request == r.index, "nobody else has asked");
      if (!c.move(r, m.to)) book.release(m.request, m.to);
    }
  }
  /// The same, of one that stays.
  template <class C>
  void answers(C& c, const request& r) {
    hear(c, r, r.where);
    all_[of(r)]->book.answers(r.index, at(r.where), now(c));
  }
  /// A request has arrived with its KV.
  template <class C>
  void moved(const C& c, const request& r) {
    all_[of(r)]->book.moved(r.index, at(r.where), now(c));
  }
  /// A request has ended, or was refused.
  void finished(const request& r) { all_[of(r)]->book.release(r.index, at(r.where)); }
  /// That an instance is dead has become known.
  void failed(std::size_t i) {
    for (const std::unique_ptr<router>& by : all_) {
      by->orphans.clear();
      by->book.fence(at(i), lives_[i], [&](const fleet::orphan& o) { by->orphans.push_back(o); });
      for (const fleet::orphan& o : by->orphans) {
        if (o.elsewhere != fleet::no_replica) by->book.release(o.request, o.elsewhere);
      }
    }
  }
  /// An instance is back, and empty.
  template <class C>
  void returned(const C& c, std::size_t i) {
    ++lives_[i];
    epochs_[i] = 0;
    const bool by_time = how_.prefill.budget.flops() > 0;
    const fleet::replica what{.capacity = c.capacity(i),
                              .role = by_time ? control::role::prefill : control::role::mixed,
                              .prefill = how_.prefill};
    for (const std::unique_ptr<router>& by : all_) {
      const status s = by->book.join(at(i), lives_[i], what, now(c));
      TESSERA_ASSERT(ok(s), "its former life is fenced");
      static_cast<void>(s);
    }
  }
  /// Requests that are in any book: none when all have ended.
  [[nodiscard]] std::size_t in_books() const noexcept {
    std::size_t n = 0;
    for (const std::unique_ptr<router>& by : all_) n += by->book.size();
    return n;
  }

 private:
  using ledger = fleet::ledger<>;

  struct router {
    owned_storage<ledger::limits> storage;
    ledger book;
    std::vector<fleet::orphan> orphans{};
    std::size_t sent = 0;

    router(const ledger::limits& l, const ledger::settings& s) : storage{storage_for<ledger>(l)}, book{storage, s} {}
  };

  /// Blocks that it has found in the prefix cache.
  [[nodiscard]] static blocks found(const request& r) noexcept { return blocks{r.state().shared_blocks}; }
  [[nodiscard]] static fleet::replica_id at(std::size_t i) noexcept { return static_cast<fleet::replica_id>(i); }
  template <class C>
  [[nodiscard]] static time_point now(const C& c) noexcept {
    return time_point::at_seconds(c.now_s());
  }
  /// Brings into `seen_` the instances that take `r`, as a router sees them.
  template <class C, class May>
  void show(const C& c, const request& r, const router& by, May may) {
    seen_.clear();
    for (std::size_t i = 0; i != c.size(); ++i) {
      if (!c.takes(i, r)) continue;
      const fleet::view& v = by.book.at(at(i));
      if (!may(v)) continue;
      const instance_view& is = c.views()[i];
      seen_.push_back({.id = i,
                       .capacity = v.capacity,
                       .kv_held = v.kv_held,
                       .free_blocks = v.free_blocks,
                       .requests = v.requests,
                       .waiting_blocks = v.waiting_blocks,
                       .phi = v.phi,
                       .slo_met = v.slo_met,
                       .reasoning = v.reasoning,
                       .fresh_answers = v.fresh_answers,
                       .cached_tokens = is.cached_tokens,
                       .new_prefill_tokens = is.new_prefill_tokens,
                       .prefix_key = is.prefix_key});
    }
  }
  template <class C>
  void hear(const C& c, const request& r, std::size_t i) noexcept {
    ledger& book = all_[of(r)]->book;
    const tokens generated = r.generated() - before_[r.index];
    book.progress(r.index, at(i), generated, now(c));
    if (generated == tokens{1}) {
      const tokens cached{found(r).count() * c.options().instance.limits.block_size.count()};
      book.cache_hit(r.index, at(i), cached, now(c));
    }
  }

  routing how_;
  double began_s_;
  std::vector<std::unique_ptr<router>> all_{};
  std::vector<instance_view> seen_{};
  std::vector<tokens> before_{};         // By request: what it had generated when it was placed.
  std::vector<std::uint64_t> lives_{};   // By instance.
  std::vector<std::uint64_t> epochs_{};  // By instance.
  std::vector<fleet::load> own_{};       // By router, of the instance that reports.
};

}  // namespace sim
TESSERA_NAMESPACE_END
