// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// @file
/// Runs a composition step by step, one unit of time each, and writes down when every token appeared.

#include <tessera/core/owned_storage.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/order/response_ratio.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/order/two_phase.hpp>
#include <tessera/pipeline/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace tessera_test {

struct job {
  int arrives = 0;
  std::int64_t output = 1;
  std::int64_t reasoning = 0;  ///< 0: it starts in answering.
  std::int64_t prompt = 1;
};

struct timed_request : tessera::request_hook_for<tessera::order::round_robin, tessera::order::two_phase,
                                                 tessera::order::ranked<>, tessera::order::response_ratio<>> {
  std::vector<int> tokens_at;  ///< A token of the step [t, t + 1) appears at t + 1.
};

/// One block per request, so that `capacity` requests fit.
template <class Scheduler>
std::deque<timed_request> timeline(const std::vector<job>& jobs, std::size_t capacity,
                                   const typename Scheduler::config& config) {
  using namespace tessera;
  const scheduler_limits limits{
      .requests = jobs.size(), .blocks = capacity, .block_size = tokens{64}, .host_blocks = jobs.size()};
  auto storage = storage_for<Scheduler>(limits);
  std::deque<timed_request> r(jobs.size());
  Scheduler scheduler{storage, config};
  for (int t = 0; t != 200; ++t) {
    const auto now = time_point::at_seconds(t);
    for (std::size_t i = 0; i != jobs.size(); ++i) {
      if (jobs[i].arrives != t) continue;
      r[i].prompt = tokens{jobs[i].prompt};
      r[i].starts_in = jobs[i].reasoning > 0 ? phase::reasoning : phase::answering;
      static_cast<void>(scheduler.submit(r[i], now));
    }
    const auto plan = scheduler.plan(now, {});
    std::vector<outcome> outcomes;
    for (std::size_t i = 0; i != plan.size(); ++i) {
      auto& x = *plan[i].request;
      std::size_t which = 0;
      while (&r[which] != &x) ++which;
      x.tokens_at.push_back(t + 1);
      const auto generated = static_cast<std::int64_t>(x.tokens_at.size());
      outcomes.push_back(
          {.end_of_reasoning = generated == jobs[which].reasoning, .finished = generated == jobs[which].output});
    }
    scheduler.commit(plan, outcomes, time_point::at_seconds(t + 1));
  }
  for (timed_request& x : r) static_cast<void>(scheduler.cancel(x));
  return r;
}

}  // namespace tessera_test
