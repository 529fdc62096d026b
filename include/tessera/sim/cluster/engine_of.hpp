// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/owned_storage.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/order/cached_prefix.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/sim/cluster/engine.hpp>
#include <tessera/sim/cluster/order_words.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

/// @file
/// The engine of one composition: the only part of the simulator that is a template over it.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// A scheduler as an `engine`. @tparam Scheduler a composition over `sim::request`.
template <class Scheduler>
class engine_of final : public engine {
  using order_type = std::remove_cvref_t<decltype(std::declval<const Scheduler&>().waiting().discipline())>;
  using own_plan = typename Scheduler::plan_type;
  using words = order_words<order_type>;

 public:
  /// Whether the store finds blocks again.
  static constexpr bool shares_prefixes =
      kv::prefix_store<std::remove_cvref_t<decltype(std::declval<const Scheduler&>().store())>>;

  /// Allocates what the scheduler needs.
  engine_of(const scheduler_limits& limits, const typename Scheduler::config& config)
      : storage_{storage_for<Scheduler>(limits)}, scheduler_{storage_, config} {}

  /// The scheduler that is driven.
  [[nodiscard]] const Scheduler& scheduler() const noexcept { return scheduler_; }

  // As `engine` says.

  status submit(request& r, time_point arrived) override {
    look_at(r);
    return scheduler_.submit(r, arrived);
  }
  status adopt(request& r) override {
    look_at(r);
    return scheduler_.adopt(r);
  }
  status adopt(request& r, const request_progress<seconds_clock>& from) override {
    look_at(r);
    return scheduler_.adopt(r, from);
  }
  status evacuate(request& r) override { return scheduler_.evacuate(r); }
  status suspend(request& r) override { return scheduler_.suspend(r); }
  status resume(request& r) override { return scheduler_.resume(r); }

  const plan_type& plan(time_point now, const step_limits& limits) override {
    plan_ = scheduler_.plan(now, limits);
    if constexpr (std::same_as<own_plan, plan_type>) {
      return plan_;
    } else {
      // Block tables are the engine's business, and nothing is computed here.
      shown_.decode = plan_.decode, shown_.prefill = plan_.prefill;
      shown_.swap_out = plan_.swap_out, shown_.swap_in = plan_.swap_in, shown_.fetch = plan_.fetch;
      shown_.preempted = plan_.preempted, shown_.computed = plan_.computed, shown_.id = plan_.id;
      return shown_;
    }
  }
  void commit(std::span<const outcome> outcomes, time_point now) override { scheduler_.commit(plan_, outcomes, now); }
  void abandon() override { scheduler_.abandon(plan_); }

  [[nodiscard]] engine_load load() const override {
    return {.waiting = scheduler_.waiting_count(),
            .resident = scheduler_.resident_count(),
            .free = blocks{static_cast<std::int64_t>(scheduler_.store().free())},
            .device_held = scheduler_.device_blocks_held(),
            .host_held = scheduler_.host_blocks_held()};
  }
  [[nodiscard]] bool idle() const override { return scheduler_.idle(); }
  [[nodiscard]] std::span<request* const> residents() const override { return scheduler_.residents(); }
  void for_each_waiting(const std::function<void(const request&)>& f) const override {
    scheduler_.waiting().for_each([&f](const request& r) noexcept { f(r); });
  }
  [[nodiscard]] blocks blocks_held(const request& r) const override { return scheduler_.blocks_held(r); }
  [[nodiscard]] std::size_t known_blocks(std::span<const std::uint64_t> hashes) const override {
    if constexpr (shares_prefixes) {
      // A block is forgotten before those that lead up to it.
      const auto& store = scheduler_.store();
      const auto end = std::partition_point(hashes.begin(), hashes.end(),
                                            [&](std::uint64_t hash) noexcept { return store.knows(hash); });
      return static_cast<std::size_t>(end - hashes.begin());
    } else {
      static_cast<void>(hashes);
      return 0;
    }
  }
  void forget_prefixes() override {
    if constexpr (requires(Scheduler& s) { s.forget_prefixes(); }) {
      static_cast<void>(scheduler_.forget_prefixes());
    }
  }
  [[nodiscard]] bool reads_prefixes() const override { return by_prefix; }
  void look_again(request& r) override {
    if constexpr (by_prefix) order::look_again(scheduler_, r);
  }

  [[nodiscard]] wait_reason why(const request& r) const override { return scheduler_.why(r); }
  [[nodiscard]] std::string place(const request& r) const override {
    std::string own = words::place(scheduler_.waiting().discipline(), r);
    if (r.service == nullptr) return own;  // its tenant is not known
    if constexpr (requires(const Scheduler& s) { s.gate().had(0); }) {
      return fmt::format("its tenant {} has been given {} tokens; {}", r.tenant, scheduler_.gate().had(r.tenant), own);
    } else if constexpr (requires(const Scheduler& s) { s.gate().credit(0); }) {
      return fmt::format("its tenant {} has a credit of {} tokens; {}", r.tenant, scheduler_.gate().credit(r.tenant),
                         own);
    } else {
      return own;
    }
  }
  [[nodiscard]] std::string gated(const request& r) const override {
    if constexpr (requires(const Scheduler& s) { s.gate().accounts[0].had; }) {
      const auto& gate = scheduler_.gate();
      std::string why = fmt::format("its tenant {} has been given {} tokens", r.tenant, gate.had(r.tenant));
      std::size_t least = r.tenant;
      for (std::size_t t = 0; t != gate.accounts.size(); ++t) {
        if (gate.accounts[t].waiting != 0 && gate.had(t) < gate.had(least)) least = t;
      }
      return least != r.tenant ? why + fmt::format(", and another that waits {}", gate.had(least))
                               : why + ", more than those that went before it";
    } else if constexpr (requires(const Scheduler& s) { s.gate().credit(0); }) {
      return fmt::format("its tenant {} has a credit of {} tokens, and others that wait have more", r.tenant,
                         scheduler_.gate().credit(r.tenant));
    } else {
      return "the gate does not let it start";
    }
  }
  [[nodiscard]] std::string prediction(const request& r) const override {
    return words::prediction(scheduler_.waiting().discipline(), r);
  }

 private:
  static constexpr bool by_prefix = requires { requires order_type::reads_prefixes; };

  void look_at(request& r) noexcept {
    if constexpr (by_prefix)
      r.cached = order::cached_prefix(scheduler_.store(), r, scheduler_.size_limits().block_size);
  }

  struct nothing {};

  owned_storage<typename Scheduler::limits> storage_;
  Scheduler scheduler_;
  own_plan plan_{};
  [[no_unique_address]] std::conditional_t<std::same_as<own_plan, plan_type>, nothing, plan_type> shown_{};
};

/// Engines of one composition, all configured alike. @tparam Scheduler a composition over `sim::request`.
template <class Scheduler>
[[nodiscard]] engine_maker engines_of(const typename Scheduler::config& config = {}) {
  return {[config](const scheduler_limits& limits) -> std::unique_ptr<engine> {
            return std::make_unique<engine_of<Scheduler>>(limits, config);
          },
          engine_of<Scheduler>::shares_prefixes};
}

}  // namespace sim
TESSERA_NAMESPACE_END
