// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Virtual freeness of prefill workers: fitted to measured prefill times, and used to route a burst.

#include <tessera/core/owned_storage.hpp>
#include <tessera/headroom/calibration.hpp>
#include <tessera/placement/phasor_router.hpp>

#include <array>
#include <cstdio>

int main() {
  using namespace tessera::literals;
  namespace headroom = tessera::headroom;

  // Prefill times that you measured, and the throughput that they are related to.
  const std::array<headroom::prefill_sample, 4> measured{
      {{512_tok, 0.041}, {1024_tok, 0.083}, {4096_tok, 0.361}, {8192_tok, 0.802}}};
  const headroom::calibration fit = headroom::calibrate(measured, 100e12);
  if (!ok(fit.status)) return 1;
  std::printf("alpha %.3g, beta %.3g, R^2 %.4f\n", fit.cost.alpha, fit.cost.beta, fit.r_squared);

  auto storage = tessera::storage_for<tessera::placement::phasor_router>({.workers = 2});
  tessera::arena memory{storage.memory()};
  tessera::placement::phasor_router router{memory, storage.limits()};
  for (std::size_t w = 0; w != 2; ++w) router.open(w, {fit.cost, {.peak_flops = 100e12, .ttft = 0.4_s}});

  for (const auto prompt : {4000_tok, 500_tok, 500_tok, 1000_tok, 3000_tok, 500_tok}) {
    const std::size_t w = router.route(prompt);
    std::printf("%4d tokens to worker %zu, which has %5.2f left\n", static_cast<int>(prompt.count()), w, router.phi(w));
  }
  router.advance(0, 0_tok, 2048_tok);  // half of the first prompt is computed
  std::printf("worker 0 has %.2f left\n", router.phi(0));
}

/* output:
alpha 2.38e+05, beta 7.84e+09, R^2 1.0000
4000 tokens to worker 0, which has  0.12 left
 500 tokens to worker 1, which has  0.90 left
 500 tokens to worker 1, which has  0.80 left
1000 tokens to worker 1, which has  0.60 left
3000 tokens to worker 1, which has -0.04 left
 500 tokens to worker 0, which has  0.02 left
worker 0 has 0.45 left
*/
