// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the discipline lacks .bool before\(const R&, const R&\) const noexcept.

#include <tessera/order/fcfs.hpp>
#include <tessera/queue/ordered_queue.hpp>

struct request : tessera::request_hook {};

struct shortest_prompt : tessera::order::fcfs {
#ifdef EXPECT_OK
  bool before(const request& a, const request& b) const noexcept {
#else
  bool before(const request& a, const request& b) noexcept {
#endif
      return a.prompt != b.prompt ? a.prompt < b.prompt : a.state().sequence < b.state().sequence;
}
}
;

int main() {
  tessera::ordered_queue<request, shortest_prompt> queue;
  return queue.empty() ? 0 : 1;
}
