// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/pools.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/told_router.hpp"

#include <cstddef>
#include <string>

namespace {

using namespace tessera;
using tessera_test::lines;
using tessera_test::told;

constexpr fleet::pools_limits four{.replicas = 4, .requests = 16};

fleet::runtime_settings without_rest() {
  fleet::runtime_settings s;
  s.book.lease = s.book.silence = duration{1000};
  s.book.rest = duration{};
  return s;
}

fleet::pools_config static_split() {
  return {.by_phi = false, .changes_roles = false, .defragments = false, .epoch_s = 1};
}

TEST_CASE("fleet pools: prompts to the shortest queue, and on to the decode replica with the fewest requests") {
  auto storage = storage_for<fleet::pools>(four);
  fleet::pools by{storage, static_split()};
  told f{by, without_rest()};
  for (const char* line : {"0 joined replica=0 number=1 capacity=100 has_role=prefill",
                           "0 joined replica=1 number=1 capacity=100 has_role=prefill",
                           "0 joined replica=2 number=1 capacity=100 has_role=decode",
                           "0 joined replica=3 number=1 capacity=100 has_role=decode"}) {
    CHECK(f(line).empty());
  }
  CHECK(f("0 arrived request=1 prompt=900") == lines{"> place replica=0 request=1"});
  CHECK(f("0 arrived request=2 prompt=9") == lines{"> place replica=1 request=2"});
  CHECK(f("0 arrived request=3 prompt=9") == lines{"> place replica=0 request=3"});
  CHECK(f("0 first_token replica=1 request=2") == lines{"> move replica=2 from=1 request=2"});
  CHECK(f("0 moved replica=2 request=2").empty());
  CHECK(f("0 arrived request=4 prompt=9") == lines{"> place replica=1 request=4"});
  CHECK(f("0 first_token replica=1 request=4") == lines{"> move replica=3 from=1 request=4"});
  CHECK(f("0 ended request=2").empty());
  CHECK(f("0 first_token replica=0 request=1") == lines{"> move replica=2 from=0 request=1"});
  // Its move fails: it is tried again at the next epoch.
  CHECK(f("0.5 move_failed replica=2 request=1").empty());
  CHECK(f("1.5 clock") == lines{"> move replica=2 from=0 request=1"});
  CHECK(f("2.5 clock").empty());
}

TEST_CASE("fleet pools: by Phi_T and Phi_S") {
  auto storage = storage_for<fleet::pools>(four);
  fleet::pools_config c = static_split();
  c.by_phi = true;
  fleet::pools by{storage, c};
  told f{by, without_rest()};
  const std::string priced = " has_role=prefill alpha=1 beta=1 peak_flops=100000 ttft_s=1";
  f("0 joined replica=0 number=1 capacity=100" + priced);
  f("0 joined replica=1 number=1 capacity=100" + priced);
  f("0 joined replica=2 number=1 capacity=100 has_role=decode");
  f("0 joined replica=3 number=1 capacity=50 has_role=decode");
  CHECK(f("0 arrived request=1 prompt=320") == lines{"> place replica=0 request=1"});
  // Two short prompts are less to compute than a long one.
  CHECK(f("0 arrived request=2 prompt=79") == lines{"> place replica=1 request=2"});
  CHECK(f("0 arrived request=3 prompt=79") == lines{"> place replica=1 request=3"});
  CHECK(f("0 first_token replica=0 request=1") == lines{"> move replica=2 from=0 request=1"});
  // 0.79 and 1, then 0.79 and 0.9.
  CHECK(f("0 first_token replica=1 request=2") == lines{"> move replica=3 from=1 request=2"});
  CHECK(f("0 first_token replica=1 request=3") == lines{"> move replica=3 from=1 request=3"});
}

TEST_CASE("fleet pools: a request for which there is no room goes on where it is until there is") {
  auto storage = storage_for<fleet::pools>(four);
  fleet::pools by{storage, static_split()};
  told f{by, without_rest()};
  f("0 joined replica=0 number=1 capacity=100 has_role=prefill");
  f("0 joined replica=1 number=1 capacity=20 has_role=decode");
  CHECK(f("0 arrived request=1 prompt=320") == lines{"> place replica=0 request=1"});
  CHECK(f("0.5 first_token replica=0 request=1").empty());
  CHECK(f("1 clock").empty());
  f("1.5 joined replica=2 number=1 capacity=21 has_role=decode");
  CHECK(f("2 clock") == lines{"> move replica=2 from=0 request=1"});
}

TEST_CASE("fleet pools: more hand-overs than may be on their way wait, and a note says so once") {
  auto storage = storage_for<fleet::pools>(four);
  fleet::pools by{storage, static_split()};
  fleet::runtime_settings s = without_rest();
  s.book.moving = 1;
  told f{by, s};
  f("0 joined replica=0 number=1 capacity=100 has_role=prefill");
  f("0 joined replica=1 number=1 capacity=100 has_role=decode");
  for (const char* r : {"1", "2", "3"}) f(std::string{"0 arrived prompt=16 request="} + r);
  CHECK(f("0.1 first_token replica=0 request=1") == lines{"> move replica=1 from=0 request=1"});
  CHECK(f("0.1 first_token replica=0 request=2") == lines{"> note replica=0 request=2 why=exhausted"});
  CHECK(f("0.1 first_token replica=0 request=3") == lines{"> note replica=0 request=3 why=exhausted"});
  CHECK(f("1 clock").empty());
  f("1.5 moved replica=1 request=1");
  CHECK(f("2 clock") == lines{"> move replica=1 from=0 request=2"});
  f("2.5 moved replica=1 request=2");
  CHECK(f("3 clock") == lines{"> move replica=1 from=0 request=3"});
}

TEST_CASE("fleet pools: where a pool is empty the mixed one does its part, and keeps what it has prefilled") {
  auto storage = storage_for<fleet::pools>(four);
  fleet::pools by{storage, static_split()};
  told f{by, without_rest()};
  f("0 joined replica=1 number=1 capacity=100 has_role=decode");
  CHECK(f("0 arrived request=1 prompt=16") == lines{"> place replica=1 request=1"});
  f("0 joined replica=0 number=1 capacity=100");
  CHECK(f("0 arrived request=2 prompt=16") == lines{"> place replica=0 request=2"});
  CHECK(f("0 first_token replica=0 request=2").empty());
  // A prompt of a prefill replica goes on at the mixed one.
  f("0 failed replica=1 number=1");
  f("0 joined replica=2 number=1 capacity=100 has_role=prefill");
  CHECK(f("0 arrived request=3 prompt=16") == lines{"> place replica=2 request=3"});
  CHECK(f("0 first_token replica=2 request=3") == lines{"> move replica=0 from=2 request=3"});
}

TEST_CASE("fleet pools: the mixed pool helps out where the queues of the prefill pool are long") {
  auto storage = storage_for<fleet::pools>(four);
  fleet::pools_config c = static_split();
  c.helps_above = 1;
  fleet::pools by{storage, c};
  told f{by, without_rest()};
  f("0 joined replica=0 number=1 capacity=100 has_role=prefill");
  f("0 joined replica=1 number=1 capacity=100");
  f("0 joined replica=2 number=1 capacity=100 has_role=decode");
  CHECK(f("0 arrived request=1 prompt=16") == lines{"> place replica=0 request=1"});
  CHECK(f("0 arrived request=2 prompt=16") == lines{"> place replica=0 request=2"});
  CHECK(f("0 arrived request=3 prompt=16") == lines{"> place replica=1 request=3"});
  CHECK(f("0 first_token replica=1 request=3").empty());
  CHECK(f("0 first_token replica=0 request=1") == lines{"> move replica=2 from=0 request=1"});
  CHECK(f("0 arrived request=4 prompt=16") == lines{"> place replica=0 request=4"});
}

TEST_CASE("fleet pools: a mixed replica is given the role of the pool that lacks headroom") {
  auto storage = storage_for<fleet::pools>(four);
  fleet::pools by{storage, {.defragments = false, .epoch_s = 1}};
  told f{by, without_rest()};
  f("0 joined replica=0 number=1 capacity=100 has_role=prefill");
  f("0 joined replica=1 number=1 capacity=100 has_role=decode");
  f("0 joined replica=2 number=1 capacity=100");
  CHECK(f("0 arrived request=1 prompt=1280") == lines{"> place replica=0 request=1"});
  CHECK(f("0.5 first_token replica=0 request=1") == lines{"> move replica=1 from=0 request=1"});
  // 1 and 0.19, which is not 0.62 of it.
  CHECK(f("1 clock") == lines{"> set_role replica=2 role=decode"});
  CHECK(f("2 clock").empty());
  // It gets nothing until it has its role.
  CHECK(f("2 arrived request=2 prompt=160") == lines{"> place replica=0 request=2"});
  CHECK(f("2.1 first_token replica=0 request=2") == lines{"> move replica=1 from=0 request=2"});
  f("2.2 role_changed replica=2");
  CHECK(f("2.2 arrived request=3 prompt=100") == lines{"> place replica=0 request=3"});
  CHECK(f("2.3 first_token replica=0 request=3") == lines{"> move replica=2 from=0 request=3"});
  // A replica that cannot: a note says so.
  f("2.4 joined replica=3 number=1 capacity=100 roles=0");
}

TEST_CASE("fleet pools: nothing allocates after construction") {
  auto storage = storage_for<fleet::pools>(four);
  fleet::pools by{storage, {.epoch_s = 0.3}};
  told f{by, without_rest()};
  f("0 joined replica=0 number=1 capacity=100 has_role=prefill");
  f("0 joined replica=1 number=1 capacity=60 has_role=decode");
  f("0 joined replica=2 number=1 capacity=60 has_role=decode");
  f("0 joined replica=3 number=1 capacity=100");
  fleet::event e;
  const tessera_test::no_allocation guard;
  for (int i = 0; i != 200; ++i) {
    e = {.at_s = i / 4.0, .what = fleet::event_kind::arrived, .request = static_cast<fleet::request_id>(i % 16)};
    e.asks.prompt = tokens{100 + 10 * (i % 16)};
    f.rt.handle(e);
    for (fleet::replica_id at = 0; at != 4; ++at) {
      e = {.at_s = i / 4.0, .what = fleet::event_kind::progressed, .replica = at, .request = e.request};
      e.count = tokens{i};
      f.rt.handle(e);
    }
  }
  CHECK(guard.allocations() == 0);
}

}  // namespace
