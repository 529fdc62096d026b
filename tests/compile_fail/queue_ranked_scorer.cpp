// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: .ranked. needs requests with a member .score., or a Scorer with .float operator\(\)\(const R&\) const
// noexcept.

#include <tessera/queue/ranked.hpp>

struct my_scorer {
  template <tessera::schedulable R>
#ifdef EXPECT_OK
  float operator()(const R& r) const noexcept {
#else
  float score(const R& r) const noexcept {
#endif
      return static_cast<float>(r.prompt.count());
}
}
;

struct request : tessera::request_hook_for<tessera::order::ranked<my_scorer>> {};

int main() {
  request r;
  tessera::ranked_queue<request, my_scorer> queue;
  queue.push(r, tessera::time_point{});
  queue.erase(r);
  return 0;
}
