// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Which request starts when under `pars`, read off the records of simulated runs and checked against its definition.
// The best of the waiting requests start, none is overtaken after its boost, and the wait is bounded.

#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pars.hpp>
#include <tessera/sim/cluster/cluster.hpp>
#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/random.hpp>
#include <tessera/sim/report/report.hpp>

#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace {

using namespace tessera;
using sim::request_record;
using sim::trace_row;
using tessera_test::toy_cluster;

constexpr double forever = std::numeric_limits<double>::infinity();

/// Random requests with outputs of 1 to 40 tokens. Arrivals are Poisson, or all at once, behind a request that keeps
/// the instance busy while they come. Scores know nothing, a little, or everything; some are equal and some missing.
std::vector<trace_row> random_rows(std::uint64_t seed, std::size_t n, double rate, double knows) {
  sim::random_engine rng{seed};
  std::vector<trace_row> rows;
  double at = 0;
  for (std::size_t i = 0; i != n; ++i) {
    if (std::isfinite(rate)) {
      at += sim::exponential(rng, rate);
    } else if (i == 1) {
      at += 0.125;
    }
    const auto output = static_cast<std::int64_t>(1 + sim::uniform_below(rng, 40));
    trace_row r = tessera_test::row(at, static_cast<std::int64_t>(1 + sim::uniform_below(rng, 30)), 0, output);
    r.score =
        static_cast<float>(std::floor(knows * static_cast<double>(output) + (1 - knows) * 40 * sim::uniform(rng)));
    if (sim::uniform_below(rng, 20) == 0) r.score = std::numeric_limits<float>::quiet_NaN();
    rows.push_back(r);
  }
  return rows;
}

/// Requests in order of arrival; ample memory, so that the batch alone decides how many run.
std::vector<request_record> run(const std::vector<trace_row>& rows, std::size_t batch, double threshold) {
  auto options = toy_cluster(1, 100'000);
  options.instance.limits.residents = batch;
  options.instance.step = {.max_batch = batch, .token_budget = tokens{100'000}};
  const pars<sim::request>::config config{.threshold =
                                              std::isfinite(threshold) ? duration{threshold} : duration::forever()};
  const auto result = sim::make_policy<pars<sim::request>>("pars", "", config).run(options, rows, [](std::size_t) {});
  REQUIRE(result.numbers.completed == rows.size());
  REQUIRE(result.numbers.preemptions == 0);
  return result.requests;
}

/// The rank of one that waits, at `now`: less goes first.
std::tuple<bool, double, std::size_t> place(const trace_row& row, std::size_t id, double threshold, double now) {
  if (row.arrival_s + threshold <= now) return {false, row.arrival_s, id};
  return {true,
          std::isnan(row.score) ? static_cast<double>(std::numeric_limits<float>::infinity())
                                : static_cast<double>(row.score),
          id};
}

/// At each moment when a request starts: as many as there are places, and the best of those that wait.
void check_starts(const std::vector<trace_row>& rows, const std::vector<request_record>& records, std::size_t batch,
                  double threshold) {
  std::vector<double> moments;
  for (const auto& r : records) moments.push_back(r.first_scheduled);
  std::sort(moments.begin(), moments.end());
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  for (const double now : moments) {
    std::size_t runs = 0;
    std::vector<std::size_t> waits;
    std::size_t starts = 0;
    for (std::size_t i = 0; i != rows.size(); ++i) {
      const request_record& r = records[i];
      runs += r.first_scheduled < now && r.finish > now ? 1U : 0U;
      if (r.arrival <= now && r.first_scheduled >= now) waits.push_back(i);
      starts += r.first_scheduled == now ? 1U : 0U;
    }
    std::sort(waits.begin(), waits.end(), [&](std::size_t a, std::size_t b) {
      return place(rows[a], a, threshold, now) < place(rows[b], b, threshold, now);
    });
    REQUIRE(starts == std::min(batch - runs, waits.size()));
    for (std::size_t k = 0; k != starts; ++k) {
      CAPTURE(now, waits[k]);
      REQUIRE(records[waits[k]].first_scheduled == now);
    }
  }
}

}  // namespace

TEST_CASE("pars: at every step the best of those that wait start, as the definition sorts them") {
  std::size_t boosted = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    for (const double rate : {0.4, 1.5, forever}) {
      for (const double threshold : {0.0, 7.5, 30.0, forever}) {
        const std::size_t batch = 1 + seed % 5;
        const auto rows = random_rows(seed, 120, rate, 0.25 * static_cast<double>(seed % 5));
        CAPTURE(seed, rate, threshold, batch);
        const auto records = run(rows, batch, threshold);
        check_starts(rows, records, batch, threshold);
        for (const auto& r : records) boosted += r.first_scheduled - r.arrival >= threshold ? 1U : 0U;
      }
    }
  }
  CHECK(boosted > 1000);
}

TEST_CASE("pars: no wait exceeds the threshold plus one residence for each batch of older boosted requests") {
  std::size_t single = 0;   // waits beyond the threshold with less than a batch boosted ahead
  std::size_t several = 0;  // and with more
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    for (const double rate : {0.3, 1.0, forever}) {
      const std::size_t batch = 2 + seed % 7;
      const double threshold = 5.0 * static_cast<double>(1 + seed % 6);
      const auto rows = random_rows(seed + 100, 150, rate, 0.5);
      CAPTURE(seed, rate, threshold, batch);
      const auto records = run(rows, batch, threshold);
      double residence = 0;
      for (const auto& r : records) residence = std::max(residence, r.finish - r.first_scheduled);
      for (std::size_t i = 0; i != rows.size(); ++i) {
        const double boost = records[i].arrival + threshold;
        if (records[i].first_scheduled < boost) continue;
        std::size_t ahead = 0;
        for (std::size_t k = 0; k != i; ++k) ahead += records[k].first_scheduled >= boost ? 1U : 0U;
        const std::size_t turns = ahead / batch + 1;
        (turns == 1 ? single : several) += 1;
        CHECK(records[i].first_scheduled <= boost + static_cast<double>(turns) * residence + 1e-6);
      }
    }
  }
  CHECK(single > 300);
  CHECK(several > 300);
}

TEST_CASE("pars: with the threshold at zero it is first come, first served; with true scores it is the oracle") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    auto rows = random_rows(seed, 100, 0.8, 0);
    auto options = toy_cluster(1, 10'000);
    options.instance.limits.residents = 3;
    const auto quiet = [](std::size_t) {};
    const auto records = [&](const sim::policy& p) { return sim::format_csv(p.run(options, rows, quiet)); };
    const auto same = [](std::string a, std::string b) {  // except the name, the first field of every line
      const auto strip = [](std::string& s) {
        std::string out;
        for (std::size_t begin = 0; begin < s.size();) {
          const std::size_t end = s.find('\n', begin);
          out += s.substr(s.find(',', begin), end - s.find(',', begin));
          begin = end + 1;
        }
        s = out;
      };
      strip(a);
      strip(b);
      return a == b;
    };
    const auto fcfs_ = sim::make_policy<fcfs<sim::request>>("fcfs", "");
    const auto aged = sim::make_policy<pars<sim::request>>("aged", "", {.threshold = duration{}});
    CHECK(same(records(fcfs_), records(aged)));
    const auto all = sim::published_policies();
    const auto oracle = sim::select_policies(all, "sjf").front();
    const auto scored = sim::select_policies(all, "pars:threshold=inf").front();
    for (trace_row& r : rows) r.score = static_cast<float>(r.output_tokens);
    CHECK(same(records(oracle), records(scored)));
    CHECK(!same(records(fcfs_), records(oracle)));
  }
}

TEST_CASE("pars: rows without scores are refused where scores are needed") {
  const auto all = sim::published_policies();
  auto rows = random_rows(1, 10, 1, 0.5);
  for (trace_row& r : rows) r.score = 1;
  const auto refusal = [&](std::string_view name) -> std::string {
    try {
      sim::require_scores(sim::select_policies(all, name).front(), rows, "rows");
    } catch (const sim::usage_error& e) {
      return e.what();
    }
    return {};
  };
  CHECK(refusal("pars").empty());
  rows[3].score = std::numeric_limits<float>::quiet_NaN();
  CHECK(refusal("pars").find("1 of 10 in rows have none") != std::string::npos);
  CHECK(refusal("fcfs").empty());
  CHECK(refusal("sjf").empty());
}
