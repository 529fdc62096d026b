// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/hrrn.hpp>

#include "support/catch.hpp"
#include "unit/compose_timeline.hpp"

namespace {

using namespace tessera;
using namespace tessera::literals;
using tessera_test::timed_request;
using tessera_test::timeline;
using times = std::vector<int>;

/// The prompt's length stands for the predicted one, so that a job can name it.
struct by_prompt {
  tokens more{};
  tokens operator()(const timed_request& r) const noexcept { return r.prompt + more; }
};
using scheduler = hrrn<timed_request, by_prompt>;

}  // namespace

TEST_CASE("hrrn: the greatest ratio starts next, and running ones are not interrupted") {
  // Memory for one. At 4 s the ratios are 1 + 3 / 5, 1 + 2 / 2 and 1 + 1 / 4.
  const auto r = timeline<scheduler>({{0, 4, 0, 9}, {1, 3, 0, 5}, {2, 1, 0, 2}, {3, 2, 0, 4}}, 1,
                                     {.pace = 1_s, .step = 1.05, .watermark = 0});
  CHECK(r[0].tokens_at == times{1, 2, 3, 4});
  CHECK(r[2].tokens_at == times{5});
  // At 5 s: 1 + 4 / 5 and 1 + 2 / 4.
  CHECK(r[1].tokens_at == times{6, 7, 8});
  CHECK(r[3].tokens_at == times{9, 10});
  // With a step that makes all alike it is arrival order.
  const auto alike = timeline<scheduler>({{0, 4, 0, 9}, {1, 3, 0, 5}, {2, 1, 0, 2}, {3, 2, 0, 4}}, 1,
                                         {.pace = 1_s, .step = 9, .watermark = 0});
  CHECK(alike[1].tokens_at == times{5, 6, 7});
  // So it is where all are expected to be as long.
  const auto equal = timeline<scheduler>({{0, 4, 0, 9}, {1, 3, 0, 5}, {2, 1, 0, 2}, {3, 2, 0, 4}}, 1,
                                         {.pace = 1_s, .step = 1.05, .watermark = 0, .expected = {.more = 1000_tok}});
  CHECK(equal[1].tokens_at == times{5, 6, 7});
}

TEST_CASE("hrrn: a stream of short requests holds a long one up in proportion to its length") {
  for (const int length : {10, 20}) {
    std::vector<tessera_test::job> jobs{{0, 2, 0, 1}, {0, 3, 0, length}};
    for (int t = 1; t != 60; ++t) jobs.push_back({t, 1, 0, 2});
    const auto r = timeline<scheduler>(jobs, 1, {.pace = 1_s, .step = 1.05, .watermark = 0});
    // A short one has waited for a second when its turn comes: a ratio of 1.5.
    CHECK(r[1].tokens_at.front() >= length / 2);
    CHECK(r[1].tokens_at.front() <= length / 2 + 3);
  }
}
