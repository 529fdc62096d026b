// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/admit/future_peak.hpp>
#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/report/report.hpp>

#include "sim/cluster_runs.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <tuple>
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
using tessera_test::cluster_runs::check_invariants;
using tessera_test::cluster_runs::quiet;
using tessera_test::cluster_runs::random_rows;
using tessera_test::cluster_runs::simulate;

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

TEST_CASE("cluster: requests that arrive in the window are measured, and what is generated while it lasts") {
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

TEST_CASE("cluster: none is refused for its limit alone, and an admission by limits sees no lengths") {
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
    // A scheduler that does not look at the limit runs as before.
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
  // Four blocks for the prompt's step, five for 16, six for the last 16. So 4 of them (0.4) are free in the last 4 s of
  // 9.
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

}  // namespace
