// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Time in integer nanoseconds: sums are exact, so decisions repeat bit for bit. The request type chooses the clock, and
// everything that holds such requests follows.
#include <tessera/compose/fcfs.hpp>
#include <tessera/pacing/token_pacer.hpp>

#include <chrono>
#include <cstdio>
#include <type_traits>

using ns = tessera::nanoseconds_clock;

struct my_request : tessera::basic_request_hook<ns> {
  tessera::basic_token_pacer<ns> pacer;  // what the reader has got; 100 ms a token by default
};

using scheduler_type = tessera::fcfs<my_request>;
static_assert(std::is_same_v<scheduler_type::time_point, tessera::basic_time_point<ns>>);

/// What an engine would call: the origin of the steady clock is as good as any other.
tessera::basic_time_point<ns> from_steady(std::chrono::steady_clock::time_point t) {
  const auto since_origin = std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch());
  return tessera::basic_time_point<ns>{tessera::basic_duration<ns>{since_origin.count()}};
}

template <class Clock>
void ten_times_a_tenth(const char* name) {
  tessera::basic_time_point<Clock> t{};
  for (int i = 0; i < 10; ++i) t += tessera::basic_duration<Clock>::from_seconds(0.1);
  std::printf("%s: ten times 0.1 s is %s1 s\n", name, t.seconds() == 1.0 ? "" : "not ");
}

int main() {
  ten_times_a_tenth<tessera::seconds_clock>("seconds");
  ten_times_a_tenth<ns>("nanoseconds");

  const auto start = from_steady(std::chrono::steady_clock::time_point{std::chrono::milliseconds{1500}});
  std::printf("start: %lld ns\n", static_cast<long long>(start.since_origin().ticks()));

  my_request r;
  r.prompt = tessera::tokens{10};
  auto storage = tessera::storage_for<scheduler_type>({.blocks = 4, .residents = 1});
  scheduler_type scheduler{storage};
  if (!ok(scheduler.submit(r, start))) return 1;

  auto now = start;
  for (int step = 0; step < 4; ++step) {  // four tokens in 80 ms: faster than they are read
    const auto plan = scheduler.plan(now, {.max_batch = 1});
    now += tessera::basic_duration<ns>::from_seconds(0.02);
    r.pacer.on_token(now);
    const tessera::outcome done{.finished = step == 3};
    scheduler.commit(plan, {&done, 1}, now);
  }
  r.pacer.finish();
  std::printf("after %.2f s: %lld tokens made, %lld released\n", (now - r.state().arrived).seconds(),
              static_cast<long long>(r.pacer.delivered().count()),
              static_cast<long long>(r.pacer.released(now).count()));
}

/* output:
seconds: ten times 0.1 s is not 1 s
nanoseconds: ten times 0.1 s is 1 s
start: 1500000000 ns
after 0.08 s: 4 tokens made, 1 released
*/
