// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What each request computes in each step, against a textbook simulation that counts blocks and sorts everything anew.

#include <tessera/order/earliest_due.hpp>
#include <tessera/order/paced.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/order/two_phase.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/least_lost.hpp>
#include <tessera/preempt/recompute.hpp>

#include "property/scheduler_textbook.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace {

using namespace tessera;
using tessera_test::scheduler_textbook::bias_of;
using tessera_test::scheduler_textbook::expected_of;
using tessera_test::scheduler_textbook::linear;
using tessera_test::scheduler_textbook::pace;
using tessera_test::scheduler_textbook::prompt_pace;
using tessera_test::scheduler_textbook::quadratic;
using tessera_test::scheduler_textbook::reading_speed;
using tessera_test::scheduler_textbook::revised;
using tessera_test::scheduler_textbook::rule;
using tessera_test::scheduler_textbook::settings;
using tessera_test::scheduler_textbook::share;
using tessera_test::scheduler_textbook::task;
using tessera_test::scheduler_textbook::textbook;

using hook =
    request_hook_for<order::round_robin, order::two_phase, order::ranked<>, order::paced<>, order::earliest_due<>>;
struct request : hook {
  std::size_t id = 0;
  float score = 0;
};

struct reader {
  [[nodiscard]] time_point operator()(const request& r) const noexcept {
    const tokens answered = r.generated() - r.state().reasoning;
    if (answered == tokens{}) return time_point::never();
    return r.state().answering_since + duration{static_cast<double>(answered.count()) / reading_speed};
  }
};

struct by_score {
  [[nodiscard]] tokens operator()(const request& r) const noexcept {
    return tokens{expected_of(static_cast<double>(r.score), r.generated().count())};
  }
  [[nodiscard]] double length_bias(const request& r) const noexcept { return bias_of(static_cast<double>(r.score)); }
};

/// The residents as they stand, which is by rank where none of them is a victim of the plan that is open.
template <class Scheduler>
[[nodiscard]] std::vector<request*> order_of(const Scheduler& s) {
  return {s.residents().begin(), s.residents().end()};
}

template <class Order, class Preempt = preempt::recompute>
void compare(rule how, std::size_t least_chosen = 0) {
  std::size_t chosen = 0;
  std::size_t evictions = 0;
  std::size_t spared = 0;
  std::size_t stalled = 0;
  std::size_t patient = 0;
  std::size_t suspensions = 0;
  for (unsigned seed = 0; seed != 400; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random{seed};
    const auto upto = [&](int n) { return static_cast<std::int64_t>(random() % (static_cast<unsigned>(n) + 1)); };
    settings s{how,
               6 + upto(20),
               1 + upto(4),
               1 + upto(6),
               upto(20),
               1 + static_cast<std::size_t>(upto(6)),
               0.05 * static_cast<double>(upto(4)),
               static_cast<double>(upto(40)),
               static_cast<double>(upto(2)),
               0.004 * static_cast<double>(seed % 3),
               seed % 4 == 0 ? std::numeric_limits<double>::infinity() : 1 + static_cast<double>(upto(20)),
               1 + upto(6),
               static_cast<std::uint64_t>(upto(3)),
               seed % 2 == 0};
    using scheduler_type = iteration_scheduler<request, Order, Preempt, admit::watermark>;
    const scheduler_limits limits{.requests = 64,
                                  .blocks = static_cast<std::size_t>(s.blocks),
                                  .block_size = tokens{s.block_size},
                                  .residents = s.residents};
    typename scheduler_type::config config{.admit = {.fraction = s.watermark},
                                           .reserve = s.by_chunk ? reservation::by_chunk : reservation::whole_sequence};
    if constexpr (std::same_as<Preempt, preempt::least_lost>) {
      s.window = 1 + seed / 2 % 5;
      config.preempt.window = s.window;
      config.preempt.seconds_per_token = linear;
      config.preempt.seconds_per_token_squared = quadratic;
    }
    if constexpr (requires { config.order.quantum; }) config.order.quantum = tokens{s.quantum};
    if constexpr (requires { config.order.demote_above; }) config.order.demote_above = tokens{s.demote_above};
    if constexpr (requires { config.order.threshold; }) config.order.threshold = duration{s.threshold};
    if constexpr (requires { config.order.young_quanta; }) config.order.young_quanta = s.young;
    if constexpr (requires { config.order.pace; }) config.order.pace = duration{pace};
    if constexpr (requires { config.order.revised; }) config.order.revised = revised;
    if constexpr (requires { config.order.prompt_pace; }) config.order.prompt_pace = duration{prompt_pace};
    if constexpr (requires { config.order.move_pace; }) config.order.move_pace = duration{s.move_pace};
    if constexpr (requires { config.order.patience; }) config.order.patience = duration{s.patience};
    if constexpr (requires { config.order.slice; }) {
      config.order.slice = tokens{s.slice};
      config.order.margin = duration{s.margin};
    }
    auto storage = storage_for<scheduler_type>(limits);
    std::deque<request> requests;
    scheduler_type scheduler{storage, config};
    textbook book{s};

    const std::int64_t longest = s.blocks * s.block_size;
    std::size_t steps = 0;
    while (requests.size() != 24 || !scheduler.idle()) {
      REQUIRE(++steps < 20000);
      const double now = 0.5 * static_cast<double>(steps);
      const time_point at = time_point::at_seconds(now);
      for (const bool suspended : {false, true}) {
        if (random() % (suspended ? 3 : 8) != 0) continue;
        const auto ids = book.which(suspended);
        if (ids.empty()) continue;
        const std::size_t id = ids[random() % ids.size()];
        REQUIRE((suspended ? scheduler.resume(requests[id]) : scheduler.suspend(requests[id])) == status::ok);
        book.set_suspended(id, !suspended);
        ++suspensions;
      }
      while (requests.size() != 24 && random() % 3 == 0) {
        task t;
        t.id = requests.size();
        t.prompt = 1 + upto(static_cast<int>(longest) / 2);
        t.output = 1 + upto(static_cast<int>(longest - t.prompt));
        t.reasoning = upto(static_cast<int>(t.output) - 1);
        if (seed % 4 == 3) t.reasoning = 0;  // prompts and answers alone
        t.priority = random() % 5 == 0 ? 1 : 0;
        t.score = static_cast<double>(upto(20));
        request& r = requests.emplace_back();
        r.id = t.id;
        r.prompt = tokens{t.prompt};
        r.max_output = tokens{t.output};
        r.priority = t.priority;
        r.score = static_cast<float>(t.score);
        r.starts_in = t.reasoning == 0 ? phase::answering : phase::reasoning;
        REQUIRE(scheduler.submit(r, at) == status::accepted);
        book.submit(t, now);
      }
      const auto max_batch = static_cast<std::size_t>(1 + upto(7));
      const std::int64_t budget = 1 + upto(random() % 2 == 0 ? 8 : 80);
      const step_limits step{.max_batch = max_batch, .token_budget = tokens{budget}};
      auto plan = scheduler.plan(at, step);
      if (random() % 4 == 0) {  // one that was never made leaves no trace
        const std::vector<request*> before = order_of(scheduler);
        REQUIRE(scheduler.abandon(plan) == status::ok);
        REQUIRE(std::is_permutation(before.begin(), before.end(), scheduler.residents().begin(),
                                    scheduler.residents().end()));
        plan = scheduler.plan(at, step);
        REQUIRE(before == order_of(scheduler));
      }
      const auto expected = book.plan(max_batch, budget, now);
      const auto same = [](const auto& entries, const std::vector<share>& shares) {
        if (entries.size() != shares.size()) return false;
        for (std::size_t i = 0; i != shares.size(); ++i) {
          if (share{entries[i].request->id, entries[i].first.count(), entries[i].count.count()} != shares[i])
            return false;
        }
        return true;
      };
      REQUIRE(same(plan.decode, expected.decode));
      REQUIRE(same(plan.prefill, expected.prefill));
      REQUIRE(plan.preempted.size() == expected.evicted.size());
      for (std::size_t i = 0; i != expected.evicted.size(); ++i)
        REQUIRE(plan.preempted[i].request->id == expected.evicted[i]);
      evictions += expected.evicted.size();

      std::vector<outcome> outcomes;
      for (const auto* list : {&expected.decode, &expected.prefill}) {
        for (const share& e : *list) {
          outcomes.push_back({.end_of_reasoning = book.ends_reasoning(e), .finished = book.finishes(e)});
        }
      }
      scheduler.commit(plan, outcomes, at);
      book.commit(expected, now);
    }
    CHECK(scheduler.store().free() == limits.blocks);
    chosen += book.chosen();
    spared += book.spared();
    stalled += book.stalled();
    patient += book.patient();
  }
  CHECK(evictions > 1000);
  CHECK(chosen >= least_chosen);
  if (how == rule::due) CHECK(spared > 100);
  if (how == rule::due || how == rule::readers) {
    CHECK(stalled > 100);
    CHECK(patient > 100);
  }
  CHECK(suspensions > 1000);
}

}  // namespace

TEST_CASE("fcfs decides as the textbook does") { compare<order::fcfs>(rule::first_come); }
TEST_CASE("round_robin decides as the textbook does") { compare<order::round_robin>(rule::turns); }
TEST_CASE("two_phase decides as the textbook does") { compare<order::two_phase>(rule::two_queues); }
TEST_CASE("ranked decides as the textbook does, ageing included") { compare<order::ranked<>>(rule::shortest); }
TEST_CASE("paced decides as the textbook does, ageing included") { compare<order::paced<reader>>(rule::readers); }
TEST_CASE("earliest_due decides as the textbook does, ageing included") {
  compare<order::earliest_due<by_score, reader>>(rule::due);
}

TEST_CASE("victims are chosen as the textbook does: fcfs") {
  compare<order::fcfs, preempt::least_lost>(rule::first_come, 150);
}

TEST_CASE("victims are chosen as the textbook does: ranked, ageing included") {
  compare<order::ranked<>, preempt::least_lost>(rule::shortest, 150);
}

// There is a choice among requests that wait for a reader, and none among requests that outrank each other.
TEST_CASE("victims are chosen as the textbook does: paced, ageing included") {
  compare<order::paced<reader>, preempt::least_lost>(rule::readers, 15);
}

TEST_CASE("victims are chosen as the textbook does: earliest_due, ageing included") {
  compare<order::earliest_due<by_score, reader>, preempt::least_lost>(rule::due, 100);
}

TEST_CASE("victims are chosen as the textbook does: round_robin, where there is no choice") {
  compare<order::round_robin, preempt::least_lost>(rule::turns);
}
