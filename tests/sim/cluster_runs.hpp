// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Runs of a cluster, and what must hold of any.

#include <tessera/placement/least_load.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>

#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace tessera_test::cluster_runs {

using namespace tessera;
using sim::cluster_of;
using sim::cluster_options;
using sim::request_record;
using sim::run_result;
using sim::trace_row;

inline constexpr auto quiet = [](std::size_t) {};

template <class Scheduler, class Placement = placement::least_load, class Migration = placement::stay>
run_result simulate(const cluster_options& o, const std::vector<trace_row>& rows,
                    const typename Scheduler::config& config = {}, const Placement& placement = {},
                    const Migration& migration = {}) {
  return cluster_of<Scheduler, sim::placed<Placement, Migration>>{o, config, {placement, migration}}.run(rows, quiet);
}

/// Rows with lengths and arrivals that make memory bind or not, depending on the blocks; some arrive at once.
inline std::vector<trace_row> random_rows(std::uint64_t seed, std::size_t n, double gap) {
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
inline void check_invariants(const run_result& result, const std::vector<trace_row>& rows) {
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

}  // namespace tessera_test::cluster_runs
