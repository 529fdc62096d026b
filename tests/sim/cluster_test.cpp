// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/admit/future_peak.hpp>
#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/compose/round_robin.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/report/report.hpp>

#include "sim/toy_profile.hpp"
#include "support/catch.hpp"
#include "support/in_turn.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using sim::cluster_of;
using sim::cluster_options;
using sim::request;
using sim::request_record;
using sim::run_result;
using sim::step_shape;
using sim::trace_row;
using tessera_test::approx;
using tessera_test::row;
using tessera_test::toy_cluster;

constexpr auto quiet = [](std::size_t) {};

template <class Scheduler, class Placement = placement::least_load, class Migration = placement::stay>
run_result simulate(const cluster_options& o, const std::vector<trace_row>& rows,
                    const typename Scheduler::config& config = {}, const Placement& placement = {},
                    const Migration& migration = {}) {
  return cluster_of<Scheduler, sim::placed<Placement, Migration>>{o, config, {placement, migration}}.run(rows, quiet);
}

/// Rows with lengths and arrivals that make memory bind or not, depending on the blocks; some arrive at once.
std::vector<trace_row> random_rows(std::uint64_t seed, std::size_t n, double gap) {
  std::mt19937_64 random{seed};
  std::vector<trace_row> rows;
  double at = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (random() % 4 != 0) at += std::exponential_distribution<double>{1 / gap}(random);
    const auto upto = [&](std::uint64_t most) { return static_cast<std::int64_t>(random() % (most + 1)); };
    const std::int64_t reasoning = random() % 3 == 0 ? 0 : upto(60);
    rows.push_back(row(at, 1 + upto(99), reasoning, std::max<std::int64_t>(upto(80), reasoning == 0 ? 1 : 0)));
  }
  return rows;
}

/// What must hold of any run.
void check_invariants(const run_result& result, const std::vector<trace_row>& rows) {
  REQUIRE(result.requests.size() == rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const request_record& r = result.requests[i];
    CAPTURE(i);
    CHECK(r.id == i);  // each ends exactly once
    CHECK(r.arrival == rows[i].arrival_s);
    CHECK(r.prompt_tokens == rows[i].prompt_tokens);
    CHECK(r.output_tokens() == rows[i].output_tokens);
    if (r.rejected) {
      CHECK(!r.completed());
      CHECK(std::isnan(r.first_scheduled));
      CHECK(std::isnan(r.qoe));
      CHECK(r.executed == 0);
      continue;
    }
    CHECK(r.completed());
    CHECK(r.answer_tokens >= 1);
    CHECK(r.arrival <= r.first_scheduled);
    CHECK(r.first_scheduled < r.first_token);
    CHECK(r.first_token <= r.first_answer);
    CHECK(r.first_answer <= r.finish);
    CHECK(r.answer_scheduled < r.first_answer);
    CHECK(r.executed > 0);
    CHECK(r.blocked >= 0);
    CHECK(r.preempted >= 0);
    CHECK((r.preempted == 0 || r.preemptions > 0));
    CHECK(r.executed + r.blocked + r.preempted == approx(r.finish - r.arrival).epsilon(1e-9));
    CHECK(r.qoe >= 0);
    CHECK(r.qoe <= 1);
    if (r.reasoning_tokens == 0) {
      CHECK(r.phase_change == r.arrival);
      CHECK(r.first_answer == r.first_token);
      CHECK(r.answer_scheduled == r.first_scheduled);
    } else {
      CHECK(r.first_token <= r.phase_change);
      CHECK(r.phase_change <= r.answer_scheduled);
    }
    if (r.answer_tokens == 1) CHECK(r.first_answer == r.finish);
  }
  CHECK(result.numbers.requests == rows.size());
  CHECK(result.numbers.completed + result.numbers.rejected == rows.size());
  CHECK(result.numbers.fragmentation_mean >= 0);
  CHECK(result.numbers.fragmentation_mean <= result.numbers.fragmentation_peak);
  CHECK(result.numbers.fragmentation_peak <= 1);
  REQUIRE(!result.timeline.empty());
  CHECK(result.timeline.size() <= sim::max_timeline_points);
  CHECK(result.timeline.front().time == rows.front().arrival_s);
  for (std::size_t i = 0; i < result.timeline.size(); ++i) {
    const sim::timeline_point& p = result.timeline[i];
    if (i > 0) CHECK(result.timeline[i - 1].time < p.time);
    CHECK(p.running >= 0);
    CHECK(p.running + p.waiting <= static_cast<double>(rows.size()));
    CHECK(p.kv_used >= 0);
    CHECK(p.kv_used <= 1);
  }
}

TEST_CASE("the host's time with a request delays it and keeps the device free", "[sim]") {
  cluster_options o = toy_cluster(1, 1000);
  const std::vector<trace_row> rows{row(1, 10, 0, 4), row(1.125, 10, 0, 4), row(30, 10, 0, 1)};
  const run_result without = simulate<fcfs<request>>(o, rows);
  o.host_request_seconds = 0.5;
  const run_result with = simulate<fcfs<request>>(o, rows);
  for (std::size_t i = 0; i != rows.size(); ++i) {
    const request_record& a = without.requests[i];
    const request_record& b = with.requests[i];
    CHECK(b.arrival == rows[i].arrival_s);
    CHECK(b.first_token - a.first_token == 0.5);
    CHECK(b.e2e() - a.e2e() == 0.5);
    CHECK(b.executed == a.executed);
  }
  CHECK(with.instances[0].busy_s == without.instances[0].busy_s);
}

TEST_CASE("cluster: one request alone") {
  const sim::profile& h100 = sim::profiles().front();
  auto options = toy_cluster(1, 100, h100);
  options.instance.step.token_budget = tokens{64};
  const sim::step_timer timer{h100};
  const auto step = [&](bool prefill, std::int64_t first, std::int64_t count) {
    step_shape s;
    prefill ? s.add_prefill(tokens{first}, tokens{count}) : s.add_decode(tokens{first + count});
    return timer(s);
  };
  const std::vector<trace_row> rows{row(3, 100, 2, 4)};
  const run_result result = simulate<fcfs<request>>(options, rows);
  check_invariants(result, rows);
  const request_record& r = result.requests[0];
  const double first = step(true, 0, 64) + step(true, 64, 36);
  const double reasoned = first + step(false, 100, 1);
  const double answers = reasoned + step(false, 101, 1);
  const double all = answers + step(false, 102, 1) + step(false, 103, 1) + step(false, 104, 1);
  CHECK(r.first_scheduled == 3);
  CHECK(r.first_token == approx(3 + first).epsilon(1e-12));
  CHECK(r.phase_change == approx(3 + reasoned).epsilon(1e-12));
  CHECK(r.answer_scheduled == r.phase_change);
  CHECK(r.ttft() == approx(answers).epsilon(1e-12));
  CHECK(r.tpot() == approx((all - answers) / 3).epsilon(1e-12));
  CHECK(r.e2e() == approx(all).epsilon(1e-12));
  CHECK(r.executed == approx(all).epsilon(1e-12));
  CHECK(r.blocked == approx(0).margin(1e-12));
  CHECK(r.blocking() == 0);
  CHECK(r.preempted == 0);
  CHECK(r.qoe == 1);
  CHECK(result.numbers.ttft.mean == r.ttft());
  CHECK(result.numbers.throughput_tokens_per_s == approx(6 / all));
}

TEST_CASE("cluster: what is measured is who arrives in the window, and what is generated while it lasts") {
  // One token a request, a step of half a second for each: at 1, 3, 5, ... 19 s.
  std::vector<trace_row> rows;
  for (int i = 0; i != 10; ++i) rows.push_back(row(1 + 2 * i, 10, 0, 1));
  auto options = toy_cluster(1, 100);
  run_result all = simulate<fcfs<request>>(options, rows);
  check_invariants(all, rows);
  CHECK(all.window.from == 1);
  CHECK(all.window.to == 19);
  CHECK(all.numbers.measured == 10);
  CHECK(all.numbers.window_s == 18);
  CHECK(all.numbers.window_tokens_per_s == approx(9 / 18.0));  // the last token comes at 19.5 s
  CHECK(all.numbers.throughput_tokens_per_s == approx(10 / 18.5));

  options.warmup_s = 4.25;  // from 5.25: the token of the arrival at 5 s falls into it
  options.drain_s = 3;      // to 16
  const run_result some = simulate<fcfs<request>>(options, rows);
  check_invariants(some, rows);
  CHECK(some.window.from == 5.25);
  CHECK(some.window.to == 16);
  CHECK(some.numbers.requests == 10);
  CHECK(some.numbers.completed == 10);
  CHECK(some.numbers.measured == 5);  // at 7, 9, 11, 13, 15
  CHECK(some.numbers.ttft.count == 5);
  CHECK(some.numbers.window_tokens_per_s == approx(6 / 10.75));
  CHECK(some.numbers.throughput_tokens_per_s == all.numbers.throughput_tokens_per_s);

  // A closed loop ends when its last request arrives.
  options.warmup_s = options.drain_s = 0;
  options.in_flight = 1;
  const run_result closed = simulate<fcfs<request>>(options, rows);
  CHECK(closed.window.from == 1);
  CHECK(closed.window.to == 1 + 9 * 0.5);
  CHECK(closed.numbers.measured == 10);
  CHECK(closed.numbers.window_tokens_per_s == approx(9 / 4.5));
}

TEST_CASE("cluster: an arrival during a step waits for its end") {
  const std::vector<trace_row> rows{row(0, 10, 0, 4), row(0.6, 10, 0, 1)};
  const run_result result = simulate<fcfs<request>>(toy_cluster(1, 100), rows);
  check_invariants(result, rows);
  CHECK(result.requests[1].first_scheduled == 0.75);
  CHECK(result.requests[1].finish == 1.25);
  CHECK(result.requests[1].blocked == approx(0.15));
  CHECK(result.requests[0].finish == 1.5);  // 0.5 + 0.25 + 0.5 with the prompt + 0.25
  CHECK(result.requests[0].blocked == 0);
}

TEST_CASE("cluster: at equal times arrivals come before ends of steps") {
  const std::vector<trace_row> rows{row(0, 10, 0, 3), row(0.5, 10, 0, 2), row(0.5, 10, 0, 2)};
  const run_result result = simulate<fcfs<request>>(toy_cluster(1, 100), rows);
  check_invariants(result, rows);
  CHECK(result.requests[1].first_scheduled == 0.5);
  CHECK(result.requests[2].first_scheduled == 0.5);
  CHECK(result.requests[0].finish == 1.25);
  CHECK(result.requests[1].finish == 1.25);
}

/// Sends every answer from instance 0 to instance 1, and the other way round, and writes down who asked.
struct swap_sides {
  std::vector<std::size_t>* asked = nullptr;
  template <placement::instance_views V>
  std::size_t operator()(const V&, std::size_t current, blocks, blocks) const {
    if (asked != nullptr) asked->push_back(current);
    return 1 - current;
  }
};

TEST_CASE("cluster: a migration takes the time of its KV on the fabric") {
  auto options = toy_cluster(2, 100);
  options.fabric_bytes_per_s = 100;
  options.kv_bytes_per_token = 2;
  const std::vector<trace_row> rows{row(1, 30, 2, 3)};
  const run_result result = simulate<fcfs<request>, placement::least_load, swap_sides>(options, rows, {}, {}, {});
  check_invariants(result, rows);
  const request_record& r = result.requests[0];
  CHECK(r.instance == 1);
  CHECK(r.migrations == 1);
  CHECK(r.phase_change == 1.75);
  // 31 tokens have KV: 62 bytes at 100 a second. Not prefilled again.
  CHECK(r.answer_scheduled == approx(1.75 + 0.62));
  CHECK(r.first_answer == approx(1.75 + 0.62 + 0.25));
  CHECK(r.finish == approx(1.75 + 0.62 + 0.75));
  CHECK(r.blocked == approx(0.62));
  CHECK(r.preempted == 0);
  CHECK(result.numbers.migrations == 1);
  CHECK(result.numbers.kv_transfer_p99 == approx(0.62));
}

TEST_CASE("cluster: at equal times ends of transfers come before ends of steps, steps by instance") {
  auto options = toy_cluster(2, 100);
  options.fabric_bytes_per_s = 40;
  {  // Ten tokens cross in 0.25 s and arrive at 0.75 s, when a step of the other instance ends.
    const std::vector<trace_row> rows{row(0, 10, 1, 2), row(0, 10, 0, 10)};
    const run_result result = simulate<fcfs<request>, placement::least_load, swap_sides>(options, rows);
    check_invariants(result, rows);
    CHECK(result.requests[0].phase_change == 0.5);
    CHECK(result.requests[0].instance == 1);
    CHECK(result.requests[0].answer_scheduled == 0.75);
    CHECK(result.requests[0].finish == 1.25);
    CHECK(result.requests[1].finish == 2.75);
  }
  {
    const std::vector<trace_row> rows{row(0, 10, 1, 2), row(0, 10, 1, 2)};
    std::vector<std::size_t> asked;
    const run_result result =
        simulate<fcfs<request>, placement::least_load, swap_sides>(options, rows, {}, {}, {.asked = &asked});
    check_invariants(result, rows);
    CHECK(asked == std::vector<std::size_t>{0, 1});
    CHECK(result.requests[0].finish == 1.25);
    CHECK(result.requests[1].finish == 1.25);
  }
}

/// Writes down what placement sees, and places by it.
struct watching {
  std::vector<std::vector<sim::instance_view>>* seen = nullptr;
  template <placement::instance_views V>
  std::size_t operator()(const V& views) const {
    seen->push_back({views.begin(), views.end()});
    return placement::least_load{}(views);
  }
};

TEST_CASE("cluster: placement sees what is on its way as already there") {
  auto options = toy_cluster(2, 100);
  options.fabric_bytes_per_s = 1;  // ten seconds for ten tokens
  std::vector<std::vector<sim::instance_view>> seen;
  const std::vector<trace_row> rows{row(0, 10, 1, 2), row(1, 20, 0, 2), row(1, 40, 0, 2), row(12, 10, 0, 1)};
  const run_result result = simulate<fcfs<request>, watching, swap_sides>(options, rows, {}, {.seen = &seen}, {});
  check_invariants(result, rows);
  REQUIRE(seen.size() == 4);
  for (const auto& view : seen[0]) {
    CHECK(view.kv_held == blocks{0});
    CHECK(view.free_blocks == blocks{100});
    CHECK(view.requests == 0);
  }
  CHECK(seen[0][1].id == 1);
  // The first crosses to instance 1 from 0.5 s to 10.5 s, with 11 tokens: one block.
  CHECK(seen[1][0].kv_held == blocks{1});  // until its copy is there
  CHECK(seen[1][0].free_blocks == blocks{99});
  CHECK(seen[1][0].requests == 0);
  CHECK(seen[1][1].kv_held == blocks{1});
  CHECK(seen[1][1].free_blocks == blocks{99});
  CHECK(seen[1][1].requests == 1);
  // The second began at once on instance 0, so the third goes to 1, although a request is on its way there.
  CHECK(seen[2][0].kv_held == blocks{3});
  CHECK(seen[2][0].requests == 1);
  CHECK(result.requests[1].instance == 0);
  CHECK(result.requests[2].instance == 1);
  // All done by 12 s.
  CHECK(seen[3][0].kv_held == blocks{0});
  CHECK(seen[3][1].kv_held == blocks{0});
  CHECK(seen[3][1].requests == 0);
}

TEST_CASE("cluster: least-KV placement spreads") {
  std::vector<trace_row> rows;
  for (int i = 0; i < 12; ++i) rows.push_back(row(0, 20, 0, 5));
  const run_result result = simulate<fcfs<request>>(toy_cluster(4, 100), rows);
  check_invariants(result, rows);
  std::map<std::uint32_t, int> on;
  for (const request_record& r : result.requests) ++on[r.instance];
  CHECK(on == std::map<std::uint32_t, int>{{0, 3}, {1, 3}, {2, 3}, {3, 3}});
}

TEST_CASE("cluster: while little is to be done, requests go to all instances in turn") {
  std::vector<trace_row> rows;
  for (int i = 0; i < 12; ++i) rows.push_back(row(10.0 * i, 20, 3, 5));
  const auto in_turn = [&](const run_result& result) {
    check_invariants(result, rows);
    for (const request_record& r : result.requests) CHECK(r.instance == r.id % 4);
  };
  const auto options = toy_cluster(4, 100);
  in_turn(simulate<fcfs<request>>(options, rows));
  in_turn(simulate<fcfs<request>, placement::least_load>(options, rows));
  in_turn(simulate<pascal<request>, placement::pascal_arrival>(options, rows));
  // Those that begin to answer move in turn as well.
  const run_result moved =
      simulate<pascal<request>, placement::pascal_arrival, placement::pascal_migrate_always>(options, rows);
  std::map<std::uint32_t, int> on;
  for (const request_record& r : moved.requests) ++on[r.instance];
  CHECK(on.size() == 4);
}

TEST_CASE("cluster: what never fits is recorded as rejected, the rest runs") {
  const std::vector<trace_row> rows{row(0, 10, 0, 3), row(0, 60, 0, 6), row(0.1, 60, 3, 2), row(0.2, 10'000, 0, 1)};
  const run_result result = simulate<fcfs<request>>(toy_cluster(1, 4), rows);
  check_invariants(result, rows);
  CHECK(!result.requests[0].rejected);
  CHECK(result.requests[1].rejected);  // 65 tokens of KV in 64
  CHECK(!result.requests[2].rejected);
  CHECK(result.requests[3].rejected);
  CHECK(std::isnan(result.requests[3].ttft()));
  CHECK(result.numbers.rejected == 2);
  CHECK(result.numbers.completed == 2);
  // Nothing but rejected ones.
  const std::vector<trace_row> none{row(0, 100, 0, 1), row(1, 100, 5, 5)};
  const run_result nothing = simulate<fcfs<request>>(toy_cluster(2, 4), none);
  check_invariants(nothing, none);
  CHECK(nothing.numbers.completed == 0);
  CHECK(nothing.numbers.throughput_tokens_per_s == 0);
}

/// Writes down what requests say, and places them on the first.
struct reads_limits {
  std::vector<tokens>* limits = nullptr;
  template <class C>
  std::size_t place(C&, const request& r) const {
    limits->push_back(r.max_output);
    return 0;
  }
};

TEST_CASE("cluster: requests say the limit of their answers, not their lengths, unless a flag says so") {
  const std::vector<trace_row> rows{row(0, 10, 0, 3), row(0.1, 60, 2, 4), row(0.2, 65, 0, 1), row(0.3, 63, 0, 9),
                                    row(0.4, 20, 8, 2)};
  const auto said = [&](tokens max_length, tokens max_output, bool knows) {
    auto o = toy_cluster(1, 5);  // 80 tokens
    o.instance.limits.max_length = max_length;
    o.max_output = max_output;
    o.knows_lengths = knows;
    std::vector<tokens> limits;
    cluster_of<fcfs<request>, reads_limits> c{o, {}, {.limits = &limits}};
    const run_result result = c.run(rows, quiet);
    std::vector<std::int64_t> out;
    for (const tokens t : limits) out.push_back(t.count());
    std::vector<bool> rejected;
    for (const request_record& r : result.requests) rejected.push_back(r.rejected);
    return std::tuple{out, rejected, result.requests[4].reasoning_tokens, result.requests[4].answer_tokens};
  };
  using limits = std::vector<std::int64_t>;
  const std::vector<bool> all_fit(5, false);
  // What the memory leaves, with the last token that needs no room; what the longest sequence leaves.
  CHECK(said({}, {}, false) == std::tuple{limits{71, 21, 16, 18, 61}, all_fit, 8, 2});
  CHECK(said(tokens{70}, {}, false) == std::tuple{limits{61, 11, 6, 9, 51}, std::vector<bool>{0, 0, 0, 1, 0}, 8, 2});
  CHECK(said({}, {}, true) == std::tuple{limits{3, 6, 1, 9, 10}, all_fit, 8, 2});
  // A limit that some have no room for keeps none out; one below the length of an answer cuts it off.
  CHECK(said({}, tokens{20}, false) == std::tuple{limits{20, 20, 16, 18, 20}, all_fit, 8, 2});
  CHECK(said(tokens{70}, tokens{4}, false) == std::tuple{limits{4, 4, 4, 4, 4}, all_fit, 3, 1});
}

TEST_CASE("cluster: nobody is refused for its limit alone, and an admission by limits sees no lengths") {
  using careful = iteration_scheduler<request, order::fcfs, preempt::swap, admit::future_peak>;
  std::mt19937_64 random{21};
  std::size_t differ = 0;
  for (int round = 0; round < 40; ++round) {
    const auto rows = random_rows(random(), 60, 0.2);
    auto o = toy_cluster(2, 12 + random() % 60);
    if (round % 2 == 0) o.instance.limits.max_length = tokens{static_cast<std::int64_t>(20 + random() % 300)};
    const run_result as_served = simulate<careful>(o, rows);
    o.knows_lengths = true;
    const run_result as_known = simulate<careful>(o, rows);
    REQUIRE(as_served.requests.size() == as_known.requests.size());
    for (std::size_t i = 0; i != rows.size(); ++i)
      CHECK(as_served.requests[i].rejected == as_known.requests[i].rejected);
    CHECK(as_served.numbers.completed == as_known.numbers.completed);
    CHECK(as_served.numbers.preemptions <= as_known.numbers.preemptions);
    differ += sim::format_csv(as_served) != sim::format_csv(as_known) ? 1U : 0U;
    // Who does not look at the limit runs as before.
    auto plain = o;
    plain.knows_lengths = false;
    CHECK(sim::format_csv(simulate<fcfs<request>>(plain, rows)) == sim::format_csv(simulate<fcfs<request>>(o, rows)));
  }
  CHECK(differ > 10);
}

TEST_CASE("cluster: no requests at all") {
  const run_result result = simulate<fcfs<request>>(toy_cluster(2, 4), {});
  CHECK(result.requests.empty());
  CHECK(result.numbers.requests == 0);
  CHECK(std::isnan(result.numbers.ttft.mean));
}

TEST_CASE("cluster: a request that was cut off while it reasoned answers with its last token") {
  const std::vector<trace_row> rows{row(0, 10, 5, 0), row(0, 10, 1, 0), row(0, 10, 0, 1)};
  const run_result result = simulate<pascal<request>>(toy_cluster(3, 100), rows);
  REQUIRE(result.requests.size() == 3);
  const request_record& r = result.requests[0];
  CHECK(r.reasoning_tokens == 4);
  CHECK(r.answer_tokens == 1);
  CHECK(r.phase_change == 1.25);
  CHECK(r.first_answer == 1.5);
  CHECK(r.finish == 1.5);
  CHECK(std::isnan(r.tpot()));
  CHECK(result.requests[1].reasoning_tokens == 0);
  CHECK(result.requests[1].finish == 0.5);
  CHECK(result.requests[2].first_answer == 0.5);
  CHECK(std::isnan(result.requests[2].blocking()));
}

TEST_CASE("cluster: fragmentation is the part of the blocks that is free and of no use") {
  auto options = toy_cluster(1, 10);
  // Prompts of 64 tokens: free blocks are stranded below 4 + 1. The first holds 6 of 10, so 4 are, until it ends.
  const std::vector<trace_row> rows{row(0, 64, 0, 33), row(8.5, 64, 0, 1)};
  const run_result result = simulate<fcfs<request>>(options, rows);
  check_invariants(result, rows);
  CHECK(result.requests[0].finish == 0.5 + 32 * 0.25);
  CHECK(result.numbers.fragmentation_peak == approx(0.4));
  // Four blocks for the prompt's step, five for 16, six for the last 16: 4 of them (0.4) free in the last 4 s of 9.
  CHECK(result.numbers.fragmentation_mean == approx(4 * 0.4 / 9));
  // An instance that never had room for the demand is stranded as a whole, busy or not.
  const std::vector<trace_row> one{row(0, 16, 0, 2), row(0, 200, 0, 1), row(0, 200, 0, 1)};
  CHECK(simulate<fcfs<request>>(toy_cluster(3, 2), one).numbers.fragmentation_peak == approx(5.0 / 6));
}

TEST_CASE("cluster: the timeline of a run of any length has a bounded number of samples") {
  const std::vector<trace_row> rows{row(0, 10, 0, 40), row(5e4, 10, 0, 4), row(1e8, 10, 0, 4), row(1e9, 10, 0, 40)};
  const run_result result = simulate<fcfs<request>>(toy_cluster(2, 100), rows);
  check_invariants(result, rows);
  const auto& line = result.timeline;
  CHECK(line.size() > sim::max_timeline_points / 4);
  CHECK(line.back().time > 0.99e9);
  const double interval = line[1].time - line[0].time;
  for (std::size_t i = 1; i < line.size(); ++i) REQUIRE(line[i].time == static_cast<double>(i) * interval);
  // A short run keeps the interval asked for.
  auto options = toy_cluster(2, 100);
  options.timeline_interval_s = 0.5;
  const std::vector<trace_row> brief{row(2, 10, 0, 9)};
  const run_result few = simulate<fcfs<request>>(options, brief);
  REQUIRE(few.timeline.size() == 6);  // 2 to 4.5 s
  CHECK(few.timeline[0].running == 0);
  CHECK(few.timeline[0].waiting == 0);
  CHECK(few.timeline[1].time == 2.5);
  CHECK(few.timeline[1].running == 1);
  CHECK(few.timeline[1].waiting == 0);
  CHECK(few.timeline[1].kv_used == approx(1.0 / 200));
  CHECK(few.timeline[5].running == 1);
}

TEST_CASE("cluster: very late arrivals with migrations come to an end") {
  std::vector<trace_row> rows;
  for (int i = 0; i < 20; ++i) rows.push_back(row(i * 4.9e7 + 1.0 / 3, 30 + i, 2, 3));
  auto options = toy_cluster(3, 100, sim::profiles().front());
  options.fabric_bytes_per_s = 12.5e9;
  options.kv_bytes_per_token = 262144;
  const run_result result =
      simulate<pascal<request>, placement::pascal_arrival, placement::pascal_migrate_always>(options, rows);
  check_invariants(result, rows);
  CHECK(result.numbers.migrations > 0);
}

/// Runs the rows twice and compares all that is not wall time, to the last bit.
template <class Scheduler, class Placement = placement::least_load, class Migration = placement::stay>
run_result check_run(const cluster_options& o, const std::vector<trace_row>& rows,
                     const typename Scheduler::config& config = {}) {
  std::vector<std::size_t> ended;
  cluster_of<Scheduler, sim::placed<Placement, Migration>> first{o, config};
  // It is also told now and then that nothing has ended.
  const run_result result = first.run(rows, [&](std::size_t n) {
    if (n != ended.size()) ended.push_back(n);
  });
  check_invariants(result, rows);
  CHECK(ended.size() == result.numbers.completed);
  for (std::size_t i = 0; i < ended.size(); ++i) CHECK(ended[i] == i + 1);
  const run_result again = simulate<Scheduler, Placement, Migration>(o, rows, config);
  CHECK(sim::format_csv(again) == sim::format_csv(result));
  CHECK(again.numbers.fragmentation_mean == result.numbers.fragmentation_mean);
  CHECK(again.timeline.size() == result.timeline.size());
  for (std::size_t i = 0; i < std::min(again.timeline.size(), result.timeline.size()); ++i) {
    CHECK(again.timeline[i].kv_used == result.timeline[i].kv_used);
  }
  return result;
}

TEST_CASE("cluster: invariants of random runs, roomy and starved, and they repeat exactly") {
  const sim::profile& h100 = sim::profiles().front();
  std::uint64_t preempted = 0;
  std::uint64_t migrated = 0;
  std::uint64_t rejected = 0;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const auto rows = random_rows(seed, 120, seed % 2 == 0 ? 0.05 : 0.4);
    for (const std::size_t blocks : {std::size_t{12}, std::size_t{20}, std::size_t{400}}) {
      for (const std::size_t host : {std::size_t{0}, std::size_t{9}, std::size_t{1000}}) {
        auto options = toy_cluster(1 + seed % 3, blocks, h100);
        options.instance.limits.host_blocks = host;
        options.instance.step = {.max_batch = 16, .token_budget = tokens{100}};
        CAPTURE(seed, blocks, host);
        preempted += check_run<fcfs<request>>(options, rows).numbers.preemptions;
        preempted += check_run<round_robin<request>>(options, rows, {.quantum = tokens{10}}).numbers.preemptions;
        using pascal_ = pascal<request>;
        const pascal_::config config{.quantum = tokens{10}, .demote_above = tokens{80}};
        options.kv_bytes_per_token = 262144;
        options.fabric_bytes_per_s = 50e6;  // slow, so that transfers overlap steps
        preempted += check_run<pascal_>(options, rows, config).numbers.preemptions;
        const auto always =
            check_run<pascal_, placement::pascal_arrival, placement::pascal_migrate_always>(options, rows, config);
        const auto adaptive =
            check_run<pascal_, placement::pascal_arrival, placement::pascal_migrate_adaptively>(options, rows, config);
        migrated += always.numbers.migrations + adaptive.numbers.migrations;
        rejected += always.numbers.rejected;
      }
    }
  }
  CHECK(preempted > 1000);
  CHECK(migrated > 100);
  CHECK(rejected > 10);
}

// -- a textbook simulation ------------------------------------------------------------------------------------------

/// First come, first served with swapping, on several instances, written down as one would explain it: vectors that are
/// searched, blocks that are counted, no scheduler.
class textbook {
 public:
  struct job {
    std::size_t id;
    std::int64_t prompt, output;
    double arrival;
    std::int64_t length = 0, computed = 0, held = 0, on_host = 0;
    bool resident = false, swapped = false, restarted = false, done = false;
    double finish = -1, executed = 0, preempted = 0, lost_at = -1;
    std::uint32_t preemptions = 0;
    std::size_t where = 0;
  };

  textbook(const cluster_options& o, const std::vector<trace_row>& rows) : o_{o}, busy_until_(o.instances, -1) {
    entries_.resize(o.instances);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      jobs_.push_back(
          {.id = i, .prompt = rows[i].prompt_tokens, .output = rows[i].output_tokens, .arrival = rows[i].arrival_s});
    }
  }

  std::vector<job> run() {
    std::size_t next = 0;
    while (true) {
      double at = next < jobs_.size() ? jobs_[next].arrival : std::numeric_limits<double>::infinity();
      std::size_t who = o_.instances;
      for (std::size_t i = 0; i < o_.instances; ++i) {
        if (busy_until_[i] >= 0 && busy_until_[i] < at) {
          at = busy_until_[i];
          who = i;
        }
      }
      if (at == std::numeric_limits<double>::infinity()) return jobs_;
      if (who == o_.instances) {
        arrive(jobs_[next++]);
      } else {
        end(who);
        begin(who, at);
      }
    }
  }

 private:
  struct entry {
    std::size_t id;
    std::int64_t first, count;
  };

  [[nodiscard]] std::int64_t blocks_of(std::int64_t length) const {
    const std::int64_t size = o_.instance.limits.block_size.count();
    return (length + size - 1) / size;
  }
  [[nodiscard]] std::int64_t capacity() const { return static_cast<std::int64_t>(o_.instance.limits.blocks); }

  template <class F>
  void here(std::size_t i, F f) {
    for (std::size_t k = 0; k < arrived_; ++k) {
      if (jobs_[k].where == i && !jobs_[k].done) f(jobs_[k]);
    }
  }
  std::int64_t free(std::size_t i) {
    std::int64_t n = capacity();
    here(i, [&](const job& j) { n -= j.held; });
    return n;
  }

  void arrive(job& j) {
    ++arrived_;
    j.done = true;  // not here yet
    std::vector<std::size_t> best;
    std::pair<std::int64_t, int> least{std::numeric_limits<std::int64_t>::max(), 0};
    for (std::size_t i = 0; i < o_.instances; ++i) {
      std::pair<std::int64_t, int> load{0, 0};
      std::int64_t needed = 0;
      here(i, [&](const job& other) {
        // What comes back from the host in the step under way is held once.
        load.first += other.resident ? other.held : other.on_host;
        needed += blocks_of(other.length);
        ++load.second;
      });
      load.first = std::max(load.first, needed);
      if (load < least) best.clear();
      least = std::min(least, load);
      if (load == least) best.push_back(i);
    }
    j.where = tessera_test::in_turn(best, turn_);
    if (blocks_of(j.prompt + j.output - 1) > capacity()) return;
    j.done = false;
    j.length = j.prompt;
    if (busy_until_[j.where] < 0) begin(j.where, j.arrival);
  }

  void begin(std::size_t i, double now) {
    std::vector<job*> residents, waiting;
    here(i, [&](job& j) { (j.resident ? residents : waiting).push_back(&j); });
    // Who had to begin again goes first until it has a token.
    std::stable_partition(residents.begin(), residents.end(), [](const job* j) { return j->restarted; });
    std::size_t batch = std::min(o_.instance.step.max_batch, o_.instance.limits.residents);
    std::int64_t budget = o_.instance.step.token_budget.count();
    std::vector<entry>& step = entries_[i];
    step.clear();
    step_shape shape;
    std::int64_t out = 0, in = 0;
    const auto chunk = [&](const job& j, std::size_t behind) {
      const std::int64_t left = j.length - j.computed;
      if (left == 1) return left;
      const auto others = static_cast<std::int64_t>(std::min(behind, batch - step.size() - 1));
      return std::min(left, std::max<std::int64_t>(budget - others, 1));
    };
    const auto schedule = [&](job& j, std::int64_t count) {
      if (j.length - j.computed == 1) {
        shape.add_decode(tokens{j.length});
      } else {
        shape.add_prefill(tokens{j.computed}, tokens{count});
      }
      step.push_back({j.id, j.computed, count});
      budget -= count;
      if (j.lost_at >= 0) j.preempted += now - j.lost_at;
      j.lost_at = -1;
    };
    const auto full = [&] { return step.size() >= batch || budget <= 0; };
    bool starts = true;
    std::size_t victim_id = jobs_.size();  // what it leaves over is not for those who came after it
    // Those at the end give way to number `k`, if that is enough.
    const auto make_free = [&](std::int64_t n, std::size_t k) {
      std::int64_t most = free(i);
      for (std::size_t v = k + 1; v < residents.size(); ++v) most += residents[v]->held;
      if (most < n) return false;
      while (free(i) < n) {
        job& victim = *residents.back();
        residents.pop_back();
        const std::int64_t written = blocks_of(victim.computed);
        std::int64_t host_free = static_cast<std::int64_t>(o_.instance.limits.host_blocks);
        here(i, [&](const job& other) { host_free -= other.on_host; });
        victim.swapped = written > 0 && written <= host_free;
        if (victim.swapped) {
          victim.on_host = written;
          out += written;
        } else {
          victim.computed = 0;
          victim.restarted = true;
        }
        victim.held = 0;
        victim.resident = false;
        ++victim.preemptions;
        victim.lost_at = now;
        victim_id = victim.id;
      }
      return true;
    };
    std::int64_t promised = 0;  // to those who compute their prompts: what they have not got yet
    const std::int64_t size = o_.instance.limits.block_size.count();
    for (std::size_t k = 0; k < residents.size() && !full(); ++k) {
      job& j = *residents[k];
      std::int64_t count = chunk(j, residents.size() - k - 1);
      std::int64_t more = blocks_of(j.computed + count) - j.held;
      if (more > 0 && !make_free(more, k)) {
        // A part of it then, if there is a block for that.
        if (free(i) == 0 && j.computed == j.held * size) make_free(1, k);
        more = std::min(more, free(i));
        count = std::min(count, (j.held + more) * size - j.computed);
        if (count <= 0) {
          starts = false;
          continue;
        }
      }
      j.held += std::max<std::int64_t>(more, 0);
      if (j.length - j.computed != 1) promised += std::max<std::int64_t>(blocks_of(j.length) - j.held, 0);
      schedule(j, count);
    }
    std::size_t present = residents.size();
    for (std::size_t k = 0; starts && k < waiting.size() && !full(); ++k) {
      job& j = *waiting[k];
      const std::int64_t left_over = free(i) - promised - blocks_of(j.length);
      const bool room =
          left_over >= 0 && (present == 0 || static_cast<double>(left_over) >= 0.01 * static_cast<double>(capacity()));
      if (!room || present >= o_.instance.limits.residents || j.id > victim_id) break;
      ++present;
      const std::int64_t count = chunk(j, 0);
      j.held = blocks_of(j.restarted ? j.length : j.computed + count);
      promised += blocks_of(j.length) - j.held;
      j.resident = true;
      if (j.swapped) in += j.on_host;  // the host's copy is given up when the step is over
      j.swapped = false;
      schedule(j, count);
    }
    busy_until_[i] = -1;
    if (step.empty()) return;
    const double copies = static_cast<double>(std::max(out, in)) * o_.instance.swap_seconds_per_block;
    started_[i] = now;
    busy_until_[i] = now + copies + o_.instance.timer(shape);
  }

  void end(std::size_t i) {
    for (const entry& e : entries_[i]) {
      job& j = jobs_[e.id];
      j.executed += busy_until_[i] - started_[i];
      j.computed = e.first + e.count;
      j.on_host = 0;
      if (j.computed < j.length) continue;
      ++j.length;
      j.restarted = false;
      if (j.length - j.prompt < j.output) continue;
      j.done = true;
      j.resident = false;
      j.held = 0;
      j.finish = busy_until_[i];
    }
  }

  cluster_options o_;
  std::vector<job> jobs_;
  std::size_t arrived_ = 0;
  std::size_t turn_ = 0;
  std::vector<double> busy_until_;
  std::map<std::size_t, double> started_;
  std::vector<std::vector<entry>> entries_;
};

TEST_CASE("cluster: FCFS as a textbook simulates it") {
  const sim::profile& h100 = sim::profiles().front();
  std::uint64_t preempted = 0;
  std::uint64_t waited = 0;
  for (std::uint64_t seed = 101; seed <= 112; ++seed) {
    std::mt19937_64 random{seed};
    const auto rows = random_rows(seed, 100, seed % 2 == 0 ? 0.05 : 0.3);
    for (const std::size_t blocks : {std::size_t{15}, std::size_t{30}, std::size_t{1000}}) {
      auto options = toy_cluster(1 + random() % 3, blocks, h100);
      options.instance.limits.host_blocks = std::vector<std::size_t>{0, 12, 500}[random() % 3];
      options.instance.limits.residents = 4 + random() % 20;
      options.instance.step = {.max_batch = 4 + random() % 20,
                               .token_budget = tokens{20 + static_cast<std::int64_t>(random() % 200)}};
      options.instance.swap_seconds_per_block = 0.003;
      CAPTURE(seed, blocks, options.instances, options.instance.limits.host_blocks);
      const run_result result = simulate<fcfs<request>>(options, rows);
      check_invariants(result, rows);
      const auto want = textbook{options, rows}.run();
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const request_record& r = result.requests[i];
        CAPTURE(i);
        REQUIRE(r.rejected == (want[i].finish < 0));
        REQUIRE(r.instance == want[i].where);
        if (r.rejected) continue;
        REQUIRE(r.finish == approx(want[i].finish).epsilon(1e-12));
        CHECK(r.executed == approx(want[i].executed).epsilon(1e-9));
        CHECK(r.preempted == approx(want[i].preempted).epsilon(1e-9).margin(1e-9));
        CHECK(r.preemptions == want[i].preemptions);
        preempted += r.preemptions;
        waited += r.blocked > 0.01 ? 1U : 0U;
      }
    }
  }
  CHECK(preempted > 100);
  CHECK(waited > 100);
}

}  // namespace
