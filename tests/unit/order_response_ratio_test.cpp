// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Highest response ratio next, against exact ratios that are computed anew for each look.

#include <tessera/order/response_ratio.hpp>
#include <tessera/queue/ordered_queue.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <random>

namespace {

using namespace tessera;
using namespace tessera::literals;

struct request : request_hook_for<order::response_ratio<>> {
  tokens expected_output{};
};
using queue_type = ordered_queue<request, order::response_ratio<>>;

[[nodiscard]] double service_of(const order::response_ratio<>& d, const request& r) {
  return d.pace.seconds() * static_cast<double>(std::max<std::int64_t>(r.expected_output.count(), 1));
}
[[nodiscard]] double ratio_of(const order::response_ratio<>& d, const request& r, double now) {
  return 1 + (now - r.state().arrived.seconds()) / service_of(d, r);
}

}  // namespace

TEST_CASE("response_ratio: the first in line has the greatest ratio, within a step", "[order][response_ratio]") {
  for (const double step : {1.01, 1.25, 2.0}) {
    for (unsigned seed = 0; seed != 10; ++seed) {
      std::mt19937_64 random{seed};
      const auto below = [&](std::uint64_t n) { return random() % n; };
      std::deque<request> all(200);
      queue_type queue{order::response_ratio<>{.pace = 0.1_s, .step = step}};
      const order::response_ratio<>& d = queue.discipline();
      double now = 0;
      std::size_t differs = 0;
      std::size_t wrong = 0;
      for (int i = 0; i != 2'000; ++i) {
        now += 0.01 * static_cast<double>(below(20));
        request& r = all[below(all.size())];
        if (queue.contains(r)) {
          if (below(3) == 0) queue.erase(r);
        } else {
          r.expected_output = tokens{static_cast<std::int64_t>(below(4) == 0 ? below(2000) : below(40))};
          r.priority = static_cast<int>(below(2));
          queue.push(r, time_point::at_seconds(now));
        }
        // As many plans as it takes: each moves a constant number.
        const auto behind = [&] {
          return std::any_of(all.begin(), all.end(), [&](const request& q) {
            return queue.contains(q) && d.due_at(q) <= time_point::at_seconds(now);
          });
        };
        do {
          queue.advance(time_point::at_seconds(now));
        } while (behind());
        const request* const first = queue.front();
        if (first == nullptr) continue;
        double most = 0;
        for (const request& q : all) {
          if (!queue.contains(q)) continue;
          const double level = order_state<order::response_ratio<>>(q).level;
          const double ratio = ratio_of(d, q, now);
          wrong += q.priority > first->priority || ratio < level * (1 - 1e-9) || ratio > level * step * (1 + 1e-9);
          if (q.priority == first->priority) most = std::max(most, ratio);
        }
        const double ratio = ratio_of(d, *first, now);
        wrong += ratio * step < most * (1 - 1e-9);
        differs += ratio < most;
        if (below(4) == 0) queue.pop_front();
      }
      CHECK(wrong == 0);
      CHECK((step < 1.1 || differs > 0));  // else it would not need a bound
    }
  }
}

TEST_CASE("response_ratio: a request rises a logarithmic number of times, and not beyond the clock's range",
          "[order][response_ratio]") {
  order::response_ratio<> d{.pace = 0.1_s, .step = 1.5};
  request r;
  r.expected_output = 10_tok;
  queue_type queue{d};
  queue.push(r, time_point::at_seconds(5));
  CHECK(queue.discipline().due_at(r) == time_point::at_seconds(5.5));
  std::size_t rises = 0;
  double level = 1;
  for (double now = 5; now < 5 + 100; now += 0.02) {
    queue.advance(time_point::at_seconds(now));
    const double is = order_state<order::response_ratio<>>(r).level;
    rises += is != level;
    level = is;
  }
  CHECK(rises == static_cast<std::size_t>(std::log(101) / std::log(1.5)));
  queue.advance(time_point::at_seconds(1e300));  // at one stroke
  CHECK(order_state<order::response_ratio<>>(r).level > 1e299);
  r.expected_output = tokens{std::numeric_limits<std::int64_t>::max()};
  queue.pop_front();
  queue.discipline().pace = duration{1e300};
  queue.push(r, time_point::at_seconds(5));
  CHECK(queue.discipline().due_at(r) == time_point::never());
}

TEST_CASE("response_ratio: a short request passes a long one that has not waited in proportion",
          "[order][response_ratio]") {
  request early, shorter, late, unknown;
  early.expected_output = 1000_tok;  // 10 s
  shorter.expected_output = 100_tok;
  late.expected_output = 100_tok;
  queue_type queue{order::response_ratio<>{.pace = 0.01_s, .step = 1.25}};
  queue.push(early, time_point::at_seconds(0));
  queue.push(shorter, time_point::at_seconds(1));
  queue.advance(time_point::at_seconds(1));
  CHECK(queue.front() == &early);
  queue.advance(time_point::at_seconds(2));  // 1.2 against 2
  CHECK(queue.front() == &shorter);
  queue.erase(shorter);
  queue.push(late, time_point::at_seconds(9.5));
  queue.advance(time_point::at_seconds(9.9));  // 1.99 against 1.4
  CHECK(queue.front() == &early);
  queue.push(unknown, time_point::at_seconds(9.9));
  queue.advance(time_point::at_seconds(9.95));  // as one token: 6
  CHECK(queue.front() == &unknown);
  unknown.priority = -1;
  queue.erase(unknown);
  queue.push(unknown, time_point::at_seconds(9.95));
  CHECK(queue.front() == &early);
  CHECK_FALSE(order::response_ratio<>::displaces(early, late));
  CHECK(order::response_ratio<>::displaces(late, unknown));
}

TEST_CASE("response_ratio: a request that has waited elsewhere has its level at once", "[order][response_ratio]") {
  request r;
  r.expected_output = 100_tok;
  queue_type queue{order::response_ratio<>{.pace = 0.01_s, .step = 2}};
  queue.advance(time_point::at_seconds(100));
  queue.push(r, time_point::at_seconds(91));  // a ratio of 10
  CHECK(order_state<order::response_ratio<>>(r).level == 8);
  CHECK(queue.discipline().due_at(r) == time_point::at_seconds(106));
}

TEST_CASE("response_ratio: what is no pace or step is impossible", "[order][response_ratio]") {
  CHECK(order::response_ratio<>{}.is_possible());
  CHECK(order::response_ratio<>{.step = 1.01}.is_possible());
  CHECK_FALSE(order::response_ratio<>{.step = 1}.is_possible());
  CHECK_FALSE(order::response_ratio<>{.step = std::numeric_limits<double>::quiet_NaN()}.is_possible());
  CHECK_FALSE(order::response_ratio<>{.pace = duration{}}.is_possible());
  CHECK_FALSE(order::response_ratio<>{.pace = duration::forever()}.is_possible());
}
