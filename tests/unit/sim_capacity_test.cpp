// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/planning/capacity.hpp>

#include "support/catch.hpp"

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace sim = tessera::sim;
using tessera_test::approx;

TEST_CASE("the smallest size is what counting up finds, in few calls", "[sim]") {
  for (const std::size_t least : {1U, 2U, 5U}) {
    for (const std::size_t most : {5U, 8U, 40U, 64U}) {
      for (std::size_t threshold = 0; threshold != most + 3; ++threshold) {
        CAPTURE(least, most, threshold);
        std::optional<std::size_t> expected;
        for (std::size_t n = least; n <= most && !expected; ++n) {
          if (n >= threshold) expected = n;
        }
        std::set<std::size_t> asked;
        const auto found = sim::smallest_size(least, most, [&](std::size_t n) {
          CHECK(n >= least);
          CHECK(n <= most);
          CHECK(asked.insert(n).second);  // nothing is run twice
          return n >= threshold;
        });
        CHECK(found == expected);
        CHECK(asked.size() <= 14);
      }
    }
  }
}

TEST_CASE("the highest load is found to the precision asked for", "[sim]") {
  for (const double precision : {0.05, 0.02}) {
    for (double limit = 0.005; limit < 200; limit *= 1.13) {
      CAPTURE(precision, limit);
      int calls = 0;
      const auto meets = [&](double factor) {
        ++calls;
        return factor <= limit;
      };
      const double found = sim::highest_load(meets(1), precision, meets);
      if (limit < 1.0 / 64) {
        CHECK(found == 0);
      } else if (limit >= 64) {
        CHECK(found == 64);
      } else {
        CHECK(found <= limit);
        CHECK(found * (1 + precision) >= limit * 0.999999);
      }
      CHECK(calls <= 16);
    }
  }
}

sim::summary numbers(double ttft, bool met, sim::load_state state = sim::load_state::carried) {
  sim::summary s;
  s.slo.lines = {{.bound = {.metric = sim::slo_metric::ttft, .part = 0.99, .seconds = 2},
                  .within = met ? 1 : 0.5,
                  .value = ttft,
                  .met = met}};
  s.slo.met = met;
  s.load = {state, state == sim::load_state::overload ? 0.25 : 0};
  return s;
}

TEST_CASE("a search keeps the best that meets the objectives, and the nearest that does not", "[sim]") {
  const auto sized = sim::fewest_instances(1, 64, [](std::size_t n) {
    return sim::capacity_trial{n, 1, std::nullopt, numbers(14.0 / static_cast<double>(n), n >= 7)};
  });
  REQUIRE(sized.best);
  REQUIRE(sized.beyond);
  CHECK(sized.best->instances == 7);
  CHECK(sized.beyond->instances == 6);
  CHECK(sized.runs <= 7);
  const auto none = sim::fewest_instances(1, 8, [](std::size_t n) {
    return sim::capacity_trial{n, 1, std::nullopt, numbers(9, false)};
  });
  CHECK_FALSE(none.best);
  CHECK(none.beyond->instances == 8);
  const auto loaded = sim::highest_rate([](double factor) {
    return sim::capacity_trial{4, factor, std::nullopt, numbers(factor, factor <= 2.9)};
  });
  REQUIRE(loaded.best);
  CHECK(loaded.best->factor <= 2.9);
  CHECK(loaded.best->factor >= 2.9 / 1.02);
  CHECK(loaded.beyond->factor > 2.9);
  CHECK(loaded.beyond->factor <= loaded.best->factor * 1.021);
  // Where nothing can be run beyond a factor, it is never asked for.
  for (const std::pair<double, double>& range :
       {std::pair{0.3, 1.5}, std::pair{1.0, 1.0}, std::pair{1 / 1024.0, 700.0}}) {
    const double least = range.first;
    const double most = range.second;
    for (const double limit : {0.0, 0.4, 1.2, 1e9}) {
      INFO(least << " to " << most << ", " << limit);
      const auto bounded = sim::highest_rate(
          [&](double factor) {
            CHECK(factor >= least);
            CHECK((factor < most || factor == 1));
            return sim::capacity_trial{4, factor, std::nullopt, numbers(factor, factor <= limit)};
          },
          least, most);
      if (limit >= most) {
        REQUIRE(bounded.best);
        CHECK(bounded.best->factor >= most / 1.02);
        CHECK_FALSE(bounded.beyond);
      } else if (limit < least) {
        CHECK_FALSE(bounded.best);
      }
    }
  }
  // Objectives that are met only because the run was too short do not count.
  CHECK_FALSE((sim::capacity_trial{1, 1, std::nullopt, numbers(1, true, sim::load_state::overload)}.meets()));
}

TEST_CASE("the divisions that are furthest below their bounds come first", "[sim]") {
  const auto best = sim::likely_divisions(5, false, 2, [](const sim::pool_sizes& s) {
    const double ttft = s.prefill == 3 ? 0.5 : 4.0 - static_cast<double>(s.prefill);
    return numbers(ttft, ttft <= 2, s.prefill == 4 ? sim::load_state::overload : sim::load_state::carried);
  });
  REQUIRE(best.size() == 2);
  CHECK(best[0].prefill == 3);
  CHECK(best[1].prefill == 2);  // 4/1 is quicker, but its queue grows
  CHECK(sim::likely_divisions(2, false, 9, [](const sim::pool_sizes&) { return numbers(1, true); }).size() == 1);
}

TEST_CASE("why a run does not meet its objectives is said in words", "[sim]") {
  CHECK(sim::describe_failure(numbers(3, false)) == "ttft_p99 is 3 s");
  CHECK(sim::describe_failure(numbers(3, false, sim::load_state::overload)) ==
        "the queue grows by 25 % of what arrives, ttft_p99 is 3 s");
  CHECK(sim::describe_failure(numbers(1, false)) == "ttft_p99 is 1 s");
  CHECK(sim::describe_failure(numbers(sim::never, false)) == "only 50 % end within ttft_p99");
  CHECK(sim::describe_failure(numbers(1, true)).empty());
  CHECK(sim::strain(numbers(3, false).slo) == approx(1.5));
  CHECK(std::isinf(sim::strain(numbers(sim::never, false).slo)));
  CHECK(sim::strain({}) == 0);
}

TEST_CASE("why a run fails is told with the digits that decide, and what is alike is found", "[sim]") {
  CHECK(sim::describe_failure(numbers(2.003, false)) == "ttft_p99 is 2.003 s");
  CHECK(sim::describe_failure(numbers(2.00003, false)) == "ttft_p99 is 2.00003 s");
  CHECK(sim::is_close(numbers(2.003, false)));
  CHECK(sim::is_close(numbers(1.99, true)));
  CHECK_FALSE(sim::is_close(numbers(2.03, false)));
  CHECK_FALSE(sim::is_close(numbers(1.9, true)));
  CHECK_FALSE(sim::is_close(numbers(2.003, false, sim::load_state::overload)));
  CHECK(sim::describe_margin(numbers(2.003, false).slo) == "ttft_p99 0.15 % above");
  CHECK(sim::describe_margin(numbers(1.99, true).slo) == "ttft_p99 0.5 % below");
}

}  // namespace
