// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: tessera: Admit lacks .bool admits\(const Request&, const admission_view<Request>&\) const noexcept.

#include <tessera/pipeline/iteration_scheduler.hpp>

struct request : tessera::request_hook {};

struct my_admit {
#ifdef EXPECT_OK
  bool admits(const request&, const tessera::admission_view<request>&) const noexcept {
#else
  bool admits(const request&, const tessera::admission_view<request>&) noexcept {
#endif
      return true;
}
}
;

std::size_t bytes() {
  return tessera::iteration_scheduler<request, tessera::order::fcfs, tessera::preempt::swap, my_admit>::required_bytes(
      {.blocks = 4});
}
