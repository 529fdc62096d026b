// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/fcfs.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>

#include "sim/served.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
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
using sim::request;
using sim::run_result;
using sim::trace_row;
using tessera_test::approx;
using tessera_test::check_served;
using tessera_test::row;
using tessera_test::toy_cluster;

constexpr auto quiet = [](std::size_t) {};

/// What a control was told, and when.
struct note {
  std::string what;
  double at_s;
  std::size_t who;
  friend bool operator==(const note& a, const note& b) {
    return a.what == b.what && a.who == b.who && std::abs(a.at_s - b.at_s) < 1e-9;
  }
};

/// Everything starts on instance 0; after `delay_s` the first request migrates to instance 1, running on.
struct migrates_later {
  double delay_s = 0;
  std::vector<note>* notes;
  bool refused = false;

  template <class C>
  void starts(C& c) {
    c.call_after(delay_s, 7);
  }
  template <class C>
  std::size_t place(C&, const request&) {
    return 0;
  }
  template <class C>
  void alarm(C& c, std::uint64_t what) {
    REQUIRE(what == 7);
    notes->push_back({c.migrate(c.requests()[0], 1) ? "migrates" : "refused", c.now_s(), 0});
  }
  template <class C>
  void prefilled(C& c, request& r) {
    notes->push_back({"prefilled", c.now_s(), r.index});
  }
  template <class C>
  void moved(C& c, request& r) {
    notes->push_back({"moved", c.now_s(), r.index});
    CHECK(r.where == 1);
  }
  template <class C>
  void finished(C& c, request& r) {
    notes->push_back({"finished", c.now_s(), r.index});
  }
};

TEST_CASE("control: a live migration copies while the request runs, and stops it for the last tokens only") {
  auto options = toy_cluster(2, 100);
  options.fabric_bytes_per_s = 20;  // 100 tokens in 5 s
  std::vector<note> notes;
  const std::vector<trace_row> rows{row(0, 100, 0, 60)};
  const run_result result =
      cluster_of<fcfs<request>, migrates_later>{options, {}, {.delay_s = 0.6, .notes = &notes}}.run(rows, quiet);
  // At 0.6 s, 100 tokens have KV, 7 blocks: copied by 6.2 s. By then 22 steps of 0.25 s have ended. 122 tokens are 8
  // blocks, two of them dirty. So it stops when the step under way ends, at 6.25 s, and the two blocks take 1.6 s.
  CHECK(notes ==
        std::vector<note>{{"prefilled", 0.5, 0}, {"migrates", 0.6, 0}, {"moved", 7.85, 0}, {"finished", 16.85, 0}});
  REQUIRE(result.downtimes.size() == 1);
  CHECK(result.downtimes[0] == approx(1.6));
  CHECK(result.numbers.kv_transfer_p99 == approx(7.25));
  CHECK(result.requests[0].migrations == 1);
  CHECK(result.requests[0].instance == 1);
  CHECK(result.requests[0].blocked == approx(1.6));
  CHECK(result.numbers.completed == 1);
  REQUIRE(result.instances.size() == 2);
  CHECK(result.instances[0].output_tokens == 24);
  CHECK(result.instances[1].output_tokens == 36);
  CHECK(result.instances[0].busy_s == approx(6.25));
  CHECK(result.instances[1].busy_s == approx(9));
  CHECK(result.instances[0].computed_tokens + result.instances[1].computed_tokens == 159);
}

TEST_CASE("control: the time a migrating request stands still does not depend on its length") {
  auto options = toy_cluster(2, 10'000);
  options.fabric_bytes_per_s = 400;
  std::vector<double> downtimes;
  for (const std::int64_t prompt : {500, 5'000, 50'000}) {
    std::vector<note> notes;
    const std::vector<trace_row> rows{row(0, prompt, 0, 2000)};
    const run_result result =
        cluster_of<fcfs<request>, migrates_later>{options, {}, {.delay_s = 20, .notes = &notes}}.run(rows, quiet);
    REQUIRE(result.downtimes.size() == 1);
    downtimes.push_back(result.downtimes[0]);
    // At most three blocks, at 400 tokens a second.
    CHECK(result.downtimes[0] <= 48.0 / 400 + 1e-9);
    CHECK(result.numbers.kv_transfer_p99 >= static_cast<double>(prompt) / 400);
  }
}

TEST_CASE("control: a migration ends with its request, and frees what it had announced") {
  auto options = toy_cluster(2, 100);
  options.fabric_bytes_per_s = 1;  // far too slow
  std::vector<note> notes;
  const std::vector<trace_row> rows{row(0, 100, 0, 8), row(10, 50, 0, 1)};
  const run_result result =
      cluster_of<fcfs<request>, migrates_later>{options, {}, {.delay_s = 0.6, .notes = &notes}}.run(rows, quiet);
  CHECK(notes ==
        std::vector<note>{{"prefilled", 0.5, 0}, {"migrates", 0.6, 0}, {"finished", 2.25, 0}, {"finished", 10.5, 1}});
  CHECK(result.downtimes.empty());
  CHECK(result.numbers.migrations == 0);
  // A request without a token, or that has ended, does not migrate.
  for (const double delay : {0.1, 2.5}) {
    notes.clear();
    cluster_of<fcfs<request>, migrates_later> c{options, {}, {.delay_s = delay, .notes = &notes}};
    (void)c.run(rows, quiet);
    CHECK(std::count_if(notes.begin(), notes.end(), [](const note& n) { return n.what == "refused"; }) == 1);
    for (const sim::instance_view& v : c.views()) {
      CHECK(v.requests == 0);
      CHECK(v.kv_held == blocks{});
      CHECK(v.free_blocks == blocks{100});
    }
  }
}

/// Places by what is held and waited for, moves now and then, and counts anew what the views say.
struct counts_anew {
  placement::least_load least{};
  std::size_t* waited;

  template <class C>
  void check(const C& c, std::size_t i) const {
    const blocks held = c.at(i).blocks_held();
    blocks needs{};
    for (const request* r : c.at(i).requests()) needs += blocks_for(r->state().length, tokens{16});
    REQUIRE(c.views()[i].waiting_blocks == max(needs - held, blocks{}));
    *waited += needs > held ? 1U : 0U;
  }
  template <class C>
  std::size_t place(C& c, const request&) {
    for (std::size_t i = 0; i != c.size(); ++i) check(c, i);
    return least(c.views());
  }
  template <class C>
  void step_ended(C& c, std::size_t i) {
    check(c, i);
    std::size_t waiting = 0;
    for (const request* r : c.at(i).requests()) waiting += r->state().life == lifecycle::waiting ? 1U : 0U;
    REQUIRE(c.views()[i].queued == waiting);
    for (request* r : c.at(i).requests()) {
      if (r->index % 5 == 0 && r->migrations == 0 && c.migrate(*r, (i + 1) % c.size())) break;
    }
  }
};

TEST_CASE("control: views say what waiting requests need, at every event") {
  std::size_t waited = 0;
  std::size_t preempted = 0;
  std::size_t migrated = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    std::mt19937_64 random{seed};
    std::vector<trace_row> rows;
    for (int i = 0; i < 150; ++i) {
      const auto prompt = static_cast<std::int64_t>(1 + random() % 120);
      rows.push_back(row(0.2 * i, prompt, 0, static_cast<std::int64_t>(1 + random() % 60)));
    }
    auto options = toy_cluster(3, 24);
    options.instance.step.token_budget = tokens{48};  // prompts in chunks
    if (seed % 2 == 0) options.instance.limits.host_blocks = 0;
    const run_result result =
        cluster_of<fcfs<request>, counts_anew>{options, {}, {.least = {}, .waited = &waited}}.run(rows, quiet);
    check_served(result, rows);
    preempted += result.numbers.preemptions;
    migrated += result.numbers.migrations;
  }
  CHECK(waited > 1000);
  CHECK(preempted > 50);
  CHECK(migrated > 20);
}

/// Sets alarms and writes down what comes when.
struct alarmed {
  std::vector<note>* notes;
  template <class C>
  void starts(C& c) {
    c.call_after(2, 2);
    c.call_after(1, 10);
    c.call_after(1, 11);
    c.call_after(0.5, 1);
  }
  template <class C>
  std::size_t place(C& c, const request& r) {
    notes->push_back({"place", c.now_s(), r.index});
    return 0;
  }
  template <class C>
  void alarm(C& c, std::uint64_t what) {
    notes->push_back({"alarm", c.now_s(), static_cast<std::size_t>(what)});
    if (what == 1) c.call_after(0.25, 3);
  }
  template <class C>
  void step_ended(C& c, std::size_t i) {
    notes->push_back({"step", c.now_s(), i});
  }
};

TEST_CASE("control: at equal times arrivals, then alarms in the order of setting, then ends of steps") {
  std::vector<note> notes;
  const std::vector<trace_row> rows{row(0, 10, 0, 3), row(1, 10, 0, 1)};
  const run_result result = cluster_of<fcfs<request>, alarmed>{toy_cluster(1, 100), {}, {&notes}}.run(rows, quiet);
  CHECK(result.numbers.completed == 2);
  CHECK(notes == std::vector<note>{{"place", 0, 0},
                                   {"alarm", 0.5, 1},
                                   {"step", 0.5, 0},
                                   {"alarm", 0.75, 3},
                                   {"step", 0.75, 0},
                                   {"place", 1, 1},
                                   {"alarm", 1, 10},
                                   {"alarm", 1, 11},
                                   {"step", 1, 0},
                                   {"step", 1.5, 0}});
}

/// Wants to be called each second, for ever.
struct ticking {
  std::vector<double>* ticks;
  template <class C>
  void starts(C& c) {
    c.call_after(1, 0);
  }
  template <class C>
  std::size_t place(C&, const request&) {
    return 0;
  }
  template <class C>
  void alarm(C& c, std::uint64_t) {
    ticks->push_back(c.now_s());
    c.call_after(1, 0);
  }
};

TEST_CASE("control: it sleeps through a long time without requests, and is awake for what comes then") {
  std::vector<double> ticks;
  const double night_s = 1e8;
  const std::vector<trace_row> rows{row(0, 10, 0, 3), row(50, 10, 0, 1), row(night_s, 10, 0, 20)};
  const run_result result = cluster_of<fcfs<request>, ticking>{toy_cluster(1, 100), {}, {&ticks}}.run(rows, quiet);
  CHECK(result.numbers.completed == 3);
  CHECK(result.requests[2].first_token == night_s + 0.5);
  // A minute's pause is none; of a longer one the first minute is like any time, and the rest is not.
  const auto day =
      static_cast<std::size_t>(std::count_if(ticks.begin(), ticks.end(), [&](double at) { return at < night_s; }));
  CHECK(day >= 50 + 60);
  CHECK(day <= 50 + 62);
  CHECK(ticks.size() > day + 4);
  for (std::size_t i = 1; i < ticks.size(); ++i) CHECK((i == day || ticks[i] == ticks[i - 1] + 1));
  CHECK(ticks[day] >= night_s);
  CHECK(ticks[day] <= night_s + 1);
}

TEST_CASE("control: a fault in a long pause happens when it is due") {
  std::vector<double> ticks;
  cluster_options o = toy_cluster(2, 100);
  o.faults = {{.instance = 1, .at_s = 5e5, .for_s = 3}};
  const std::vector<trace_row> rows{row(0, 10, 0, 3), row(1e6, 10, 0, 1)};
  const run_result result = cluster_of<fcfs<request>, ticking>{o, {}, {&ticks}}.run(rows, quiet);
  CHECK(result.numbers.completed == 2);
  CHECK(result.numbers.faults.deaths == 1);
  CHECK(result.numbers.faults.down_s == 3);
  CHECK(ticks.size() < 100);
}

TEST_CASE("control: the caller is told of progress though nothing ends") {
  std::vector<double> ticks;
  const std::vector<trace_row> rows{row(0, 10, 0, 20'000)};
  std::size_t calls = 0;
  std::size_t last = 0;
  cluster_options o = toy_cluster(1, 2000);
  const run_result result = cluster_of<fcfs<request>, ticking>{o, {}, {&ticks}}.run(rows, [&](std::size_t completed) {
    ++calls;
    CHECK(completed >= last);
    last = completed;
  });
  CHECK(result.numbers.completed == 1);
  CHECK(last == 1);
  CHECK(calls >= 4);
}

/// Counts how many requests are in flight.
struct counting {
  std::size_t* now;
  std::size_t* most;
  template <class C>
  std::size_t place(C&, const request&) {
    *most = std::max(*most, ++*now);
    return 0;
  }
  template <class C>
  void finished(C&, request&) {
    --*now;
  }
};

TEST_CASE("control: in a closed loop as many run as asked for, whatever their arrivals say") {
  for (const std::size_t in_flight : {std::size_t{1}, std::size_t{3}, std::size_t{50}}) {
    auto options = toy_cluster(1, 100);
    options.in_flight = in_flight;
    std::vector<trace_row> rows;
    for (int i = 0; i < 40; ++i) rows.push_back(row(i * 100.0, 10, 0, 1 + i % 5));
    std::size_t now = 0;
    std::size_t most = 0;
    const run_result result = cluster_of<fcfs<request>, counting>{options, {}, {&now, &most}}.run(rows, quiet);
    CHECK(result.numbers.completed == 40);
    CHECK(most == std::min<std::size_t>(in_flight, 40));
    CHECK(now == 0);
    CHECK(result.requests.back().finish < 40.0 * 2);  // no request waits for an arrival in the trace
    if (in_flight == 1) {
      double expected = 0;
      for (const sim::request_record& r : result.requests) {
        CHECK(r.arrival == approx(expected));
        expected = r.finish;
      }
    }
  }
}

/// Migrates and moves at random, as fast as it can.
struct restless {
  std::uint64_t seed;
  std::mt19937_64 random{seed};
  std::size_t* moves;

  template <class C>
  std::size_t place(C& c, const request&) {
    return random() % c.size();
  }
  template <class C>
  void step_ended(C& c, std::size_t i) {
    const auto here = c.at(i).requests();
    if (here.empty()) return;
    request& r = *here[random() % here.size()];
    const std::size_t to = random() % c.size();
    if (to == i || r.migration.stage != sim::migration_stage::none) return;
    if (random() % 2 == 0) {
      *moves += c.migrate(r, to) ? 1U : 0U;
    } else {
      c.move(r, to);
      ++*moves;
    }
  }
};

std::vector<trace_row> short_rows(std::uint64_t seed, int n) {
  std::mt19937_64 random{seed};
  std::vector<trace_row> rows;
  double at = 0;
  for (int i = 0; i < n; ++i) {
    at += std::exponential_distribution<double>{2}(random);
    rows.push_back(
        row(at, 1 + static_cast<std::int64_t>(random() % 99), 0, 1 + static_cast<std::int64_t>(random() % 60)));
  }
  return rows;
}

template <class C>
void check_empty(C& c) {
  for (const sim::instance_view& v : c.views()) {
    CHECK(v.requests == 0);
    CHECK(v.kv_held == blocks{});
  }
}

TEST_CASE("control: requests that are moved all the time lose nothing and all end") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    auto options = toy_cluster(1 + seed % 4, seed % 2 == 0 ? 400 : 40);
    options.fabric_bytes_per_s = 300;
    const std::vector<trace_row> rows = short_rows(seed, 150);
    std::size_t moves = 0;
    cluster_of<fcfs<request>, restless> c{options, {}, {.seed = seed, .moves = &moves}};
    const run_result result = c.run(rows, quiet);
    check_served(result, rows);
    if (c.size() > 1) CHECK(moves > 50);
    for (const sim::request_record& r : result.requests) {
      CHECK(r.executed + r.blocked + r.preempted == approx(r.finish - r.arrival).epsilon(1e-9));
    }
    check_empty(c);
  }
}

/// Request `i` starts on instance `i % 2`; the first `movers` move to the other one after their prefill. With `cut`, a
/// migration is called off when all has arrived.
struct moves_once {
  std::size_t movers = 1;
  bool cut = false;
  std::vector<note>* notes;

  template <class C>
  std::size_t place(C&, const request& r) {
    return movers == 1 ? 0 : r.index % 2;
  }
  template <class C>
  void prefilled(C& c, request& r) {
    if (r.index < movers && r.migrations == 0) c.move(r, 1 - r.where);
  }
  template <class C>
  void arrived(C& c, request& r) {
    notes->push_back({"arrived", c.now_s(), r.index});
    CHECK(c.at(r.where).device_blocks_held() >= blocks{7});
    cut ? c.cut_migration(r) : c.admit(r);
    CHECK(r.state().life == (cut ? lifecycle::resident : lifecycle::waiting));
  }
};

TEST_CASE("control: the blocks of a request that moves are taken where it was until its KV has crossed") {
  auto options = toy_cluster(2, 8);
  options.fabric_bytes_per_s = 20;  // 100 tokens in 5 s
  std::vector<note> notes;
  const std::vector<trace_row> rows{row(0, 100, 0, 9), row(1, 40, 0, 1)};
  const run_result result =
      cluster_of<fcfs<request>, moves_once>{options, {}, {.movers = 1, .notes = &notes}}.run(rows, quiet);
  CHECK(notes == std::vector<note>{{"arrived", 5.5, 0}});
  CHECK(result.requests[0].instance == 1);
  CHECK(result.requests[0].finish == approx(5.5 + 8 * 0.25));
  // 7 of 8 blocks are taken: the second finds room when they have gone, and not a moment later.
  CHECK(result.requests[1].instance == 0);
  CHECK(result.requests[1].first_scheduled == approx(5.5));
}

TEST_CASE(
    "control: a request whose migration is called off goes on where it was, with its KV and before all who wait") {
  auto options = toy_cluster(2, 9);
  options.fabric_bytes_per_s = 20;
  std::vector<note> notes;
  const std::vector<trace_row> rows{row(0, 100, 0, 9), row(1, 40, 0, 1)};
  const run_result result =
      cluster_of<fcfs<request>, moves_once>{options, {}, {.movers = 1, .cut = true, .notes = &notes}}.run(rows, quiet);
  CHECK(notes == std::vector<note>{{"arrived", 5.5, 0}});
  CHECK(result.requests[0].instance == 0);
  CHECK(result.requests[0].migrations == 0);
  CHECK(result.requests[0].finish == approx(5.5 + 8 * 0.25));
  CHECK(result.requests[1].first_scheduled == approx(5.5 + 8 * 0.25));
  CHECK(result.instances[0].computed_tokens == 100 + 8 + 40);
}

TEST_CASE("control: two full instances that send to each other both get on") {
  auto options = toy_cluster(2, 8);
  options.fabric_bytes_per_s = 20;
  std::vector<note> notes;
  const std::vector<trace_row> rows{row(0, 100, 0, 9), row(0, 100, 0, 9)};
  const run_result result =
      cluster_of<fcfs<request>, moves_once>{options, {}, {.movers = 2, .notes = &notes}}.run(rows, quiet);
  CHECK(notes == std::vector<note>{{"arrived", 5.5, 0}, {"arrived", 5.5, 1}});
  for (std::size_t i : {0U, 1U}) {
    CHECK(result.requests[i].instance == 1 - i);
    CHECK(result.requests[i].finish == approx(5.5 + 8 * 0.25));
  }
}

/// As `restless`, and calls migrations off, at any moment, and lets those that have arrived wait.
struct fickle : restless {
  std::vector<request*> there{};
  std::size_t* cut;

  template <class C>
  void starts(C& c) {
    c.call_after(0.1, 0);
  }
  template <class C>
  void arrived(C& c, request& r) {
    if (random() % 3 == 0) return there.push_back(&r);
    decide(c, r);
  }
  template <class C>
  void alarm(C& c, std::uint64_t) {
    for (request* r : std::exchange(there, {})) {
      if (r->migration.stage == sim::migration_stage::arrived) decide(c, *r);
    }
    request& r = c.requests()[random() % c.requests().size()];
    if (r.migration.stage != sim::migration_stage::none) {
      ++*cut;
      c.cut_migration(r);
    }
    c.call_after(0.1, 0);
  }

 private:
  template <class C>
  void decide(C& c, request& r) {
    if (random() % 3 != 0) return c.admit(r);
    ++*cut;
    c.cut_migration(r);
  }
};

TEST_CASE("control: requests with migrations that are called off at any moment lose nothing and all end") {
  std::size_t cut = 0;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    auto options = toy_cluster(2 + seed % 3, seed % 2 == 0 ? 400 : 40);
    options.fabric_bytes_per_s = 300;
    const std::vector<trace_row> rows = short_rows(seed, 100);
    std::size_t moves = 0;
    fickle control{{.seed = seed, .moves = &moves}, {}, &cut};
    cluster_of<fcfs<request>, fickle> c{options, {}, control};
    const run_result result = c.run(rows, quiet);
    check_served(result, rows);
    check_empty(c);
  }
  CHECK(cut > 500);
}

}  // namespace
