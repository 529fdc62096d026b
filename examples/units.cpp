// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Strong units and time: counts of different things do not mix.

#include <tessera/core/clock.hpp>
#include <tessera/core/units.hpp>

#include <cstdio>

int main() {
  using namespace tessera::literals;

  const tessera::tokens prompt = 1000_tok;
  const tessera::tokens output = 250_tok;
  const tessera::blocks need = tessera::blocks_for(prompt + output, 16_tok);
  // const auto wrong = prompt + need;   // does not compile: tokens and blocks
  std::printf("%lld tokens need %lld blocks\n", static_cast<long long>((prompt + output).count()),
              static_cast<long long>(need.count()));

  const tessera::time_point arrival{1.5_s};
  const tessera::time_point first_token = arrival + 250_ms;
  std::printf("first token at %.2f s, %.2f s after arrival\n", first_token.seconds(),
              (first_token - arrival).seconds());

  // Integer ticks sum exactly; doubles do not.
  using ticks = tessera::basic_duration<tessera::nanoseconds_clock>;
  ticks exact{};
  tessera::duration rounded{};
  for (int i = 0; i != 10; ++i) {
    exact += ticks::from_seconds(0.1);
    rounded += 100_ms;
  }
  std::printf("ten times 0.1 s is 1 s: %s in nanoseconds, %s in double\n",
              exact == ticks::from_seconds(1) ? "yes" : "no", rounded == 1_s ? "yes" : "no");
}

/* output:
1250 tokens need 79 blocks
first token at 1.75 s, 0.25 s after arrival
ten times 0.1 s is 1 s: yes in nanoseconds, no in double
*/
