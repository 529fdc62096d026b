// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/headroom/prefill_load.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::headroom;
using tessera_test::approx;

struct queued {
  tokens prompt;
  tokens computed;
};

/// Equation 2 as it stands, over a queue.
double by_definition(const std::vector<queued>& queue, const prefill_cost& c, const prefill_budget& b) {
  long double sum = 0;
  for (const queued& q : queue) {
    const auto cost = [&](tokens l) {
      const auto n = static_cast<long double>(l.count());
      return static_cast<long double>(c.alpha) * n * n +
             static_cast<long double>(c.beta) * static_cast<long double>(c.model_scale) * n;
    };
    sum += cost(q.prompt) - cost(q.computed);
  }
  return static_cast<double>(
      1 - sum / (static_cast<long double>(b.peak_flops) * static_cast<long double>(b.ttft.seconds())));
}

constexpr prefill_cost cost{.alpha = 200'704, .beta = 15.2e9, .model_scale = 1.14};
constexpr prefill_budget budget{.peak_flops = 121e12, .ttft = 0.4_s};

// By hand: (2 * 9 + 3 * 5 * 3) / (100 * 0.5) = 63 / 50; then with one of three tokens computed 2 * (9 - 1) + 15 * 2.
constexpr double by_hand(bool partly) {
  prefill_load load;
  load.join(tokens{3});
  if (partly) load.advance(tokens{0}, tokens{1});
  return time_freeness(load, {.alpha = 2, .beta = 3, .model_scale = 5}, {.peak_flops = 100, .ttft = duration{0.5}});
}
static_assert(by_hand(false) == 1.0 - 63.0 / 50.0);
static_assert(by_hand(true) == 1.0 - 46.0 / 50.0);

TEST_CASE("prefill load: empty is 1, full is 0, more is negative") {
  prefill_load load;
  CHECK(time_freeness(load, cost, budget) == 1.0);
  const prefill_cost linear{.alpha = 0, .beta = 1};
  const prefill_budget ten{.peak_flops = 5, .ttft = 2_s};
  load.join(tokens{10});
  CHECK(time_freeness(load, linear, ten) == 0.0);
  load.join(tokens{25});
  CHECK(time_freeness(load, linear, ten) == -2.5);
}

TEST_CASE("prefill cost: of what is left of a prompt") {
  CHECK(cost.flops(tokens{1000}) == approx(200'704e6 + 15.2e9 * 1.14 * 1000).epsilon(1e-12));
  CHECK(cost.flops(tokens{1000}, tokens{1000}) == 0.0);
  CHECK(cost.flops(tokens{1000}, tokens{300}) ==
        approx(cost.flops(tokens{1000}) - cost.flops(tokens{300})).epsilon(1e-12));
  CHECK(model_scale(8.03e9, 7.62e9) == approx(1.0538).epsilon(1e-4));
}

// The comment on the printed constants, in numbers.
TEST_CASE("prefill cost: the constants as printed fit no unit") {
  const double units = phasor_printed_cost.flops(tokens{1024});
  CHECK(units == approx(51.53).epsilon(1e-3));
  const double measured = 0.116;  // section 2.1, prompts of 1,024 tokens on average
  for (const double prefix : {1e0, 1e3, 1e6, 1e9, 1e12, 1e15}) {
    const double seconds = units * prefix / phasor_printed_peak_flops;
    CHECK((seconds < measured / 3 || seconds > measured * 3));
  }
  CHECK(phasor_printed_cost.beta / phasor_printed_cost.alpha == approx(160));
  // Two operations per weight and token; four per layer, width and pair of tokens, half of the pairs (Qwen2.5-7B).
  CHECK(2 * 7.62e9 / (4.0 * 28 * 3584 / 2) == approx(75'000).epsilon(0.02));
}

TEST_CASE("prefill load: as the sum over the queue, at every step of a long random run") {
  std::mt19937_64 random{1};
  prefill_load load;
  std::vector<queued> queue;
  const tessera_test::no_allocation guard;
  std::size_t allocated = 0;
  const auto some = [&](std::int64_t n) {
    return tokens{static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n + 1))};
  };
  for (int step = 0; step != 20'000; ++step) {
    const auto before = guard.allocations();
    const unsigned what = random() % 8;
    if (queue.empty() || (what < 3 && queue.size() < 40)) {
      const std::int64_t longest = random() % 50 == 0 ? longest_prompt.count() : 20'000;
      const tokens prompt = some(longest);
      const tokens computed = random() % 3 == 0 ? some(prompt.count()) : tokens{};
      load.join(prompt, computed);
      tessera_test::allow_allocation allow;
      queue.push_back({prompt, computed});
    } else {
      const std::size_t i = random() % queue.size();
      if (what < 6) {
        load.leave(queue[i].prompt, queue[i].computed);
        queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        const tokens to = some(queue[i].prompt.count());
        load.advance(queue[i].computed, to);
        queue[i].computed = to;
      }
    }
    allocated += guard.allocations() - before;
    REQUIRE(load.requests() == queue.size());
    const double want = by_definition(queue, cost, budget);
    REQUIRE(time_freeness(load, cost, budget) == approx(want).epsilon(1e-12).margin(1e-12));
    if (queue.empty()) REQUIRE(load == prefill_load{});
  }
  CHECK(allocated == 0);
}

TEST_CASE("prefill load: leaving undoes joining exactly, so nothing drifts") {
  std::mt19937_64 random{2};
  prefill_load load;
  load.join(tokens{777});
  const double start = time_freeness(load, cost, budget);
  double naive = start;  // what adding and subtracting in floating point would do
  bool drifted = false;
  for (int round = 0; round != 2000; ++round) {
    std::vector<tokens> prompts(50);
    for (tokens& p : prompts) p = tokens{static_cast<std::int64_t>(random() % 100'000)};
    for (const tokens p : prompts) {
      load.join(p);
      naive -= cost.flops(p) / budget.flops();
    }
    std::shuffle(prompts.begin(), prompts.end(), random);
    for (const tokens p : prompts) {
      load.leave(p);
      naive += cost.flops(p) / budget.flops();
    }
    REQUIRE(time_freeness(load, cost, budget) == start);
    drifted = drifted || naive != start;
  }
  CHECK(drifted);
}

TEST_CASE("prefill load: the longest prompts do not overflow") {
  prefill_load load;
  for (int i = 0; i != 1000; ++i) load.join(longest_prompt);
  const double l = 4294967295.0;
  CHECK(load.flops({.alpha = 1, .beta = 0}) == approx(1000 * l * l).epsilon(1e-15));
  CHECK(load.flops({.alpha = 0, .beta = 1}) == 1000 * l);
  load.advance(tokens{0}, longest_prompt);
  CHECK(load.flops({.alpha = 1, .beta = 0}) == approx(999 * l * l).epsilon(1e-15));
  load.advance(longest_prompt, tokens{0});
  for (int i = 0; i != 1000; ++i) load.leave(longest_prompt);
  CHECK(load == prefill_load{});
}

TEST_CASE("prefill load: carries and borrows of the wide sum") {
  headroom::detail::wide_sum sum;
  constexpr std::uint64_t most = ~std::uint64_t{0};
  sum.add(most);
  CHECK_FALSE(sum == headroom::detail::wide_sum{});
  sum.add(1);
  CHECK(sum.value() == 18446744073709551616.0);
  CHECK(sum.at_least(most));
  sum.add(most);
  sum.add(most);
  sum.subtract(most);
  sum.subtract(most);
  CHECK(sum.value() == 18446744073709551616.0);
  sum.subtract(1);  // a borrow
  CHECK(sum.at_least(most));
  sum.subtract(most);
  CHECK(sum == headroom::detail::wide_sum{});
  CHECK_FALSE(sum.at_least(1));
}

}  // namespace
