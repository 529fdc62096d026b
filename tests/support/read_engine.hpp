// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/owned_storage.hpp>
#include <tessera/order/earliest_due.hpp>
#include <tessera/order/paced.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/order/two_phase.hpp>
#include <tessera/pacing/token_pacer.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/qoe/integrator.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

/// @file
/// An engine with readers: requests reason and answer, and their readers' QoE is kept.

namespace tessera_test {

using namespace tessera;

struct read_request : request_hook_for<order::two_phase, order::ranked<>, order::paced<>, order::earliest_due<>> {
  float score = 0;
  token_pacer pacer{};
  qoe_integrator qoe{};
  tokens expected_output{};
  std::int64_t reasons = 0;
  std::int64_t output = 1;
  double first_answer = -1;
  double ended = -1;
};

struct job {
  double arrives;
  std::int64_t reasons;
  std::int64_t answers;
  std::int64_t expected = 0;  ///< Tokens that are predicted.
};

/// Steps of 25 ms, one block for each request, `capacity` blocks.
template <class Scheduler>
std::deque<read_request> run(const std::vector<job>& jobs, std::size_t capacity,
                             const typename Scheduler::config& config) {
  const scheduler_limits limits{
      .requests = jobs.size(), .blocks = capacity, .block_size = tokens{8192}, .host_blocks = jobs.size()};
  auto storage = storage_for<Scheduler>(limits);
  Scheduler scheduler{storage, config};
  std::deque<read_request> all(jobs.size());
  std::vector<outcome> outcomes;
  outcomes.reserve(jobs.size());
  std::size_t next = 0;
  std::size_t heap = 0;
  for (int step = 0; step != 100'000 && (next != jobs.size() || !scheduler.idle()); ++step) {
    const time_point now = time_point::at_seconds(step * 0.025);
    for (; next != jobs.size() && jobs[next].arrives <= now.seconds(); ++next) {
      read_request& r = all[next];
      r.prompt = tokens{10};
      r.reasons = jobs[next].reasons;
      r.output = r.reasons + jobs[next].answers;
      r.expected_output = tokens{jobs[next].expected};
      r.score = static_cast<float>(jobs[next].expected);
      r.starts_in = r.reasons > 0 ? phase::reasoning : phase::answering;
      REQUIRE(scheduler.submit(r, now) == status::accepted);
    }
    const tessera_test::no_allocation guard;
    const auto plan = scheduler.plan(now, {});
    const time_point end = time_point::at_seconds((step + 1) * 0.025);
    outcomes.clear();
    for (std::size_t i = 0; i != plan.size(); ++i) {
      read_request& r = *plan[i].request;
      const std::int64_t made = r.generated().count() + 1;
      if (r.state().phase == phase::answering) {
        if (r.first_answer < 0) r.first_answer = end.seconds();
        r.pacer.on_token(end);
        r.qoe.on_token(end);
      }
      if (made == r.output) r.ended = end.seconds();
      outcomes.push_back({.end_of_reasoning = made == r.reasons, .finished = made == r.output});
    }
    scheduler.commit(plan, outcomes, end);
    heap += guard.allocations();
  }
  CHECK(heap == 0);
  CHECK(scheduler.idle());
  for (read_request& r : all) r.qoe.finish();
  return all;
}

}  // namespace tessera_test
