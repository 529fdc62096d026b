// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/fcfs.hpp>
#include <tessera/gate/fair_tenants.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/cluster/cluster_size.hpp>
#include <tessera/sim/error.hpp>
#include <tessera/sim/input/trace.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/measure/tenant_shares.hpp>
#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/report/explanation.hpp>

#include "sim/served.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using sim::cluster_of;
using sim::cluster_options;
using sim::request;
using sim::trace_row;
using tessera_test::approx;
using tessera_test::row;
using tessera_test::toy_cluster;

constexpr auto quiet = [](std::size_t) {};

TEST_CASE("what is due to each is as much as to the others, or all that it asks for", "[sim]") {
  CHECK(sim::fair_shares(std::vector<double>{10, 100, 100}, 130) == std::vector<double>{10, 60, 60});
  CHECK(sim::fair_shares(std::vector<double>{100, 10, 5}, 1000) == std::vector<double>{100, 10, 5});
  CHECK(sim::fair_shares(std::vector<double>{}, 5).empty());
  CHECK(sim::worst_share(std::vector<double>{100, 100}, std::vector<double>{90, 30}) == 0.5);
  CHECK(sim::worst_share(std::vector<double>{100, 30}, std::vector<double>{90, 30}) == 1);
  CHECK(std::isnan(sim::worst_share({}, {})));

  // The level of the water by bisection.
  std::mt19937_64 random{7};
  for (int round = 0; round != 300; ++round) {
    std::vector<double> asked(1 + random() % 8);
    for (double& a : asked) a = static_cast<double>(random() % 100);
    const double sum = std::accumulate(asked.begin(), asked.end(), 0.0);
    const double all = static_cast<double>(random() % 101) / 100 * sum;
    double low = 0;
    double high = 100;
    for (int i = 0; i != 80; ++i) {
      const double level = (low + high) / 2;
      double filled = 0;
      for (const double a : asked) filled += std::min(a, level);
      (filled < all ? low : high) = level;
    }
    const std::vector<double> due = sim::fair_shares(asked, all);
    for (std::size_t t = 0; t != asked.size(); ++t) CHECK(due[t] == approx(std::min(asked[t], high)).margin(1e-9));
  }
}

/// What each of two tenants has been given, at the end of each step, while requests of both wait.
struct accountant : sim::run_watcher {
  std::vector<trace_row> rows{};
  std::vector<bool> charged = std::vector<bool>(1000, false);
  std::array<double, 2> given{};
  std::array<std::size_t, 2> waiting{};
  std::array<double, 2> at_begin{};
  bool both = false;    ///< Waited in the step before this one, too.
  double furthest = 0;  ///< Apart, from a moment at which both wait to a later one of the same stretch.
  double least = 0;     ///< The least difference in this stretch,
  double most = 0;      ///< and the greatest.

  [[nodiscard]] bool asks(std::size_t, double) const override { return true; }
  [[nodiscard]] bool asks_of_steps(double) const override { return true; }
  void notify(sim::request_event) override {}
  void note(double, std::string) override {}
  void notify(sim::instance_step) override {  // before what it is made of
    const double apart = given[0] - given[1];
    if (waiting[0] == 0 || waiting[1] == 0) {
      both = false;
    } else {
      if (!std::exchange(both, true)) least = most = apart;
      least = std::min(least, apart);
      most = std::max(most, apart);
      furthest = std::max(furthest, most - least);
    }
    waiting = {};
  }
  void notify(sim::request_step s) override {
    const auto t = static_cast<std::size_t>(rows[s.request].tenant);
    if (s.what == sim::event_kind::waits) ++waiting[t];
    if (s.what == sim::event_kind::waits || s.what == sim::event_kind::stands_still) return;
    if (!charged[s.request]) given[t] += static_cast<double>(rows[s.request].prompt_tokens);
    charged[s.request] = true;
    given[t] += 2;  // prompts take one step
  }
};

template <class Scheduler>
double furthest_apart(const std::vector<trace_row>& rows, const typename Scheduler::config& config) {
  cluster_options o = toy_cluster(1, 256);
  o.instance.limits.residents = 4;
  accountant books;
  books.rows = rows;
  o.watcher = &books;
  tessera_test::check_served(cluster_of<Scheduler>{o, config}.run(rows, quiet), rows);
  return books.furthest;
}

TEST_CASE("under VTC waiting tenants are never further apart than its bound", "[sim]") {
  using vtc = iteration_scheduler<request, order::fcfs, preempt::swap, admit::watermark, kv::block_pool, kv::csr_tables,
                                  gate::fair_tenants>;
  for (std::uint64_t seed = 0; seed != 20; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random{seed};
    std::vector<trace_row> rows;
    // One floods the queue before the other comes.
    for (int i = 0; i != 120; ++i) {
      const auto prompt = static_cast<std::int64_t>(1 + random() % 64);
      const auto answer = static_cast<std::int64_t>(1 + random() % 12);
      rows.push_back(row(i < 80 ? 0 : 0.1, prompt, 0, answer));
      rows.back().tenant = i < 80 ? 0 : 1;
    }
    // Theorem 4.4: 2 max(w_p L_input, w_q M), with M tokens in a batch at most.
    constexpr double bound = 2 * 2 * 4 * (64 + 12);
    CHECK(furthest_apart<vtc>(rows, {}) <= bound);
    CHECK(furthest_apart<fcfs<request>>(rows, {}) > bound);
  }
}

TEST_CASE("a request that is passed over for its tenant is told so", "[sim]") {
  // Both of the first tenant were there first; it has been given 64 + 2 when the one place is free, the other nothing.
  cluster_options o = toy_cluster(1, 64);
  o.instance.limits.residents = 1;
  std::vector<trace_row> rows{row(0, 64, 0, 1), row(0.1, 16, 0, 4), row(0.2, 16, 0, 2)};
  rows[0].tenant = rows[1].tenant = 0;
  rows[2].tenant = 1;
  sim::explanation told{{.request = 1}};
  o.watcher = &told;
  using vtc = iteration_scheduler<request, order::fcfs, preempt::swap, admit::watermark, kv::block_pool, kv::csr_tables,
                                  gate::fair_tenants>;
  const auto r = cluster_of<vtc>{o}.run(rows, quiet);
  told.finish(r);
  CHECK(r.requests[2].finish == 1.25);  // after one step of a prompt and one token more
  CHECK(r.requests[1].first_scheduled == 1.25);
  bool said = false;
  for (const auto& e : told.entries()) {
    said = said || e.why.find("its tenant 0 has been given 66 tokens, and another that waits 0") != std::string::npos;
  }
  CHECK(said);
  bool its_turn = false;
  for (const auto& e : told.entries()) {
    its_turn = its_turn ||
               e.why.find("its tenant 0 has been given 66 tokens; by arrival, as number 2 here") != std::string::npos;
  }
  CHECK(its_turn);
}

TEST_CASE("a flood of one tenant does not take the share of the others", "[sim]") {
  const auto policies = sim::published_policies();
  for (std::uint64_t seed = 1; seed != 3; ++seed) {
    const std::vector<trace_row> rows = sim::generate(sim::find_workload("noisy-neighbour"), 2000, 60.0, seed);
    const sim::machines kind{2, sim::find_profile("h100-96gb-qwen-32b")};
    const cluster_options o = sim::size_cluster({&kind, 1}, {}, rows, sim::spelling::names);
    const auto run = [&](const char* name) { return sim::select_policies(policies, name).front().run(o, rows, quiet); };
    const auto fair = run("vtc");
    const auto plain = run("fcfs");
    CHECK(fair.numbers.completed == rows.size());
    CHECK(plain.numbers.worst_tenant < 0.75);
    CHECK(fair.numbers.worst_tenant > 0.9);
    CHECK(run("dlpm").numbers.worst_tenant > 0.9);
    CHECK(fair.numbers.worst_tenant <= 1);
    const auto ours = run("due-first");
    CHECK(ours.numbers.worst_tenant > 0.9);
    CHECK(ours.numbers.e2e.mean < fair.numbers.e2e.mean);
    for (std::size_t i = 0; i != rows.size(); ++i) CHECK(fair.requests[i].tenant == rows[i].tenant);
  }
}

TEST_CASE("where tenants are unknown, their shares change nothing and are not spoken of", "[sim]") {
  std::vector<trace_row> rows = sim::generate(sim::find_workload("noisy-neighbour"), 300, 60.0, 1);
  for (trace_row& r : rows) r.tenant = -1;
  const sim::machines kind{1, sim::find_profile("h100-96gb-qwen-32b")};
  cluster_options o = sim::size_cluster({&kind, 1}, {}, rows, sim::spelling::names);
  const auto run = [&](const char* name) {
    return sim::select_policies(sim::published_policies(), name).front().run(o, rows, quiet);
  };
  const auto fcfs = run("fcfs");
  const auto vtc = run("vtc");
  for (std::size_t i = 0; i != rows.size(); ++i) CHECK(vtc.requests[i].finish == fcfs.requests[i].finish);
  for (const char* name : {"vtc", "due-first"}) {
    sim::explanation told{{.request = 200}};
    o.watcher = &told;
    told.finish(run(name));
    CHECK_FALSE(told.entries().empty());
    for (const auto& e : told.entries()) CHECK(e.why.find("tenant") == std::string::npos);
  }
}

TEST_CASE("deficits of tenants and prefixes that are cached: shares are kept, and more is found than in turn",
          "[sim]") {
  const auto policies = sim::published_policies();
  const std::vector<trace_row> rows = sim::generate(sim::find_workload("noisy-agents"), 1500, 12.0, 2);
  const sim::machines kind{1, sim::find_profile("h200-llama-3.1-8b")};
  const cluster_options o = sim::size_cluster({&kind, 1}, {.kv_blocks = 16'000}, rows, sim::spelling::names);
  const auto run = [&](const char* name) { return sim::select_policies(policies, name).front().run(o, rows, quiet); };
  const auto dlpm = run("dlpm");
  const auto vtc = run("vtc");
  CHECK(dlpm.numbers.completed == rows.size());
  CHECK(dlpm.numbers.prefix_hit_rate > vtc.numbers.prefix_hit_rate);
  CHECK(dlpm.numbers.worst_tenant > 0.8);
}

TEST_CASE("sessions of a tenant share a beginning, and none with those of another", "[sim]") {
  const auto plain = sim::generate(sim::find_workload("agentic"), 3000, 5.0, 3);
  const auto rows = sim::generate(sim::find_workload("noisy-agents"), 3000, 5.0, 3);
  std::array<int, 4> sessions{};
  for (std::size_t i = 0; i != rows.size(); ++i) {
    CHECK(plain[i].prompt_tokens == rows[i].prompt_tokens);
    CHECK(plain[i].arrival_s == rows[i].arrival_s);
    const bool first = i == 0 || rows[i].session != rows[i - 1].session;
    if (!first) {
      CHECK(rows[i].tenant == rows[i - 1].tenant);
      continue;
    }
    ++sessions[static_cast<std::size_t>(rows[i].tenant)];
    REQUIRE(rows[i].runs.size() == 1);
    CHECK(rows[i].runs.front().id == static_cast<std::uint64_t>(rows[i].tenant));
    CHECK(rows[i].runs.front().tokens == plain[i].runs.front().tokens);
  }
  for (std::size_t t = 1; t != 4; ++t) CHECK(sessions[0] > 3 * sessions[t]);
}

TEST_CASE("the tenants of requests are said by a workload and by a trace", "[sim]") {
  const auto plain = sim::generate(sim::find_workload("azure-conv"), 4000, 5.0, 3);
  const auto rows = sim::generate(sim::find_workload("noisy-neighbour"), 4000, 5.0, 3);
  std::array<int, 4> sent{};
  for (std::size_t i = 0; i != rows.size(); ++i) {
    CHECK(plain[i].tenant == -1);
    CHECK(plain[i].prompt_tokens == rows[i].prompt_tokens);
    CHECK(plain[i].output_tokens == rows[i].output_tokens);
    CHECK(plain[i].arrival_s == rows[i].arrival_s);
    ++sent[static_cast<std::size_t>(rows[i].tenant)];
  }
  for (std::size_t t = 0; t != 4; ++t) CHECK(std::abs(sent[t] - (t == 0 ? 2800 : 400)) < 150);

  const sim::trace t = sim::parse_trace("tenant,prompt_tokens,output_tokens\nb,1,1\na,1,1\n,1,1\nb,1,1\n", "t");
  CHECK(t.has_tenants);
  CHECK(t.unused.empty());
  CHECK(t.rows[0].tenant == 0);
  CHECK(t.rows[1].tenant == 1);
  CHECK(t.rows[2].tenant == -1);
  CHECK(t.rows[3].tenant == 0);
  const sim::trace lines = sim::parse_trace("{\"prompt_tokens\": 1, \"output_tokens\": 1, \"tenant\": \"x\"}\n", "t");
  CHECK(lines.rows[0].tenant == 0);
  CHECK(!sim::parse_trace("prompt_tokens,output_tokens\n1,1\n", "t").has_tenants);
  std::string many = "tenant,prompt_tokens,output_tokens\n";
  for (int i = 0; i != 65; ++i) many += fmt::format("t{},1,1\n", i);
  CHECK_THROWS_WITH(sim::parse_trace(many, "t"), "t:66:1: expected at most 64 tenants, found 't64'");
}

}  // namespace
