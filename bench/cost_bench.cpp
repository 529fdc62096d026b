// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <benchmark/benchmark.h>

#include <tessera/cost/fit.hpp>
#include <tessera/partition/range_refiner.hpp>
#include <tessera/sim/model/cost_profile.hpp>
#include <tessera/sim/model/profiles.hpp>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace {

using namespace tessera;

std::vector<cost::request_lengths> requests(std::size_t n) {
  std::mt19937 random{1};
  std::vector<cost::request_lengths> all(n);
  for (auto& r : all) {
    const auto i = static_cast<std::int64_t>(1 + random() % 8000);
    r = {tokens{i}, tokens{i + 1 + static_cast<std::int64_t>(random() % 1000)}};
  }
  return all;
}

/// A request joins, grows by a token and leaves a batch, and the batch is priced.
void cost_batch_change(benchmark::State& state) {
  const auto all = requests(1024);
  const cost::qoe_model m{{8e-3, 2e-5, 1e-7, 1e-12, 5e-8}};
  cost::batch_features b;
  b.join({tokens{100}, tokens{200}});
  std::size_t i = 0;
  for (auto _ : state) {
    auto r = all[i++ % all.size()];
    b.join(r);
    b.grow();
    benchmark::DoNotOptimize(m.batch(b));
    r.length += tokens{1};
    b.leave(r);
  }
}
BENCHMARK(cost_batch_change);

/// The fit to the simulated measurements of a profile; counters: errors in per cent.
void cost_fit(benchmark::State& state) {
  const auto rows = sim::profile_costs(sim::profiles().front());
  cost::fit_result r;
  for (auto _ : state) {
    if (!ok(cost::fit(rows, {}, r))) state.SkipWithError("no fit");
    benchmark::DoNotOptimize(r);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(rows.size()));
  state.counters["held_out_error"] = 100 * r.held_out_error;
  state.counters["constant_error"] = 100 * r.constant_error;
}
BENCHMARK(cost_fit);

/// An instance's boundary: its own requests, and those of four successors.
void range_refine(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const auto own = requests(n);
  const auto theirs = requests(4 * n);
  std::vector<cost::request_lengths> scratch(5 * n);
  partition::range_refiner<> r{tokens{4000}, {.rule = {{{8e-3, 2e-5, 1e-7, 1e-12, 5e-8}}}}};
  for (auto _ : state) benchmark::DoNotOptimize(r.update(own, theirs, 4, tokens{1}, tokens{100'000}, scratch));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(5 * n));
}
BENCHMARK(range_refine)->Arg(64)->Arg(256);

}  // namespace
