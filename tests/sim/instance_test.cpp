// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/compose/round_robin.hpp>
#include <tessera/sim/cluster/engine_of.hpp>
#include <tessera/sim/cluster/instance.hpp>
#include <tessera/sim/model/profiles.hpp>

#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace {

using namespace tessera;
using sim::request;
using sim::step_shape;
using tessera_test::approx;
using tessera_test::toy_cluster;

/// One instance and the events that it reports.
template <class Scheduler>
struct bench {
  explicit bench(const sim::instance_options& o, const typename Scheduler::config& config = {})
      : options{o}, engines{sim::engines_of<Scheduler>(config)}, one{options, engines} {}

  request& add(double now, std::int64_t prompt, std::int64_t reasoning, std::int64_t output) {
    request& r = all.emplace_back();
    r.index = all.size() - 1;
    r.prompt = tokens{prompt};
    r.output = r.max_output = tokens{output};
    r.reasoning = tokens{reasoning};
    r.starts_in = reasoning > 0 ? phase::reasoning : phase::answering;
    REQUIRE(one.submit(r, now) == status::accepted);
    return r;
  }

  /// Runs one step from `now`; returns its end.
  double step(double now) {
    finished.clear();
    answers.clear();
    one.start_step(now);
    REQUIRE(one.running());
    const double end = one.ends_s();
    prefilled.clear();
    one.end_step([&](request& r) { finished.push_back(r.index); }, [&](request& r) { prefilled.push_back(r.index); },
                 [&](request& r) { answers.push_back(r.index); });
    CHECK(!one.running());
    return end;
  }

  [[nodiscard]] const Scheduler& scheduler() const {
    return static_cast<const sim::engine_of<Scheduler>&>(one.scheduler()).scheduler();
  }

  sim::instance_options options;
  std::deque<request> all;
  sim::engine_maker engines;
  sim::instance one;
  std::vector<std::size_t> finished;
  std::vector<std::size_t> prefilled;
  std::vector<std::size_t> answers;
};

double decode(const sim::step_timer& timer, std::int64_t context) {
  step_shape s;
  s.add_decode(tokens{context});
  return timer(s);
}
double prefill(const sim::step_timer& timer, std::int64_t first, std::int64_t count) {
  step_shape s;
  s.add_prefill(tokens{first}, tokens{count});
  return timer(s);
}

TEST_CASE("instance: the scheduler's wall time is that of its own step, and not measured where it is not asked for") {
  sim::instance_options o = toy_cluster(1, 100).instance;
  bench<fcfs<request>> measured{o};
  o.times_scheduler = false;
  bench<fcfs<request>> not_measured{o};
  for (auto* b : {&measured, &not_measured}) {
    b->add(0, 10, 0, 2);
    CHECK(b->one.scheduler_ns() == 0);
    b->step(0);
  }
  CHECK(measured.one.scheduler_ns() > 0);
  CHECK(not_measured.one.scheduler_ns() == 0);
}

TEST_CASE("instance: one request alone takes the sum of its steps") {
  const sim::profile& h100 = sim::profiles().front();
  auto options = toy_cluster(1, 100, h100).instance;
  options.step.token_budget = tokens{64};
  bench<fcfs<request>> b{options};
  const sim::step_timer timer{h100};
  request& r = b.add(2.0, 100, 2, 5);
  CHECK(b.one.reasoning() == 1);

  // 64 tokens of the prompt, then 36, which give the first token.
  double t = b.step(2.5);
  CHECK(t == 2.5 + prefill(timer, 0, 64));
  CHECK(r.first_step_s == 2.5);
  CHECK(r.first_token_s == -1);
  t = b.step(t);
  CHECK(t == approx(2.5 + prefill(timer, 0, 64) + prefill(timer, 64, 36)).epsilon(1e-14));
  CHECK(r.first_token_s == t);
  CHECK(b.answers.empty());
  // The second token ends the reasoning.
  double want = t + decode(timer, 101);
  t = b.step(t);
  CHECK(t == approx(want).epsilon(1e-14));
  CHECK(b.answers == std::vector<std::size_t>{0});
  CHECK(r.phase_change_s == t);
  CHECK(r.answering_step_s == -1);
  CHECK(r.first_answer_s == -1);
  CHECK(b.one.reasoning() == 0);
  // The third answers.
  const double answers_from = t;
  want = t + decode(timer, 102);
  t = b.step(t);
  CHECK(t == approx(want).epsilon(1e-14));
  CHECK(r.answering_step_s == answers_from);
  CHECK(r.first_answer_s == t);
  CHECK(b.answers.empty());
  t = b.step(t);
  CHECK(b.finished.empty());
  want = t + decode(timer, 104);
  t = b.step(t);
  CHECK(t == approx(want).epsilon(1e-14));
  CHECK(b.finished == std::vector<std::size_t>{0});
  CHECK(r.executed_s == approx(t - 2.5).epsilon(1e-12));
  CHECK(r.preempted_s == 0);
  CHECK(r.qoe.delivered() == tokens{3});
  CHECK(r.pacer.delivered() == tokens{3});
  CHECK(b.one.tokens_computed() == 104);
  CHECK(b.one.scheduler().idle());
  CHECK(b.one.reasoning() == 0);
  // Nothing to run: no step.
  b.one.start_step(t);
  CHECK(!b.one.running());
  CHECK(!b.scheduler().plan_pending());
}

TEST_CASE("instance: a step takes its copies, and then its kernels") {
  // Eight blocks. Two prompts of three blocks grow alike; at 65 tokens each needs a fifth.
  bench<fcfs<request>> b{toy_cluster(1, 8).instance};
  request& old = b.add(0, 48, 0, 20);
  request& young = b.add(0, 48, 0, 20);
  double t = b.step(0);
  CHECK(t == 0.5);  // both prompts at once
  for (int i = 0; i < 16; ++i) t = b.step(t);
  CHECK(t == 4.5);
  CHECK(old.generated() == tokens{17});
  CHECK(young.generated() == tokens{17});
  CHECK(young.preempted_since_s == -1);
  // Out: the 64 tokens that are computed, four blocks at 0.125 s. Only the elder decodes.
  t = b.step(t);
  CHECK(t == 4.5 + 0.5 + 0.25);
  CHECK(young.preempted_since_s == 4.5);
  CHECK(young.state().preemptions == 1);
  CHECK(old.generated() == tokens{18});
  CHECK(young.generated() == tokens{17});
  t = b.step(t);
  t = b.step(t);
  CHECK(b.finished == std::vector<std::size_t>{0});
  CHECK(t == 5.75);
  CHECK(young.preempted_since_s == 4.5);
  // In: the same four.
  t = b.step(t);
  CHECK(t == 5.75 + 0.5 + 0.25);
  CHECK(young.preempted_s == 5.75 - 4.5);
  CHECK(young.preempted_since_s == -1);
  CHECK(young.generated() == tokens{18});
  t = b.step(t);
  t = b.step(t);
  CHECK(t == 7.0);
  CHECK(b.finished == std::vector<std::size_t>{1});
  CHECK(young.executed_s + young.preempted_s == 7.0);
  CHECK(old.executed_s == 5.75);
}

TEST_CASE("instance: copies out and in go on at once") {
  // Eight blocks for two requests that need six and seven: they take turns of four tokens.
  bench<round_robin<request>> b{toy_cluster(1, 8).instance, {.quantum = tokens{4}}};
  request& small = b.add(0, 80, 0, 8);
  request& large = b.add(0, 96, 0, 8);
  double t = b.step(0);
  for (int i = 0; i < 3; ++i) t = b.step(t);
  CHECK(t == 1.25);
  t = b.step(t);  // 83 tokens out, 96 computed
  CHECK(t == 1.25 + 6 * 0.125 + 0.5);
  for (int i = 0; i < 3; ++i) t = b.step(t);
  CHECK(t == 3.25);
  CHECK(small.generated() == tokens{4});
  CHECK(large.generated() == tokens{4});
  t = b.step(t);  // 99 tokens out while 83 come in
  CHECK(t == 3.25 + 7 * 0.125 + 0.25);
  CHECK(small.generated() == tokens{5});
  CHECK(small.preempted_s == 2);
  for (int i = 0; i < 3; ++i) t = b.step(t);
  CHECK(b.finished == std::vector<std::size_t>{0});
  t = b.step(t);
  CHECK(t == 5.125 + 7 * 0.125 + 0.25);
  CHECK(large.preempted_s == 5.125 - 3.25);
}

TEST_CASE("instance: where copies overlap the kernels, a step takes the longer of both") {
  auto options = toy_cluster(1, 8).instance;
  options.swaps_overlap = true;
  for (const double block_s : {0.125, 0.03125}) {
    options.swap_seconds_per_block = block_s;
    bench<fcfs<request>> b{options};
    request& old = b.add(0, 48, 0, 20);
    request& young = b.add(0, 48, 0, 20);
    double t = b.step(0);
    for (int i = 0; i < 16; ++i) t = b.step(t);
    CHECK(t == 4.5);
    // Four blocks go out during a step of 0.25 s; later they come in during another.
    const double longer = block_s == 0.125 ? 0.5 : 0.25;
    t = b.step(t);
    CHECK(t == 4.5 + longer);
    CHECK(young.state().preemptions == 1);
    CHECK(old.executed_s == t);
    for (int i = 0; i < 2; ++i) t = b.step(t);
    CHECK(t == 5.0 + longer);
    t = b.step(t);
    CHECK(t == 5.0 + 2 * longer);
    CHECK(young.generated() == tokens{18});
    t = b.step(t);  // nothing to copy
    CHECK(t == 5.25 + 2 * longer);
  }
}

TEST_CASE("instance: recomputing copies nothing, but takes a prefill") {
  auto options = toy_cluster(1, 8).instance;
  options.limits.host_blocks = 0;
  bench<fcfs<request>> b{options};
  b.add(0, 48, 0, 20);
  request& young = b.add(0, 48, 0, 20);
  double t = b.step(0);
  for (int i = 0; i < 19; ++i) t = b.step(t);
  CHECK(t == 0.5 + 19 * 0.25);
  CHECK(b.finished == std::vector<std::size_t>{0});
  CHECK(young.generated() == tokens{17});
  t = b.step(t);  // 65 tokens anew
  CHECK(t == 0.5 + 19 * 0.25 + 0.5);
  CHECK(young.generated() == tokens{18});
  CHECK(young.first_token_s == 0.5);
}

TEST_CASE("instance: what placement reads of the phases") {
  bench<pascal<request>> b{toy_cluster(1, 64).instance, {.quantum = tokens{4}, .demote_above = tokens{24}}};
  CHECK(b.one.slo_met(1e9));
  request& thinker = b.add(0, 16, 100, 110);
  request& talker = b.add(0, 16, 0, 8);
  CHECK(b.one.reasoning() == 1);
  CHECK(b.one.fresh_answers(tokens{4}) == 1);
  // No answering token yet: in time until 0.25 s after its answering began.
  CHECK(b.one.slo_met(0.25));
  CHECK(!b.one.slo_met(0.26));

  double t = b.step(0);
  CHECK(t == 0.5);
  CHECK(talker.first_answer_s == 0.5);
  // The reader has one token, which lasts 0.1 s; the next step is expected to take as long as this one.
  CHECK(!b.one.slo_met(0.5));
  for (int i = 0; i < 3; ++i) t = b.step(t);
  CHECK(talker.generated() == tokens{4});
  CHECK(b.one.fresh_answers(tokens{4}) == 0);
  CHECK(b.one.fresh_answers(tokens{5}) == 1);

  // Beyond 24 tokens of KV the thinker is demoted; it is counted so from its next step on.
  for (int i = 0; i < 12; ++i) t = b.step(t);
  CHECK(order::two_phase::is_demoted(thinker));
  CHECK(b.one.reasoning() == 0);
  CHECK(b.one.fresh_answers(tokens{1000}) == 0);  // the talker is done
  CHECK(b.one.slo_met(t));
  CHECK(b.one.load().resident == 1);
  for (int i = 0; i < 94; ++i) t = b.step(t);
  CHECK(b.finished == std::vector<std::size_t>{0});
  CHECK(b.one.reasoning() == 0);
  CHECK(b.one.scheduler().idle());
}

TEST_CASE("instance: a request goes elsewhere with its progress") {
  const auto options = toy_cluster(1, 64).instance;
  bench<fcfs<request>> a{options};
  bench<fcfs<request>> b{options};
  request& r = a.add(0, 32, 2, 6);
  request& other = a.add(0, 32, 0, 6);
  double t = a.step(0);
  t = a.step(t);
  REQUIRE(a.answers == std::vector<std::size_t>{0});
  CHECK(a.one.fresh_answers(tokens{500}) == 2);
  a.one.evacuate(r);
  CHECK(a.one.fresh_answers(tokens{500}) == 1);
  CHECK(a.one.reasoning() == 0);
  CHECK(a.one.load().resident == 1);
  REQUIRE(b.one.adopt(r) == status::accepted);
  CHECK(b.one.fresh_answers(tokens{500}) == 1);
  CHECK(b.one.reasoning() == 0);
  // Its KV came over the fabric: no copy here, and no prefill.
  CHECK(b.step(10) == 10.25);
  CHECK(r.first_answer_s == 10.25);
  CHECK(b.step(10.25) == 10.5);
  CHECK(b.step(10.5) == 10.75);
  CHECK(b.step(10.75) == 11);
  CHECK(b.finished == std::vector<std::size_t>{0});
  CHECK(b.one.fresh_answers(tokens{500}) == 0);
  for (int i = 0; i < 4; ++i) t = a.step(t);
  CHECK(a.finished == std::vector<std::size_t>{other.index});
  CHECK(t == 0.5 + 5 * 0.25);
}

TEST_CASE("instance: what never fits is refused and leaves nothing") {
  const auto options = toy_cluster(1, 4).instance;
  bench<fcfs<request>> b{options};
  request r;
  r.prompt = tokens{60};
  r.output = r.max_output = tokens{6};  // the last token needs no KV: 65 of 64 tokens
  r.starts_in = phase::answering;
  CHECK(b.one.submit(r, 0) == status::never_fits);
  CHECK(b.one.fresh_answers(tokens{500}) == 0);
  CHECK(b.one.scheduler().idle());
  request& fits = b.add(0, 60, 0, 5);
  double t = b.step(0);
  for (int i = 0; i < 4; ++i) t = b.step(t);
  CHECK(fits.state().life == lifecycle::finished);
}

}  // namespace
