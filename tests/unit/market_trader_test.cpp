// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/market/trader.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <deque>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;
using market::message;
using market::message_kind;
using market::request_id;
using trader = market::trader<>;

// A user's instance with its configuration where one would write it. Nothing above may use the defaults: g++ 12 crashed
// when they were first needed here.
struct trading_options {
  constexpr explicit trading_options(const trader::config& c) noexcept : config{c} {}
  trader::config config;
};
struct trading_instance {
  trading_options options{{.sending = {.bidding = 5_ms}}};
};

/// A port that writes everything down, and whose engine has what the test says.
struct book {
  std::vector<message> sent{};
  std::vector<market::transfer> copies{};
  std::vector<market::transfer> active{};
  std::vector<market::transfer> discarded{};
  std::vector<request_id> kept_back{};
  std::vector<request_id> gone{};
  std::vector<request_id> open{};
  std::vector<request_id> left_over{};
  tokens own_load{};
  blocks idle{1000};
  bool gives_back = true;  ///< Whether discarded blocks are idle again.
  std::size_t reserve_calls = 0;

  book() {
    sent.reserve(1000);
    copies.reserve(100);
    active.reserve(100);
    discarded.reserve(100);
    kept_back.reserve(100);
  }
  void send(const message& m) noexcept { sent.push_back(m); }
  void copy(const market::transfer& t) noexcept { copies.push_back(t); }
  void kept(request_id r) noexcept { kept_back.push_back(r); }
  void released(request_id r) noexcept { gone.push_back(r); }
  void unresolved(request_id r, market::peer) noexcept { open.push_back(r); }
  void unsold(request_id r) noexcept { left_over.push_back(r); }
  tokens load() noexcept { return own_load; }
  blocks idle_blocks() noexcept { return idle; }
  bool reserve(const market::transfer& t) noexcept {
    ++reserve_calls;
    if (t.room > idle) return false;
    idle -= t.room;
    return true;
  }
  void discard(const market::transfer& t) noexcept {
    if (gives_back) idle += t.room;
    discarded.push_back(t);
  }
  void activate(const market::transfer& t) noexcept { active.push_back(t); }

  [[nodiscard]] std::size_t count(message_kind k) const {
    return static_cast<std::size_t>(
        std::count_if(sent.begin(), sent.end(), [k](const message& m) { return m.kind == k; }));
  }
  [[nodiscard]] const message& last(message_kind k) const {
    const auto found = std::find_if(sent.rbegin(), sent.rend(), [k](const message& m) { return m.kind == k; });
    REQUIRE(found != sent.rend());
    return *found;
  }
};

/// Instances whose messages arrive when the test says, in the order in which they were sent.
struct exchange {
  explicit exchange(std::size_t n, const trader::config& config = {}, std::size_t purchases = 8) : books(n) {
    for (std::size_t i = 0; i != n; ++i) {
      storage.push_back(std::make_unique<owned_storage<trader::limits>>(
          storage_for<trader>({.instances = n, .offers = 16, .purchases = purchases})));
      traders.push_back(
          std::make_unique<trader>(*storage.back(), market::peer{static_cast<std::uint32_t>(i), 1}, config));
      seen.push_back(0);
    }
  }
  trader& operator[](std::size_t i) { return *traders[i]; }

  status offer(std::size_t from, request_id r, std::int64_t length, std::vector<market::instance_id> to) {
    return traders[from]->offer(r, 0, tokens{length}, blocks{(length + 15) / 16}, to, now, books[from]);
  }
  void step(double seconds) {
    now += duration::from_seconds(seconds);
    for (std::size_t i = 0; i != traders.size(); ++i) traders[i]->tick(now, books[i]);
  }
  /// Delivers all that has been sent, and what is sent in answer.
  void settle() {
    for (bool any = true; any;) {
      any = false;
      for (std::size_t i = 0; i != books.size(); ++i) {
        while (seen[i] != books[i].sent.size()) {
          const message m = books[i].sent[seen[i]++];
          any = true;
          if (cut.empty() || std::find(cut.begin(), cut.end(), m.kind) == cut.end()) {
            static_cast<void>(traders[m.to.id]->receive(m, now, books[m.to.id]));
          }
        }
      }
    }
  }

  std::vector<std::unique_ptr<owned_storage<trader::limits>>> storage;
  std::vector<std::unique_ptr<trader>> traders;
  std::vector<book> books;
  std::vector<std::size_t> seen;
  std::vector<message_kind> cut;  // kinds that are lost
  time_point now{};
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
  // Of three bids the heavier half, one, is dropped: 1. 2 and 3 start at once; 2 has replied before.
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
  // 5 sells as well: nobody can pull from it now, not even 0, which is free.
  REQUIRE(x.offer(5, 50, 20, {0}) == status::ok);
  x.settle();
  CHECK(x.books[5].copies.empty());
  CHECK(x.books[5].count(message_kind::busy) == 1);
}

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
  free_a_slot(0);  // room for one more transfer, and 37 whose turn it is
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
