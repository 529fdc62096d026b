// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// One log of events gives the same actions, byte for byte, from `fleet::runtime` and from a plain driver. The plain
// driver reads the log as text. Every controller is run, with reports and messages that are late, doubled or lost, and
// with replicas that die.

#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/following.hpp>
#include <tessera/fleet/log.hpp>
#include <tessera/fleet/runtime.hpp>

#include "property/fleet_plain_driver.hpp"
#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/fleet_controllers.hpp"
#include "support/is_slow.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace tessera;
using fleet::action;
using fleet::action_kind;
using fleet::event;
using fleet::event_kind;
using fleet::replica_id;
using fleet::request_id;

constexpr std::size_t replicas = 6;

/// Makes up events as a front end, its engines and the network between them would.
class world {
 public:
  explicit world(std::uint64_t seed) : random_{seed} {}

  event next(const fleet::runtime& rt) {
    now_s_ += static_cast<double>(below(8)) / 16;
    event e = choose(rt);
    e.at_s = now_s_ - (below(20) == 0 ? 0.25 : 0);  // a clock that is a little behind
    return e;
  }
  /// What of the actions the engines hear.
  void carry_out(const action& a) {
    if (a.what == action_kind::place) at_[a.request] = a.replica;
    if (a.what == action_kind::move) to_[a.request] = a.replica;
    if (a.what == action_kind::set_role) becoming_.push_back(a.replica);
    if (a.what == action_kind::plan) plan_ = a.number;
  }

 private:
  std::int64_t below(std::uint64_t n) { return static_cast<std::int64_t>(random_() % n); }
  request_id some() { return static_cast<request_id>(below(next_ + 1)); }
  /// A request, where it is or, at times, somewhere else.
  event of(event_kind what, request_id request) {
    const auto at = at_.find(request);
    const bool right = at != at_.end() && below(12) != 0;
    return {
        .what = what, .replica = right ? at->second : static_cast<replica_id>(below(replicas + 1)), .request = request};
  }
  event choose(const fleet::runtime& rt) {
    const auto id = static_cast<replica_id>(below(replicas));
    const std::int64_t what = below(100);
    const std::uint64_t life = rt.book().incarnation(id);
    if (!rt.book().contains(id) && below(3) == 0) {
      event e{.what = event_kind::joined, .replica = id, .number = life + static_cast<std::uint64_t>(below(2))};
      e.joins = {.capacity = blocks{below(60)}, .role = static_cast<control::role>(below(3))};
      e.joins.prefill = {.cost = {.alpha = 0.5, .beta = 2}, .budget = {.peak_flops = 1000, .ttft = duration{2}}};
      const auto can = [&] { return below(6) != 0; };
      e.joins.can = {can(), can(), can(), can(), can(), can()};
      return e;
    }
    if (what < 4) {
      return {.what = below(3) == 0 ? event_kind::unreachable : event_kind::failed,
              .replica = id,
              .number = life - (below(4) == 0 ? 1U : 0U)};
    }
    if (what < 5) return {.what = event_kind::drained, .replica = id};
    if (what < 7) return {.what = event_kind::asks_report, .replica = id};
    if (what < 22) return report(rt, id, life);
    if (what < 30) {
      return {.what = event_kind::offers, .excluded = below(5) == 0, .replica = id, .count = tokens{below(30) - 3}};
    }
    if (what < 46) {
      event e{.what = event_kind::arrived, .request = below(9) == 0 ? some() : next_++};
      e.asks = {.prompt = tokens{below(40) - (below(40) == 0 ? 50 : 0)},
                .generated = tokens{below(5) == 0 ? below(9) : 0}};
      e.asks.prefix_key = random_() % 4;
      e.asks.is = below(2) == 0 ? phase::reasoning : phase::answering;
      e.asks.movable = below(5) != 0;
      e.asks.expected = tokens{below(99)};
      return e;
    }
    if (what < 48) return of(below(2) == 0 ? event_kind::refused : event_kind::lost, some());
    if (what < 50) {
      event e = of(event_kind::cache_hit, some());
      e.count = tokens{below(30) - 2};
      return e;
    }
    if (what < 57) return of(event_kind::first_token, some());
    if (what < 71) {
      event e = of(event_kind::progressed, some());
      e.count = tokens{below(40) - 2};
      return e;
    }
    if (what < 76) return of(event_kind::reasoning_ended, some());
    if (what < 84) {
      event e = of(below(3) == 0 ? event_kind::move_failed : event_kind::moved, some());
      if (!to_.empty() && below(6) != 0) {
        const auto m = std::next(to_.begin(), below(to_.size()));
        e.request = m->first;
        e.replica = m->second;
        if (e.what == event_kind::moved) at_[e.request] = e.replica;
        if (below(4) != 0) to_.erase(m);  // else it is said again
      }
      return e;
    }
    if (what < 90) return of(event_kind::ended, some());
    if (what < 92) {
      const bool told = !becoming_.empty() && below(3) != 0;
      const replica_id is = told ? becoming_.back() : id;
      if (told) becoming_.pop_back();
      return {.what = event_kind::role_changed, .replica = is};
    }
    if (what < 93 && below(2) == 0) {
      return {.what = event_kind::serves, .replica = id, .low = blocks{below(5) - 1}, .high = blocks{below(9)}};
    }
    if (what < 94) {
      return {.what = event_kind::lays_out,
              .role = static_cast<control::role>(below(3)),
              .replica = id,
              .count = tokens{below(500)},
              .low = blocks{below(5)},
              .high = blocks{5 + below(9)}};
    }
    if (what < 95) {
      const bool right = below(3) != 0;
      return {.what = event_kind::planned, .number = right ? plan_ : static_cast<std::uint64_t>(below(9))};
    }
    if (what == 99 && below(4) == 0) now_s_ += 12;
    return {.what = event_kind::clock};
  }
  event report(const fleet::runtime& rt, replica_id id, std::uint64_t life) {
    event e{.what = event_kind::reported, .replica = id};
    // Half of them are late, doubled or of a former life; lost ones are those that are not here.
    if (below(4) == 0 && !sent_.empty()) return sent_[static_cast<std::size_t>(below(sent_.size()))];
    e.said.incarnation = life - (below(12) == 0 ? 1U : 0U);
    e.said.epoch = ++epochs_[{id, life}];
    e.said.all = {.requests = static_cast<std::size_t>(below(20)),
                  .kv_held = blocks{below(40)},
                  .waiting_blocks = blocks{below(20)},
                  .reasoning = static_cast<std::size_t>(below(9)),
                  .fresh_answers = static_cast<std::size_t>(below(9)),
                  .prefill_flops = static_cast<double>(below(1000)) / 7};
    if (below(2) == 0 && rt.book().contains(id)) e.said.own = rt.book().own(id);
    if (below(2) == 0) e.said.free = blocks{below(60)};
    e.said.slo_met = below(3) != 0;
    sent_.push_back(e);
    return e;
  }

  std::mt19937_64 random_;
  double now_s_ = 3;
  request_id next_ = 1;
  std::map<request_id, replica_id> at_{};
  std::map<request_id, replica_id> to_{};
  std::map<std::pair<replica_id, std::uint64_t>, std::uint64_t> epochs_{};
  std::vector<event> sent_{};
  std::vector<replica_id> becoming_{};
  std::uint64_t plan_ = 0;  // The last that was asked for.
};

struct counts {
  std::map<std::string, std::size_t> actions{};
};

fleet::runtime_settings settings_of(std::uint64_t seed) {
  fleet::runtime_settings s;
  s.book = {.block_size = tokens{4},
            .lease = duration{20},
            .silence = duration{5},
            .rest = duration{static_cast<double>(seed % 3)},
            .moving = 3,
            .tight = blocks{seed % 2 == 0 ? 0 : 8},
            .demand = blocks{3},
            .quantum = tokens{6}};
  s.router = {seed % 4, 4};
  s.keeps_to_share = seed % 5 == 0;
  return s;
}

template <class Make>
void run(std::uint64_t seed, Make make, counts& seen) {
  const fleet::runtime_limits limits{
      .book = {.replicas = replicas, .reservations = 24, .moves = 4}, .requests = 16, .actions = 12, .alarms = 5};
  const fleet::runtime_settings settings = settings_of(seed);
  auto storage = storage_for<fleet::runtime>(limits);
  const std::shared_ptr<fleet::controller> mine = make();
  fleet::runtime rt{*mine, storage, settings};
  tessera_test::plain::driver plain{make(), limits, settings};
  world w{seed};
  bool sound = true;
  for (int step = 0; step != 120; ++step) {
    const event e = w.next(rt);
    fleet::log_line line;
    const std::string said{fleet::write(e, line)};
    const tessera_test::no_allocation guard;
    const std::span<const action> actions = rt.handle(e);
    const std::size_t allocated = guard.allocations();
    std::vector<std::string> lines;
    for (const action& a : actions) {
      lines.emplace_back(fleet::write(a, line));
      w.carry_out(a);
      ++seen.actions[lines.back().substr(2, lines.back().find(' ', 2) - 2)];
      sound = sound && lines.back().find("a prompt is cached or not") == std::string::npos &&
              lines.back().find("is old") == std::string::npos;
    }
    const std::vector<std::string> theirs = plain.handle(said, e);
    const bool same = lines == theirs && rt.requests() == plain.requests() && rt.book().size() == plain.in_book();
    if (same && sound && allocated == 0) continue;
    CAPTURE(seed, step, said, allocated, sound);
    REQUIRE(lines == theirs);
    REQUIRE(rt.requests() == plain.requests());
    REQUIRE(rt.book().size() == plain.in_book());
    FAIL("it allocates, or shows what is not so");
  }
  // A lease after the last word about them, all that were placed are gone.
  const event later{.at_s = 1e6, .what = event_kind::clock};
  rt.handle(later);
  rt.handle(later);  // what was on its way has had its second lease
  event much_later = later;
  much_later.at_s = 2e6;
  rt.handle(much_later);
  CHECK(rt.book().size() == 0);
}

TEST_CASE("fleet drivers: the same log gives the same actions, under every controller") {
  const std::uint64_t runs = tessera_test::is_slow ? 100 : 1000;
  std::size_t which = 0;
  counts seen;
  tessera_test::each_controller([&](auto make) {
    CAPTURE(which);
    seen = {};
    for (std::uint64_t seed = 1; seed <= runs; ++seed) run(seed + 7919 * which, make, seen);
    // They have not agreed by doing nothing.
    CHECK(seen.actions["place"] > runs);
    ++which;
  });
  // The last of them plans, and carries plans out.
  for (const char* kind : {"move", "set_role", "set_length_range", "set_prefill_budget", "plan"}) {
    CAPTURE(kind);
    CHECK(seen.actions[kind] > runs / 10);
  }
  counts all;
  for (std::uint64_t seed = 1; seed <= runs; ++seed) {
    run(
        seed, [] { return std::shared_ptr<fleet::controller>{std::make_shared<tessera_test::meddler>()}; }, all);
  }
  for (const char* kind : {"place", "move", "cancel_move", "set_role", "set_length_range", "set_prefill_budget",
                           "set_order", "plan", "note"}) {
    CAPTURE(kind);
    CHECK(all.actions[kind] > runs / 10);
  }
}

// -- logs that are followed

/// What was recorded, as `following` names it: without words and sources.
std::vector<action> decisions_in(std::span<const action> all) {
  std::vector<action> some;
  for (action a : all) {
    a.from = fleet::no_replica;
    if (a.what != fleet::action_kind::note) some.push_back(a);
  }
  return some;
}

/// One controller decides, and another is asked at each event what it would have done. Returns how often that differs.
template <class Make, class Other>
std::size_t follow_one(std::uint64_t seed, Make make, Other other) {
  const fleet::runtime_limits roomy{.book = {.replicas = replicas, .reservations = 400, .moves = 4}, .requests = 400};
  fleet::runtime_settings settings = settings_of(seed);
  auto storage = storage_for<fleet::runtime>(roomy);
  auto again = storage_for<fleet::runtime>(roomy);
  auto memory = storage_for<fleet::following>({});
  const std::shared_ptr<fleet::controller> decides = make();
  const std::shared_ptr<fleet::controller> asked = other();
  fleet::following by{*asked, memory};
  fleet::runtime rt{*decides, storage, settings};
  fleet::runtime ft{by, again, settings};
  world w{seed};
  std::size_t differ = 0;
  for (int step = 0; step != 120; ++step) {
    const event e = w.next(rt);
    const auto span = rt.handle(e);
    const std::vector<action> done{span.begin(), span.end()};
    for (const action& a : done) w.carry_out(a);
    const tessera_test::no_allocation guard;
    const std::span<const action> wanted = fleet::follow(ft, by, e, done);
    const std::size_t allocated = guard.allocations();
    const std::vector<action> recorded = decisions_in(done);
    differ += std::equal(wanted.begin(), wanted.end(), recorded.begin(), recorded.end()) ? 0U : 1U;
    CAPTURE(seed, step);
    REQUIRE(allocated == 0);
    // Whatever it would have done, its book is the one of the log.
    REQUIRE(ft.requests() == rt.requests());
    REQUIRE(ft.book().size() == rt.book().size());
    REQUIRE(ft.book().moving() == rt.book().moving());
    for (replica_id id = 0; id != replicas; ++id) {
      REQUIRE(ft.book().contains(id) == rt.book().contains(id));
      if (!rt.book().contains(id)) continue;
      REQUIRE(ft.book().own(id) == rt.book().own(id));
      REQUIRE(ft.book().at(id).free_blocks == rt.book().at(id).free_blocks);
      REQUIRE(ft.book().at(id).role == rt.book().at(id).role);
    }
  }
  return differ;
}

TEST_CASE("fleet drivers: a log that is followed keeps its book, and its own controller decides as it did") {
  const std::uint64_t runs = tessera_test::is_slow ? 10 : 100;
  const auto queue = [] {
    return std::shared_ptr<fleet::controller>{std::make_shared<fleet::placing<placement::join_shortest_queue>>()};
  };
  std::size_t others_differ = 0;
  constexpr std::size_t placing = 19;  // The first ones. The others act at alarms, too: see `following`.
  std::size_t which = 0;
  tessera_test::each_controller([&](auto make) {
    if (which++ >= placing) return;
    CAPTURE(which);
    for (std::uint64_t seed = 1; seed <= runs; ++seed) {
      CHECK(follow_one(seed, make, make) == 0);
      others_differ += follow_one(seed, make, queue) + follow_one(seed, queue, make);
    }
  });
  CHECK(others_differ > runs);
  CHECK(which > placing);
}

}  // namespace
