// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/death.hpp"

#include <tessera/cost/batch_features.hpp>

namespace {

using namespace tessera;
using namespace tessera::literals;
using namespace tessera::cost;

TESSERA_DEATH_CASE(cost_input_beyond_length, "input is at most its length") { batch_features{}.join({2_tok, 1_tok}); }
TESSERA_DEATH_CASE(cost_negative_input, "input is at most its length") { batch_features{}.join({tokens{-1}, 1_tok}); }
TESSERA_DEATH_CASE(cost_absurd_length, "input is at most its length") {
  batch_features{}.join({0_tok, max_length + 1_tok});
}
TESSERA_DEATH_CASE(cost_sum_of_squares_overflows, "leaves 64 bits") {
  batch_features b;
  for (int i = 0; i != 3; ++i) b.join({max_length, max_length});
}
TESSERA_DEATH_CASE(cost_empty_batch_grows, "only a request of the batch grows") { batch_features{}.grow(); }
TESSERA_DEATH_CASE(cost_batch_shrinks, "only a request of the batch grows") {
  batch_features b;
  b.join({1_tok, 1_tok});
  b.grow(tokens{-1});
}
TESSERA_DEATH_CASE(cost_leaves_an_empty_batch, "not in this batch") { batch_features{}.leave({1_tok, 1_tok}); }
TESSERA_DEATH_CASE(cost_another_leaves, "not in this batch") {
  batch_features b;
  b.join({5_tok, 9_tok});
  b.leave({4_tok, 9_tok});
}

}  // namespace
