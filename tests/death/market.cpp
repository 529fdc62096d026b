// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/market/trader.hpp>
#include <tessera/market/triggers.hpp>

#include <array>

#include "support/death.hpp"

namespace {

using namespace tessera;
using trader = market::trader<>;

alignas(64) std::array<std::byte, 65536> memory;
constexpr trader::limits small{.instances = 4, .offers = 4, .purchases = 4};

struct silent {
  void send(const market::message&) noexcept {}
  void copy(const market::transfer&) noexcept {}
  void kept(market::request_id) noexcept {}
  void released(market::request_id) noexcept {}
  void unresolved(market::request_id, market::peer) noexcept {}
  void unsold(market::request_id) noexcept {}
  tokens load() noexcept { return {}; }
  blocks idle_blocks() noexcept { return {}; }
  bool reserve(const market::transfer&) noexcept { return false; }
  void discard(const market::transfer&) noexcept {}
  void activate(const market::transfer&) noexcept {}
};

void construct(market::peer self, const trader::config& c, const trader::limits& l = small) {
  trader t{memory, l, self, c};
  static_cast<void>(t.transfers());
}

TESSERA_DEATH_CASE(market_storage_too_small, "storage is smaller") {
  trader t{std::span{memory}.first(trader::required_bytes(small) - 512), small, {0, 1}};
}
TESSERA_DEATH_CASE(market_self_is_no_instance, "a number and an incarnation") { construct({4, 1}, {}); }
TESSERA_DEATH_CASE(market_self_without_incarnation, "a number and an incarnation") { construct({0, 0}, {}); }
TESSERA_DEATH_CASE(market_one_transfer, "wait for another") { construct({0, 1}, {.transfers = 1}); }
TESSERA_DEATH_CASE(market_keep_none, "empty market") {
  trader::config c;
  c.sending.keep = 0;
  construct({0, 1}, c);
}
TESSERA_DEATH_CASE(market_keep_too_many, "empty market") {
  trader::config c;
  c.sending.keep = market::most_kept + 1;
  construct({0, 1}, c);
}
TESSERA_DEATH_CASE(market_no_auction, "empty market") {
  trader::config c;
  c.sending.auctions = 0;
  construct({0, 1}, c);
}
TESSERA_DEATH_CASE(market_nothing_out, "empty market") {
  trader::config c;
  c.sending.outgoing = 0;
  construct({0, 1}, c);
}
TESSERA_DEATH_CASE(market_no_throughput, "throughput at least 1, smoothing positive") {
  trader::config c;
  c.receiving.throughput = 0.5;
  construct({0, 1}, c);
}
TESSERA_DEATH_CASE(market_sender_without_patience, "patience is positive") {
  trader::config c;
  c.sending.retransmit = tessera::duration{0};
  construct({0, 1}, c);
}
TESSERA_DEATH_CASE(market_receiver_without_patience, "patience is positive") {
  trader::config c;
  c.receiving.pulling = tessera::duration{-1};
  construct({0, 1}, c);
}
TESSERA_DEATH_CASE(market_negative_growth, "impossible limits") {
  trader::config c;
  c.receiving.growth = blocks{-1};
  construct({0, 1}, c);
}
TESSERA_DEATH_CASE(market_own_failure, "another instance fails") {
  trader t{memory, small, {0, 1}};
  silent p;
  t.peer_failed({0, 1}, {}, p);
}
TESSERA_DEATH_CASE(market_failure_of_nobody, "another instance fails") {
  trader t{memory, small, {0, 1}};
  silent p;
  t.peer_failed({4, 1}, {}, p);
}
TESSERA_DEATH_CASE(market_excess_of_a_stranger, "in its stage") {
  const std::array<tokens, 2> demands{};
  static_cast<void>(market::rebalance{}.excess(demands, 2));
}
TESSERA_DEATH_CASE(market_excess_below_the_mean, "below the mean") {
  const std::array<tokens, 2> demands{tokens{60}, tokens{100}};
  static_cast<void>(market::rebalance{0.5}.excess(demands, 0));
}

}  // namespace
