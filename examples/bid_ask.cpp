// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// CascadeInfer's bid-ask market: instance 0 is above the mean of its stage and sells two requests to the other three.
// The network is a queue here; every message that passes is printed.
#include <tessera/market/trader.hpp>
#include <tessera/market/triggers.hpp>

#include <array>
#include <cstdio>
#include <deque>
#include <memory>
#include <vector>

using namespace tessera::literals;
using tessera::blocks;
using tessera::tokens;
namespace market = tessera::market;

std::deque<market::message> network;

/// An engine as the market sees it.
struct engine {
  int id;
  tokens held;
  blocks idle;
  std::vector<market::request_id> to_copy{};

  void send(const market::message& m) noexcept { network.push_back(m); }
  // As the source:
  void copy(const market::transfer& t) noexcept { to_copy.push_back(t.request); }
  void kept(market::request_id r) noexcept { std::printf("  %d keeps request %d\n", id, static_cast<int>(r)); }
  void released(market::request_id r) noexcept { std::printf("  %d frees request %d\n", id, static_cast<int>(r)); }
  void unresolved(market::request_id, market::peer) noexcept {}
  void unsold(market::request_id r) noexcept { std::printf("  no instance takes request %d\n", static_cast<int>(r)); }
  // As the target:
  tokens load() noexcept { return held; }
  blocks idle_blocks() noexcept { return idle; }
  bool reserve(const market::transfer& t) noexcept {
    if (t.room > idle) return false;
    idle -= t.room;
    return true;
  }
  void discard(const market::transfer& t) noexcept { idle += t.room; }
  void activate(const market::transfer& t) noexcept {
    held += t.length;
    std::printf("  %d runs request %d from now on\n", id, static_cast<int>(t.request));
  }
};

int main() {
  std::vector<engine> engines{
      {0, 9000_tok, 10_blk}, {1, 3000_tok, 400_blk}, {2, 4000_tok, 300_blk}, {3, 5000_tok, 20_blk}};
  std::vector<tessera::owned_storage<market::trader<>::limits>> storage;
  std::vector<std::unique_ptr<market::trader<>>> traders;
  for (std::uint32_t i = 0; i != 4; ++i) {
    storage.push_back(tessera::storage_for<market::trader<>>({.instances = 4, .offers = 8, .purchases = 8}));
    traders.push_back(std::make_unique<market::trader<>>(storage.back(), market::peer{i, 1}));
  }
  const tessera::time_point now{};
  const auto deliver = [&] {
    while (!network.empty()) {
      const market::message m = network.front();
      network.pop_front();
      std::printf("%u -> %u %s", m.from.id, m.to.id, market::to_string(m.kind));
      if (m.kind == market::message_kind::bid) std::printf(" (load %d)", static_cast<int>(m.load.count()));
      std::printf("\n");
      traders[m.to.id]->receive(m, now, engines[m.to.id]);
    }
  };

  const std::array<tokens, 4> demand{9000_tok, 3000_tok, 4000_tok, 5000_tok};
  std::printf("0 is %d tokens above the mean\n", static_cast<int>(market::rebalance{}.excess(demand, 0).count()));

  const std::array<market::instance_id, 3> others{1, 2, 3};
  if (!ok(traders[0]->offer(17, 0, 2000_tok, 125_blk, others, now, engines[0]))) return 1;
  deliver();  // the auction, up to the start of the transfer
  if (!ok(traders[0]->offer(18, 0, 1500_tok, 94_blk, others, now, engines[0]))) return 1;
  deliver();  // 0 sends one at a time: the buyer of 18 finds it busy, and will try again

  // The engine has copied 17 (see live_migration.cpp), has stopped it, and gives it away.
  if (!ok(traders[0]->hand_over(17, now, engines[0]))) return 1;
  deliver();
  traders[1]->tick(now + 20_ms, engines[1]);
  traders[2]->tick(now + 20_ms, engines[2]);
  deliver();
  if (!ok(traders[0]->hand_over(18, now + 40_ms, engines[0]))) return 1;
  deliver();
}

/* output:
0 is 3750 tokens above the mean
0 -> 1 ask
0 -> 2 ask
0 -> 3 ask
1 -> 0 bid (load 3000)
2 -> 0 bid (load 4000)
3 -> 0 decline
0 -> 1 confirm
1 -> 0 accepted
1 -> 0 pull
0 -> 1 start
0 -> 2 ask
0 -> 3 ask
0 -> 1 ask
2 -> 0 bid (load 4000)
3 -> 0 decline
1 -> 0 bid (load 5000)
0 -> 2 confirm
2 -> 0 accepted
2 -> 0 pull
0 -> 2 busy
0 -> 1 grant
  1 runs request 17 from now on
1 -> 0 ack
  0 frees request 17
0 -> 1 closed
2 -> 0 pull
0 -> 2 start
0 -> 2 grant
  2 runs request 18 from now on
2 -> 0 ack
  0 frees request 18
0 -> 2 closed
*/
