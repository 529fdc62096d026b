// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the request type must derive publicly from .tessera::request_hook.

#include <tessera/queue/fcfs.hpp>

#ifdef EXPECT_OK
struct request : tessera::request_hook {};
#else
class request : tessera::request_hook {};
#endif

int main() {
  tessera::fcfs_queue<request> queue;
  return queue.empty() ? 0 : 1;
}
