// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The book behind all streams: endpoints that come, report, restart, drain and come back; which of them are chosen.

#include "picker.hpp"
#include "controllers.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace endpoint_picker;
using tessera::time_point;

time_point at(double s) { return time_point::at_seconds(s); }

endpoint_list listed(const std::vector<std::string>& all) {
  endpoint_list list;
  for (const std::string& where : all) list.endpoints.push_back({.where = where});
  return list;
}

std::string address_of(int i) { return "10.0.0." + std::to_string(i) + ":80"; }

endpoint_list some(int n) {
  std::vector<std::string> all;
  for (int i = 1; i <= n; ++i) all.push_back(address_of(i));
  return listed(all);
}

/// All say that they are as loaded as this.
void all_report(picker& p, const engine_metrics& m, double now) {
  for (const scrape_target& t : p.targets()) {
    p.asked(t);
    p.reported(t, m, at(now));
  }
}

constexpr engine_metrics idle{.kv_tokens = 16'000, .started = 1};

/// What the state says of an address.
nlohmann::ordered_json endpoint_of(const picker& p, const std::string& where) {
  const auto state = p.state();
  for (const auto& e : state["endpoints"]) {
    if (e["address"] == where) return e;
  }
  return {};
}

std::string first_of(const std::string& destination) { return destination.substr(0, destination.find(',')); }

}  // namespace

TEST_CASE("an endpoint that has not said what it is is not chosen") {
  picker p{{}};
  p.list(some(2));
  CHECK_FALSE(p.ready());
  CHECK(p.pick({}, at(0)).what == decision::kind::none_ready);
  all_report(p, {.started = 1}, 0);  // it does not say what room it has
  CHECK(p.pick({}, at(0)).what == decision::kind::none_ready);
  all_report(p, idle, 1);
  CHECK(p.ready());
  const decision d = p.pick({.text_bytes = 400}, at(1));
  CHECK(d.what == decision::kind::chosen);
  CHECK(d.destination.size() == 2 * address_of(1).size() + 1);
  CHECK(p.size() == 1);
  CHECK(p.state()["endpoints"][d.place.where]["waiting_blocks"] == 7);  // 100 tokens
}

TEST_CASE("an engine that does not say its room has it from the file") {
  picker p{{}};
  endpoint_list list = some(1);
  list.endpoints[0].kv_tokens = 1600;
  p.list(list);
  all_report(p, {.started = 1}, 0);
  CHECK(endpoint_of(p, address_of(1))["capacity"] == 100);
}

TEST_CASE("a burst spreads though no report comes, by every policy that looks at loads") {
  for (const std::string_view name : controller_names()) {
    INFO(name);
    picker p{{.policy = std::string{name}}};
    p.list(some(4));
    all_report(p, idle, 0);
    std::map<std::string, int> to;
    for (int i = 0; i != 40; ++i) {
      const decision d = p.pick({.text_bytes = 4000}, at(1));
      REQUIRE(d.what == decision::kind::chosen);
      ++to[first_of(d.destination)];
    }
    CHECK(to.size() == 4);
    constexpr std::string_view others[] = {"random",   "power-of-two",    "fill-to-level",
                                           "least-kv", "bounded-hashing", "dual-map"};
    if (std::find(std::begin(others), std::end(others), name) == std::end(others)) {
      for (const auto& [where, n] : to) CHECK(n == 10);
    }
  }
}

TEST_CASE("policies have the names of controllers, and what they were called before is still understood") {
  for (const char* former : {"shortest_queue", "least_kv", "least_load", "power_of_two", "phi", "phi_time", "pascal",
                             "fill_to_level", "round_robin", "random", "cascade", "due_first"}) {
    INFO(former);
    CHECK(tessera::sim::find_controller(name_now(former)) != nullptr);
  }
  CHECK(name_now("round_robin") == "in-turn");
  for (const std::string_view name : controller_names()) CHECK(name_now(std::string{name}) == name);
  CHECK_THROWS_AS(picker{{.policy = "no-such"}}, std::invalid_argument);
}

TEST_CASE("what a gateway has no message for is said to be left out") {
  const auto line = [](const char* name) { return describe(*tessera::sim::find_controller(name)); };
  CHECK(line("least-load") == "least-load places requests, and does nothing else");
  CHECK(line("llumnix") == "llumnix places requests; its other actions are left out: move");
  CHECK(line("due-first") ==
        "due-first places requests; its other actions are left out: move set_role set_length_range "
        "set_prefill_budget plan");
  CHECK(line("prefix-affinity") ==
        "prefix-affinity places requests, and does nothing else; no endpoint says what it has cached, so prefixes do "
        "not count");
}

TEST_CASE("fallbacks are others, in the order of rank, as many as there are") {
  picker p{{.choices = 5}};
  p.list(some(3));
  all_report(p, idle, 0);
  const decision d = p.pick({}, at(0));
  std::set<std::string> named;
  for (std::size_t from = 0; from < d.destination.size(); from += address_of(1).size() + 1) {
    named.insert(d.destination.substr(from, address_of(1).size()));
  }
  CHECK(named == std::set<std::string>{address_of(1), address_of(2), address_of(3)});
}

TEST_CASE("only endpoints of the subset are chosen; of an empty subset none is") {
  picker p{{}};
  p.list(some(3));
  all_report(p, idle, 0);
  const std::vector<std::string> two{address_of(2), "10.9.9.9:80"};
  const std::vector<std::string> none;
  for (int i = 0; i != 5; ++i) CHECK(p.pick({.subset = &two}, at(0)).destination == address_of(2));
  CHECK(p.pick({.subset = &none}, at(0)).what == decision::kind::none_ready);
}

TEST_CASE("roles, models and lengths decide which endpoints may be chosen") {
  picker p{{}};
  p.list(read_endpoints("f", R"({"endpoints": [
    {"address": "10.0.0.1:80", "role": "prefill"}, {"address": "10.0.0.2:80", "labels": {"model": "a"}, "lengths": [0, 100]},
    {"address": "10.0.0.3:80", "labels": {"model": "a"}, "lengths": [100, null]}, {"address": "10.0.0.4:80", "labels": {"model": "b"}}]})",
                        9));
  all_report(p, idle, 0);
  CHECK(p.pick({.model = "b"}, at(0)).destination == "10.0.0.4:80");
  CHECK(p.pick({.model = "a", .token_ids = 50}, at(0)).destination == "10.0.0.2:80");
  CHECK(p.pick({.model = "a", .token_ids = 500}, at(0)).destination == "10.0.0.3:80");
  CHECK(p.pick({.model = "c"}, at(0)).what == decision::kind::none_ready);
  // Too long for all: then lengths decide nothing.
  CHECK(p.pick({.model = "a", .token_ids = 100'000}, at(0)).what == decision::kind::chosen);
}

TEST_CASE("a request that needs all of a large engine goes there") {
  picker p{{}};
  p.list(some(2));
  const auto targets = p.targets();
  p.reported(targets[0], {.kv_tokens = 1600, .started = 1}, at(0));
  p.reported(targets[1], {.running = 9, .kv_usage = 0.9, .kv_tokens = 160'000, .started = 1}, at(0));
  CHECK(p.pick({.token_ids = 100, .max_tokens = 50'000}, at(0)).destination == address_of(2));
  CHECK(first_of(p.pick({.token_ids = 100}, at(0)).destination) == address_of(1));
}

TEST_CASE("what may be shed is shed when all that could take it are busy, and nothing else is") {
  picker p{{.shed_kv = 0.8, .shed_waiting = 5}};
  endpoint_list list = some(2);
  list.objectives = {{"batch", -1}, {"chat", 0}};
  p.list(list);
  const auto targets = p.targets();
  p.reported(targets[0], {.waiting = 5, .kv_tokens = 16'000, .started = 1}, at(0));
  p.reported(targets[1], {.kv_usage = 0.7, .kv_tokens = 16'000, .started = 1}, at(0));
  CHECK(p.pick({.token_ids = 1600, .objective = "batch"}, at(0)).what == decision::kind::chosen);  // the second is not
  const std::vector<std::string> first{address_of(1)};
  CHECK(p.pick({.objective = "batch", .subset = &first}, at(0)).what == decision::kind::shed);
  p.reported(targets[1], {.kv_usage = 0.8, .kv_tokens = 16'000, .started = 1}, at(0));
  CHECK(p.pick({.objective = "batch"}, at(0)).what == decision::kind::shed);
  CHECK(p.pick({.objective = "chat"}, at(0)).what == decision::kind::chosen);
  CHECK(p.pick({.objective = "unknown"}, at(0)).what == decision::kind::chosen);
  CHECK(p.pick({}, at(0)).what == decision::kind::chosen);
}

TEST_CASE("what is one's own in a report counts once") {
  picker p{{.policy = "shortest-queue"}};
  p.list(some(1));
  all_report(p, idle, 0);
  const decision d = p.pick({.token_ids = 160}, at(0));
  p.progress(d.place, 1, at(1));
  all_report(p, {.running = 3, .kv_usage = 0.04, .kv_tokens = 16'000, .started = 1}, 2);
  const auto e = endpoint_of(p, address_of(1));
  CHECK(e["own"] == 1);
  CHECK(e["requests"] == 3);
  CHECK(e["kv_held"] == 40);
  p.release(d.place);
  CHECK(endpoint_of(p, address_of(1))["requests"] == 2);
}

TEST_CASE("a system prompt that all requests have is counted once") {
  // 20 requests of 1,600 tokens hold 100 blocks and 5 more each: no answer says what was cached.
  const bool alone = GENERATE(true, false);
  picker p{{.policy = "least-load", .alone = alone}};
  p.list(some(1));
  all_report(p, idle, 0);
  std::vector<decision> all;
  for (int i = 0; i != 20; ++i) {
    all.push_back(p.pick({.token_ids = 1680}, at(0)));
    p.progress(all.back().place, 1, at(1));
  }
  CHECK(endpoint_of(p, address_of(1))["kv_held"] == 20 * 106);
  for (const scrape_target& t : p.targets()) p.asked(t);
  all_report(p, {.running = 20, .kv_usage = 0.2, .kv_tokens = 16'000, .started = 1}, 2);
  CHECK(endpoint_of(p, address_of(1))["kv_held"] == 200);
  // It is not busy, so that what may wait is not shed.
  CHECK(endpoint_of(p, address_of(1))["waiting_blocks"] == 0);
  for (const decision& d : all) p.release(d.place);
  all_report(p, idle, 3);
  CHECK(endpoint_of(p, address_of(1))["kv_held"] == 0);
}

TEST_CASE("a picker that is alone counts only its own load, however old a report is") {
  picker p{{.policy = "shortest-queue", .alone = true}};
  p.list(some(2));
  all_report(p, idle, 0);
  const decision d = p.pick({.token_ids = 160}, at(0));
  p.progress(d.place, 1, at(1));
  all_report(p, {.running = 7, .kv_usage = 0.5, .kv_tokens = 16'000, .started = 1}, 2);
  const auto e = endpoint_of(p, first_of(d.destination));
  CHECK(e["requests"] == 1);
  CHECK(e["kv_held"] == 11);
  p.release(d.place);
  CHECK(endpoint_of(p, first_of(d.destination))["requests"] == 0);
}

TEST_CASE("an endpoint with a new process has lost what it had") {
  picker p{{}};
  p.list(some(1));
  all_report(p, idle, 0);
  const decision d = p.pick({}, at(0));
  all_report(p, {.kv_tokens = 16'000, .started = 2}, 1);
  CHECK(p.size() == 0);
  CHECK(p.state()["restarts"] == 1);
  p.release(d.place);  // late, and nothing happens
  CHECK(p.pick({}, at(1)).what == decision::kind::chosen);
  all_report(p, {.kv_tokens = 16'000, .started = 1}, 2);  // a clock that was set back: another process all the same
  CHECK(p.size() == 0);
  CHECK(p.ready());
}

TEST_CASE("an endpoint that cannot be reached is chosen only if there is no other") {
  picker p{{.choices = 1}};
  p.list(some(2));
  all_report(p, idle, 0);
  const auto targets = p.targets();
  p.unreachable(targets[0]);
  for (int i = 0; i != 4; ++i) CHECK(p.pick({}, at(0)).destination == address_of(2));
  p.reported(targets[0], idle, at(1));
  CHECK(p.pick({}, at(1)).destination == address_of(1));
  p.tick(at(100));  // all are silent: then reports are what is broken
  CHECK(p.pick({}, at(100)).what == decision::kind::chosen);
}

TEST_CASE("an endpoint that leaves the file gets nothing new, and is forgotten when its requests have ended") {
  picker p{{}};
  p.list(some(2));
  all_report(p, idle, 0);
  const std::vector<std::string> only{address_of(1)};
  const decision d = p.pick({.subset = &only}, at(0));
  p.list(listed({address_of(2)}));
  CHECK(endpoint_of(p, address_of(1))["drains"] == true);
  CHECK(p.targets().size() == 2);  // its book is kept by what it says
  for (int i = 0; i != 4; ++i) CHECK(p.pick({}, at(1)).destination == address_of(2));
  CHECK(p.pick({.subset = &only}, at(1)).what == decision::kind::none_ready);
  p.progress(d.place, 10, at(2));
  p.release(d.place);
  p.tick(at(2));
  CHECK(endpoint_of(p, address_of(1)).is_null());
  CHECK(p.targets().size() == 1);
}

TEST_CASE("an endpoint that comes back while it drains is another one, and the old book ends by itself") {
  picker p{{}};
  p.list(some(1));
  all_report(p, idle, 0);
  const decision d = p.pick({}, at(0));
  p.list(listed({}));
  p.list(some(1));
  REQUIRE(p.targets().size() == 2);
  all_report(p, idle, 1);
  const decision again = p.pick({}, at(1));
  CHECK(again.what == decision::kind::chosen);
  CHECK(again.place.where != d.place.where);
  p.release(d.place);
  p.release(again.place);
  p.tick(at(2));
  CHECK(p.targets().size() == 1);
  CHECK(p.size() == 0);
}

TEST_CASE("metrics that were asked of an endpoint that is gone are not another's") {
  picker p{{}};
  p.list(some(1));
  const auto old = p.targets();
  p.list(listed({}));
  p.list(listed({address_of(7)}));
  REQUIRE(p.targets()[0].id == old[0].id);
  p.reported(old[0], idle, at(0));
  p.unreachable(old[0]);
  CHECK_FALSE(p.ready());
}

TEST_CASE("when the gateway's first choice did not answer, the request is where it was served") {
  picker p{{}};
  p.list(some(2));
  all_report(p, idle, 0);
  decision d = p.pick({.token_ids = 160}, at(0));
  const std::string first = first_of(d.destination);
  const std::string second = d.destination.substr(first.size() + 1);
  p.served(d.place, second, at(1));
  CHECK(endpoint_of(p, first)["own"] == 0);
  CHECK(endpoint_of(p, second)["own"] == 1);
  p.served(d.place, "10.9.9.9:80", at(1));  // an unknown address is no endpoint
  CHECK(endpoint_of(p, second)["own"] == 1);
  p.release(d.place);
  CHECK(p.size() == 0);
}

TEST_CASE("a full book turns requests away") {
  picker p{{.requests = 2}};
  p.list(some(1));
  all_report(p, idle, 0);
  const decision a = p.pick({}, at(0));
  CHECK(p.pick({}, at(0)).what == decision::kind::chosen);
  CHECK(p.pick({}, at(0)).what == decision::kind::full);
  p.release(a.place);
  CHECK(p.pick({}, at(0)).what == decision::kind::chosen);
  p.tick(at(10'000));  // a request that is not named for a lease is given back
  CHECK(p.size() == 0);
}

TEST_CASE("a prompt's tokens are learned from answers") {
  picker p{{.bytes_per_token = 4}};
  for (int i = 0; i != 1000; ++i) p.learn(2000, 1000);
  CHECK(p.state()["bytes_per_token"].get<double>() == tessera_test::approx(2).epsilon(0.01));
  p.learn(1'000'000, 1);
  p.learn(10, 9);
  p.learn(100, 0);
  CHECK(p.state()["bytes_per_token"].get<double>() == tessera_test::approx(2).epsilon(0.01));
}

TEST_CASE("bodies of all streams together are bounded") {
  picker p{{.buffered = 100}};
  CHECK(p.hold(60));
  CHECK_FALSE(p.hold(41));
  CHECK(p.hold(40));
  p.let_go(60);
  CHECK(p.hold(60));
  p.let_go(100);
  CHECK(p.buffered() == 0);
}

TEST_CASE("random lives of endpoints and requests: none goes to an endpoint that is gone, and books end at zero") {
  for (std::uint64_t seed = 1; seed != 60; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 draw{seed};
    const auto below = [&](std::uint64_t n) { return static_cast<int>(draw() % n); };
    const auto names = controller_names();
    picker p{{.policy = std::string{names[seed % names.size()]}, .endpoints = 6, .requests = 20}};
    std::set<std::string> in_file;
    std::vector<ticket> live;
    std::map<std::string, double> started;
    double now = 0;
    for (int step = 0; step != 400; ++step) {
      now += 0.1;
      switch (below(8)) {
        case 0: {
          std::vector<std::string> all;
          for (int i = 1; i <= 6; ++i) {
            if (below(3) != 0) all.push_back(address_of(i));
          }
          in_file = {all.begin(), all.end()};
          p.list(listed(all));
          break;
        }
        case 1:
        case 2:
          for (const scrape_target& t : p.targets()) {
            const int what = below(10);
            if (what == 0) {
              p.unreachable(t);
            } else if (what == 1) {
              started[t.where] += 1;
            } else {
              p.asked(t);
              const auto running = static_cast<std::uint64_t>(below(9));
              const double usage = below(100) / 100.0;
              p.reported(t,
                         {.running = running, .kv_usage = usage, .kv_tokens = 16'000, .started = 1 + started[t.where]},
                         at(now));
            }
          }
          break;
        case 3:
        case 4: {
          const auto tokens = static_cast<std::uint64_t>(below(3000));
          const decision d = p.pick({.token_ids = tokens}, at(now));
          if (d.what != decision::kind::chosen) break;
          REQUIRE(in_file.count(first_of(d.destination)) == 1);
          live.push_back(d.place);
          break;
        }
        case 5:
          if (!live.empty()) {
            const std::size_t i = draw() % live.size();
            p.progress(live[i], draw() % 1000, at(now));
          }
          break;
        case 6:
          if (!live.empty()) {
            const std::size_t i = draw() % live.size();
            p.release(live[i]);
            live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
          }
          break;
        case 7: p.tick(at(now)); break;
      }
      REQUIRE(p.size() <= live.size());
      REQUIRE(p.targets().size() <= 12);
    }
    for (const ticket& t : live) p.release(t);
    REQUIRE(p.size() == 0);
    p.list(listed({}));
    REQUIRE(p.targets().empty());
  }
}
