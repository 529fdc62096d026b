// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/pacing/token_pacer.hpp>
#include <tessera/qoe/integrator.hpp>

#include "support/death.hpp"

namespace {

using namespace tessera::literals;

constexpr tessera::time_point sec(double s) { return tessera::time_point{tessera::duration{s}}; }

}  // namespace

TESSERA_DEATH_CASE(pacing_pacer_without_pace, "must be positive") {
  const tessera::token_pacer p{{.tpot = 0_s, .ttfat = 0_s}};
  static_cast<void>(p);
}

TESSERA_DEATH_CASE(pacing_pacer_no_token, "at least one token") {
  tessera::token_pacer p;
  p.on_token(sec(1), 0_tok);
}

TESSERA_DEATH_CASE(pacing_pacer_token_after_the_end, "after the end of the answer") {
  tessera::token_pacer p;
  p.on_token(sec(1));
  p.finish();
  p.on_token(sec(2));
}

TESSERA_DEATH_CASE(pacing_pacer_time_backwards, "time runs backwards") {
  tessera::token_pacer p;
  p.on_token(sec(1));
  p.on_token(sec(0.5));
}

TESSERA_DEATH_CASE(qoe_integrator_without_pace, "must be positive") {
  const tessera::qoe_integrator q{{.tpot = tessera::duration{-0.1}, .ttfat = 0_s}};
  static_cast<void>(q);
}

TESSERA_DEATH_CASE(qoe_integrator_no_token, "at least one token") {
  tessera::qoe_integrator q;
  q.on_token(sec(1), 0_tok);
}

TESSERA_DEATH_CASE(qoe_integrator_token_after_the_end, "after the end of the answer") {
  tessera::qoe_integrator q;
  q.on_token(sec(1));
  q.finish();
  q.on_token(sec(2));
}
