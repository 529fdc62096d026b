// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a discipline that ages needs .R::time_point due_at\(const R&\) const noexcept. and .void age\(R&\) noexcept.

#include <tessera/order/fcfs.hpp>
#include <tessera/queue/ordered_queue.hpp>

struct patient : tessera::order::fcfs {
  static constexpr bool ages = true;
#ifdef EXPECT_OK
  template <tessera::schedulable R>
  static typename R::time_point due_at(const R&) noexcept {
    return R::time_point::never();
  }
  template <tessera::schedulable R>
  void age(R&) noexcept {}
#endif
};

struct request : tessera::request_hook_for<patient> {};

int main() {
  tessera::ordered_queue<request, patient> queue;
  return queue.empty() ? 0 : 1;
}
