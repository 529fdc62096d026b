// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/preempt/cheapest.hpp>
#include <tessera/preempt/recompute.hpp>
#include <tessera/preempt/swap.hpp>

#include "support/catch.hpp"

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
