// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Placement: one decision over `n` instances, all with fresh views. Target: 2 us at 1,024.

#include <tessera/placement/join_shortest_queue.hpp>
#include <tessera/placement/least_kv.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/placement/pascal.hpp>
#include <tessera/placement/random.hpp>
#include <tessera/placement/round_robin.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace {

using namespace tessera;

struct view {
  blocks kv_held{};
  blocks free_blocks{};
  std::size_t requests = 0;
  blocks waiting_blocks{};
  bool slo_met = true;
  std::size_t reasoning = 0;
  std::size_t fresh_answers = 0;
};

/// `met` of 100 instances meet their SLO.
std::vector<view> cluster_of(std::int64_t n, unsigned met) {
  std::mt19937 random{3};
  std::vector<view> all(static_cast<std::size_t>(n));
  for (view& v : all) {
    v.kv_held = blocks{static_cast<std::int64_t>(random() % 5000)};
    v.free_blocks = blocks{static_cast<std::int64_t>(random() % 100)};
    v.requests = random() % 100;
    v.waiting_blocks = blocks{static_cast<std::int64_t>(random() % 500)};
    v.slo_met = random() % 100 < met;
    v.reasoning = random() % 50;
    v.fresh_answers = random() % 20;
  }
  return all;
}

template <class Policy>
void places(benchmark::State& state) {
  auto all = cluster_of(state.range(0), static_cast<unsigned>(state.range(1)));
  Policy policy;
  for (auto _ : state) {
    benchmark::DoNotOptimize(all.data());
    benchmark::DoNotOptimize(policy(all));
    benchmark::ClobberMemory();
  }
}

template <class Policy>
void migrates(benchmark::State& state) {
  auto all = cluster_of(state.range(0), static_cast<unsigned>(state.range(1)));
  Policy policy;
  policy.headroom = blocks{101};  // there is never enough, so every call looks at all instances
  for (auto _ : state) {
    benchmark::DoNotOptimize(all.data());
    benchmark::DoNotOptimize(policy(all, 0, blocks{1}, blocks{40}));
    benchmark::ClobberMemory();
  }
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"instances", "met"})->ArgsProduct({{8, 64, 1024}, {0, 50, 100}});
}

BENCHMARK(places<placement::round_robin>)->Args({1024, 100});
BENCHMARK(places<placement::random>)->Args({1024, 100});
BENCHMARK(places<placement::join_shortest_queue>)->Args({1024, 100});
BENCHMARK(places<placement::least_kv>)->Args({1024, 100});
BENCHMARK(places<placement::least_load>)->Args({1024, 100});
BENCHMARK(places<placement::pascal_arrival>)->Apply(sizes);
BENCHMARK(places<placement::pascal_phase_change>)->Apply(sizes);
BENCHMARK(migrates<placement::pascal_migrate_adaptively>)->Apply(sizes);
BENCHMARK(migrates<placement::migrate_when_tight>)->Args({1024, 100});

}  // namespace
