// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A router's decision: rank and reserve, over `n` replicas, and what it hears. Targets for rank and reserve:
// 1 us at 64 replicas, 5 us at 1,024. The same through a controller, from an arrival to a placement: 1 us at 64.

#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/cascade.hpp>
#include <tessera/fleet/ledger.hpp>
#include <tessera/fleet/llumnix.hpp>
#include <tessera/fleet/placing.hpp>
#include <tessera/fleet/pools.hpp>
#include <tessera/fleet/runtime.hpp>
#include <tessera/partition/plan.hpp>
#include <tessera/placement/join_shortest_queue.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/placement/pascal.hpp>
#include <tessera/placement/phi.hpp>
#include <tessera/placement/power_of_two.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <utility>

namespace {

using namespace tessera;
using ledger = fleet::ledger<>;

constexpr std::size_t live = 16'384;

/// A fleet that has reported, with requests of this router everywhere.
struct busy_fleet {
  owned_storage<ledger::limits> storage;
  ledger book;
  std::mt19937_64 random{7};
  fleet::request_id next = 0;

  explicit busy_fleet(std::size_t replicas, const ledger::settings& s = {})
      : storage{storage_for<ledger>({.replicas = replicas, .reservations = live + 64})}, book{storage, s} {
    for (fleet::replica_id id = 0; id != replicas; ++id) {
      static_cast<void>(book.join(id, 1, {.capacity = blocks{5000}}, {}));
      report(id, 1);
    }
    placement::least_load policy;
    while (next != live) place(policy);
  }
  void report(fleet::replica_id id, std::uint64_t epoch) {
    fleet::report r{.incarnation = 1, .epoch = epoch};
    r.all.requests = random() % 50;
    r.all.kv_held = blocks{static_cast<std::int64_t>(random() % 4000)};
    r.own = fleet::load{};
    book.receive(id, r, {});
  }
  template <class Policy>
  fleet::replica_id place(Policy& policy) {
    const fleet::replica_id to = book.rank(policy).front();
    static_cast<void>(book.reserve(next++, to, {.prompt = tokens{512}}, {}));
    return to;
  }
};

template <class Policy>
void ranks_and_reserves(benchmark::State& state) {
  const auto fleet = std::make_unique<busy_fleet>(static_cast<std::size_t>(state.range(0)));
  Policy policy;
  for (auto _ : state) {
    const fleet::request_id request = fleet->next;
    const fleet::replica_id to = fleet->place(policy);
    benchmark::DoNotOptimize(to);
    fleet->book.release(request, to);
  }
}

void ranks_three(benchmark::State& state) {
  const auto fleet = std::make_unique<busy_fleet>(static_cast<std::size_t>(state.range(0)));
  placement::least_load policy;
  for (auto _ : state) benchmark::DoNotOptimize(fleet->book.rank(policy, 3).data());
}

void hears_a_token(benchmark::State& state) {
  const auto fleet = std::make_unique<busy_fleet>(64);
  placement::least_load policy;
  const fleet::request_id request = fleet->next;
  const fleet::replica_id at = fleet->place(policy);
  std::int64_t n = 0;
  for (auto _ : state) benchmark::DoNotOptimize(fleet->book.progress(request, at, tokens{++n}, {}));
}

void takes_a_report(benchmark::State& state) {
  const auto fleet = std::make_unique<busy_fleet>(static_cast<std::size_t>(state.range(0)));
  std::uint64_t epoch = 1;
  fleet::replica_id id = 0;
  for (auto _ : state) {
    if (id == 0) ++epoch;
    fleet->report(id, epoch);
    id = static_cast<fleet::replica_id>((id + 1) % static_cast<std::uint64_t>(state.range(0)));
  }
}

/// Every replica is tight, and no move gains anything: the policy is asked about a request of each replica.
void proposes_nothing(benchmark::State& state) {
  const auto fleet =
      std::make_unique<busy_fleet>(static_cast<std::size_t>(state.range(0)), ledger::settings{.tight = blocks{5001}});
  for (fleet::request_id r = 0; r != live; ++r) {
    for (fleet::replica_id id = 0; id != static_cast<fleet::replica_id>(state.range(0)); ++id) {
      if (fleet->book.first_token(r, id, {})) break;
    }
  }
  placement::migrate_when_tight policy{.headroom = blocks{}};
  for (auto _ : state) benchmark::DoNotOptimize(fleet->book.propose_moves(policy, {}).size());
}

/// A controller, with memory if it needs any.
template <class Controller>
struct seat {
  owned_storage<typename Controller::limits> storage;
  Controller by;
  template <class... Config>
  explicit seat(std::size_t replicas, const Config&... c)
      : storage{storage_for<Controller>({.replicas = replicas})}, by{storage, c...} {}
};

/// From an arrival to a placement, and the end of the request, over replicas with 1,500 requests that run. In pools the
/// first token and its hand-over come between.
void arrives(benchmark::State& state, fleet::controller& by, bool in_pools) {
  const auto replicas = static_cast<fleet::replica_id>(state.range(0));
  auto storage = storage_for<fleet::runtime>({.book = {.replicas = replicas}, .actions = 2 * replicas});
  fleet::runtime_settings settings;
  settings.book.lease = settings.book.silence = duration::forever();
  settings.book.moving = 2000;
  fleet::runtime rt{by, storage, settings};
  for (fleet::replica_id id = 0; id != replicas; ++id) {
    fleet::event e{.what = fleet::event_kind::joined, .replica = id, .number = 1};
    e.joins.capacity = blocks{10'000};
    if (in_pools) e.joins.role = id % 2 == 0 ? control::role::prefill : control::role::decode;
    e.joins.prefill = {.cost = {.alpha = 1, .beta = 1}, .budget = {.peak_flops = 1e9, .ttft = duration{1}}};
    rt.handle(e);
  }
  // Where a request is after the actions of an event.
  const auto after = [&](const fleet::event& e) {
    fleet::replica_id at = fleet::no_replica;
    for (const fleet::action& a : rt.handle(e)) {
      if (a.what == fleet::action_kind::place || a.what == fleet::action_kind::move) at = a.replica;
    }
    return at;
  };
  const auto arrive = [&](fleet::request_id request) {
    fleet::event e{.what = fleet::event_kind::arrived, .request = request};
    e.asks.prompt = tokens{100 + 37 * static_cast<std::int64_t>(request % 100)};
    return after(e);
  };
  const auto first_token = [&](fleet::request_id request, fleet::replica_id at) {
    return after({.what = fleet::event_kind::first_token, .replica = at, .request = request});
  };
  fleet::request_id next = 0;
  for (; next != 1500; ++next) {
    const fleet::replica_id to = first_token(next, arrive(next));
    if (to != fleet::no_replica) rt.handle({.what = fleet::event_kind::moved, .replica = to, .request = next});
  }
  for (auto _ : state) {
    const fleet::replica_id at = arrive(next);
    benchmark::DoNotOptimize(at);
    if (in_pools) benchmark::DoNotOptimize(first_token(next, at));
    rt.handle({.what = fleet::event_kind::ended, .request = next++});
  }
}

void controls_least_load(benchmark::State& state) {
  fleet::placing<placement::least_load> by;
  arrives(state, by, false);
}
void controls_llumnix(benchmark::State& state) {
  seat<fleet::llumnix> s{static_cast<std::size_t>(state.range(0))};
  arrives(state, s.by, false);
}
void controls_cascade(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const partition::stage stages[] = {{.from = tokens{}, .to = tokens{1000}, .instances = n / 2},
                                     {.from = tokens{1000}, .to = partition::unbounded, .instances = n - n / 2}};
  seat<fleet::cascade<>> s{n, fleet::cascade<>::config{.stages = stages}};
  arrives(state, s.by, false);
}
void controls_pools(benchmark::State& state) {
  seat<fleet::pools> s{static_cast<std::size_t>(state.range(0))};
  arrives(state, s.by, true);
}

BENCHMARK(controls_least_load)->Arg(64)->Arg(1024);
BENCHMARK(controls_llumnix)->Arg(64)->Arg(1024);
BENCHMARK(controls_cascade)->Arg(64)->Arg(1024);
BENCHMARK(controls_pools)->Arg(64)->Arg(1024);
BENCHMARK(ranks_and_reserves<placement::join_shortest_queue>)->Arg(64)->Arg(1024);
BENCHMARK(ranks_and_reserves<placement::least_load>)->Arg(64)->Arg(1024);
BENCHMARK(ranks_and_reserves<placement::pascal_arrival>)->Arg(64)->Arg(1024);
BENCHMARK(ranks_and_reserves<placement::highest_phi>)->Arg(64)->Arg(1024);
BENCHMARK(ranks_and_reserves<placement::power_of_two>)->Arg(64)->Arg(1024);
BENCHMARK(ranks_three)->Arg(64)->Arg(1024);
BENCHMARK(hears_a_token);
BENCHMARK(takes_a_report)->Arg(64)->Arg(1024);
BENCHMARK(proposes_nothing)->Arg(64);

}  // namespace
