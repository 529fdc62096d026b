// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The planner against its definition: every cut at every token, every number of stages, and every way to deal out the
// instances. Each is priced request by request.

#include <tessera/core/owned_storage.hpp>
#include <tessera/partition/bucketed.hpp>
#include <tessera/partition/chain.hpp>
#include <tessera/partition/exact.hpp>
#include <tessera/partition/flat.hpp>
#include <tessera/partition/merge.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::partition;
using cost::request_lengths;

/// Cost of a stage and of the cut at its start, by the definitions alone.
double by_definition(const std::vector<request_lengths>& sample, const length_table::prices& p, std::int64_t from,
                     std::int64_t to, double k, std::size_t* requests = nullptr) {
  const double w = p.in_flight == 0 ? 1 : p.in_flight / static_cast<double>(sample.size());
  double n = 0;
  double s = 0;
  double moved = 0;
  for (const request_lengths& r : sample) {
    const auto l = r.length.count();
    const auto i = r.input.count();
    if (l >= from && l < to) {
      n += 1;
      s += p.qoe.d[1] + p.qoe.d[2] * double(i) + p.qoe.d[3] * double(i) * double(i) + p.qoe.d[4] * double(l);
    }
    if (from > 0 && i < from && l >= from) moved += p.transfer.per_sequence + p.transfer.per_token * double(from);
  }
  if (requests != nullptr) *requests = static_cast<std::size_t>(n);
  return w * n * (p.qoe.d[0] + w * s / k) + w * moved;
}

/// The least cost of lengths from `from` on with `k` instances; cuts at any token up to `longest`, empty stages
/// allowed.
double brute_force(const std::vector<request_lengths>& sample, const length_table::prices& p, std::int64_t longest,
                   std::size_t instances) {
  const auto l = static_cast<std::size_t>(longest) + 2;
  // best[e][from], by the number of instances left and the first length of the next stage.
  std::vector<std::vector<double>> best(instances + 1,
                                        std::vector<double>(l + 1, std::numeric_limits<double>::infinity()));
  for (std::size_t from = l; from-- != 0;) {
    for (std::size_t e = 1; e <= instances; ++e) {
      double least = by_definition(sample, p, std::int64_t(from), longest + 1, double(e));
      for (std::size_t to = from + 1; to < l; ++to) {
        for (std::size_t k = 1; k < e; ++k) {
          least = std::min(least,
                           by_definition(sample, p, std::int64_t(from), std::int64_t(to), double(k)) + best[e - k][to]);
        }
      }
      best[e][from] = least;
    }
  }
  return best[instances][0];
}

void check_shape(const stage_plan& plan, const std::vector<request_lengths>& sample, const length_table::prices& p,
                 std::size_t instances) {
  REQUIRE(!plan.stages.empty());
  REQUIRE(plan.stages.front().from == tokens{0});
  REQUIRE(plan.stages.back().to == unbounded);
  std::size_t used = 0;
  std::size_t requests = 0;
  double total = 0;
  const double scale = by_definition(sample, p, 0, unbounded.count(), 1);
  for (std::size_t h = 0; h != plan.stages.size(); ++h) {
    const stage& s = plan.stages[h];
    if (h != 0) REQUIRE(s.from == plan.stages[h - 1].to);
    REQUIRE(s.instances >= 1);
    REQUIRE(s.requests >= 1);
    used += s.instances;
    requests += s.requests;
    std::size_t counted = 0;
    const double cost = by_definition(sample, p, s.from.count(), s.to.count(), double(s.instances), &counted);
    REQUIRE(counted == s.requests);
    // A difference of prefix sums is as precise as the sums, which have the scale of the sample.
    REQUIRE(s.quality + s.transfer == tessera_test::approx(cost).epsilon(1e-9).margin(scale * 1e-12));
    total += cost;
  }
  REQUIRE(used == instances);
  REQUIRE(requests == sample.size());
  REQUIRE(plan.quality == tessera_test::approx(total).epsilon(1e-9).margin(1e-12));
}

struct planners {
  owned_storage<length_table::limits> table_memory;
  arena table_arena;
  length_table table;
  owned_storage<exact::limits> exact_memory;
  arena exact_arena;
  exact best;
  owned_storage<chain::limits> chain_memory;
  arena chain_arena;
  chain one_each;
  owned_storage<bucketed::limits> bucketed_memory;
  arena bucketed_arena;
  bucketed powers;
  owned_storage<merge::limits> merge_memory;
  arena merge_arena;
  merge heuristic;
  std::vector<stage> out;

  planners(std::size_t requests, std::size_t instances)
      : table_memory{storage_for<length_table>({.requests = requests})},
        table_arena{table_memory.memory()},
        table{table_arena, table_memory.limits()},
        exact_memory{storage_for<exact>({.lengths = requests, .instances = instances})},
        exact_arena{exact_memory.memory()},
        best{exact_arena, exact_memory.limits()},
        chain_memory{storage_for<chain>({.lengths = requests, .instances = instances})},
        chain_arena{chain_memory.memory()},
        one_each{chain_arena, chain_memory.limits()},
        bucketed_memory{storage_for<bucketed>({.instances = instances})},
        bucketed_arena{bucketed_memory.memory()},
        powers{bucketed_arena, bucketed_memory.limits()},
        merge_memory{storage_for<merge>({})},
        merge_arena{merge_memory.memory()},
        heuristic{merge_arena, {}},
        out(instances) {}
};

/// A price that is often 0, sometimes extreme.
double draw_price(std::mt19937& random, double usual) {
  switch (random() % 8) {
    case 0:
    case 1: return 0;
    case 2: return usual * 1e9;
    case 3: return usual * 1e-9;
    default: return usual * (1 + double(random() % 1000));
  }
}

TEST_CASE("exact is the optimum at token resolution, and nothing beats it") {
  std::mt19937 random{1};
  planners p{64, 12};
  double worst_merge = 1;
  std::size_t many_stages = 0;
  for (int round = 0; round != 6000; ++round) {
    const std::size_t requests = 1 + random() % (round % 10 == 0 ? 1 : round % 3 == 0 ? 40 : 9);
    const std::size_t instances = 1 + random() % (round % 7 == 0 ? 12 : 5);
    const unsigned range = round % 5 == 0 ? 2 : 12;
    std::vector<request_lengths> sample(requests);
    std::int64_t longest = 0;
    for (auto& r : sample) {
      const auto l = std::int64_t(1 + random() % range);
      r = {tokens{round % 4 == 0 ? 0 : std::int64_t(random()) % (l + 1)}, tokens{l}};
      longest = std::max(longest, l);
    }
    length_table::prices prices;
    for (double& d : prices.qoe.d) d = draw_price(random, 1e-3);
    prices.transfer = {draw_price(random, 1e-3), draw_price(random, 1e-4)};
    if (round % 6 == 0) prices.in_flight = 0.5 + double(random() % 100);
    INFO("round " << round);
    REQUIRE(p.table.assign(sample, prices) == status::ok);

    const stage_plan plan = p.best(p.table, instances, p.out);
    check_shape(plan, sample, prices, instances);
    const double least = brute_force(sample, prices, longest, instances);
    REQUIRE(plan.quality == tessera_test::approx(least).epsilon(1e-9).margin(1e-15));
    const double best = plan.quality;
    if (plan.stages.size() > 2) ++many_stages;

    const auto not_better = [&](const stage_plan& other) {
      check_shape(other, sample, prices, instances);
      REQUIRE(other.quality >= best * (1 - 1e-9));
      return other.quality;
    };
    const double flat_quality = not_better(flat{}(p.table, instances, p.out));
    REQUIRE(p.out[0].instances == instances);
    const double powers = not_better(p.powers(p.table, instances, p.out));
    REQUIRE(powers <= flat_quality * (1 + 1e-9));
    const double merged = not_better(p.heuristic(p.table, instances, p.out));
    REQUIRE(merged >= powers * (1 - 1e-9));  // its plans are among those of bucketed
    worst_merge = std::max(worst_merge, best > 0 ? merged / best : 1);
    const stage_plan one = p.one_each(p.table, instances, p.out);
    not_better(one);
    REQUIRE(one.stages.size() == std::min(instances, p.table.size()));
  }
  CHECK(many_stages > 500);
  CHECK(worst_merge > 1.001);
}

/// The same program, written as it stands in the paper: O(E^2 M^2), on the table's sums.
double textbook(const length_table& t, std::size_t instances, bool one_each) {
  const auto n = t.counts();
  const auto s = t.loads();
  const auto c = t.cut_costs();
  const std::size_t m = t.size();
  std::vector<std::vector<double>> f(instances + 1,
                                     std::vector<double>(m + 1, std::numeric_limits<double>::infinity()));
  f[0][0] = 0;
  for (std::size_t e = 1; e <= instances; ++e) {
    for (std::size_t j = 1; j <= m; ++j) {
      for (std::size_t k = 1; k <= (one_each ? 1 : e); ++k) {
        for (std::size_t i = 0; i != j; ++i) {
          f[e][j] = std::min(f[e][j], f[e - k][i] + c[i] + (n[j] - n[i]) * (s[j] - s[i]) / double(k));
        }
      }
    }
  }
  return f[instances][m] + n[m] * t.priced().qoe.d[0];
}

TEST_CASE("exact and chain agree with the recursion of the paper on samples of many lengths") {
  std::mt19937 random{2};
  planners p{400, 24};
  for (int round = 0; round != 150; ++round) {
    const std::size_t requests = 50 + random() % 350;
    const std::size_t instances = 1 + random() % 24;
    std::lognormal_distribution<double> input{5.0, 0.2 + 0.1 * double(round % 15)};
    std::vector<request_lengths> sample(requests);
    for (auto& r : sample) {
      const auto i = std::min<std::int64_t>(120'000, std::int64_t(input(random)));
      r = {tokens{i}, tokens{i + 1 + std::int64_t(random() % 400)}};
    }
    // From transfers that cost nothing to ones that leave a single stage.
    const double moves = round % 10 == 0 ? 0 : std::pow(10.0, -8.0 + double(round % 10));
    REQUIRE(p.table.assign(sample, {.qoe = {{1e-3, 2e-5, 1e-7, 1e-12, 1e-7}}, .transfer = {moves, moves * 1e-2}}) ==
            status::ok);
    const double plan = p.best(p.table, instances, p.out).quality;
    REQUIRE(plan == tessera_test::approx(textbook(p.table, instances, false)).epsilon(1e-10));
    REQUIRE(p.one_each(p.table, instances, p.out).quality ==
            tessera_test::approx(textbook(p.table, instances, true)).epsilon(1e-10));
    REQUIRE(flat{}(p.table, instances, p.out).quality >= plan * (1 - 1e-12));
  }
}

TEST_CASE("planning allocates nothing, and the order of the sample leaves no trace") {
  std::mt19937 random{3};
  std::vector<request_lengths> sample(3000);
  for (auto& r : sample) {
    const auto i = std::int64_t(random() % 5000);
    r = {tokens{i}, tokens{i + 1 + std::int64_t(random() % 5000)}};
  }
  planners p{3000, 16};
  const length_table::prices prices{.qoe = {{1e-3, 2e-5, 1e-7, 1e-12, 1e-7}}, .transfer = {0, 1e-7}, .in_flight = 2000};
  std::vector<stage> first;
  for (int round = 0; round != 3; ++round) {
    std::size_t allocations = 0;
    stage_plan plan;
    {
      tessera_test::no_allocation guard;
      const status assigned = p.table.assign(sample, prices);
      for (const stage_plan& other : {p.powers(p.table, 16, p.out), p.heuristic(p.table, 16, p.out),
                                      p.one_each(p.table, 16, p.out), flat{}(p.table, 16, p.out)}) {
        if (other.stages.empty()) std::abort();
      }
      plan = p.best(p.table, 16, p.out);
      allocations = guard.allocations();
      if (!ok(assigned)) std::abort();
    }
    CHECK(allocations == 0);
    const std::vector<stage> stages(plan.stages.begin(), plan.stages.end());
    if (round == 0) first = stages;
    CHECK(stages == first);
    std::shuffle(sample.begin(), sample.end(), random);
  }
  CHECK(first.size() > 2);
}

}  // namespace
