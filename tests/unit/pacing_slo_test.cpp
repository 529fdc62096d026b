// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/pacing/slo.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace {

using namespace tessera::literals;
using tessera::tokens;

using clock_type = tessera::nanoseconds_clock;
using pacer = tessera::basic_token_pacer<clock_type>;
using ticks = tessera::basic_duration<clock_type>;
using moment = tessera::basic_time_point<clock_type>;

constexpr moment at(std::int64_t t) { return moment{ticks{t}}; }
constexpr pacer::config every(std::int64_t t) { return {.tpot = ticks{t}, .ttfat = {}}; }

TEST_CASE("waiting for the first answering token is judged by the TTFAT target", "[pacing]") {
  pacer p{every(100)};
  const ticks ttfat{250};
  CHECK(tessera::meets_slo_until(p, at(1000), ttfat) == at(1250));
  CHECK(tessera::meets_slo(p, at(1000), at(1249), at(5000), ttfat));
  CHECK(tessera::meets_slo(p, at(1000), at(1250), at(5000), ttfat));  // Not longer than the target.
  CHECK_FALSE(tessera::meets_slo(p, at(1000), at(1251), at(5000), ttfat));

  p.finish();  // An answer without a token waits for nothing.
  CHECK(tessera::meets_slo(p, at(1000), at(9000), at(9001), ttfat));

  const tessera::token_pacer defaults;
  const auto sec = [](double s) { return tessera::time_point{tessera::duration{s}}; };
  CHECK(tessera::meets_slo(defaults, sec(1), sec(1.25), sec(9)));
  CHECK_FALSE(tessera::meets_slo(defaults, sec(1), sec(1.26), sec(9)));
}

TEST_CASE("a started answer is judged by its buffer and the next step", "[pacing]") {
  pacer p{every(100)};
  p.on_token(at(0), 3_tok);  // Dry at 300.
  CHECK(tessera::meets_slo_until(p, at(-999), ticks{250}) == at(300));
  CHECK(tessera::meets_slo(p, at(-999), at(0), at(299), ticks{250}));
  CHECK(tessera::meets_slo(p, at(-999), at(0), at(300), ticks{250}));
  CHECK_FALSE(tessera::meets_slo(p, at(-999), at(0), at(301), ticks{250}));
  CHECK_FALSE(tessera::meets_slo(p, at(-999), at(400), at(401), ticks{250}));  // Dry already.
  p.finish();
  CHECK(tessera::meets_slo(p, at(-999), at(400), at(401), ticks{250}));
  CHECK(tessera::meets_slo_until(p, at(-999), ticks{250}) == moment::never());
}

TEST_CASE("meets_slo is: no fewer tokens buffered than the reader will have consumed", "[pacing]") {
  std::mt19937_64 random{99};
  const auto draw = [&](std::int64_t lo, std::int64_t hi) {
    return std::uniform_int_distribution<std::int64_t>{lo, hi}(random);
  };
  int met = 0;
  int missed = 0;
  for (int round = 0; round != 5000; ++round) {
    const std::int64_t tpot = draw(1, 10);
    pacer p{every(tpot)};
    std::vector<std::int64_t> slots;  // Release times; then the moments at which the reader wants further tokens.
    std::int64_t now = 0;
    for (std::int64_t step = draw(1, 8); step != 0; --step) {
      const std::int64_t n = draw(1, 5);
      p.on_token(at(now), tokens{n});
      for (std::int64_t i = 0; i != n; ++i) slots.push_back(slots.empty() ? now : std::max(now, slots.back() + tpot));
      now += draw(0, 4 * tpot);
    }
    const auto delivered = static_cast<std::ptrdiff_t>(slots.size());
    const std::int64_t next_step = now + draw(0, 12 * tpot);
    while (slots.back() <= next_step) slots.push_back(slots.back() + tpot);

    std::int64_t buffered = 0;
    std::int64_t consumed = 0;  // Taken from now until just before the next step, if the reader could.
    for (std::ptrdiff_t i = 0; i != static_cast<std::ptrdiff_t>(slots.size()); ++i) {
      const std::int64_t slot = slots[static_cast<std::size_t>(i)];
      const bool generated = i < delivered;
      if (generated && slot > now) ++buffered;
      if ((slot > now || !generated) && slot < next_step) ++consumed;
    }
    const bool expected = buffered >= consumed;
    CAPTURE(tpot, now, next_step, buffered, consumed);
    REQUIRE(p.buffered(at(now)) == tokens{buffered});
    REQUIRE(tessera::meets_slo(p, at(-1000), at(now), at(next_step), ticks{1}) == expected);
    ++(expected ? met : missed);
  }
  CHECK(met > 500);
  CHECK(missed > 500);
}

}  // namespace
