// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Token pacer and QoE integrator: the cost per token and per query. Many requests, as an engine holds them: each token
// goes to another one.

#include <tessera/pacing/slo.hpp>
#include <tessera/pacing/token_pacer.hpp>
#include <tessera/qoe/integrator.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

constexpr std::size_t requests = 256;

template <class Clock>
struct schedule {
  using time_point = tessera::basic_time_point<Clock>;
  using duration = tessera::basic_duration<Clock>;

  time_point now{};
  duration step = duration::from_seconds(0.03);
  std::int64_t steps = 0;

  /// A decode step of 30 ms, and every 32 steps a pause of 4 s, which most readers notice.
  void advance() { now += ++steps % 32 == 0 ? step * static_cast<typename Clock::rep>(133) : step; }
};

template <class Clock>
void pacer_on_token(benchmark::State& state) {
  std::vector<tessera::basic_token_pacer<Clock>> pacers(requests);
  schedule<Clock> s;
  for (auto _ : state) {
    for (auto& p : pacers) p.on_token(s.now);
    benchmark::ClobberMemory();
    s.advance();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(requests));
}

template <class Clock>
void pacer_buffered(benchmark::State& state) {
  std::vector<tessera::basic_token_pacer<Clock>> pacers(requests);
  schedule<Clock> s;
  for (std::size_t i = 0; i != requests; ++i) {
    pacers[i].on_token(s.now, tessera::tokens{static_cast<std::int64_t>(1 + i % 64)});
  }
  for (int i = 0; i != 20; ++i) s.advance();
  for (auto _ : state) {
    tessera::tokens sum{};
    for (const auto& p : pacers) sum += p.buffered(s.now);
    benchmark::DoNotOptimize(sum);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(requests));
}

template <class Clock>
void pacer_meets_slo(benchmark::State& state) {
  std::vector<tessera::basic_token_pacer<Clock>> pacers(requests);
  schedule<Clock> s;
  for (std::size_t i = 0; i != requests; ++i) {
    pacers[i].on_token(s.now, tessera::tokens{static_cast<std::int64_t>(1 + i % 64)});
  }
  for (auto _ : state) {
    std::int64_t met = 0;
    for (const auto& p : pacers) met += tessera::meets_slo(p, {}, s.now, s.now + s.step) ? 1 : 0;
    benchmark::DoNotOptimize(met);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(requests));
}

template <class Clock>
void qoe_on_token(benchmark::State& state) {
  std::vector<tessera::basic_qoe_integrator<Clock>> integrators(requests);
  schedule<Clock> s;
  for (auto _ : state) {
    for (auto& q : integrators) q.on_token(s.now);
    benchmark::ClobberMemory();
    s.advance();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(requests));
}

template <class Clock>
void qoe_value_now(benchmark::State& state) {
  std::vector<tessera::basic_qoe_integrator<Clock>> integrators(requests);
  schedule<Clock> s;
  for (int i = 0; i != 100; ++i) {
    for (auto& q : integrators) q.on_token(s.now);
    s.advance();
  }
  for (auto _ : state) {
    double sum = 0;
    for (const auto& q : integrators) sum += q.value(s.now);
    benchmark::DoNotOptimize(sum);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(requests));
}

BENCHMARK(pacer_on_token<tessera::seconds_clock>);
BENCHMARK(pacer_on_token<tessera::nanoseconds_clock>);
BENCHMARK(pacer_buffered<tessera::seconds_clock>);
BENCHMARK(pacer_buffered<tessera::nanoseconds_clock>);
BENCHMARK(pacer_meets_slo<tessera::seconds_clock>);
BENCHMARK(qoe_on_token<tessera::seconds_clock>);
BENCHMARK(qoe_on_token<tessera::nanoseconds_clock>);
BENCHMARK(qoe_value_now<tessera::seconds_clock>);

}  // namespace
