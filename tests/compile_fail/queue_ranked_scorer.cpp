// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the scorer lacks .float operator\(\)\(const R&\) const noexcept.

#include <tessera/queue/ranked.hpp>

struct request : tessera::request_hook {};

struct my_scorer {
#ifdef EXPECT_OK
  float operator()(const request& r) const noexcept { return static_cast<float>(r.prompt.count()); }
#else
  float score(const request& r) const noexcept { return static_cast<float>(r.prompt.count()); }
#endif
};

int main() {
  request r;
  tessera::ranked_queue<request, my_scorer> queue;
  queue.push(r, tessera::time_point{});
  queue.erase(r);
  return 0;
}
