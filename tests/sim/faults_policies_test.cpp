// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/report/report.hpp>

#include "sim/served.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"
#include "support/is_slow.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using sim::cluster_options;
using sim::fault;
using sim::fault_kind;
using sim::request_record;
using sim::run_result;
using sim::trace_row;
using tessera_test::row;

constexpr auto quiet = [](std::size_t) {};

struct trial {
  cluster_options options;
  std::vector<trace_row> rows;
};

/// Short requests on a few instances, of which something happens to one every other second.
trial draw(std::uint64_t seed) {
  std::mt19937_64 random{seed};
  const auto upto = [&](std::uint64_t most) { return static_cast<std::int64_t>(random() % (most + 1)); };
  const std::size_t instances = 3 + random() % 4;
  const std::size_t blocks = random() % 3 == 0 ? 30 : 120;
  trial t{tessera_test::toy_cluster(instances, blocks), {}};
  cluster_options& o = t.options;
  o.fabric_bytes_per_s = random() % 2 == 0 ? 20 : 2000;
  o.detection_s = 0.25 * static_cast<double>(upto(12));
  o.seed = seed;
  double at = 0;
  for (int i = 0; i != 120; ++i) {
    at += 0.01 * static_cast<double>(upto(40));
    const std::int64_t prompt = 1 + upto(150);
    const std::int64_t reasoning = random() % 2 == 0 ? 0 : upto(60);
    const std::int64_t answer = 1 + upto(60);
    t.rows.push_back(row(at, prompt, reasoning, answer));
    t.rows.back().score = static_cast<float>(reasoning + answer);
  }
  const bool unlike = random() % 3 == 0;
  if (unlike) {
    o.each.assign(instances, o.instance);
    for (std::size_t i = 1; i != instances; ++i) o.each[i].limits.blocks = blocks - 8 * i / 2;
  }
  for (double when = 0.5; when < at + 10; when += 0.125 * static_cast<double>(1 + upto(15))) {
    fault f{.instance = random() % instances, .at_s = when, .for_s = 0.125 * static_cast<double>(1 + upto(60))};
    switch (random() % 4) {
      case 0: f.kind = fault_kind::hangs; break;
      case 1:
        f.kind = fault_kind::slows;
        f.factor = 0.5 * static_cast<double>(1 + upto(5));
        break;
      default:
        // The first always has a next life.
        if (f.instance != 0 && random() % 8 == 0) f.for_s = std::numeric_limits<double>::infinity();
    }
    o.faults.push_back(f);
  }
  return t;
}

TEST_CASE("faults: under every published policy each request ends once, with each token once, and so again") {
  std::uint64_t recovered = 0;
  std::uint64_t moved = 0;
  for (const sim::policy& p : sim::published_policies()) {
    if (p.name == "slack-refusing") continue;  // it does not serve all
    for (std::uint64_t seed = 1; seed <= (tessera_test::is_slow ? 3 : 25); ++seed) {
      CAPTURE(p.name, seed);
      const trial t = draw(seed);
      const run_result first = p.run(t.options, t.rows, quiet);
      tessera_test::check_served(first, t.rows);
      REQUIRE(first.requests.size() == t.rows.size());
      std::uint64_t recoveries = 0;
      double preempted = 0;
      std::uint64_t computed = 0;
      std::int64_t needed = 0;
      for (std::size_t i = 0; i != t.rows.size(); ++i) {
        const request_record& r = first.requests[i];
        CHECK(r.id == i);
        CHECK(r.arrival == t.rows[i].arrival_s);
        CHECK(r.arrival <= r.first_scheduled);
        CHECK(r.first_scheduled < r.first_token);
        CHECK(r.first_token <= r.first_answer);
        CHECK(r.first_answer <= r.finish);
        CHECK(r.executed > 0);
        CHECK(r.executed + r.blocked + r.preempted == tessera_test::approx(r.e2e()).epsilon(1e-9));
        recoveries += r.recoveries;
        moved += r.migrations;
        preempted += r.preemptions;
        needed += t.rows[i].prompt_tokens + t.rows[i].output_tokens - 1;
      }
      for (const sim::instance_facts& f : first.instances) computed += f.computed_tokens;
      CHECK(first.numbers.faults.recovered == recoveries);
      // Nothing but preemption and death has anything computed again.
      const double again = static_cast<double>(computed) - static_cast<double>(needed);
      CHECK(again >= first.numbers.faults.recomputed);
      if (preempted == 0) CHECK(again == first.numbers.faults.recomputed);
      if (const auto b = first.measures.find("blocks_still_promised"); b != first.measures.end()) CHECK(b->second == 0);
      recovered += recoveries;
      const run_result second = p.run(t.options, t.rows, quiet);
      CHECK(sim::format_csv(first) == sim::format_csv(second));
    }
  }
  CHECK(recovered > 1000);
  CHECK(moved > 1000);
}

TEST_CASE("faults: that nothing goes wrong changes nothing, whatever is known of the future") {
  for (const sim::policy& p : sim::published_policies()) {
    CAPTURE(p.name);
    trial t = draw(5);
    t.options.faults.clear();
    t.options.each.clear();
    const run_result never = p.run(t.options, t.rows, quiet);
    CHECK(never.numbers.faults.deaths == 0);
    CHECK(never.numbers.faults.recovered == 0);
    t.options.faults = {{.kind = fault_kind::dies, .instance = 0, .at_s = 1e6}};
    CHECK(sim::format_csv(p.run(t.options, t.rows, quiet)) == sim::format_csv(never));
    // Unlike instances that are alike.
    t.options.each.assign(t.options.instances, t.options.instance);
    CHECK(sim::format_csv(p.run(t.options, t.rows, quiet)) == sim::format_csv(never));
  }
}

}  // namespace
