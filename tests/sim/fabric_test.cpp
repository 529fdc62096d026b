// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/cluster/fabric.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace {

using tessera::bytes;
using tessera::sim::fabric;
using tessera_test::approx;

struct transfer {
  double at;
  std::size_t from;
  std::size_t to;
  std::int64_t size;
};

/// Drives the fabric event by event, as a simulator does; returns when each transfer ended. `transfers` by start.
std::vector<double> ends_of(std::size_t instances, double link, const std::vector<transfer>& transfers) {
  fabric f{instances, link};
  std::vector<double> ends(transfers.size(), -1);
  std::size_t next = 0;
  std::size_t rounds = 0;
  while (next < transfers.size() || f.active() > 0) {
    REQUIRE(++rounds <= 4 * transfers.size() + 4);  // time never stands still
    const double start = next < transfers.size() ? transfers[next].at : std::numeric_limits<double>::infinity();
    const double end = f.next_end_s();
    if (start < end) {
      f.start(start, transfers[next].from, transfers[next].to, bytes{transfers[next].size}, next);
      ++next;
    } else {
      f.advance(end, [&](const fabric::completion& c) {
        CHECK(ends[c.token] == -1);
        CHECK(c.started_s == transfers[c.token].at);
        CHECK(c.ended_s == end);
        ends[c.token] = c.ended_s;
      });
    }
  }
  CHECK(f.next_end_s() == std::numeric_limits<double>::infinity());
  return ends;
}

/// Max-min fair rates as water rises: all by a hundred-thousandth of a link at a time; a transfer on a full link stays.
std::vector<double> slow_rates(std::size_t instances, double link, const std::vector<transfer>& active) {
  std::vector<double> rates(active.size(), 0);
  std::vector<bool> stays(active.size(), false);
  std::vector<double> out(instances, 0);
  std::vector<double> in(instances, 0);
  const double drop = link * 1e-5;
  for (bool rising = true; rising;) {
    rising = false;
    for (std::size_t i = 0; i < active.size(); ++i) {
      if (stays[i]) continue;
      rates[i] += drop;
      out[active[i].from] += drop;
      in[active[i].to] += drop;
    }
    for (std::size_t i = 0; i < active.size(); ++i) {
      stays[i] = stays[i] || out[active[i].from] >= link - drop / 2 || in[active[i].to] >= link - drop / 2;
      rising = rising || !stays[i];
    }
  }
  return rates;
}

/// The same in small steps of time.
std::vector<double> ends_in_steps(std::size_t instances, double link, const std::vector<transfer>& transfers,
                                  double dt) {
  std::vector<double> ends(transfers.size(), -1);
  std::vector<double> left;
  for (const transfer& t : transfers) left.push_back(static_cast<double>(t.size));
  std::size_t ended = 0;
  std::vector<std::size_t> active;
  std::vector<double> rates;
  for (std::int64_t tick = 0; ended < transfers.size(); ++tick) {
    const double now = static_cast<double>(tick) * dt;
    std::vector<std::size_t> now_active;
    std::vector<transfer> flows;
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      if (transfers[i].at > now || ends[i] >= 0) continue;
      now_active.push_back(i);
      flows.push_back(transfers[i]);
    }
    if (now_active != active) rates = slow_rates(instances, link, flows);
    active = now_active;
    for (std::size_t k = 0; k < active.size(); ++k) {
      left[active[k]] -= rates[k] * dt;
      if (left[active[k]] > 0) continue;
      ends[active[k]] = now + dt;
      ++ended;
    }
  }
  return ends;
}

TEST_CASE("fabric: one transfer takes its size over the bandwidth") {
  CHECK(ends_of(2, 100, {{0, 0, 1, 100}})[0] == 1.0);
  CHECK(ends_of(2, 100, {{2.5, 1, 0, 50}})[0] == 3.0);
  CHECK(ends_of(2, 100, {{7, 1, 0, 0}})[0] == 7.0);  // nothing to move
  CHECK(fabric{3, 1.0}.active() == 0);
  CHECK(fabric{3, 1.0}.next_end_s() == std::numeric_limits<double>::infinity());
}

TEST_CASE("fabric: transfers into one target, or out of one source, share its link evenly") {
  for (const double end : ends_of(4, 100, {{0, 0, 3, 100}, {0, 1, 3, 100}, {0, 2, 3, 100}})) CHECK(end == approx(3.0));
  for (const double end : ends_of(4, 100, {{0, 3, 0, 100}, {0, 3, 1, 100}, {0, 3, 2, 100}})) CHECK(end == approx(3.0));
  // Twice between the same two.
  for (const double end : ends_of(2, 100, {{0, 0, 1, 100}, {0, 0, 1, 100}})) CHECK(end == approx(2.0));
}

TEST_CASE("fabric: what a transfer cannot use goes to the others") {
  fabric f{5, 90};
  for (const std::size_t from : {0U, 1U, 2U}) f.start(0, from, 3, bytes{90}, from);
  f.start(0, 2, 4, bytes{90}, 3);
  for (const std::size_t token : {0U, 1U, 2U}) CHECK(f.rate(token) == approx(30));
  CHECK(f.rate(3) == approx(60));  // not half of what 2 can send, for the other cannot take its half
  f.cancel(0.5, 0);
  CHECK(f.rate(1) == approx(45));
  CHECK(f.rate(3) == approx(45));  // an end elsewhere may slow one down
  CHECK(f.next_end_s() == approx(0.5 + 60.0 / 45));
}

TEST_CASE("fabric: every transfer has a full link on which none is faster, and no link carries more than it can") {
  // This is what max-min fair means, and there is only one such assignment.
  std::mt19937_64 random{15};
  for (int round = 0; round < 400; ++round) {
    const std::size_t instances = 2 + random() % 12;
    const std::size_t n = 1 + random() % 60;
    fabric f{instances, 97};
    std::vector<transfer> flows;
    double now = 0;
    const auto check = [&] {
      std::vector<double> out(instances, 0);
      std::vector<double> in(instances, 0);
      std::vector<double> fastest_out(instances, 0);
      std::vector<double> fastest_in(instances, 0);
      for (const transfer& t : flows) {
        const double rate = f.rate(static_cast<std::size_t>(t.size));
        REQUIRE(rate > 0);
        out[t.from] += rate;
        in[t.to] += rate;
        fastest_out[t.from] = std::max(fastest_out[t.from], rate);
        fastest_in[t.to] = std::max(fastest_in[t.to], rate);
      }
      for (const transfer& t : flows) {
        const double rate = f.rate(static_cast<std::size_t>(t.size));
        REQUIRE(out[t.from] <= 97 * (1 + 1e-12));
        REQUIRE(in[t.to] <= 97 * (1 + 1e-12));
        const bool by_sender = out[t.from] > 97 * (1 - 1e-12) && rate >= fastest_out[t.from] * (1 - 1e-12);
        const bool by_receiver = in[t.to] > 97 * (1 - 1e-12) && rate >= fastest_in[t.to] * (1 - 1e-12);
        REQUIRE((by_sender || by_receiver));
      }
    };
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t from = random() % instances;
      const std::size_t to = (from + 1 + random() % (instances - 1)) % instances;
      flows.push_back({now, from, to, static_cast<std::int64_t>(i)});
      f.start(now, from, to, bytes{1'000'000'000}, i);
      if (random() % 3 == 0) {
        const std::size_t k = random() % flows.size();
        now += 0.25;
        f.cancel(now, static_cast<std::size_t>(flows[k].size));
        flows.erase(flows.begin() + static_cast<std::ptrdiff_t>(k));
      }
      check();
    }
  }
}

TEST_CASE("fabric: a listener that hears of an end may start and cancel transfers") {
  fabric f{4, 100};
  for (std::size_t from = 0; from != 3; ++from) f.start(0, from, 3, bytes{100}, from);
  std::vector<std::size_t> order;
  f.advance(f.next_end_s(), [&](const fabric::completion& c) {
    order.push_back(c.token);
    if (c.token == 0) {
      f.cancel(c.ended_s, 1);
      f.start(c.ended_s, 0, 1, bytes{50}, 7);
      f.start(c.ended_s, 0, 1, bytes{0}, 8);
    }
  });
  CHECK(order == std::vector<std::size_t>{0, 2});
  CHECK(f.active() == 2);
  CHECK(f.next_end_s() == approx(3.0));
  f.advance(f.next_end_s(), [&](const fabric::completion& c) { order.push_back(c.token); });
  CHECK(order.back() == 8);
  CHECK(f.next_end_s() == approx(3.5));
}

TEST_CASE("fabric: disjoint pairs and opposite directions do not notice each other") {
  for (const double end : ends_of(4, 100, {{0, 0, 1, 100}, {0, 2, 3, 100}})) CHECK(end == approx(1.0));
  for (const double end : ends_of(2, 100, {{0, 0, 1, 100}, {0, 1, 0, 100}})) CHECK(end == approx(1.0));
  // A ring: every instance sends and receives.
  for (const double end : ends_of(3, 100, {{0, 0, 1, 100}, {0, 1, 2, 100}, {0, 2, 0, 100}})) CHECK(end == approx(1.0));
}

TEST_CASE("fabric: a later start slows the earlier ones, an end speeds the others up") {
  {  // 50 bytes alone, then both at 50 a second until the first is done, then the second alone.
    const auto ends = ends_of(3, 100, {{0, 0, 2, 100}, {0.5, 1, 2, 100}});
    CHECK(ends[0] == approx(1.5));
    CHECK(ends[1] == approx(2.0));
  }
  {  // A small one in between.
    const auto ends = ends_of(3, 100, {{0, 0, 2, 100}, {0.2, 1, 2, 10}});
    CHECK(ends[1] == approx(0.4));
    CHECK(ends[0] == approx(1.1));
  }
  {  // The slower of the two shares counts: 0 sends two, 2 receives two, so all three run at half speed.
    const auto ends = ends_of(4, 100, {{0, 0, 1, 100}, {0, 0, 2, 100}, {0, 3, 2, 50}});
    CHECK(ends[2] == approx(1.0));
    CHECK(ends[0] == approx(2.0));
    CHECK(ends[1] == approx(2.0));
  }
}

TEST_CASE("fabric: equal ends come in the order of their starts, in one call") {
  fabric f{4, 100};
  f.start(0, 0, 3, bytes{100}, 7);
  f.start(0, 1, 3, bytes{100}, 5);
  f.start(0, 2, 3, bytes{100}, 9);
  std::vector<std::size_t> order;
  f.advance(f.next_end_s(), [&](const fabric::completion& c) { order.push_back(c.token); });
  CHECK(order == std::vector<std::size_t>{7, 5, 9});
  CHECK(f.active() == 0);
}

TEST_CASE("fabric: nothing ends before its time") {
  fabric f{2, 100};
  f.start(1.0, 0, 1, bytes{100}, 0);
  f.advance(1.5, [](const fabric::completion&) { FAIL("half of it"); });
  CHECK(f.next_end_s() == approx(2.0));
  CHECK(f.active() == 1);
}

std::vector<transfer> random_transfers(std::mt19937_64& random, std::size_t instances, std::size_t n) {
  std::vector<transfer> transfers;
  double at = 0;
  for (std::size_t i = 0; i < n; ++i) {
    at += std::uniform_real_distribution<double>{0, 0.8}(random);
    const std::size_t from = random() % instances;
    const std::size_t to = (from + 1 + random() % (instances - 1)) % instances;
    transfers.push_back({at, from, to, static_cast<std::int64_t>(random() % 120)});
  }
  return transfers;
}

TEST_CASE("fabric: as a simulation in small steps of time") {
  std::mt19937_64 random{11};
  for (int round = 0; round < 12; ++round) {
    const std::size_t instances = 2 + random() % 4;
    const auto transfers = random_transfers(random, instances, 2 + random() % 9);
    constexpr double dt = 1e-4;
    const auto got = ends_of(instances, 100, transfers);
    const auto want = ends_in_steps(instances, 100, transfers, dt);
    // Each start and each end is a step late at most, and delays add up.
    const double tolerance = 2 * dt * static_cast<double>(transfers.size());
    for (std::size_t i = 0; i < transfers.size(); ++i) CHECK(got[i] == approx(want[i]).margin(tolerance));
  }
}

TEST_CASE("fabric: bytes are conserved, and runs repeat exactly") {
  std::mt19937_64 random{12};
  for (int round = 0; round < 100; ++round) {
    // All send to 0, which is never idle: the last end is the first start plus all bytes over its link.
    std::vector<transfer> transfers;
    double at = 3;
    double backlog = 0;
    double total = 0;
    for (int i = 0; i < 12; ++i) {
      const auto size = static_cast<std::int64_t>(50 + random() % 100);
      transfers.push_back({at, 1 + random() % 4, 0, size});
      total += static_cast<double>(size);
      backlog += static_cast<double>(size);
      const double gap = backlog / 100 * std::uniform_real_distribution<double>{0, 0.9}(random);
      at += gap;
      backlog -= gap * 100;
    }
    const auto ends = ends_of(5, 100, transfers);
    CHECK(*std::max_element(ends.begin(), ends.end()) == approx(3 + total / 100).epsilon(1e-9));
    CHECK(ends_of(5, 100, transfers) == ends);

    // No link ever carries more than its bandwidth.
    const auto any = random_transfers(random, 4, 10);
    const auto any_ends = ends_of(4, 100, any);
    for (std::size_t i = 0; i < any.size(); ++i) {
      CHECK(any_ends[i] - any[i].at >= static_cast<double>(any[i].size) / 100 - 1e-8);
    }
  }
}

TEST_CASE("fabric: very short, very long and very late transfers end") {
  const std::vector<transfer> sizes{{0, 0, 1, 1}, {0, 1, 2, std::numeric_limits<std::int64_t>::max()}, {0, 2, 0, 0}};
  for (const double link : {1.0, 1e9, 1e18}) {
    for (const double at : {0.0, 1.0, 1e6, 1e9, 1e12, 1e15}) {
      std::vector<transfer> transfers = sizes;
      for (transfer& t : transfers) t.at = at;
      for (const double end : ends_of(3, link, transfers)) CHECK(end >= at);
    }
  }
  // Where a moment is coarser than a nanosecond, an end is still reached, and none lies before now.
  std::mt19937_64 random{13};
  for (const double begin : {1e7, 1e8, 1e9}) {
    auto transfers = random_transfers(random, 3, 60);
    for (transfer& t : transfers) t.at += begin;
    const auto ends = ends_of(3, 97.0, transfers);
    for (std::size_t i = 0; i < ends.size(); ++i) CHECK(ends[i] >= transfers[i].at);
  }
}

TEST_CASE("fabric: time does not run backwards through rounding") {
  std::mt19937_64 random{14};
  for (int round = 0; round < 200; ++round) {
    fabric f{3, 12.5e9};
    double now = 1 + static_cast<double>(random() % 1000) / 7;
    f.start(now, 0, 1, bytes{1 + static_cast<std::int64_t>(random() % 1'000'000'000)}, 0);
    for (int i = 1; i < 20; ++i) {  // starts one rounding step before the end
      const double end = f.next_end_s();
      const double before = std::max(now, end - end * std::numeric_limits<double>::epsilon());
      f.start(before, i % 2 == 0 ? 0 : 2, 1, bytes{1 + static_cast<std::int64_t>(random() % 1000)},
              static_cast<std::size_t>(i));
      now = before;
      REQUIRE(f.next_end_s() >= now);
    }
  }
}

}  // namespace
