// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/cluster/routers.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

TESSERA_NAMESPACE_BEGIN
namespace sim {

routers::routers(cluster& c, const routing& how) : how_{how}, began_s_{c.now_s()} {
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

void routers::report(cluster& c, std::size_t i, bool says_slo) {
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

void routers::step_ended(cluster& c, std::size_t i) {
  for (const request* r : c.at(i).requests()) hear(c, *r, i);
}

void routers::answers(cluster& c, const request& r) {
  hear(c, r, r.where);
  all_[of(r)]->book.answers(r.index, at(r.where), now(c));
}

void routers::moved(const cluster& c, const request& r) { all_[of(r)]->book.moved(r.index, at(r.where), now(c)); }

void routers::failed(std::size_t i) {
  for (const std::unique_ptr<router>& by : all_) {
    by->orphans.clear();
    by->book.fence(at(i), lives_[i], [&](const fleet::orphan& o) { by->orphans.push_back(o); });
    for (const fleet::orphan& o : by->orphans) {
      if (o.elsewhere != fleet::no_replica) by->book.release(o.request, o.elsewhere);
    }
  }
}

void routers::returned(const cluster& c, std::size_t i) {
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

std::size_t routers::in_books() const noexcept {
  std::size_t n = 0;
  for (const std::unique_ptr<router>& by : all_) n += by->book.size();
  return n;
}

void routers::hear(const cluster& c, const request& r, std::size_t i) noexcept {
  ledger& book = all_[of(r)]->book;
  const tokens generated = r.generated() - before_[r.index];
  book.progress(r.index, at(i), generated, now(c));
  if (generated == tokens{1}) {
    const tokens cached{found(r).count() * c.options().instance.limits.block_size.count()};
    book.cache_hit(r.index, at(i), cached, now(c));
  }
}

}  // namespace sim
TESSERA_NAMESPACE_END
