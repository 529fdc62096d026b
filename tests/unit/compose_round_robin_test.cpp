// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/round_robin.hpp>

#include "support/catch.hpp"
#include "unit/compose_timeline.hpp"

namespace {

using namespace tessera::literals;
using tessera_test::timed_request;
using tessera_test::timeline;
using times = std::vector<int>;

}  // namespace

TEST_CASE("round_robin: PASCAL figure 2(c), memory for two, a quantum of four tokens") {
  const auto r =
      timeline<tessera::round_robin<timed_request>>({{0, 8}, {1, 8}, {2, 6}}, 2, {.quantum = 4_tok, .watermark = 0});
  // A is preempted at 4, after four tokens, and back at 5, when B's quantum is used up.
  CHECK(r[0].tokens_at == times{1, 2, 3, 4, 6, 7, 8, 9});
  // B is preempted for three units between its fourth and its fifth token.
  CHECK(r[1].tokens_at == times{2, 3, 4, 5, 9, 10, 11, 12});
  // C waits for two units, has its first token after three, and is preempted at 8, after four tokens.
  CHECK(r[2].tokens_at == times{5, 6, 7, 8, 10, 11});
  CHECK(r[2].tokens_at.front() - 2 == 3);
}

TEST_CASE("round_robin: with memory for all none is interrupted") {
  const auto r =
      timeline<tessera::round_robin<timed_request>>({{0, 8}, {1, 8}, {2, 6}}, 3, {.quantum = 4_tok, .watermark = 0});
  CHECK(r[0].tokens_at == times{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(r[1].tokens_at == times{2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(r[2].tokens_at == times{3, 4, 5, 6, 7, 8});
}
