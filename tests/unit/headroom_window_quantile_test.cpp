// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/headroom/reference_demand.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using headroom::reference_demand;
using headroom::window_quantile;

/// Sorts. The rank in exact arithmetic: q is given in thousandths.
std::int64_t by_sorting(const std::deque<std::int64_t>& window, std::size_t thousandths) {
  std::vector<std::int64_t> all(window.begin(), window.end());
  std::sort(all.begin(), all.end());
  const std::size_t rank = (thousandths * all.size() + 999) / 1000;
  return all[std::max<std::size_t>(rank, 1) - 1];
}

TEST_CASE("window quantile: as by sorting, for windows, quantiles and kinds of data of all sorts") {
  std::mt19937_64 random{1};
  for (const std::size_t window : {1U, 2U, 3U, 7U, 20U, 64U, 100U}) {
    for (const std::size_t thousandths : {1U, 50U, 250U, 500U, 900U, 950U, 990U, 1000U}) {
      for (int kind = 0; kind != 4; ++kind) {
        const auto storage_bytes = window_quantile<std::int64_t>::required_bytes({window});
        std::vector<std::byte> buffer(storage_bytes);
        arena memory{buffer};
        window_quantile<std::int64_t> q{memory, {window}, static_cast<double>(thousandths) / 1000};
        CHECK(q.empty());
        std::deque<std::int64_t> last;
        for (std::int64_t i = 0; i != 400; ++i) {
          const auto r = static_cast<std::int64_t>(random() >> 1U);
          const std::int64_t value = kind == 0 ? r : kind == 1 ? r % 5 : kind == 2 ? i : -i;
          last.push_back(value);
          if (last.size() > window) last.pop_front();
          const tessera_test::no_allocation guard;
          q.push(value);
          const std::int64_t got = q.value();
          REQUIRE(guard.allocations() == 0);
          REQUIRE(q.size() == last.size());
          REQUIRE(got == by_sorting(last, thousandths));
        }
      }
    }
  }
}

TEST_CASE("window quantile: storage of exactly the size asked for") {
  const auto bytes = window_quantile<double>::required_bytes({10});
  alignas(64) std::byte buffer[4096];
  REQUIRE(bytes <= sizeof buffer);
  arena memory{std::span{buffer}.first(bytes)};
  window_quantile<double> q{memory, {10}, 0.5};
  for (const double x : {3.0, 1.0, 2.0}) q.push(x);
  CHECK(q.value() == 2.0);
  CHECK(q.window() == 10);
}

TEST_CASE("reference demand: the 95th percentile in blocks, and one to grow") {
  auto storage = storage_for<reference_demand>({.window = 100});
  arena memory{storage.memory()};
  reference_demand d{memory, storage.limits(), {.block_size = tokens{16}, .before_any = blocks{7}}};
  CHECK(d.value() == blocks{7});
  d.observe(tokens{17});
  CHECK(d.value() == blocks{3});
  for (std::int64_t i = 1; i <= 100; ++i) d.observe(tokens{16 * i});
  CHECK(d.observed() == 100);
  CHECK(d.value() == blocks{96});
  for (int i = 0; i != 100; ++i) d.observe(tokens{0});
  CHECK(d.value() == blocks{1});
}

}  // namespace
