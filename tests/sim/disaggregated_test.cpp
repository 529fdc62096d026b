// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/fcfs.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/input/archetypes.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/systems/disaggregated.hpp>

#include "sim/served.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using sim::cluster_of;
using sim::request;
using sim::run_result;
using sim::trace_row;
using tessera_test::approx;
using tessera_test::check_served;
using tessera_test::row;
using tessera_test::toy_cluster;

constexpr auto quiet = [](std::size_t) {};

/// Watches a policy: where requests prefill and decode, and that queues are counted right.
template <class Policy>
struct watched : Policy {
  std::map<std::size_t, std::pair<std::size_t, std::size_t>>* places = nullptr;
  std::size_t* epochs = nullptr;

  template <class C>
  std::size_t prefill_worker(C& c, sim::pools& p, const request& r) {
    check_queues(c, p);
    const std::size_t w = Policy::prefill_worker(c, p, r);
    CHECK(p.workers()[w].role != control::role::decode);
    (*places)[r.index].first = w;
    return w;
  }
  template <class C>
  std::size_t decode_worker(C& c, sim::pools& p, const request& r) {
    CHECK(r.where == (*places)[r.index].first);
    CHECK(r.generated() == tokens{1});
    const std::size_t w = Policy::decode_worker(c, p, r);
    (*places)[r.index].second = w;
    return w;
  }
  template <class C>
  void epoch(C& c, sim::pools& p) {
    ++*epochs;
    check_queues(c, p);
    if constexpr (requires { Policy::epoch(c, p); }) Policy::epoch(c, p);
  }

 private:
  template <class C>
  void check_queues(C& c, sim::pools& p) {
    for (const sim::pool_worker& w : p.workers()) {
      const auto here = c.at(w.id).requests();
      const auto queued =
          std::count_if(here.begin(), here.end(), [](const request* r) { return r->first_token_s < 0; });
      CHECK(w.load.requests() == static_cast<std::size_t>(queued));
    }
  }
};

std::vector<trace_row> rows_of(std::uint64_t seed, double rate, std::size_t n = 200) {
  sim::archetype a{.name = "t", .task = "test", .prompt = 60, .output = 20, .variation = 0.8};
  return sim::generate(a, {{static_cast<double>(n) / rate, rate}}, 2, seed);
}

template <class Policy>
run_result simulate(const sim::cluster_options& o, const sim::pool_sizes& sizes, Policy policy,
                    const std::vector<trace_row>& rows) {
  using control = sim::disaggregated<Policy>;
  return cluster_of<fcfs<request>, control>{o, {}, control{sizes, std::move(policy), 0.5}}.run(rows, quiet);
}

void check_complete(const run_result& r, const std::vector<trace_row>& rows) {
  check_served(r, rows);
  CHECK(r.numbers.fragmentation_mean <= r.numbers.fragmentation_peak);
  CHECK(r.measures.at("blocked_memory_mean") <= r.measures.at("blocked_memory_peak"));
  CHECK(r.measures.at("blocked_memory_peak") <= 1);
  CHECK(r.measures.at("prefill_queue_skew") >= 1);
}

TEST_CASE("disaggregated: a prompt is computed here, its answer there") {
  auto options = toy_cluster(2, 100);
  options.fabric_bytes_per_s = 100;
  const std::vector<trace_row> rows{row(0, 50, 0, 3), row(5, 50, 0, 1)};
  const run_result r = simulate(options, {1, 1, 0}, sim::distserve{}, rows);
  check_complete(r, rows);
  // A prefill of 0.5 s, 50 tokens of KV in 0.5 s, two more tokens.
  CHECK(r.requests[0].first_token == 0.5);
  CHECK(r.requests[0].finish == approx(1.5));
  CHECK(r.requests[0].instance == 1);
  CHECK(r.requests[0].migrations == 1);
  // One token is all: it ends where it was computed.
  CHECK(r.requests[1].finish == 5.5);
  CHECK(r.requests[1].instance == 0);
  CHECK(r.requests[1].migrations == 0);
}

TEST_CASE("disaggregated: a request goes to another decode worker if its own is found dead before its KV was there") {
  auto options = toy_cluster(3, 100);
  options.faults = {{.kind = sim::fault_kind::dies, .instance = 2, .at_s = 2, .for_s = 1000}};
  options.detection_s = 3;
  std::vector<trace_row> rows;
  for (int i = 0; i != 12; ++i) rows.push_back(row(i, 50, 0, 40));
  const run_result r = simulate(options, {1, 2, 0}, sim::distserve{}, rows);
  check_complete(r, rows);
  for (const sim::request_record& q : r.requests) {
    CAPTURE(q.id);
    CHECK(q.instance == 1);
    CHECK(q.migrations >= 1);
  }
}

TEST_CASE("disaggregated: while little is to be done, both pools take turns") {
  std::vector<trace_row> rows;
  for (int i = 0; i < 24; ++i) rows.push_back(row(10.0 * i, 20, 0, 5));
  const auto check_order = [&](auto policy) {
    std::map<std::size_t, std::pair<std::size_t, std::size_t>> places;
    std::size_t epochs = 0;
    watched<decltype(policy)> w{std::move(policy)};
    w.places = &places;
    w.epochs = &epochs;
    check_complete(simulate(toy_cluster(5, 100), {3, 2, 0}, std::move(w), rows), rows);
    for (const auto& [request, at] : places) CHECK(at == std::pair{request % 3, 3 + request % 2});
  };
  check_order(sim::distserve{});
  check_order(sim::memory_aware{});
  check_order(sim::splitwise{});
  sim::phasor_control::config c{.model =
                                    sim::calibrate_prefill(sim::step_timer{sim::profiles().front()}, duration{0.4})};
  c.changes_roles = c.defragments = false;
  check_order(sim::phasor_control{c});
  c.by_phi = false;
  check_order(sim::phasor_control{c});
}

TEST_CASE("disaggregated: static pools keep to their phase, whatever the load") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const auto rows = rows_of(seed, seed % 2 == 0 ? 8 : 1);
    std::map<std::size_t, std::pair<std::size_t, std::size_t>> places;
    std::size_t epochs = 0;
    watched<sim::distserve> policy;
    policy.places = &places;
    policy.epochs = &epochs;
    auto options = toy_cluster(5, 60);
    options.fabric_bytes_per_s = 1000;
    const run_result r = simulate(options, {2, 3, 0}, policy, rows);
    check_complete(r, rows);
    CHECK(epochs > 10);
    for (const auto& [index, where] : places) {
      CHECK(where.first < 2);
      if (rows[index].output_tokens > 1) CHECK(where.second >= 2);
    }
    CHECK(r.measures.at("role_changes") == 0);
  }
}

/// Watches that no more KV is at a worker than it has memory for.
struct keeps_to_memory : sim::distserve {
  std::size_t* held_back = nullptr;
  template <class C>
  void epoch(C& c, sim::pools& p) {
    for (const sim::pool_worker& w : p.workers()) {
      CHECK(c.at(w.id).device_blocks_held() <= c.capacity(w.id));
      if (w.role == control::role::prefill) continue;
      // A request that waits here has lost its blocks here, or comes in the step that is about to begin.
      CHECK(c.views()[w.id].waiting_blocks <= c.capacity(w.id));
    }
    for (const request& r : c.requests()) {
      if (r.migration.stage == sim::migration_stage::arrived) ++*held_back;
    }
  }
};

TEST_CASE("disaggregated: KV that has no room at its decode worker keeps its blocks where it was computed") {
  // One decode worker with room for a few; three prefill workers that could fill it many times.
  std::vector<trace_row> rows;
  for (int i = 0; i < 300; ++i) rows.push_back(row(0.05 * i, 60, 0, 200));
  auto options = toy_cluster(4, 100);
  options.kv_waits_at_source = true;
  std::size_t held_back = 0;
  keeps_to_memory policy;
  policy.held_back = &held_back;
  const run_result r = simulate(options, {3, 1, 0}, policy, rows);
  check_complete(r, rows);
  CHECK(held_back > 1000);
  // So the prompts wait, too: the whole is as fast as its decode worker.
  std::size_t early = 0;
  for (const sim::request_record& one : r.requests) early += one.first_token < 20 ? 1U : 0U;
  CHECK(early < rows.size() / 2);
}

/// Sends each sequence to the other decode worker, again and again, for a minute.
struct exchanges : sim::distserve {
  template <class C>
  void epoch(C& c, sim::pools&) {
    if (c.now_s() > 60) return;
    for (const auto& [from, to] : {std::pair<std::size_t, std::size_t>{1, 2}, {2, 1}}) {
      const auto here = c.at(from).requests();
      const std::vector<request*> all{here.begin(), here.end()};
      for (request* r : all) {
        if (sim::may_migrate(*r)) c.migrate(*r, to);
      }
    }
  }
};

TEST_CASE("disaggregated: two full workers that send to each other both get on") {
  std::vector<trace_row> rows;
  for (int i = 0; i < 120; ++i) rows.push_back(row(0.2 * i, 60, 0, 40));
  auto options = toy_cluster(3, 30);
  options.kv_waits_at_source = true;
  const run_result r = simulate(options, {1, 2, 0}, exchanges{}, rows);
  check_complete(r, rows);
  CHECK(r.numbers.migrations > rows.size() / 2);
}

TEST_CASE("disaggregated: routing by memory piles prompts up, routing by queue or Phi does not") {
  // Long prompts that are nearly done hold memory; a worker with many short ones in its queue holds little.
  const sim::archetype& mix = sim::archetypes().back();
  const sim::profile v100 = sim::find_profile("v100-qwen2.5-7b");
  const auto rows = sim::generate(mix, {{60, 20}}, 3, 1);
  auto options = toy_cluster(8, 14'000, v100);
  options.instance.limits.residents = 256;
  options.instance.step = {.max_batch = 256, .token_budget = tokens{2048}};
  options.fabric_bytes_per_s = 75e9;
  options.kv_bytes_per_token = v100.model.kv_bytes_per_token();
  sim::phasor_control::config config{.model = sim::calibrate_prefill(sim::step_timer{v100}, duration{0.4}),
                                     .changes_roles = false};
  CHECK(config.model.r_squared > 0.99);
  const run_result memory = simulate(options, {4, 4, 0}, sim::memory_aware{}, rows);
  const run_result phi = simulate(options, {4, 4, 0}, sim::phasor_control{config}, rows);
  check_complete(memory, rows);
  check_complete(phi, rows);
  CHECK(phi.measures.at("prefill_queue_skew") < 1.2);
  CHECK(memory.measures.at("prefill_queue_skew") > 1.15 * phi.measures.at("prefill_queue_skew"));
}

TEST_CASE("disaggregated: Phasor's pools change within their rules and everything ends") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const auto rows = rows_of(seed, 6, 300);
    std::map<std::size_t, std::pair<std::size_t, std::size_t>> places;
    std::size_t epochs = 0;
    const sim::profile toy = tessera_test::toy_profile();
    struct plain : sim::phasor_control {
      plain() : phasor_control{{.model = {.cost = {.alpha = 0, .beta = 1e9}, .budget = {1e12, duration{1.0}}}}} {}
    };
    watched<plain> policy;
    policy.places = &places;
    policy.epochs = &epochs;
    auto options = toy_cluster(6, 40);
    options.fabric_bytes_per_s = 1000;
    const run_result r = simulate(options, {2, 2, 2}, std::move(policy), rows);
    check_complete(r, rows);
    CHECK(r.measures.at("role_changes") >= 1);
    // A worker keeps a role for 20 epochs: six workers cannot change more often than that.
    CHECK(r.measures.at("role_changes") <= 6.0 * (static_cast<double>(epochs) / 20 + 1));
  }
}

TEST_CASE("disaggregated: a mixed worker of Splitwise decodes what it has prefilled") {
  std::map<std::size_t, std::pair<std::size_t, std::size_t>> places;
  std::size_t epochs = 0;
  watched<sim::splitwise> policy;
  policy.threshold = 0;
  policy.places = &places;
  policy.epochs = &epochs;
  const auto rows = rows_of(3, 20);
  auto options = toy_cluster(3, 200);
  options.fabric_bytes_per_s = 10'000;
  check_complete(simulate(options, {1, 1, 1}, policy, rows), rows);
  std::size_t helped = 0;
  for (const auto& [index, where] : places) {
    if (where.first != 2 || rows[index].output_tokens == 1) continue;
    ++helped;
    CHECK(where.second == 2);
  }
  CHECK(helped > 10);
}

TEST_CASE("archetypes: lengths and arrivals are those that were asked for") {
  for (const sim::archetype& a : sim::archetypes()) {
    CAPTURE(a.name);
    CHECK(a.ttft_slo_s > 0);
    CHECK(a.tpot_slo_s > 0);
    const auto rows = sim::generate(a, {{2000, 10}}, 1, 7);
    double prompt = 0;
    double squares = 0;
    double output = 0;
    for (const trace_row& r : rows) {
      prompt += static_cast<double>(r.prompt_tokens);
      squares += static_cast<double>(r.prompt_tokens) * static_cast<double>(r.prompt_tokens);
      output += static_cast<double>(r.output_tokens);
      CHECK(r.prompt_tokens >= 1);
      CHECK(r.output_tokens == r.answer_tokens);
      CHECK(r.output_tokens >= 1);
    }
    const auto n = static_cast<double>(rows.size());
    CHECK(n == approx(20'000).epsilon(0.03));
    CHECK(prompt / n == approx(a.prompt).epsilon(0.04));
    CHECK(output / n == approx(a.output).epsilon(0.04));
    const double mean = prompt / n;
    CHECK(std::sqrt(squares / n - mean * mean) / mean == approx(a.variation).epsilon(0.1));
  }
}

TEST_CASE("archetypes: a burst has its rate while it lasts, and the variation that was asked for") {
  const sim::archetype& a = sim::archetypes().front();
  const auto rows = sim::generate(a, {{1000, 5}, {1000, 25}, {1000, 5}}, 3, 11);
  std::array<double, 3> count{};
  double last = -1;
  for (const trace_row& r : rows) {
    CHECK(r.arrival_s >= last);
    CHECK(r.arrival_s < 3000);
    last = r.arrival_s;
    count[static_cast<std::size_t>(r.arrival_s / 1000)] += 1;
  }
  CHECK(count[0] == approx(5000).epsilon(0.2));
  CHECK(count[1] == approx(25'000).epsilon(0.1));
  CHECK(count[2] == approx(5000).epsilon(0.2));
  std::vector<double> gaps;
  for (std::size_t i = 1; i < rows.size() && rows[i].arrival_s < 1000; ++i) {
    gaps.push_back(rows[i].arrival_s - rows[i - 1].arrival_s);
  }
  double sum = 0;
  double squares = 0;
  for (const double g : gaps) {
    sum += g;
    squares += g * g;
  }
  const auto n = static_cast<double>(gaps.size());
  const double mean = sum / n;
  CHECK(std::sqrt(squares / n - mean * mean) / mean == approx(3).epsilon(0.2));
  // The same seed, the same rows.
  const auto again = sim::generate(a, {{1000, 5}, {1000, 25}, {1000, 5}}, 3, 11);
  REQUIRE(again.size() == rows.size());
  CHECK(again.back().arrival_s == rows.back().arrival_s);
  CHECK(again.back().output_tokens == rows.back().output_tokens);
}

}  // namespace
