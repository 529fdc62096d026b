// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <benchmark/benchmark.h>

#include <tessera/core/owned_storage.hpp>
#include <tessera/partition/bucketed.hpp>
#include <tessera/partition/chain.hpp>
#include <tessera/partition/exact.hpp>
#include <tessera/partition/flat.hpp>
#include <tessera/partition/merge.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

// Made-up samples: log-normal prompts (median 500, up to 120,000 tokens) and outputs (median 270, up to 8,000). So
// there is a range of 128K tokens and about 5,000 distinct lengths in 20,000 requests. Prices are those of a 3B model
// on one GPU. The time of a transfer decides how many stages pay, and with it the work. Arguments give it in tenths of
// microseconds per token, from nothing (a stage per instance) to so much that one stage is best.

namespace {

using namespace tessera;
using namespace tessera::partition;

std::vector<cost::request_lengths> sample(std::size_t n) {
  std::mt19937_64 random{1};
  std::lognormal_distribution<double> input{6.2, 1.4};
  std::lognormal_distribution<double> output{5.6, 1.1};
  std::vector<cost::request_lengths> all(n);
  for (auto& r : all) {
    const auto i = std::min<std::int64_t>(120'000, 1 + static_cast<std::int64_t>(input(random)));
    const auto o = std::min<std::int64_t>(8'000, 1 + static_cast<std::int64_t>(output(random)));
    r = {tokens{i}, tokens{i + o}};
  }
  return all;
}

length_table::prices prices(std::int64_t tenths_of_us) {
  return {.qoe = {{1e-3, 2e-5, 1e-7, 1e-12, 1e-7}},
          .transfer = {.per_sequence = 0, .per_token = static_cast<double>(tenths_of_us) * 1e-7}};
}

/// A table over `n` requests, and a partitioner.
template <class P>
struct bed {
  bed(std::size_t n, const typename P::limits& l)
      : table_memory{storage_for<length_table>({.requests = n})},
        table_arena{table_memory.memory()},
        table{table_arena, table_memory.limits()},
        memory{storage_for<P>(l)},
        own_arena{memory.memory()},
        planner{own_arena, l} {}
  owned_storage<length_table::limits> table_memory;
  arena table_arena;
  length_table table;
  owned_storage<typename P::limits> memory;
  arena own_arena;
  P planner;
};

/// From requests to a plan, sorting included. Arguments: requests, instances, transfer.
void partition_exact(benchmark::State& state) {
  const auto requests = sample(static_cast<std::size_t>(state.range(0)));
  const auto instances = static_cast<std::size_t>(state.range(1));
  bed<exact> b{requests.size(), {.lengths = requests.size(), .instances = instances}};
  std::vector<stage> out(instances);
  stage_plan plan;
  for (auto _ : state) {
    if (!ok(b.table.assign(requests, prices(state.range(2))))) state.SkipWithError("bad sample");
    plan = b.planner(b.table, instances, out);
    benchmark::DoNotOptimize(plan);
  }
  state.counters["lengths"] = static_cast<double>(b.table.size());
  state.counters["stages"] = static_cast<double>(plan.stages.size());
}
BENCHMARK(partition_exact)
    ->ArgNames({"requests", "instances", "transfer"})
    ->ArgsProduct({{20'000, 200'000}, {16}, {0, 20, 100, 1000}})
    ->ArgsProduct({{20'000, 200'000}, {64, 256}, {0, 20, 100, 1000}})
    ->Unit(benchmark::kMillisecond);

/// Sorting and pricing alone.
void partition_assign(benchmark::State& state) {
  const auto requests = sample(static_cast<std::size_t>(state.range(0)));
  bed<merge> b{requests.size(), {}};
  for (auto _ : state) benchmark::DoNotOptimize(b.table.assign(requests, prices(20)));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(partition_assign)->Arg(20'000)->Arg(200'000)->Unit(benchmark::kMillisecond);

/// A method on a table that is ready. `worse` is its predicted quality over that of `exact`.
template <class P>
void compare(benchmark::State& state, const typename P::limits& limits) {
  const auto requests = sample(20'000);
  const auto instances = static_cast<std::size_t>(state.range(0));
  bed<P> b{requests.size(), limits};
  bed<exact> best{requests.size(), {.lengths = requests.size(), .instances = instances}};
  if (!ok(b.table.assign(requests, prices(state.range(1))))) state.SkipWithError("bad sample");
  std::vector<stage> out(instances);
  stage_plan plan;
  for (auto _ : state) {
    plan = b.planner(b.table, instances, out);
    benchmark::DoNotOptimize(plan);
  }
  const double quality = plan.quality;
  state.counters["stages"] = static_cast<double>(plan.stages.size());
  state.counters["worse"] = quality / best.planner(b.table, instances, out).quality;
}
void partition_bucketed(benchmark::State& state) {
  compare<bucketed>(state, {.instances = static_cast<std::size_t>(state.range(0))});
}
void partition_merge(benchmark::State& state) { compare<merge>(state, {}); }
void partition_chain(benchmark::State& state) {
  compare<chain>(state, {.lengths = 20'000, .instances = static_cast<std::size_t>(state.range(0))});
}
BENCHMARK(partition_bucketed)->ArgNames({"instances", "transfer"})->ArgsProduct({{16, 256}, {0, 20, 100, 1000}});
BENCHMARK(partition_merge)->ArgNames({"instances", "transfer"})->ArgsProduct({{16, 256}, {0, 20, 100, 1000}});
BENCHMARK(partition_chain)->ArgNames({"instances", "transfer"})->ArgsProduct({{16}, {0, 20, 100, 1000}});

}  // namespace
