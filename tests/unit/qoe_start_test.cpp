// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/qoe/start.hpp>

#include "support/catch.hpp"

namespace {

using namespace tessera::literals;

TEST_CASE("start policies say when the reader begins to expect tokens", "[qoe]") {
  const tessera::time_point arrival{3_s};
  CHECK(tessera::qoe_from_first_token{}.start(arrival) == tessera::time_point::never());
  CHECK(tessera::qoe_from_arrival{1.5_s}.start(arrival) == tessera::time_point{4.5_s});

  using ns = tessera::nanoseconds_clock;
  const tessera::basic_time_point<ns> tick{tessera::basic_duration<ns>{7}};
  CHECK(tessera::qoe_from_first_token{}.start(tick) == tessera::basic_time_point<ns>::never());
  CHECK(tessera::basic_qoe_from_arrival<ns>{tessera::basic_duration<ns>{5}}.start(tick).since_origin().ticks() == 12);
}

}  // namespace
