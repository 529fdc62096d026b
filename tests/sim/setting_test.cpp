// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/fcfs.hpp>
#include <tessera/sim/policies/policy.hpp>
#include <tessera/sim/setup/cluster_setup.hpp>
#include <tessera/sim/setup/load_source.hpp>
#include <tessera/sim/setup/setting.hpp>

#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using sim::load_source;
using sim::setting;
using sim::spelling;
using sim::trace_row;

constexpr std::string_view times = "arrival_s,prompt_tokens,output_tokens\n5,10,5\n6,20,6\n8,30,7\n";
constexpr std::string_view hashes =
    R"({"arrival_s": 0, "prompt_tokens": 33, "output_tokens": 1, "hash_ids": [7, 8, 9]})"
    "\n";

/// A load from a text in place of a file.
load_source load_from(const setting& a, std::string_view text) {
  return load_source{a, [&](const std::string& name, const sim::trace_options& options) {
                       return sim::parse_trace(text, name, options);
                     }};
}

/// What a call is refused with; empty: it is not.
template <class Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (const sim::usage_error& why) {
    return why.what();
  }
  return {};
}

bool alike(const std::vector<trace_row>& a, const std::vector<trace_row>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i != a.size(); ++i) {
    if (a[i].arrival_s != b[i].arrival_s || a[i].prompt_tokens != b[i].prompt_tokens ||
        a[i].output_tokens != b[i].output_tokens) {
      return false;
    }
  }
  return true;
}

TEST_CASE("setting: rows of a workload are those that it generates, at the rate that is asked for") {
  const sim::workload& chat = sim::find_workload("alpaca-chat");
  setting a{.workload = "alpaca-chat", .requests = 50};
  CHECK(alike(load_source{a}.rows(a, 7), sim::generate(chat, 50, {}, 7)));
  a.rate = 3;
  CHECK(alike(load_source{a}.rows(a, 1), sim::generate(chat, 50, 3.0, 1)));
  a.rate.reset();
  a.rate_scale = 2;
  CHECK(alike(load_source{a}.rows(a, 1), sim::generate(chat, 50, 2 * chat.rate, 1)));
  a.requests.reset();
  CHECK(load_source{a}.rows(a, 1).size() == sim::default_requests);
}

TEST_CASE("setting: rows of a trace are read as its options say, and begin at 0") {
  setting a{.trace = "t.csv"};
  const load_source own = load_from(a, times);
  CHECK(own.is_trace());
  CHECK(own.has_arrivals());
  const std::vector<trace_row> rows = own.rows(a, 1);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].arrival_s == 0);
  CHECK(rows[2].arrival_s == 3);
  a.rate_scale = 2;
  CHECK(load_from(a, times).rows(a, 1)[2].arrival_s == 1.5);
  a.requests = 2;
  CHECK(load_from(a, times).rows(a, 1).size() == 2);
  a.requests = 4;
  CHECK(load_from(a, times).fewer() == "t.csv has 3 requests: fewer than --requests 4.\n");

  setting h{.trace = "t.jsonl", .hash_tokens = 16};
  CHECK(load_from(h, hashes).rows(h, 1).front().runs.size() == 3);
}

TEST_CASE("setting: a refusal names what was set as its user wrote it") {
  struct wrong {
    setting what;
    std::string options;
    std::string names;
  };
  const std::vector<trace_row> rows = sim::generate(sim::find_workload("alpaca-chat"), 20, 10.0, 1);
  const auto refused = [&](setting what, spelling how) {
    what.how = how;
    return refusal([&] {
      if (!what.workload.empty() || !what.trace.empty()) {
        static_cast<void>(load_from(what, times));
      } else {
        static_cast<void>(sim::size_cluster(what, sim::machines_of(what), rows, 1));
      }
    });
  };
  const std::string chat = "alpaca-chat";
  for (const wrong& w : std::vector<wrong>{
           {{.workload = chat, .rate = 1, .rate_scale = 1},
            "--rate and --rate-scale exclude each other",
            "rate and rate_scale exclude each other"},
           {{.workload = chat, .rate = 0},
            "--rate is a number above 0, at most 1e+09, not 0",
            "rate is a number above 0, at most 1e+09, not 0"},
           {{.workload = chat, .requests = 0},
            "--requests must be from 1 to 20000000, not 0",
            "the number of requests must be from 1 to 20000000, not 0"},
           {{.workload = chat, .run = 1}, "--run goes with a --trace", "run goes with a trace"},
           {{.trace = "t.csv", .hash_tokens = 16},
            "--hash-tokens goes with a --trace that has hash_ids",
            "hash_tokens goes with a trace that has hash_ids"},
           {{.instances = "0"},
            "--instances must be from 1 to 65536, not 0",
            "instances must be from 1 to 65536, not 0"},
           {{.instances = "-1"},
            "--instances must be from 1 to 65536, not -1",
            "instances must be from 1 to 65536, not -1"},
           {{.instances = "4,4"}, "--instances names 2 kinds, --profile 1", "instances names 2 kinds, profile 1"},
           {{.size = {.kv_blocks = 0}},
            "--kv-blocks must be from 1 to 67108864, not 0",
            "kv_blocks must be from 1 to 67108864, not 0"},
           {{.routers = 0}, "--routers must be from 1 to 1024, not 0", "routers must be from 1 to 1024, not 0"},
           {{.routers = 1, .report_interval = 0},
            "--report-interval is a number of seconds from 0.001 to 1e+09, not 0",
            "report_s is a number of seconds from 0.001 to 1e+09, not 0"},
           {{.routers = 1, .action_delay = -1},
            "--action-delay is a number of seconds from 0 to 1e+09, not -1",
            "action_s is a number of seconds from 0 to 1e+09, not -1"},
           {{.action_delay = 1}, "--action-delay goes with --routers", "action_s goes with routers"},
           {{.plan_delay = -1},
            "--plan-delay is a number of seconds from 0 to 1e+09, not -1",
            "plan_s is a number of seconds from 0 to 1e+09, not -1"},
           {{.router_shares = true}, "--router-shares goes with --routers", "router_shares goes with routers"},
           {{.mtbf = 5}, "--mtbf and --mttr go together", "mtbf and mttr go together"},
           {{.detection = 2},
            "--detection goes with --fault, or --mtbf and --mttr",
            "detection goes with fault, or mtbf and mttr"},
           {{.warmup = -1},
            "--warmup is a number of seconds, 0 or more, not -1",
            "warmup is a number of seconds, 0 or more, not -1"},
       }) {
    CAPTURE(w.options);
    CHECK(refused(w.what, spelling::options) == w.options);
    CHECK(refused(w.what, spelling::names) == w.names);
  }
  CHECK(refused({.faults = {"die:8@1"}}, spelling::options) ==
        "the fault 'die:8@1' names an instance that does not exist: they are 0 to 7");
  CHECK(refused({}, spelling::options).empty());
  CHECK(refused({}, spelling::names).empty());
}

TEST_CASE("setting: everything that is set is in the options of the cluster") {
  const std::vector<trace_row> rows = sim::generate(sim::find_workload("alpaca-chat"), 50, 10.0, 1);
  const setting a{.instances = "2x" + std::string{sim::default_profile} + ",1x" + std::string{sim::default_profile},
                  .size = {.kv_blocks = 500, .block_size = 8, .max_batch = 9, .token_budget = 100},
                  .prefix_cache = false,
                  .placement = "in-turn",
                  .routers = 2,
                  .report_interval = 0.5,
                  .action_delay = 0.25,
                  .plan_delay = 20,
                  .router_shares = true,
                  .pools = "1/2",
                  .faults = {"hang:1@1+2"},
                  .detection = 3,
                  .slo = "ttft_p99=2,tpot_p99=0.05",
                  .warmup = 1,
                  .drain = 2};
  const sim::cluster_options o = sim::size_cluster(a, sim::machines_of(a), rows, 42);
  CHECK(o.instances == 3);
  CHECK(o.each.size() == 3);
  CHECK(o.instance.limits.blocks == 500);
  CHECK(o.instance.limits.block_size == tokens{8});
  CHECK(o.instance.step.max_batch == 9);
  CHECK(o.instance.step.token_budget == tokens{100});
  CHECK_FALSE(o.prefix_cache);
  REQUIRE(o.placement);
  CHECK(o.placement->name == "in-turn");
  REQUIRE(o.routed);
  CHECK(o.routed->routers == 2);
  CHECK(o.routed->report_s == 0.5);
  CHECK(o.routed->action_s == 0.25);
  CHECK(o.plan_s == 20);
  CHECK(o.routed->shares);
  REQUIRE(o.pools);
  CHECK(*o.pools == sim::pool_sizes{1, 2, 0});
  REQUIRE(o.faults.size() == 1);
  CHECK(o.faults.front().instance == 1);
  CHECK(o.detection_s == 3);
  CHECK(o.promised.ttft_s == 2);
  CHECK(o.promised.tpot_s == 0.05);
  CHECK(o.warmup_s == 1);
  CHECK(o.drain_s == 2);
  CHECK(o.seed == 42);
}

TEST_CASE("setting: a profile is a name, a file or its JSON text") {
  const sim::profile own = sim::find_profile(std::string{sim::default_profile});
  const sim::profile read = sim::find_profile(" " + sim::to_json(own));
  CHECK(read.name == own.name);
  CHECK(sim::to_json(read) == sim::to_json(own));
  const setting a{.instances = "3", .profile = sim::to_json(own)};
  REQUIRE(sim::machines_of(a).size() == 1);
  CHECK(sim::machines_of(a).front().count == 3);
}

TEST_CASE("setting: a policy that cannot run there is refused before it runs") {
  const std::vector<trace_row> rows = sim::generate(sim::find_workload("azure-conv"), 20, 10.0, 1);
  setting a{.instances = "2", .routers = 1};
  const sim::cluster_options routed = sim::size_cluster(a, sim::machines_of(a), rows, 1);
  a.routers.reset();
  a.pools = "1/1";
  const sim::cluster_options plain = sim::size_cluster(a, sim::machines_of(a), rows, 1);
  const auto why = [&](const sim::policy& p, const sim::cluster_options& o) {
    return refusal([&] { sim::require_suitable(p, o, rows, "the rows"); });
  };
  sim::policy p{.name = "p", .summary = {}, .run = {}};
  CHECK(why(p, plain).empty());
  CHECK(why(p, routed).empty());
  p.placement = "own";
  CHECK(why(p, plain).empty());
  CHECK(why(p, routed).find("it knows no routers") != std::string::npos);
  p.knows_routers = true;
  CHECK(why(p, routed).empty());
  p.least_instances = 3;
  CHECK(why(p, plain) == "the policy p needs at least 3 instances, not 2");
  p = {.name = "p", .summary = {}, .run = {}, .pools = 2};
  CHECK(why(p, plain).empty());
  sim::cluster_options mixed = plain;
  mixed.pools = sim::pool_sizes{1, 0, 1};
  CHECK(why(p, mixed).find("has no mixed pool") != std::string::npos);
  std::vector<trace_row> unscored = rows;
  for (trace_row& r : unscored) r.score = std::numeric_limits<float>::quiet_NaN();
  p = {.name = "p", .summary = {}, .run = {}, .needs_scores = true};
  CHECK(refusal([&] {
          sim::require_suitable(p, plain, unscored, "the rows");
        }).find("20 of 20 in the rows have none") != std::string::npos);
}

}  // namespace
