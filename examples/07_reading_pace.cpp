// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// 7. The reader's pace. A burst is buffered and read at ten tokens a second; a pause of the server goes unnoticed until
// the buffer is empty. The QoE says afterwards how much of it was noticed.

#include <tessera/pacing/slo.hpp>
#include <tessera/pacing/token_pacer.hpp>
#include <tessera/qoe/integrator.hpp>

#include <cstdio>

namespace {

using pacer = tessera::basic_token_pacer<tessera::nanoseconds_clock>;

pacer::time_point at_ms(int ms) { return pacer::time_point::at_seconds(ms / 1e3); }

void show(const pacer& p, int ms) {
  std::printf("%4d ms: %lld of %lld released, behind by %.0f ms\n", ms,
              static_cast<long long>(p.released(at_ms(ms)).count()), static_cast<long long>(p.delivered().count()),
              p.behind(at_ms(ms)).seconds() * 1e3);
}

}  // namespace

int main() {
  pacer p;  // 100 ms per token.
  tessera::basic_qoe_integrator<tessera::nanoseconds_clock> qoe{{}, {}, at_ms(0)};
  const auto token_at = [&](int ms, tessera::tokens n) {
    p.on_token(at_ms(ms), n);
    qoe.on_token(at_ms(ms), n);
  };
  for (int i = 0; i != 5; ++i) token_at(20 * i, tessera::tokens{1});
  show(p, 80);

  std::printf("dry at %.0f ms\n", p.starves_at().seconds() * 1e3);
  const auto keeps_up = [&](int next_step) { return tessera::meets_slo(p, at_ms(0), at_ms(80), at_ms(next_step)); };
  std::printf("next step at 400 ms: %s; at 600 ms: %s\n", keeps_up(400) ? "in time" : "too late",
              keeps_up(600) ? "in time" : "too late");

  show(p, 600);
  token_at(650, tessera::tokens{3});  // Released at 650, 750 and 850 ms.
  p.finish();
  qoe.finish();
  show(p, 650);
  show(p, 850);
  std::printf("QoE %.3f\n", qoe.value());
}

/* output:
  80 ms: 1 of 5 released, behind by 0 ms
dry at 500 ms
next step at 400 ms: in time; at 600 ms: too late
 600 ms: 5 of 5 released, behind by 100 ms
 650 ms: 6 of 8 released, behind by 150 ms
 850 ms: 8 of 8 released, behind by 150 ms
QoE 0.898
*/
