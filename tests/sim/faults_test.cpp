// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>

#include "sim/llumnix_control.hpp"
#include "sim/served.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace tessera;
using sim::cluster_options;
using sim::fault;
using sim::fault_kind;
using sim::request;
using sim::request_record;
using sim::run_result;
using sim::trace_row;
using tessera_test::row;
using tessera_test::toy_cluster;

constexpr auto quiet = [](std::size_t) {};
constexpr double for_ever = std::numeric_limits<double>::infinity();

fault death(std::size_t i, double at_s, double for_s = for_ever) {
  return {.kind = fault_kind::dies, .instance = i, .at_s = at_s, .for_s = for_s};
}

/// On the first of those that there are.
struct first_there_is {
  template <placement::instance_views V>
  std::size_t operator()(const V& views) const noexcept {
    REQUIRE(views.size() != 0);
    return 0;
  }
};
/// Every answer goes to the other one of two instances, if that is there.
struct to_the_other {
  template <placement::instance_views V>
  std::size_t operator()(const V& views, std::size_t current, blocks, blocks) const noexcept {
    REQUIRE(current < views.size());
    return views.size() == 2 ? 1 - current : current;
  }
};

template <class Migration = placement::stay>
run_result simulate(const cluster_options& o, const std::vector<trace_row>& rows) {
  sim::cluster_of<fcfs<request>, sim::placed<first_there_is, Migration>> c{o};
  const run_result result = c.run(rows, quiet);
  REQUIRE(result.requests.size() == rows.size());
  for (std::size_t i = 0; i != rows.size(); ++i) CHECK(result.requests[i].id == i);  // each ends once
  for (std::size_t i = 0; i != c.size(); ++i) {
    CHECK(c.at(i).idle());
    CHECK(c.at(i).blocks_held() == blocks{});
    if (c.up(i)) CHECK(c.views()[i].requests == 0);
  }
  return result;
}

std::uint64_t computed(const run_result& r) {
  std::uint64_t all = 0;
  for (const sim::instance_facts& f : r.instances) all += f.computed_tokens;
  return all;
}

TEST_CASE("faults: what was on an instance that dies is computed again elsewhere, from the tokens that there are") {
  cluster_options o = toy_cluster(2, 100);
  o.faults = {death(0, 1.125)};
  const std::vector<trace_row> rows{row(0, 10, 0, 8)};
  const run_result result = simulate(o, rows);
  tessera_test::check_served(result, rows);
  // Tokens at 0.5, 0.75 and 1 s; the step to 1.25 s never ends. Known at 2.125 s. Then 13 tokens are a prompt.
  const request_record& r = result.requests[0];
  CHECK(r.instance == 1);
  CHECK(r.recoveries == 1);
  CHECK(r.preemptions == 0);
  CHECK(r.migrations == 0);
  CHECK(r.first_token == 0.5);
  CHECK(r.finish == 2.625 + 4 * 0.25);
  CHECK(r.executed == 0.5 + 2 * 0.25 + 0.5 + 4 * 0.25);
  CHECK(r.preempted == 1);    // without its KV
  CHECK(r.blocked == 0.125);  // the step that was lost
  CHECK(result.numbers.faults.deaths == 1);
  CHECK(result.numbers.faults.recovered == 1);
  CHECK(result.numbers.faults.recomputed == 12);  // the third token had no KV yet
  CHECK(result.numbers.faults.down_s == 3.625 - 1.125);
  CHECK(computed(result) == 10 + 8 - 1 + 12);
  CHECK(result.instances[0].busy_s == 1.125);
  CHECK(result.timeline.front().live == 2);
  CHECK(result.timeline.back().live == 1);
}

TEST_CASE("faults: a death is unknown before it is detected; what is sent there waits") {
  cluster_options o = toy_cluster(2, 100);
  o.faults = {death(0, 1, 10)};
  o.detection_s = 2;
  const std::vector<trace_row> rows{row(1, 10, 0, 1), row(1.5, 10, 0, 2), row(4, 10, 0, 1), row(12, 10, 0, 1)};
  const run_result result = simulate(o, rows);
  tessera_test::check_served(result, rows);
  // A fault comes before an arrival at the same time.
  CHECK(result.requests[0].finish == 3.5);
  CHECK(result.requests[0].instance == 1);
  CHECK(result.requests[1].first_scheduled == 3.5);  // at 3 s, right after the other, which has begun a step
  CHECK(result.requests[1].ttft() == 2.5);
  CHECK(result.requests[2].finish == 4.5);
  CHECK(result.requests[2].instance == 1);
  CHECK(result.requests[3].finish == 12.5);
  CHECK(result.requests[3].instance == 0);                                   // back
  for (const request_record& r : result.requests) CHECK(r.recoveries == 0);  // they had nothing to lose
  CHECK(result.numbers.faults.recomputed == 0);
  CHECK(result.numbers.faults.down_s == 10);
}

/// Places all on the first instance that there is, and writes down what is seen of instance 0 before.
struct looks_at_queue {
  struct seen {
    blocks queued{};
    std::size_t requests = 0;
    friend bool operator==(const seen&, const seen&) = default;
  };
  std::vector<seen>* all;

  template <class C>
  [[nodiscard]] std::size_t place(C& c, const request& r) {
    all->push_back({c.queued_blocks(0), c.views()[0].requests});
    return c.takes(0, r) ? 0 : 1;
  }
};

TEST_CASE("faults: the queue of a dead instance is as it was, with what was sent there since, until it is known") {
  cluster_options o = toy_cluster(2, 100);
  o.instance.limits.residents = 1;
  o.faults = {death(0, 2, 20)};
  o.detection_s = 10;
  std::vector<looks_at_queue::seen> seen;
  const std::vector<trace_row> rows{row(0, 100, 0, 30), row(1, 150, 0, 4), row(2.5, 32, 0, 4),
                                    row(3, 64, 0, 4),   row(13, 10, 0, 4), row(30, 10, 0, 4)};
  sim::cluster_of<fcfs<request>, looks_at_queue> c{o, {}, looks_at_queue{&seen}};
  tessera_test::check_served(c.run(rows, quiet), rows);
  using s = looks_at_queue::seen;
  // One runs. 150 tokens wait for 10 blocks. Then, unheard, 32 wait for 2 and 64 for 4. At 12 s all four are placed
  // anew.
  REQUIRE(seen.size() == 10);
  CHECK(seen[0] == s{});
  CHECK(seen[1] == s{blocks{}, 1});
  CHECK(seen[2] == s{blocks{10}, 2});
  CHECK(seen[3] == s{blocks{12}, 3});
  CHECK(seen[4] == s{blocks{16}, 4});
  CHECK(seen[9] == s{});  // it is back, and empty

  // None waited.
  seen.clear();
  const std::vector<trace_row> later(rows.begin() + 2, rows.begin() + 4);
  sim::cluster_of<fcfs<request>, looks_at_queue> idle{o, {}, looks_at_queue{&seen}};
  tessera_test::check_served(idle.run(later, quiet), later);
  REQUIRE(seen.size() == 4);
  CHECK(seen[0] == s{});
  CHECK(seen[1] == s{blocks{2}, 1});
}

TEST_CASE("faults: one that is back before its death is known says so itself") {
  cluster_options o = toy_cluster(1, 100);
  o.faults = {death(0, 1, 0.5)};
  o.detection_s = 5;
  const std::vector<trace_row> rows{row(0, 10, 0, 4)};
  const run_result result = simulate(o, rows);
  tessera_test::check_served(result, rows);
  // A fault comes before the end of a step at the same time: tokens at 0.5 and 0.75, then at 2 and 2.25 s.
  CHECK(result.requests[0].finish == 2.25);
  CHECK(result.numbers.faults.recomputed == 11);
}

TEST_CASE("faults: while no instance is there, requests wait for one; if none comes back, they end unserved") {
  cluster_options o = toy_cluster(2, 100);
  const std::vector<trace_row> rows{row(0, 10, 0, 8), row(3, 10, 0, 1), row(30, 10, 0, 1)};
  o.faults = {death(0, 1.125), death(1, 1.5, 6.5)};
  const run_result result = simulate(o, rows);
  tessera_test::check_served(result, rows);
  // It is sent to 1 at 2.125 s, which is known to be dead at 2.5 s and back at 8 s. The second's prompt is in a step of
  // it.
  CHECK(result.requests[0].finish == 8.5 + 0.5 + 3 * 0.25);
  CHECK(result.requests[0].recoveries == 1);
  CHECK(result.requests[1].finish == 9);
  CHECK(result.requests[2].finish == 30.5);

  o.faults = {death(0, 1.125), death(1, 1.5)};
  const run_result none = simulate(o, rows);
  for (const request_record& r : none.requests) {
    CHECK(!r.rejected);
    CHECK(!r.completed());
  }
  CHECK(none.requests[0].first_token == 0.5);
  CHECK(none.requests[2].arrival == 30);
  CHECK(none.numbers.completed == 0);
  CHECK(none.numbers.rejected == 0);
  // Alarms do not keep such a run alive.
  sim::cluster_of<fcfs<request>, sim::controlled> alarmed{o, {}, tessera_test::llumnix_control()};
  CHECK(alarmed.run(rows, quiet).numbers.completed == 0);
  // Nor are there any while all wait for an instance that is long in coming.
  o.faults = {death(0, 1.125, 1e12), death(1, 1.5, 1e12)};
  sim::cluster_of<fcfs<request>, sim::controlled> waiting{o, {}, tessera_test::llumnix_control()};
  CHECK(waiting.run(rows, quiet).numbers.completed == rows.size());
}

TEST_CASE("faults: a request that waits for an instance, or with one that has died unnoticed, waits") {
  std::vector<trace_row> rows;
  for (int i = 0; i < 600; ++i) rows.push_back(row(i, 20, 0, 2));
  auto options = toy_cluster(2, 1000);
  options.timeline_interval_s = 1;
  const auto waiting_at = [&](double s) {
    const run_result r = simulate(options, rows);
    CHECK(r.numbers.load.state == sim::load_state::overload);
    for (const sim::timeline_point& p : r.timeline) {
      if (p.time >= s) return p.waiting;
    }
    return 0.0;
  };
  options.faults = {death(0, 200, 350), death(1, 200, 350)};
  CHECK(waiting_at(500) >= 295);  // one a second
  options.faults = {death(0, 200)};
  options.detection_s = 340;
  CHECK(waiting_at(500) >= 295);
}

TEST_CASE("faults: one that is dead does not die again") {
  cluster_options o = toy_cluster(1, 100);
  o.faults = {death(0, 1, 4), death(0, 2, 50), {.kind = fault_kind::hangs, .instance = 0, .at_s = 3, .for_s = 50}};
  const std::vector<trace_row> rows{row(1.5, 10, 0, 1), row(20, 10, 0, 1)};
  const run_result result = simulate(o, rows);
  CHECK(result.numbers.faults.deaths == 1);
  CHECK(result.requests[0].finish == 5.5);
  CHECK(result.requests[1].finish == 20.5);
}

TEST_CASE("faults: an instance that hangs ends no step, and loses nothing") {
  cluster_options o = toy_cluster(1, 100);
  o.faults = {{.kind = fault_kind::hangs, .instance = 0, .at_s = 0.625, .for_s = 10},
              {.kind = fault_kind::hangs, .instance = 0, .at_s = 5, .for_s = 3},  // it hangs already
              {.kind = fault_kind::hangs, .instance = 0, .at_s = 20, .for_s = 4}};
  const std::vector<trace_row> rows{row(0, 10, 0, 4), row(3, 10, 0, 1), row(21, 10, 0, 1)};
  const run_result result = simulate(o, rows);
  tessera_test::check_served(result, rows);
  CHECK(result.requests[0].first_token == 0.5);
  // Its steps end at 10.75, 11.25 (with the second's prompt) and 11.5 s.
  CHECK(result.requests[0].finish == 11.5);
  CHECK(result.requests[1].finish == 11.25);
  CHECK(result.requests[2].first_scheduled == 24);  // no step begins, either
  CHECK(result.requests[2].finish == 24.5);
  CHECK(result.numbers.faults.deaths == 0);
}

TEST_CASE("faults: steps that begin while an instance is slow take longer") {
  cluster_options o = toy_cluster(1, 100);
  o.faults = {{.kind = fault_kind::slows, .instance = 0, .at_s = 0.625, .for_s = 1, .factor = 2},
              {.kind = fault_kind::slows, .instance = 0, .at_s = 1, .for_s = 0.375, .factor = 3}};
  const std::vector<trace_row> rows{row(0, 10, 0, 5)};
  const run_result result = simulate(o, rows);
  // Steps end at 0.5 and 0.75. One takes twice as long, to 1.25, and one six times, to 2.75. From then on they are as
  // always.
  CHECK(result.requests[0].finish == 3);
}

TEST_CASE("faults: one that moves to an instance that dies goes on where it was, once that is known") {
  cluster_options o = toy_cluster(2, 100);
  o.fabric_bytes_per_s = 10;  // a second for the ten tokens
  o.faults = {death(1, 1)};
  const std::vector<trace_row> rows{row(0, 10, 1, 2)};
  const run_result result = simulate<to_the_other>(o, rows);
  tessera_test::check_served(result, rows);
  CHECK(result.requests[0].phase_change == 0.5);
  CHECK(result.requests[0].answer_scheduled == 2);
  CHECK(result.requests[0].finish == 2.5);
  CHECK(result.requests[0].instance == 0);
  CHECK(result.requests[0].migrations == 0);
  CHECK(result.requests[0].recoveries == 0);
  CHECK(computed(result) == 12);  // with the KV that it has
}

TEST_CASE("faults: one that moves away from an instance that dies is lost with it, until it goes on elsewhere") {
  cluster_options o = toy_cluster(2, 100);
  o.fabric_bytes_per_s = 10;
  const std::vector<trace_row> rows{row(0, 10, 1, 2)};
  o.faults = {death(0, 1)};
  const run_result lost = simulate<to_the_other>(o, rows);
  tessera_test::check_served(lost, rows);
  CHECK(lost.requests[0].recoveries == 1);
  CHECK(lost.requests[0].instance == 1);
  CHECK(lost.requests[0].finish == 2.75);  // from 2 s: 11 tokens, then one
  CHECK(lost.numbers.faults.recomputed == 10);
  o.faults = {death(0, 1.625)};  // it is there at 1.5 s
  const run_result moved = simulate<to_the_other>(o, rows);
  tessera_test::check_served(moved, rows);
  CHECK(moved.requests[0].recoveries == 0);
  CHECK(moved.requests[0].finish == 2);
}

/// On the first of those that there are; a request that has a token is sent to another, between any two steps.
struct restless {
  template <class C>
  std::size_t place(C& c, const request& r) const {
    return c.candidates(r).front().id;
  }
  template <class C>
  void step_ended(C& c, std::size_t i) const {
    for (request& r : c.requests()) {
      if (r.where != i || r.state().life != lifecycle::resident || r.generated() == tokens{}) continue;
      const bool again = r.prefills;
      const bool goes = c.migrate(r, (i + 1) % c.size());
      if (again) CHECK_FALSE(goes);
      *asked += again ? 1 : 0;
      *went += goes ? 1 : 0;
    }
  }
  int* asked = nullptr;
  int* went = nullptr;
};

TEST_CASE("faults: a request with its prompt computed again stays until it has its next token") {
  cluster_options o = toy_cluster(3, 60);
  o.instance.step.token_budget = tokens{16};  // in chunks
  o.detection_s = 0.5;
  o.faults = {death(0, 6)};
  std::vector<trace_row> rows;
  for (int i = 0; i != 6; ++i) rows.push_back(row(0.5 * i, 40, 0, 40));
  int asked = 0;
  int went = 0;
  restless control;
  control.asked = &asked;
  control.went = &went;
  sim::cluster_of<fcfs<request>, restless> c{o, {}, control};
  const run_result r = c.run(rows, quiet);
  tessera_test::check_served(r, rows);
  CHECK(r.numbers.faults.recovered > 0);
  CHECK(asked > 0);
  CHECK(went > 0);
}

TEST_CASE("faults: deaths without a plan are those of the seed, and each instance has its own") {
  const auto few = sim::random_deaths(3, 10, 1010, 50, 5, 7);
  const auto many = sim::random_deaths(30, 10, 1010, 50, 5, 7);
  double up = 0;
  double down = 0;
  std::vector<double> back(30, 10);
  double at = 10;
  for (const fault& f : many) {
    CHECK(f.kind == fault_kind::dies);
    CHECK(f.at_s >= at);
    CHECK(f.at_s < 1010);
    CHECK(f.at_s > back[f.instance]);
    at = f.at_s;
    up += f.at_s - back[f.instance];
    down += f.for_s;
    back[f.instance] = f.at_s + f.for_s;
  }
  const auto n = static_cast<double>(many.size());
  CHECK(std::abs(up / n - 50) < 10);
  CHECK(std::abs(down / n - 5) < 1);
  std::size_t same = 0;
  for (const fault& f : many) same += f.instance < 3 ? 1U : 0U;
  CHECK(same == few.size());
  CHECK(sim::random_deaths(3, 10, 1010, 50, 5, 8).front().at_s != few.front().at_s);
}

std::string refusal(std::string_view text) {
  try {
    static_cast<void>(sim::parse_fault(text));
  } catch (const sim::usage_error& e) {
    return e.what();
  }
  return {};
}

TEST_CASE("faults: as the command line says them") {
  const fault a = sim::parse_fault("die:3@120+60");
  CHECK(a.kind == fault_kind::dies);
  CHECK(a.instance == 3);
  CHECK(a.at_s == 120);
  CHECK(a.for_s == 60);
  CHECK(sim::parse_fault("die:3@1.5").for_s == for_ever);
  const fault b = sim::parse_fault("hang:0@1e3+0.5");
  CHECK(b.kind == fault_kind::hangs);
  CHECK(b.at_s == 1000);
  const fault c = sim::parse_fault("slow:12@0+60x2.5");
  CHECK(c.kind == fault_kind::slows);
  CHECK(c.instance == 12);
  CHECK(c.factor == 2.5);
  for (const char* wrong : {"",
                            "die",
                            "die:",
                            "die:x@1",
                            "die:-1@1",
                            "die:1",
                            "die:1@",
                            "die:1@1+",
                            "die:1@1+0",
                            "die:1@nan",
                            "die:1@inf",
                            "die:1@1+-5",
                            "die:1@1+5x2",
                            "hang:1@1",
                            "hang:1@1+inf",
                            "slow:1@1+5",
                            "slow:1@1+5x0",
                            "slow:1@1+5x",
                            "slow:1@1",
                            "burn:1@1+5",
                            "die:1@1+5 ",
                            " die:1@1",
                            "hang:1@1+1e5",
                            "die:1@-1",
                            "die:1@1e10",
                            "die:1@1+1e10",
                            "slow:1@1+5x0.5",
                            "slow:1@1+5x1e7",
                            "slow:1@1+5xnan"}) {
    CAPTURE(wrong);
    CHECK(refusal(wrong).find("expected die:INSTANCE@SECONDS") != std::string::npos);
  }
  CHECK(refusal("hang:1@1").find("does not say how long") != std::string::npos);
}

TEST_CASE("unlike instances: each has its own memory and speed, and is sent only what fits") {
  cluster_options o = toy_cluster(2, 100);
  o.each = {o.instance, o.instance};
  o.each[0].limits.blocks = 4;  // 64 tokens
  sim::profile slow = tessera_test::toy_profile();
  slow.measured.decode = {{1, 1, 1}};
  slow.measured.prefill = {{1, 2}};
  o.each[1].timer = sim::step_timer{slow};
  const std::vector<trace_row> rows{row(0, 10, 0, 2), row(0, 60, 0, 6), row(0, 60, 0, 5), row(10, 2000, 0, 1)};
  const run_result result = simulate(o, rows);
  CHECK(result.requests[0].instance == 0);
  CHECK(result.requests[0].first_token == 0.5);
  CHECK(result.requests[1].instance == 1);  // 65 tokens of KV
  CHECK(result.requests[1].first_token == 2);
  CHECK(result.requests[1].finish == 7);
  CHECK(result.requests[2].instance == 0);
  CHECK(result.requests[3].rejected);
  CHECK(result.numbers.completed == 3);
  // While the only one that is large enough is dead, what needs it waits for it; if it stays dead, it is never served.
  o.faults = {death(1, 0.125, 20)};
  const run_result later = simulate(o, rows);
  CHECK(later.requests[1].first_token == 22.125);
  CHECK(later.requests[3].rejected);
  o.faults = {death(1, 0.125)};
  const run_result never = simulate(o, rows);
  CHECK(!never.requests[1].completed());
  CHECK(!never.requests[1].rejected);
  CHECK(never.requests[2].completed());
}

TEST_CASE("unlike instances: nothing moves to where it does not fit") {
  cluster_options o = toy_cluster(2, 100);
  o.each = {o.instance, o.instance};
  o.each[1].limits.blocks = 4;
  const std::vector<trace_row> rows{row(0, 40, 2, 4), row(0, 40, 2, 30)};
  const run_result result = simulate<to_the_other>(o, rows);
  tessera_test::check_served(result, rows);
  CHECK(result.requests[0].instance == 1);
  CHECK(result.requests[1].instance == 0);
}

}  // namespace
