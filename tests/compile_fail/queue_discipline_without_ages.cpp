// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the discipline lacks .static constexpr bool ages.

#include <tessera/order/fcfs.hpp>
#include <tessera/queue/ordered_queue.hpp>

struct request : tessera::request_hook {};

struct forgetful : tessera::order::fcfs {
#ifdef EXPECT_OK
  static constexpr bool ages = false;
#else
  bool ages = false;
#endif
};

int main() {
  tessera::ordered_queue<request, forgetful> queue;
  return queue.empty() ? 0 : 1;
}
