// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/cost/fit.hpp>
#include <tessera/cost/learned_steps.hpp>

template class tessera::cost::least_squares<5>;

tessera::status fitted(std::span<const tessera::cost::profile_row> rows, tessera::cost::fit_result& out) {
  return tessera::cost::fit(rows, {}, out);
}
double changed(tessera::cost::batch_features& b, const tessera::cost::request_lengths& r,
               const tessera::cost::qoe_model& m) {
  b.join(r);
  b.grow();
  b.leave(r);
  return m.batch(b);
}
tessera::tokens learned(tessera::cost::learned_steps& l, std::size_t decodes, tessera::tokens n, double seconds) {
  l.ran(decodes, n, n, seconds);
  return l.budget(0.05)(decodes, n);
}
