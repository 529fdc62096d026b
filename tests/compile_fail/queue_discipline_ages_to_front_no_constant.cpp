// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the discipline's .ages_to_front. must be .static constexpr bool.

#include <tessera/order/fcfs.hpp>
#include <tessera/queue/ordered_queue.hpp>

struct request : tessera::request_hook {};

struct vague : tessera::order::fcfs {
#ifdef EXPECT_OK
  static constexpr bool ages_to_front = false;
#else
  bool ages_to_front = false;
#endif
};

int main() {
  tessera::ordered_queue<request, vague> queue;
  return queue.empty() ? 0 : 1;
}
