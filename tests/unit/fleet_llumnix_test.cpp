// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/llumnix.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/told_router.hpp"

#include <string>

namespace {

using namespace tessera;
using tessera_test::lines;
using tessera_test::told;

fleet::runtime_settings without_rest() {
  fleet::runtime_settings s;
  s.book.lease = s.book.silence = duration{1000};
  s.book.rest = duration{};
  return s;
}

/// Replicas of 100 blocks.
void join(told& f, int n) {
  for (int id = 0; id != n; ++id) f("0 joined number=1 capacity=100 replica=" + std::to_string(id));
}

TEST_CASE("fleet llumnix: a new request goes where each request has the most memory left") {
  auto storage = storage_for<fleet::llumnix>({.replicas = 4});
  fleet::llumnix by{storage};
  told f{by, without_rest()};
  join(f, 2);
  CHECK(f("0 arrived request=1 prompt=160") == lines{"> place replica=0 request=1"});  // 100 each
  CHECK(f("0 arrived request=2 prompt=320") == lines{"> place replica=1 request=2"});  // 90, 100
  CHECK(f("0 arrived request=3 prompt=320") == lines{"> place replica=0 request=3"});  // 90, 80
  CHECK(f("0 arrived request=4 prompt=16") == lines{"> place replica=1 request=4"});   // 70 / 2, 80
  // 35 and 79 / 2. What other routers have in a queue there counts: 100 - 21 - 60 for 3.
  f("0.1 reported replica=1 incarnation=1 epoch=1 all_requests=3 all_waiting=81 "
    "own=1 own_requests=2 own_waiting=21");
  CHECK(f.rt.book().at(1).free_after_queue == blocks{100 - 21 - 60});
  CHECK(f("0.2 arrived request=5 prompt=16") == lines{"> place replica=0 request=5"});
  // More waits than is free: further below 0 is worse.
  f("0.3 reported replica=0 incarnation=1 epoch=1 all_requests=4 all_waiting=231 "
    "own=1 own_requests=3 own_waiting=31");
  CHECK(f.rt.book().at(0).free_after_queue == blocks{100 - 31 - 200});
  CHECK(f.rt.book().at(0).free_blocks == blocks{69});
  CHECK(f("0.4 arrived request=6 prompt=16") == lines{"> place replica=1 request=6"});
}

TEST_CASE("fleet llumnix: a replica below gives its shortest request that may move to the highest") {
  auto storage = storage_for<fleet::llumnix>({.replicas = 4});
  fleet::llumnix by{storage, {.epoch_s = 2, .low = 25, .high = 50}};
  told f{by, without_rest()};
  join(f, 3);
  f("0 arrived request=1 prompt=640");  // to 0
  f("0 arrived request=2 prompt=656");  // to 1
  f("0 arrived request=3 prompt=320");  // to 2
  f("0 drained replica=1");
  f("0 drained replica=2");
  f("0 arrived request=4 prompt=320");
  f("0 arrived request=5 prompt=16");  // all to 0: 40 + 20 + 1 blocks
  f("0.5 joined replica=3 number=1 capacity=100");
  CHECK(f.rt.book().at(0).free_after_queue == blocks{39});
  // None of them runs.
  CHECK(f("2 clock").empty());
  for (const char* line : {"2.5 first_token replica=0 request=1", "2.5 first_token replica=0 request=4"}) f(line);
  CHECK(f.rt.next_wake_s() == 4);
  // 37 / 3 here and 100 there. Request 5 is shorter, and waits.
  CHECK(f("4 clock") == lines{"> move replica=3 from=0 request=4 how=live"});
  CHECK(f("4.1 moved replica=3 request=4").empty());
  // 58 / 2 is not below 25.
  CHECK(f("6 clock").empty());
  // A replica that cannot is not asked again and again.
  CHECK(f.rt.requests() == 5);
}

TEST_CASE("fleet llumnix: no request moves to where there is no room for it and a block more") {
  for (const int room : {20, 21, 22}) {
    auto storage = storage_for<fleet::llumnix>({.replicas = 4});
    fleet::llumnix by{storage, {.epoch_s = 2, .low = 15, .high = 15}};
    told f{by, without_rest()};
    f("0 joined replica=0 number=1 capacity=30");
    CHECK(f("0 arrived request=1 prompt=319") == lines{"> place replica=0 request=1"});
    f("0.5 first_token replica=0 request=1");
    f("1 joined replica=1 number=1 capacity=" + std::to_string(room));
    const lines moved = f("2 clock");
    CHECK((moved == lines{"> move replica=1 from=0 request=1 how=live"}) == (room >= 21));
    CHECK(moved.size() == (room >= 21 ? 1U : 0U));
  }
}

TEST_CASE("fleet llumnix: nothing allocates after construction") {
  auto storage = storage_for<fleet::llumnix>({.replicas = 4});
  fleet::llumnix by{storage, {.epoch_s = 1, .low = 50, .high = 51}};
  told f{by, without_rest()};
  join(f, 4);
  fleet::event e;
  const tessera_test::no_allocation guard;
  for (int i = 0; i != 60; ++i) {
    e = {.at_s = i / 4.0, .what = fleet::event_kind::arrived, .request = static_cast<fleet::request_id>(i % 16)};
    e.asks.prompt = tokens{400};
    f.rt.handle(e);
    for (fleet::replica_id at = 0; at != 4; ++at) {
      e = {.at_s = i / 4.0, .what = fleet::event_kind::first_token, .replica = at, .request = e.request};
      f.rt.handle(e);
    }
  }
  CHECK(guard.allocations() == 0);
}

}  // namespace
