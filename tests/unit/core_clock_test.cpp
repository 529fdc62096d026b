// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/core/clock.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <limits>
#include <type_traits>

namespace {

using namespace tessera::literals;

using ns = tessera::nanoseconds_clock;
using ns_duration = tessera::basic_duration<ns>;
using ns_time = tessera::basic_time_point<ns>;

static_assert(sizeof(tessera::time_point) == 8 && sizeof(ns_time) == 8);
static_assert(std::is_trivially_copyable_v<tessera::time_point> && std::is_trivially_copyable_v<ns_duration>);
static_assert(std::is_same_v<tessera::time_point, tessera::basic_time_point<tessera::seconds_clock>>);
static_assert(tessera::duration{}.ticks() == 0 && ns_time{}.since_origin().ticks() == 0);
static_assert(250_ms == 0.25_s && 1500_ms == 1.5_s && 2_s == 2.0_s && 0.5_ms == 0.0005_s);

TEST_CASE("durations add, scale and compare", "[core]") {
  CHECK(1.5_s + 0.25_s == 1.75_s);
  CHECK(1.5_s - 2_s == tessera::duration{-0.5});
  CHECK(1.5_s * 4.0 == 6_s);
  CHECK(4.0 * 1.5_s == 6_s);
  CHECK(1_s < 2_s);
  CHECK(ns_duration{7} * 3 == ns_duration{21});
  tessera::duration d = 1_s;
  d += 2_s;
  d -= 0.5_s;
  CHECK(d == 2.5_s);
}

TEST_CASE("moments and durations", "[core]") {
  const tessera::time_point t{3_s};
  CHECK(t + 2_s == tessera::time_point{5_s});
  CHECK(t - 2_s == tessera::time_point{1_s});
  CHECK((t + 2_s) - t == 2_s);
  CHECK(t < t + 1_ms);
  CHECK(t.seconds() == 3.0);
  CHECK(t.since_origin() == 3_s);
  tessera::time_point u = t;
  u += 1_s;
  CHECK(u == tessera::time_point::at_seconds(4));
}

TEST_CASE("forever and never come after everything else", "[core]") {
  CHECK(tessera::duration::forever() > tessera::duration{std::numeric_limits<double>::max()});
  CHECK(ns_duration::forever() > ns_duration{std::numeric_limits<std::int64_t>::max() - 1});
  CHECK(tessera::time_point::never() > tessera::time_point{1e300_s});
  CHECK(ns_time::never() == ns_time{ns_duration::forever()});
  // Also when something is added to them, where ticks are whole numbers.
  constexpr ns_time now{ns_duration{5}};
  static_assert(now + ns_duration::forever() == ns_time::never());
  static_assert(ns_time::never() + ns_duration{1} == ns_time::never());
  static_assert(ns_time::never() + ns_duration{-1} == ns_time::never());
  ns_time later = now;
  CHECK((later += ns_duration::forever()) == ns_time::never());
  CHECK(tessera::time_point::at_seconds(5) + tessera::duration::forever() == tessera::time_point::never());
}

TEST_CASE("seconds become the nearest tick", "[core]") {
  CHECK(ns_duration::from_seconds(0.1).ticks() == 100'000'000);
  CHECK(ns_duration::from_seconds(-0.1).ticks() == -100'000'000);
  CHECK(ns_duration::from_seconds(0.25).seconds() == 0.25);
  // 1.001 * 1e9 is 1000999999.9999999 in double.
  CHECK(ns_duration::from_seconds(1.001).ticks() == 1'001'000'000);
  CHECK(ns_duration::from_seconds(-1.001).ticks() == -1'001'000'000);
  CHECK(ns_duration::from_seconds(0.4e-9).ticks() == 0);
  CHECK(ns_duration::from_seconds(0.6e-9).ticks() == 1);
  for (std::int64_t ms = -20'000; ms != 20'000; ++ms) {
    REQUIRE(ns_duration::from_seconds(static_cast<double>(ms) / 1000).ticks() == ms * 1'000'000);
  }
  CHECK(ns_time::at_seconds(1.001).since_origin().ticks() == 1'001'000'000);
  CHECK(tessera::duration::from_seconds(1.001).ticks() == 1.001);
}

TEST_CASE("integer ticks sum exactly", "[core]") {
  ns_time t{};
  for (int i = 0; i != 1'000'000; ++i) t += ns_duration::from_seconds(0.1);
  CHECK(t == ns_time::at_seconds(100'000));
}

}  // namespace
