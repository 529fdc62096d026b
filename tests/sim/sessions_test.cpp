// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/lmetric.hpp>
#include <tessera/placement/prefix_affinity.hpp>
#include <tessera/placement/round_robin.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/input/trace.hpp>
#include <tessera/sim/report/report.hpp>

#include "sim/served.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using sim::cluster_of;
using sim::cluster_options;
using sim::request_record;
using sim::run_result;
using sim::trace_row;
using tessera_test::approx;
using tessera_test::row;
using tessera_test::toy_cluster;

using server = fcfs<sim::request, sim::kv_store>;
constexpr auto quiet = [](std::size_t) {};

template <class Scheduler = server, class Placement = placement::least_load>
run_result simulate(const cluster_options& o, const std::vector<trace_row>& rows) {
  return cluster_of<Scheduler, sim::placed<Placement>>{o, {}, {}}.run(rows, quiet);
}

trace_row turn(double arrival_s, std::int64_t session, double think_s, std::int64_t prompt, std::int64_t reasoning,
               std::int64_t answer) {
  trace_row r = row(arrival_s, prompt, reasoning, answer);
  r.session = session;
  r.think_s = think_s;
  return r;
}

/// Sessions with prompts that begin with one of a few system prompts, and requests that share some other text.
std::vector<trace_row> random_rows(std::uint64_t seed, std::size_t n, double gap) {
  std::mt19937_64 random{seed};
  const auto upto = [&](std::uint64_t most) { return static_cast<std::int64_t>(random() % (most + 1)); };
  std::map<std::int64_t, std::int64_t> history;
  std::vector<trace_row> rows;
  double at = 0;
  for (std::size_t i = 0; i != n; ++i) {
    at += std::exponential_distribution<double>{1 / gap}(random);
    const std::int64_t session = upto(11) - 4;
    const std::int64_t fresh = 1 + upto(60);
    const std::int64_t reasoning = random() % 4 == 0 ? 1 + upto(30) : 0;
    const std::int64_t answer = 1 + upto(40);
    const double think_s = static_cast<double>(upto(5));
    if (session < 0) {
      trace_row r = row(at, fresh, reasoning, answer);
      const std::int64_t shared = upto(3);
      std::int64_t left = fresh;
      for (std::int64_t k = 0; k != shared && left > 0; ++k, left -= 20) {
        r.runs.push_back({static_cast<std::uint64_t>(upto(1)), 20});
      }
      rows.push_back(r);
      continue;
    }
    std::int64_t& before = history[session];
    const bool first = before == 0;
    // Now and then a history is cut.
    const std::int64_t prompt = random() % 10 == 0 ? fresh : before + fresh;
    trace_row r = turn(at, session, think_s, prompt + (first ? 25 : 0), reasoning, answer);
    if (first) r.runs = {{static_cast<std::uint64_t>(100 + session % 2), 25}};
    before = r.prompt_tokens + (reasoning > 0 ? 0 : answer);
    rows.push_back(r);
  }
  return rows;
}

/// What a cache that forgets nothing finds, counted by the tokens themselves, if no two requests run at a time.
class oracle {
 public:
  explicit oracle(std::int64_t block) : block_{block} {}

  std::int64_t found(const trace_row& r, std::size_t index) {
    std::vector<token> text;
    if (r.session >= 0 && r.runs.empty() && static_cast<std::int64_t>(history_[r.session].size()) <= r.prompt_tokens) {
      text = history_[r.session];
    }
    for (const sim::text_run& run : r.runs) {
      for (std::int64_t i = 0; i != run.tokens && std::ssize(text) != r.prompt_tokens; ++i)
        text.emplace_back(run.id, i);
    }
    const auto own = static_cast<std::uint64_t>(1'000'000 + 2 * index);
    for (std::int64_t i = 0; std::ssize(text) != r.prompt_tokens; ++i) text.emplace_back(own, i);
    std::int64_t hits = 0;
    while ((hits + 1) * block_ < r.prompt_tokens && cached_.contains(first(text, (hits + 1) * block_))) ++hits;
    const std::vector<token> prompt = text;
    for (std::int64_t i = 0; i != r.output_tokens; ++i) text.emplace_back(own + 1, i);
    if (r.session >= 0) history_[r.session] = r.reasoning_tokens > 0 ? prompt : text;
    // The last token that is generated is never computed.
    for (std::int64_t end = block_; end < std::ssize(text); end += block_) cached_.insert(first(text, end));
    return hits * block_;
  }

 private:
  using token = std::pair<std::uint64_t, std::int64_t>;
  static std::vector<token> first(const std::vector<token>& text, std::int64_t n) {
    return {text.begin(), text.begin() + n};
  }

  std::int64_t block_;
  std::map<std::int64_t, std::vector<token>> history_;
  std::set<std::vector<token>> cached_;
};

void check_same(const run_result& a, const run_result& b) { CHECK(sim::format_csv(a) == sim::format_csv(b)); }

TEST_CASE("sessions: a turn comes when the one before has ended and was thought about", "[sim]") {
  // A step takes 0.25 s, one with a prompt 0.5 s more.
  const std::vector<trace_row> rows{turn(0, 0, 9, 10, 0, 2), turn(0, 0, 4, 20, 0, 1), turn(0.125, 1, 0, 10, 0, 1),
                                    turn(50, 1, 1, 20, 0, 1), turn(50, 1, 0, 30, 0, 1)};
  const run_result run = simulate(toy_cluster(2, 100), rows);
  tessera_test::check_served(run, rows);
  CHECK(run.requests[0].arrival == 0);  // of a first turn, the time before is its user's
  CHECK(run.requests[1].arrival == run.requests[0].finish + 4);
  CHECK(run.requests[2].arrival == 0.125);
  CHECK(run.requests[3].arrival == 50);  // not before its own time
  CHECK(run.requests[4].arrival == run.requests[3].finish);
  CHECK(run.numbers.measured == 5);
}

TEST_CASE("sessions: the next turn follows one that was refused", "[sim]") {
  cluster_options o = toy_cluster(1, 10);
  const std::vector<trace_row> rows{turn(0, 0, 0, 1000, 0, 2), turn(0, 0, 3, 20, 0, 2)};
  const run_result run = simulate(o, rows);
  CHECK(run.requests[0].rejected);
  CHECK(run.requests[1].completed());
  CHECK(run.requests[1].arrival == 3);
}

TEST_CASE("sessions: a turn that is too long for every instance costs no memory, and its history is cut", "[sim]") {
  const std::int64_t absurd = 1'000'000'000'000;
  const run_result r = simulate(toy_cluster(1, 20), {turn(0, 5, 0, 40, 0, 8), turn(0, 5, 1, absurd, 0, absurd),
                                                     turn(0, 5, 1, 100, 0, 8), turn(0, 5, 1, 120, 0, 8)});
  REQUIRE(r.requests.size() == 4);
  CHECK(r.requests[1].rejected);
  CHECK(r.requests[2].completed());
  CHECK(r.requests[2].cached_tokens == 0);
  CHECK(r.requests[3].cached_tokens > 0);
}

TEST_CASE("sessions: turns in their order, whatever the load, and again the same", "[sim]") {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const std::vector<trace_row> rows = random_rows(seed, 300, 0.3);
    for (const std::size_t in_flight : {0U, 5U}) {
      cluster_options o = toy_cluster(3, 120);
      o.in_flight = in_flight;
      o.host_request_seconds = 0.125;
      const run_result run = simulate<pascal<sim::request, sim::kv_store>>(o, rows);
      tessera_test::check_served(run, rows);
      check_same(run, simulate<pascal<sim::request, sim::kv_store>>(o, rows));
      std::map<std::int64_t, std::size_t> latest;
      for (std::size_t i = 0; i != rows.size(); ++i) {
        if (rows[i].session >= 0) {
          if (const auto before = latest.find(rows[i].session); before != latest.end()) {
            const double asked = run.requests[before->second].finish + rows[i].think_s;
            CHECK(run.requests[i].arrival == approx(in_flight == 0 ? std::max(asked, rows[i].arrival_s) : asked));
          }
          latest[rows[i].session] = i;
        } else if (in_flight == 0) {
          CHECK(run.requests[i].arrival == approx(rows[i].arrival_s));
        }
      }
    }
  }
}

TEST_CASE("prefixes: what is found is what an independent count finds", "[sim]") {
  for (const std::int64_t block : {1, 7, 16}) {
    // So far apart that none runs while another does.
    const std::vector<trace_row> rows = random_rows(11, 250, 10'000);
    cluster_options o = toy_cluster(1, 100'000);
    o.instance.limits.block_size = tokens{block};
    o.instance.limits.max_length = tokens{4096};
    const run_result run = simulate(o, rows);
    tessera_test::check_served(run, rows);
    oracle expected{block};
    double all = 0;
    double prompts = 0;
    for (std::size_t i = 0; i != rows.size(); ++i) {
      CAPTURE(i, block);
      const std::int64_t found = expected.found(rows[i], i);
      CHECK(run.requests[i].cached_tokens == found);
      all += static_cast<double>(found);
      prompts += static_cast<double>(rows[i].prompt_tokens);
    }
    CHECK(all > 0.2 * prompts);
    CHECK(run.numbers.prefix_hit_rate == approx(all / prompts));
    // What is found is not computed.
    double computed = 0;
    double outputs = 0;
    for (const trace_row& r : rows) outputs += static_cast<double>(r.output_tokens);
    for (const auto& f : run.instances) computed += static_cast<double>(f.computed_tokens);
    CHECK(computed == prompts - all + outputs - static_cast<double>(rows.size()));
    // Where requests run at the same time, or less is kept, no more is found.
    const std::vector<trace_row> dense = random_rows(11, 250, 0.5);
    CHECK(simulate(o, dense).numbers.prefix_hit_rate <= run.numbers.prefix_hit_rate);
    o.prefix_cache = false;
    const run_result without = simulate(o, rows);
    CHECK(without.numbers.prefix_hit_rate == 0);
    CHECK(without.numbers.completed == rows.size());
  }
}

TEST_CASE("prefixes: of what is longest unused the end goes first", "[sim]") {
  // There are 10 blocks. The first sequence has 6 (96 of its 97 tokens are computed), the second too. It takes the 4
  // that are free and 2 from the end of the first.
  const std::vector<trace_row> rows{turn(0, 0, 0, 90, 0, 7), row(100, 90, 0, 7), turn(200, 0, 0, 97, 0, 1)};
  const run_result run = simulate(toy_cluster(1, 10), rows);
  CHECK(run.requests[2].cached_tokens == 4 * 16);
  CHECK(simulate(toy_cluster(1, 12), rows).requests[2].cached_tokens == 6 * 16);
}

TEST_CASE("prefixes: an answer is part of the history, reasoning is not", "[sim]") {
  const auto found = [](std::int64_t reasoning, std::int64_t prompt) {
    return simulate(toy_cluster(1, 100), {turn(0, 0, 0, 40, reasoning, 60 - reasoning), turn(0, 0, 9, prompt, 0, 1)})
        .requests[1]
        .cached_tokens;
  };
  CHECK(found(0, 120) == 96);  // of 100 tokens 99 were computed
  CHECK(found(0, 100) == 96);
  CHECK(found(0, 99) == 0);     // shorter than the history: it was cut
  CHECK(found(20, 120) == 32);  // of the earlier prompt
}

TEST_CASE("prefixes: requests that share nothing are served as without a cache", "[sim]") {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    std::vector<trace_row> rows = random_rows(seed, 300, 0.3);
    for (trace_row& r : rows) {
      r.session = -1;
      r.runs.clear();
    }
    for (const std::size_t blocks : {20U, 60U, 1000U}) {
      const cluster_options o = toy_cluster(2, blocks);
      const run_result run = simulate(o, rows);
      check_same(run, simulate<fcfs<sim::request>>(o, rows));
      CHECK(run.numbers.prefix_hit_rate == 0);
    }
  }
}

/// A placement that looks into the scheduler itself.
struct checks_views {
  placement::prefix_affinity choice{};

  template <class C>
  std::size_t place(C& c, const sim::request& r) {
    c.look_at_prefixes(r);
    for (std::size_t i = 0; i != c.size(); ++i) {
      std::int64_t known = 0;
      for (const std::uint64_t hash : r.prefix_hashes()) {
        if (!c.at(i).started() || c.at(i).scheduler().known_blocks({&hash, 1}) == 0) break;
        ++known;
      }
      const std::int64_t cached = 16 * std::min(known, (r.prompt.count() - 1) / 16);
      CHECK(c.views()[i].cached_tokens.count() == cached);
      CHECK(c.views()[i].new_prefill_tokens.count() == r.prompt.count() - cached);
    }
    return choice(c.views());
  }
};

TEST_CASE("prefixes: placements see what each instance has", "[sim]") {
  const std::vector<trace_row> rows = random_rows(5, 300, 0.5);
  const run_result run = cluster_of<server, checks_views>{toy_cluster(3, 120)}.run(rows, quiet);
  tessera_test::check_served(run, rows);
  // On a quiet cluster all turns of a session go where its first was, and find as much as on one instance.
  const std::vector<trace_row> quiet_rows = random_rows(5, 300, 10'000);
  const double alone = simulate(toy_cluster(1, 100'000), quiet_rows).numbers.prefix_hit_rate;
  const cluster_options o = toy_cluster(4, 100'000);
  CHECK(simulate<server, placement::lmetric>(o, quiet_rows).numbers.prefix_hit_rate == approx(alone));
  CHECK(simulate<server, placement::prefix_affinity>(o, quiet_rows).numbers.prefix_hit_rate == approx(alone));
  CHECK(simulate<server, placement::round_robin>(o, quiet_rows).numbers.prefix_hit_rate < 0.8 * alone);
}

TEST_CASE("prefixes: of Mooncake's trace as much is found as its numbers say", "[sim]") {
  const std::filesystem::path file =
      std::filesystem::path{__FILE__}.parent_path() / "../../../shared/data/mooncake_synthetic_hashes.jsonl";
  if (!std::filesystem::exists(file)) return;
  sim::trace t = sim::read_trace(file.string());
  REQUIRE(t.rows.size() == 3993);
  CHECK(t.unused.empty());
  t.rows.resize(600);
  // One after the other, on an instance that forgets nothing: what is found was computed, to the whole block.
  constexpr std::int64_t block = 128;
  double found = 0;
  double prompts = 0;
  std::set<std::uint64_t> seen;
  std::vector<std::int64_t> expected;
  for (std::size_t i = 0; i != t.rows.size(); ++i) {
    trace_row& r = t.rows[i];
    r.arrival_s = 1e5 * static_cast<double>(i);
    r.output_tokens = r.answer_tokens = std::min<std::int64_t>(r.output_tokens, 5);
    std::int64_t known = 0;
    for (const sim::text_run& run : r.runs) {
      if (!seen.contains(run.id)) break;
      known += run.tokens;
    }
    for (const sim::text_run& run : r.runs) seen.insert(run.id);
    expected.push_back(std::min(known, r.prompt_tokens - 1) / block * block);
    found += static_cast<double>(expected.back());
    prompts += static_cast<double>(r.prompt_tokens);
  }
  cluster_options o = toy_cluster(1, 100'000);
  o.instance.limits.block_size = tokens{block};
  o.instance.limits.residents = 1;
  o.instance.limits.host_blocks = 1;
  o.instance.step.token_budget = tokens{1'000'000};
  const run_result run = simulate(o, t.rows);
  CHECK(run.numbers.completed == t.rows.size());
  for (std::size_t i = 0; i != t.rows.size(); ++i) CHECK(run.requests[i].cached_tokens == expected[i]);
  CHECK(run.numbers.prefix_hit_rate == approx(found / prompts));
  CHECK(run.numbers.prefix_hit_rate > 0.1);
}

}  // namespace
