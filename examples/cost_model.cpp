// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A cost model fitted to measured batches, and what it says of one batch as requests come, grow and go.

#include <tessera/cost/fit.hpp>

#include <cstdio>
#include <vector>

int main() {
  using namespace tessera::literals;
  namespace cost = tessera::cost;

  // Measurements: here made by a machine that takes 8 ms a step, and a little more per request and token.
  std::vector<cost::profile_row> rows;
  for (int n = 1; n <= 64; n *= 2) {
    for (int length = 128; length <= 8192; length *= 2) {
      cost::batch_features batch;
      for (int i = 0; i != n; ++i) batch.join({tessera::tokens{length - i}, tessera::tokens{length + 100 - i}});
      const auto f = batch.features();
      rows.push_back({f, 8e-3 + 2e-5 * f[1] + 1e-8 * f[2] + 5e-8 * f[4]});
    }
  }
  cost::fit_result fitted;
  if (!ok(cost::fit(rows, {}, fitted))) return 1;
  std::printf("%zu rows fitted, %zu held out; mean error %.1f %%, of a constant %.1f %%\n", fitted.training_rows,
              fitted.held_out_rows, 100 * fitted.held_out_error, 100 * fitted.constant_error);

  cost::batch_features batch;
  batch.join({1000_tok, 1000_tok});
  batch.join({4000_tok, 4000_tok});
  std::printf("two requests: %.3f ms per token for each, Q = %.4f\n", 1e3 * fitted.model.per_request(batch.features()),
              fitted.model.batch(batch));
  batch.grow(500_tok);
  batch.leave({1000_tok, 1500_tok});
  std::printf("one is done:  %.3f ms per token, Q = %.4f\n", 1e3 * fitted.model.per_request(batch.features()),
              fitted.model.batch(batch));
}

/* output:
37 rows fitted, 12 held out; mean error 0.0 %, of a constant 37.0 %
two requests: 8.350 ms per token for each, Q = 0.0167
one is done:  8.265 ms per token, Q = 0.0083
*/
