// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/following.hpp>
#include <tessera/fleet/log.hpp>
#include <tessera/fleet/placing.hpp>
#include <tessera/fleet/runtime.hpp>
#include <tessera/placement/join_shortest_queue.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/lmetric.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/placement/stay_in_range.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/told_router.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;
using fleet::event;
using fleet::event_kind;
using fleet::port;
using fleet::replica_id;
using fleet::request_id;
using fleet::request_view;

using tessera_test::lines;
using tessera_test::told;

using queue = fleet::placing<placement::join_shortest_queue>;

TEST_CASE("fleet runtime: an arrival becomes a placement, and each counts at once") {
  queue by;
  told f{by};
  CHECK(f("0 joined replica=0 number=1 capacity=100").empty());
  CHECK(f("0 joined replica=1 number=1 capacity=100").empty());
  CHECK(f("1 arrived request=7 prompt=320") == lines{"> place replica=0 request=7"});
  CHECK(f("1 arrived request=8 prompt=320") == lines{"> place replica=1 request=8"});
  CHECK(f("1 arrived request=8 prompt=320").empty());  // said twice
  CHECK(f("2 ended request=7").empty());
  CHECK(f("2 arrived request=9 prompt=16") == lines{"> place replica=0 request=9"});
  CHECK(f.rt.requests() == 2);
  CHECK(f.rt.book().at(0).requests == 1);
}

TEST_CASE("fleet runtime: where no replica takes a request a note says so, and it may come again") {
  queue by;
  told f{by};
  CHECK(f("0 arrived request=7 prompt=320") == lines{"> note request=7 why=no replica takes it"});
  f("1 joined replica=3 number=1 capacity=100");
  CHECK(f("1 arrived request=7 prompt=320") == lines{"> place replica=3 request=7"});
  event e{.at_s = 1, .what = event_kind::arrived, .request = 8};
  e.asks.prompt = tokens{-1};
  CHECK(f(e) == lines{"> note request=8 why=invalid"});
}

TEST_CASE("fleet runtime: a replica that refuses is passed, unless it is the only one") {
  queue by;
  told f{by};
  for (const char* line : {"0 joined replica=0 number=1 capacity=100", "0 joined replica=1 number=1 capacity=100"})
    f(line);
  f("1 arrived request=7 prompt=320");
  CHECK(f("1 refused request=7 replica=1").empty());  // it is not there
  CHECK(f("1 refused request=7 replica=0") == lines{"> place replica=1 request=7"});
  f("2 drained replica=0");
  CHECK(f("2 refused request=7 replica=1") == lines{"> place replica=1 request=7"});
}

TEST_CASE("fleet runtime: offers before a refusal say where the request may go instead, and no longer") {
  queue by;
  told f{by};
  for (const char* line : {"0 joined replica=0 number=1 capacity=100", "0 joined replica=1 number=1 capacity=100",
                           "0 joined replica=2 number=1 capacity=100"})
    f(line);
  f("1 arrived request=7 prompt=320");
  f("1 offers replica=1 excluded=1");
  CHECK(f("1 refused request=7 replica=0") == lines{"> place replica=2 request=7"});
  CHECK(f("2 arrived request=8 prompt=320") == lines{"> place replica=1 request=8"});
  CHECK(f("2 arrived request=9 prompt=320") == lines{"> place replica=0 request=9"});
  // Also where the request is there no more, or is not known.
  for (const char* refusal : {"3 refused request=7 replica=1", "3 refused request=99 replica=1"}) {
    for (const char* line :
         {"3 offers replica=0 excluded=1", "3 offers replica=1 excluded=1", "3 offers replica=2 excluded=1"})
      f(line);
    CHECK(f(refusal).empty());
    f("3 arrived request=10 prompt=16");
    CHECK(f.rt.find(10)->where != fleet::no_replica);
    f("3 ended request=10");
  }
}

TEST_CASE("fleet runtime: a request that a living replica has lost is on none until it arrives again") {
  queue by;
  told f{by};
  f("0 joined replica=0 number=1 capacity=100");
  f("0 joined replica=1 number=1 capacity=100");
  CHECK(f("1 arrived request=7 prompt=320") == lines{"> place replica=0 request=7"});
  f("2 progressed request=7 replica=0 count=20");
  CHECK(f("3 lost request=7 replica=1").empty());  // it is not there
  CHECK(f.rt.find(7)->where == 0);
  CHECK(f("3 lost request=7 replica=0").empty());
  CHECK(f.rt.find(7)->where == fleet::no_replica);
  CHECK(f.rt.book().size() == 0);
  CHECK(f("3 lost request=7 replica=0").empty());
  f("3 progressed request=7 replica=0 count=21");  // late
  // It goes on with what it has. Nothing says that the replica would not take it.
  f("4 offers replica=1 excluded=1");
  CHECK(f("4 arrived request=7 prompt=320 generated=20") == lines{"> place replica=0 request=7"});
  CHECK(f.rt.book().at(0).waiting_blocks == 22_blk);
}

TEST_CASE("fleet runtime: a replica says which lengths it serves, and what has outgrown them moves") {
  fleet::placing<placement::join_shortest_queue, placement::stay_in_range> by;
  fleet::runtime_settings s;
  s.book.rest = duration{0};
  told f{by, s};
  f("0 joined replica=0 number=1 capacity=100");
  f("0 joined replica=1 number=1 capacity=100");
  f("1 arrived request=7 prompt=320");
  f("2 first_token request=7 replica=0");
  for (const char* wrong : {"3 serves replica=2", "3 serves replica=9 low=1"}) CHECK(f(wrong).empty());
  CHECK(f(event{.at_s = 3, .what = event_kind::serves, .replica = 0, .low = 4_blk, .high = 4_blk}).empty());
  CHECK(f(event{.at_s = 3, .what = event_kind::serves, .replica = 0, .low = blocks{-1}}).empty());
  CHECK(f.rt.book().at(0).to == fleet::endless);
  CHECK(f("4 serves replica=0 low=2 high=8") == lines{"> move replica=1 from=0 request=7"});
  CHECK(f.rt.book().at(0).from == 2_blk);
  CHECK(f.rt.book().at(0).to == 8_blk);
}

TEST_CASE("fleet runtime: what was carried out is in the book, whatever the controller would have decided") {
  queue by;
  fleet::runtime_settings s;
  s.book.rest = duration{0};
  told f{by, s};
  const auto done = [&](std::string_view line) {
    fleet::action a;
    REQUIRE_FALSE(fleet::read(line, a));
    return f.rt.carry_out(a);
  };
  CHECK(done("> place replica=0 request=7") == status::unknown_request);
  f("1 arrived request=7 prompt=320");  // there is no replica
  f("1 joined replica=0 number=1 capacity=100");
  f("1 joined replica=1 number=1 capacity=100 role=mixed");
  CHECK(done("> place replica=1 request=7") == status::ok);
  CHECK(f.rt.find(7)->where == 1);
  CHECK(done("> place replica=0 request=7") == status::busy);
  f("2 first_token request=7 replica=1");
  CHECK(done("> move replica=0 from=1 request=7") == status::ok);
  CHECK(f.rt.find(7)->moves_to == 0);
  CHECK(done("> cancel_move replica=0 request=7") == status::ok);
  CHECK(f.rt.find(7)->moves_to == fleet::no_replica);
  CHECK(done("> set_role replica=0 role=decode") == status::ok);
  CHECK(f.rt.book().at(0).role == control::role::decode);
  for (const char* nothing : {"> note why=so", "> plan number=3", "> set_prefill_budget replica=0 low=9"}) {
    CHECK(done(nothing) == status::ok);
  }
}

TEST_CASE("fleet following: another controller is asked at each event, and the book is that of the log") {
  // By requests the second goes to the other replica. The log says that it did not, so the third would.
  queue asked;
  auto memory = storage_for<fleet::following>({.actions = 4});
  fleet::following by{asked, memory};
  told f{by};
  const auto follow = [&](std::string_view line, std::vector<std::string_view> recorded) {
    event e;
    REQUIRE_FALSE(fleet::read(line, e));
    std::vector<fleet::action> all(recorded.size());
    for (std::size_t i = 0; i != all.size(); ++i) REQUIRE_FALSE(fleet::read(recorded[i], all[i]));
    lines out;
    fleet::log_line to;
    for (const fleet::action& a : fleet::follow(f.rt, by, e, all)) out.emplace_back(fleet::write(a, to));
    return out;
  };
  CHECK(follow("0 joined replica=0 number=1 capacity=100", {}).empty());
  CHECK(follow("0 joined replica=1 number=1 capacity=100", {}).empty());
  CHECK(follow("1 arrived request=1 prompt=32", {"> place replica=0 request=1"}) ==
        lines{"> place replica=0 request=1"});
  CHECK(follow("1 arrived request=2 prompt=32", {"> note why=so", "> place replica=0 request=2"}) ==
        lines{"> place replica=1 request=2"});
  CHECK(f.rt.find(2)->where == 0);
  CHECK(follow("1 arrived request=3 prompt=32", {"> place replica=0 request=3"}) ==
        lines{"> place replica=1 request=3"});
  CHECK(f.rt.book().at(0).requests == 3);
  // One that was not placed, and one that was placed later.
  CHECK(follow("2 arrived request=4 prompt=32", {}) == lines{"> place replica=1 request=4"});
  CHECK(f.rt.find(4)->where == fleet::no_replica);
  CHECK(follow("3 clock", {"> place replica=1 request=4", "> set_role replica=0 role=decode"}).empty());
  CHECK(f.rt.find(4)->where == 1);
  CHECK(f.rt.book().at(0).role == control::role::decode);
}

TEST_CASE("fleet runtime: what the front end offers: cached tokens, and replicas that may not be chosen") {
  fleet::placing<placement::lmetric> by;
  told f{by};
  for (int id = 0; id != 3; ++id) f("0 joined number=1 capacity=100 replica=" + std::to_string(id));
  for (int id = 0; id != 3; ++id) {
    f("0 arrived prompt=16 request=" + std::to_string(id));
  }
  f("1 offers replica=2 count=64");
  CHECK(f("1 arrived request=7 prompt=100") == lines{"> place replica=2 request=7"});
  CHECK(f.rt.book().at(2).waiting_blocks == blocks{1 + 7 - 4});
  // That was of the former request.
  f("1 offers replica=0 excluded=1");
  CHECK(f("1 arrived request=8 prompt=100") == lines{"> place replica=1 request=8"});
  CHECK(f("1 arrived request=9 prompt=100") == lines{"> place replica=0 request=9"});
}

TEST_CASE("fleet runtime: a request that begins to answer moves, is there, and its move may fail") {
  fleet::placing<placement::join_shortest_queue, placement::migrate_when_tight> by{{}, {.headroom = 90_blk}};
  fleet::runtime_settings s;
  s.book.rest = duration{0};
  told f{by, s};
  f("0 joined replica=0 number=1 capacity=100");
  f("0 arrived request=7 prompt=320 phase=reasoning");
  f("0 joined replica=1 number=1 capacity=100");
  CHECK(f("1 first_token request=7 replica=0").empty());
  CHECK(f("2 reasoning_ended request=7 replica=1").empty());  // not from there
  CHECK(f("2 reasoning_ended request=7 replica=0").empty());  // the other would hold as much
  f("3 reported replica=0 incarnation=1 epoch=1 all_requests=1 all_kv=21 own=1 own_requests=1 own_kv=21 free=9");
  CHECK(f.rt.find(7)->is == phase::answering);
  f("4 arrived request=8 prompt=320 phase=reasoning");  // on the other one: that has fewer
  f("4 refused request=8 replica=1");
  f("4 progressed request=8 replica=0 count=2");
  f("4 reported replica=0 incarnation=1 epoch=2 all_requests=9 all_kv=95 own=1 own_requests=2 own_kv=42 free=5");
  CHECK(f("5 reasoning_ended request=8 replica=0") == lines{"> move replica=1 from=0 request=8"});
  CHECK(f.rt.find(8)->moves_to == 1);
  CHECK(f("5 move_failed request=8 replica=0").empty());
  CHECK(f("5 move_failed request=8 replica=1").empty());
  CHECK(f.rt.find(8)->moves_to == fleet::no_replica);
  CHECK(f.rt.book().moving() == 0);
  f("6 arrived request=9 prompt=320 phase=reasoning");
  f("6 refused request=9 replica=1");
  f("6 first_token request=9 replica=0");
  CHECK(f("6 reasoning_ended request=9 replica=0") == lines{"> move replica=1 from=0 request=9"});
  f("7 moved request=9 replica=1");
  CHECK(f.rt.find(9)->where == 1);
  CHECK(f.rt.book().reserved(9, 1));
  CHECK_FALSE(f.rt.book().reserved(9, 0));
}

/// Calls back what it is told; does what it is asked to.
class scripted final : public fleet::controller {
 public:
  std::function<void(port&)> then = [](port&) {};
  lines heard{};

  void joined(replica_id id, const fleet::replica&, port& p) noexcept override { hear("joined", id, p); }
  void left(replica_id id, port& p) noexcept override { hear("left", id, p); }
  void failed(replica_id id, port& p) noexcept override { hear("failed", id, p); }
  void reported(const fleet::view& v, port& p) noexcept override { hear("reported", v.id, p); }
  void arrived(const request_view& r, port& p) noexcept override {
    hear("arrived", r.id, p);
    const auto all = p.replicas(r);
    if (all.size() != 0) p.place(r.id, static_cast<replica_id>(all[0].id));
  }
  void first_token(const request_view& r, port& p) noexcept override { hear("first_token", r.id, p); }
  void progressed(const request_view& r, port& p) noexcept override { hear("progressed", r.id, p); }
  void reasoning_ended(const request_view& r, port& p) noexcept override { hear("reasoning_ended", r.id, p); }
  void may_move(const request_view& r, fleet::move_reason, port& p) noexcept override { hear("may_move", r.id, p); }
  void move_failed(const request_view& r, port& p) noexcept override { hear("move_failed", r.id, p); }
  void arrived_with_kv(const request_view& r, port& p) noexcept override { hear("arrived_with_kv", r.id, p); }
  void lost(const request_view& r, port& p) noexcept override { hear("lost", r.id, p); }
  void ended(const request_view& r, port& p) noexcept override { hear("ended", r.id, p); }
  void woke(std::uint64_t alarm, port& p) noexcept override { hear("woke", alarm, p); }
  void planned(std::uint64_t plan, std::span<const fleet::assignment> layout, port& p) noexcept override {
    for (const fleet::assignment& a : layout) p.set_role(a.replica, a.role);
    hear("planned", plan, p);
  }
  lines since() { return std::exchange(heard, {}); }

 private:
  void hear(const char* what, std::uint64_t of, port& p) {
    heard.push_back(std::string{what} + " " + std::to_string(of));
    then(p);
  }
};

TEST_CASE("fleet runtime: events are told once, in order, and only where they belong") {
  scripted by;
  told f{by};
  f("0 joined replica=0 number=3 capacity=100");
  CHECK(by.since() == lines{"joined 0"});
  CHECK(f("0 joined replica=0 number=4 capacity=100") == lines{"> note replica=0 why=busy"});
  f("1 arrived request=1 prompt=30 phase=reasoning");
  f("1 first_token request=1 replica=0");
  f("1 first_token request=1 replica=0");
  f("1 progressed request=1 replica=0 count=2");
  f("1 progressed request=1 replica=0 count=3");
  CHECK(by.since() == lines{"arrived 1", "first_token 1", "progressed 1"});  // 33 tokens are in a third block
  f("1 progressed request=1 replica=1 count=90");
  f("1 progressed request=2 replica=0 count=90");
  CHECK(by.since().empty());
  CHECK(f.rt.find(1)->generated == 3_tok);
  f("2 reasoning_ended request=1 replica=0");
  f("2 reasoning_ended request=1 replica=0");
  CHECK(by.since() == lines{"reasoning_ended 1", "may_move 1"});
  f("3 reported replica=0 incarnation=3 epoch=2 all_requests=1");
  f("3 reported replica=0 incarnation=3 epoch=2 all_requests=1");
  f("3 reported replica=0 incarnation=3 epoch=1 all_requests=1");
  f("3 reported replica=0 incarnation=2 epoch=9 all_requests=1");
  CHECK(by.since() == lines{"reported 0"});
  f("4 drained replica=0");
  f("4 failed replica=0 number=2");
  CHECK(by.since() == lines{"left 0"});
  f("4 failed replica=0 number=3");
  CHECK(by.since() == lines{"failed 0", "lost 1"});
  f("5 joined replica=1 number=1 capacity=100");
  CHECK(f("5 arrived request=1 prompt=30 generated=3") == lines{"> place replica=1 request=1"});
  f("5 progressed request=1 replica=1 count=3");
  CHECK(by.since() == lines{"joined 1", "arrived 1"});
  f("5 progressed request=1 replica=1 count=4");
  CHECK(by.since() == lines{"first_token 1"});
  CHECK(f.rt.book().at(1).kv_held == 3_blk);
  f("6 ended request=1");
  f("6 ended request=1");
  CHECK(by.since() == lines{"ended 1"});
  CHECK(f.rt.book().size() == 0);
}

/// Places on replica 0, and on 1 as soon as that is lost.
class saving final : public fleet::controller {
 public:
  void arrived(const request_view& r, port& p) noexcept override { p.place(r.id, 0); }
  void lost(const request_view& r, port& p) noexcept override { p.place(r.id, 1); }
  void first_token(const request_view&, port&) noexcept override { ++first_tokens; }
  int first_tokens = 0;
};

TEST_CASE("fleet runtime: a request that is placed as it is lost has its tokens as a prompt") {
  saving by;
  told f{by};
  for (const char* line : {"0 joined replica=0 number=1 capacity=100", "0 joined replica=1 number=1 capacity=100"})
    f(line);
  CHECK(f("1 arrived request=7 prompt=16") == lines{"> place replica=0 request=7"});
  f("1 progressed replica=0 request=7 count=16");
  CHECK(by.first_tokens == 1);
  CHECK(f("2 failed replica=0 number=1") == lines{"> place replica=1 request=7"});
  CHECK(f.rt.book().at(1).waiting_blocks == blocks{2});
  f("3 first_token replica=1 request=7");
  CHECK(by.first_tokens == 2);
  CHECK(f.rt.book().at(1).kv_held == blocks{3});
  f("3 progressed replica=1 request=7 count=32");
  CHECK(f.rt.book().at(1).kv_held == blocks{3});
  CHECK(f.rt.find(7)->generated == tokens{32});
}

TEST_CASE("fleet runtime: alarms are due in order, before the event, and one that is set by one waits") {
  scripted by;
  told f{by};
  CHECK(f.rt.next_wake_s() == std::numeric_limits<double>::infinity());
  by.then = [&](port& p) {
    CHECK(ok(p.wake_after(2, 2)));
    CHECK(ok(p.wake_after(1, 1)));
    CHECK(ok(p.wake_after(1, 3)));
    by.then = [](port&) {};
  };
  f("10 joined replica=0 number=1 capacity=100");
  CHECK(f.rt.next_wake_s() == 11);
  f("10.5 clock");
  CHECK(by.since() == lines{"joined 0"});
  by.then = [&](port& p) {
    if (by.heard.back() == "woke 1") p.wake_after(0, 4);
  };
  f("12 drained replica=0");
  CHECK(by.since() == lines{"woke 1", "woke 3", "woke 2", "left 0"});
  f("11 clock");  // a clock that has gone back: it is 12 still
  CHECK(by.since() == lines{"woke 4"});
}

TEST_CASE("fleet runtime: what an engine cannot do is refused, and said once") {
  scripted by;
  told f{by};
  by.then = [](port& p) {
    CHECK(p.set_role(0, control::role::prefill) == status::refused);
    CHECK(p.set_prefill_budget(0, 9_tok) == status::refused);
    CHECK(p.set_order(0, fleet::order_parameter::quantum, 1) == status::refused);
    CHECK(p.set_length_range(0, 1_blk, 9_blk) == status::refused);
  };
  CHECK(f("0 joined replica=0 number=1 capacity=100 moves=0 roles=0 ranges=0 budgets=0 orders=0") ==
        lines{"> note replica=0 why=it cannot change its role",
              "> note replica=0 why=its prompts per step cannot be bounded",
              "> note replica=0 why=its order has no parameters",
              "> note replica=0 why=it cannot be told which lengths it serves"});
  CHECK(f("0 drained replica=0").empty());
  // The range is the book's as well.
  CHECK(f.rt.book().at(0).to == 9_blk);
  by.then = [](port& p) {
    CHECK(ok(p.set_role(1, control::role::prefill)));
    CHECK(p.set_role(1, control::role::decode) == status::refused);  // before it has the one
    CHECK(ok(p.set_prefill_budget(1, 9_tok)));
    CHECK(ok(p.set_order(1, fleet::order_parameter::quantum, 0.5)));
    CHECK(ok(p.set_length_range(1, 1_blk, 9_blk)));
    CHECK(ok(p.plan_async(77)));
  };
  CHECK(f("0 joined replica=1 number=1 capacity=100") ==
        lines{"> set_role replica=1 role=prefill", "> set_prefill_budget replica=1 low=9",
              "> set_order replica=1 parameter=quantum value=0.5", "> set_length_range replica=1 low=1 high=9",
              "> plan number=77"});
}

TEST_CASE("fleet runtime: a plan comes back, with what it has for each replica") {
  scripted by;
  told f{by};
  f("0 joined replica=0 number=1 capacity=100");
  f("1 lays_out replica=0 role=decode low=3 high=9 count=50");
  f("1 lays_out replica=2 role=decode");  // which is not there
  CHECK(f("2 planned number=5") == lines{"> set_role replica=0 role=decode"});
  CHECK(by.since() == lines{"joined 0", "planned 5"});
  CHECK(f("3 planned number=6").empty());
}

TEST_CASE("fleet runtime: a request that is not heard of for a lease is over") {
  scripted by;
  fleet::runtime_settings s;
  s.book.lease = duration{10};
  told f{by, s};
  f("0 joined replica=0 number=1 capacity=100");
  f("0 arrived request=5 prompt=10");
  f("9 progressed request=5 replica=0 count=0");
  CHECK(f("18 clock").empty());
  by.since();
  CHECK(f("19 clock") == lines{"> note replica=0 request=5 why=not heard of for a lease"});
  CHECK(by.since() == lines{"ended 5"});
  CHECK(f.rt.requests() == 0);
}

TEST_CASE("fleet runtime: what there is no room for is a value") {
  scripted by;
  told f{by, {}, {.book = {.replicas = 2, .reservations = 4}, .requests = 1, .actions = 2, .alarms = 1}};
  by.then = [](port& p) {
    CHECK(ok(p.wake_after(1, 1)));
    CHECK(p.wake_after(1, 1) == status::exhausted);
    for (int i = 0; i != 3; ++i) p.note(fleet::no_request, 0, "hm");
    CHECK(p.plan_async(1) == status::exhausted);
  };
  CHECK(f("0 joined replica=0 number=1 capacity=100").size() == 2);
  CHECK(f.rt.dropped_notes() == 1);
  by.then = [](port&) {};
  f("0 arrived request=1 prompt=10");
  CHECK(f("0 arrived request=2 prompt=10") == lines{"> note request=2 why=exhausted"});
  f("0 joined replica=7 number=1 capacity=100");
  CHECK_FALSE(f.rt.book().contains(7));
}

TEST_CASE("fleet runtime: a move ends with its destination, and a request with its source") {
  scripted by;
  told f{by};
  by.then = [&](port& p) {
    if (by.heard.back() == "may_move 1") CHECK(ok(p.move(1, 1, fleet::transfer::live)));
  };
  f("0 joined replica=0 number=1 capacity=100");
  f("0 arrived request=1 prompt=30 phase=reasoning");
  f("0 joined replica=1 number=1 capacity=100");
  f("1 first_token request=1 replica=0");
  CHECK(f("1 reasoning_ended request=1 replica=0") == lines{"> move replica=1 from=0 request=1 how=live"});
  by.since();
  f("2 failed replica=1 number=1");
  CHECK(by.since() == lines{"failed 1", "move_failed 1"});
  CHECK(f.rt.find(1)->where == 0);
  f("2 joined replica=1 number=2 capacity=100");
  by.then = [&](port& p) {
    if (by.heard.back() == "progressed 1") CHECK(ok(p.move(1, 1)));
  };
  f("9 progressed request=1 replica=0 count=20");
  CHECK(f.rt.find(1)->moves_to == 1);
  by.since();
  f("9.5 failed replica=0 number=1");
  CHECK(by.since() == lines{"failed 0", "lost 1"});
  CHECK(f.rt.book().size() == 0);
  CHECK(f.rt.book().at(1).kv_held == 0_blk);
  by.then = [](port&) {};
  // All its KV had come before its source died: it goes on at the target, and counts there.
  f("9.6 moved request=1 replica=2");
  CHECK(by.since().empty());
  f("9.6 moved request=1 replica=1");
  CHECK(by.since() == lines{"arrived_with_kv 1"});
  CHECK(f.rt.find(1)->where == 1);
  CHECK(f.rt.book().size() == 1);
  f("9.7 progressed request=1 replica=1 count=40");
  CHECK(f.rt.find(1)->generated == tokens{40});
}

TEST_CASE("fleet runtime: nothing allocates after construction") {
  fleet::placing<placement::least_load, placement::migrate_when_tight> by{{}, {.headroom = 50_blk}};
  told f{by};
  event e;
  std::size_t actions = 0;
  const tessera_test::no_allocation guard;
  for (replica_id id = 0; id != 4; ++id) {
    e = {.what = event_kind::joined, .replica = id, .number = 1};
    e.joins.capacity = 100_blk;
    f.rt.handle(e);
  }
  for (request_id r = 0; r != 40; ++r) {
    e = {.at_s = static_cast<double>(r), .what = event_kind::arrived, .request = r};
    e.asks = {.prompt = 400_tok, .is = phase::reasoning};
    actions += f.rt.handle(e).size();
    if (f.rt.find(r) == nullptr) continue;
    e.replica = f.rt.find(r)->where;
    for (const event_kind next : {event_kind::first_token, event_kind::reasoning_ended, event_kind::clock}) {
      e.what = next;
      actions += f.rt.handle(e).size();
    }
    e.what = event_kind::ended;
    if (r % 2 == 0) f.rt.handle(e);
  }
  CHECK(guard.allocations() == 0);
  CHECK(actions >= 40);
}

}  // namespace
