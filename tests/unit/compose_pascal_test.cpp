// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/pascal.hpp>

#include "support/catch.hpp"
#include "unit/compose_timeline.hpp"

namespace {

using namespace tessera::literals;
using tessera_test::timed_request;
using tessera_test::timeline;
using times = std::vector<int>;

}  // namespace

TEST_CASE("pascal: reasoning takes the memory of answering, and each queue is round-robin (section IV-C)") {
  // Memory for one. A reasons for 2 tokens and answers with 6, B comes at 4 and reasons for 3 of its 5.
  const auto r =
      timeline<tessera::pascal<timed_request>>({{0, 8, 2}, {4, 5, 3}}, 1, {.quantum = 4_tok, .watermark = 0});
  // A gives way at 4 to B, which reasons until 7. Both answer then; A has the earlier turn: it entered the low queue
  // first, has used 2 of its quantum and goes on for 2. B answers with its 2 and is done.
  CHECK(r[0].tokens_at == times{1, 2, 3, 4, 8, 9, 12, 13});
  CHECK(r[1].tokens_at == times{5, 6, 7, 10, 11});
}

TEST_CASE("pascal: two that reason share the high queue by quantum") {
  const auto r =
      timeline<tessera::pascal<timed_request>>({{0, 5, 4}, {0, 5, 4}}, 1, {.quantum = 2_tok, .watermark = 0});
  CHECK(r[0].tokens_at == times{1, 2, 5, 6, 9});
  CHECK(r[1].tokens_at == times{3, 4, 7, 8, 10});
}

TEST_CASE("pascal: reasoning that outgrows the threshold is demoted, and gives way to reasoning that has not") {
  // KV beyond 5 tokens: prompt 3 and 3 generated; the last generated has none yet, so after the fourth token.
  const auto r = timeline<tessera::pascal<timed_request>>({{0, 8, 7, 3}, {1, 3, 2, 3}}, 1,
                                                          {.quantum = 100_tok, .demote_above = 5_tok, .watermark = 0});
  CHECK(r[0].tokens_at == times{1, 2, 3, 4, 7, 8, 9, 10});
  CHECK(r[1].tokens_at == times{5, 6, 11});
}

TEST_CASE("pascal: answering requests take turns with those that were demoted") {
  const auto r = timeline<tessera::pascal<timed_request>>({{0, 4}, {0, 4}}, 1, {.quantum = 2_tok, .watermark = 0});
  CHECK(r[0].tokens_at == times{1, 2, 5, 6});
  CHECK(r[1].tokens_at == times{3, 4, 7, 8});
}
