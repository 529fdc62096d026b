// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/pacing/token_pacer.hpp>
#include <tessera/qoe/integrator.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/is_slow.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace {

using namespace tessera::literals;
using tessera::tokens;

using ns = tessera::nanoseconds_clock;
using ns_time = tessera::basic_time_point<ns>;
using ns_duration = tessera::basic_duration<ns>;
using from_arrival = tessera::basic_qoe_integrator<tessera::seconds_clock, tessera::qoe_from_arrival>;
using ns_integrator = tessera::basic_qoe_integrator<ns>;

static_assert(sizeof(tessera::qoe_integrator) <= 64 && sizeof(ns_integrator) <= 64);
static_assert(sizeof(from_arrival) <= 64);
static_assert(std::is_trivially_copyable_v<tessera::qoe_integrator>);

constexpr tessera::time_point sec(double s) { return tessera::time_point{tessera::duration{s}}; }
constexpr tessera::pacing_config every(double s) { return {.tpot = tessera::duration{s}, .ttfat = {}}; }

// Usable at compile time.
static_assert([] {
  tessera::qoe_integrator q{every(1)};
  q.on_token(sec(0), 2_tok);
  q.finish();
  return q.value() == 1.0;
}());

/// A simulated reader, from one delivery to the next. Knows the list of tokens and no closed form.
struct areas {
  double digested = 0;
  double expected = 0;
  double end = 0;  ///< When the last token was digested, or the horizon.

  double qoe() const { return expected > 0 ? digested / expected : 1.0; }
};

/// Both areas from `start` to `horizon`, or if that is infinite to the moment the last token is digested.
/// @param capped whether the expected curve ends at the number of tokens.
areas textbook(const std::vector<double>& delivered, double start, double tpot, double horizon, bool capped) {
  areas sum;
  double t = start;
  double read = 0;
  double there = 0;
  std::size_t next = 0;
  const double total = static_cast<double>(delivered.size());
  for (;;) {
    while (next < delivered.size() && delivered[next] <= t) {
      there += 1;
      ++next;
    }
    if (t >= horizon || (read >= total && std::isinf(horizon))) break;
    // Until the next delivery, until the reader is through what is there, or to the horizon.
    double until = horizon;
    if (next < delivered.size()) until = std::min(until, delivered[next]);
    bool through = false;
    if (read < there) {
      const double dry = t + (there - read) * tpot;
      if (dry <= until) {
        until = dry;
        through = true;
      }
      const double after = through ? there : read + (until - t) / tpot;
      sum.digested += (until - t) * (read + after) / 2;
      read = after;
    } else {
      sum.digested += (until - t) * read;
    }
    t = until;
  }
  sum.end = t;
  // The expected curve: a triangle, and a plateau once it has reached the length.
  const double full = start + total * tpot;
  if (capped && t > full) {
    sum.expected = (full - start) * total / 2 + (t - full) * total;
  } else {
    sum.expected = t > start ? (t - start) * (t - start) / tpot / 2 : 0;
  }
  return sum;
}

constexpr double endless = std::numeric_limits<double>::infinity();

/// Delivery times with early bursts, steady parts, stalls, and tokens that come together.
std::vector<double> random_schedule(std::mt19937_64& random, double tpot) {
  const auto real = [&](double lo, double hi) { return std::uniform_real_distribution<double>{lo, hi}(random); };
  const auto whole = [&](int lo, int hi) { return std::uniform_int_distribution<int>{lo, hi}(random); };
  std::vector<double> times;
  double now = real(0, 5);
  for (int part = whole(1, 6); part != 0; --part) {
    const int kind = whole(0, 4);
    for (int i = whole(1, 20); i != 0; --i) {
      times.push_back(now);
      if (kind == 1) now += real(0, tpot);         // Early.
      if (kind == 2) now += real(0, 2 * tpot);     // On the whole just fast enough.
      if (kind == 3) now += real(tpot, 3 * tpot);  // Late.
      if (kind == 4) now += tpot;                  // Kind 0 is a burst.
    }
    if (whole(0, 1) == 0) now += real(0, 30 * tpot);
  }
  return times;
}

TEST_CASE("QoE of the worked scenario: burst, pause, starvation, resumption behind schedule", "[qoe]") {
  // PASCAL, figure 3, with one token a second. Four tokens come at twice the reading speed, then the server pauses. The
  // buffer lasts until second 4. The reader starves until second 6, when four more come at twice the reading speed.
  tessera::qoe_integrator q{every(1)};
  tessera::token_pacer p{every(1)};
  const auto token = [&](double t) {
    q.on_token(sec(t));
    p.on_token(sec(t));
  };
  for (const double t : {0.0, 0.5, 1.0, 1.5}) token(t);

  // (i) and (ii): the reader digests at reading speed, from the buffer while the server pauses.
  CHECK(p.buffered(sec(1.5)) == 2_tok);
  CHECK(q.value(sec(1.5)) == 1.0);
  CHECK(q.value(sec(4)) == 1.0);
  CHECK(p.starves_at() == sec(4));
  // (iii) starvation. At 5: digested 4*4/2 + 4*1 = 12, expected 5*5/2 = 12.5. At 6: 16 of 18.
  CHECK(q.value(sec(5)) == tessera_test::approx(12 / 12.5).epsilon(1e-12));
  CHECK(q.value(sec(6)) == tessera_test::approx(16.0 / 18).epsilon(1e-12));
  CHECK(p.behind(sec(5)) == 1_s);
  // (iv) at reading speed again, two seconds behind. At 8: 16 + (4 + 6)/2 * 2 = 26 of 32.
  for (const double t : {6.0, 6.5, 7.0, 7.5}) token(t);
  CHECK(q.delay() == 2_s);
  CHECK(p.behind(sec(8)) == 2_s);
  CHECK(q.value(sec(8)) == tessera_test::approx(26.0 / 32).epsilon(1e-12));
  // At 9: 16 + (4 + 7)/2 * 3 = 32.5. The expected curve is 9*9/2 = 40.5, or 32 + 8 = 40 if it ends at eight tokens.
  CHECK(q.value(sec(9)) == tessera_test::approx(32.5 / 40.5).epsilon(1e-12));
  q.finish();
  CHECK(q.value(sec(9)) == tessera_test::approx(32.5 / 40).epsilon(1e-12));
  // The last is digested at 10: 8 + 4*2 + (4 + 8)/2 * 4 = 40 of 8*8/2 + 8*2 = 48.
  CHECK(q.digested_at() == sec(10));
  CHECK(q.value() == tessera_test::approx(40.0 / 48).epsilon(1e-12));
  CHECK(q.value(sec(10)) == q.value());
  CHECK(q.value(sec(1000)) == q.value());
  CHECK(tessera::violates_slo(q.value()));
}

TEST_CASE("an answer that is on time has a QoE of exactly 1", "[qoe]") {
  SECTION("each token at its moment, in floating point") {
    tessera::qoe_integrator q;
    for (int i = 0; i != 10'000; ++i) {
      q.on_token(sec(3.7 + 0.1 * i));
      REQUIRE(q.value(sec(3.7 + 0.1 * i)) == 1.0);
    }
    q.finish();
    CHECK(q.value() == 1.0);
  }
  SECTION("in integer ticks; one tick late is seen") {
    ns_integrator q{{.tpot = ns_duration{3}, .ttfat = {}}};
    for (int i = 0; i != 100; ++i) q.on_token(ns_time{ns_duration{10 + 3 * i}});
    CHECK(q.value() == 1.0);
    q.on_token(ns_time{ns_duration{10 + 300 + 1}});
    CHECK(q.value() < 1.0);
  }
  SECTION("early tokens") {
    tessera::qoe_integrator q;
    q.on_token(sec(0), 5_tok);
    q.on_token(sec(0.5), 50_tok);
    q.finish();
    for (const double t : {0.0, 0.2, 3.0, 5.5, 7.0}) CHECK(q.value(sec(t)) == 1.0);
    CHECK(q.value() == 1.0);
    CHECK(q.digested_at().seconds() == tessera_test::approx(5.5));
  }
}

TEST_CASE("QoE without a token", "[qoe]") {
  tessera::qoe_integrator first;
  CHECK(first.value() == 1.0);
  CHECK(first.value(sec(100)) == 1.0);  // Nothing is expected yet.
  CHECK(first.start() == tessera::time_point::never());

  from_arrival arrived{{}, tessera::qoe_from_arrival{1_s}, sec(10)};
  CHECK(arrived.start() == sec(11));
  CHECK(arrived.value(sec(11)) == 1.0);
  CHECK(arrived.value(sec(11.5)) == 0.0);  // Five tokens expected, none there.
  CHECK(arrived.digested_at() == sec(11));
  arrived.finish();
  CHECK(arrived.value(sec(11.5)) == 1.0);  // An empty answer lets no reader wait.
  CHECK(arrived.value() == 1.0);
}

TEST_CASE("QoE from arrival counts a late first token; an early one does not make up for later stalls", "[qoe]") {
  const tessera::qoe_from_arrival target{1_s};
  SECTION("two tokens, the first half a second late") {
    from_arrival q{every(1), target, sec(0)};
    q.on_token(sec(1.5), 2_tok);  // Digested 1.5 to 3.5. Areas to 3.5: 2*2/2 = 2 of 2*2/2 + 2*0.5 = 3.
    q.finish();
    CHECK(q.value() == tessera_test::approx(2.0 / 3).epsilon(1e-12));
    CHECK(q.value(sec(1.5)) == 0.0);
  }
  SECTION("early") {
    from_arrival q{every(1), target, sec(0)};
    q.on_token(sec(0.25));  // Digested 1 to 2, because there is no reading before the start.
    CHECK(q.value(sec(0.5)) == 1.0);
    CHECK(q.digested_at() == sec(2));
    q.on_token(sec(2.0));
    CHECK(q.value() == 1.0);
    q.on_token(sec(3.5));  // Half a second late: 1 of the 3 tokens lags 0.5.
    CHECK(q.value() == tessera_test::approx(1 - 0.5 / (4.5 + 3 * 0.5)).epsilon(1e-12));
  }
}

TEST_CASE("QoE equals a slow integral of the two curves on random schedules", "[qoe]") {
  std::mt19937_64 random{31'415};
  int perfect = 0;
  int violations = 0;
  for (int round = 0; round != (tessera_test::is_slow ? 1000 : 4000); ++round) {
    const double tpot = std::uniform_real_distribution<double>{0.01, 0.5}(random);
    const std::vector<double> times = random_schedule(random, tpot);
    const bool by_arrival = round % 2 == 1;
    const double arrival = times.front() - std::uniform_real_distribution<double>{0, 2}(random);
    const double target = std::uniform_real_distribution<double>{0, 3}(random);
    tessera::qoe_integrator first{every(tpot)};
    from_arrival andes{every(tpot), tessera::qoe_from_arrival{tessera::duration{target}}, sec(arrival)};
    const double start = by_arrival ? arrival + target : times.front();

    const auto compare = [&](const auto& q, const std::vector<double>& so_far, double now) {
      // A finished answer is judged until its last token is digested.
      const double end = q.finished() ? textbook(so_far, start, tpot, endless, true).end : endless;
      const double expected = textbook(so_far, start, tpot, std::min(now, end), q.finished()).qoe();
      CAPTURE(round, tpot, by_arrival, so_far.size(), now, q.finished());
      REQUIRE(std::abs(q.value(sec(now)) - (now > start ? expected : 1.0)) < 1e-9);
    };
    const auto run = [&](auto& q) {
      std::vector<double> so_far;
      for (std::size_t i = 0; i != times.size();) {
        std::size_t n = 1;
        while (i + n != times.size() && times[i + n] == times[i]) ++n;
        if (round % 3 == 0) {  // In one call or one by one: the same.
          for (std::size_t k = 0; k != n; ++k) q.on_token(sec(times[i]));
        } else {
          q.on_token(sec(times[i]), tokens{static_cast<std::int64_t>(n)});
        }
        so_far.insert(so_far.end(), n, times[i]);
        i += n;
        const double latest = i == times.size() ? times.back() + 20 * tpot : times[i];
        // From a moment after the start on: the ratio of two areas near 0 has no digits to compare.
        const double now = std::uniform_real_distribution<double>{so_far.back(), latest}(random);
        if (now < start || now > start + 1e-3 * tpot) compare(q, so_far, now);
      }
      q.finish();
      const areas whole = textbook(times, start, tpot, endless, true);
      CAPTURE(round, tpot, by_arrival);
      REQUIRE(std::abs(q.value() - whole.qoe()) < 1e-9);
      REQUIRE(std::abs(q.digested_at().seconds() - whole.end) < 1e-9);
      REQUIRE(q.value() >= 0.0);
      REQUIRE(q.value() <= 1.0);
      for (int query = 0; query != 3; ++query) {
        const double last = std::max(times.back(), start + 1e-3 * tpot);
        compare(q, times, std::uniform_real_distribution<double>{last, last + 40 * tpot}(random));
      }
      // Exactly 1 if every token was there when the expected curve wanted it. Less if one was not, by more than the
      // rounding of the times themselves.
      double late = 0;
      for (std::size_t i = 0; i != times.size(); ++i) {
        late = std::max(late, times[i] - (start + tpot * static_cast<double>(i)));
      }
      const bool on_time = late == 0;
      if (on_time) REQUIRE(q.value() == 1.0);
      if (late > 1e-9) REQUIRE(q.value() < 1.0);
      perfect += on_time ? 1 : 0;
      violations += tessera::violates_slo(q.value()) ? 1 : 0;
    };
    if (by_arrival) {
      run(andes);
    } else {
      run(first);
    }
  }
  CHECK(perfect > 100);
  CHECK(violations > 100);
}

TEST_CASE("QoE equals a Riemann sum", "[qoe]") {
  std::mt19937_64 random{2718};
  for (int round = 0; round != 10; ++round) {
    const double tpot = 0.1;
    const std::vector<double> times = random_schedule(random, tpot);
    tessera::qoe_integrator q{every(tpot)};
    for (const double t : times) q.on_token(sec(t));
    q.finish();

    const double dt = tpot / 2000;
    const double length = static_cast<double>(times.size());
    double read = 0;
    double digested = 0;
    double expected = 0;
    std::size_t there = 0;
    for (double t = times.front(); read < length - 1e-6; t += dt) {
      while (there != times.size() && times[there] <= t) ++there;
      digested += read * dt;
      expected += std::min(length, (t - times.front()) / tpot) * dt;
      read = std::min(static_cast<double>(there), read + dt / tpot);
    }
    CHECK(q.value() == tessera_test::approx(digested / expected).epsilon(2e-3));
  }
}

TEST_CASE("the integrator's reader and the pacer's are one", "[qoe]") {
  std::mt19937_64 random{161'803};
  for (int round = 0; round != 500; ++round) {
    const std::int64_t tpot = std::uniform_int_distribution<std::int64_t>{1, 50}(random);
    const tessera::basic_pacing_config<ns> c{.tpot = ns_duration{tpot}, .ttfat = {}};
    ns_integrator q{c};
    tessera::basic_token_pacer<ns> p{c};
    std::int64_t now = 0;
    for (int i = 0; i != 60; ++i) {
      now += std::uniform_int_distribution<std::int64_t>{0, 3 * tpot}(random);
      const tokens n{std::uniform_int_distribution<std::int64_t>{1, 3}(random)};
      q.on_token(ns_time{ns_duration{now}}, n);
      p.on_token(ns_time{ns_duration{now}}, n);
      REQUIRE(q.digested_at() == p.starves_at());
      REQUIRE(q.delay() == p.behind(ns_time{ns_duration{now}}));
    }
  }
}

TEST_CASE("a long answer in integer nanoseconds", "[qoe]") {
  // A million tokens, each one millisecond later than the one before should be: the areas exceed 64-bit ticks.
  ns_integrator q{{.tpot = ns_duration{100'000'000}, .ttfat = {}}};
  const std::int64_t n = 1'000'000;
  for (std::int64_t i = 0; i != n; ++i) q.on_token(ns_time{ns_duration{i * 101'000'000}});
  q.finish();
  // Delays 0, 1, ..., n-1 ms: lag n (n-1) / 2 ms; expected n (50 n + n - 1) ms.
  const double count = static_cast<double>(n);
  const double by_hand = 1 - count * (count - 1) / 2 / (count * (50 * count + count - 1));
  CHECK(q.value() == tessera_test::approx(by_hand).epsilon(1e-9));
  CHECK(q.digested_at() == ns_time{ns_duration{(n - 1) * 101'000'000 + 100'000'000}});
}

TEST_CASE("an SLO is violated below its target, not at it", "[qoe]") {
  STATIC_REQUIRE(tessera::violates_slo(0.949999));
  STATIC_REQUIRE_FALSE(tessera::violates_slo(0.95));
  STATIC_REQUIRE_FALSE(tessera::violates_slo(1.0));
  STATIC_REQUIRE(tessera::violates_slo(0.95, 0.99));
}

TEST_CASE("a QoE integrator never allocates", "[qoe]") {
  tessera_test::no_allocation guard;
  tessera::qoe_integrator q;
  double sum = 0;
  for (int i = 0; i != 1000; ++i) {
    q.on_token(sec(0.11 * i));
    sum += q.value(sec(0.11 * i));
  }
  q.finish();
  sum += q.value();
  const std::size_t allocations = guard.allocations();
  CHECK(allocations == 0);
  CHECK(sum > 0);
}

}  // namespace
