// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Orders as a user writes them: with parameters, with a state of their own, and such that listen.

#include <tessera/gate/backfill.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/order/fcfs.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/recompute.hpp>

#include "support/catch.hpp"
#include "support/is_slow.hpp"
#include "support/step_engine.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <type_traits>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

/// The request with its prompt nearest to a length goes first. Not default constructible.
struct nearest_to : order::fcfs {
  explicit nearest_to(tokens wanted) : length{wanted} {}

  template <schedulable R>
  [[nodiscard]] bool before(const R& a, const R& b) const noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    const tokens x = off(a);
    const tokens y = off(b);
    return x != y ? x < y : a.state().sequence < b.state().sequence;
  }
  template <schedulable R>
  [[nodiscard]] bool displaces(const R& waiting, const R& resident) const noexcept {
    return before(waiting, resident);
  }
  template <schedulable R>
  [[nodiscard]] tokens off(const R& r) const noexcept {
    return r.prompt < length ? length - r.prompt : r.prompt - length;
  }

  tokens length;
};
static_assert(!std::is_default_constructible_v<nearest_to>);

/// The request that has generated least is first, as of the last look; looks after every fourth token. Brings a state
/// of its own.
struct least_attained : order::fcfs {
  template <clock_policy Clock>
  struct state {
    std::int64_t attained = 0;
    std::int64_t since = 0;
  };
  template <schedulable R>
  void enter(R& r, typename R::time_point /*now*/) noexcept {
    request_access::order_state<least_attained>(r).attained = r.generated().count();
  }
  template <schedulable R>
  [[nodiscard]] bool charge(R& r, tokens ran) noexcept {
    return (request_access::order_state<least_attained>(r).since += ran.count()) >= 4;
  }
  template <schedulable R>
  void requeue(R& r) noexcept {
    request_access::order_state<least_attained>(r) = {.attained = r.generated().count()};
  }
  template <schedulable R>
  [[nodiscard]] static bool before(const R& a, const R& b) noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    const auto x = order_state<least_attained>(a).attained;
    const auto y = order_state<least_attained>(b).attained;
    return x != y ? x < y : a.state().sequence < b.state().sequence;
  }
  template <schedulable R>
  [[nodiscard]] static bool displaces(const R& waiting, const R& resident) noexcept {
    return before(waiting, resident);
  }
};

/// What an order has heard.
struct log {
  std::map<const void*, std::size_t> entered, left;
  std::size_t advances = 0;
};
log heard;

struct listening : order::fcfs {
  template <schedulable R>
  void enter(R& r, typename R::time_point /*now*/) noexcept {
    ++heard.entered[&r];
  }
  template <schedulable R>
  void leave(R& r) noexcept {
    ++heard.left[&r];
  }
  template <clock_policy Clock>
  void advance(basic_time_point<Clock> /*now*/) noexcept {
    ++heard.advances;
  }
};

using plain_request = tessera_test::prompt_request<>;
struct attained_request : tessera_test::prompt_request<request_hook_for<least_attained>> {};

}  // namespace

TEST_CASE("own order: parameters that `before` looks at, in a scheduler and in a queue") {
  using scheduler = iteration_scheduler<plain_request, nearest_to, preempt::recompute, admit::always>;
  const scheduler_limits limits{.blocks = 40, .block_size = 4_tok, .residents = 2, .max_length = 100_tok};
  for (const std::int64_t wanted : {1, 10, 30}) {
    tessera_test::step_engine<scheduler> e{limits, {.order = nearest_to{tokens{wanted}}}};
    std::vector<plain_request*> r;
    for (const std::int64_t prompt : {3, 9, 28, 14}) r.push_back(&e.submit(prompt, 3));
    e.step();
    const auto residents = e.scheduler.residents();
    REQUIRE(residents.size() == 2);
    const std::vector<std::int64_t> expected = wanted == 1    ? std::vector<std::int64_t>{3, 9}
                                               : wanted == 10 ? std::vector<std::int64_t>{9, 14}
                                                              : std::vector<std::int64_t>{28, 14};
    CHECK(residents[0]->prompt == tokens{expected[0]});
    CHECK(residents[1]->prompt == tokens{expected[1]});
    // One that is nearer displaces the farther one.
    plain_request& nearest = e.submit(wanted, 3);
    e.step();
    CHECK(nearest.state().life == lifecycle::resident);
    CHECK(e.preemptions == 1);
    e.run_out();
  }
  ordered_queue<plain_request, nearest_to> queue{nearest_to{7_tok}};
  plain_request a, b;
  a.prompt = 20_tok;
  b.prompt = 1_tok;
  queue.push(a, time_point{});
  queue.push(b, time_point{});
  CHECK(queue.front() == &b);
  while (queue.pop_front() != nullptr) {
  }
}

TEST_CASE("own order: a state that it brings begins anew with each stay, and survives a preemption") {
  using scheduler = iteration_scheduler<attained_request, least_attained, preempt::recompute, admit::always>;
  tessera_test::step_engine<scheduler> e{{.blocks = 40, .block_size = 4_tok, .residents = 1, .max_length = 100_tok}};
  attained_request& a = e.submit(3, 9);
  attained_request& b = e.submit(3, 9);
  std::vector<const attained_request*> served;
  for (int i = 0; i != 10; ++i) {
    const auto p = e.plan();
    REQUIRE(p.size() == 1);
    served.push_back(p[0].request);
    e.commit(p);
  }
  // Four tokens each, in turns: b displaces a, which loses its KV. Neither goes before it has made up for that.
  const std::vector<const attained_request*> expected{&a, &a, &a, &a, &b, &b, &b, &b, &a, &a};
  CHECK(served == expected);
  CHECK(order_state<least_attained>(a).attained == 4);
  REQUIRE(e.scheduler.cancel(a) == status::ok);
  e.submit(a);
  CHECK(order_state<least_attained>(a).attained == 0);
  CHECK(order_state<least_attained>(a).since == 0);
  e.run_out();
}

TEST_CASE("own order: hears once of each request that ends or is given up, and of the time once per plan") {
  using scheduler = iteration_scheduler<plain_request, listening, preempt::recompute, admit::always, kv::prefix_cache,
                                        kv::csr_tables, gate::backfill>;
  heard = {};
  std::map<const void*, std::size_t> joined, ended;
  std::size_t plans = 0;
  {
    tessera_test::step_engine<scheduler> e{
        {.requests = 8, .blocks = 24, .block_size = 4_tok, .residents = 5, .host_blocks = 8, .max_length = 96_tok}};
    std::mt19937 random{3};
    const auto below = [&](std::size_t n) { return static_cast<std::int64_t>(random() % n); };
    const auto any = [&]() -> plain_request& { return e.requests[static_cast<std::size_t>(below(e.requests.size()))]; };
    // Each request that was here and is not any more has ended.
    std::map<const void*, bool> live;
    const auto look = [&] {
      for (const plain_request& r : e.requests) {
        const bool now = is_live(r.state().life);
        if (live[&r] && !now) ++ended[&r];
        if (!live[&r] && now) ++joined[&r];
        live[&r] = now;
      }
    };
    for (int step = 0; step != (tessera_test::is_slow ? 1000 : 1500); ++step) {
      // One draw per statement: the order of arguments is the compiler's.
      const std::int64_t prompt = 1 + below(30);
      const std::int64_t output = 1 + below(20);
      plain_request& fresh = e.add(prompt, output, static_cast<int>(below(3)));
      fresh.hashes = tessera_test::hashes_of(static_cast<std::size_t>(fresh.prompt / 4_tok), 8, 0);
      static_cast<void>(e.scheduler.submit(fresh, e.now));  // or the queue is full
      look();
      switch (below(8)) {
        case 0: static_cast<void>(e.scheduler.cancel(any())); break;
        case 1: static_cast<void>(e.scheduler.finish(any())); break;
        case 2: static_cast<void>(e.scheduler.suspend(any())); break;
        case 3: static_cast<void>(e.scheduler.resume(any())); break;
        case 4: static_cast<void>(e.scheduler.preempt(any())); break;
        case 5: {
          plain_request& r = any();
          if (e.scheduler.evacuate(r) == status::ok) {
            look();
            static_cast<void>(e.scheduler.adopt(r));
          }
          break;
        }
        case 6: static_cast<void>(e.scheduler.submit(any(), e.now)); break;  // again
        default:
          if (e.scheduler.resident_count() != 0) {
            plain_request& parent = *e.scheduler.residents().front();
            plain_request& child = e.add(parent.prompt.count(), parent.output.count());
            static_cast<void>(e.scheduler.fork(parent, child));
          }
      }
      look();
      const auto max_batch = static_cast<std::size_t>(1 + below(5));
      const auto p = e.plan({.max_batch = max_batch, .token_budget = tokens{1 + below(40)}});
      ++plans;
      CHECK(heard.advances == plans);
      if (below(3) == 0) static_cast<void>(e.scheduler.cancel(any()));  // in the middle of a step
      if (below(6) == 0) static_cast<void>(e.scheduler.evacuate(any()));
      if (below(4) == 0) {
        e.abandon(p);
      } else {
        std::vector<outcome> outcomes(p.size());
        for (std::size_t i = 0; i != p.size(); ++i) {
          const bool last = below(8) == 0;
          outcomes[i] = {.finished = p[i].samples && last, .failed = below(30) == 0};
        }
        e.commit(p, outcomes);
      }
      look();
      REQUIRE(heard.left == ended);
      REQUIRE(heard.entered == joined);
    }
    e.end_all();
    look();
    CHECK(heard.left == ended);
    CHECK(heard.entered == heard.left);
    CHECK(ended.size() > 300);
  }
}
