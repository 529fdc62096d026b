// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/round_robin.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tessera_test::bare_scheduler {

using namespace tessera;
using namespace tessera::literals;

struct request : request_hook_for<order::round_robin> {
  std::vector<std::uint64_t> hashes;
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }
};

inline request make(std::int64_t prompt, std::int64_t max_output = 0, int priority = 0) {
  request r;
  r.prompt = tokens{prompt};
  r.max_output = tokens{max_output};
  r.priority = priority;
  return r;
}

/// A scheduler over memory of its own. Its engine gives every entry one token.
template <class Order = order::fcfs, class Preempt = preempt::swap, class Admit = admit::always,
          class Store = kv::block_pool>
struct fixture {
  using scheduler_type = iteration_scheduler<request, Order, Preempt, Admit, Store>;

  explicit fixture(const scheduler_limits& l, const typename scheduler_type::config& c = {})
      : storage{storage_for<scheduler_type>(l)}, scheduler{storage, c} {}

  auto plan(const step_limits& step = {}) { return scheduler.plan(time_point{}, step); }
  void commit(const step_plan<request>& p, const outcome& o = {}) {
    const std::vector<outcome> outcomes(p.size(), o);
    CHECK(scheduler.commit(p, outcomes, time_point{}) == status::ok);
  }
  void abandon(const step_plan<request>& p) { CHECK(scheduler.abandon(p) == status::ok); }
  void step(const step_limits& step = {}) { commit(plan(step)); }
  status submit(request& r) { return scheduler.submit(r, time_point{}); }

  owned_storage<scheduler_limits> storage;
  scheduler_type scheduler;
};

inline constexpr scheduler_limits small{
    .requests = 8, .blocks = 8, .block_size = 4_tok, .residents = 4, .host_blocks = 8};

}  // namespace tessera_test::bare_scheduler
