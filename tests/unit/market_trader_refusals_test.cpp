// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What is turned away, ended or called off before it is handed over.

#include <tessera/market/trader.hpp>

#include "support/catch.hpp"
#include "unit/market_exchange.hpp"

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

TEST_CASE("trader: no idle blocks at the target, no transfer") {
  exchange x{2};
  x.books[1].idle = 7_blk;  // 100 tokens need 7 and one to grow
  REQUIRE(x.offer(0, 1, 100, {1}) == status::ok);
  x.settle();
  CHECK(x.books[1].count(message_kind::decline) == 1);
  CHECK(x.books[1].count(message_kind::bid) == 0);
  // It is asked again, in vain, and in the end the request is not on offer any more.
  for (int i = 0; i != 100; ++i) {
    x.step(0.02);
    x.settle();
  }
  CHECK(x.books[0].count(message_kind::ask) == 16);
  CHECK(x.books[0].left_over == std::vector<request_id>{1});
  CHECK(x[0].selling().size() == 0);

  // Blocks that were there when it bid, but not when it pulls: it tries some times, and gives the request back.
  trader::config c;
  c.transfers = 2;
  exchange y{4, c};
  REQUIRE(y.offer(0, 1, 100, {3}) == status::ok);
  REQUIRE(y.offer(1, 2, 100, {3}) == status::ok);
  REQUIRE(y.offer(2, 3, 100, {3}) == status::ok);
  y.settle();
  CHECK(y[3].transfers() == 2);
  y.books[3].idle = 3_blk;
  REQUIRE(y[0].hand_over(1, y.now, y.books[0]) == status::ok);
  y.settle();
  CHECK(y.books[2].copies.empty());
  for (int i = 0; i != 20; ++i) {
    y.step(0.021);
    y.settle();
  }
  CHECK(y.books[3].count(message_kind::rejected) == 1);
  CHECK(y[3].buying().size() == 1);  // the one from 1, which is being copied
}

TEST_CASE("trader: a receiver with a full book declines, and rejects what it has bid for before") {
  exchange x{4, {}, 1};
  REQUIRE(x.offer(0, 1, 10, {3}) == status::ok);
  REQUIRE(x.offer(1, 2, 10, {3}) == status::ok);
  x.settle();  // both asked before either confirmed
  CHECK(x.books[3].count(message_kind::bid) == 2);
  CHECK(x.books[3].count(message_kind::accepted) == 1);
  CHECK(x.books[3].count(message_kind::rejected) == 1);
  REQUIRE(x.offer(2, 3, 10, {3}) == status::ok);
  x.settle();
  CHECK(x.books[3].count(message_kind::decline) == 1);
}

TEST_CASE("trader: when the first choice does not answer, the next of the kept ones gets the request") {
  exchange x{5};
  REQUIRE(x.offer(0, 1, 10, {1, 2, 3, 4}) == status::ok);
  x.cut = {message_kind::confirm};
  x.settle();
  const market::instance_id first = x.books[0].last(message_kind::confirm).to.id;
  x.step(0.03);
  x.settle();
  CHECK(x.books[0].last(message_kind::confirm).to.id == first);  // said again
  x.step(0.08);
  x.cut = {};
  x.settle();
  CHECK(x.books[0].count(message_kind::withdrawn) == 1);
  CHECK(x.books[0].last(message_kind::confirm).to.id != first);
  REQUIRE(x.books[0].copies.size() == 1);
  CHECK(x.books[0].copies[0].other.id != first);
}

TEST_CASE("trader: either side can end a transfer before it is handed over") {
  SECTION("the target") {
    exchange x{2};
    REQUIRE(x.offer(0, 1, 100, {1}) == status::ok);
    x.settle();
    REQUIRE(x[1].refuse(1, x.now, x.books[1]) == status::ok);
    CHECK(x.books[1].discarded.empty());  // the source may still be writing
    x.settle();
    CHECK(x.books[0].kept_back == std::vector<request_id>{1});
    CHECK(x.books[1].discarded.size() == 1);
    CHECK(x.books[1].idle == 1000_blk);
    CHECK(x[0].selling().offers(1));  // and is offered again later
    CHECK(x[1].refuse(1, x.now, x.books[1]) == status::unknown_request);
  }
  SECTION("the target, when the grant is on its way") {
    exchange x{2};
    REQUIRE(x.offer(0, 1, 100, {1}) == status::ok);
    x.settle();
    REQUIRE(x[0].hand_over(1, x.now, x.books[0]) == status::ok);
    REQUIRE(x[1].refuse(1, x.now, x.books[1]) == status::ok);
    x.settle();
    CHECK(x.books[1].active.empty());
    CHECK(x.books[0].kept_back == std::vector<request_id>{1});
    CHECK(x.books[0].gone.empty());
    CHECK(x.books[1].idle == 1000_blk);
  }
  SECTION("the source") {
    exchange x{2};
    REQUIRE(x.offer(0, 1, 100, {1}) == status::ok);
    x.settle();
    REQUIRE(x[0].withdraw(1, x.now, x.books[0]) == status::ok);
    CHECK(x.books[0].kept_back.empty());  // it knows
    x.settle();
    CHECK(x.books[1].idle == 1000_blk);
    CHECK(x[1].buying().size() == 0);
    CHECK(x[0].transfers() == 0);
  }
  SECTION("the source, because it has outgrown the room") {
    exchange x{2};
    REQUIRE(x.offer(0, 1, 100, {1}) == status::ok);
    x.settle();
    REQUIRE(x.offer(0, 2, 100, {1}) == status::ok);
    x.settle();
    REQUIRE(x[0].update(1, 140_tok, 9_blk) == status::ok);
    SECTION("and hears of it") {}
    SECTION("and the message is lost") { x.cut = {message_kind::closed}; }
    CHECK(x[0].hand_over(1, x.now, x.books[0]) == status::exhausted);
    CHECK_FALSE(x[0].selling().offers(1));
    CHECK(x.books[0].count(message_kind::closed) == 1);
    CHECK(x[0].hand_over(1, x.now, x.books[0]) == status::unknown_request);
    CHECK(x.books[0].kept_back.empty());  // it knows
    x.settle();
    x.cut = {};
    // The slot and the blocks are free again: the next one is copied, and the one that has grown can be sold anew.
    for (int i = 0; i != 4; ++i) {
      x.step(0.021);
      x.settle();
    }
    CHECK(x.books[1].active.empty());
    CHECK(x[1].transfers() == 1);
    CHECK(x.books[1].idle == 992_blk);
    REQUIRE(x.books[0].copies.size() == 2);
    CHECK(x.books[0].copies[1].request == 2);
    REQUIRE(x[0].hand_over(2, x.now, x.books[0]) == status::ok);
    x.settle();
    REQUIRE(x.offer(0, 1, 140, {1}) == status::ok);
    x.settle();
    REQUIRE(x[0].hand_over(1, x.now, x.books[0]) == status::ok);
    x.settle();
    CHECK(x.books[1].active.size() == 2);
  }
}

TEST_CASE("trader: a refusal means every purchase of the request, those that are being called off included") {
  exchange x{3};
  REQUIRE(x[0].assign(7, 0, 100_tok, 7_blk, 1, x.now, x.books[0]) == status::ok);
  x.settle();
  x.cut = {message_kind::closed};
  REQUIRE(x[1].refuse(7, x.now, x.books[1]) == status::ok);
  x.settle();
  REQUIRE(x.books[0].kept_back.size() == 1);
  CHECK(x[1].buying().size() == 1);  // it has not heard that the source has let go
  x.cut = {};
  CHECK(x[1].refuse(7, x.now, x.books[1]) == status::ok);  // said already
  // Sold to the same instance again, before that is cleared up.
  REQUIRE(x[0].assign(7, 0, 100_tok, 7_blk, 1, x.now, x.books[0]) == status::ok);
  x.settle();
  REQUIRE(x.books[0].copies.size() == 2);
  CHECK(x[1].buying().size() == 2);
  CHECK(x.books[1].idle == 984_blk);  // the books are by ticket: both have blocks
  REQUIRE(x[1].refuse(7, x.now, x.books[1]) == status::ok);
  x.settle();
  CHECK(x.books[0].kept_back.size() == 2);
  CHECK(x[0].hand_over(7, x.now, x.books[0]) == status::unknown_request);
  for (int i = 0; i != 4; ++i) {
    x.step(0.021);
    x.settle();
  }
  CHECK(x.books[1].active.empty());
  CHECK(x[1].buying().size() == 0);
  CHECK(x.books[1].idle == 1000_blk);
  CHECK(x[1].refuse(7, x.now, x.books[1]) == status::unknown_request);
}

TEST_CASE("trader: what is queued without idle blocks is turned away in one pass, and what fits is pulled") {
  trader::config c;
  c.receiving.unplaced_after = 3;
  exchange x{2, c, 64};
  book& b = x.books[1];
  // Forty purchases of 10 and 20 blocks in turn, the seller's load rising, and then the blocks are gone.
  b.idle = 100'000_blk;
  message m;
  m.from = {0, 1};
  m.to = {1, 1};
  m.kind = message_kind::confirm;
  for (std::uint64_t i = 1; i <= 40; ++i) {
    m.request = i;
    m.offer = i << 16U;
    m.length = 100_tok;
    m.size = blocks{i % 2 == 0 ? 19 : 9};
    m.load = tokens{static_cast<std::int64_t>(i)};
    if (i == 4) b.idle = 600_blk;  // three have been pulled
    REQUIRE(x[1].receive(m, x.now, b) == status::ok);
  }
  CHECK(b.count(message_kind::pull) == 3);
  const auto free_a_slot = [&](std::size_t k) {
    const message pull = [&] {
      std::size_t n = 0;
      for (const message& s : b.sent) {
        if (s.kind == message_kind::pull && n++ == k) return s;
      }
      return message{};
    }();
    message closed;
    closed.from = {0, 1};
    closed.to = {1, 1};
    closed.kind = message_kind::closed;
    closed.request = pull.request;
    closed.offer = pull.offer;
    closed.ticket = pull.ticket;
    REQUIRE(x[1].receive(closed, x.now, b) == status::ok);
  };
  const std::size_t asked = b.reserve_calls;
  b.idle = 0_blk;
  b.gives_back = false;
  free_a_slot(0);  // room for one more transfer, and it is the turn of 37
  CHECK(b.reserve_calls == asked + 1);
  // Later there are 15: 40, which needs 20, has its turn in vain; 39 is pulled, and the others have not had theirs.
  x.now += 21_ms;
  b.idle = 15_blk;
  x[1].tick(x.now, b);
  CHECK(b.last(message_kind::pull).request == 39);
  CHECK(b.idle == 5_blk);
  b.idle = 20_blk;
  free_a_slot(1);
  CHECK(b.last(message_kind::pull).request == 38);
  CHECK(b.idle == 0_blk);
  free_a_slot(2);  // the second time in vain, for all but 40
  CHECK(b.count(message_kind::rejected) == 0);
  x.now += 21_ms;
  x[1].tick(x.now, b);  // the third
  CHECK(b.count(message_kind::rejected) == 35);
  CHECK(x[1].buying().size() == 2);
}

}  // namespace
