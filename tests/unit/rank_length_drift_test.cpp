// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/rank/length_drift.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using rank::known_length;
using rank::length_drift_z;

/// The log-rank statistic as a textbook tabulates it. For each length at which an output of a group ends, the outputs
/// of the group that are at risk are counted.
double tabulated(const std::vector<known_length>& seen) {
  std::set<std::pair<std::uint32_t, std::int64_t>> times;
  for (const known_length& k : seen) {
    if (k.ended) times.emplace(k.group, k.length.count());
  }
  double difference = 0;
  double variance = 0;
  for (const auto& [group, t] : times) {
    double n = 0, n1 = 0, d = 0, d1 = 0;
    for (const known_length& k : seen) {
      if (k.group != group || k.length.count() < t) continue;
      n += 1;
      n1 += k.newer ? 1 : 0;
      if (!k.ended || k.length.count() != t) continue;
      d += 1;
      d1 += k.newer ? 1 : 0;
    }
    difference += d * n1 / n - d1;
    if (n > 1) variance += d * (n1 / n) * (1 - n1 / n) * (n - d) / (n - 1);
  }
  return variance > 0 ? difference / std::sqrt(variance) : 0;
}

TEST_CASE("length shift: the log-rank test of the textbooks' remissions under 6-MP and placebo") {
  // Freireich and others (1963): 42 patients; expected without a difference are 19.25 and 10.75, chi^2 is 16.79.
  const std::vector<std::int64_t> placebo{1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23};
  const std::vector<std::int64_t> treated{6, 6, 6, 7, 10, 13, 16, 22, 23};
  const std::vector<std::int64_t> still{6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35};
  std::vector<known_length> seen;
  for (const std::int64_t t : placebo) seen.push_back({tokens{t}, true, false});
  for (const std::int64_t t : treated) seen.push_back({tokens{t}, true, true});
  for (const std::int64_t t : still) seen.push_back({tokens{t}, false, true});
  const double z = length_drift_z(seen);
  CHECK(z > 0);
  CHECK(z * z == Catch::Detail::Approx(16.79).margin(0.01));
}

TEST_CASE("length shift: as tabulated, whatever ends, runs or is alike") {
  std::mt19937 random{7};
  for (int round = 0; round != 600; ++round) {
    std::vector<known_length> seen;
    const std::size_t n = random() % 40;
    const std::uint32_t groups = round < 300 ? 1 : 3;
    for (std::size_t i = 0; i != n; ++i) {
      const auto group = static_cast<std::uint32_t>(random() % groups);
      const auto length = static_cast<std::int64_t>(random() % 12);
      const bool ended = random() % 3 != 0;
      const bool newer = random() % 2 == 0;
      seen.push_back({tokens{length}, ended, newer, group});
    }
    const double expected = tabulated(seen);
    CHECK(length_drift_z(seen) == Catch::Detail::Approx(expected).margin(1e-9));
    for (known_length& k : seen) k.newer = !k.newer;
    CHECK(length_drift_z(seen) == Catch::Detail::Approx(-expected).margin(1e-9));
  }
  CHECK(length_drift_z({}) == 0);
}

TEST_CASE("length shift: traffic that has just begun is no shift, longer outputs are one") {
  std::mt19937 random{3};
  std::exponential_distribution<double> spread{1};
  int alarms = 0;
  int found = 0;
  for (int round = 0; round != 200; ++round) {
    for (const double factor : {1.0, 1.5}) {
      std::vector<known_length> seen;
      for (int i = 0; i != 1000; ++i) {
        const bool newer = i >= 500;
        const auto length = static_cast<std::int64_t>(1 + 400 * (newer ? factor : 1) * spread(random));
        const std::int64_t come = 1000 - i;  // so far; the newest have hardly begun
        seen.push_back({tokens{std::min(length, come)}, length <= come, newer});
      }
      const double z = length_drift_z(seen);
      if (factor == 1) alarms += std::abs(z) > 3 ? 1 : 0;
      if (factor > 1) found += z > 3 ? 1 : 0;
    }
  }
  CHECK(alarms <= 3);  // of 200, where 0.5 are to be expected
  CHECK(found >= 170);
}

TEST_CASE("length shift: a line that serves the short first is no shift among those that are alike") {
  std::mt19937 random{5};
  std::exponential_distribution<double> spread{1};
  int alarms = 0;
  int mistaken = 0;
  for (int round = 0; round != 100; ++round) {
    std::vector<known_length> seen;
    for (int i = 0; i != 1000; ++i) {
      const double expected = 400 * spread(random);
      const double noise = 0.5 + spread(random);
      const auto length = static_cast<std::int64_t>(1 + expected * noise);
      // All of the older have ended; of the newer those that were expected to be short, the others wait.
      const bool newer = i >= 500;
      const bool ended = !newer || expected < 200;
      seen.push_back({tokens{ended ? length : 0}, ended, newer});
      seen.back().group = static_cast<std::uint32_t>(expected / 20);
    }
    alarms += std::abs(length_drift_z(seen)) > 3 ? 1 : 0;
    for (known_length& k : seen) k.group = 0;
    mistaken += length_drift_z(seen) < -rank::drift_threshold_z ? 1 : 0;
  }
  CHECK(alarms <= 3);  // of 100, where 0.3 are to be expected
  CHECK(mistaken == 100);
}

TEST_CASE("length shift: allocates nothing") {
  std::vector<known_length> seen{{tokens{3}, true, false}, {tokens{5}, true, true}, {tokens{2}, false, true}};
  const tessera_test::no_allocation guard;
  static_cast<void>(length_drift_z(seen));
  REQUIRE(guard.allocations() == 0);
}

}  // namespace
