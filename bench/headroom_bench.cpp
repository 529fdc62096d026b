// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <benchmark/benchmark.h>

#include <tessera/control/phasor.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/headroom/calibration.hpp>
#include <tessera/headroom/reference_demand.hpp>
#include <tessera/placement/phasor_router.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

// Clusters with as many workers as the argument says. Prompts have lengths around 1,000, with a long tail.

namespace {

using namespace tessera;

std::vector<tokens> prompts(std::size_t n) {
  std::mt19937 random{1};
  std::lognormal_distribution<double> length{6.5, 1.0};
  std::vector<tokens> all(n);
  for (tokens& t : all) t = tokens{1 + static_cast<std::int64_t>(std::min(length(random), 100'000.0))};
  return all;
}

constexpr placement::prefill_worker prefill{.cost = {.alpha = 200'704, .beta = 15.2e9},
                                            .budget = {.peak_flops = 100e12, .ttft = 0.4_s}};

/// A request is routed, and the oldest one leaves: one decision and two updates of a worker.
void headroom_route(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  auto storage = storage_for<placement::phasor_router>({.workers = n});
  arena memory{storage.memory()};
  placement::phasor_router router{memory, storage.limits()};
  for (std::size_t w = 0; w != n; ++w) router.open(w, prefill);
  const auto lengths = prompts(4096);
  const std::size_t queued = 8 * n;
  std::vector<std::size_t> where(queued);
  std::size_t oldest = 0;
  for (std::size_t i = 0; i != queued; ++i) where[i] = router.route(lengths[i % lengths.size()]);
  std::size_t next = queued;
  for (auto _ : state) {
    router.leave(where[oldest], lengths[(next - queued) % lengths.size()]);
    where[oldest] = router.route(lengths[next % lengths.size()]);
    benchmark::DoNotOptimize(where[oldest]);
    ++next;
    if (++oldest == queued) oldest = 0;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(headroom_route)->Arg(8)->Arg(64)->Arg(1024)->Arg(16384);

struct view {
  double phi;
  std::size_t requests;
};

/// The same decision by looking at every view; nothing is updated.
void headroom_route_by_scan(benchmark::State& state) {
  std::mt19937 random{2};
  std::vector<view> views(static_cast<std::size_t>(state.range(0)));
  for (view& v : views) v = {1 - static_cast<double>(random() % 100'000) / 50'000, random() % 20};
  std::size_t i = 0;
  for (auto _ : state) {
    const std::size_t best = placement::highest_phi{}(views);
    benchmark::DoNotOptimize(best);
    views[best].phi -= 0.25;
    views[i].phi += 0.25;
    if (++i == views.size()) i = 0;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(headroom_route_by_scan)->Arg(8)->Arg(64)->Arg(1024)->Arg(16384);

/// Workers with up to 64 sequences each, and the telemetry about them.
struct cluster {
  std::vector<control::worker> workers{};
  std::vector<std::vector<control::sequence>> held{};

  /// @param load share of the blocks that are in use, give or take.
  cluster(std::size_t n, double load, bool decode_only) : workers(n), held(n) {
    std::mt19937 random{3};
    std::uniform_real_distribution<double> around{-0.08, 0.08};
    std::uint64_t id = 0;
    for (std::size_t i = 0; i != n; ++i) {
      control::worker& w = workers[i];
      w.role = decode_only || i % 4 != 0 ? control::role::decode : control::role::prefill;
      if (!decode_only && i % 16 == 1) w.role = control::role::mixed;
      w.elastic = w.role == control::role::mixed;
      w.time_phi = 1 - 2 * load + around(random);
      w.total = w.free = blocks{2000};
      w.demand = blocks{128};
      const blocks used{static_cast<std::int64_t>(2000 * std::min(1.0, load + around(random)))};
      while (w.total - w.free < used && held[i].size() != 64) {
        const blocks size = min(blocks{1 + static_cast<std::int64_t>(random() % 80)}, used - (w.total - w.free));
        held[i].push_back({id++, size, bytes{size.count() << 20U}});
        w.free -= size;
      }
      w.sequences_held = held[i].size();
      w.sequences = held[i];
    }
  }
};

void run_epochs(benchmark::State& state, const cluster& c) {
  auto storage = storage_for<control::phasor>({.workers = c.workers.size()});
  arena memory{storage.memory()};
  control::phasor phasor{memory, storage.limits()};
  std::size_t moves = 0;
  for (auto _ : state) moves += phasor.epoch(c.workers).moves.size();
  state.counters["moves"] = benchmark::Counter(static_cast<double>(moves), benchmark::Counter::kAvgIterations);
  state.SetItemsProcessed(state.iterations());
}

/// One control epoch, macro and meso, in a cluster where nothing is to be done.
void headroom_epoch_idle(benchmark::State& state) {
  run_epochs(state, cluster{static_cast<std::size_t>(state.range(0)), 0.5, false});
}
BENCHMARK(headroom_epoch_idle)->Arg(8)->Arg(64)->Arg(1024)->Unit(benchmark::kMicrosecond);

/// The same where many workers have stranded blocks, and as many moves are planned as an epoch may have.
void headroom_epoch_fragmented(benchmark::State& state) {
  run_epochs(state, cluster{static_cast<std::size_t>(state.range(0)), 0.9, false});
}
BENCHMARK(headroom_epoch_fragmented)->Arg(8)->Arg(64)->Arg(1024)->Unit(benchmark::kMicrosecond);

/// The worst: every worker decodes and is stranded. From the first to the last, each lacks a little less than the one
/// before, so that each displaces another among the candidates. Sequences are small, so that batches have many pieces,
/// and there is room for few.
void headroom_epoch_worst(benchmark::State& state) {
  cluster c{static_cast<std::size_t>(state.range(0)), 0.97, true};
  std::uint64_t id = 0;
  for (std::size_t i = 0; i != c.workers.size(); ++i) {
    control::worker& w = c.workers[i];
    w.demand = blocks{300};
    w.free = blocks{200 + static_cast<std::int64_t>(i * 90 / c.workers.size())};
    c.held[i].clear();
    for (int k = 0; k != 256; ++k) c.held[i].push_back({id++, blocks{1 + k % 12}, bytes{1 + k % 12}});
    w.sequences = c.held[i];
    w.sequences_held = 256;
    if (i % 8 == 7) {  // A few have room, more from one to the next.
      w.free = blocks{600 + static_cast<std::int64_t>(i * 400 / c.workers.size())};
    }
  }
  run_epochs(state, c);
}
BENCHMARK(headroom_epoch_worst)->Arg(1024)->Unit(benchmark::kMicrosecond);

/// A prompt is observed, the demand is read. The argument is the window.
void headroom_reference_demand(benchmark::State& state) {
  auto storage = storage_for<headroom::reference_demand>({.window = static_cast<std::size_t>(state.range(0))});
  arena memory{storage.memory()};
  headroom::reference_demand demand{memory, storage.limits()};
  const auto lengths = prompts(65536);
  std::size_t i = 0;
  for (auto _ : state) {
    demand.observe(lengths[i++ % lengths.size()]);
    benchmark::DoNotOptimize(demand.value());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(headroom_reference_demand)->Arg(128)->Arg(1024)->Arg(8192);

void headroom_calibrate(benchmark::State& state) {
  std::vector<headroom::prefill_sample> rows;
  for (const tokens l : prompts(static_cast<std::size_t>(state.range(0)))) {
    rows.push_back({l, prefill.cost.flops(l) / prefill.budget.peak_flops});
  }
  for (auto _ : state) benchmark::DoNotOptimize(headroom::calibrate(rows, prefill.budget.peak_flops));
}
BENCHMARK(headroom_calibrate)->Arg(1000)->Unit(benchmark::kMicrosecond);

}  // namespace
