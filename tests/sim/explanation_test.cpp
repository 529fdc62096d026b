// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/due_first.hpp>
#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pars.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/rank/length_distribution.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/cluster/cluster_size.hpp>
#include <tessera/sim/error.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/policies/due_first.hpp>
#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/report/explanation.hpp>
#include <tessera/sim/systems/by_headroom.hpp>
#include <tessera/sim/systems/cascade.hpp>
#include <tessera/sim/systems/disaggregated.hpp>
#include <tessera/sim/traffic/learned_lengths.hpp>

#include "sim/toy_profile.hpp"
#include "support/catch.hpp"
#include "support/is_slow.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using sim::cluster_of;
using sim::cluster_options;
using sim::event_kind;
using sim::explanation;
using sim::request;
using sim::run_result;
using sim::trace_row;
using tessera_test::row;
using tessera_test::toy_cluster;

constexpr auto quiet = [](std::size_t) {};

/// The timeline of one request, a line each: when, where, what; and the reasons by line.
struct timeline {
  std::vector<std::string> lines{};
  std::vector<std::string> why{};
  run_result result{};
  std::string text{};

  /// Whether the `n`th reason says so.
  [[nodiscard]] bool says(std::size_t n, const std::string& words) const {
    return n < why.size() && why[n].find(words) != std::string::npos;
  }
};

template <class Scheduler, class Control>
timeline explain(cluster_options o, const std::vector<trace_row>& rows, std::size_t request,
                 const typename Scheduler::config& config = {}, Control control = {}) {
  explanation told{{.request = request}};
  o.watcher = &told;
  timeline t;
  t.result = cluster_of<Scheduler, Control>{o, config, std::move(control)}.run(rows, quiet);
  told.finish(t.result);
  for (const explanation::entry& e : told.entries()) {
    const std::string where = e.instance < o.instances ? fmt::format("{}", e.instance) : std::string{"-"};
    t.lines.push_back(e.steps == 0 ? fmt::format("{:g} {} {}", e.at_s, where, to_string(e.what))
                                   : fmt::format("{:g}-{:g} {} {}", e.at_s, e.until_s, where, to_string(e.what)));
    t.why.push_back(e.why);
  }
  t.text = told.text();
  return t;
}

TEST_CASE("a request that loses its blocks is told for which other, and how it comes back", "[sim]") {
  // 8 blocks. Both prompts take 3; at 0.5 s the first takes a fourth, at 1 s the second. With its 65th token, in the
  // 18th step, the first needs a fifth, and there is none. Until it ends, with its 30th token, there is no room
  // for 4.
  const std::vector<trace_row> rows{row(0, 48, 0, 30), row(0, 48, 0, 30)};
  const timeline t = explain<fcfs<request>, sim::placed<>>(toy_cluster(1, 8), rows, 1);
  CHECK(t.lines == std::vector<std::string>{"0 - arrived", "0 0 placed", "0.5 0 starts", "0.5-1 0 computes",
                                            "1 0 first token", "1-4.75 0 generates", "4.75 0 preempted",
                                            "5.5-8.5 0 waits", "8.5 0 resumes", "8.5-12.5 0 generates",
                                            "12.5 0 ended"});
  CHECK(t.says(1, "least-load"));
  CHECK(t.says(6, "its 4 blocks go to the host; request 0 needs blocks to go on and ranks before it"));
  CHECK(t.says(6, "as number 1 here, before by arrival, as number 2 here"));
  CHECK(t.says(7, "first in the queue"));
  CHECK(t.says(7, "it needs 4 blocks, and 3 are free"));
  CHECK(t.says(8, "its 4 blocks come back from the host"));
  CHECK(t.says(9, "14 tokens"));
  CHECK(t.result.requests[1].preemptions == 1);
  CHECK(t.result.requests[1].finish == 12.5);
  CHECK(t.text.find("Preempted 1 times") != std::string::npos);
}

TEST_CASE("a change of phase, and where it leads, is told", "[sim]") {
  // Each reasons alone on an instance. The second has its fourth token at 1.25 s. It goes on where no request reasons
  // any more, with the KV of 19 tokens, which cross at 1000 bytes a second.
  const std::vector<trace_row> rows{row(0, 16, 40, 1), row(0, 16, 4, 4), row(0, 16, 1, 1)};
  using control = sim::placed<placement::pascal_arrival, placement::pascal_migrate_always>;
  const timeline t = explain<pascal<request>, control>(toy_cluster(3, 64), rows, 1);
  CHECK(t.lines == std::vector<std::string>{"0 - arrived", "0 1 placed", "0 1 starts", "0-0.5 1 computes",
                                            "0.5 1 first token", "0.5-1.25 1 generates", "1.25 1 answers",
                                            "1.25 2 moves", "1.25 1 stops", "1.269 2 moved", "1.269 2 resumes",
                                            "1.269-2.269 2 generates", "2.269 2 ended"});
  CHECK(t.says(1, "pascal: PASCAL's Algorithm 1"));
  CHECK(t.says(2, "reasoning, turn 0, 0 tokens of its quantum of 500 used"));
  CHECK(t.says(6, "its reasoning ends after 4 tokens"));
  CHECK(t.says(7, "from instance 1 to 2, 19 tokens of KV: PASCAL's Algorithm 2"));
  CHECK(t.says(7, "it needs 0 more blocks here, 2 elsewhere"));
  CHECK(t.says(9, "its KV took 0.019 s"));
  CHECK(t.says(10, "answering, turn 0"));
  CHECK(t.result.requests[1].migrations == 1);
}

TEST_CASE("scores, and that none waits for ever, are told", "[sim]") {
  // One runs at a time, for 1 s. The second goes behind all that come later, until it has been there for 2 s.
  cluster_options o = toy_cluster(1, 64);
  o.instance.limits.residents = 1;
  std::vector<trace_row> rows;
  for (int i = 0; i != 8; ++i) {
    rows.push_back(row(0.1 * i, 16, 0, 3));
    rows.back().score = i == 1 ? 9.0F : 1.0F;
  }
  const timeline t = explain<pars<request>, sim::placed<>>(o, rows, 1, {.threshold = duration{2.0}});
  CHECK(t.lines == std::vector<std::string>{"0.1 - arrived", "0.1 0 placed", "0.1 0 predicted", "0.5-2.5 0 waits",
                                            "2.5-3 0 waits", "3 0 starts", "3-3.5 0 computes", "3.5 0 first token",
                                            "3.5-4 0 generates", "4 0 ended"});
  CHECK(t.says(2, "score 9: the smallest goes first; from 2.100 s on it goes ahead of all later arrivals"));
  CHECK(t.says(3, "4 before it in the queue: request 2 is first (score 1): the batch is full; its own place: score 9"));
  CHECK(t.says(4, "first in the queue (ahead of requests with scores, because it came more than 2 s ago)"));
}

TEST_CASE("an auction is told: which asked, which bid, which won", "[sim]") {
  // It has 64 tokens at 4.25 s. A message takes 50 us. It decodes once more while three blocks are copied, and stops
  // for the last one, 0.016 s and the message that hands it over.
  const std::vector<trace_row> rows{row(0, 48, 0, 40)};
  sim::cascade::config plan{.stages = {{.from = tokens{}, .to = tokens{64}, .instances = 1},
                                       {.from = tokens{64}, .to = partition::unbounded, .instances = 2}},
                            .refine = sim::refinement::none,
                            .model = cost::qoe_model{{0.1, 1e-3, 1e-4, 0, 1e-3}},
                            .message_spread = 0};
  const timeline t =
      explain<fcfs<request>, sim::cascade>(toy_cluster(3, 64), rows, 0, {}, sim::cascade{std::move(plan)});
  CHECK(t.lines == std::vector<std::string>{"0 - arrived", "0 0 placed", "0 0 starts", "0-0.5 0 computes",
                                            "0.5 0 first token", "0.5-4.5 0 generates", "4.25 0 offered",
                                            "4.25 1 asked", "4.25005 1 bid", "4.25005 2 bid", "4.2501 1 confirmed",
                                            "4.25015 1 reserved", "4.2502 1 moves", "4.5 0 stops", "4.51605 1 moved",
                                            "4.51605 1 resumes", "4.51605-10.266 1 generates", "10.266 1 ended"});
  CHECK(t.says(1, "its 48 tokens belong to stage 0"));
  CHECK(t.says(6, "its 64 tokens have outgrown stage 0, which ends at 64"));
  CHECK(t.says(7, "instances 1, 2, whether they take it"));
  CHECK(t.says(8, "it has 0 tokens, and could begin to pull in 0 s"));
  CHECK(t.says(11, "8 blocks"));
  CHECK(t.says(12, "from instance 0 to 1, 63 tokens of KV: that has bought it"));
}

TEST_CASE("due times and headroom are told", "[sim]") {
  using scheduler = tessera::due_first<request, rank::expected_length<>, order::pacer_member>;
  // The third is shorter, and due before the second. The clock goes at a hundredth of its pace meanwhile: 0.001 + 0.8
  // s, and 0.002 + 0.4 s.
  cluster_options o = toy_cluster(1, 64);
  o.instance.limits.residents = 1;
  std::vector<trace_row> rows{row(0, 16, 0, 8), row(0.1, 16, 0, 8), row(0.2, 16, 0, 4)};
  rows[0].score = rows[1].score = 8;
  rows[2].score = 4;
  const sim::learned_lengths lengths{rows};
  const timeline t = explain<scheduler, sim::by_headroom>(
      o, rows, 1, {.expected = lengths.expected()},
      sim::by_headroom{sim::calibrate_prefill(o.instance.timer, sim::default_ttft_target)});
  CHECK(t.lines == std::vector<std::string>{"0.1 - arrived", "0.1 0 placed", "0.1 0 predicted", "0.5-2.25 0 waits",
                                            "2.25-3.5 0 waits", "3.5 0 starts", "3.5-4 0 computes", "4 0 first token",
                                            "4-5.75 0 generates", "5.75 0 ended"});
  CHECK(t.says(1, "8 tokens are expected of it"));
  CHECK(t.says(2, "8 tokens are expected of it, by the lengths of earlier requests: at 0.1 s each"));
  CHECK(t.says(3, "request 2 is first (nothing is read yet, due at 0.402 s"));
  CHECK(t.says(3, "its own place: nothing is read yet, due at 0.801 s"));
  CHECK(t.says(4, "first in the queue"));
}

TEST_CASE("prompts and tokens on workers of their own are told", "[sim]") {
  const cluster_options o = toy_cluster(2, 64);
  const sim::prefill_model model = sim::calibrate_prefill(o.instance.timer, sim::default_ttft_target);
  using control = sim::disaggregated<sim::phasor_control>;
  const timeline t = explain<fcfs<request>, control>(
      o, {row(0, 48, 0, 5)}, 0, {},
      control{{.prefill = 1, .decode = 1, .mixed = 0}, sim::phasor_control{{.model = model}}});
  CHECK(t.lines == std::vector<std::string>{"0 - arrived", "0 0 placed", "0 0 starts", "0-0.5 0 computes",
                                            "0.5 0 first token", "0.5 1 moves", "0.5 0 stops", "0.548 1 moved",
                                            "0.548 1 resumes", "0.548-1.548 1 generates", "1.548 1 ended"});
  CHECK(t.says(1, "a prefill worker: the highest Phi_T"));
  CHECK(t.says(5, "48 tokens of KV: its tokens, to a decode worker: the highest Phi_S"));
  CHECK(t.text.find("prefill") != std::string::npos);
}

/// Hears of all requests.
struct listener : sim::run_watcher {
  std::map<std::size_t, std::vector<sim::request_event>> events{};
  std::map<std::size_t, std::vector<sim::request_step>> steps{};
  std::vector<sim::instance_step> all_steps{};

  [[nodiscard]] bool asks(std::size_t, double) const override { return true; }
  [[nodiscard]] bool asks_of_steps(double) const override { return true; }
  void notify(sim::request_event e) override { events[e.request].push_back(std::move(e)); }
  void notify(sim::request_step s) override { steps[s.request].push_back(std::move(s)); }
  void notify(sim::instance_step s) override { all_steps.push_back(std::move(s)); }
  void note(double, std::string) override {}

  [[nodiscard]] std::size_t count(std::size_t request, event_kind what) {
    std::size_t n = 0;
    for (const sim::request_event& e : events[request]) n += e.what == what ? 1U : 0U;
    return n;
  }
};

TEST_CASE("what is told agrees with the columns, and asking changes nothing", "[sim]") {
  const std::uint64_t seeds = tessera_test::is_slow ? 1 : 3;
  std::uint64_t preempted = 0;
  std::uint64_t migrated = 0;
  std::size_t defragmented = 0;
  for (const sim::policy& p : sim::published_policies()) {
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      CAPTURE(p.name, seed);
      std::vector<trace_row> rows = sim::generate(sim::find_workload("reasoning-chat"), 120, 40.0, seed);
      std::mt19937_64 random{seed};
      for (trace_row& r : rows) r.score = static_cast<float>(random() % 1000);
      const sim::machines kind{4, sim::find_profile("h100-96gb-qwen-32b")};
      cluster_options o = sim::size_cluster({&kind, 1}, {.kv_blocks = 400}, rows, sim::spelling::names);
      const run_result plain = p.run(o, rows, quiet);
      listener heard;
      o.watcher = &heard;
      const run_result r = p.run(o, rows, quiet);
      REQUIRE(r.requests.size() == plain.requests.size());
      for (std::size_t i = 0; i != rows.size(); ++i) {
        const sim::request_record& one = r.requests[i];
        CAPTURE(i);
        REQUIRE(one.finish == plain.requests[i].finish);
        REQUIRE(one.first_answer == plain.requests[i].first_answer);
        REQUIRE(one.preemptions == plain.requests[i].preemptions);
        const auto& events = heard.events[i];
        REQUIRE(!events.empty());
        CHECK(events.front().what == event_kind::arrived);
        CHECK(events.front().at_s == one.arrival);
        CHECK(heard.count(i, event_kind::placed) == 1);
        for (std::size_t k = 1; k < events.size(); ++k) CHECK(events[k - 1].at_s <= events[k].at_s);
        if (one.rejected) {
          CHECK(events.back().what == event_kind::refused);
          continue;
        }
        CHECK(events.back().what == event_kind::ended);
        CHECK(events.back().at_s == one.finish);
        CHECK(events.back().instance == one.instance);
        CHECK(heard.count(i, event_kind::preempted) == one.preemptions);
        CHECK(heard.count(i, event_kind::moved) == one.migrations);
        CHECK(heard.count(i, event_kind::starts) == 1);
        CHECK(heard.count(i, event_kind::answers) == (one.reasoning_tokens > 0 ? 1 : 0));
        for (const sim::request_event& e : events) {
          if (e.what == event_kind::first_token) CHECK(e.at_s == one.first_token);
          if (e.what == event_kind::starts) CHECK(e.at_s == one.first_scheduled);
          if (e.what == event_kind::answers) CHECK(e.at_s == one.phase_change);
          if (e.what == event_kind::preempted) CHECK(e.why.find("ranks before it") != std::string::npos);
          defragmented += e.why.find("defragmentation") != std::string::npos ? 1U : 0U;
        }
        double executed = 0;
        std::int64_t generated = 0;
        bool steps_take_time = true;
        for (const sim::request_step& s : heard.steps[i]) {
          steps_take_time = steps_take_time && s.from_s < s.until_s;
          if (s.what == event_kind::generates || s.what == event_kind::computes) executed += s.until_s - s.from_s;
          generated += s.what == event_kind::generates ? s.count.count() : 0;
          long long needs = 0;
          long long free = 0;
          const std::size_t at = s.why.find("it needs ");
          if (at != std::string::npos &&
              std::sscanf(s.why.c_str() + at, "it needs %lld blocks, and %lld are free", &needs, &free) == 2) {
            CHECK(needs > free);
          }
        }
        CHECK(generated < one.reasoning_tokens + one.answer_tokens);  // the prompt's last step has the first
        CHECK(steps_take_time);
        CHECK(executed == tessera_test::approx(one.executed).epsilon(1e-9));
        preempted += one.preemptions;
        migrated += one.migrations;
      }
      std::uint64_t computed = 0;
      for (const sim::instance_step& s : heard.all_steps) computed += static_cast<std::uint64_t>(s.computed.count());
      std::uint64_t expected = 0;
      for (const sim::instance_facts& f : r.instances) expected += f.computed_tokens;
      CHECK(computed == expected);
    }
  }
  CHECK(preempted > 0);
  CHECK(migrated > 0);
  CHECK(defragmented > 0);
}

TEST_CASE("a request without an instance for ever is told so, and not that it is too long", "[sim]") {
  const std::vector<trace_row> rows{row(0, 16, 0, 400), row(1, 16, 0, 5), row(9, 16, 0, 5)};
  cluster_options o = toy_cluster(1, 100);
  o.faults = {{.instance = 0, .at_s = 0.5}};
  o.detection_s = 1;
  listener heard;
  o.watcher = &heard;
  const run_result r = cluster_of<fcfs<request>>{o}.run(rows, quiet);
  for (const sim::request_record& one : r.requests) {
    CHECK(!one.rejected);
    CHECK(!(one.finish >= 0));
    const auto& events = heard.events[one.id];
    REQUIRE(!events.empty());
    CHECK(heard.count(one.id, event_kind::refused) == 0);
    CHECK(events.back().what == event_kind::waits);
    CHECK(events.back().why.find("died for good") != std::string::npos);
  }
}

TEST_CASE("what can be asked", "[sim]") {
  CHECK(sim::parse_question("17").request == 17);
  CHECK(sim::parse_question("request:0").request == 0);
  CHECK(!sim::parse_question("12.5").request);
  CHECK(sim::parse_question("12.5").from_s == 12.5);
  CHECK(sim::parse_question("time:12").from_s == 12);
  for (const char* wrong :
       {"", "x", "request:", "request:1.5", "request:-1", "time:", "time:x", "1.5s", "inf", "nan", "-1", "-1.5"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(sim::parse_question(wrong), sim::usage_error);
  }
  CHECK_NOTHROW(sim::require_request({.request = 2}, 3));
  CHECK_THROWS_WITH(sim::require_request({.request = 3}, 3), "there is no request 3 to explain: they are 0 to 2");
}

TEST_CASE("a second is told of all that decide in it", "[sim]") {
  const std::vector<trace_row> rows{row(0, 48, 0, 30), row(0, 48, 0, 30)};
  cluster_options o = toy_cluster(1, 8);
  const auto second = [&](double from_s) {
    auto told = std::make_unique<explanation>(sim::question{.from_s = from_s});
    o.watcher = told.get();
    told->finish(cluster_of<fcfs<request>>{o}.run(rows, quiet));
    return told;
  };
  const auto told = second(4.5);
  std::size_t preempted = 0;
  for (const explanation::entry& e : told->entries()) {
    CHECK(4.5 <= e.at_s);
    CHECK(e.at_s < 5.5);
    preempted += e.what == event_kind::preempted && e.request == 1 ? 1U : 0U;
  }
  CHECK(preempted == 1);
  CHECK(!told->is_outside());
  CHECK(told->range() == std::pair{0.0, 12.5});
  CHECK(told->text().find("from 4.500 s to 5.500 s") != std::string::npos);
  CHECK(told->json()["instances"][0]["steps"] == 2);
  CHECK(second(12.6)->is_outside());
  CHECK(second(-1.0)->is_outside());
  CHECK(!second(-0.5)->is_outside());
}

}  // namespace
