// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/order/least_slack.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace {

using namespace tessera;
using tessera_test::approx;

struct request : request_hook_for<order::least_slack<>> {
  std::size_t id = 0;
};
using discipline = order::least_slack<>;

constexpr time_point at(double s) { return time_point::at_seconds(s); }

/// A request that came at `arrived`, with `prompt` tokens of prompt and `generated` tokens of output.
void join(discipline& d, request& r, double arrived, std::int64_t prompt, std::int64_t generated = 0) {
  r.prompt = tokens{prompt};
  auto& s = request_access::state(r);
  s.arrived = at(arrived);
  s.length = tokens{prompt + generated};
  request_access::begin_order_state<discipline>(r);
  d.enter(r, s.arrived);
}
double start_by(const request& r) { return order_state<discipline>(r).start_by.seconds(); }

TEST_CASE("least_slack: the latest start of a prompt, the next token's time of what has begun",
          "[order][least_slack]") {
  discipline d{.prefill_per_token = duration{0.001}, .promise = {{.ttft = duration{2.0}, .tpot = duration{0.1}}}};
  request a, b, c;
  join(d, a, 10, 500);
  CHECK(start_by(a) == approx(11.5));
  join(d, b, 10, 100, 7);  // came with seven tokens: the next one is due 0.7 s after the first
  CHECK(start_by(b) == approx(12.7));
  join(d, c, 9.9, 100);
  CHECK(start_by(c) == approx(11.8));
  CHECK(d.before(a, c));
  CHECK(d.before(c, b));
  // A long prompt goes ahead of a short one that came earlier; by less than the margin it displaces none.
  CHECK_FALSE(d.displaces(a, c));
  CHECK(d.displaces(a, b));
  CHECK_FALSE(d.displaces(c, b));
  // The first token gives it another deadline at once, and then every slice does.
  request_access::state(a).length += tokens{1};
  CHECK(d.charge(a, tokens{1}));
  d.requeue(a);
  CHECK(start_by(a) == approx(12.1));
  int turns = 0;
  for (int k = 0; k != 64; ++k) {
    request_access::state(a).length += tokens{1};
    if (!d.charge(a, tokens{1})) continue;
    ++turns;
    d.requeue(a);
  }
  CHECK(turns == 2);
  CHECK(start_by(a) == approx(18.5));
}

/// Serves one request at a time, a token a second. Returns the worst lateness, by the deadlines of their last tokens.
template <class Order>
double worst_lateness(const Order& order, const std::vector<double>& ttft) {
  using job = request_hook_for<Order>;
  using scheduler = iteration_scheduler<job, Order>;
  auto storage = storage_for<scheduler>({.requests = 16, .blocks = 100, .block_size = tokens{16}, .residents = 8});
  scheduler s{storage, {.order = order}};
  std::vector<job> jobs(ttft.size());
  for (std::size_t i = 0; i != jobs.size(); ++i) {
    jobs[i].prompt = tokens{static_cast<std::int64_t>(i + 1)};
    jobs[i].max_output = tokens{1};
    REQUIRE(s.submit(jobs[i], at(0)) == status::accepted);
  }
  double now = 0, worst = -1e9;
  while (!s.idle()) {
    const auto p = s.plan(at(now), {.max_batch = 1, .token_budget = tokens{4096}});
    REQUIRE(p.size() == 1);
    now += 1;
    const auto i = static_cast<std::size_t>(p[0].request->prompt.count() - 1);
    worst = std::max(worst, now - ttft[i]);
    const outcome done{.finished = true};
    REQUIRE(s.commit(p, {&done, 1}, at(now)) == status::ok);
  }
  return worst;
}

/// What was promised, by the length of the prompt.
struct promises {
  const std::vector<double>* ttft = nullptr;
  template <schedulable R>
  [[nodiscard]] order::token_deadlines operator()(const R& r) const noexcept {
    return {.ttft = duration{(*ttft)[static_cast<std::size_t>(r.prompt.count() - 1)]}, .tpot = duration{0.1}};
  }
};

TEST_CASE("least_slack: a request that is promised no time for a token keeps what is promised for the first",
          "[order][least_slack]") {
  discipline d{.prefill_per_token = duration{}, .promise = {{.ttft = duration{2.0}, .tpot = duration::forever()}}};
  request a;
  join(d, a, 5, 10);
  CHECK(start_by(a) == approx(7));
  // From then on nothing is promised.
  request_access::state(a).length += tokens{1};
  d.requeue(a);
  CHECK(order_state<discipline>(a).start_by == time_point::never());
}

TEST_CASE("least_slack: keeps the greatest lateness least, as brute force over all orders says",
          "[order][least_slack]") {
  std::uint64_t x = 12345;
  for (int round = 0; round != 60; ++round) {
    std::vector<double> ttft(6);
    for (double& t : ttft) {
      x = x * 6364136223846793005U + 1442695040888963407U;
      t = static_cast<double>(1 + (x >> 33U) % 12);
    }
    double best = 1e9;
    std::vector<std::size_t> who{0, 1, 2, 3, 4, 5};
    do {
      double worst = -1e9;
      for (std::size_t k = 0; k != who.size(); ++k) worst = std::max(worst, static_cast<double>(k + 1) - ttft[who[k]]);
      best = std::min(best, worst);
    } while (std::next_permutation(who.begin(), who.end()));
    using by_slack = order::least_slack<promises>;
    CHECK(worst_lateness(by_slack{.promise = {&ttft}}, ttft) == approx(best).margin(1e-9));
  }
}

}  // namespace
