// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The controllers by name. Each is run in front of engines that can do everything, and does what the list says.
#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/runtime.hpp>
#include <tessera/sim/cluster/named_controllers.hpp>

#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
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

/// Engines that begin and end every action at once.
class engines {
 public:
  explicit engines(std::string_view name)
      : by_{sim::make_controller(name, {.replicas = replicas, .requests = 256})},
        storage_{storage_for<fleet::runtime>(
            {.book = {.replicas = replicas, .reservations = 1024, .moves = 16}, .requests = 256})},
        runs_{*by_, storage_, {.book = {.lease = duration{1e6}, .silence = duration{1e6}, .rest = duration{}}}} {
    const bool has_pools = name == "distserve" || name == "splitwise" || name == "phasor";
    for (replica_id id = 0; id != replicas; ++id) {
      event e{.what = event_kind::joined, .replica = id, .number = 1};
      e.joins.capacity = blocks{200};
      e.joins.role = !has_pools || id > 3 ? control::role::mixed
                     : id < 2             ? control::role::prefill
                                          : control::role::decode;
      e.joins.prefill = {.cost = {.alpha = 0, .beta = 1}, .budget = {.peak_flops = 4000, .ttft = duration{1.0}}};
      tell(e);
      // For the stages: three of each.
      if (name == "stages") {
        tell({.what = event_kind::serves,
              .replica = id,
              .low = blocks{id < 3 ? 0 : 20},
              .high = id < 3 ? blocks{20} : fleet::endless});
      }
    }
  }
  void tell(event e) {
    e.at_s = now;
    const auto now_due = runs_.handle(e);
    const std::vector<action> all{now_due.begin(), now_due.end()};
    for (const action& a : all) {
      if (a.what != action_kind::place && a.what != action_kind::note && a.what != action_kind::cancel_move) {
        done.insert(a.what);
      }
      if (a.what == action_kind::place) at[a.request] = {a.replica};
      if (a.what == action_kind::move) {
        at[a.request].where = a.replica;
        tell({.what = event_kind::moved, .replica = a.replica, .request = a.request});
      }
      if (a.what == action_kind::set_role) tell({.what = event_kind::role_changed, .replica = a.replica});
      if (a.what == action_kind::plan) {
        for (replica_id id = 0; id != replicas; ++id) {
          tell({.what = event_kind::lays_out,
                .role = id < 3 ? control::role::prefill : control::role::decode,
                .replica = id,
                .count = tokens{id < 3 ? 512 : 0},
                .low = blocks{},
                .high = blocks{1000}});
        }
        tell({.what = event_kind::planned, .number = a.number});
      }
    }
  }
  struct running {
    replica_id where = fleet::no_replica;
    tokens generated{};
  };
  double now = 0;
  std::set<action_kind> done;
  std::map<request_id, running> at;

 private:
  std::shared_ptr<fleet::controller> by_;
  owned_storage<fleet::runtime_limits> storage_;
  fleet::runtime runs_;
};

}  // namespace

TEST_CASE("each controller does what the list of them says, and nothing else") {
  for (const sim::named_controller& c : sim::controllers) {
    INFO(c.name);
    engines all{c.name};
    std::mt19937_64 draw{7};
    request_id next = 0;
    for (int step = 0; step != 6000; ++step) {
      all.now += 0.01;
      // Bursts of prompts, and quiet times in which answers grow.
      const bool burst = step / 500 % 2 == 0;
      if (all.at.size() < 120 && draw() % (burst ? 2 : 20) == 0) {
        event e{.what = event_kind::arrived, .request = next++};
        e.asks.prompt = tokens{static_cast<std::int64_t>(1 + draw() % 400)};
        e.asks.is = draw() % 2 == 0 ? phase::reasoning : phase::answering;
        all.tell(e);
      }
      // Then half of the replicas become free at once.
      for (auto r = all.at.begin(); step % 500 == 499 && r != all.at.end();) {
        const auto here = r++;
        if (here->second.where >= 3) continue;
        const request_id ends = here->first;
        all.at.erase(here);
        all.tell({.what = event_kind::ended, .request = ends});
      }
      if (all.at.empty()) continue;
      auto r = all.at.lower_bound(draw() % next);
      if (r == all.at.end()) r = all.at.begin();
      const request_id request = r->first;
      if (draw() % 12 == 0) {
        all.at.erase(r);
        all.tell({.what = event_kind::ended, .request = request});
        continue;
      }
      r->second.generated += tokens{static_cast<std::int64_t>(1 + draw() % 60)};
      all.tell({.what = event_kind::progressed,
                .replica = r->second.where,
                .request = request,
                .count = r->second.generated});
      if (draw() % 6 == 0) {
        all.tell({.what = event_kind::reasoning_ended, .replica = all.at[request].where, .request = request});
      }
    }
    CHECK(next > 500);
    CHECK(all.done == std::set<action_kind>(c.does.begin(), c.does.end()));
  }
}

TEST_CASE("a controller that there is not is refused with the names of those that there are") {
  CHECK(sim::find_controller("least-load") == &sim::controllers[0]);
  CHECK(sim::find_controller("Least-load") == nullptr);
  std::string why;
  try {
    static_cast<void>(sim::make_controller("best", {}));
  } catch (const std::invalid_argument& wrong) {
    why = wrong.what();
  }
  CHECK(why.substr(0, 51) == "controller is one of least-load, least-kv, shortest");
  CHECK(why.substr(why.size() - 19) == "due-first, not best");
  why.clear();
  try {
    static_cast<void>(sim::make_controller("least-load", {.moves = "never"}));
  } catch (const std::invalid_argument& wrong) {
    why = wrong.what();
  }
  CHECK(why == "moves is one of none, when_tight, to_headroom, pascal, cascade, not never");
}
