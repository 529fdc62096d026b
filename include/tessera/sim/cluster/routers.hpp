// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/ledger.hpp>
#include <tessera/fleet/share.hpp>
#include <tessera/sim/cluster/cluster.hpp>
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
  routers(cluster& c, const routing& how);

  /// Which router a request comes to.
  [[nodiscard]] std::size_t of(const request& r) const noexcept { return r.index % how_.routers; }

  /// Sends a request to one of those instances that take it, as its router sees them.
  /// @param choose `choose(views, expected) -> std::size_t`, an index; `expected`: see `expect_others`.
  template <class Choose>
  [[nodiscard]] std::size_t place(cluster& c, const request& r, Choose choose) {
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
  void report(cluster& c, std::size_t i, bool says_slo);

  /// Instance `i` is between two steps: its tokens have come back.
  void step_ended(cluster& c, std::size_t i);
  /// A request begins to answer: its router may move it.
  template <class Migration>
  void answers(cluster& c, request& r, Migration& migration) {
    ledger& book = all_[of(r)]->book;
    hear(c, r, r.where);
    book.answers(r.index, at(r.where), now(c));
    for (const fleet::move& m : book.propose_moves(migration, now(c))) {
      TESSERA_ASSERT(m.request == r.index, "nobody else has asked");
      if (!c.move(r, m.to)) book.release(m.request, m.to);
    }
  }
  /// The same, of one that stays.
  void answers(cluster& c, const request& r);
  /// A request has arrived with its KV.
  void moved(const cluster& c, const request& r);
  /// A request has ended, or was refused.
  void finished(const request& r) { all_[of(r)]->book.release(r.index, at(r.where)); }
  /// That an instance is dead has become known.
  void failed(std::size_t i);
  /// An instance is back, and empty.
  void returned(const cluster& c, std::size_t i);
  /// Requests that are in any book: none when all have ended.
  [[nodiscard]] std::size_t in_books() const noexcept;

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
  [[nodiscard]] static time_point now(const cluster& c) noexcept { return time_point::at_seconds(c.now_s()); }
  /// Brings into `seen_` the instances that take `r`, as a router sees them.
  template <class May>
  void show(const cluster& c, const request& r, const router& by, May may) {
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
  void hear(const cluster& c, const request& r, std::size_t i) noexcept;

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
