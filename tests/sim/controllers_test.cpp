// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What is simulated is what is deployed. The events that a simulated router hears are a log of text. A
// `fleet::runtime` takes that log and gives the same actions, byte for byte. They are what the simulated instances did.
#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/log.hpp>
#include <tessera/fleet/runtime.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/cluster/controlled.hpp>

#include "sim/cluster_runs.hpp"
#include "sim/served.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"
#include "support/fleet_controllers.hpp"
#include "support/is_slow.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using sim::controlled;
using sim::run_result;
using sim::trace_row;
using tessera_test::check_served;
using tessera_test::row;
using tessera_test::toy_cluster;
using tessera_test::cluster_runs::random_rows;

constexpr auto quiet = [](std::size_t) {};

template <class Make>
controlled control_of(Make make) {
  return controlled{[make](const sim::cluster_options&, const sim::router_seat&) {
    return sim::seated_controller{.decides = make(), .places_by = {}, .moves_by = {}};
  }};
}

/// The lines that a router hears, and those that it answers.
struct recorded {
  std::vector<std::string> lines{};
  void operator()(const fleet::event& e, std::span<const fleet::action> actions) {
    fleet::log_line line;
    lines.emplace_back(fleet::write(e, line));
    for (const fleet::action& a : actions) lines.emplace_back(fleet::write(a, line));
  }
};

/// Runs the events of a log through a runtime in front of no simulation. Returns the log that it gives.
std::vector<std::string> run_again(const std::vector<std::string>& log, fleet::controller& by,
                                   const fleet::runtime_limits& l, const fleet::runtime_settings& s) {
  auto storage = storage_for<fleet::runtime>(l);
  fleet::runtime rt{by, storage, s};
  recorded again;
  for (const std::string& line : log) {
    if (fleet::is_action(line)) continue;
    fleet::event e;
    if (const fleet::log_error wrong = fleet::read(line, e)) FAIL(line << ": " << wrong.expected);
    again(e, rt.handle(e));
  }
  return again.lines;
}

struct sums {
  std::size_t events = 0, moves = 0, late = 0, deaths = 0;
};

template <class Make>
void simulate_and_run_again(std::uint64_t seed, Make make, sums& all) {
  const std::size_t routers = 1 + seed % 3;
  const std::vector<trace_row> rows = random_rows(seed, 30, 0.4);
  sim::cluster_options o = toy_cluster(3, 60);
  std::vector<recorded> logs(routers);
  o.routed = sim::routing{
      .routers = routers,
      .shares = seed % 5 == 0,
      .report_s = seed % 4 == 0 ? 5 : 0.3,
      .action_s = seed % 2 == 0 ? 0.0 : 0.35,
      .heard = [&](std::size_t k, const fleet::event& e, std::span<const fleet::action> a) { logs[k](e, a); }};
  if (seed % 3 == 0) {
    o.detection_s = 0.5;
    o.faults = sim::random_deaths(3, 1, 10, 6, 2, seed);
  }
  const run_result r =
      sim::cluster_of<pascal<sim::request, sim::kv_store>, controlled>{o, {}, control_of(make)}.run(rows, quiet);
  REQUIRE(r.numbers.completed == rows.size());
  REQUIRE(r.measures.at("left_in_books") == 0);
  fleet::runtime_settings s;
  s.book.block_size = tokens{16};
  s.book.lease = s.book.silence = duration::forever();
  s.book.rest = duration{};
  s.book.moving = 1000;
  s.book.quantum = o.quantum;
  s.keeps_to_share = o.routed->shares;
  s.report_s = o.routed->report_s;
  std::map<std::uint64_t, std::uint32_t> where;
  for (std::size_t k = 0; k != routers; ++k) {
    s.router = {k, routers};
    const std::vector<std::string> again =
        run_again(logs[k].lines, *make(), {.book = {.replicas = 3, .reservations = 80}, .requests = 40}, s);
    REQUIRE(again.size() == logs[k].lines.size());
    for (std::size_t i = 0; i != again.size(); ++i) {
      if (again[i] != logs[k].lines[i]) REQUIRE(again[i] == logs[k].lines[i]);
      fleet::event e;
      if (fleet::action a; fleet::is_action(again[i])) {
        REQUIRE_FALSE(fleet::read(again[i], a));
        if (a.what == fleet::action_kind::place) where[a.request] = a.replica;
        all.moves += a.what == fleet::action_kind::move ? 1U : 0U;
      } else if (!fleet::read(again[i], e) && e.what == fleet::event_kind::moved) {
        where[e.request] = e.replica;
      }
    }
    all.events += again.size();
  }
  for (const sim::request_record& q : r.requests) {
    if (where.at(q.id) != q.instance) REQUIRE(where.at(q.id) == q.instance);
  }
  all.late += o.routed->action_s > 0 ? 1U : 0U;
  all.deaths += o.faults.size();
}

TEST_CASE("controllers: a log of a simulation gives a runtime the same actions, for every controller") {
  const std::uint64_t runs = tessera_test::is_slow ? 6 : 54;  // of each: a thousand
  std::size_t which = 0;
  sums all;
  tessera_test::each_controller(
      [&](auto make) {
        CAPTURE(which);
        for (std::uint64_t seed = 1; seed <= runs; ++seed) simulate_and_run_again(seed + 100 * which, make, all);
        ++which;
      },
      tokens{16});
  CHECK(which == 23);
  CHECK(all.moves > runs);
  CHECK(all.late > runs);
  CHECK(all.deaths > runs);
}

TEST_CASE("controllers: what is decided is done as late as the options say") {
  // An idle instance has the first token of a prompt after half a second.
  const std::vector<trace_row> rows{row(1, 16, 0, 4)};
  sim::cluster_options o = toy_cluster(2, 100);
  const auto first_token = [&](double action_s) {
    o.routed = sim::routing{.report_s = 1, .action_s = action_s};
    return sim::cluster_of<fcfs<sim::request>, sim::placed<>>{o}.run(rows, quiet).requests.front().first_token;
  };
  CHECK(first_token(0) == 1.5);
  CHECK(first_token(0.75) == 2.25);
}

/// Every answer goes to the other instance of two.
struct to_the_other {
  template <placement::instance_views V>
  std::size_t operator()(const V& all, std::size_t current, blocks, blocks) const noexcept {
    return all.size() == 2 ? 1 - current : current;
  }
};

TEST_CASE("controllers: a move that is late begins between two steps after that") {
  const std::vector<trace_row> rows{row(0, 16, 2, 20)};
  sim::cluster_options o = toy_cluster(2, 100);
  o.fabric_bytes_per_s = 1e9;
  const auto leaves_at = [&](double action_s) {
    o.routed = sim::routing{.report_s = 1, .action_s = action_s};
    std::vector<double> at;
    o.routed->heard = [&](std::size_t, const fleet::event& e, std::span<const fleet::action>) {
      if (e.what == fleet::event_kind::moved) at.push_back(e.at_s);
    };
    using control = sim::placed<placement::least_load, to_the_other>;
    const run_result r = sim::cluster_of<fcfs<sim::request>, control>{o}.run(rows, quiet);
    check_served(r, rows);
    REQUIRE(at.size() == 1);
    return at.front();
  };
  // Its reasoning ends with the step that ends at 0.75 s; steps take a quarter of a second. Its place is as late, too.
  CHECK(leaves_at(0) == tessera_test::approx(0.75));
  CHECK(leaves_at(0.125) == tessera_test::approx(0.125 + 1.0));
  CHECK(leaves_at(1) == tessera_test::approx(1 + 1.75));
}

/// Places in turn, and has a plan made when the first request comes. The plan's prefill budgets are what it sets.
class planning final : public fleet::controller {
 public:
  void arrived(const fleet::request_view& r, fleet::port& p) noexcept override {
    const auto all = p.replicas(r);
    p.place(r.id, static_cast<fleet::replica_id>(all[r.id % all.size()].id));
    if (r.id != 0) return;
    asked_s = p.now_s();
    asked = p.plan_async(7);
    again = p.plan_async(8);
  }
  void planned(std::uint64_t plan, std::span<const fleet::assignment> layout, fleet::port& p) noexcept override {
    made_s.emplace_back(plan, p.now_s());
    for (const fleet::assignment& a : layout) p.set_prefill_budget(a.replica, a.prefill_budget);
  }

  double asked_s = -1;
  status asked = status::ok;
  status again = status::ok;
  std::vector<std::pair<std::uint64_t, double>> made_s{};
};

TEST_CASE("controllers: a plan is made from what was known when it was asked for, and comes as late as it takes") {
  // A step takes a quarter of a second. With 16 tokens of a prompt in a step, the second prompt takes longer.
  const std::vector<trace_row> rows{row(0, 16, 0, 4), row(10, 160, 0, 4), row(30, 160, 0, 4)};
  sim::cluster_options o = toy_cluster(2, 100);
  struct outcome {
    planning by{};
    run_result result{};
    std::vector<double> made_at{};
  };
  const auto run = [&](double plan_s, bool plans) {
    o.plan_s = plan_s;
    outcome out;
    const auto by = std::make_shared<planning>();
    const sim::controller_maker make = [&](const sim::cluster_options& c, const sim::router_seat&) {
      sim::seated_controller s{.decides = by};
      if (!plans) return s;
      s.plans = [&out, by, n = c.instances](std::uint64_t plan) {
        CHECK((plan == 7 || plan == 8));
        CHECK(by->asked_s == 0);
        out.made_at.push_back(by->asked_s);
        std::vector<fleet::assignment> layout(plan == 7 ? n : 0);
        for (std::size_t i = 0; i != layout.size(); ++i) {
          layout[i] = {.replica = static_cast<fleet::replica_id>(i), .prefill_budget = tokens{16}};
        }
        return layout;
      };
      return s;
    };
    out.result = sim::cluster_of<fcfs<sim::request>, controlled>{o, {}, controlled{make}}.run(rows, quiet);
    check_served(out.result, rows);
    out.by = *by;
    return out;
  };
  const auto ttft = [](const outcome& out, std::size_t i) { return out.result.requests[i].ttft(); };
  for (const bool routed : {false, true}) {
    CAPTURE(routed);
    o.routed.reset();
    if (routed) o.routed = sim::routing{.report_s = 0.5};
    const outcome never = run(0, false);
    CHECK(never.by.made_s.empty());
    CHECK(never.by.asked == (routed ? status::ok : status::refused));  // a router learns by no answer
    for (const double plan_s : {0.0, 5.0, 20.0}) {
      CAPTURE(plan_s);
      const outcome out = run(plan_s, true);
      CHECK(ok(out.by.asked));
      CHECK(ok(out.by.again));
      CHECK(out.made_at.size() == 2);
      CHECK(out.by.made_s == std::vector<std::pair<std::uint64_t, double>>{{7, plan_s}, {8, plan_s}});
      // The bound holds for the prompts that come after it.
      CHECK((ttft(out, 1) > ttft(never, 1)) == (plan_s < 10));
      CHECK(ttft(out, 2) > ttft(never, 2));
    }
  }
}

TEST_CASE("controllers: what is on its way to an instance that dies is placed anew") {
  const std::vector<trace_row> rows{row(0, 16, 0, 4), row(2, 16, 0, 4), row(2, 16, 0, 4)};
  sim::cluster_options o = toy_cluster(2, 100);
  o.routed = sim::routing{.report_s = 1, .action_s = 3};
  o.detection_s = 0.5;
  // It dies before what was sent there comes: before that is known, after it, and it may be back by then.
  for (const double back_s : {100.0, 0.7}) {
    for (const double dies_s : {2.1, 4.9, 4.4}) {
      o.faults = {{.kind = sim::fault_kind::dies, .instance = 1, .at_s = dies_s, .for_s = back_s}};
      const run_result r = sim::cluster_of<fcfs<sim::request>, sim::placed<>>{o}.run(rows, quiet);
      CHECK(r.numbers.completed == rows.size());
      CHECK(r.measures.at("left_in_books") == 0);
    }
  }
}

/// Moves what it can while it runs, now and then, as by an alarm: between steps or not.
class restless final : public fleet::controller {
 public:
  void started(fleet::port& p) noexcept override { p.wake_after(0.3, 1); }
  void arrived(const fleet::request_view& r, fleet::port& p) noexcept override {
    const auto all = p.replicas(r);
    p.place(r.id, static_cast<fleet::replica_id>(all[r.id % all.size()].id));
    if (r.id < 30) views[r.id] = r;
  }
  void first_token(const fleet::request_view& r, fleet::port&) noexcept override { runs[r.id] = true; }
  void ended(const fleet::request_view& r, fleet::port&) noexcept override { runs[r.id] = false; }
  void lost(const fleet::request_view& r, fleet::port&) noexcept override { runs[r.id] = false; }
  void woke(std::uint64_t, fleet::port& p) noexcept override {
    for (std::size_t k = 0; k != 30; ++k) {
      if (!runs[k]) continue;
      const auto to = static_cast<fleet::replica_id>((turn + k) % 3);
      const auto how = turn % 2 == 0 ? fleet::transfer::live : fleet::transfer::stopped;
      if (turn % 7 == 6) p.cancel_move(k);
      moves += ok(p.move(k, to, how)) ? 1U : 0U;
    }
    p.set_prefill_budget(turn % 3, tokens{256});
    ++turn;
    p.wake_after(0.3, 1);
  }

  std::map<std::uint64_t, fleet::request_view> views{};
  std::map<std::uint64_t, bool> runs{};
  std::uint32_t turn = 0;
  std::size_t moves = 0;
};

TEST_CASE("controllers: all that one may do to running requests, seeing all or by reports, and all are served") {
  std::size_t moves = 0;
  for (std::uint64_t seed = 1; seed != (tessera_test::is_slow ? 4U : 20U); ++seed) {
    const std::vector<trace_row> rows = random_rows(seed, 30, 0.4);
    sim::cluster_options o = toy_cluster(3, 60);
    if (seed % 2 == 0) o.faults = sim::random_deaths(3, 1, 10, 6, 2, seed);
    for (const double action_s : {-1.0, 0.0, 0.4}) {
      if (action_s >= 0) o.routed = sim::routing{.report_s = 0.5, .action_s = action_s};
      const auto by = std::make_shared<restless>();
      using cluster = sim::cluster_of<pascal<sim::request>, controlled>;
      const run_result r = cluster{o, {}, control_of([by] { return by; })}.run(rows, quiet);
      CHECK(r.numbers.completed == rows.size());
      if (action_s >= 0) CHECK(r.measures.at("left_in_books") == 0);
      moves += by->moves;
    }
  }
  CHECK(moves > 100);
}

}  // namespace
