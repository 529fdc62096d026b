// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// expect: tessera: Order is not a queue_discipline for this request type
// expect: the discipline lacks .bool displaces\(const R& waiting, const R& resident\) const noexcept.

#include <tessera/pipeline/iteration_scheduler.hpp>

struct request : tessera::request_hook {};

struct my_order {
  static constexpr bool ages = false;
  void enter(request&, tessera::time_point) noexcept {}
  bool charge(request&, tessera::tokens) noexcept { return false; }
  void requeue(request&) noexcept {}
  void change_phase(request&) noexcept {}
  void leave(request&) noexcept {}
  void advance(tessera::time_point) noexcept {}
  static bool before(const request& a, const request& b) noexcept { return a.state().sequence < b.state().sequence; }
#ifdef EXPECT_OK
  static bool displaces(const request&, const request&) noexcept { return false; }
#endif
};

std::size_t bytes() { return tessera::iteration_scheduler<request, my_order>::required_bytes({.blocks = 4}); }
