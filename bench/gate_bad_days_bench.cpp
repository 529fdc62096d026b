// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <benchmark/benchmark.h>

#include <tessera/gate/adapter_slots.hpp>
#include <tessera/gate/all.hpp>
#include <tessera/gate/fair_tenants.hpp>
#include <tessera/gate/tenant_deficits.hpp>
#include <tessera/kv/row_tables.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <span>
#include <vector>

// A line of 300,000 requests of one class that is skipped, in front of requests of 64 tenants and 12 adapters that are
// served. A plan looks at one request of each class, so the line costs nothing. The good day is the same without it.
//
// A day is played three times, and the least time of each of its plans counts. A plan that the operating system
// interrupted in one was not in another. Counters: nanoseconds of `plan`, `max_ns` being the worst.

namespace {

using namespace tessera;
using namespace tessera::literals;

struct request : request_hook_for<order::ranked<>> {
  std::uint32_t tenant = 0;
  std::uint32_t adapter = 0;
  float score = 0;
  std::int64_t output = 0;
};

constexpr std::size_t residents = 128;
constexpr std::size_t steps = 300;

/// Nanoseconds of each plan of a day on which `n` requests of the skipped class wait in front.
template <class Gate, class Order>
std::vector<double> play(std::size_t n) {
  using scheduler =
      iteration_scheduler<request, Order, preempt::swap, admit::always, kv::block_pool, kv::row_tables, Gate>;
  auto storage = storage_for<scheduler>({.requests = n + 10'000, .blocks = 1 << 16, .residents = residents});
  scheduler s{storage};
  std::deque<request> requests;
  std::uint32_t drawn = 1;
  double now = 0;
  const auto submit = [&](std::uint32_t tenant, std::uint32_t adapter, std::int64_t output) {
    request& r = requests.emplace_back();
    r.prompt = 16_tok;
    r.output = output;
    r.tenant = tenant;
    r.adapter = adapter;
    r.score = static_cast<float>(requests.size() % 1000);
    if (!ok(s.submit(r, time_point::at_seconds(now)))) std::abort();
  };
  std::vector<double> ns;
  const auto step = [&] {
    const auto before = std::chrono::steady_clock::now();
    const auto p = s.plan(time_point::at_seconds(now), {.max_batch = residents});
    const auto after = std::chrono::steady_clock::now();
    ns.push_back(std::chrono::duration<double, std::nano>(after - before).count());
    std::vector<outcome> outcomes(p.size());
    for (std::size_t i = 0; i != p.size(); ++i) {
      const request& r = *p[i].request;
      outcomes[i].finished = p[i].samples && r.generated().count() + 1 >= r.output;
    }
    if (!ok(s.commit(p, outcomes, time_point::at_seconds(now)))) std::abort();
    now += 0.02;
  };
  // The slots are taken for good, and the first tenant has had much.
  for (std::uint32_t i = 0; i != 8; ++i) submit(0, 1 + i, 1 << 20);
  for (int i = 0; i != 4; ++i) step();
  for (std::size_t i = 0; i != n; ++i) submit(0, 12, 100);
  // The plan that fills the free places at once is not counted: it starts 120.
  constexpr std::size_t before = 20;
  for (std::size_t i = 0; i != before + steps; ++i) {
    if (i == before) ns.clear();
    for (int k = 0; k != 4; ++k) {
      drawn = drawn * 1664525U + 1013904223U;
      const std::uint32_t x = drawn >> 16U;
      // A tenth of what comes is of adapters that have no slot.
      submit(1 + x % 63, x % 10 == 0 ? 9 + x % 4 : x % 9, 5 + x % 40);
    }
    step();
  }
  for (request& r : requests) s.cancel(r);
  return ns;
}

template <class Gate, class Order = order::fcfs>
void skipped_line(benchmark::State& state) {
  std::vector<double> least;
  for (auto unused : state) {
    static_cast<void>(unused);
    least.assign(steps, 1e18);
    for (int i = 0; i != 3; ++i) {
      const auto ns = play<Gate, Order>(static_cast<std::size_t>(state.range(0)));
      for (std::size_t k = 0; k != steps; ++k) least[k] = std::min(least[k], ns[k]);
    }
  }
  double sum = 0;
  for (const double t : least) sum += t;
  state.counters["plan_ns"] = sum / steps;
  state.counters["max_ns"] = *std::max_element(least.begin(), least.end());
}

using both = gate::all<gate::adapter_slots, gate::fair_tenants>;

#define TESSERA_BENCH_SKIPPED(name, ...)   \
  BENCHMARK(skipped_line<__VA_ARGS__>)     \
      ->Name("bad_day/skipped_line/" name) \
      ->Arg(0)                             \
      ->Arg(300'000)                       \
      ->Iterations(1)                      \
      ->Unit(benchmark::kMillisecond)

TESSERA_BENCH_SKIPPED("adapter_slots", gate::adapter_slots);
TESSERA_BENCH_SKIPPED("fair_tenants", gate::fair_tenants);
TESSERA_BENCH_SKIPPED("tenant_deficits", gate::tenant_deficits);
TESSERA_BENCH_SKIPPED("adapters_and_tenants", both);
TESSERA_BENCH_SKIPPED("adapters_and_tenants/ranked", both, order::ranked<>);

}  // namespace
