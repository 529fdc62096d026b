// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/fcfs.hpp>
#include <tessera/sim/policies/llumnix.hpp>
#include <tessera/sim/report/report.hpp>

#include "sim/served.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using sim::request;
using sim::run_result;
using sim::trace_row;
using tessera_test::check_served;
using tessera_test::row;
using tessera_test::toy_cluster;

constexpr auto quiet = [](std::size_t) {};

template <class Control>
run_result run(const sim::cluster_options& options, Control control, const std::vector<trace_row>& rows) {
  return sim::cluster<fcfs<request>, Control>{options, {}, std::move(control)}.run(rows, quiet);
}

std::vector<std::uint32_t> places(const run_result& r) {
  std::vector<std::uint32_t> out;
  for (const sim::request_record& q : r.requests) out.push_back(q.instance);
  return out;
}

TEST_CASE("llumnix: a new request goes where each request has the most memory left") {
  // 100 blocks each; migration is off. Freeness counts what waits: (free - waiting demand) / requests.
  const sim::llumnix::config stays{.low = -1e9, .high = 1e9};
  // All empty: 100 each, the first. Then 90 / 1 against 100. The third: 90 and 80. The fourth: 45 and 60 (20 + 20 of
  // 100, 2 requests: 30) ...
  const std::vector<trace_row> rows{row(0, 160, 0, 40), row(0.01, 320, 0, 40), row(0.02, 320, 0, 40),
                                    row(0.03, 16, 0, 40)};
  // 0: {160}: 90. 1: {320}: 80. The third to 0: {160, 320}: 70 / 2 = 35. The fourth to 1.
  CHECK(places(run(toy_cluster(2, 100), sim::llumnix{stays}, rows)) == std::vector<std::uint32_t>{0, 1, 0, 1});
  // Equal freeness: fewer requests; equal too: in turn.
  const std::vector<trace_row> same{row(0, 160, 0, 9), row(0.01, 160, 0, 9), row(0.02, 160, 0, 9)};
  CHECK(places(run(toy_cluster(2, 100), sim::llumnix{stays}, same)) == std::vector<std::uint32_t>{0, 1, 0});
}

TEST_CASE("llumnix: new requests go to equals in turn") {
  const sim::llumnix::config stays{.low = -1e9, .high = 1e9};
  std::vector<trace_row> alone;
  for (int i = 0; i < 9; ++i) alone.push_back(row(10.0 * i, 16, 0, 4));
  CHECK(places(run(toy_cluster(3, 100), sim::llumnix{stays}, alone)) ==
        std::vector<std::uint32_t>{0, 1, 2, 0, 1, 2, 0, 1, 2});
}

TEST_CASE("llumnix: the least free instance gives its shortest request to the most free one") {
  auto options = toy_cluster(2, 100);
  options.fabric_bytes_per_s = 1e6;
  // 0 and 1 alternate. Those on 1 end at once, so 0 has {640, 320} with 40 blocks left, 20 each; 1 has 100.
  const std::vector<trace_row> rows{row(0, 640, 0, 60), row(0.01, 656, 0, 2), row(0.02, 320, 0, 60)};
  const auto with = [&](double low, double high) {
    return run(options, sim::llumnix{{.epoch_s = 2, .low = low, .high = high}}, rows);
  };
  const run_result moved = with(25, 50);
  REQUIRE(moved.numbers.migrations == 1);
  CHECK(moved.requests[2].migrations == 1);
  CHECK(moved.requests[2].instance == 1);
  CHECK(moved.requests[0].instance == 0);
  CHECK(with(10, 50).numbers.migrations == 0);   // nobody is that tight
  CHECK(with(25, 200).numbers.migrations == 0);  // nobody is that free
}

TEST_CASE("llumnix: everything ends, no token twice, and the same again") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    auto options = toy_cluster(4, seed % 2 == 0 ? 24 : 100);
    std::mt19937_64 random{seed};
    std::vector<trace_row> rows;
    double at = 0;
    for (int i = 0; i < 150; ++i) {
      at += std::exponential_distribution<double>{3}(random);
      rows.push_back(
          row(at, 1 + static_cast<std::int64_t>(random() % 200), 0, 1 + static_cast<std::int64_t>(random() % 90)));
    }
    const run_result first = run(options, sim::llumnix{}, rows);
    check_served(first, rows);
    CHECK(sim::format_csv(first) == sim::format_csv(run(options, sim::llumnix{}, rows)));
  }
}

}  // namespace
