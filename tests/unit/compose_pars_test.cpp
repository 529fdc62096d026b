// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/pars.hpp>

#include "support/catch.hpp"
#include "unit/compose_timeline.hpp"

namespace {

using namespace tessera::literals;
using tessera_test::timed_request;
using tessera_test::timeline;
using times = std::vector<int>;

/// The prompt's length stands for the predicted one, so that a job can name it.
struct by_prompt {
  float operator()(const timed_request& r) const noexcept { return static_cast<float>(r.prompt.count()); }
};
using scheduler = tessera::pars<timed_request, by_prompt>;

constexpr auto never = tessera::duration::forever();

}  // namespace

TEST_CASE("pars: those that wait start in order of score, and running ones are not interrupted (section III-B)") {
  // Memory for one. A runs to its end although B, C and D are expected to be shorter; then the shortest of them.
  const auto r = timeline<scheduler>({{0, 4, 0, 9}, {1, 3, 0, 5}, {2, 1, 0, 2}, {3, 2, 0, 4}}, 1,
                                     {.threshold = never, .watermark = 0});
  CHECK(r[0].tokens_at == times{1, 2, 3, 4});
  CHECK(r[2].tokens_at == times{5});
  CHECK(r[3].tokens_at == times{6, 7});
  CHECK(r[1].tokens_at == times{8, 9, 10});
}

TEST_CASE("pars: the order is the predictor's, right or wrong, and arrival breaks ties") {
  const auto r =
      timeline<scheduler>({{0, 1, 0, 7}, {0, 5, 0, 3}, {0, 2, 0, 7}}, 1, {.threshold = never, .watermark = 0});
  CHECK(r[1].tokens_at == times{1, 2, 3, 4, 5});
  CHECK(r[0].tokens_at == times{6});
  CHECK(r[2].tokens_at == times{7, 8});
}

TEST_CASE("pars: a stream of short requests starves a long one, unless it is boosted") {
  std::vector<tessera_test::job> jobs{{0, 2, 0, 1}, {0, 3, 0, 50}};
  for (int t = 1; t != 20; ++t) jobs.push_back({t, 1, 0, 2});
  const auto starved = timeline<scheduler>(jobs, 1, {.threshold = never, .watermark = 0});
  CHECK(starved[1].tokens_at == times{22, 23, 24});
  const auto boosted = timeline<scheduler>(jobs, 1, {.threshold = 5_s, .watermark = 0});
  CHECK(boosted[1].tokens_at == times{6, 7, 8});  // it waited for the threshold, and no residence more
  // The short ones that were pushed back then wait longer than the threshold in turn, and go by age.
  CHECK(boosted[2].tokens_at == times{3});
  CHECK(boosted.back().tokens_at == times{24});
}

TEST_CASE("pars: among the boosted the oldest goes first, whatever its score") {
  const auto r = timeline<scheduler>({{0, 10, 0, 1}, {1, 1, 0, 60}, {2, 1, 0, 40}, {9, 1, 0, 3}}, 1,
                                     {.threshold = 6_s, .watermark = 0});
  CHECK(r[1].tokens_at == times{11});
  CHECK(r[2].tokens_at == times{12});
  CHECK(r[3].tokens_at == times{13});
}

TEST_CASE("pars: when residents outgrow the memory the one expected to be longest gives way, and comes back by score") {
  // Two blocks of 64 tokens. A needs its second one when it has 64 tokens, 54 of them generated. (The last has no KV
  // yet, so that is after step 55.) B, which ranks behind, is swapped out. C and D, which came later, rank before B.
  const auto r = timeline<scheduler>({{0, 60, 0, 10}, {40, 30, 0, 30}, {50, 4, 0, 20}, {51, 6, 0, 25}}, 2,
                                     {.threshold = never, .watermark = 0});
  CHECK(r[0].tokens_at.back() == 60);
  CHECK(r[1].state().preemptions == 1);
  CHECK(r[1].tokens_at[14] == 55);
  CHECK(r[2].tokens_at == times{61, 62, 63, 64});
  CHECK(r[3].tokens_at == times{61, 62, 63, 64, 65, 66});
  CHECK(r[1].tokens_at[15] == 65);
  CHECK(r[1].tokens_at.size() == 30);
}

TEST_CASE("pars: by default the score is the request's own, and the threshold two minutes") {
  using tessera::scheduler_limits;
  struct request : tessera::pars_request {};
  constexpr scheduler_limits limits{.requests = 2, .blocks = 4, .block_size = 64_tok, .residents = 1, .host_blocks = 4};
  auto storage = tessera::storage_for<tessera::pars<request>>(limits);
  request slow;
  request fast;
  tessera::pars<request> s{storage};
  const auto start_of = [&](double now) {
    const auto plan = s.plan(tessera::time_point::at_seconds(now), {});
    const request* const first = plan.prefill.empty() ? nullptr : plan.prefill[0].request;
    std::vector<tessera::outcome> outcomes(plan.size(), {.end_of_reasoning = false, .finished = true});
    s.commit(plan, outcomes, tessera::time_point::at_seconds(now));
    return first;
  };
  for (request* r : {&slow, &fast}) {
    r->prompt = 10_tok;
    r->max_output = 10_tok;
  }
  slow.score = 5;
  fast.score = -1;
  REQUIRE(ok(s.submit(slow, tessera::time_point::at_seconds(0))));
  REQUIRE(ok(s.submit(fast, tessera::time_point::at_seconds(119))));
  SECTION("one instant before") {
    CHECK(start_of(119.99) == &fast);
    CHECK(start_of(119.99) == &slow);
  }
  SECTION("at the threshold") {
    CHECK(start_of(120) == &slow);
    CHECK(start_of(120) == &fast);
  }
}
