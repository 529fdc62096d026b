// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/input/resample.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

namespace sim = tessera::sim;
using tessera_test::approx;

/// One arrival a second, four a second in the second quarter; each has its own prompt.
std::vector<sim::trace_row> day() {
  std::vector<sim::trace_row> rows;
  double t = 100;
  for (std::int64_t i = 0; i != 7000; ++i) {
    rows.push_back({.arrival_s = t, .prompt_tokens = i + 1});
    const double part = (t - 100) / 4000;
    t += part >= 0.25 && part < 0.5 ? 0.25 : 1;
  }
  return rows;
}

TEST_CASE("windows of a trace make another one like it", "[sim]") {
  const auto rows = day();
  const std::size_t windows = sim::resample_windows(rows);
  CHECK(windows == 24);
  const auto in = [](const std::vector<sim::trace_row>& some, double from, double to) {
    return std::count_if(some.begin(), some.end(),
                         [&](const sim::trace_row& r) { return from <= r.arrival_s && r.arrival_s < to; });
  };
  double all = 0;
  for (std::uint64_t seed = 1; seed != 41; ++seed) {
    const auto other = sim::resample(rows, windows, seed);
    CAPTURE(seed, other.size());
    CHECK(std::is_sorted(other.begin(), other.end(),
                         [](const auto& a, const auto& b) { return a.arrival_s < b.arrival_s; }));
    CHECK(other.front().arrival_s >= rows.front().arrival_s);
    CHECK(other.back().arrival_s <= rows.back().arrival_s + 1e-6);
    // Every row comes from at most two windows away: the peak stays where it is.
    const double width = (rows.back().arrival_s - rows.front().arrival_s) / 24;
    for (std::size_t i = 0; i < other.size(); i += 97) {
      const auto from = static_cast<std::size_t>(other[i].prompt_tokens - 1);
      CHECK(std::abs(rows[from].arrival_s - other[i].arrival_s) <= width * 1.001);
    }
    CHECK(in(other, 1300, 1900) == approx(2400).epsilon(0.01));  // in the midst of the peak
    all += static_cast<double>(other.size());
    const auto again = sim::resample(rows, windows, seed);
    REQUIRE(again.size() == other.size());
    CHECK(again[5].arrival_s == other[5].arrival_s);
    CHECK(sim::resample(rows, windows, seed + 100)[3000].prompt_tokens != other[3000].prompt_tokens);
  }
  CHECK(all / 40 == approx(static_cast<double>(rows.size())).epsilon(0.02));
}

TEST_CASE("what windows would cut or double is not drawn from", "[sim]") {
  auto rows = day();
  rows[7].session = 3;
  CHECK(sim::resample_windows(rows) == 0);
  rows = day();
  rows[7].runs = {{}};
  CHECK(sim::resample_windows(rows) == 0);
  CHECK(sim::resample_windows(std::vector<sim::trace_row>(1000)) == 0);  // all at once
  const auto all = day();
  CHECK(sim::resample_windows(std::vector<sim::trace_row>(all.begin(), all.begin() + 127)) == 0);
  CHECK(sim::resample_windows(std::vector<sim::trace_row>(all.begin(), all.begin() + 128)) == 4);
  CHECK(sim::resample_windows({}) == 0);
}

}  // namespace
