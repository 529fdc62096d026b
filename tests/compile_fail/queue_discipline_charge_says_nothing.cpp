// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the discipline lacks .bool charge\(R&, tokens ran\) noexcept.

#include <tessera/order/fcfs.hpp>
#include <tessera/queue/ordered_queue.hpp>

struct request : tessera::request_hook {};

struct counting : tessera::order::fcfs {
  tessera::tokens total{};
#ifdef EXPECT_OK
  bool charge(request&, tessera::tokens ran) noexcept {
    total += ran;
    return false;
  }
#else
  void charge(request&, tessera::tokens ran) noexcept { total += ran; }
#endif
};

int main() {
  tessera::ordered_queue<request, counting> queue;
  return queue.empty() ? 0 : 1;
}
