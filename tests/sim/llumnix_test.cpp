// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/fcfs.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/report/report.hpp>

#include "sim/llumnix_control.hpp"
#include "sim/served.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <algorithm>
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
using tessera_test::llumnix_control;
using tessera_test::row;
using tessera_test::toy_cluster;

constexpr auto quiet = [](std::size_t) {};

template <class Control>
run_result run(const sim::cluster_options& options, Control control, const std::vector<trace_row>& rows) {
  return sim::cluster_of<fcfs<request>, Control>{options, {}, std::move(control)}.run(rows, quiet);
}

std::vector<std::uint32_t> places(const run_result& r) {
  std::vector<std::uint32_t> out;
  for (const sim::request_record& q : r.requests) out.push_back(q.instance);
  return out;
}

TEST_CASE("llumnix: a new request goes where each request has the most memory left") {
  // 100 blocks each; migration is off. Freeness counts what waits: (free - waiting demand) / requests.
  const fleet::llumnix::config stays{.low = -1e9, .high = 1e9};
  // All empty: 100 each, the first. Then 90 / 1 against 100. The third: 90 and 80. The fourth: 45 and 60 (20 + 20 of
  // 100, 2 requests: 30) ...
  const std::vector<trace_row> rows{row(0, 160, 0, 40), row(0.01, 320, 0, 40), row(0.02, 320, 0, 40),
                                    row(0.03, 16, 0, 40)};
  // 0: {160}: 90. 1: {320}: 80. The third to 0: {160, 320}: 70 / 2 = 35. The fourth to 1.
  CHECK(places(run(toy_cluster(2, 100), llumnix_control(stays), rows)) == std::vector<std::uint32_t>{0, 1, 0, 1});
  // Equal freeness: fewer requests; equal too: in turn.
  const std::vector<trace_row> same{row(0, 160, 0, 9), row(0.01, 160, 0, 9), row(0.02, 160, 0, 9)};
  CHECK(places(run(toy_cluster(2, 100), llumnix_control(stays), same)) == std::vector<std::uint32_t>{0, 1, 0});
}

TEST_CASE("llumnix: a request that starts in the step under way has its blocks, and does not wait for them as well") {
  // When the third comes, the first has 43 of 100 blocks, and the second 30, in its first step: 57 and 70 are left.
  const std::vector<trace_row> rows{row(0, 640, 0, 200), row(10, 480, 0, 9), row(10.2, 16, 0, 4)};
  const fleet::llumnix::config stays{.low = -1e9, .high = 1e9};
  CHECK(places(run(toy_cluster(2, 100), llumnix_control(stays), rows)) == std::vector<std::uint32_t>{0, 1, 1});
}

TEST_CASE("llumnix: of an instance that has died unnoticed it is believed what it said last") {
  // Each has one that runs, with 10 of 100 blocks, and four that wait for as many: (90 - 40) / 5. Without the waiting
  // ones it would be 90 / 5, and all that come next would go there.
  auto options = toy_cluster(2, 100);
  options.instance.limits.residents = 1;
  options.faults = {{.kind = sim::fault_kind::dies, .instance = 0, .at_s = 5, .for_s = 1000}};
  options.detection_s = 50;
  std::vector<trace_row> rows;
  for (int i = 0; i != 10; ++i) rows.push_back(row(0.01 * i, 150, 0, 40));
  for (int i = 0; i != 4; ++i) rows.push_back(row(6 + 0.01 * i, 10, 0, 4));
  std::vector<std::uint32_t> to;
  struct watched : sim::controlled {
    explicit watched(std::vector<std::uint32_t>* where)
        : sim::controlled{llumnix_control({.low = -1e9, .high = 1e9})}, placed{where} {}
    std::vector<std::uint32_t>* placed;  // The requests that come between 5 and 20 s.
    std::size_t place(sim::cluster& c, const request& r) override {
      const std::size_t i = sim::controlled::place(c, r);
      if (c.now_s() > 5 && c.now_s() < 20) placed->push_back(static_cast<std::uint32_t>(i));
      return i;
    }
  };
  check_served(run(options, watched{&to}, rows), rows);
  REQUIRE(to.size() == 4);
  CHECK(std::count(to.begin(), to.end(), 0U) == 2);
}

TEST_CASE("llumnix: new requests go to equals in turn") {
  const fleet::llumnix::config stays{.low = -1e9, .high = 1e9};
  std::vector<trace_row> alone;
  for (int i = 0; i < 9; ++i) alone.push_back(row(10.0 * i, 16, 0, 4));
  CHECK(places(run(toy_cluster(3, 100), llumnix_control(stays), alone)) ==
        std::vector<std::uint32_t>{0, 1, 2, 0, 1, 2, 0, 1, 2});
}

TEST_CASE("llumnix: the least free instance gives its shortest request to the most free one") {
  auto options = toy_cluster(2, 100);
  options.fabric_bytes_per_s = 1e6;
  // 0 and 1 alternate. Those on 1 end at once, so 0 has {640, 320} with 40 blocks left, 20 each; 1 has 100.
  const std::vector<trace_row> rows{row(0, 640, 0, 60), row(0.01, 656, 0, 2), row(0.02, 320, 0, 60)};
  const auto with = [&](double low, double high) {
    return run(options, llumnix_control({.epoch_s = 2, .low = low, .high = high}), rows);
  };
  const run_result moved = with(25, 50);
  REQUIRE(moved.numbers.migrations == 1);
  CHECK(moved.requests[2].migrations == 1);
  CHECK(moved.requests[2].instance == 1);
  CHECK(moved.requests[0].instance == 0);
  CHECK(with(10, 50).numbers.migrations == 0);   // no instance is that tight
  CHECK(with(25, 200).numbers.migrations == 0);  // no instance is that free
}

/// Places as `fleet::llumnix` does, and looks whether that is where freeness is highest, by its definition.
struct looked_at : sim::controlled {
  explicit looked_at(std::size_t* seen) : sim::controlled{llumnix_control({.low = -1e9, .high = 1e9})}, queues{seen} {}
  std::size_t* queues;  ///< Queues of more than one, that were there when a request came.

  [[nodiscard]] std::size_t place(sim::cluster& c, const request& r) override {
    std::vector<double> freeness;
    for (std::size_t i = 0; i != c.size(); ++i) {
      std::int64_t demand = 0;
      std::size_t waits = 0;
      for (const request* one : c.at(i).requests()) {
        const auto& s = one->state();
        const bool loses = s.life == lifecycle::resident && s.mark == plan_mark::preempted;
        if (!(s.life == lifecycle::waiting && s.row == no_index) && !loses) continue;
        demand += (s.length.count() + 15) / 16;
        ++waits;
      }
      *queues += waits > 1 ? 1U : 0U;
      const auto requests = std::max<std::size_t>(c.at(i).served(), 1);
      const std::int64_t free = c.views()[i].free_blocks.count();
      freeness.push_back(static_cast<double>(free - demand) / static_cast<double>(requests));
    }
    const std::size_t to = sim::controlled::place(c, r);
    CHECK(freeness[to] == *std::max_element(freeness.begin(), freeness.end()));
    return to;
  }
};

TEST_CASE("llumnix: freeness by what all that waits needs") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random{seed};
    std::vector<trace_row> rows;
    double at = 0;
    for (int i = 0; i < 120; ++i) {
      at += std::exponential_distribution<double>{4}(random);
      const auto prompt = 1 + static_cast<std::int64_t>(random() % 200);
      rows.push_back(row(at, prompt, 0, 1 + static_cast<std::int64_t>(random() % 90)));
    }
    std::size_t seen = 0;
    check_served(run(toy_cluster(3, 24), looked_at{&seen}, rows), rows);
    CHECK(seen > 50);
  }
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
    const run_result first = run(options, llumnix_control(), rows);
    check_served(first, rows);
    CHECK(sim::format_csv(first) == sim::format_csv(run(options, llumnix_control(), rows)));
  }
}

}  // namespace
