// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "planner.hpp"

#include <tessera/core/owned_storage.hpp>
#include <tessera/draft/per_request.hpp>
#include <tessera/gate/adapter_slots.hpp>
#include <tessera/gate/all.hpp>
#include <tessera/kv/block_pool.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/recompute.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

namespace tessera_python {

/// The scheduler of one order over one kind of block store, behind a gate.
template <class Order, class Store, class Gate>
class planner_of final : public planner {
  // An engine without a host tier computes anew what it takes away, as vLLM's V1 does.
  using scheduler = ts::iteration_scheduler<request, Order, ts::preempt::recompute, ts::admit::watermark, Store,
                                            tables_in_place, Gate, ts::draft::per_request>;

 public:
  planner_of(const settings& s, const Order& order, const Gate& gate)
      : storage_{ts::storage_for<scheduler>(s.limits)},
        scheduler_{storage_,
                   {.order = order,
                    .admit = {.fraction = s.watermark},
                    .gate = gate,
                    .chunked_prefill = s.chunked_prefill,
                    .keep_draft_blocks = true}},
        block_size_{s.limits.block_size} {}

  ts::status submit(request& r, time_point now) override { return scheduler_.submit(r, now); }
  plan next(time_point now, const ts::step_limits& limits) override { return scheduler_.plan(now, limits); }
  ts::status commit(const plan& p, std::span<const ts::outcome> outcomes, time_point now) override {
    return scheduler_.commit(p, outcomes, now);
  }
  ts::status abandon(const plan& p) override { return scheduler_.abandon(p); }
  ts::status cancel(request& r) override { return scheduler_.cancel(r); }
  ts::status finish(request& r) override { return scheduler_.finish(r); }
  ts::status preempt(request& r) override { return scheduler_.preempt(r); }
  ts::status suspend(request& r) override { return scheduler_.suspend(r); }
  ts::status resume(request& r) override { return scheduler_.resume(r); }
  ts::status forget_prefixes() override {
    if constexpr (requires { scheduler_.forget_prefixes(); }) {
      return scheduler_.forget_prefixes();
    } else {
      return scheduler_.plan_pending() ? ts::status::busy : ts::status::ok;
    }
  }
  ts::tokens cached(const request& r) const override {
    if constexpr (requires { scheduler_.store().knows(std::uint64_t{}); }) {
      const auto known = [this](std::uint64_t hash) { return scheduler_.store().knows(hash); };
      const auto hashes = r.prefix_hashes();
      return block_size_ * (std::find_if_not(hashes.begin(), hashes.end(), known) - hashes.begin());
    } else {
      return {};
    }
  }
  bool fits(ts::tokens length, ts::tokens to_come) const override { return scheduler_.fits(length, to_come); }
  ts::wait_reason why(const request& r) const override { return scheduler_.why(r); }
  std::span<request* const> residents() const override { return scheduler_.residents(); }
  std::size_t suspended() const override { return scheduler_.suspended_count(); }
  std::size_t waiting() const override { return scheduler_.waiting_count(); }
  const ts::kv::block_table& tables() const override { return scheduler_.tables(); }
  ts::blocks held() const override { return scheduler_.device_blocks_held(); }

 private:
  ts::owned_storage<ts::scheduler_limits> storage_;
  scheduler scheduler_;
  ts::tokens block_size_;
};

template <class Order, class Gate = ts::gate::in_line>
[[nodiscard]] std::unique_ptr<planner> planner_for(const settings& s, const Order& order, const Gate& gate = {}) {
  if (s.adapters != 0) {
    // A prefix cache, whether there is one or not: who has no hashes shares nothing.
    using slots = ts::gate::basic_adapter_slots<most_adapters>;
    const slots adapters{.slots = s.adapters, .most_skipped = 64};
    if constexpr (std::is_same_v<Gate, ts::gate::in_line>) {
      return std::make_unique<planner_of<Order, ts::kv::prefix_cache, slots>>(s, order, adapters);
    } else {
      using both = ts::gate::all<slots, Gate>;
      return std::make_unique<planner_of<Order, ts::kv::prefix_cache, both>>(
          s, order, both{.most_skipped = gate.most_skipped, .gates = {adapters, gate}});
    }
  }
  if (s.caching) return std::make_unique<planner_of<Order, ts::kv::prefix_cache, Gate>>(s, order, gate);
  return std::make_unique<planner_of<Order, ts::kv::block_pool, Gate>>(s, order, gate);
}

}  // namespace tessera_python
