// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "planner.hpp"

#include <tessera/core/owned_storage.hpp>
#include <tessera/draft/per_request.hpp>
#include <tessera/gate/adapter_slots.hpp>
#include <tessera/gate/all.hpp>
#include <tessera/kv/block_pool.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/order/fcfs.hpp>
#include <tessera/pipeline/grouped_ledger.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/recompute.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>

namespace tessera_python {

/// By priority, then by the engine's arrival time, then by the order of joining. vLLM serves equal priorities in this
/// way. Several front ends may send their requests in another order than that of arrival.
struct by_arrival : ts::order::fcfs {
  [[nodiscard]] static bool before(const request& a, const request& b) noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    if (a.arrival != b.arrival) return a.arrival < b.arrival;
    return a.state().sequence < b.state().sequence;
  }
};

/// What `draft::per_request` says. If it `pads`, a request with one token to compute starts with all places for drafts,
/// in a step without prefill. So all requests of the step have the same shape, for which the device
/// may have a graph. As vLLM's scheduler does it.
struct drafts_and_places : ts::draft::per_request {
  ts::tokens block_size{};
  bool pads = false;

  [[nodiscard]] ts::tokens drafts(const request& r, const ts::draft_view& view) const noexcept {
    const auto& s = r.state();
    const bool starts = pads && view.prefills == 0 && s.life == ts::lifecycle::waiting;
    const ts::tokens found = max(s.computed, block_size * static_cast<std::int64_t>(s.shared_blocks));
    return starts && found > ts::tokens{} && s.length - found == ts::tokens{1} ? view.most : r.drafts;
  }
};

/// Writes the parameters that an order has a use for. What it counts stays.
template <class Order>
using order_settings = void (*)(Order&, const settings&);

/// The order of a scheduler that starts.
template <class Order>
[[nodiscard]] Order order_of(const settings& s, order_settings<Order> set) {
  Order order;
  set(order, s);
  return order;
}

template <class Scheduler, class Order>
[[nodiscard]] ts::status tune_order(Scheduler& of, const settings& s, order_settings<Order> set) {
  if (of.can_abandon()) return ts::status::busy;
  set(of.order(), s);
  return ts::status::ok;
}

template <class Scheduler>
void retune_request(Scheduler& of, request& r) {
  (void)of.update(r, [&of](request& q) {
    if constexpr (requires { of.order().retune(q); }) of.order().retune(q);
  });
}

/// The outputs of the encoder, if a gate looks after them.
template <class Gate>
[[nodiscard]] encoder_outputs* encoder_of(Gate& gate) noexcept {
  if constexpr (ts::detail::gate_limits<Gate>) {
    return &std::get<encoder_outputs>(gate.gates);
  } else {
    static_cast<void>(gate);
    return nullptr;
  }
}

/// The scheduler of one order over one kind of block store, behind a gate.
template <class Order, class Store, class Gate>
class planner_of final : public planner {
  // An engine without a host tier computes anew what it takes away, as vLLM's V1 does.
  using scheduler = ts::iteration_scheduler<request, Order, ts::preempt::recompute, ts::admit::watermark, Store,
                                            tables_in_place, Gate, drafts_and_places>;

 public:
  planner_of(const settings& s, order_settings<Order> set, const Gate& gate)
      : storage_{ts::storage_for<scheduler>(s.limits)},
        scheduler_{storage_,
                   {.order = order_of(s, set),
                    .admit = {.fraction = s.watermark},
                    .gate = gate,
                    .draft = {{}, s.limits.block_size, s.pads},
                    .chunked_prefill = s.chunked_prefill,
                    .firm_budget = true,  // the runner's buffers hold no more
                    .least_left = s.least_left,
                    .keep_draft_blocks = true}},
        set_{set},
        block_size_{s.limits.block_size} {
    if constexpr (std::is_same_v<Store, telling_cache>) {
      if (s.tells) scheduler_.cache_events().listen();
    }
  }

  ts::status submit(request& r, time_point now) override { return scheduler_.submit(r, now); }
  plan next(time_point now, const ts::step_limits& limits) override { return scheduler_.plan(now, limits); }
  ts::status commit(const plan& p, std::span<const ts::outcome> outcomes, time_point now) override {
    return scheduler_.commit(p, outcomes, now);
  }
  ts::status cancel(request& r) override { return scheduler_.cancel(r); }
  ts::status finish(request& r) override { return scheduler_.finish(r); }
  ts::status preempt(request& r) override { return scheduler_.preempt(r); }
  ts::status suspend(request& r) override { return scheduler_.suspend(r); }
  ts::status resume(request& r) override { return scheduler_.resume(r); }
  ts::status forget_prefixes() override {
    if constexpr (requires { scheduler_.forget_prefixes(); }) {
      return scheduler_.forget_prefixes();
    } else {
      return ts::status::ok;  // it knows none
    }
  }
  ts::status tune(const settings& s) override { return tune_order(scheduler_, s, set_); }
  void retune(request& r) override { retune_request(scheduler_, r); }
  encoder_outputs* encoder() override { return encoder_of(scheduler_.gate()); }
  told_events* events() override {
    if constexpr (std::is_same_v<Store, telling_cache>) {
      return &scheduler_.cache_events();
    } else {
      return nullptr;
    }
  }
  ts::status loading(request& r, ts::tokens n) override { return scheduler_.loading(r, n, time_point::never()); }
  ts::status fetching(request& r, ts::tokens n) override { return scheduler_.fetching(r, n); }
  ts::status arrived(request& r, ts::tokens n) override { return scheduler_.arrived(r, n); }
  ts::status park(request& r) override { return scheduler_.park(r, time_point::never()); }
  ts::status ready(request& r) override { return scheduler_.ready(r); }
  ts::status abandon(const plan& p) override { return scheduler_.abandon(p); }
  ts::status drain(request& r, std::uint64_t& ticket) override {
    return scheduler_.finish(r, time_point::never(), ticket);
  }
  ts::status drained(std::uint64_t ticket) override { return scheduler_.drained(ticket); }
  ts::tokens cached(const request& r) const override {
    if constexpr (requires { scheduler_.store().knows(std::uint64_t{}); }) {
      const auto known = [this](std::uint64_t hash) { return scheduler_.store().knows(hash); };
      const std::span<const std::uint64_t> hashes = r.prefix_hashes();
      return block_size_ * (std::find_if_not(hashes.begin(), hashes.end(), known) - hashes.begin());
    } else {
      return {};
    }
  }
  ts::wait_reason why(const request& r) const override { return scheduler_.why(r); }
  std::span<request* const> residents() const override { return scheduler_.residents(); }
  std::size_t suspended() const override { return scheduler_.suspended_count(); }
  std::size_t draining() const override { return scheduler_.draining_count(); }
  std::size_t waiting() const override { return scheduler_.waiting_count(); }
  row_of_group row(std::size_t /*group*/, std::uint32_t row, std::size_t fresh) const override {
    return {.blocks = scheduler_.tables().row(row), .first = 0, .fresh = fresh};
  }
  ts::tokens longest() const override { return scheduler_.size_limits().longest(); }
  ts::blocks held() const override { return scheduler_.device_blocks_held(); }

 private:
  ts::owned_storage<ts::scheduler_limits> storage_;
  scheduler scheduler_;
  order_settings<Order> set_;
  ts::tokens block_size_;
};

/// The same for a model of several groups of layers, or with layers that look at a window. One type serves every number
/// of groups: each further type would be compiled for each order.
template <class Order, class Gate>
class grouped_planner final : public planner {
  using store = ts::kv::groups<most_groups, telling_cache>;
  using scheduler = ts::iteration_scheduler<request, Order, ts::preempt::recompute, ts::admit::watermark, store,
                                            tables_in_place, Gate, drafts_and_places>;
  using own_plan = typename scheduler::plan_type;

 public:
  grouped_planner(const settings& s, order_settings<Order> set, const Gate& gate)
      : storage_{ts::storage_for<scheduler>(limits_of(s))},
        scheduler_{storage_,
                   {.order = order_of(s, set),
                    .admit = {.fraction = s.watermark},
                    .gate = gate,
                    .draft = {{}, s.block_sizes.front(), s.pads},  // what is found is counted in the first group's
                    .least_left = s.least_left,
                    .keep_draft_blocks = true}},
        set_{set} {
    if (s.tells) scheduler_.cache_events().listen();
  }

  ts::status submit(request& r, time_point now) override { return scheduler_.submit(r, now); }
  plan next(time_point now, const ts::step_limits& limits) override {
    const own_plan p = scheduler_.plan(now, limits);
    // The plan's other moves are of no use to an engine that computes anew.
    plan shown;
    shown.decode = p.decode, shown.prefill = p.prefill;
    shown.fetch = p.fetch, shown.load = p.load;
    shown.fetch_after = p.fetch_after, shown.load_after = p.load_after;
    shown.preempted = p.preempted, shown.outgrown = p.outgrown;
    shown.computed = p.computed, shown.id = p.id;
    return shown;
  }
  ts::status commit(const plan& p, std::span<const ts::outcome> outcomes, time_point now) override {
    return scheduler_.commit(own(p), outcomes, now);
  }
  ts::status cancel(request& r) override { return scheduler_.cancel(r); }
  ts::status finish(request& r) override { return scheduler_.finish(r); }
  ts::status preempt(request& r) override { return scheduler_.preempt(r); }
  ts::status suspend(request& r) override { return scheduler_.suspend(r); }
  ts::status resume(request& r) override { return scheduler_.resume(r); }
  ts::status forget_prefixes() override { return scheduler_.forget_prefixes(); }
  ts::status tune(const settings& s) override { return tune_order(scheduler_, s, set_); }
  void retune(request& r) override { retune_request(scheduler_, r); }
  encoder_outputs* encoder() override { return encoder_of(scheduler_.gate()); }
  told_events* events() override { return &scheduler_.cache_events(); }
  ts::status loading(request& r, ts::tokens n) override { return scheduler_.loading(r, n, time_point::never()); }
  ts::status fetching(request& r, ts::tokens n) override { return scheduler_.fetching(r, n); }
  ts::status arrived(request& r, ts::tokens n) override { return scheduler_.arrived(r, n); }
  ts::status park(request& r) override { return scheduler_.park(r, time_point::never()); }
  ts::status ready(request& r) override { return scheduler_.ready(r); }
  ts::status abandon(const plan& p) override { return scheduler_.abandon(own(p)); }
  ts::status drain(request& r, std::uint64_t& ticket) override {
    return scheduler_.finish(r, time_point::never(), ticket);
  }
  ts::status drained(std::uint64_t ticket) override { return scheduler_.drained(ticket); }
  ts::tokens cached(const request& r) const override { return scheduler_.tables().match(r.prefix_hashes(), r.prompt); }
  ts::wait_reason why(const request& r) const override { return scheduler_.why(r); }
  std::span<request* const> residents() const override { return scheduler_.residents(); }
  std::size_t suspended() const override { return scheduler_.suspended_count(); }
  std::size_t draining() const override { return scheduler_.draining_count(); }
  std::size_t waiting() const override { return scheduler_.waiting_count(); }
  row_of_group row(std::size_t group, std::uint32_t row, std::size_t fresh) const override {
    const auto& all = scheduler_.tables();
    const auto& table = all.table(group);
    return {.blocks = table.row(row),
            .first = all.first_block(group, row),
            .fresh = fresh == 0 ? 0 : table.size(row) - table.sent(row)};
  }
  ts::tokens longest() const override {
    return ts::detail::grouped_ledger<request, most_groups, telling_cache>::longest(scheduler_.size_limits());
  }
  ts::blocks held() const override { return scheduler_.device_blocks_held(); }

 private:
  using limits = typename scheduler::limits;
  static limits limits_of(const settings& s) {
    // A peer computes the last token of a prompt anew.
    limits l{s.limits, {}, s.windows.size(), s.stores, ts::tokens{s.transfers ? 1 : 0}};
    for (std::size_t g = 0; g != l.used; ++g) {
      l.layers[g] = {s.block_sizes[g], s.windows[g], s.in_chunks[g], s.windows[g] == state_window, s.spare[g]};
    }
    return l;
  }
  static own_plan own(const plan& p) noexcept {
    own_plan q;
    q.decode = p.decode, q.prefill = p.prefill, q.id = p.id;
    return q;
  }

  ts::owned_storage<limits> storage_;
  scheduler scheduler_;
  order_settings<Order> set_;
};

/// Gates for adapters and images, whether there are some or not, and perhaps another one.
template <class... More>
using gates_of = ts::gate::all<ts::gate::basic_adapter_slots<most_adapters>, encoder_outputs, More...>;

template <class... More>
[[nodiscard]] gates_of<More...> make_gates(const settings& s, const More&... more) {
  const encoder_outputs outputs{.per_step = max(s.encoder_budget, ts::tokens{1}),
                                .capacity = max(s.encoder_cache, ts::tokens{1}),
                                .whole_inputs = s.longest_input > ts::tokens{}};
  return {.gates = {{.slots = s.adapters == 0 ? 1 : s.adapters}, outputs, more...}};
}

/// Whether a model's layers are all of one kind, and look at everything.
[[nodiscard]] inline bool looks_at_all(const settings& s) noexcept {
  return s.windows.size() == 1 && s.windows[0] == ts::tokens{} && s.block_sizes[0] == s.limits.block_size;
}

template <class Order, class Gate = ts::gate::in_line>
[[nodiscard]] std::unique_ptr<planner> planner_for(const settings& s, order_settings<Order> set,
                                                   const Gate& gate = {}) {
  if (s.adapters != 0 || s.tells || s.encoder_cache != ts::tokens{} || !looks_at_all(s)) {
    const auto make = [&]<class... More>(const More&... more) -> std::unique_ptr<planner> {
      const auto gates = make_gates(s, more...);
      using gates_type = gates_of<More...>;
      if (!looks_at_all(s)) return std::make_unique<grouped_planner<Order, gates_type>>(s, set, gates);
      // A prefix cache, whether there is one or not: a request without hashes shares nothing. And it can tell.
      return std::make_unique<planner_of<Order, telling_cache, gates_type>>(s, set, gates);
    };
    if constexpr (std::is_same_v<Gate, ts::gate::in_line>) {
      return make();
    } else {
      return make(gate);
    }
  }
  if (s.caching) return std::make_unique<planner_of<Order, silent_cache, Gate>>(s, set, gate);
  return std::make_unique<planner_of<Order, ts::kv::block_pool, Gate>>(s, set, gate);
}

}  // namespace tessera_python
