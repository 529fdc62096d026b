// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the discipline lacks .bool displaces\(const R& waiting, const R& resident\) const noexcept.

#include <tessera/queue/ordered_queue.hpp>

struct request : tessera::request_hook {};

struct arrival {
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

int main() {
  tessera::ordered_queue<request, arrival> queue;
  return queue.empty() ? 0 : 1;
}
