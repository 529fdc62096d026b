// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/market/trader.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "unit/market_exchange.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;
using market::message;
using market::message_kind;
using market::request_id;
using trader = market::trader<>;
using tessera_test::market_exchange::book;
using tessera_test::market_exchange::exchange;

// A user's instance with its configuration where one would write it. Nothing above may use the defaults: g++ 12 crashed
// when they were first needed here.
struct trading_options {
  constexpr explicit trading_options(const trader::config& c) noexcept : config{c} {}
  trader::config config;
};

struct trading_instance {
  trading_options options{{.sending = {.bidding = 5_ms}}};
};

TEST_CASE("trader: ask, bid, confirm, pull, copy, hand over") {
  exchange x{4};
  x.books[1].own_load = 500_tok;
  x.books[2].own_load = 100_tok;
  x.books[3].own_load = 300_tok;
  REQUIRE(x.offer(0, 7, 100, {1, 2, 3}) == status::ok);
  CHECK(x.books[0].count(message_kind::ask) == 3);
  CHECK(x[0].selling().load() == 100_tok);
  x.settle();
  // The heavier half of three bids, one, is dropped: 1. 2 and 3 start at once; 2 has replied before.
  CHECK(x.books[0].last(message_kind::confirm).to.id == 2);
  REQUIRE(x.books[0].copies.size() == 1);
  const market::transfer t = x.books[0].copies[0];
  CHECK(t.request == 7);
  CHECK(t.other == market::peer{2, 1});
  CHECK(t.room == 8_blk);  // 7 for 100 tokens, and one to grow
  CHECK(x.books[2].idle == 992_blk);
  CHECK(x[0].transfers() == 1);
  CHECK(x[2].transfers() == 1);
  CHECK(x[2].buying().buffered() == 100_tok);
  CHECK(x.books[2].active.empty());

  x.now += 10_ms;
  CHECK(x[0].update(7, 110_tok, 7_blk) == status::ok);
  REQUIRE(x[0].hand_over(7, x.now, x.books[0]) == status::ok);
  CHECK(x[0].selling().granted(7));
  CHECK(x[0].withdraw(7, x.now, x.books[0]) == status::busy);
  CHECK(x[0].hand_over(7, x.now, x.books[0]) == status::unknown_request);
  x.settle();
  REQUIRE(x.books[2].active.size() == 1);
  CHECK(x.books[2].active[0].epoch == 1);
  CHECK(x.books[2].active[0].length == 110_tok);
  CHECK(x.books[0].gone == std::vector<request_id>{7});
  for (std::size_t i = 0; i != 4; ++i) {
    CHECK(x[i].selling().size() == 0);
    CHECK(x[i].buying().size() == 0);
    CHECK(x[i].transfers() == 0);
  }
  CHECK(x[2].buying().buffered() == 0_tok);
  // 110 tokens in 10 ms, weighted by 0.2: (50,000 * 0.8) + (11,000 * 0.2).
  CHECK(x[2].buying().throughput() == tessera_test::approx(42'200));
}

TEST_CASE("trader: a bid says when the receiver can start") {
  exchange x{3};
  x.books[2].own_load = 40_tok;
  REQUIRE(x.offer(0, 1, 1000, {2}) == status::ok);
  x.settle();
  REQUIRE(x.offer(1, 2, 10, {2}) == status::ok);
  x.settle();
  const message& b = x.books[2].last(message_kind::bid);
  CHECK(b.to.id == 1);
  CHECK(b.load == 1040_tok);
  CHECK(b.start == tessera_test::approx(1000.0 / 50'000));
}

TEST_CASE("trader: what it has won is pulled by the load of the seller, ties by purchase") {
  trader::config c;
  c.transfers = 2;
  exchange x{5, c};
  // 4 buys from 0 first and is then at its limit of two; the others queue.
  REQUIRE(x.offer(0, 10, 50, {4}) == status::ok);
  x.settle();
  REQUIRE(x.offer(1, 11, 50, {4}) == status::ok);
  x.settle();
  REQUIRE(x.offer(2, 12, 30, {4}) == status::ok);
  x.settle();
  REQUIRE(x.offer(3, 13, 80, {4}) == status::ok);
  x.settle();
  CHECK(x[4].transfers() == 2);
  CHECK(x[4].buying().size() == 4);
  CHECK(x.books[2].copies.empty());
  CHECK(x.books[3].copies.empty());
  REQUIRE(x[0].hand_over(10, x.now, x.books[0]) == status::ok);
  x.settle();
  CHECK(x.books[3].copies.size() == 1);  // the seller of 80 before the seller of 30
  CHECK(x.books[2].copies.empty());
  REQUIRE(x[1].hand_over(11, x.now, x.books[1]) == status::ok);
  x.settle();
  CHECK(x.books[2].copies.size() == 1);
}

TEST_CASE("trader: three transfers at a time, in and out together") {
  exchange x{6};
  for (std::uint32_t i = 0; i != 5; ++i) {
    REQUIRE(x.offer(i, i, 20, {5}) == status::ok);
    x.settle();
  }
  CHECK(x[5].transfers() == 3);
  CHECK(x[5].buying().size() == 5);
  // 5 sells as well: no instance can pull from it now, not even 0, which is free.
  REQUIRE(x.offer(5, 50, 20, {0}) == status::ok);
  x.settle();
  CHECK(x.books[5].copies.empty());
  CHECK(x.books[5].count(message_kind::busy) == 1);
}

TEST_CASE("trader: what is promised counts as taken in further bids") {
  trader::config c;
  c.transfers = 2;
  exchange x{5, c};
  x.books[4].idle = 28_blk;  // three of 7 + 1, not four
  for (std::uint32_t i = 0; i != 4; ++i) {
    REQUIRE(x.offer(i, i, 100, {4}) == status::ok);
    x.settle();
  }
  CHECK(x[4].transfers() == 2);
  CHECK(x[4].buying().size() == 3);
  CHECK(x.books[4].last(message_kind::decline).to.id == 3);
}

TEST_CASE("trader: assign sells without an auction") {
  exchange x{3};
  REQUIRE(x[0].assign(1, 4, 100_tok, 7_blk, 2, x.now, x.books[0]) == status::ok);
  x.settle();
  CHECK(x.books[0].count(message_kind::ask) == 0);
  REQUIRE(x.books[0].copies.size() == 1);
  CHECK(x.books[0].copies[0].other == market::peer{2, 1});
  REQUIRE(x[0].hand_over(1, x.now, x.books[0]) == status::ok);
  x.settle();
  CHECK(x.books[2].active[0].epoch == 5);
  x.books[1].idle = 0_blk;
  REQUIRE(x[0].assign(2, 0, 100_tok, 7_blk, 1, x.now, x.books[0]) == status::ok);
  x.settle();
  CHECK(x.books[0].left_over == std::vector<request_id>{2});
}

TEST_CASE("trader: paused, nothing leaves, and what has left is settled") {
  exchange x{3};
  REQUIRE(x.offer(0, 1, 100, {1}) == status::ok);
  x.settle();
  REQUIRE(x[0].hand_over(1, x.now, x.books[0]) == status::ok);
  REQUIRE(x.offer(0, 2, 100, {1}) == status::ok);
  x[0].pause();
  x.settle();
  CHECK(x.books[0].gone.size() == 1);
  CHECK(x.offer(0, 3, 100, {1}) == status::busy);
  CHECK(x[0].assign(3, 0, 100_tok, 7_blk, 1, x.now, x.books[0]) == status::busy);
  REQUIRE(x.books[0].copies.size() == 2);
  CHECK(x[0].hand_over(2, x.now, x.books[0]) == status::busy);
  x[0].resume();
  CHECK(x[0].hand_over(2, x.now, x.books[0]) == status::ok);
}

TEST_CASE("trader: what cannot be offered") {
  exchange x{3};
  CHECK(x.offer(0, 1, 10, {}) == status::invalid);
  CHECK(x.offer(0, 1, 10, {0, 1}) == status::invalid);
  CHECK(x.offer(0, 1, 10, {3}) == status::invalid);
  CHECK(x.offer(0, 1, -1, {1}) == status::invalid);
  CHECK(x.offer(0, 1, 10, {1, 1, 1, 1}) == status::invalid);
  REQUIRE(x.offer(0, 1, 10, {1}) == status::ok);
  CHECK(x.offer(0, 1, 10, {1}) == status::busy);
  for (request_id r = 2; r != 17; ++r) REQUIRE(x.offer(0, r, 10, {1}) == status::ok);
  CHECK(x.offer(0, 17, 10, {1}) == status::queue_full);
  CHECK(x[0].update(99, 1_tok, 1_blk) == status::unknown_request);
  CHECK(x[0].update(1, tokens{-1}, 1_blk) == status::invalid);
  CHECK(x[0].withdraw(99, x.now, x.books[0]) == status::unknown_request);
  CHECK(x[0].hand_over(1, x.now, x.books[0]) == status::unknown_request);
  CHECK(x[0].selling().load() == 160_tok);
}

TEST_CASE("trader: however much there is, what is said of it is well formed") {
  const tokens most{market::greatest_count};
  exchange x{3};
  x.books[1].idle = blocks{1} * market::greatest_count * 4;
  x.books[1].own_load = 7_tok;
  CHECK(x[0].offer(1, 0, most + 1_tok, 1_blk, std::vector<market::instance_id>{1}, x.now, x.books[0]) ==
        status::invalid);
  CHECK(x[0].offer(1, 0, most, blocks{market::greatest_count} + 1_blk, std::vector<market::instance_id>{1}, x.now,
                   x.books[0]) == status::invalid);
  for (request_id r = 1; r != 3; ++r) {
    REQUIRE(x[0].offer(r, 0, most, blocks{market::greatest_count}, std::vector<market::instance_id>{1}, x.now,
                       x.books[0]) == status::ok);
  }
  CHECK(x[0].update(1, most + 1_tok, 1_blk) == status::invalid);
  x.settle();
  REQUIRE(x.offer(2, 3, 10, {1}) == status::ok);
  x.settle();
  // 2 hears of more than can be said; the bid arrives all the same, and so does the pull of the largest request.
  CHECK(x[1].buying().buffered() > most);
  CHECK(x.books[1].last(message_kind::bid).load == most);
  CHECK(x.books[0].last(message_kind::ask).load == most);
  CHECK(x.books[0].copies.size() == 1);
  for (const book& b : x.books) CHECK(std::all_of(b.sent.begin(), b.sent.end(), market::well_formed));
}

TEST_CASE("trader: messages that cannot be meant for it") {
  exchange x{3};
  const auto answer = [&](auto&& change) {
    message m;
    m.from = {1, 1};
    m.to = {0, 1};
    change(m);
    return x[0].receive(m, x.now, x.books[0]);
  };
  CHECK(answer([](message& m) { m.to.id = 1; }) == status::invalid);
  CHECK(answer([](message& m) { m.from.id = 0; }) == status::invalid);
  CHECK(answer([](message& m) { m.from.id = 3; }) == status::invalid);
  CHECK(answer([](message& m) { m.from.incarnation = 0; }) == status::invalid);
  CHECK(answer([](message& m) { m.kind = static_cast<message_kind>(200); }) == status::invalid);
  CHECK(answer([](message& m) { m.length = tokens{-1}; }) == status::invalid);
  CHECK(answer([](message& m) { m.start = -1; }) == status::invalid);
  CHECK(answer([](message& m) { m.to.incarnation = 2; }) == status::foreign);
  CHECK(x.books[0].sent.empty());
  CHECK(answer([](message&) {}) == status::ok);
  CHECK(answer([](message& m) { m.from.incarnation = 3; }) == status::ok);
  CHECK(answer([](message& m) { m.from.incarnation = 2; }) == status::foreign);
}

TEST_CASE("trader: can be configured in a default member initialiser") {
  const trading_instance i;
  CHECK(i.options.config.sending.bidding == 5_ms);
  CHECK(i.options.config.sending.retransmit == 20_ms);
  CHECK(i.options.config.receiving.pulling == 2_s);
}

TEST_CASE("trader: no allocation") {
  exchange x{8};
  const std::vector<market::instance_id> to{1, 2, 3, 4, 5, 6, 7};
  tessera_test::no_allocation guard;
  REQUIRE(x[0].offer(1, 0, 100_tok, 7_blk, to, x.now, x.books[0]) == status::ok);
  x.settle();
  static_cast<void>(x[0].hand_over(1, x.now, x.books[0]));
  x.settle();
  for (int i = 0; i != 20; ++i) x.step(0.021);
  x[0].peer_failed({1, 1}, x.now, x.books[0]);
  const std::size_t allocations = guard.allocations();
  CHECK(allocations <= 1);  // the book's list of released requests
  CHECK(x.books[0].gone.size() == 1);
}

}  // namespace
