// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: .paced. needs requests with a token pacer

#include <tessera/order/paced.hpp>
#include <tessera/queue/ordered_queue.hpp>

struct my_deadline {
  template <tessera::schedulable R>
#ifdef EXPECT_OK
  tessera::time_point operator()(const R& r) const noexcept {
    return tessera::time_point::at_seconds(r.dry_at);
  }
#else
  double operator()(const R& r) const noexcept {
    return r.dry_at;
  }
#endif
};

struct request : tessera::request_hook_for<tessera::order::paced<my_deadline>> {
  double dry_at = 0;
};

int main() {
  request r;
  tessera::ordered_queue<request, tessera::order::paced<my_deadline>> queue;
  queue.push(r, tessera::time_point{});
  queue.erase(r);
  return 0;
}
