// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <adapter.hpp>
#include <model.hpp>
#include <prompt_lookup.hpp>

#include <support/catch.hpp>
#include <tessera/compose/fcfs.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/draft/per_request.hpp>
#include <tessera/sim/random.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

/// @file
/// What becomes of a sequence must not depend on the sequences beside it, on interruptions, or on where it runs. Its
/// logits are compared to the last bit with those of the same sequence alone in a context of its own.
///
/// Everything here goes through the adapter and a scheduler; the server is not involved.

namespace test {

using llama_cpp::context;
using llama_cpp::context_options;
using llama_cpp::engine_request;
using llama_cpp::model;
using tessera::tokens;
using namespace tessera::literals;

struct recorded : engine_request {
  std::vector<std::vector<float>> rows;  ///< The logits of each token that was sampled.
  std::size_t where = 0;
};

constexpr std::size_t slots = 8;
constexpr std::int64_t longest = 256;

inline context_options context_of() {
  return {.cells = static_cast<std::uint32_t>(slots * longest), .slots = slots, .batch = 64, .unified = false};
}

inline void fill(std::deque<recorded>& requests, std::size_t n) {
  tessera::sim::random_engine rng{7};
  for (std::size_t i = 0; i < n; ++i) {
    recorded& r = requests.emplace_back();
    const std::size_t length = 1 + tessera::sim::uniform_below(rng, 100);
    for (std::size_t k = 0; k < length; ++k) {
      r.sequence.push_back(static_cast<llama_token>(3 + tessera::sim::uniform_below(rng, 256)));
    }
    r.prompt = tokens{static_cast<std::int64_t>(length)};
    r.max_output = tokens{static_cast<std::int64_t>(20 + tessera::sim::uniform_below(rng, 60))};
  }
}

struct world {
  std::vector<std::vector<std::vector<float>>> rows;  ///< Per request.
  unsigned preemptions = 0;
  std::size_t swaps = 0;
  std::size_t moves = 0;
  std::size_t drafts = 0;
  std::size_t accepted = 0;
};

/// With drafts as they are found in each request's own text.
template <template <class, class, class, class, class> class Composition>
using drafting = Composition<recorded, tessera::kv::block_pool, tessera::kv::csr_tables, tessera::gate::in_line,
                             tessera::draft::per_request>;

/// Limits with `blocks` blocks of 16 tokens, and `host_blocks` in host memory.
inline tessera::scheduler_limits room(std::size_t blocks, std::size_t host_blocks) {
  return {.blocks = blocks, .residents = slots, .host_blocks = host_blocks, .max_length = tokens{longest}};
}

/// Runs requests that arrive one after the other on `instances` contexts with KV blocks of these limits each. At most
/// `drafts` tokens of each are guessed and verified in a step. `look(plan)` is shown each plan.
template <class Scheduler, class Look>
world run(const model& m, std::size_t n, std::size_t instances, const typename Scheduler::limits& limits,
          unsigned moves_in_hundred, std::uint64_t seed, std::size_t drafts, Look&& look) {
  std::deque<recorded> requests;
  fill(requests, n);
  struct instance {
    instance(const model& of, const typename Scheduler::limits& l)
        : storage{tessera::storage_for<Scheduler>(l)}, scheduler{storage, config()}, engine{of.get(), context_of()} {}
    /// Short turns, so that there are many preemptions.
    static typename Scheduler::config config() {
      typename Scheduler::config c;
      if constexpr (requires { c.quantum; }) c.quantum = 16_tok;
      return c;
    }
    tessera::owned_storage<typename Scheduler::limits> storage;
    Scheduler scheduler;
    context engine;
  };
  std::vector<std::unique_ptr<instance>> all;
  for (std::size_t i = 0; i < instances; ++i) all.push_back(std::make_unique<instance>(m, limits));

  world w;
  tessera::sim::random_engine rng{seed};
  tessera::time_point now{};
  std::size_t arrived = 0;
  std::size_t finished = 0;
  std::vector<tessera::outcome> outcomes;
  while (finished < n) {
    if (arrived < n) {
      recorded& r = requests[arrived];
      r.where = arrived % instances;
      REQUIRE(ok(all[r.where]->scheduler.submit(r, now)));
      ++arrived;
    }
    for (const auto& one : all) {
      for (recorded* r : one->scheduler.residents()) {
        llama_cpp::look_up(r->sequence, drafts, r->guesses);
        r->drafts = tokens{static_cast<std::int64_t>(r->guesses.size())};
      }
      const auto plan = one->scheduler.plan(
          now, {.max_batch = slots, .token_budget = 64_tok, .lookahead = tokens{static_cast<std::int64_t>(drafts)}});
      look(plan);
      one->engine.run(plan);
      w.swaps += plan.swap_in.size();
      outcomes.assign(plan.size(), {});
      for (std::size_t i = 0; i < plan.size(); ++i) {
        if (!plan[i].samples) continue;
        recorded& r = *plan[i].request;
        const auto sampled = one->engine.sampled(i);
        for (std::size_t k = 0; k < sampled.size(); ++k) {
          const auto logits = one->engine.logits(i, k);
          r.rows.emplace_back(logits.begin(), logits.end());
          r.sequence.push_back(sampled[k]);
        }
        one->engine.keep(plan[i], sampled.size());
        outcomes[i].produced = static_cast<std::uint16_t>(sampled.size());
        outcomes[i].finished = r.generated() + tokens{outcomes[i].produced} == r.max_output;
        CHECK(one->engine.kv_length(r) + 1 == static_cast<std::int64_t>(r.sequence.size()));
        w.drafts += static_cast<std::size_t>(plan[i].lookahead.count());
        w.accepted += sampled.size() - 1;
      }
      now += 1_ms;
      one->scheduler.commit(plan, outcomes, now);
      for (recorded& r : requests) {
        if (r.slot >= 0 && r.state().life == tessera::lifecycle::finished) {
          one->engine.release(r);
          ++finished;
        }
      }
    }
    // Live sequences change their slot, or their context.
    for (recorded& r : requests) {
      if (r.state().life != tessera::lifecycle::resident) continue;
      if (tessera::sim::uniform_below(rng, 100) >= moves_in_hundred) continue;
      const std::size_t to = tessera::sim::uniform_below(rng, instances);
      all[r.where]->engine.save(r);
      REQUIRE(ok(all[r.where]->scheduler.evacuate(r)));
      all[r.where]->engine.release_slot(r);
      REQUIRE(ok(all[to]->scheduler.adopt(r)));
      r.where = to;
      ++w.moves;
    }
  }
  for (recorded& r : requests) {
    w.preemptions += r.state().preemptions;
    w.rows.push_back(std::move(r.rows));
  }
  for (const auto& one : all) {
    CHECK(one->scheduler.idle());
    CHECK(one->scheduler.device_blocks_held().count() == 0);
    CHECK(one->engine.sequences() == 0);
  }
  return w;
}

template <class Scheduler>
world run(const model& m, std::size_t n, std::size_t instances, const typename Scheduler::limits& limits,
          unsigned moves_in_hundred, std::uint64_t seed, std::size_t drafts = 0) {
  return run<Scheduler>(m, n, instances, limits, moves_in_hundred, seed, drafts, [](const auto& /*plan*/) {});
}

/// Each request alone in a context that was not used before, its prompt in one step.
inline world alone(const model& m, std::size_t n) {
  std::deque<recorded> requests;
  fill(requests, n);
  world w;
  for (recorded& r : requests) {
    context engine{m.get(), {.cells = longest, .slots = 1, .batch = 128, .unified = false}};
    using scheduler_type = tessera::fcfs<recorded>;
    auto storage = tessera::storage_for<scheduler_type>({.blocks = 16, .residents = 1, .max_length = tokens{longest}});
    scheduler_type scheduler{storage};
    REQUIRE(ok(scheduler.submit(r, {})));
    while (!scheduler.idle()) {
      const auto plan = scheduler.plan({}, {.max_batch = 1, .token_budget = 128_tok});
      engine.run(plan);
      const auto logits = engine.logits(0);
      r.rows.emplace_back(logits.begin(), logits.end());
      r.sequence.push_back(engine.sampled(0).front());
      const tessera::outcome o{.finished = r.generated() + 1_tok == r.max_output};
      scheduler.commit(plan, {&o, 1}, {});
    }
    w.rows.push_back(std::move(r.rows));
  }
  return w;
}

/// Rows that differ in a bit.
inline std::size_t differences(const world& a, const world& b) {
  REQUIRE(a.rows.size() == b.rows.size());
  std::size_t different = 0;
  for (std::size_t i = 0; i < a.rows.size(); ++i) {
    REQUIRE(a.rows[i].size() == b.rows[i].size());
    for (std::size_t k = 0; k < a.rows[i].size(); ++k) {
      const auto& x = a.rows[i][k];
      const auto& y = b.rows[i][k];
      REQUIRE(x.size() == y.size());
      different += std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0 ? 0U : 1U;
    }
  }
  return different;
}

/// The most that a logit differs, as a part of the range of its row. Infinite if other tokens were sampled.
inline double largest_difference(const world& a, const world& b) {
  REQUIRE(a.rows.size() == b.rows.size());
  double most = 0;
  for (std::size_t i = 0; i < a.rows.size(); ++i) {
    REQUIRE(a.rows[i].size() == b.rows[i].size());
    for (std::size_t k = 0; k < a.rows[i].size(); ++k) {
      const auto& x = a.rows[i][k];
      const auto& y = b.rows[i][k];
      const auto [low, high] = std::minmax_element(x.begin(), x.end());
      if (high - x.begin() != std::max_element(y.begin(), y.end()) - y.begin()) {
        return std::numeric_limits<double>::infinity();
      }
      for (std::size_t t = 0; t < x.size(); ++t) {
        most = std::max(most, std::abs(static_cast<double>(x[t]) - y[t]) / (static_cast<double>(*high) - *low));
      }
    }
  }
  return most;
}

/// Why logits cannot be compared to the last bit; empty: they can.
inline const char* no_identity() {
  const bool llamafile = std::string_view{llama_print_system_info()}.find("LLAMAFILE = 1") != std::string_view::npos;
  return llamafile ? "skipped: this llama.cpp has GGML_LLAMAFILE, whose matrix products depend on the size of the batch"
                   : "";
}

}  // namespace test
