// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Placement by headroom where prompts share prefixes.
#include <tessera/compose/due_first.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/policies/due_first.hpp>
#include <tessera/sim/systems/by_headroom.hpp>
#include <tessera/sim/traffic/learned_lengths.hpp>

#include "sim/profile_cluster.hpp"
#include "sim/served.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using namespace tessera;
using sim::trace_row;
using tessera_test::check_served;
using tessera_test::row;

using cluster =
    sim::cluster_of<tessera::due_first<sim::request, sim::scored_length, order::pacer_member, sim::kv_store>,
                    sim::by_headroom>;

sim::prefill_model model() {
  return sim::calibrate_prefill(sim::step_timer{sim::find_profile("h100-96gb-qwen-32b")}, sim::default_ttft_target);
}

std::vector<std::uint32_t> places(const sim::cluster_options& o, const std::vector<trace_row>& rows) {
  const sim::run_result result = cluster{o, {}, sim::by_headroom{model()}}.run(rows, [](std::size_t) {});
  check_served(result, rows);
  std::vector<std::uint32_t> out;
  for (const sim::request_record& r : result.requests) out.push_back(r.instance);
  return out;
}

TEST_CASE("by_headroom: a turn goes where the earlier turns are cached, a session to all instances in turn") {
  auto o = tessera_test::toy_cluster(3, 1000);
  std::vector<trace_row> rows;
  for (std::int64_t session = 0; session != 5; ++session) {
    for (std::int64_t turn = 0; turn != 3; ++turn) {
      // Nothing else runs when a turn comes: the third turns of all come before the fourth session's first.
      rows.push_back(row(1000.0 * static_cast<double>(session), 200 * (turn + 1), 0, 20));
      rows.back().session = session;
      rows.back().think_s = turn == 0 ? 0 : 50;
    }
  }
  const std::vector<std::uint32_t> out = places(o, rows);
  for (std::size_t i = 0; i != rows.size(); ++i) {
    CAPTURE(i);
    CHECK(out[i] == out[i / 3 * 3]);
    CHECK(out[i / 3 * 3] == i / 3 % 3);
  }
  // Without a cache there is nothing to come back to.
  o.prefix_cache = false;
  const std::vector<std::uint32_t> without = places(o, rows);
  for (std::size_t i = 0; i != rows.size(); ++i) CHECK(without[i] == i % 3);
}

TEST_CASE("by_headroom: a prefix is worth as much computing as it saves, times the requests that are there") {
  const auto o = tessera_test::toy_cluster(2, 4000);
  constexpr std::int64_t shared = 1600;
  constexpr std::int64_t prompt = 2000;
  std::vector<trace_row> rows{row(0, prompt, 0, 1)};
  // All of these come before any of them has computed a thing, and long after the first has ended.
  for (int i = 0; i != 24; ++i) rows.push_back(row(1000 + 0.001 * i, prompt, 0, 50));
  for (trace_row& r : rows) r.runs = {{7, shared}};
  const std::vector<std::uint32_t> out = places(o, rows);
  // Again, by hand. Only the instance of the first has anything cached.
  const sim::prefill_model m = model();
  const double whole = m.cost.flops(tokens{prompt});
  const double rest = whole - m.cost.flops(tokens{shared});
  std::array<double, 2> to_compute{};
  std::array<double, 2> there{};
  std::array<int, 2> count{};
  REQUIRE(out[0] == 0);
  for (std::size_t i = 1; i != rows.size(); ++i) {
    CAPTURE(i);
    const double here = to_compute[0] + rest * (there[0] + 1);
    const double elsewhere = to_compute[1] + whole * (there[1] + 1);
    REQUIRE(here != elsewhere);
    const std::size_t to = here < elsewhere ? 0 : 1;
    CHECK(out[i] == to);
    to_compute[to] += to == 0 ? rest : whole;
    ++there[to];
    ++count[to];
  }
  CHECK(count[0] > count[1]);
  CHECK(count[1] > 0);
}

TEST_CASE("due_first: told which turns call tools it is no worse, whether memory is plenty or not") {
  // 70 agents with tools that take half a second; every third call is followed by eight seconds of a person.
  const auto rows = [](bool told) {
    std::vector<trace_row> out;
    for (std::int64_t session = 0; session != 70; ++session) {
      for (std::int64_t turn = 0; turn != 12; ++turn) {
        out.push_back(row(3.6 * static_cast<double>(session), 3500 + 350 * turn, 0, 60));
        out.back().session = session;
        out.back().think_s = turn == 0 ? 0 : turn % 3 == 1 ? 8 : 0.5;
        out.back().calls_tool = told && turn % 3 != 0 && turn != 11;
      }
    }
    return out;
  };
  const auto run = [&](std::size_t blocks, bool told) {
    const auto o = tessera_test::profile_cluster("v100-qwen2.5-7b", 1, blocks, 256);
    const auto workload = rows(told);
    const sim::run_result result = sim::run_due_first(o, workload, {}, {}, [](std::size_t) {});
    check_served(result, workload);
    return result.numbers.ttft.mean;
  };
  for (const std::size_t blocks : {9000U, 14'779U}) {
    CAPTURE(blocks);
    CHECK(run(blocks, true) <= 1.01 * run(blocks, false));
  }
  // Where sessions do not fit it is better.
  CHECK(run(5000, true) < 0.95 * run(5000, false));
}

}  // namespace
