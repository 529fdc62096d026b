// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/preempt/cheapest.hpp>
#include <tessera/preempt/least_lost.hpp>
#include <tessera/preempt/recompute.hpp>
#include <tessera/preempt/swap.hpp>

#include "support/catch.hpp"

#include <limits>

namespace {

using namespace tessera;

struct request : request_hook {};

}  // namespace

TEST_CASE("swap swaps and recompute recomputes") {
  const request r;
  CHECK(preempt::swap{}.mode(r, blocks{1}) == preemption_mode::swap);
  CHECK(preempt::recompute{}.mode(r, blocks{1000}) == preemption_mode::recompute);
}

TEST_CASE("cheapest compares two transfers with one prefill") {
  request r;
  const auto mode = [&](const preempt::cheapest& p, std::int64_t computed, std::int64_t held) {
    request_access::state(r).computed = tokens{computed};
    return p.mode(r, blocks{held});
  };
  const preempt::cheapest p{.seconds_per_block = 0.5, .seconds_per_token = 0.01, .seconds_per_token_squared = 0};
  CHECK(mode(p, 299, 3) == preemption_mode::recompute);  // 2 x 0.5 x 3 s against 2.99 s
  CHECK(mode(p, 301, 3) == preemption_mode::swap);
  // The quadratic part: linear alone would recompute at any length.
  const preempt::cheapest q{.seconds_per_block = 0.16, .seconds_per_token = 0.01, .seconds_per_token_squared = 1e-5};
  CHECK(mode(q, 160, 10) == preemption_mode::recompute);  // 3.2 s against 1.6 + 0.256 s
  CHECK(mode(q, 1600, 100) == preemption_mode::swap);     // 32 s against 16 + 25.6 s
}

TEST_CASE("cheapest: a request of which nothing is computed is recomputed") {
  const request r;
  CHECK(preempt::cheapest{}.mode(r, blocks{1}) == preemption_mode::recompute);
}

TEST_CASE("least_lost: time to have the KV back, by block that becomes free") {
  request r;
  request_access::state(r).computed = tokens{40};
  const preempt::least_lost p{
      {.seconds_per_block = 0.125, .seconds_per_token = 0.25, .seconds_per_token_squared = 0.0078125}};
  const auto loss = [&](std::int64_t frees, std::int64_t shared, std::int64_t to_copy, std::int64_t host_free) {
    return p.loss(r, {.frees = blocks{frees},
                      .shared = blocks{shared},
                      .to_copy = blocks{to_copy},
                      .host_free = blocks{host_free},
                      .block_size = tokens{4}});
  };
  CHECK(loss(10, 0, 10, 0) == 2.25);   // computed again: 40 x 0.25 s + 1,600 x 0.0078125 s for ten blocks
  CHECK(loss(10, 0, 10, 10) == 0.25);  // copied: 2 x 10 x 0.125 s for ten blocks
  CHECK(loss(10, 0, 10, 9) == 2.25);   // there is no room for all
  CHECK(loss(5, 5, 5, 0) == 2.875);    // half is found again: 20 x 0.25 s + (1,600 - 400) x 0.0078125 s for five
  CHECK(loss(2, 10, 0, 0) == 0.0);     // all of it is
  CHECK(loss(0, 10, 0, 0) == std::numeric_limits<double>::infinity());
}
