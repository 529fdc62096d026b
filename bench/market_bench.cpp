// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <benchmark/benchmark.h>

#include <tessera/market/trader.hpp>
#include <tessera/migration/live_migration.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using market::bid;
using market::message;
using market::message_kind;

/// The choice alone, among `n` bids, in another order each time.
void market_select_bids(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  std::mt19937 random{1};
  std::vector<std::vector<bid>> auctions(256);
  for (auto& bids : auctions) {
    for (std::uint32_t i = 0; i != n; ++i) {
      bids.push_back({{i, 1},
                      tokens{static_cast<std::int64_t>(random() % 100'000)},
                      static_cast<double>(random() % 1000) * 1e-3,
                      i});
    }
  }
  std::vector<bid> bids(n);
  std::size_t i = 0;
  for (auto _ : state) {
    std::copy(auctions[i].begin(), auctions[i].end(), bids.begin());
    benchmark::DoNotOptimize(market::select_bids(bids));
    benchmark::DoNotOptimize(bids.data());
    if (++i == auctions.size()) i = 0;
  }
}
BENCHMARK(market_select_bids)->Arg(4)->Arg(16)->Arg(64)->Arg(256);

/// A port that counts.
struct counter {
  std::size_t messages = 0;
  message last{};
  market::request_id unsold_request = 0;

  void send(const message& m) noexcept {
    ++messages;
    last = m;
  }
  void copy(const market::transfer&) noexcept {}
  void kept(market::request_id) noexcept {}
  void released(market::request_id) noexcept {}
  void unresolved(market::request_id, market::peer) noexcept {}
  void unsold(market::request_id r) noexcept { unsold_request = r; }
  tokens load() noexcept { return tokens{1000}; }
  blocks idle_blocks() noexcept { return blocks{1000}; }
  bool reserve(const market::transfer&) noexcept { return true; }
  void discard(const market::transfer&) noexcept {}
  void activate(const market::transfer&) noexcept {}
};

message answer(market::instance_id from, message_kind kind, const message& to) {
  message m;
  m.from = {from, 1};
  m.to = to.from;
  m.kind = kind;
  m.request = to.request;
  m.offer = to.offer;
  return m;
}

/// The sender's whole part in an auction of `n` receivers. It is an ask to each, a bid of each, the decision, the
/// confirm, and the withdrawal that ends it. Items are messages in and out.
void market_auction(benchmark::State& state) {
  const auto n = static_cast<std::uint32_t>(state.range(0));
  auto storage = storage_for<market::trader<>>({.instances = n + 1, .offers = 64, .purchases = 64});
  market::trader<> t{storage, {n, 1}};
  counter p;
  std::vector<market::instance_id> receivers;
  for (std::uint32_t i = 0; i != n; ++i) receivers.push_back(i);
  std::mt19937 random{2};
  std::vector<message> bids(n);
  for (std::uint32_t i = 0; i != n; ++i) {
    bids[i] = answer(i, message_kind::bid, message{});
    bids[i].to = {n, 1};
    bids[i].candidate = static_cast<std::uint16_t>(i);
    bids[i].load = tokens{static_cast<std::int64_t>(random() % 100'000)};
    bids[i].start = static_cast<double>(random() % 1000) * 1e-3;
  }
  std::shuffle(bids.begin(), bids.end(), random);
  const time_point now{};
  for (auto _ : state) {
    if (!ok(t.offer(7, 0, tokens{1000}, blocks{63}, receivers, now, p))) state.SkipWithError("not offered");
    const std::uint64_t offer = p.last.offer;
    for (message& m : bids) {
      m.offer = offer;
      benchmark::DoNotOptimize(t.receive(m, now, p));
    }
    if (p.last.kind != message_kind::confirm) state.SkipWithError("not decided");
    t.withdraw(7, now, p);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(p.messages) + state.iterations() * state.range(0));
}
BENCHMARK(market_auction)->Arg(4)->Arg(16)->Arg(64);

/// Only the bid that completes the auction of `n` receivers: finding out that it is the last one, the decision, and
/// the confirm. The auction before it is not timed.
void market_decision(benchmark::State& state) {
  const auto n = static_cast<std::uint32_t>(state.range(0));
  constexpr std::size_t together = 64;  // decisions for each read of the clock
  auto storage = storage_for<market::trader<>>({.instances = n + 1, .offers = together, .purchases = 64});
  market::trader<> t{storage, {n, 1}};
  counter p;
  std::vector<market::instance_id> receivers;
  for (std::uint32_t i = 0; i != n; ++i) receivers.push_back(i);
  std::mt19937 random{2};
  std::vector<message> last(together);
  const time_point now{};
  for (auto _ : state) {
    state.PauseTiming();
    for (std::size_t k = 0; k != together; ++k) {
      if (!ok(t.offer(k, 0, tokens{1000}, blocks{63}, receivers, now, p))) state.SkipWithError("not offered");
      for (std::uint32_t i = 0; i != n; ++i) {
        message m = answer(i, message_kind::bid, p.last);
        m.offer = p.last.offer;
        m.to = {n, 1};
        m.candidate = static_cast<std::uint16_t>(i);
        m.load = tokens{static_cast<std::int64_t>(random() % 100'000)};
        m.start = static_cast<double>(random() % 1000) * 1e-3;
        if (i + 1 != n) {
          t.receive(m, now, p);
        } else {
          last[k] = m;
        }
      }
    }
    state.ResumeTiming();
    for (const message& m : last) benchmark::DoNotOptimize(t.receive(m, now, p));
    state.PauseTiming();
    for (std::size_t k = 0; k != together; ++k) t.withdraw(k, now, p);
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(together));
}
BENCHMARK(market_decision)->Arg(64)->Iterations(2000);

/// A tick of an instance with `n` requests on offer, none of them due.
void market_tick(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  auto storage = storage_for<market::trader<>>({.instances = 65, .offers = 64, .purchases = 64});
  market::trader<> t{storage, {64, 1}};
  counter p;
  std::vector<market::instance_id> receivers;
  for (std::uint32_t i = 0; i != 64; ++i) receivers.push_back(i);
  for (std::size_t k = 0; k != n; ++k) {
    if (!ok(t.offer(k, 0, tokens{1000}, blocks{63}, receivers, {}, p))) state.SkipWithError("not offered");
  }
  for (auto _ : state) {
    t.tick({}, p);
    benchmark::DoNotOptimize(p.messages);
  }
}
BENCHMARK(market_tick)->Arg(0)->Arg(64);

/// One migration's decisions: snapshot, one dirty round, stop, last blocks, hand over.
void migration_decisions(benchmark::State& state) {
  struct wire {
    blocks sent{};
    void copy(const migration::block_range& r) noexcept { sent += r.size(); }
  } w;
  for (auto _ : state) {
    migration::live_migration m;
    tokens n{131'072};
    benchmark::DoNotOptimize(n);
    auto what = m.begin(n, blocks{9000}, w);
    what = m.copied(n + tokens{90}, w);
    what = m.copied(n + tokens{92}, w);
    what = m.stopped(n + tokens{93}, w);
    what = m.copied(n + tokens{93}, w);
    benchmark::DoNotOptimize(what);
  }
  benchmark::DoNotOptimize(w.sent);
}
BENCHMARK(migration_decisions);

}  // namespace
