// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A suspended request with its blocks, and one that goes on elsewhere. Random sequences of both are in
// tests/property.

#include <tessera/admit/future_peak.hpp>
#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <deque>
#include <type_traits>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

struct request : request_hook_for<order::two_phase> {};

request make(std::int64_t prompt, std::int64_t max_output = 0, int priority = 0) {
  request r;
  r.prompt = tokens{prompt};
  r.max_output = tokens{max_output};
  r.priority = priority;
  return r;
}

template <class Admit = admit::always, class Order = order::fcfs>
struct fixture {
  using scheduler_type = iteration_scheduler<request, Order, preempt::swap, Admit>;
  explicit fixture(const scheduler_limits& l, const typename scheduler_type::config& c = {})
      : storage{storage_for<scheduler_type>(l)}, scheduler{storage, c} {}
  step_plan<request> plan() { return scheduler.plan(time_point{}, {}); }
  void commit(const step_plan<request>& p, const outcome& o = {}) {
    const std::vector<outcome> outcomes(p.size(), o);
    CHECK(scheduler.commit(p, outcomes, time_point{}) == status::ok);
  }
  void abandon(const step_plan<request>& p) { CHECK(scheduler.abandon(p) == status::ok); }
  void step() { commit(plan()); }
  status submit(request& r) { return scheduler.submit(r, time_point{}); }
  std::vector<kv::block_id> blocks_of(const request& r) const {
    const auto row = scheduler.tables().row(r.state().row);
    return {row.begin(), row.end()};
  }

  owned_storage<scheduler_limits> storage;
  scheduler_type scheduler;
};

constexpr scheduler_limits small{.requests = 8, .blocks = 8, .block_size = 4_tok, .residents = 3, .host_blocks = 8};

}  // namespace

TEST_CASE("suspend: no plan has it, none takes its blocks, and it goes on where it was") {
  std::deque<request> r{make(12), make(30, 0, 1)};
  fixture<> f{small};
  REQUIRE(f.submit(r[0]) == status::accepted);
  f.step();
  const auto had = f.blocks_of(r[0]);
  REQUIRE(f.scheduler.suspend(r[0]) == status::ok);
  CHECK(r[0].state().life == lifecycle::suspended);
  CHECK(f.scheduler.why(r[0]) == wait_reason::suspended);
  CHECK(f.scheduler.suspend(r[0]) == status::unknown_request);
  CHECK(f.submit(r[0]) == status::busy);
  CHECK(f.scheduler.adopt(r[0]) == status::busy);
  CHECK_FALSE(f.scheduler.idle());
  CHECK(f.scheduler.residents().empty());
  CHECK(f.scheduler.suspended_count() == 1);

  // A request that outranks it and would evict it finds no room: 8 blocks wanted, 5 free.
  REQUIRE(f.submit(r[1]) == status::accepted);
  for (int i = 0; i != 3; ++i) {
    const auto p = f.plan();
    CHECK(p.empty());
    CHECK(p.preempted.empty());
    CHECK(f.scheduler.why(r[1]) == wait_reason::no_blocks);
    f.commit(p);
  }
  CHECK(f.blocks_of(r[0]) == had);
  REQUIRE(f.scheduler.resume(r[0]) == status::ok);
  CHECK(f.scheduler.resume(r[0]) == status::unknown_request);
  const auto p = f.plan();  // now it gives way, as ever
  REQUIRE(p.preempted.size() == 1);
  CHECK(p.preempted[0].request == &r[0]);
  f.commit(p, {.finished = true});
  const auto q = f.plan();
  REQUIRE(q.decode.size() == 1);
  CHECK(q.decode[0].first == 12_tok);
  f.commit(q, {.finished = true});
  CHECK(f.scheduler.idle());
}

TEST_CASE("suspend: between two steps, residents only") {
  std::deque<request> r{make(4), make(4)};
  fixture<> f{small};
  fixture<> other{small};
  CHECK(f.scheduler.suspend(r[0]) == status::unknown_request);
  REQUIRE(f.submit(r[0]) == status::accepted);
  CHECK(f.scheduler.suspend(r[0]) == status::unknown_request);  // it waits: there is nothing to keep
  const auto p = f.plan();
  CHECK(f.scheduler.suspend(r[0]) == status::unknown_request);
  f.commit(p);
  CHECK(other.scheduler.suspend(r[0]) == status::unknown_request);
  REQUIRE(f.submit(r[1]) == status::accepted);
  const auto q = f.plan();
  CHECK(f.scheduler.suspend(r[0]) == status::busy);
  f.commit(q);
  REQUIRE(f.scheduler.suspend(r[0]) == status::ok);
  CHECK(other.scheduler.resume(r[0]) == status::unknown_request);
  const auto with_other = f.plan();
  REQUIRE(with_other.size() == 1);
  CHECK(with_other[0].request == &r[1]);
  CHECK(f.scheduler.resume(r[0]) == status::busy);
  CHECK(f.scheduler.evacuate(r[1]) == status::busy);
  f.commit(with_other);
  for (request& x : r) CHECK(f.scheduler.cancel(x) == status::ok);
}

TEST_CASE("suspend: cancel, finish and evacuate end it, also while a plan is pending") {
  for (const int how : {0, 1, 2, 3}) {
    CAPTURE(how);
    std::deque<request> r{make(8), make(4)};
    fixture<> f{small};
    for (request& x : r) REQUIRE(f.submit(x) == status::accepted);
    f.step();
    REQUIRE(f.scheduler.suspend(r[0]) == status::ok);
    if (how == 0) {
      CHECK(f.scheduler.evacuate(r[0]) == status::ok);
      CHECK(r[0].state().life == lifecycle::idle);
    } else if (how == 1) {
      CHECK(f.scheduler.finish(r[0]) == status::ok);
      CHECK(r[0].state().life == lifecycle::finished);
    } else {
      const auto p = f.plan();
      const auto held = f.scheduler.device_blocks_held();
      CHECK(f.scheduler.cancel(r[0]) == status::ok);
      CHECK(f.scheduler.device_blocks_held() == held);
      how == 2 ? f.commit(p) : f.abandon(p);
      CHECK(r[0].state().life == lifecycle::cancelled);
    }
    CHECK(f.scheduler.suspended_count() == 0);
    CHECK(f.scheduler.device_blocks_held() == (how == 2 ? 2_blk : 1_blk));  // of the other, which has decoded or not
    CHECK(f.scheduler.cancel(r[1]) == status::ok);
    CHECK(f.scheduler.idle());
    CHECK(f.scheduler.tables().free_rows() == f.scheduler.tables().rows());
  }
}

TEST_CASE("suspend: one that is handed over in the middle of a step is gone at once, its blocks when the step ends") {
  for (const bool committed : {true, false}) {
    CAPTURE(committed);
    std::deque<request> r{make(8, 10), make(4), make(20)};
    fixture<> f{small};
    fixture<> target{small};
    for (std::size_t i : {0U, 1U}) REQUIRE(f.submit(r[i]) == status::accepted);
    f.step();
    REQUIRE(f.scheduler.suspend(r[0]) == status::ok);
    const auto p = f.plan();
    const auto held = f.scheduler.device_blocks_held();
    REQUIRE(f.scheduler.evacuate(r[0]) == status::ok);
    CHECK(f.scheduler.evacuate(r[0]) == status::unknown_request);
    CHECK(r[0].state().life == lifecycle::idle);
    CHECK(f.scheduler.suspended_count() == 0);
    CHECK(f.scheduler.device_blocks_held() == held);
    REQUIRE(target.scheduler.adopt(r[0]) == status::accepted);
    target.step();
    CHECK(r[0].generated() == 2_tok);
    committed ? f.commit(p) : f.abandon(p);
    CHECK(f.scheduler.device_blocks_held() == held - (committed ? 2_blk : 3_blk));  // with what the plan had reserved
    REQUIRE(f.submit(r[2]) == status::accepted);  // fits only without what was left behind
    f.step();
    CHECK(r[2].state().life == lifecycle::resident);
    // One that is cancelled already is not given up as well.
    REQUIRE(f.scheduler.suspend(r[2]) == status::ok);
    const auto q = f.plan();
    CHECK(f.scheduler.cancel(r[2]) == status::ok);
    CHECK(f.scheduler.evacuate(r[2]) == status::busy);
    f.commit(q);
    for (request& x : r) static_cast<void>(f.scheduler.cancel(x));
    static_cast<void>(target.scheduler.cancel(r[0]));
    CHECK(f.scheduler.tables().free_rows() == f.scheduler.tables().rows());
    CHECK(f.scheduler.device_blocks_held() == 0_blk);
  }
}

TEST_CASE("suspend: its row is taken, and admission counts without its blocks") {
  std::deque<request> r{make(2), make(2), make(2), make(2)};
  fixture<> f{small};
  for (request& x : r) REQUIRE(f.submit(x) == status::accepted);
  f.step();
  for (int i = 0; i != 3; ++i) REQUIRE(f.scheduler.suspend(r[static_cast<std::size_t>(i)]) == status::ok);
  const auto full = f.plan();
  CHECK(full.empty());
  CHECK(f.scheduler.why(r[3]) == wait_reason::residents_full);
  f.commit(full);
  REQUIRE(f.scheduler.evacuate(r[1]) == status::ok);
  const auto p = f.plan();
  REQUIRE(p.size() == 1);
  CHECK(p[0].request == &r[3]);
  f.abandon(p);
  for (request& x : r) static_cast<void>(f.scheduler.cancel(x));

  // There are 32 tokens in all. One request holds 3 blocks and is parked. In the 20 that are left the two others are
  // too many, by the estimate 23, and they are not when it has gone.
  std::deque<request> s{make(9, 1), make(2, 2), make(8, 2)};
  fixture<admit::future_peak> g{small};
  REQUIRE(g.submit(s[0]) == status::accepted);
  g.step();
  REQUIRE(g.submit(s[1]) == status::accepted);
  REQUIRE(g.scheduler.suspend(s[0]) == status::ok);
  g.step();
  REQUIRE(g.submit(s[2]) == status::accepted);
  g.step();
  CHECK(g.scheduler.why(s[2]) == wait_reason::held_back);
  REQUIRE(g.scheduler.evacuate(s[0]) == status::ok);
  g.step();
  CHECK(g.scheduler.why(s[2]) == wait_reason::none);
  for (request& x : s) static_cast<void>(g.scheduler.cancel(x));
}

TEST_CASE("a hand-over that is refused costs nothing: the KV is where it was") {
  std::deque<request> r{make(14), make(10)};
  fixture<> source{small};
  for (request& x : r) REQUIRE(source.submit(x) == status::accepted);
  source.step();
  const auto had = source.blocks_of(r[0]);
  REQUIRE(source.scheduler.suspend(r[0]) == status::ok);
  for (int i = 0; i != 3; ++i) source.step();  // others go on meanwhile, and take what is free
  CHECK(source.blocks_of(r[0]) == had);
  REQUIRE(source.scheduler.resume(r[0]) == status::ok);  // `kept`
  const auto p = source.plan();
  CHECK(p.fetch.empty());
  REQUIRE(p.decode.size() == 2);
  CHECK(p.decode[0].request == &r[0]);
  CHECK(p.decode[0].first == 14_tok);
  CHECK(source.blocks_of(r[0]) == had);
  source.abandon(p);
  for (request& x : r) CHECK(source.scheduler.cancel(x) == status::ok);
}

TEST_CASE("a request goes on in another process with its description and its progress") {
  static_assert(std::is_trivially_copyable_v<request_progress<seconds_clock>>);
  request r = make(6, 10);
  request copy = r;
  fixture<admit::always, order::two_phase> here{small, {.order = {.demote_above = 5_tok}}};
  fixture<admit::always, order::two_phase> there{small};
  REQUIRE(here.scheduler.submit(r, time_point::at_seconds(3)) == status::accepted);
  here.step();
  here.step();
  here.commit(here.plan(), {.end_of_reasoning = true});
  REQUIRE(here.scheduler.evacuate(r) == status::ok);
  auto p = r.progress();
  CHECK(p.length == 9_tok);
  CHECK(p.computed == 8_tok);
  CHECK(p.phase == phase::answering);
  CHECK(p.reasoning == 3_tok);
  CHECK(p.arrived == time_point::at_seconds(3));

  CHECK(there.scheduler.adopt(copy) == status::invalid);
  REQUIRE(there.scheduler.adopt(copy, p) == status::accepted);
  CHECK(copy.generated() == 3_tok);
  CHECK(copy.state().arrived == time_point::at_seconds(3));
  CHECK(order_state<order::two_phase>(copy).level == 1);
  const auto plan = there.plan();
  REQUIRE(plan.fetch.size() == 1);
  CHECK(plan.fetch[0].device.size() == 2);
  REQUIRE(plan.decode.size() == 1);
  CHECK(plan.decode[0].first == 8_tok);
  there.commit(plan, {.finished = true});
  CHECK(copy.state().reasoning == 3_tok);

  // The copy got lost: everything is computed anew, and nothing is fetched.
  request again = make(6, 10);
  p.computed = 0_tok;
  REQUIRE(there.scheduler.adopt(again, p) == status::accepted);
  const auto anew = there.plan();
  CHECK(anew.fetch.empty());
  REQUIRE(anew.prefill.size() == 1);
  CHECK(anew.prefill[0].first == 0_tok);
  CHECK(anew.prefill[0].count == 9_tok);
  CHECK(anew.prefill[0].samples);
  there.commit(anew);
  CHECK(again.generated() == 4_tok);
  CHECK(there.scheduler.adopt(again, p) == status::busy);
  CHECK(there.scheduler.cancel(again) == status::ok);

  // One that was demoted stays so, however short its KV is by then.
  request old = make(6, 10);
  REQUIRE(here.submit(old) == status::accepted);
  here.step();
  here.step();
  REQUIRE(order::two_phase::is_demoted(old));
  REQUIRE(here.scheduler.evacuate(old) == status::ok);
  auto q = old.progress();
  q.computed = 0_tok;
  request young = old;
  REQUIRE(there.scheduler.adopt(young, q) == status::accepted);
  CHECK(order::two_phase::is_demoted(young));
  CHECK(order_state<order::two_phase>(young).level == 1);
  CHECK(there.scheduler.cancel(young) == status::ok);
}

TEST_CASE("adopt refuses a progress that no request can have") {
  fixture<> f{small};
  request r = make(6, 10);
  const request_progress<seconds_clock> good{.length = 8_tok, .computed = 7_tok};
  const auto answer = [&](auto&& change) {
    auto p = good;
    change(p);
    return f.scheduler.adopt(r, p);
  };
  CHECK(answer([](auto& p) { p.length = 5_tok; }) == status::invalid);
  CHECK(answer([](auto& p) { p.computed = 8_tok; }) == status::invalid);
  CHECK(answer([](auto& p) { p.computed = tokens{-1}; }) == status::invalid);
  CHECK(answer([](auto& p) { p.reasoning = 3_tok; }) == status::invalid);
  CHECK(answer([](auto& p) { p.reasoning = tokens{-1}; }) == status::invalid);
  CHECK(answer([](auto& p) { p.length = 33_tok; }) == status::never_fits);
  CHECK(f.scheduler.idle());
  CHECK(answer([](auto&) {}) == status::accepted);
  CHECK(f.scheduler.cancel(r) == status::ok);
}

TEST_CASE("suspend: a request that resumes after a plan was made without it is not planned yet") {
  std::deque<request> r{make(4), make(4)};
  fixture<> f{small};
  for (request& x : r) REQUIRE(f.submit(x) == status::accepted);
  f.step();
  REQUIRE(f.scheduler.suspend(r[0]) == status::ok);
  f.step();
  REQUIRE(f.scheduler.resume(r[0]) == status::ok);
  CHECK(f.scheduler.why(r[0]) == wait_reason::not_planned);
  CHECK(f.scheduler.why(r[1]) == wait_reason::none);
  f.step();
  CHECK(f.scheduler.why(r[0]) == wait_reason::none);
}

TEST_CASE("suspend, resume and adopt allocate nothing") {
  fixture<> f{small};
  request r = make(6, 10);
  const tessera_test::no_allocation guard;
  static_cast<void>(f.scheduler.submit(r, time_point{}));
  const auto p = f.scheduler.plan(time_point{}, {});
  const outcome o{};
  f.scheduler.commit(p, std::span{&o, p.size()}, time_point{});
  const bool done = ok(f.scheduler.suspend(r)) && ok(f.scheduler.resume(r)) && ok(f.scheduler.suspend(r)) &&
                    ok(f.scheduler.evacuate(r)) && ok(f.scheduler.adopt(r, r.progress())) && ok(f.scheduler.cancel(r));
  const auto allocations = guard.allocations();
  CHECK(done);
  CHECK(allocations == 0);
}
