// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/admit/future_peak.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/rank/sampled_length.hpp>
#include <tessera/request/hook.hpp>

#include "support/catch.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

struct request : request_hook {
  float score = std::numeric_limits<float>::quiet_NaN();
};

}  // namespace

TEST_CASE("sampled_length: all together are like those that ended, given what they have", "[rank]") {
  std::mt19937 random{8};
  for (int round = 0; round != 20; ++round) {
    // Below 16 the distribution has a bin for each length, so that it is that of the sample.
    auto storage = storage_for<rank::length_distribution>({.window = 200, .groups = 4});
    rank::length_distribution d{storage};
    std::vector<std::int64_t> ended;
    for (int i = 0; i != 200; ++i) {
      const std::int64_t most = i % 4 == 0 ? 15 : 4;
      ended.push_back(1 + static_cast<std::int64_t>(random()) % most);
      d.observe(std::numeric_limits<float>::quiet_NaN(), tokens{ended.back()});
    }
    d.fit();
    const rank::sampled_length<> draw{.lengths = &d};
    const auto generated = static_cast<std::int64_t>(random() % 6);
    double longer = 0;
    for (const std::int64_t n : ended) longer += n > generated ? 1 : 0;
    constexpr std::uint64_t draws = 20'000;
    std::vector<double> drawn(17);
    for (std::uint64_t k = 1; k <= draws; ++k) {
      request r;
      r.prompt = 7_tok;
      request_access::state(r).sequence = k;
      request_access::state(r).length = r.prompt + tokens{generated};
      const std::int64_t n = draw(r).count();
      REQUIRE(n > generated);
      REQUIRE(n <= 15);
      drawn[static_cast<std::size_t>(n)] += 1;
    }
    for (std::int64_t n = generated + 1; n != 16; ++n) {
      double as_long = 0;
      for (const std::int64_t e : ended) as_long += e == n ? 1 : 0;
      CAPTURE(round, generated, n);
      CHECK(std::abs(drawn[static_cast<std::size_t>(n)] / draws - as_long / longer) < 0.001);
    }
  }
}

TEST_CASE("sampled_length: a limit holds, and counts while nothing is learned", "[rank]") {
  request r;
  r.prompt = 10_tok;
  request_access::state(r).length = 10_tok;
  request_access::state(r).sequence = 1;
  rank::sampled_length<> draw{.if_unknown = 77_tok};
  CHECK(draw(r) == 77_tok);
  r.max_output = 40_tok;
  CHECK(draw(r) == 40_tok);
  auto storage = storage_for<rank::length_distribution>({.window = 8, .groups = 1});
  rank::length_distribution d{storage};
  draw.lengths = &d;
  CHECK(draw(r) == 40_tok);
  for (int i = 0; i != 8; ++i) d.observe(std::numeric_limits<float>::quiet_NaN(), 1000_tok);
  d.fit();
  CHECK(draw(r) == 40_tok);
  r.max_output = {};
  CHECK(draw(r) >= 900_tok);  // a bin is an eighth wide
  CHECK(draw.place_of(0) > 0);
  CHECK(draw.place_of(~std::uint64_t{0}) <= 1);
}

// Past-Future: one runs and one comes; lengths are known to be 4. What all need at the worst moment decides.
TEST_CASE("sampled_length: admission by the memory to come, as counted by hand", "[rank][admit]") {
  auto storage = storage_for<rank::length_distribution>({.window = 8, .groups = 1});
  rank::length_distribution d{storage};
  for (int i = 0; i != 8; ++i) d.observe(std::numeric_limits<float>::quiet_NaN(), 4_tok);
  d.fit();
  const admit::basic_future_peak<rank::sampled_length<>> a{.expected_output = {.lengths = &d}};
  request runs, comes;
  runs.prompt = comes.prompt = 3_tok;
  request_access::state(runs).length = 5_tok;  // it has two of its four
  request_access::state(runs).row = 0;
  request_access::state(comes).length = 3_tok;
  request* const residents[] = {&runs};
  const std::uint32_t own[] = {5};
  const auto admits = [&](const auto& policy, std::int64_t capacity) {
    return policy.admits(comes, admission_view<request>{.free_after = blocks{capacity - 5 - 3},
                                                        .needed = blocks{3},
                                                        .capacity = blocks{capacity},
                                                        .block_size = 1_tok,
                                                        .residents = residents,
                                                        .admitted = {},
                                                        .exclusive = own});
  };
  // Blocks of one token: 8 are in use. The first of them ends two tokens from now, counted to the far edge of its bin.
  // At the end of that step both have taken a token for each of three steps. Both have the next begun: 8 + 2 x 3 + 2.
  // The one that ends gives back 5, and the other's two tokens more are less than that.
  std::int64_t least = 8;
  while (!admits(a, least)) ++least;
  CHECK(least == 16);
  // By what they may generate at most, both would go on for long.
  runs.max_output = comes.max_output = 100_tok;
  CHECK(admits(a, 16));
  CHECK(!admits(admit::future_peak{}, 150));
}
