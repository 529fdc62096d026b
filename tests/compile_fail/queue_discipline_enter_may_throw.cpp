// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the discipline lacks .void enter\(R&, R::time_point now\) noexcept.

#include <tessera/order/fcfs.hpp>
#include <tessera/queue/ordered_queue.hpp>

struct request : tessera::request_hook {};

struct arrival : tessera::order::fcfs {
#ifdef EXPECT_OK
  void enter(request&, tessera::time_point) noexcept {}
#else
  void enter(request&, tessera::time_point) {}
#endif
};

int main() {
  tessera::ordered_queue<request, arrival> queue;
  return queue.empty() ? 0 : 1;
}
