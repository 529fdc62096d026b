// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/headroom/prefill_cost.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <limits>
#include <random>

namespace {

using namespace tessera;
using headroom::longest_prompt;
using headroom::prefill_cost;

TEST_CASE("within: the most tokens that the budget pays for, by trying one after the other") {
  std::mt19937 random{3};
  const auto below = [&](unsigned n) { return static_cast<double>(random() % n); };
  for (int round = 0; round != 3000; ++round) {
    const prefill_cost cost{.alpha = below(4) == 0 ? 0 : below(50) / 100,
                            .beta = below(4) == 0 ? 0 : below(1000) / 10,
                            .model_scale = 0.5 + below(4)};
    if (cost.alpha == 0 && cost.beta == 0) continue;
    const tokens computed{static_cast<std::int64_t>(below(3) == 0 ? 0 : below(300))};
    // Now and then exactly what `some` tokens cost.
    const tokens some{static_cast<std::int64_t>(below(200))};
    const double budget = below(2) == 0 ? cost.flops(computed + some, computed) : below(20'000);
    const tokens n = cost.within(budget, computed);
    CAPTURE(cost.alpha, cost.beta, cost.model_scale, computed.count(), budget);
    tokens tried{};
    while (tried < tokens{40'000} && cost.flops(computed + tried + tokens{1}, computed) <= budget) tried += tokens{1};
    if (tried == tokens{40'000}) continue;
    CHECK(n == tried);
  }
}

TEST_CASE("within: large budgets, to the token") {
  const prefill_cost cost{.alpha = 2e5, .beta = 1.5e10, .model_scale = 1};
  for (const double seconds : {1e-6, 0.05, 1.0, 3600.0}) {
    const double budget = 1e14 * seconds;
    const tokens n = cost.within(budget, tokens{1000});
    if (n > tokens{}) CHECK(cost.flops(tokens{1000} + n, tokens{1000}) <= budget);
    CHECK(cost.flops(tokens{1001} + n, tokens{1000}) > budget);
  }
}

TEST_CASE("within: no budget, no cost, and more than a prompt can have") {
  const prefill_cost cost{.alpha = 1, .beta = 1, .model_scale = 1};
  CHECK(cost.within(0) == tokens{});
  CHECK(cost.within(-1e30) == tokens{});
  CHECK(cost.within(1.9) == tokens{});  // one token costs 2
  CHECK(cost.within(2.0) == tokens{1});
  const tokens all = longest_prompt;
  CHECK(cost.within(1e300) == all);
  CHECK(cost.within(std::numeric_limits<double>::infinity(), tokens{5}) == all - tokens{5});
  CHECK(prefill_cost{}.within(1) == all);
  CHECK(prefill_cost{}.within(0) == tokens{});
}

}  // namespace
