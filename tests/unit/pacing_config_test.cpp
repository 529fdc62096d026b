// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/pacing/config.hpp>

#include "support/catch.hpp"

namespace {

using namespace tessera::literals;

TEST_CASE("the reader's targets default to 0.1 s a token and 0.25 s to the first", "[pacing]") {
  constexpr tessera::pacing_config c;
  CHECK(c.tpot == 100_ms);
  CHECK(c.ttfat == 250_ms);

  constexpr tessera::basic_pacing_config<tessera::nanoseconds_clock> ticks;
  CHECK(ticks.tpot.ticks() == 100'000'000);
  CHECK(ticks.ttfat.ticks() == 250'000'000);
}

}  // namespace
