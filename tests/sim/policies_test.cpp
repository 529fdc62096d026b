// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/cluster/cluster_size.hpp>
#include <tessera/sim/cluster/run_watcher.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/policies/placements.hpp>
#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/report/report.hpp>

#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using sim::policy;
using tessera_test::row;
using tessera_test::toy_cluster;

std::vector<std::string> names_of(const std::vector<policy>& policies) {
  std::vector<std::string> names;
  for (const policy& p : policies) names.push_back(p.name);
  return names;
}

/// The message of the usage error; empty if there is none.
std::string refusal(std::string_view names) {
  try {
    static_cast<void>(sim::select_policies(sim::published_policies(), names));
  } catch (const sim::usage_error& e) {
    return e.what();
  }
  return {};
}

TEST_CASE("policies: the published ones have names, summaries and no namesake") {
  const auto all = sim::published_policies();
  const auto names = names_of(all);
  for (const char* needed : {"fcfs", "rr", "pascal", "pars", "sjf"}) {
    CHECK(std::count(names.begin(), names.end(), needed) == 1);
  }
  for (const policy& p : all) {
    CHECK(std::count(names.begin(), names.end(), p.name) == 1);
    CHECK(p.name.find_first_of(", \n") == std::string::npos);
    CHECK(!p.summary.empty());
    CHECK(p.summary.find('\n') == std::string::npos);
    CHECK(p.run);
  }
}

TEST_CASE("policies: a list selects by name, in its order") {
  const auto all = sim::published_policies();
  CHECK(names_of(sim::select_policies(all, "rr,fcfs")) == std::vector<std::string>{"rr", "fcfs"});
  CHECK(refusal("due-first,due-first") == "the policy 'due-first' is named twice");
  CHECK(names_of(sim::select_policies(all, "pascal")) == std::vector<std::string>{"pascal"});
  std::string everything;
  for (const policy& p : all) everything += (everything.empty() ? "" : ",") + p.name;
  CHECK(names_of(sim::select_policies(all, everything)) == names_of(all));
}

TEST_CASE("policies: parameters are set behind a name, and are a part of it") {
  const auto all = sim::published_policies();
  const auto chosen =
      sim::select_policies(all, "due-first,due-first:pace=0.05,due-first:pace=2e-1:programs=0.03,pars:threshold=inf");
  CHECK(names_of(chosen) == std::vector<std::string>{"due-first", "due-first:pace=0.05",
                                                     "due-first:pace=2e-1:programs=0.03", "pars:threshold=inf"});
  CHECK(chosen.back().needs_scores);
  CHECK(refusal("due-first:pace=1,due-first:pace=1") == "the policy 'due-first:pace=1' is named twice");
  CHECK(refusal("fcfs:pace=1") == "the policy fcfs has no parameters, but 'pace=1' is to be set");
  CHECK(refusal("due-first:") == "due-first: expected PARAMETER=VALUE, not ''");
  CHECK(refusal("due-first:pace") == "due-first: expected PARAMETER=VALUE, not 'pace'");
  CHECK(refusal("pars:threshhold=3") == "pars has no parameter 'threshhold'; there are: threshold");
  CHECK(refusal("due-first:pace=1:pace=2") == "due-first: pace is set twice");
  CHECK(refusal("due-first:revised=0.5") == "due-first: revised is a number from 1 to 1e+09, not '0.5'");
  for (const char* value : {"", "-1", "nan", "1e400", "0.1s", " 1", "1e10", "inf"}) {
    INFO(value);
    CHECK(refusal(std::string{"due-first:pace="} + value).find("pace is a number from 0 to 1e+09") !=
          std::string::npos);
  }
}

TEST_CASE("policies: every parameter of due-first is a number of its configuration, within its range") {
  const sim::due_first_config usual;
  for (const sim::due_first_parameter& x : sim::due_first_parameters) {
    INFO(x.name);
    CHECK(usual.*x.at >= x.least);
    CHECK(usual.*x.at <= x.most);
  }
  // By name it does what it does by configuration, and not what it does without.
  const auto rows = [] {
    std::vector<sim::trace_row> out;
    for (int i = 0; i != 60; ++i) out.push_back(row(0.01 * i, 8, i % 7 == 0 ? 0 : 4, 3 + i % 11 * 5));
    return out;
  }();
  const auto ran = [&](const policy& p) {
    sim::run_result r = p.run(toy_cluster(1, 40), rows, [](std::size_t) {});
    CHECK(r.numbers.policy == p.name);
    r.numbers.policy = "";
    return sim::format_csv(r);
  };
  const auto by_name = [&](std::string_view name) {
    return ran(sim::select_policies(sim::published_policies(), name).front());
  };
  CHECK(by_name("due-first:step_s=5:revised=1") == ran(sim::due_first_policy("own", {.revised = 1, .step_s = 5})));
  CHECK(by_name("due-first:step_s=5") != by_name("due-first"));
  CHECK(by_name("due-first:step_s=0.05") == by_name("due-first"));
}

TEST_CASE("policies: a threshold of pars by name") {
  std::vector<sim::trace_row> rows;
  for (int i = 0; i != 60; ++i) {
    rows.push_back(row(0.01 * i, 8, 0, 40 - i / 2));
    rows.back().score = static_cast<float>(rows.back().output_tokens);
  }
  const auto by_name = [&](std::string_view name) {
    sim::run_result r =
        sim::select_policies(sim::published_policies(), name).front().run(toy_cluster(1, 40), rows, [](std::size_t) {});
    r.numbers.policy = "";
    return sim::format_csv(r);
  };
  CHECK(by_name("pars:threshold=120") == by_name("pars"));
  CHECK(by_name("pars:threshold=0") != by_name("pars:threshold=inf"));
}

TEST_CASE("policies: what is not there is refused, with what there is") {
  for (const char* names :
       {"", ",", "fcfs,", ",fcfs", "fcfs,,rr", "FCFS", " fcfs", "fcfs rr", "none", "fcf", "fcfs,nobody"}) {
    const std::string why = refusal(names);
    CAPTURE(names, why);
    CHECK(why.find("unknown policy") != std::string::npos);
    CHECK(why.find("fcfs, rr, pascal") != std::string::npos);
    CHECK(why.find('\n') == std::string::npos);
  }
  CHECK(refusal("fcfs,nobody").find("'nobody'") != std::string::npos);
  CHECK(refusal("fcfs,rr,fcfs") == "the policy 'fcfs' is named twice");
  CHECK(refusal("fcfs").empty());
}

TEST_CASE("policies: new requests go where the options say, unless placement is part of the policy") {
  std::vector<sim::trace_row> rows;
  for (int i = 0; i < 10; ++i) rows.push_back(row(i * 0.1, i % 3 == 0 ? 300 : 5, 0, 3));
  for (const policy& p : sim::published_policies()) {
    CAPTURE(p.name);
    auto options = toy_cluster(3, 100, sim::profiles().front());
    const sim::run_result own = p.run(options, rows, [](std::size_t) {});
    CHECK(!own.numbers.placement.empty());
    for (const sim::named_placement& to : sim::placements()) {
      options.placement = to;
      const sim::run_result r = p.run(options, rows, [](std::size_t) {});
      CHECK(r.numbers.placement == (p.placement.empty() ? to.name : own.numbers.placement));
      if (!p.placement.empty()) CHECK(sim::format_csv(r) == sim::format_csv(own));
      if (p.placement.empty() && to.name == "in-turn") {
        for (std::size_t i = 0; i != rows.size(); ++i) CHECK(r.requests[i].instance == i % 3);
      }
    }
  }
  CHECK_THROWS_AS(sim::find_placement("nowhere"), sim::usage_error);
  CHECK(sim::find_placement("least-load").name == "least-load");
}

TEST_CASE("policies: routers stand in front of those that leave the placement open, and are refused by the others") {
  std::vector<sim::trace_row> rows;
  for (int i = 0; i < 30; ++i) {
    rows.push_back(row(i * 0.1, i % 3 == 0 ? 300 : 5, 0, 3));
    rows.back().score = static_cast<float>(i % 5);
  }
  auto options = toy_cluster(3, 100, sim::profiles().front());
  options.routed = sim::routing{.routers = 2, .report_s = 0.5};
  for (const policy& p : sim::published_policies()) {
    CAPTURE(p.name);
    if (!p.placement.empty() && !p.knows_routers) {
      CHECK_THROWS_AS(sim::require_open_placement(p, options), sim::usage_error);
      continue;
    }
    CHECK_NOTHROW(sim::require_open_placement(p, options));
    const sim::run_result r = p.run(options, rows, [](std::size_t) {});
    CHECK(r.numbers.completed == rows.size());
    CHECK(r.measures.at("left_in_books") == 0);
  }
}

TEST_CASE("policies: an order that is composed by hand does what the published policy of that order does") {
  std::vector<sim::trace_row> rows;
  for (int i = 0; i < 40; ++i) {
    rows.push_back(row(i * 0.05, i % 3 == 0 ? 300 : 5, i % 2 * 7, 3 + i % 11));
    rows.back().score = static_cast<float>(i % 5);
  }
  // What tells them apart: memory for a few of them only.
  auto options = toy_cluster(2, 24, sim::profiles().front());
  const auto run = [&](const std::vector<policy>& all, std::string_view name) {
    return "\n" + sim::format_csv(sim::select_policies(all, name).front().run(options, rows, [](std::size_t) {}));
  };
  const auto without_name = [](std::string csv, const std::string& name) {
    for (std::size_t at = 0; (at = csv.find("\n" + name + ",", at)) != std::string::npos;) {
      csv.erase(at + 1, name.size());
    }
    return csv;
  };
  const auto orders = sim::composed_orders();
  const auto published = sim::published_policies();
  const auto names = names_of(orders);
  for (const policy& p : orders) {
    CAPTURE(p.name);
    CHECK(std::count(names.begin(), names.end(), p.name) == 1);
    CHECK(p.placement.empty());
    const sim::run_result r = p.run(options, rows, [](std::size_t) {});
    CHECK(r.numbers.policy == p.name);
    CHECK(r.numbers.completed == rows.size());
    CHECK(r.numbers.migrations == 0);
  }
  for (const auto& [order, same] :
       {std::pair{"fcfs", "fcfs"}, std::pair{"round-robin", "rr"}, std::pair{"ranked", "pars:threshold=inf"},
        std::pair{"shortest-rest", "trail"}, std::pair{"least-attained-service", "autellix"},
        std::pair{"least-slack", "slack"}}) {
    CAPTURE(order);
    const bool equal = without_name(run(orders, order), order) == without_name(run(published, same), same);
    CHECK(equal);
  }
  options.placement = sim::find_placement("pascal");
  CHECK((without_name(run(orders, "two-phase"), "two-phase") != without_name(run(published, "fcfs"), "fcfs")));
}

TEST_CASE("policies: PARS boosts requests that have waited, or serves the short ones first for ever") {
  // One at a time. A long one waits while short ones keep coming.
  std::vector<sim::trace_row> rows{row(0, 20, 0, 300)};
  for (int i = 0; i < 400; ++i) rows.push_back(row(0.5 + 2.0 * i, 20, 0, 90));
  rows.insert(rows.begin() + 1, row(0.25, 20, 0, 300));
  for (sim::trace_row& r : rows) r.score = static_cast<float>(r.output_tokens);
  auto options = toy_cluster(1, 1000);
  options.instance.step.max_batch = 1;
  options.instance.limits.residents = 1;
  const auto waited = [&](const char* name) {
    const sim::run_result r =
        sim::select_policies(sim::published_policies(), name).front().run(options, rows, [](std::size_t) {});
    CHECK(r.numbers.completed == rows.size());
    return r.requests[1].first_scheduled - r.requests[1].arrival;
  };
  const double boosted = waited("pars");
  const double never = waited("pars:threshold=inf");
  CAPTURE(boosted, never);
  CHECK(boosted > 119);
  CHECK(never > boosted);
  CHECK(waited("sjf") == never);
}

TEST_CASE("policies: Autellix lets single calls go before the later calls of a long program") {
  // One at a time. An agent's long calls follow one another; short single calls come all the while.
  std::vector<sim::trace_row> rows;
  for (int i = 0; i < 20; ++i) {
    rows.push_back(row(0, 20, 0, 200));
    rows.back().session = 1;
  }
  for (int i = 0; i < 60; ++i) rows.push_back(row(45.0 * i, 20, 0, 30));
  auto options = toy_cluster(1, 1000);
  options.instance.step.max_batch = 1;
  options.instance.limits.residents = 1;
  const auto waited = [&](const char* name) {
    const sim::run_result r =
        sim::select_policies(sim::published_policies(), name).front().run(options, rows, [](std::size_t) {});
    CHECK(r.numbers.completed == rows.size());
    double single = 0, agent = 0;
    for (const sim::request_record& one : r.requests) {
      if (one.id < 20) agent = std::max(agent, one.finish);
      if (one.id >= 20) single += one.e2e() / 60;
    }
    return std::pair{single, agent};
  };
  const auto [fcfs_single, fcfs_agent] = waited("fcfs");
  const auto [single, agent] = waited("autellix");
  CAPTURE(single, agent, fcfs_single, fcfs_agent);
  CHECK(single < 0.7 * fcfs_single);
  CHECK(agent >= fcfs_agent);
}

TEST_CASE("policies: TRAIL needs no scores to know which are nearly done") {
  // Lengths of two kinds that cannot be told apart beforehand; memory for a few of the long kind.
  std::vector<sim::trace_row> rows;
  for (int i = 0; i < 300; ++i) rows.push_back(row(0.4 * i, 20, 0, i % 4 == 0 ? 1200 : 40));
  const auto mean = [&](const char* name) {
    const sim::run_result r =
        sim::select_policies(sim::published_policies(), name).front().run(toy_cluster(1, 400), rows, [](std::size_t) {
        });
    CHECK(r.numbers.completed == rows.size());
    return r.numbers.e2e.mean;
  };
  const double trail = mean("trail"), fcfs = mean("fcfs");
  CAPTURE(trail, fcfs);
  CHECK(trail < 0.9 * fcfs);
}

TEST_CASE("policies: Sarathi's steps hold up none that decodes") {
  std::vector<sim::trace_row> rows{row(0, 20, 0, 400)};
  for (int i = 0; i < 10; ++i) rows.push_back(row(0.05 + 0.2 * i, 4000, 0, 2));
  const auto longest = [&](const char* name) {
    const sim::run_result r = sim::select_policies(sim::published_policies(), name)
                                  .front()
                                  .run(toy_cluster(1, 4000, sim::profiles().front()), rows, [](std::size_t) {});
    CHECK(r.numbers.completed == rows.size());
    return r.requests.front().tpot();
  };
  CHECK(longest("sarathi") < longest("fcfs"));
}

TEST_CASE("policies: each runs, under its name, and reports its progress") {
  std::vector<sim::trace_row> rows;
  for (int i = 0; i < 30; ++i) rows.push_back(row(i * 0.2, 20 + i, i % 3 == 0 ? 0 : 10, 5 + i % 7));
  for (const policy& p : sim::published_policies()) {
    CAPTURE(p.name);
    std::vector<std::size_t> ended;
    const auto options = toy_cluster(4, 20, sim::profiles().front());
    const sim::run_result first = p.run(options, rows, [&](std::size_t n) {
      if (n != ended.size()) ended.push_back(n);  // now and then nothing has ended
    });
    CHECK(first.numbers.policy == p.name);
    CHECK(first.numbers.completed == rows.size());
    REQUIRE(ended.size() == rows.size());
    for (std::size_t i = 0; i < ended.size(); ++i) CHECK(ended[i] == i + 1);
    // A policy is no run: it can be run again, and does the same.
    const sim::run_result second = p.run(options, rows, [](std::size_t) {});
    CHECK(sim::format_csv(first) == sim::format_csv(second));
  }
}

TEST_CASE("policies: each serves sessions that share prefixes where memory is short, and again the same") {
  std::vector<sim::trace_row> rows;
  for (int turn = 0; turn != 6; ++turn) {
    for (int session = 0; session != 14; ++session) {
      sim::trace_row r = row(0.05 * session, 70 + 75 * turn, session % 3 == 0 ? 20 : 0, 15 + session);
      r.arrival_s = turn == 0 ? r.arrival_s : rows.back().arrival_s;
      r.session = session;
      r.think_s = 0.1 * (session % 4);
      if (turn == 0) r.runs = {{1, 40}, {2U + static_cast<unsigned>(session % 2), 10}};
      rows.push_back(r);
    }
  }
  for (const policy& p : sim::published_policies()) {
    CAPTURE(p.name);
    const auto options = toy_cluster(4, 64, sim::profiles().front());
    const sim::run_result first = p.run(options, rows, [](std::size_t) {});
    CHECK(first.numbers.completed == rows.size());
    CHECK(first.numbers.prefix_hit_rate > 0);
    CHECK(sim::format_csv(first) == sim::format_csv(p.run(options, rows, [](std::size_t) {})));
    auto without = options;
    without.prefix_cache = false;
    CHECK(p.run(without, rows, [](std::size_t) {}).numbers.prefix_hit_rate == 0);
    // A session waits for all its turns.
    CHECK(first.numbers.session.count == 14);
    double waited = 0;
    for (const sim::request_record& r : first.requests) {
      CHECK(r.session == rows[r.id].session);
      waited += r.e2e();
    }
    CHECK(first.numbers.session.mean == tessera_test::approx(waited / 14));
    for (std::size_t i = 14; i != rows.size(); ++i) {
      CHECK(first.requests[i].arrival >= first.requests[i - 14].finish + rows[i].think_s - 1e-9);
    }
  }
}

TEST_CASE("policies: a request that could not be in time is refused, and those that are taken are") {
  const auto run = [](const char* name, double rate) {
    const auto rows = sim::generate(sim::find_workload("azure-conv"), 1500, rate, 5);
    const sim::machines kind{1, sim::find_profile("h100-96gb-qwen-32b")};
    const auto options = sim::size_cluster({&kind, 1}, {}, rows, sim::spelling::names);
    return sim::select_policies(sim::published_policies(), name).front().run(options, rows, [](std::size_t) {});
  };
  const auto in_time = [](const sim::run_result& r) {
    return std::count_if(r.requests.begin(), r.requests.end(),
                         [](const sim::request_record& q) { return q.completed() && q.ttft() <= 1; });
  };
  const sim::run_result all = run("slack", 20);
  const sim::run_result some = run("slack-refusing", 20);
  CHECK(all.numbers.rejected == 0);
  CHECK(some.numbers.rejected > 100);
  CHECK(some.numbers.completed + some.numbers.rejected == 1500);
  CHECK(in_time(some) > 2 * in_time(all));
  CHECK(run("slack-refusing", 1).numbers.rejected < 5);  // a burst
}

TEST_CASE("policies: a budget for each step holds where a fixed one does not") {
  const auto rows = sim::generate(sim::find_workload("azure-conv"), 1500, 6, 5);
  const sim::machines kind{1, sim::find_profile("h100-96gb-qwen-32b")};
  auto options = sim::size_cluster({&kind, 1}, {}, rows, sim::spelling::names);
  struct listener : sim::run_watcher {
    std::size_t mixed = 0;
    double longest_s = 0;
    [[nodiscard]] bool asks(std::size_t, double) const override { return false; }
    [[nodiscard]] bool asks_of_steps(double) const override { return true; }
    void notify(sim::request_event) override {}
    void notify(sim::request_step) override {}
    void notify(sim::instance_step s) override {
      if (s.decodes == 0 || s.prompts == 0) return;
      ++mixed;
      longest_s = std::max(longest_s, s.until_s - s.from_s);
    }
    void note(double, std::string) override {}
  };
  const auto longest = [&](const char* name) {
    listener heard;
    options.watcher = &heard;
    sim::select_policies(sim::published_policies(), name).front().run(options, rows, [](std::size_t) {});
    REQUIRE(heard.mixed > 100);
    return heard.longest_s;
  };
  CHECK(longest("sarathi-adaptive") < 0.053);
  CHECK(longest("sarathi") > longest("sarathi-adaptive"));
}

TEST_CASE("policies: those with pools divide the instances as they are told") {
  std::vector<sim::trace_row> rows;
  for (int i = 0; i < 30; ++i) rows.push_back(row(i * 0.2, 20 + i, 0, 5 + i % 7));
  for (const policy& p : sim::published_policies()) {
    if (p.pools == 0) continue;
    CAPTURE(p.name);
    auto options = toy_cluster(5, 100);
    // Where requests end shows which instances decode.
    options.pools = sim::pool_sizes{.prefill = 4, .decode = 1, .mixed = 0};
    for (const auto& r : p.run(options, rows, [](std::size_t) {}).requests) CHECK(r.instance == 4);
    options.pools = sim::pool_sizes{.prefill = 2, .decode = 3, .mixed = 0};
    for (const auto& r : p.run(options, rows, [](std::size_t) {}).requests) CHECK(r.instance >= 2);
  }
}

TEST_CASE("policies: a cluster that is too small for one, or too large, is refused") {
  for (const policy& p : sim::published_policies()) {
    CAPTURE(p.name);
    CHECK(p.least_instances >= 1);
    CHECK(p.least_instances <= 3);
    CHECK_NOTHROW(sim::require_instances(p, p.least_instances));
    if (p.least_instances > 1) CHECK_THROWS_AS(sim::require_instances(p, p.least_instances - 1), sim::usage_error);
    const bool knows_all = p.name == "cascade" || p.name == "cascade-steady";
    CHECK((p.most_instances < 65'536) == knows_all);
    CHECK_NOTHROW(sim::require_instances(p, 1000));
    if (knows_all) CHECK_THROWS_AS(sim::require_instances(p, p.most_instances + 1), sim::usage_error);
    CHECK((p.pools != 0) == (p.name == "distserve" || p.name == "splitwise" || p.name == "phasor"));
    // On as few as it says, it runs.
    const std::vector<sim::trace_row> rows{row(0, 20, 0, 5), row(0.5, 20, 3, 5)};
    const sim::run_result result = p.run(toy_cluster(p.least_instances, 20), rows, [](std::size_t) {});
    CHECK(result.numbers.completed == 2);
  }
  for (std::size_t n = 3; n != 40; ++n) {
    const sim::pool_sizes three = sim::three_pools(n);
    CHECK(three.prefill + three.decode + three.mixed == n);
    CHECK(three.prefill >= 1);
    CHECK(three.decode >= 1);
    CHECK(three.mixed >= 1);
    const sim::pool_sizes two = sim::halves(n);
    CHECK(two.prefill + two.decode == n);
  }
}

/// The shortest prompt first.
struct shortest_first : order::fcfs {
  template <class R>
  static bool before(const R& a, const R& b) noexcept {
    return a.prompt != b.prompt ? a.prompt < b.prompt : a.state().sequence < b.state().sequence;
  }
  template <class R>
  static bool displaces(const R&, const R&) noexcept {
    return false;
  }
};

/// Everything on the last instance.
struct last_one {
  template <placement::instance_views V>
  std::size_t operator()(const V& views) const noexcept {
    return views.size() - 1;
  }
};

TEST_CASE("policies: one's own joins the list") {
  auto all = sim::published_policies();
  using mine = iteration_scheduler<sim::request, shortest_first>;
  all.push_back(sim::make_policy<mine, last_one>("mine", "shortest prompt first", {.chunked_prefill = false}));
  const auto chosen = sim::select_policies(all, "mine,fcfs");
  REQUIRE(chosen.size() == 2);
  auto options = toy_cluster(2, 100);
  options.instance.limits.residents = 1;  // one at a time
  const std::vector<sim::trace_row> rows{row(0, 50, 0, 1), row(0.1, 40, 0, 1), row(0.2, 10, 0, 1), row(0.3, 20, 0, 1)};
  const sim::run_result result = chosen[0].run(options, rows, [](std::size_t) {});
  CHECK(result.numbers.policy == "mine");
  CHECK(result.requests[0].finish == 0.5);
  CHECK(result.requests[2].finish == 1.0);
  CHECK(result.requests[3].finish == 1.5);
  CHECK(result.requests[1].finish == 2.0);
  for (const auto& r : result.requests) CHECK(r.instance == 1);
}

}  // namespace
