// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The policies that only results are compared with.
#include "../../bench/reproduce/variants.hpp"

#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/policies/placements.hpp>
#include <tessera/sim/report/report.hpp>

#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace tessera;
using tessera_test::row;
using tessera_test::toy_cluster;

/// The library's policies and orders, and the variants.
sim::policy find(std::string_view name) {
  std::vector<sim::policy> all = sim::published_policies();
  for (sim::policy& p : reproduce::variants()) all.push_back(p);
  for (sim::policy& p : sim::composed_orders()) {
    if (p.name == "two-phase") all.push_back(p);
  }
  return sim::select_policies(all, name).front();
}

/// Without the policy's name and the placement's.
std::string without_names(sim::run_result r) {
  r.numbers.policy = r.numbers.placement = "";
  return sim::format_csv(r);
}

TEST_CASE("variants: a rule that is left out is a parameter, an order or a placement of the library") {
  std::vector<sim::trace_row> rows;
  for (int i = 0; i < 40; ++i) {
    rows.push_back(row(i * 0.05, i % 3 == 0 ? 300 : 5, i % 2 * 7, 3 + i % 11));
    rows.back().score = static_cast<float>(i % 5);
  }
  const auto run = [&](std::string_view name, std::string_view placement = {}) {
    auto options = toy_cluster(2, 24, sim::profiles().front());
    if (!placement.empty()) options.placement = sim::find_placement(placement);
    return without_names(find(name).run(options, rows, [](std::size_t) {}));
  };
  // On one placement and without migration, PASCAL is its order.
  CHECK((run("pascal-nomigration") == run("two-phase", "pascal")));
  CHECK((run("in-turn") == run("fcfs", "in-turn")));
  CHECK((run("in-turn") != run("fcfs")));
  CHECK((run("pars-unboosted") == run("pars:threshold=inf")));
}

TEST_CASE("variants: scores become ranks") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<sim::trace_row> rows(5);
  const float scores[] = {7, nan, -3, 7, 1e9F};
  for (std::size_t i = 0; i != rows.size(); ++i) rows[i].score = scores[i];
  reproduce::rank_scores(rows);
  CHECK(rows[0].score == 0.5F);  // one of four is smaller, two are equal
  CHECK(rows[1].score != rows[1].score);
  CHECK(rows[2].score == 0.125F);
  CHECK(rows[3].score == 0.5F);
  CHECK(rows[4].score == 0.875F);
  reproduce::rank_scores(std::span{rows}.first(0));
}

TEST_CASE("variants: smooth ageing lets a request wait longer than a boost does, and not for ever") {
  // One at a time. A long one waits while short ones keep coming.
  std::vector<sim::trace_row> rows{row(0, 20, 0, 300)};
  for (int i = 0; i < 400; ++i) rows.push_back(row(0.5 + 2.0 * i, 20, 0, 90));
  rows.insert(rows.begin() + 1, row(0.25, 20, 0, 300));
  for (sim::trace_row& r : rows) r.score = static_cast<float>(r.output_tokens);
  auto options = toy_cluster(1, 1000);
  options.instance.step.max_batch = 1;
  options.instance.limits.residents = 1;
  const auto waited = [&](std::string_view name) {
    const sim::run_result r = find(name).run(options, rows, [](std::size_t) {});
    CHECK(r.numbers.completed == rows.size());
    return r.requests[1].first_scheduled - r.requests[1].arrival;
  };
  const double smooth = waited("pars-smooth");
  CHECK(smooth > waited("pars"));
  CHECK(smooth < waited("pars-unboosted"));
}

TEST_CASE("variants: the oracle never waits for memory, whatever there is") {
  std::vector<sim::trace_row> rows;
  for (int i = 0; i < 40; ++i) rows.push_back(row(i * 0.1, 20 + i, 30, 30));
  const auto run = [&](std::string_view name, std::size_t blocks) {
    const auto options = toy_cluster(1, blocks, sim::profiles().front());
    return find(name).run(options, rows, [](std::size_t) {});
  };
  const sim::run_result tight = run("oracle", 20);
  CHECK(tight.numbers.completed == rows.size());
  CHECK(tight.numbers.preemptions == 0);
  CHECK(run("fcfs", 20).numbers.e2e.mean > 1.5 * tight.numbers.e2e.mean);
  CHECK(sim::format_csv(tight) == sim::format_csv(run("oracle", 100'000)));
}

}  // namespace
