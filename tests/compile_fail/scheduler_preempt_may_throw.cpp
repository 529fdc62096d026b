// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: tessera: Preempt lacks .preemption_mode mode\(const Request&, blocks\) const noexcept.

#include <tessera/pipeline/iteration_scheduler.hpp>

struct request : tessera::request_hook {};

struct my_preempt {
#ifdef EXPECT_OK
  tessera::preemption_mode mode(const request&, tessera::blocks) const noexcept {
#else
  tessera::preemption_mode mode(const request&, tessera::blocks) const {
#endif
      return tessera::preemption_mode::recompute;
}
}
;

std::size_t bytes() {
  return tessera::iteration_scheduler<request, tessera::order::fcfs, my_preempt>::required_bytes({.blocks = 4});
}
