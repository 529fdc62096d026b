// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/fcfs.hpp>
#include <tessera/kv/evict_by_time.hpp>
#include <tessera/kv/keep_until.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/policies/policies.hpp>

#include "sim/served.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using sim::cluster_of;
using sim::cluster_options;
using sim::request;
using sim::trace_row;
using tessera_test::check_served;
using tessera_test::row;
using tessera_test::toy_cluster;

constexpr auto quiet = [](std::size_t) {};

/// A session of two turns, the second 4 s after the first, which ends at 0.5 s; others in between.
std::vector<trace_row> two_turns_and_others(bool calls_tool) {
  std::vector<trace_row> rows{row(0, 64, 0, 1), row(1, 80, 0, 1), row(2, 80, 0, 1), row(3, 80, 0, 1), row(0, 81, 0, 1)};
  rows[0].session = rows[4].session = 0;
  rows[0].calls_tool = calls_tool;
  rows[4].think_s = 4;
  return rows;
}

template <class Eviction>
std::int64_t found(double kept_s, bool calls_tool = true) {
  // 16 blocks: 4 of the session, and 5 of each of the three that pass through. The last of these lacks 3, and the
  // coldest go from the end of a sequence on.
  cluster_options o = toy_cluster(1, 16);
  o.kept_s = kept_s;
  const auto rows = two_turns_and_others(calls_tool);
  const auto r = cluster_of<fcfs<request, kv::basic_prefix_cache<Eviction>>>{o, {.watermark = 0}}.run(rows, quiet);
  check_served(r, rows);
  CHECK(r.requests[4].arrival == 4.5);
  return r.requests[4].cached_tokens;
}

TEST_CASE("the KV of a turn is kept for the next one, if it is said when that is", "[sim]") {
  CHECK(found<kv::lru>(5) == 16);
  CHECK(found<kv::keep_until<>>(5) == 64);
  CHECK(found<kv::keep_until<>>(0) == 16);
  CHECK(found<kv::keep_until<>>(0.5) == 16);  // the time is past before the next turn
  CHECK(found<kv::next_use<>>(0) == 64);
  // For a person it is not known that there will be another turn.
  CHECK(found<kv::keep_until<>>(5, false) == 16);
}

TEST_CASE("which of the built-in sessions call tools: all turns of agents but their last", "[sim]") {
  for (const auto& [name, agent] : {std::pair{"agentic", true}, {"noisy-agents", true}, {"multi-turn", false}}) {
    CAPTURE(name);
    const auto rows = sim::generate(sim::find_workload(name), 500);
    for (std::size_t i = 0; i + 1 != rows.size(); ++i) {
      CHECK(rows[i].calls_tool == (agent && rows[i].session == rows[i + 1].session));
    }
  }
}

TEST_CASE("nine of ten times that a tool takes", "[sim]") {
  CHECK(sim::tool_gap_p90_s({}) == 0);
  std::vector<trace_row> rows{row(0, 1, 0, 1), row(0, 1, 0, 1)};
  rows[0].think_s = 100;  // of a first turn: nothing is thought before it
  CHECK(sim::tool_gap_p90_s(rows) == 0);
  rows.clear();
  for (int i = 0; i != 11; ++i) {
    rows.push_back(row(0, 1, 0, 1));
    rows.back().session = 3;
    rows.back().think_s = i;
    rows.back().calls_tool = true;
  }
  CHECK(sim::tool_gap_p90_s(rows) == 10);
  rows.back().think_s = 99;
  CHECK(sim::tool_gap_p90_s(rows) == 99);
  for (int i = 0; i != 10; ++i) rows.push_back(rows[1]);
  CHECK(sim::tool_gap_p90_s(rows) == 9);
  // A person's are no tool's.
  for (int i = 0; i != 50; ++i) {
    rows.push_back(row(0, 1, 0, 1));
    rows.back().session = 4;
    rows.back().think_s = 60;
  }
  CHECK(sim::tool_gap_p90_s(rows) == 9);
}

}  // namespace
