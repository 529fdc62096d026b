// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/order/crowd_clock.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

namespace {

using tessera::order::crowd_clock;

TEST_CASE("crowd_clock: while none waits it is the engine's, whatever that began with") {
  crowd_clock c;
  CHECK(c.at(1.8e9) == 1.8e9);
  c.advance(1.8e9);
  CHECK(c.rate() == 1);
  for (int i = 0; i != 5; ++i) {
    c.joins();
    c.begins();
  }
  c.advance(1.8e9 + 7);
  CHECK(c.at(1.8e9 + 8) == 1.8e9 + 8);
  CHECK(c.at(1.8e9 + 3) == 1.8e9 + 3);
}

TEST_CASE("crowd_clock: a line slows it, down to a hundredth, and it is made up for by nothing") {
  crowd_clock c;
  c.advance(100);
  for (int i = 0; i != 2; ++i) {
    c.joins();
    c.begins();
  }
  c.joins();
  // Two have begun, one more would, one waits: three places of four, which is 6561 / 65536 of the time.
  CHECK(c.rate() == 6561.0 / 65536);
  c.advance(110);
  CHECK(c.at(110) == 100 + 10 * 6561.0 / 65536);
  const double then = c.at(110);
  c.begins();
  CHECK(c.rate() == 1);
  c.advance(120);
  CHECK(c.at(120) == then + 10);
  for (int i = 0; i != 4; ++i) c.joins();
  CHECK(c.rate() == crowd_clock::slowest);  // half of them: less than a hundredth
  c.advance(90);                            // no time at all
  CHECK(c.at(120) == then + 10);
  for (int i = 0; i != 100; ++i) c.joins();
  CHECK(c.rate() == crowd_clock::slowest);
  c.advance(130);
  CHECK(c.at(140) == Catch::Detail::Approx(then + 10 + 0.2));
  for (int i = 0; i != 104; ++i) c.leaves(false);
  for (int i = 0; i != 3; ++i) c.leaves(true);
  CHECK(c.rate() == 1);
  // A request that was never there is not counted.
  c.leaves(false);
  c.leaves(true);
  c.joins();
  CHECK(c.rate() == crowd_clock::slowest);
}

TEST_CASE("crowd_clock: the sum over all that has happened, and never backwards") {
  for (unsigned seed = 0; seed != 50; ++seed) {
    std::mt19937 random{seed};
    crowd_clock c;
    double now = 5;
    c.advance(now);
    std::vector<int> all;  // 0: waits, 1: has begun, 2: is gone
    struct span {
      double seconds;
      std::size_t waiting, served;
    };
    std::vector<span> spans;
    double before = now;
    for (int i = 0; i != 300; ++i) {
      const auto count = [&](int what) { return static_cast<std::size_t>(std::count(all.begin(), all.end(), what)); };
      const double pause = static_cast<double>(random() % 1000) / 100;
      spans.push_back({pause, count(0), count(1)});
      now += pause;
      c.advance(now);
      double sum = 5;
      for (const span& s : spans) {
        const double places = static_cast<double>(s.served) + 1;
        sum += s.seconds * std::max(0.01, std::pow(places / (places + static_cast<double>(s.waiting)), 8));
      }
      REQUIRE(c.at(now) == Catch::Detail::Approx(sum));
      REQUIRE(c.at(now) >= before);
      REQUIRE(c.at(now) <= now);
      before = c.at(now);
      const auto which = random() % 3;
      const auto with = [&](int what) { return std::find(all.begin(), all.end(), what); };
      if (which == 0 || all.empty()) {
        all.push_back(0);
        c.joins();
      } else if (const auto waits = with(0); which == 1 && waits != all.end()) {
        *waits = 1;
        c.begins();
      } else if (const auto gone = with(static_cast<int>(random() % 2)); gone != all.end()) {
        c.leaves(*gone == 1);
        *gone = 2;
      }
    }
  }
}

TEST_CASE("crowd_clock: asked every ten microseconds since 1970 it goes on as it does from 0") {
  for (const double origin : {0.0, 1.8e9}) {
    for (const double between : {1e-5, 2e-5, 1e-4, 1e-3}) {
      crowd_clock c;
      c.advance(origin);
      for (int i = 0; i != 1000; ++i) c.joins();
      REQUIRE(c.rate() == crowd_clock::slowest);
      const auto n = static_cast<int>(10 / between);
      for (int i = 1; i <= n; ++i) c.advance(origin + i * between);
      CAPTURE(origin, between);
      CHECK(c.now() - origin == Catch::Detail::Approx(0.1).epsilon(1e-4));
    }
  }
}

}  // namespace
