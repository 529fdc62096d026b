// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// KV from outside must not be written to blocks that a plan in flight reads: which plan that is, is told.

#include <tessera/compose/fcfs.hpp>
#include <tessera/kv/row_tables.hpp>

#include "support/step_engine.hpp"

#include <algorithm>
#include <vector>

namespace {

using namespace tessera_test;

using request = prompt_request<>;
using engine = step_engine<fcfs<request, kv::block_pool, kv::row_tables>>;

/// `low` runs in a plan in flight, and `high` takes its blocks for KV that is on its way.
struct taken_over : engine {
  explicit taken_over(std::size_t host_blocks, int priority = 1)
      : engine{{.blocks = 20, .residents = 4, .host_blocks = host_blocks, .plans_in_flight = 2, .deadlines = 4}},
        low{submit(200, 50)} {
    step();
    running = plan();
    read = row(low);
    high = &submit(add(200, 50, priority));
    REQUIRE(scheduler.loading(*high, 199_tok, time_point::never()) == status::ok);
  }
  /// Whether the plan names a block in `load` that `running` reads.
  [[nodiscard]] bool names_what_is_read(const plan_type& p) const {
    return std::any_of(p.load.begin(), p.load.end(), [&](const auto& l) {
      return std::any_of(l.device.begin(), l.device.end(),
                         [&](kv::block_id id) { return std::find(read.begin(), read.end(), id) != read.end(); });
    });
  }

  request& low;
  request* high = nullptr;
  plan_type running;
  std::vector<kv::block_id> read;
};

}  // namespace

TEST_CASE("blocks in load that a plan in flight reads are written to after that", "[pipeline]") {
  taken_over e{0};
  const auto p = e.plan();
  REQUIRE(e.names_what_is_read(p));
  CHECK(p.load_after == e.running.id);
  e.commit(e.running);
  e.commit(p);
  CHECK(e.scheduler.arrived(*e.high, 199_tok) == status::ok);
}

TEST_CASE("blocks in load that the same plan copies out are written to after its copies", "[pipeline]") {
  taken_over e{20};
  const auto p = e.plan();
  REQUIRE(e.names_what_is_read(p));
  REQUIRE(p.swap_out.size() == 1);
  CHECK(p.load_after == p.id);
  e.commit(e.running);
  e.commit(p);
  CHECK(e.scheduler.arrived(*e.high, 199_tok) == status::ok);
}

TEST_CASE("blocks in load that nothing in flight reads are written to at once", "[pipeline]") {
  SECTION("their reader has been settled") {
    taken_over e{0, 0};
    std::vector<outcome> o(1);
    o[0].finished = true;
    e.commit(e.running, o);
    const auto p = e.plan();
    REQUIRE(p.load.size() == 1);
    CHECK(p.load_after == 0);
    e.commit(p);
    CHECK(e.scheduler.arrived(*e.high, 199_tok) == status::ok);
  }
  SECTION("they were free") {
    engine e{{.blocks = 100, .residents = 4, .plans_in_flight = 2, .deadlines = 4}};
    e.submit(200, 50);
    e.step();
    const auto running = e.plan();
    request& high = e.submit(200, 50);
    REQUIRE(e.scheduler.loading(high, 199_tok, time_point::never()) == status::ok);
    const auto p = e.plan();
    REQUIRE(p.load.size() == 1);
    CHECK(p.load_after == 0);
    e.commit(running);
    e.commit(p);
    CHECK(e.scheduler.arrived(high, 199_tok) == status::ok);
  }
  SECTION("with one plan in flight") {
    engine e{{.blocks = 20, .residents = 4, .deadlines = 4}};
    e.submit(200, 50);
    e.step();
    request& high = e.submit(200, 50, 1);
    REQUIRE(e.scheduler.loading(high, 199_tok, time_point::never()) == status::ok);
    const auto p = e.plan();
    REQUIRE(p.load.size() == 1);
    REQUIRE(p.preempted.size() == 1);
    CHECK(p.load_after == 0);
    e.commit(p);
    CHECK(e.scheduler.arrived(high, 199_tok) == status::ok);
  }
}

TEST_CASE("readers of the blocks in load are told as if a plan that was abandoned had never been", "[pipeline]") {
  taken_over e{0};
  e.abandon(e.plan());
  auto p = e.plan();
  CHECK(p.load_after == e.running.id);
  e.abandon(p);
  e.commit(e.running);
  p = e.plan();
  REQUIRE(e.names_what_is_read(p));
  CHECK(p.load_after == 0);
  e.commit(p);
  CHECK(e.scheduler.arrived(*e.high, 199_tok) == status::ok);
}

TEST_CASE("blocks in fetch that a plan in flight reads are told apart from those in load", "[pipeline]") {
  taken_over e{0};
  REQUIRE(e.scheduler.fetching(*e.high, 199_tok) == status::ok);
  auto p = e.plan();
  REQUIRE(p.fetch.size() == 1);
  CHECK(p.load_after == 0);
  CHECK(p.fetch_after == e.running.id);
  e.abandon(p);
  e.commit(e.running);
  p = e.plan();
  REQUIRE(p.fetch.size() == 1);
  CHECK(p.fetch_after == 0);
  e.commit(p);
}

TEST_CASE("blocks in load that an ended request gave back are written to at once", "[pipeline]") {
  taken_over e{0, 0};
  const auto next = e.plan();
  REQUIRE(next.load.empty());
  std::vector<outcome> o(1);
  o[0].finished = true;
  e.commit(e.running, o);
  const auto third = e.plan();  // it is in flight when the blocks are given back, and does not read them
  REQUIRE(third.load.empty());
  e.commit(next);
  const auto p = e.plan();
  REQUIRE(e.names_what_is_read(p));
  CHECK(p.load_after == 0);
  e.commit(third);
  e.commit(p);
  CHECK(e.scheduler.arrived(*e.high, 199_tok) == status::ok);
}
