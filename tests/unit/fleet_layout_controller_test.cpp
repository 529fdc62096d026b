// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/layout_controller.hpp>
#include <tessera/fleet/log.hpp>
#include <tessera/fleet/runtime.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace tessera;
using fleet::event;
using fleet::event_kind;
using fleet::seen_output;
using controller = fleet::layout_controller<>;
using lines = std::vector<std::string>;

constexpr float no_score = std::numeric_limits<float>::quiet_NaN();

/// A controller behind a runtime. Both allocate nothing.
struct told {
  owned_storage<controller::limits> memory;
  controller by;
  owned_storage<fleet::runtime_limits> storage;
  fleet::runtime rt;

  explicit told(fleet::layout_controller_settings s = {})
      : memory{storage_for<controller>({.replicas = 4, .requests = 64, .window = 32})},
        by{memory, with_budget(s)},
        storage{storage_for<fleet::runtime>({.book = {.replicas = 4, .reservations = 128}, .requests = 64})},
        rt{by, storage, router()} {}

  static fleet::layout_controller_settings with_budget(fleet::layout_controller_settings s) {
    s.placing.cost = {.alpha = 0.5, .beta = 2};
    s.placing.budget = {.peak_flops = 1e9, .ttft = duration{1}};
    s.first_plan = 2;
    s.first_window = 6;
    return s;
  }
  static fleet::runtime_settings router() {
    fleet::runtime_settings s;
    s.book.rest = duration{};
    s.book.lease = s.book.silence = duration::forever();
    return s;
  }
  lines operator()(const std::string& line) {
    event e;
    INFO(line);
    REQUIRE_FALSE(fleet::read(line, e));
    const tessera_test::no_allocation guard;
    const auto actions = rt.handle(e);
    CHECK(guard.allocations() == 0);
    lines out;
    fleet::log_line to;
    for (const fleet::action& a : actions) {
      const std::string said{fleet::write(a, to)};
      if (said.find("> note") == std::string::npos) out.push_back(said);
    }
    return out;
  }
  /// Six requests, of which three end after ten tokens each. Returns what the look at `at` seconds says.
  lines serves(const std::string& at) {
    for (int i = 0; i != 6; ++i) {
      const std::string request = " request=" + std::to_string(i);
      const lines placed = (*this)("1 arrived prompt=160" + request);
      REQUIRE(placed.size() == 1);
      const std::string replica = placed.front().substr(8, 9);
      if (i >= 3) continue;
      (*this)("1.5 progressed count=10" + request + " " + replica);
      (*this)("2 ended" + request);
    }
    return (*this)(at + " clock");
  }
};

void join(told& f, int replicas) {
  for (int i = 0; i != replicas; ++i) f("0 joined number=1 capacity=1000 replica=" + std::to_string(i));
}

TEST_CASE("fleet layout controller: a plan is asked for when enough is known, and made from what was seen") {
  told f;
  join(f, 2);
  CHECK(f("0.5 clock").empty());
  CHECK(f.serves("3") == lines{"> plan number=1"});
  const fleet::traffic_sample& seen = f.by.sample();
  REQUIRE(seen.requests.size() == 6);
  CHECK(seen.here == 3);
  CHECK(std::count_if(seen.requests.begin(), seen.requests.end(), [](const auto& r) { return r.ended; }) == 3);
  CHECK(seen.requests[0].generated == tokens{10});
  CHECK(seen.requests[0].prompt == tokens{160});
  CHECK(seen.requests[0].tenant == -1);
  // What was learned is expected of the next.
  const fleet::request_view next = f.by.expecting({.prompt = tokens{160}});
  CHECK(next.expected >= tokens{10});
  // No other is asked for meanwhile, however much comes.
  for (int i = 10; i != 30; ++i) f("4 arrived prompt=16 request=" + std::to_string(i));
  CHECK(f("5 clock").empty());
  CHECK(f.by.plans() == 1);
  f("6 planned number=1");
  CHECK(f("7 clock") == lines{"> plan number=2"});
  // Unless it does not come at all.
  CHECK(f("100 clock").empty());
  CHECK(f("700 clock") == lines{"> plan number=3"});
  f("701 lays_out replica=0 count=64");
  CHECK(f("701 planned number=2").empty());  // too late
  f("702 lays_out replica=0 count=64");
  CHECK(f("702 planned number=3") == lines{"> set_prefill_budget replica=0 low=64"});
}

TEST_CASE("fleet layout controller: a plan of ranges is carried out, and requests go by it") {
  told f;
  join(f, 3);
  f.serves("3");
  for (int i = 0; i != 3; ++i) f("4 ended request=" + std::to_string(3 + i));
  f("5 lays_out replica=0 high=4 count=128");
  f("5 lays_out replica=1 low=4 count=128");
  f("5 lays_out replica=2 low=4");
  CHECK(f("5 planned number=1") == lines{"> set_length_range replica=0 high=4",
                                         "> set_prefill_budget replica=0 low=128", "> set_length_range replica=1 low=4",
                                         "> set_prefill_budget replica=1 low=128", "> set_length_range replica=2 low=4",
                                         "> set_prefill_budget replica=2"});
  CHECK(f("6 clock").empty());
  CHECK(f("6 arrived prompt=40 request=20") == lines{"> place replica=0 request=20"});
  const lines one = f("6 arrived prompt=64 request=21");
  const lines two = f("6 arrived prompt=64 request=22");
  CHECK(one != lines{"> place replica=0 request=21"});
  CHECK(two != lines{"> place replica=0 request=22"});
  CHECK(one.front().substr(0, 17) != two.front().substr(0, 17));  // the least load
  // One that outgrows its range goes on in the next, at the replica with less.
  CHECK(f("7 first_token request=20 replica=0").empty());
  CHECK(f("8 progressed request=20 replica=0 count=24").front().ends_with("from=0 request=20"));
  // A replica that is back is told again.
  f("9 failed replica=2 number=1");
  CHECK(f("10 joined replica=2 number=2 capacity=1000") ==
        lines{"> set_length_range replica=2 low=4", "> set_prefill_budget replica=2"});
  // A replica that takes the place of a dead one has another number, and may come before the death is known.
  CHECK(f("11 joined replica=3 number=1 capacity=1000").empty());
  f("12 failed replica=1 number=1");
  CHECK(f("13 clock") == lines{"> set_length_range replica=3 low=4", "> set_prefill_budget replica=3 low=128"});
  CHECK(f("14 joined replica=1 number=2 capacity=1000").empty());
}

TEST_CASE("fleet layout controller: roles change by halves, and a prompt that is computed is handed over") {
  told f;
  join(f, 4);
  f.serves("3");
  for (int i = 0; i != 3; ++i) f("4 ended request=" + std::to_string(3 + i));
  f("5 lays_out replica=0 role=prefill");
  for (int i = 1; i != 4; ++i) f("5 lays_out role=decode replica=" + std::to_string(i));
  const lines first = f("5 planned number=1");
  CHECK(std::count_if(first.begin(), first.end(), [](const std::string& s) { return s.starts_with("> set_role"); }) ==
        2);
  CHECK(first.front() == "> set_prefill_budget replica=0");
  // The others take requests meanwhile.
  CHECK(f("5.5 arrived prompt=40 request=20").size() == 1);
  f("5.5 ended request=20");
  // While a change takes longer than a look, no more replicas change.
  CHECK(f("6 clock").empty());
  for (int i = 0; i != 2; ++i) f("6.2 role_changed replica=" + std::to_string(i));
  CHECK(f("6.3 clock").empty());
  CHECK(f("7 clock") == lines{"> set_role replica=2 role=decode", "> set_role replica=3 role=decode"});
  for (int i = 2; i != 4; ++i) f("7.5 role_changed replica=" + std::to_string(i));
  CHECK(f("8 clock").empty());
  CHECK(f("8 arrived prompt=40 request=21") == lines{"> place replica=0 request=21"});
  CHECK(f("8 arrived prompt=40 request=22") == lines{"> place replica=0 request=22"});
  const lines over = f("9 first_token request=21 replica=0");
  REQUIRE(over.size() == 1);
  CHECK(over.front().starts_with("> move replica="));
  CHECK(over.front().ends_with("from=0 request=21"));
  // A move that fails is tried again with the next block.
  CHECK(f("9.5 move_failed request=21 " + over.front().substr(7, 9)).empty());
  CHECK(f("10 progressed request=21 replica=0 count=20").size() == 1);
  // Another plan gives them all the same again.
  for (int i = 0; i != 20; ++i) f("11 arrived prompt=16 request=" + std::to_string(100 + i));
  CHECK(f("12 clock") == lines{"> plan number=2"});
  for (int i = 0; i != 4; ++i) f("13 lays_out replica=" + std::to_string(i));
  CHECK(f("13 planned number=2") == lines{"> set_role replica=0", "> set_role replica=1"});
}

TEST_CASE("fleet layout controller: an engine that cannot change its role is not told again") {
  told f;
  for (int i = 0; i != 2; ++i) f("0 joined number=1 capacity=1000 roles=0 replica=" + std::to_string(i));
  f.serves("3");
  f("5 lays_out replica=0 role=prefill");
  f("5 lays_out replica=1 role=decode");
  CHECK(f("5 planned number=1") == lines{"> set_prefill_budget replica=0", "> set_prefill_budget replica=1"});
  CHECK(f("6 clock").empty());
  // And it serves as before.
  CHECK(f("6 arrived prompt=40 request=20").size() == 1);
}

TEST_CASE("fleet learned lengths: what is expected, how far off it may be, and when lengths have drifted") {
  auto storage = storage_for<fleet::learned_lengths>({.window = 2000});
  fleet::learned_lengths lengths{storage};
  CHECK(lengths.expected_of(no_score, tokens{5}) == 0);
  CHECK(lengths.spread_of(0) == tokens{});
  std::mt19937 random{3};
  std::normal_distribution<double> normal{1000, 100};
  const auto draw = [&] { return tokens{std::llround(normal(random))}; };
  std::vector<seen_output> seen;
  for (int i = 0; i != 2000; ++i) seen.push_back({no_score, draw(), true, tokens{100}});
  const tessera_test::no_allocation guard;
  lengths.learn(seen);
  const float expected = lengths.expected_of(no_score, tokens{100});
  const tokens spread = lengths.spread_of(expected);
  CHECK(guard.allocations() == 0);
  CHECK(std::abs(expected - 1000) < 10);
  // Within a bin, an eighth wide, lengths count as spread evenly.
  CHECK(spread > tokens{70});
  CHECK(spread < tokens{140});
  for (int i = 0; i != 100; ++i) lengths.ended(no_score, tokens{100}, draw());
  CHECK(std::abs(lengths.drift()) < rank::length_distribution::drifts_at);
  for (int i = 0; i != 100; ++i) lengths.ended(no_score, tokens{100}, draw() + tokens{150});
  CHECK(lengths.drift() > rank::length_distribution::drifts_at);
  lengths.learn(std::span{seen}.first(10));
  CHECK(lengths.drift() == 0);
}

}  // namespace
