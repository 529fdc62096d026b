// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A heap with its nodes in a buffer of the caller: timers that can be moved and dropped, and an end to the room.

#include <tessera/queue/heap.hpp>

#include <cstddef>
#include <cstdio>

struct timer {
  double at = 0;
  const char* name = "";
  bool operator<(const timer& other) const noexcept { return at < other.at; }
};

int main() {
  using heap_type = tessera::fixed_heap<timer>;
  alignas(tessera::storage_alignment) static std::byte buffer[heap_type::required_bytes({3})];
  tessera::arena memory{buffer};
  heap_type timers{memory, {3}};

  const auto retry = timers.push({2.0, "retry"});
  const auto report = timers.push({1.0, "report"});
  const auto timeout = timers.push({9.0, "timeout"});
  std::printf("room for a fourth: %s\n", timers.push({3.0, "extra"}) ? "yes" : "no");

  timers.update(retry, {0.5, "retry"});
  timers.erase(report);
  std::printf("the timeout is still at %.1f\n", timers[timeout].at);
  for (; !timers.empty(); timers.pop()) std::printf("%.1f %s\n", timers.top().at, timers.top().name);
}

/* output:
room for a fourth: no
the timeout is still at 9.0
0.5 retry
9.0 timeout
*/
