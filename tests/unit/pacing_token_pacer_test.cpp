// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/pacing/token_pacer.hpp>
#include <tessera/qoe/integrator.hpp>
#include <tessera/request/hook.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/is_slow.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

namespace {

using namespace tessera::literals;
using tessera::tokens;

// A user's request with its pacer where one would write it. Nothing above may use the defaults of the configuration:
// g++ 12 crashed when they were first needed here.
struct paced_request : tessera::request_hook {
  tessera::token_pacer pacer{{.tpot = 50_ms}};
  tessera::qoe_integrator qoe{{.tpot = 50_ms}};
  tessera::basic_token_pacer<tessera::nanoseconds_clock> by_ticks{{.ttfat = {}}};
};

using ns_pacer = tessera::basic_token_pacer<tessera::nanoseconds_clock>;
using ns_duration = ns_pacer::duration;
using ns_time = ns_pacer::time_point;

static_assert(sizeof(tessera::token_pacer) <= 64 && sizeof(ns_pacer) <= 64);
static_assert(std::is_trivially_copyable_v<tessera::token_pacer>);
static_assert(std::is_trivially_destructible_v<ns_pacer>);

constexpr ns_time at(std::int64_t ticks) { return ns_time{ns_duration{ticks}}; }
constexpr ns_pacer::config every(std::int64_t ticks) { return {.tpot = ns_duration{ticks}, .ttfat = {}}; }
constexpr tessera::time_point sec(double s) { return tessera::time_point{tessera::duration{s}}; }

// Usable at compile time.
static_assert([] {
  ns_pacer p{every(10)};
  p.on_token(at(5), 3_tok);
  return p.released(at(15)) == 2_tok && p.starves_at() == at(35);
}());

/// The schedule as the documentation defines it, with the list of tokens.
struct listed_schedule {
  std::int64_t tpot;
  std::vector<std::int64_t> delivered;
  std::vector<std::int64_t> released;

  void token(std::int64_t now) {
    delivered.push_back(now);
    released.push_back(released.empty() ? now : std::max(now, released.back() + tpot));
  }
  std::int64_t count_released(std::int64_t now) const {
    return std::count_if(released.begin(), released.end(), [&](std::int64_t r) { return r <= now; });
  }
  std::int64_t next(std::int64_t now) const {
    for (const std::int64_t r : released) {
      if (r > now) return r;
    }
    return -1;
  }
  /// Sum of the spans in which the reader has digested all there is and more is to come.
  std::int64_t dry(std::int64_t now, bool finished) const {
    std::int64_t sum = 0;
    for (std::size_t i = 1; i < released.size(); ++i) sum += released[i] - (released[i - 1] + tpot);
    if (!finished && !released.empty()) sum += std::max<std::int64_t>(0, now - (released.back() + tpot));
    return sum;
  }
};

void check_equal(const ns_pacer& p, const listed_schedule& s, std::int64_t now, bool finished) {
  CAPTURE(now, finished);
  const auto out = s.count_released(now);
  const auto all = static_cast<std::int64_t>(s.delivered.size());
  REQUIRE(p.delivered() == tokens{all});
  REQUIRE(p.released(at(now)) == tokens{out});
  REQUIRE(p.buffered(at(now)) == tokens{all - out});
  REQUIRE(p.next_release(at(now)) == (out < all ? at(s.next(now)) : ns_time::never()));
  REQUIRE(p.drained(at(now)) == (finished && out == all));
  REQUIRE(p.behind(at(now)) == ns_duration{s.dry(now, finished)});
  if (finished || s.released.empty()) {
    REQUIRE(p.starves_at() == ns_time::never());
    REQUIRE_FALSE(p.starving(at(now)));
  } else {
    REQUIRE(p.starves_at() == at(s.released.back() + s.tpot));
    REQUIRE(p.starving(at(now)) == (s.released.back() + s.tpot < now));
  }
}

TEST_CASE("a token pacer before its first token", "[pacing]") {
  const tessera::token_pacer p;
  CHECK(p.tpot() == 0.1_s);
  CHECK(p.released(sec(7)) == 0_tok);
  CHECK(p.buffered(sec(7)) == 0_tok);
  CHECK(p.next_release(sec(7)) == tessera::time_point::never());
  CHECK(p.starves_at() == tessera::time_point::never());
  CHECK_FALSE(p.starving(sec(7)));
  CHECK(p.behind(sec(7)) == 0_s);
  CHECK_FALSE(p.drained(sec(7)));
}

TEST_CASE("the first token goes out at once, the rest of a burst one per tpot", "[pacing]") {
  ns_pacer p{every(100)};
  p.on_token(at(1000), 4_tok);
  CHECK(p.released(at(1000)) == 1_tok);
  CHECK(p.buffered(at(1000)) == 3_tok);
  CHECK(p.released(at(1099)) == 1_tok);
  CHECK(p.next_release(at(1099)) == at(1100));
  CHECK(p.released(at(1100)) == 2_tok);
  CHECK(p.released(at(1299)) == 3_tok);
  CHECK(p.released(at(1300)) == 4_tok);
  CHECK(p.next_release(at(1300)) == ns_time::never());
  CHECK(p.starves_at() == at(1400));
  CHECK_FALSE(p.starving(at(1400)));
  CHECK(p.starving(at(1401)));
  CHECK(p.released(ns_time::never()) == 4_tok);
}

TEST_CASE("the pace continues from the token that ends a dry spell", "[pacing]") {
  ns_pacer p{every(100)};
  p.on_token(at(0), 2_tok);  // Released at 0 and 100, dry at 200.

  SECTION("a token at the moment of running dry keeps the schedule") {
    p.on_token(at(200), 2_tok);
    CHECK(p.released(at(200)) == 3_tok);
    CHECK(p.next_release(at(200)) == at(300));
    CHECK(p.behind(at(200)) == ns_duration{0});
  }
  SECTION("a token just in time is released in its slot, not at once") {
    p.on_token(at(199));
    CHECK(p.released(at(199)) == 2_tok);
    CHECK(p.next_release(at(199)) == at(200));
  }
  SECTION("a late token is released at once and moves every later slot") {
    CHECK(p.behind(at(250)) == ns_duration{50});
    p.on_token(at(250), 3_tok);
    CHECK(p.released(at(250)) == 3_tok);
    CHECK(p.released(at(349)) == 3_tok);
    CHECK(p.released(at(350)) == 4_tok);
    CHECK(p.starves_at() == at(550));
    CHECK(p.behind(at(600)) == ns_duration{100});
    p.finish();
    CHECK(p.behind(at(600)) == ns_duration{50});
    CHECK(p.starves_at() == ns_time::never());
    CHECK(p.released(at(120)) == 2_tok);  // A look back: what was out before this run.
    CHECK(p.drained(at(450)));
    CHECK_FALSE(p.drained(at(449)));
  }
}

TEST_CASE("a token pacer equals the list of its tokens on random schedules", "[pacing]") {
  std::mt19937_64 random{20'240'911};
  const auto draw = [&](std::int64_t lo, std::int64_t hi) {
    return std::uniform_int_distribution<std::int64_t>{lo, hi}(random);
  };
  for (int round = 0; round != (tessera_test::is_slow ? 400 : 2000); ++round) {
    const std::int64_t tpot = draw(1, 20);
    ns_pacer p{every(tpot)};
    listed_schedule s{tpot, {}, {}};
    std::int64_t now = draw(-50, 50);
    check_equal(p, s, now, false);
    const std::int64_t steps = draw(1, 25);
    for (std::int64_t step = 0; step != steps; ++step) {
      switch (draw(0, 4)) {
        case 0: break;                                                                            // At the same moment.
        case 1: now += draw(0, tpot); break;                                                      // Early.
        case 2: now = s.released.empty() ? now : std::max(now, s.released.back() + tpot); break;  // Just in time.
        case 3: now += draw(0, 3 * tpot); break;
        default: now += draw(0, 20 * tpot); break;  // A stall.
      }
      const std::int64_t n = draw(0, 3) == 0 ? draw(1, 12) : 1;
      p.on_token(at(now), tokens{n});
      for (std::int64_t i = 0; i != n; ++i) s.token(now);
      check_equal(p, s, now, false);
      for (int query = 0; query != 3; ++query) check_equal(p, s, now + draw(0, 15 * tpot), false);
      // One tick around the latest slot.
      for (const std::int64_t off : {-1, 0, 1}) check_equal(p, s, std::max(now, s.released.back() + off), false);
      for (const std::int64_t off : {-1, 0, 1}) check_equal(p, s, std::max(now, s.released.back() + tpot + off), false);
    }
    p.finish();
    CHECK(p.finished());
    for (int query = 0; query != 3; ++query) check_equal(p, s, now + draw(0, 200 * tpot), true);
  }
}

TEST_CASE("in floating point a release time and the count at it agree to the last bit", "[pacing]") {
  std::mt19937_64 random{7};
  std::uniform_real_distribution<double> gap{0.0, 0.25};
  std::uniform_real_distribution<double> pace{1e-3, 0.3};
  for (int round = 0; round != (tessera_test::is_slow ? 60 : 300); ++round) {
    tessera::token_pacer p{{.tpot = tessera::duration{pace(random)}, .ttfat = {}}};
    double now = round % 2 == 0 ? 0 : gap(random) * 1e6;
    for (int i = 0; i != 40; ++i) {
      p.on_token(sec(now), tokens{1 + i % 5});
      tessera::time_point t = sec(now);
      while (p.buffered(t) > 0_tok) {
        const tessera::time_point next = p.next_release(t);
        const tokens before = p.released(t);
        REQUIRE(next > t);
        const double just_before = std::nextafter(next.since_origin().ticks(), -1.0);
        REQUIRE(p.released(sec(just_before)) == before);
        REQUIRE(p.released(next) == before + 1_tok);
        t = next;
      }
      REQUIRE(p.starves_at() > t);
      now += gap(random);
    }
  }
}

TEST_CASE("a long answer on time gathers no rounding error", "[pacing]") {
  tessera::token_pacer p;
  for (int i = 0; i != 100'000; ++i) p.on_token(sec(0.1 * i));
  CHECK(p.starves_at() == sec(0.1 * 100'000));
  CHECK(p.behind(sec(10'000)) == 0_s);
  CHECK(p.buffered(sec(0.1 * 99'999)) == 0_tok);
}

TEST_CASE("a pacer can be configured in a default member initialiser", "[pacing]") {
  const paced_request r;
  CHECK(r.pacer.tpot() == 50_ms);
  CHECK(r.by_ticks.tpot().ticks() == 100'000'000);
}

TEST_CASE("a token pacer never allocates", "[pacing]") {
  tessera_test::no_allocation guard;
  tessera::token_pacer p;
  tokens seen{};
  for (int i = 0; i != 1000; ++i) {
    p.on_token(sec(0.03 * i), tokens{1 + i % 2});
    seen += p.released(sec(0.03 * i)) + p.buffered(sec(0.03 * i));
  }
  p.finish();
  const bool drained = p.drained(sec(1e6));
  const std::size_t allocations = guard.allocations();
  CHECK(allocations == 0);
  CHECK(drained);
  CHECK(seen > 0_tok);
}

}  // namespace
