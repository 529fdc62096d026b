// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <benchmark/benchmark.h>

#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/kv/changed_tables.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/kv/row_tables.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <random>
#include <span>
#include <utility>
#include <vector>

// Bad days of a scheduler's memory. Another program has used the processor's caches between two steps, as an engine
// does. Or a burst of prompts begins alike, and all except one wait for a prefix in each plan.
//
// Counters: the median and the 99th percentile of plan + commit, in nanoseconds.

namespace {

using namespace tessera;
using namespace tessera::literals;

struct plain_request : request_hook {};
struct reasoning_request : pascal_request {};
struct hashed_request : request_hook {
  std::vector<std::uint64_t> hashes;
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }
};

class stopwatch {
 public:
  template <class F>
  auto operator()(F&& f) {
    const auto start = std::chrono::steady_clock::now();
    const auto result = f();
    spent_ += std::chrono::duration<double>{std::chrono::steady_clock::now() - start}.count();
    return result;
  }
  /// Seconds since it was read last.
  double read() { return std::exchange(spent_, 0.0); }

 private:
  double spent_ = 0;
};

void report(benchmark::State& state, std::vector<double>& seconds) {
  std::sort(seconds.begin(), seconds.end());
  state.counters["p50_ns"] = 1e9 * seconds[seconds.size() / 2];
  state.counters["p99_ns"] = 1e9 * seconds[seconds.size() * 99 / 100];
}

/// Steps of a full batch, between which something else has used as many bytes as the argument says.
template <class Scheduler>
void others_use_the_caches(benchmark::State& state) {
  using request = typename Scheduler::request_type;
  constexpr std::size_t running = 256;
  std::deque<request> requests;
  auto storage = storage_for<Scheduler>({.blocks = 100 * running, .residents = running});
  Scheduler scheduler{storage};
  std::mt19937 random{1};
  std::vector<unsigned char> others(static_cast<std::size_t>(state.range(0)));
  const auto use_caches = [&] {
    for (std::size_t i = 0; i < others.size(); i += 64) ++others[i];
    benchmark::DoNotOptimize(others.data());
    benchmark::ClobberMemory();
  };
  std::vector<outcome> outcomes;
  typename Scheduler::time_point now{};
  stopwatch timed;
  const auto step = [&] {
    while (scheduler.waiting_count() < 100) {
      request& r = requests.emplace_back();
      r.prompt = 1024_tok;
      r.max_output = tokens{128 + static_cast<std::int64_t>(random() % 129)};
      if (!ok(scheduler.submit(r, now))) std::abort();
    }
    use_caches();
    const auto p = timed([&] { return scheduler.plan(now, {.max_batch = running, .token_budget = 8192_tok}); });
    outcomes.assign(p.size(), {});
    for (std::size_t i = 0; i != p.size(); ++i) {
      outcomes[i].finished = p[i].samples && p[i].request->generated() + 1_tok >= p[i].request->max_output;
    }
    now += 20_ms;
    use_caches();
    if (timed([&] { return scheduler.commit(p, outcomes, now); }) != status::ok) std::abort();
    return timed.read();
  };
  for (int i = 0; i != 400; ++i) static_cast<void>(step());
  std::vector<double> seconds;
  for (auto _ : state) {
    seconds.push_back(step());
    state.SetIterationTime(seconds.back());
  }
  report(state, seconds);
  for (request& r : requests) scheduler.cancel(r);
}

/// Plans in which one prompt is computed in chunks and as many others as the argument says begin like it.
void prompts_that_begin_alike(benchmark::State& state) {
  using scheduler_type = fcfs<hashed_request, kv::prefix_cache, kv::row_tables>;
  std::deque<hashed_request> requests;
  auto storage = storage_for<scheduler_type>({.blocks = 600'000, .residents = 512});
  scheduler_type scheduler{storage, {.watermark = 0}};
  stopwatch timed;
  std::vector<double> seconds;
  for (auto _ : state) {
    if (requests.empty() || requests.front().generated() > 0_tok) {
      for (hashed_request& r : requests) scheduler.cancel(r);
      if (!ok(scheduler.forget_prefixes())) std::abort();
      requests.clear();
      for (std::int64_t i = 0; i <= state.range(0); ++i) {
        hashed_request& r = requests.emplace_back();
        r.prompt = 16'001_tok;
        for (std::uint64_t b = 0; b != 1000; ++b) r.hashes.push_back((b + 1) * 0x9e37'79b9'7f4a'7c15ULL);
        if (!ok(scheduler.submit(r, {}))) std::abort();
      }
    }
    const auto p =
        timed([&] { return scheduler.plan({}, {.max_batch = 512, .token_budget = 2048_tok, .max_chunk = 512_tok}); });
    const std::vector<outcome> outcomes(p.size());
    if (timed([&] { return scheduler.commit(p, outcomes, {}); }) != status::ok) std::abort();
    seconds.push_back(timed.read());
    state.SetIterationTime(seconds.back());
  }
  report(state, seconds);
  for (hashed_request& r : requests) scheduler.cancel(r);
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgName("others_bytes")->Arg(0)->Arg(512 << 10)->Arg(4 << 20)->Arg(64 << 20)->Iterations(400)->UseManualTime();
}

BENCHMARK(others_use_the_caches<fcfs<plain_request>>)->Apply(sizes);
BENCHMARK(others_use_the_caches<fcfs<plain_request, kv::block_pool, kv::changed_tables>>)->Apply(sizes);
BENCHMARK(others_use_the_caches<pascal<reasoning_request>>)->Apply(sizes);
BENCHMARK(prompts_that_begin_alike)->ArgName("alike")->Arg(0)->Arg(32)->Arg(256)->Iterations(1000)->UseManualTime();

}  // namespace
