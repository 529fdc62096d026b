// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Messages that come late, again or never, senders that are busy, and instances that die.

#include <tessera/market/trader.hpp>

#include "support/catch.hpp"
#include "unit/market_exchange.hpp"

#include <cstddef>
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

TEST_CASE("trader: a busy sender is skipped; after three failed tries it serves the starving request next") {
  exchange x{3};
  REQUIRE(x.offer(0, 1, 100, {1}) == status::ok);
  x.settle();
  REQUIRE(x.books[0].copies.size() == 1);
  REQUIRE(x.offer(0, 2, 100, {2}) == status::ok);
  x.settle();
  CHECK(x.books[0].count(message_kind::busy) == 1);
  for (int i = 0; i != 2; ++i) {
    x.step(0.021);
    x.settle();
  }
  CHECK(x.books[0].count(message_kind::busy) == 3);
  CHECK(x.books[0].count(message_kind::wait) == 0);
  x.step(0.021);  // the fourth try says that it starves
  x.settle();
  CHECK(x.books[2].last(message_kind::pull).starving);
  CHECK(x.books[0].count(message_kind::wait) == 1);
  CHECK(x[0].selling().has_starving());
  CHECK(x.books[2].idle == 1000_blk - 8_blk);  // it waits with its blocks reserved
  // Another purchase of 2, from a free seller, is not pulled while 2 waits (section 4.4).
  REQUIRE(x.offer(1, 9, 10, {2}) == status::ok);
  x.settle();
  CHECK(x.books[1].copies.empty());
  // And one that does not starve finds the seller busy, also when it asks first.
  REQUIRE(x.offer(0, 3, 100, {1}) == status::ok);
  x.settle();

  REQUIRE(x[0].hand_over(1, x.now, x.books[0]) == status::ok);
  x.settle();
  REQUIRE(x.books[0].copies.size() == 2);
  CHECK(x.books[0].copies[1].request == 2);
  CHECK(x.books[1].copies.size() == 1);  // 2 goes on with its other purchase
  REQUIRE(x[0].hand_over(2, x.now, x.books[0]) == status::ok);
  x.step(0.021);
  x.settle();
  REQUIRE(x.books[0].copies.size() == 3);
  CHECK(x.books[0].copies[2].request == 3);
  REQUIRE(x[0].hand_over(3, x.now, x.books[0]) == status::ok);
  x.settle();
  CHECK(x.books[0].gone == std::vector<request_id>{1, 2, 3});
  CHECK_FALSE(x[0].selling().has_starving());
}

TEST_CASE("trader: a request does not come back before it is known that it has arrived") {
  exchange x{2};
  REQUIRE(x.offer(0, 1, 100, {1}) == status::ok);
  x.settle();
  x.cut = {message_kind::ack};
  REQUIRE(x[0].hand_over(1, x.now, x.books[0]) == status::ok);
  x.settle();
  REQUIRE(x.books[1].active.size() == 1);
  REQUIRE(x[1].offer(1, 1, 100_tok, 7_blk, std::vector<market::instance_id>{0}, x.now, x.books[1]) == status::ok);
  x.settle();
  CHECK(x.books[0].count(message_kind::decline) == 1);
  x.cut = {};
  x.step(0.021);
  x.settle();
  CHECK(x.books[0].gone.size() == 1);
  x.step(0.06);
  x.settle();
  REQUIRE(x.books[1].copies.size() == 1);
  REQUIRE(x[1].hand_over(1, x.now, x.books[1]) == status::ok);
  x.settle();
  REQUIRE(x.books[0].active.size() == 1);
  CHECK(x.books[0].active[0].epoch == 2);
}

TEST_CASE("trader: a starving request that is given up does not hold up the others") {
  exchange x{4};
  REQUIRE(x.offer(0, 1, 100, {1}) == status::ok);
  x.settle();
  REQUIRE(x.offer(0, 2, 100, {2}) == status::ok);
  x.settle();
  for (int i = 0; i != 3; ++i) {
    x.step(0.021);
    x.settle();
  }
  REQUIRE(x[0].selling().has_starving());
  SECTION("by its buyer") { REQUIRE(x[2].refuse(2, x.now, x.books[2]) == status::ok); }
  SECTION("by its seller") { REQUIRE(x[0].withdraw(2, x.now, x.books[0]) == status::ok); }
  SECTION("with its buyer") { x[0].peer_failed({2, 1}, x.now, x.books[0]); }
  x.settle();
  CHECK_FALSE(x[0].selling().has_starving());
  REQUIRE(x[0].hand_over(1, x.now, x.books[0]) == status::ok);
  x.settle();
  CHECK(x.books[0].copies.size() == 1);
  REQUIRE(x.offer(0, 3, 100, {3}) == status::ok);
  x.settle();
  CHECK(x.books[0].copies.size() == 2);
}

TEST_CASE("trader: a ticket that was told to be void is never used, though its pull comes again") {
  exchange x{3};
  REQUIRE(x.offer(0, 1, 100, {1}) == status::ok);
  x.settle();
  REQUIRE(x.offer(0, 2, 100, {2}) == status::ok);
  x.settle();
  const message early = x.books[2].last(message_kind::pull);
  CHECK(x.books[0].last(message_kind::busy).ticket == early.ticket);
  CHECK(x.books[2].idle == 1000_blk);
  REQUIRE(x[0].hand_over(1, x.now, x.books[0]) == status::ok);
  x.settle();
  // The sender is free now, but the blocks of that ticket are not reserved any more.
  static_cast<void>(x[0].receive(early, x.now, x.books[0]));
  CHECK(x.books[0].copies.size() == 1);
  CHECK(x.books[0].last(message_kind::busy).ticket == early.ticket);
  x.settle();
  x.step(0.021);
  x.settle();
  REQUIRE(x.books[0].copies.size() == 2);
  CHECK(x.books[0].copies[1].ticket > early.ticket);
}

TEST_CASE("trader: a grant is repeated until it is answered, and is taken once") {
  exchange x{2};
  REQUIRE(x.offer(0, 1, 100, {1}) == status::ok);
  x.settle();
  x.cut = {message_kind::grant};
  REQUIRE(x[0].hand_over(1, x.now, x.books[0]) == status::ok);
  for (int i = 0; i != 500; ++i) {
    x.step(0.021);
    x.settle();
  }
  CHECK(x.books[0].kept_back.empty());  // ten seconds are no reason to go on
  CHECK(x.books[0].count(message_kind::grant) > 400);
  const message g = x.books[0].last(message_kind::grant);
  x.cut = {message_kind::ack};
  x.step(0.021);
  x.settle();
  REQUIRE(x.books[1].active.size() == 1);
  x.cut = {message_kind::closed};
  for (int i = 0; i != 5; ++i) {
    x.step(0.021);
    x.settle();
  }
  CHECK(x.books[0].gone.size() == 1);
  CHECK(x[1].buying().size() == 1);  // it has not heard that the source knows
  x.cut = {};
  x.step(0.021);
  x.settle();
  CHECK(x[1].buying().size() == 0);
  static_cast<void>(x[1].receive(g, x.now, x.books[1]));
  x.settle();
  CHECK(x.books[1].active.size() == 1);
  CHECK(x.books[0].kept_back.empty());
}

TEST_CASE("trader: when the target dies") {
  exchange x{2};
  REQUIRE(x.offer(0, 1, 100, {1}) == status::ok);
  x.settle();
  SECTION("before the grant, the request stays") {
    x[0].peer_failed({1, 1}, x.now, x.books[0]);
    CHECK(x.books[0].kept_back == std::vector<request_id>{1});
    CHECK(x.books[0].open.empty());
    CHECK(x[0].transfers() == 0);
  }
  SECTION("after the grant, nobody knows") {
    REQUIRE(x[0].hand_over(1, x.now, x.books[0]) == status::ok);
    x[0].peer_failed({1, 1}, x.now, x.books[0]);
    CHECK(x.books[0].kept_back.empty());
    CHECK(x.books[0].open == std::vector<request_id>{1});
    CHECK(x[0].selling().size() == 0);
  }
  SECTION("and its next incarnation says so itself") {
    REQUIRE(x[0].hand_over(1, x.now, x.books[0]) == status::ok);
    auto memory = storage_for<trader>({.instances = 2, .offers = 4, .purchases = 4});
    trader again{memory, {1, 2}};
    book b;
    CHECK(again.receive(x.books[0].last(message_kind::grant), x.now, b) == status::foreign);
    CHECK(b.active.empty());
    REQUIRE(b.count(message_kind::restarted) == 1);
    CHECK(x[0].receive(b.sent[0], x.now, x.books[0]) == status::ok);
    CHECK(x.books[0].open == std::vector<request_id>{1});
  }
  SECTION("what it had sent before has no effect any more") {
    const message late = x.books[1].last(message_kind::pull);
    x[0].peer_failed({1, 1}, x.now, x.books[0]);
    x[0].peer_failed({1, 1}, x.now, x.books[0]);
    const std::size_t sent = x.books[0].sent.size();
    CHECK(x[0].receive(late, x.now, x.books[0]) == status::foreign);
    CHECK(x.books[0].sent.size() == sent);
    CHECK(x.books[0].kept_back.size() == 1);
  }
}

TEST_CASE("trader: when the source dies, what is not owned yet is discarded") {
  exchange x{2};
  REQUIRE(x.offer(0, 1, 100, {1}) == status::ok);
  x.settle();
  REQUIRE(x[0].hand_over(1, x.now, x.books[0]) == status::ok);
  SECTION("the grant has not arrived, and does not count when it does") {
    x[1].peer_failed({0, 1}, x.now, x.books[1]);
    CHECK(x.books[1].idle == 1000_blk);
    x.settle();
    CHECK(x.books[1].active.empty());
  }
  SECTION("the grant has arrived: the request goes on here") {
    x.cut = {message_kind::ack};
    x.settle();
    x[1].peer_failed({0, 1}, x.now, x.books[1]);
    CHECK(x.books[1].active.size() == 1);
    CHECK(x.books[1].discarded.empty());
  }
  CHECK(x[1].buying().size() == 0);
  CHECK(x[1].transfers() == 0);
}

}  // namespace
