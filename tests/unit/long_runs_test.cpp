// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Long runs and long requests: clocks of whole nanoseconds near their end, accounts near theirs, and lengths that no
// instance has room for.

#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pars.hpp>
#include <tessera/compose/pascal_paced.hpp>
#include <tessera/gate/fair_tenants.hpp>
#include <tessera/kv/row_tables.hpp>
#include <tessera/pacing/token_pacer.hpp>

#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

struct ranked_request : basic_request_hook<nanoseconds_clock, order::ranked<>> {
  float score = 0;
};
struct paced_request : basic_request_hook<nanoseconds_clock, order::paced<>> {
  basic_token_pacer<nanoseconds_clock> pacer{};
};
struct tenant_request : request_hook {
  std::uint32_t tenant = 0;
};
using ranked_scheduler = pars<ranked_request, order::score_member, kv::block_pool, kv::row_tables>;

constexpr std::int64_t greatest = std::numeric_limits<std::int64_t>::max();

/// Runs a step. Requests end at their `max_output`.
template <class Scheduler>
std::size_t run_step(Scheduler& s, typename Scheduler::time_point now, const step_limits& l = {}) {
  const auto p = s.plan(now, l);
  std::vector<outcome> o(p.size());
  for (std::size_t i = 0; i != p.size(); ++i) {
    o[i].finished = p[i].samples && p[i].request->generated() + 1_tok >= p[i].request->max_output;
  }
  REQUIRE(s.commit(p, o, now) == status::ok);
  return p.late.size();
}

}  // namespace

TEST_CASE("nanoseconds near 2^62: deadlines pass, what is never boosted is not, and all ends", "[pipeline]") {
  using time = ranked_scheduler::time_point;
  std::deque<ranked_request> all(20);
  auto storage = storage_for<ranked_scheduler>({.blocks = 100, .residents = 4, .deadlines = 8});
  ranked_scheduler s{storage, {.threshold = duration::forever()}};
  time now{time::duration{std::int64_t{1} << 62U}};
  for (ranked_request& r : all) {
    r.prompt = 16_tok;
    r.max_output = 20_tok;
    REQUIRE(s.submit(r, now) == status::accepted);
  }
  REQUIRE(s.start_by(all[19], now + time::duration{1000}) == status::ok);
  std::size_t late = 0;
  std::size_t steps = 0;
  for (; !s.idle(); ++steps) {
    REQUIRE(steps != 1000);
    late += run_step(s, now);
    now += time::duration{20'000'000};
  }
  CHECK(late == 1);
  CHECK(steps == 100);  // 20 requests, 4 at a time, 20 tokens each
}

TEST_CASE("a threshold of more nanoseconds than there are is never", "[pipeline]") {
  ranked_request r;
  r.prompt = 1_tok;
  auto storage = storage_for<ranked_scheduler>({.blocks = 100, .residents = 4});
  ranked_scheduler s{storage, {.threshold = duration{1e12}}};
  REQUIRE(s.submit(r, ranked_scheduler::time_point::at_seconds(5)) == status::accepted);
  CHECK(order::ranked<>::due_at(r) == ranked_scheduler::time_point::never());
  CHECK(s.cancel(r) == status::ok);
}

TEST_CASE("an answer that is always urgent ends, in whole nanoseconds, too", "[pipeline]") {
  using scheduler = pascal_paced<paced_request, order::pacer_member, kv::block_pool, kv::row_tables>;
  paced_request r;
  r.prompt = 1_tok;
  r.max_output = 5_tok;
  r.starts_in = phase::answering;
  auto storage = storage_for<scheduler>({.blocks = 100, .residents = 4});
  scheduler s{storage, {.margin = duration::forever()}};
  scheduler::time_point now{};
  REQUIRE(s.submit(r, now) == status::accepted);
  for (int i = 0; i != 5; ++i) {
    now += scheduler::time_point::duration{1000};
    r.pacer.on_token(now);
    run_step(s, now);
  }
  CHECK(s.idle());
}

TEST_CASE("prompts of 2^29 tokens are served and accounted for", "[pipeline]") {
  using scheduler = fcfs<tenant_request, kv::block_pool, kv::row_tables, gate::fair_tenants>;
  constexpr std::int64_t size = std::int64_t{1} << 20U;
  std::deque<tenant_request> all(6);
  auto storage = storage_for<scheduler>({.blocks = std::size_t{1} << 20U,
                                         .block_size = tokens{size},
                                         .residents = 4,
                                         .max_length = tokens{std::int64_t{1} << 30U}});
  scheduler s{storage};
  std::uint32_t n = 0;
  for (tenant_request& r : all) {
    r.tenant = n++ % 2;
    r.prompt = tokens{std::int64_t{1} << 29U};
    r.max_output = tokens{std::int64_t{1} << 28U};
    REQUIRE(s.submit(r, {}) == status::accepted);
  }
  int steps = 0;
  for (; !s.idle(); ++steps) {
    REQUIRE(steps != 10);
    const auto p = s.plan({}, {.token_budget = tokens{std::int64_t{1} << 51U}});
    REQUIRE(s.commit(p, std::vector<outcome>(p.size(), outcome{.finished = true}), {}) == status::ok);
  }
  CHECK(steps == 2);
  CHECK(s.gate().had(0) == s.gate().had(1));
}

TEST_CASE("no prompt and no output is too long to be refused", "[pipeline]") {
  using scheduler = fcfs<tenant_request, kv::block_pool, kv::row_tables>;
  tenant_request r;
  auto storage = storage_for<scheduler>({.blocks = 16, .residents = 2});
  scheduler s{storage};
  for (const std::int64_t prompt : {std::int64_t{1} << 31U, std::int64_t{1} << 62U, greatest}) {
    for (const std::int64_t output : {std::int64_t{0}, std::int64_t{1} << 62U, greatest}) {
      r.prompt = tokens{prompt};
      r.max_output = tokens{output};
      CHECK(s.submit(r, {}) == status::never_fits);
    }
  }
  r.prompt = 1_tok;
  r.max_output = tokens{greatest};
  CHECK(s.submit(r, {}) == status::never_fits);
}
