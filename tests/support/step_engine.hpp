// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/owned_storage.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

/// @file
/// An engine that runs plans of one scheduler, step by step, and adds up what it is told to do.

namespace tessera_test {

using namespace tessera;
using namespace tessera::literals;

/// A request that knows its output, and its prompt's hashes.
template <class Hook = request_hook>
struct prompt_request : Hook {
  std::vector<std::uint64_t> hashes;
  tokens output{1};  ///< It has ended when it has generated as many tokens; 0: it goes on for ever.
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }
};

/// Hashes of the first `n` blocks of a prompt, of which the first `shared` are those of all prompts.
[[nodiscard]] inline std::vector<std::uint64_t> hashes_of(std::size_t n, std::size_t shared, std::uint64_t own) {
  std::vector<std::uint64_t> h(n);
  for (std::size_t i = 0; i != n; ++i) h[i] = ((i < shared ? 1 : 1000 + own) * 1000003 + i) * 0x9e3779b97f4a7c15ULL;
  return h;
}

template <class Scheduler>
struct step_engine {
  using request = typename Scheduler::request_type;
  using plan_type = typename Scheduler::plan_type;
  using time_point = typename Scheduler::time_point;

  explicit step_engine(const scheduler_limits& l, const typename Scheduler::config& c = {})
      : storage{storage_for<Scheduler>(l)}, scheduler{storage, c} {}
  ~step_engine() { end_all(); }
  step_engine(const step_engine&) = delete;
  step_engine& operator=(const step_engine&) = delete;

  request& add(std::int64_t prompt, std::int64_t output, int priority = 0) {
    request& r = requests.emplace_back();
    r.prompt = tokens{prompt};
    r.output = r.max_output = tokens{output};
    r.priority = priority;
    return r;
  }
  request& submit(request& r) {
    REQUIRE(scheduler.submit(r, now) == status::accepted);
    return r;
  }
  /// With `shared` of its first `hashed` blocks' hashes equal to those of all others.
  request& submit_hashed(std::int64_t prompt, std::int64_t output, std::size_t hashed, std::size_t shared,
                         int priority = 0) {
    request& r = add(prompt, output, priority);
    r.hashes = hashes_of(hashed, shared, requests.size());
    return submit(r);
  }
  request& submit(std::int64_t prompt, std::int64_t output, int priority = 0) {
    return submit(add(prompt, output, priority));
  }

  [[nodiscard]] plan_type plan(const step_limits& l = {}) { return scheduler.plan(now, l); }
  /// As the requests say: each entry that samples gives one token.
  void commit(const plan_type& p) {
    std::vector<outcome> outcomes(p.size());
    for (std::size_t i = 0; i != p.size(); ++i) {
      const request& r = *p[i].request;
      outcomes[i].finished = p[i].samples && r.output > 0_tok && r.generated() + 1_tok >= r.output;
    }
    commit(p, outcomes);
  }
  void commit(const plan_type& p, std::span<const outcome> outcomes) {
    batch += p.size();
    computed += p.computed;
    preemptions += p.preempted.size();
    for (const auto& t : p.swap_out) swapped_out += t.device.size();
    for (const auto& t : p.swap_in) swapped_in += t.device.size();
    ++steps;
    now += 20_ms;
    REQUIRE(scheduler.commit(p, outcomes, now) == status::ok);
  }
  void abandon(const plan_type& p) { REQUIRE(scheduler.abandon(p) == status::ok); }
  /// Returns the size of the batch.
  std::size_t step(const step_limits& l = {}) {
    const plan_type p = plan(l);
    const std::size_t n = p.size();
    commit(p);
    return n;
  }
  void run_out(const step_limits& l = {}, std::size_t most = 100'000) {
    for (std::size_t i = 0; i != most && !scheduler.idle(); ++i) step(l);
    REQUIRE(scheduler.idle());
  }
  void end_all() {
    for (request& r : requests) static_cast<void>(scheduler.cancel(r));
  }
  void count_from_here() { steps = batch = preemptions = swapped_out = swapped_in = 0, computed = tokens{}; }

  [[nodiscard]] std::vector<kv::block_id> row(const request& r) const {
    const auto ids = scheduler.tables().row(r.state().row);
    return {ids.begin(), ids.end()};
  }
  [[nodiscard]] wait_reason why(const request& r) const { return scheduler.why(r); }

  std::deque<request> requests;
  owned_storage<scheduler_limits> storage;
  Scheduler scheduler;
  time_point now{};
  std::size_t steps = 0;
  std::size_t batch = 0;
  std::size_t preemptions = 0;
  std::size_t swapped_out = 0;  ///< Blocks.
  std::size_t swapped_in = 0;   ///< Blocks.
  tokens computed{};
};

}  // namespace tessera_test
