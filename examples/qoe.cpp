// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// QoE of an answer with a pause: four tokens come fast, the reader runs dry at second 4, four more come from second 6
// on. One token a second.

#include <tessera/qoe/integrator.hpp>

#include <cstdio>
#include <initializer_list>

int main() {
  using namespace tessera::literals;
  using tessera::time_point;

  tessera::qoe_integrator qoe{{.tpot = 1_s}};
  for (const double t : {0.0, 0.5, 1.0, 1.5}) qoe.on_token(time_point::at_seconds(t));
  for (const int t : {2, 4, 5, 6}) std::printf("second %d: %.4f\n", t, qoe.value(time_point::at_seconds(t)));

  for (const double t : {6.0, 6.5, 7.0, 7.5}) qoe.on_token(time_point::at_seconds(t));
  qoe.finish();
  std::printf("digested at second %.0f: %.4f, %s\n", qoe.digested_at().seconds(), qoe.value(),
              tessera::violates_slo(qoe.value()) ? "SLO violated" : "SLO met");

  // Counted from arrival plus a target, a late first token costs as well.
  tessera::basic_qoe_integrator<tessera::seconds_clock, tessera::qoe_from_arrival> late{
      {.tpot = 1_s}, tessera::qoe_from_arrival{1_s}, time_point{0_s}};
  late.on_token(time_point{1.5_s}, 8_tok);
  late.finish();
  std::printf("first token half a second late: %.4f\n", late.value());
}

/* output:
second 2: 1.0000
second 4: 1.0000
second 5: 0.9600
second 6: 0.8889
digested at second 10: 0.8333, SLO violated
first token half a second late: 0.8889
*/
