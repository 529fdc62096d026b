// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// @file
/// An engine that makes every call of a scheduler at random, right ones and refused ones, to fill a decision log.

#include <tessera/core/owned_storage.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/order/two_phase.hpp>
#include <tessera/pipeline/decision_log.hpp>
#include <tessera/pipeline/replay_decisions.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace tessera_test {

struct logged_request : tessera::request_hook_for<tessera::order::two_phase, tessera::order::ranked<>> {
  float score = 0;
  int touched = 0;  ///< Changes while it runs.
  std::span<const std::uint64_t> hashes;
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }
};
template <class R>
  requires std::same_as<std::remove_const_t<R>, logged_request>
[[nodiscard]] constexpr auto noted_members(R& r) noexcept {
  return std::tie(r.touched);
}

/// Two compositions: shared prefixes with phases; scores with ageing.
using logged_phases = tessera::iteration_scheduler<logged_request, tessera::order::two_phase, tessera::preempt::swap,
                                                   tessera::admit::watermark, tessera::kv::prefix_cache>;
using logged_ranks = tessera::iteration_scheduler<logged_request, tessera::order::ranked<>>;

[[nodiscard]] inline tessera::scheduler_limits logged_limits(std::size_t plans_in_flight = 1) noexcept {
  return {.requests = 12,
          .blocks = 24,
          .block_size = tessera::tokens{4},
          .residents = 6,
          .host_blocks = 16,
          .plans_in_flight = plans_in_flight,
          .plans_apart = plans_in_flight > 2 ? 2U : 1U,
          .deadlines = 4};
}

inline void give_hashes(logged_request& r, std::span<const std::uint64_t> hashes) noexcept { r.hashes = hashes; }

/// The same seed, the same calls. `calls` of them.
template <class Scheduler>
void make_calls(tessera::decision_log& log, const typename Scheduler::config& config, std::size_t calls,
                std::uint64_t seed, std::size_t plans_in_flight = 1) {
  using namespace tessera;
  std::mt19937_64 random{seed};
  const auto below = [&random](std::uint64_t n) { return random() % n; };
  const auto upto = [&below](std::uint64_t n) { return tokens{static_cast<std::int64_t>(below(n + 1))}; };

  std::deque<logged_request> requests;
  std::deque<std::vector<std::uint64_t>> hashes;
  auto storage = storage_for<Scheduler>(logged_limits(plans_in_flight));
  logged<Scheduler> scheduler{log, storage, config};
  std::deque<typename Scheduler::plan_type> plans;
  time_point now{};

  const auto describe = [&](logged_request& r, tokens prompt) {
    r.prompt = prompt;
    r.max_output = below(4) == 0 ? tokens{} : tokens{1} + upto(30);
    r.priority = static_cast<int>(below(3));
    r.starts_in = below(2) == 0 ? phase::reasoning : phase::answering;
    r.score = static_cast<float>(below(100));
    // Families of prompts with a common beginning.
    std::vector<std::uint64_t> chain(static_cast<std::size_t>(prompt.count()) / 4);
    std::uint64_t h = below(3) + 1;
    for (auto& x : chain) x = h = (h * 0x9e37'79b9'7f4a'7c15ULL) ^ (below(8) == 0 ? random() : 0);
    r.hashes = hashes.emplace_back(std::move(chain));
  };
  const auto any = [&]() -> logged_request& {
    if (requests.empty() || below(40) == 0) return requests.emplace_back();
    const std::size_t most = requests.size() < 16 ? requests.size() : 16;
    return requests[requests.size() - 1 - below(most)];
  };
  const auto ignore = [](status) noexcept {};

  for (std::size_t i = 0; i != calls; ++i) {
    now += duration{static_cast<double>(below(4)) * 0.5};
    if (below(6) == 0) {
      const bool is_never = below(4) == 0;
      const time_point deadline = is_never ? time_point::never() : now + duration{static_cast<double>(below(6))};
      std::uint64_t ticket = 0;
      logged_request& r = any();
      switch (below(10)) {
        case 0: ignore(scheduler.park(r, deadline)); break;
        case 1: ignore(scheduler.park(r, deadline, park_end::fails)); break;
        case 2: ignore(scheduler.loading(r, upto(12), deadline)); break;
        case 3: ignore(scheduler.arrived(r, upto(12))); break;
        case 4: ignore(scheduler.start_by(r, deadline)); break;
        case 5: ignore(scheduler.evacuate(r, deadline, ticket)); break;
        case 6: ignore(scheduler.finish(r, deadline, ticket)); break;
        case 7: scheduler.drained(1 + below(8)); break;
        case 8: ignore(scheduler.fetching(r, upto(12))); break;
        default: ignore(scheduler.ready(r));
      }
      continue;
    }
    switch (below(24)) {
      case 0:
      case 1:
      case 2: {
        logged_request& r = below(8) == 0 ? any() : requests.emplace_back();
        if (!is_live(r.state().life)) describe(r, below(20) == 0 ? tokens{200} : upto(30));
        ignore(scheduler.submit(r, now));
        break;
      }
      case 3: {
        logged_request& r = any();
        ignore(scheduler.evacuate(r));
        if (below(4) != 0) ignore(scheduler.adopt(r));
        break;
      }
      case 4: {
        logged_request& r = requests.emplace_back();
        describe(r, tokens{1} + upto(20));
        const tokens length = r.prompt + upto(5);
        ignore(scheduler.adopt(r, {.length = length, .computed = min(upto(25), length), .arrived = now}));
        break;
      }
      case 5: ignore(scheduler.suspend(any())); break;
      case 6: {
        logged_request& r = any();
        ignore(scheduler.resume(r));
        break;
      }
      case 7: ignore(scheduler.preempt(any())); break;
      case 8: {
        const logged_request& parent = any();
        logged_request& child = below(8) == 0 ? any() : requests.emplace_back();
        if (!is_live(child.state().life)) {
          describe(child, parent.prompt);
          child.hashes = parent.hashes;
        }
        ignore(scheduler.fork(parent, child));
        break;
      }
      case 9:
        ignore(scheduler.update(any(), [&](logged_request& r) {
          r.priority = static_cast<int>(below(3));
          r.score = static_cast<float>(below(100));
        }));
        break;
      case 10:
        if constexpr (requires { scheduler.forget_prefixes(); }) {
          if (below(8) == 0) ignore(scheduler.forget_prefixes());
        }
        break;
      case 11:
        if (below(2) == 0) {
          scheduler.cancel(any());
        } else {
          scheduler.finish(any());
        }
        break;
      case 12: {
        logged_request& r = any();
        ++r.touched;
        scheduler.note(r);
        break;
      }
      default:
        if (plans.empty() || (plans.size() != plans_in_flight && below(2) == 0)) {
          step_limits l{.max_batch = 1 + below(8), .token_budget = tokens{1} + upto(40)};
          if (below(3) == 0) l.max_chunk = tokens{1} + upto(6);
          if (below(3) == 0) l.lookahead = upto(3);
          if (below(8) == 0) l.max_starts = below(3);
          if (below(8) == 0) l.prefill_budget = tokens{1} + upto(9);
          plans.push_back(scheduler.plan(now, l));
        } else if (below(8) == 0 && scheduler.can_abandon()) {
          scheduler.abandon(plans.back());
          plans.pop_back();
        } else {
          const auto plan = plans.front();
          plans.pop_front();
          std::vector<outcome> outcomes(plan.size());
          for (std::size_t k = 0; k != plan.size(); ++k) {
            outcome& o = outcomes[k];
            if (plan[k].samples) {
              o.produced =
                  static_cast<std::uint16_t>(1 + below(1 + static_cast<std::uint64_t>(plan[k].lookahead.count())));
              o.end_of_reasoning = below(8) == 0;
            }
            o.finished = below(12) == 0;
            o.failed = below(40) == 0;
            o.spoilt = !o.finished && below(30) == 0;
          }
          for (logged_request* r : plan.outgrown) scheduler.finish(*r);
          scheduler.commit(plan, outcomes, now);
        }
    }
  }
}

}  // namespace tessera_test
