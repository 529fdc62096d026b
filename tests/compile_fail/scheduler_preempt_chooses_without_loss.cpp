// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: tessera: a Preempt that chooses needs .window. and .double loss

#include <tessera/pipeline/iteration_scheduler.hpp>

struct request : tessera::request_hook {};

struct my_preempt {
  static constexpr bool chooses = true;
  std::size_t window = 4;
#ifdef EXPECT_OK
  double loss(const request&, const tessera::victim_view&) const noexcept { return 0; }
#endif
  tessera::preemption_mode mode(const request&, tessera::blocks) const noexcept {
    return tessera::preemption_mode::recompute;
  }
};

std::size_t bytes() {
  return tessera::iteration_scheduler<request, tessera::order::fcfs, my_preempt>::required_bytes({.blocks = 4});
}
