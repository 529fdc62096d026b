// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/partition/exact.hpp>

#include "support/catch.hpp"

#include <array>
#include <cmath>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;
using namespace tessera::partition;
using cost::request_lengths;

TEST_CASE("a small table, worked by hand") {
  auto memory = storage_for<length_table>({.requests = 4});
  arena a{memory.memory()};
  length_table t{a, memory.limits()};
  CHECK(t.size() == 0);
  CHECK(t.requests() == 0);
  // Lengths 2, 5, 5, 9, of which 1, 2, 5 and 3 were prompt.
  const std::array<request_lengths, 4> sample{{{2_tok, 5_tok}, {3_tok, 9_tok}, {1_tok, 2_tok}, {5_tok, 5_tok}}};
  REQUIRE(t.assign(sample, {.qoe = {{10, 1, 0, 0, 1}}, .transfer = {100, 1}}) == status::ok);
  REQUIRE(t.size() == 3);
  CHECK(t.requests() == 4);
  CHECK(t.cut(0) == 0_tok);
  CHECK(t.cut(1) == 3_tok);
  CHECK(t.cut(2) == 6_tok);
  CHECK(t.cut(3) == 10_tok);
  CHECK(t.position(0_tok) == 0);
  CHECK(t.position(2_tok) == 0);
  CHECK(t.position(3_tok) == 1);
  CHECK(t.position(6_tok) == 2);
  CHECK(t.position(10_tok) == 3);
  const std::vector<double> n(t.counts().begin(), t.counts().end());
  CHECK(n == std::vector<double>{0, 1, 3, 4});
  const std::vector<double> s(t.loads().begin(), t.loads().end());
  CHECK(s == std::vector<double>{0, 3, 15, 25});
  // Cut at 3: only 2 of 5 grows across it, since 3 begins at it. Cut at 6: 3 of 9.
  const std::vector<double> c(t.cut_costs().begin(), t.cut_costs().end());
  CHECK(c == std::vector<double>{0, 103, 106, 0});
  CHECK(t.cut_cost(3_tok) == 103);
  CHECK(t.cut_cost(4_tok) == 2 * 104);
  CHECK(t.cut_cost(0_tok) == 0);
  CHECK(t.cut_cost(unbounded) == 0);
  CHECK(t.stage_cost(1, 3, 2) == 3 * (10 + 22 / 2.0));
  CHECK(t.ended_below(2) == 3);
}

TEST_CASE("samples that cannot be planned for are refused") {
  auto memory = storage_for<length_table>({.requests = 3});
  arena a{memory.memory()};
  length_table t{a, memory.limits()};
  const length_table::prices fine{.qoe = {{1, 1, 1, 1, 1}}};
  const auto one = [&](tokens input, tokens length) {
    const request_lengths r{input, length};
    return t.assign({&r, 1}, fine);
  };
  const std::array<request_lengths, 4> four{};
  CHECK(t.assign(four, fine) == status::exhausted);
  CHECK(t.assign({}, fine) == status::invalid);
  CHECK(one(0_tok, 0_tok) == status::invalid);
  CHECK(one(tokens{-1}, 3_tok) == status::invalid);
  CHECK(one(4_tok, 3_tok) == status::invalid);
  CHECK(one(0_tok, cost::max_length + 1_tok) == status::invalid);
  CHECK(one(cost::max_length, cost::max_length) == status::ok);
  const std::array<request_lengths, 2> long_ones{{{0_tok, cost::max_length}, {0_tok, cost::max_length}}};
  CHECK(t.assign(long_ones, fine) == status::invalid);  // the sum of squares would leave 64 bits
  const request_lengths r{1_tok, 2_tok};
  for (const double bad : {-1.0, std::nan(""), double(INFINITY)}) {
    for (std::size_t i = 0; i != 5; ++i) {
      auto p = fine;
      p.qoe.d[i] = bad;
      CHECK(t.assign({&r, 1}, p) == status::invalid);
    }
    CHECK(t.assign({&r, 1}, {.qoe = fine.qoe, .transfer = {bad, 0}}) == status::invalid);
    CHECK(t.assign({&r, 1}, {.qoe = fine.qoe, .transfer = {0, bad}}) == status::invalid);
    CHECK(t.assign({&r, 1}, {.qoe = fine.qoe, .in_flight = bad}) == status::invalid);
  }
  for (const double bad : {1e-322, 1e-100, 1e100}) {
    CHECK(t.assign({&r, 1}, {.qoe = fine.qoe, .in_flight = bad}) == status::invalid);
  }
  CHECK(t.size() == 1);  // as it was
  CHECK(t.assign({&r, 1}, {.qoe = {{0, 1e301, 0, 0, 0}}}) == status::invalid);
  CHECK(t.size() == 0);
}

TEST_CASE("200,000 requests of up to 128K tokens add up exactly") {
  constexpr std::size_t n = 200'000;
  std::mt19937 random{8};
  std::vector<request_lengths> sample(n);
  std::int64_t squares = 0;
  for (auto& r : sample) {
    const auto i = std::int64_t(130'000 + random() % 1072);
    r = {tokens{i}, 131072_tok};
    squares += i * i;
  }
  auto memory = storage_for<length_table>({.requests = n});
  arena a{memory.memory()};
  length_table t{a, memory.limits()};
  REQUIRE(t.assign(sample, {.qoe = {{0, 0, 0, 1, 0}}}) == status::ok);
  REQUIRE(t.size() == 1);
  CHECK(squares < std::int64_t{1} << 53);
  CHECK(t.loads()[1] == double(squares));
  auto own = storage_for<exact>({.lengths = 1, .instances = 16});
  arena b{own.memory()};
  exact plan{b, own.limits()};
  std::array<stage, 1> out{};
  CHECK(plan(t, 16, out).quality == double(n) * double(squares) / 16);
  CHECK(out[0].instances == 16);
}

}  // namespace
