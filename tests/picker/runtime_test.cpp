// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The picker against a runtime of its controller that is told the same by hand. Endpoints come, go, fail, start anew
// and report late; requests arrive, are answered by others than the first, and end. Both logs are the same, byte for
// byte.

#include "controllers.hpp"
#include "picker.hpp"

#include <tessera/fleet/log.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace endpoint_picker;
using fleet::event;
using fleet::event_kind;
using fleet::replica_id;
using tessera::blocks;
using tessera::tokens;

constexpr std::size_t endpoints = 5;  // In the file at a time; twice as many have a number.
constexpr std::size_t requests = 24;

std::string address_of(std::uint64_t i) { return "10.0.0." + std::to_string(i + 1) + ":80"; }

/// What happens, as lines.
struct log {
  std::string text;
  void add(const event& e, std::span<const fleet::action> all) {
    fleet::log_line line;
    text.append(fleet::write(e, line)) += '\n';
    for (const fleet::action& a : all) text.append(fleet::write(a, line)) += '\n';
  }
};

/// A runtime, and a plain record of which endpoint has which number.
class by_hand {
 public:
  struct numbered {
    std::string where;
    bool listed = false;
    bool joined = false;
    double started = 0;
    std::uint64_t incarnation = 0;
    std::uint64_t epoch = 0;
  };
  explicit by_hand(std::string_view name)
      : by_{tessera::sim::make_controller(name, {.replicas = 2 * endpoints, .requests = requests})},
        storage_{tessera::storage_for<fleet::runtime>(
            {.book = {.replicas = 2 * endpoints, .reservations = requests, .moves = 1}, .requests = requests})},
        runs_{*by_, storage_, {.book = {.lease = tessera::duration{30.0}, .silence = tessera::duration{4.0}}}},
        all(2 * endpoints) {}

  replica_id tell(event e) {
    // The picker is not told the time with these.
    const bool timeless = e.what == event_kind::asks_report || e.what == event_kind::drained ||
                          e.what == event_kind::unreachable || e.what == event_kind::failed ||
                          e.what == event_kind::ended;
    if (!timeless) told_s_ = now;
    e.at_s = told_s_;
    const auto actions = runs_.handle(e);
    said.add(e, actions);
    for (const fleet::action& a : actions) {
      REQUIRE((a.what == fleet::action_kind::place || a.what == fleet::action_kind::note ||
               a.what == fleet::action_kind::plan));  // the rest is refused
      if (a.what == fleet::action_kind::place) return a.replica;
    }
    return fleet::no_replica;
  }
  [[nodiscard]] bool has_requests(replica_id id) const {
    return std::any_of(at.begin(), at.end(), [id](const auto& r) { return r.second == id; });
  }
  void fails(replica_id id) {
    tell({.what = event_kind::failed, .replica = id, .number = all[id].incarnation});
    all[id].joined = false;
    for (auto& [request, where] : at) where = where == id ? fleet::no_replica : where;
  }
  void settle(const std::vector<std::string>& file) {
    for (replica_id id = 0; id != all.size(); ++id) {
      numbered& n = all[id];
      if (n.where.empty() || n.listed || (n.joined && has_requests(id))) continue;
      if (n.joined) fails(id);
      n.where.clear();
    }
    for (const std::string& where : file) {
      const auto has = [&](const numbered& n) { return n.listed && n.where == where; };
      if (std::any_of(all.begin(), all.end(), has)) continue;
      const auto free = std::find_if(all.begin(), all.end(), [](const numbered& n) { return n.where.empty(); });
      if (free == all.end()) return;
      free->where = where;
      free->listed = true;
      free->started = 0;
    }
  }
  void lists(const std::vector<std::string>& file) {
    for (replica_id id = 0; id != all.size(); ++id) {
      numbered& n = all[id];
      if (!n.listed || std::find(file.begin(), file.end(), n.where) != file.end()) continue;
      n.listed = false;
      tell({.what = event_kind::drained, .replica = id});
    }
    settle(file);
  }
  void reports(replica_id id, const engine_metrics& m) {
    numbered& n = all[id];
    if (n.joined && n.started != m.started) {
      fails(id);
      if (!n.listed) return n.where.clear();
    }
    if (!n.joined) {
      if (!n.listed) return;
      event e{.what = event_kind::joined, .replica = id, .number = ++n.incarnation};
      e.joins = {.capacity = blocks{static_cast<std::int64_t>(m.kv_tokens / 16)},
                 .prefill = {.cost = {.alpha = 1, .beta = 75'000},
                             .budget = {.peak_flops = 1e9, .ttft = tessera::duration{1.0}}},
                 .can = {false, false, false, false, false, false}};
      tell(e);
      n.joined = true;
      n.started = m.started;
    }
    event e{.what = event_kind::reported, .replica = id};
    e.said = {.incarnation = n.incarnation, .epoch = ++n.epoch};
    e.said.all.requests = m.running + m.waiting;
    const auto capacity = static_cast<double>(runs_.book().at(id).capacity.count());
    e.said.all.kv_held = blocks{static_cast<std::int64_t>(m.kv_usage * capacity)};
    tell(e);
  }
  /// Those that may be chosen and are in the subset, or of these those that can hold it all if there are any.
  [[nodiscard]] std::set<replica_id> choices(const std::vector<std::string>* subset, tokens longest) const {
    std::set<replica_id> may, fits;
    const auto shown = runs_.book().shown();
    for (std::size_t i = 0; i != shown.size(); ++i) {
      const auto id = static_cast<replica_id>(shown[i].id);
      if (subset != nullptr && std::find(subset->begin(), subset->end(), all[id].where) == subset->end()) continue;
      may.insert(id);
      if (16 * shown[i].capacity.count() >= longest.count()) fits.insert(id);
    }
    return fits.empty() ? may : fits;
  }
  void exclude_others(const std::set<replica_id>& chosen) {
    const auto shown = runs_.book().shown();
    for (std::size_t i = 0; i != shown.size(); ++i) {
      const auto id = static_cast<replica_id>(shown[i].id);
      if (chosen.count(id) == 0) tell({.what = event_kind::offers, .excluded = true, .replica = id});
    }
  }
  [[nodiscard]] const fleet::runtime& runs() const { return runs_; }

 private:
  std::shared_ptr<fleet::controller> by_;
  tessera::owned_storage<fleet::runtime_limits> storage_;
  fleet::runtime runs_;
  double told_s_ = 0;

 public:
  double now = 0;
  log said;
  std::vector<numbered> all;                 // By number; without an address: free.
  std::map<std::uint64_t, replica_id> at{};  // By request.
};

/// Both, for some hundred steps.
void compare(std::string_view name, std::uint64_t seed) {
  INFO(name << ", seed " << seed);
  std::mt19937_64 draw{seed};
  const auto below = [&](std::uint64_t n) { return draw() % n; };
  log heard;
  picker p{{.policy = std::string{name},
            .endpoints = endpoints,
            .requests = requests,
            .choices = 3,
            .silence = tessera::duration{4.0},
            .lease = tessera::duration{30.0}},
           [&](const event& e, std::span<const fleet::action> all) { heard.add(e, all); }};
  by_hand plain{name};
  std::vector<std::string> file;
  std::vector<std::pair<ticket, tokens>> live;
  std::map<std::string, double> started;
  std::vector<std::pair<scrape_target, engine_metrics>> late;  // Metrics that are on their way.
  std::uint64_t asked = 0;
  std::size_t picked = 0;
  for (int step = 0; step != 400; ++step) {
    plain.now += static_cast<double>(below(8)) / 16;
    const tessera::time_point now = tessera::time_point::at_seconds(plain.now);
    const std::uint64_t what = step == 0 ? 0 : 1 + below(31);
    if (what < 2) {
      file.clear();
      endpoint_list list;
      for (std::uint64_t i = 0; i != 8 && file.size() != endpoints; ++i) {
        if (step != 0 && below(3) == 0) continue;
        file.push_back(address_of(i));
        list.endpoints.push_back({.where = file.back()});
      }
      p.list(list);
      plain.lists(file);
    } else if (what < 6) {
      for (const scrape_target& t : p.targets()) {
        REQUIRE(plain.all[t.id].where == t.where);
        const std::uint64_t how = below(12);
        if (how == 0) {
          p.unreachable(t);
          if (plain.all[t.id].joined)
            plain.tell({.what = event_kind::unreachable, .replica = t.id, .number = plain.all[t.id].incarnation});
          continue;
        }
        started[t.where] += how == 1 ? 1 : 0;
        p.asked(t);
        plain.tell({.what = event_kind::asks_report, .replica = t.id});
        late.emplace_back(t, engine_metrics{.running = below(9),
                                            .waiting = below(3),
                                            .kv_usage = static_cast<double>(below(100)) / 100,
                                            .kv_tokens = 8000 + 4000 * (t.id % 3),
                                            .started = 1 + started[t.where]});
      }
    } else if (what < 10) {
      // Some arrive, in any order, also of endpoints that are gone.
      std::shuffle(late.begin(), late.end(), draw);
      for (std::uint64_t n = below(late.size() + 1); n != 0; --n) {
        const auto [t, m] = late.back();
        late.pop_back();
        const auto now_there = p.targets();
        const bool current = std::any_of(now_there.begin(), now_there.end(),
                                         [&t = t](const scrape_target& u) { return u.life == t.life; });
        p.reported(t, m, now);
        if (current) plain.reports(t.id, m);
      }
    } else if (what < 18) {
      std::vector<std::string> subset;
      for (std::uint64_t i = 0; i != 8; ++i) {
        if (below(2) == 0) subset.push_back(address_of(i));
      }
      const auto* const only = below(4) == 0 ? &subset : nullptr;
      const pick_request w{.token_ids = below(6000), .max_tokens = below(4) * 3000, .reasons = below(3) == 0};
      pick_request named = w;
      named.subset = only;
      const decision d = p.pick(named, now);
      ++asked;
      const tokens prompt{static_cast<std::int64_t>(w.token_ids)};
      const tokens limit{static_cast<std::int64_t>(w.max_tokens)};
      const auto chosen = plain.choices(only, prompt + limit);
      if (chosen.empty()) {
        REQUIRE(d.what == decision::kind::none_ready);
      } else if (plain.at.size() == requests) {
        REQUIRE(d.what == decision::kind::full);
      } else {
        plain.exclude_others(chosen);
        event e{.what = event_kind::arrived, .request = asked};
        e.asks = {.prompt = prompt,
                  .limit = limit,
                  .prefix_key = asked,
                  .is = *w.reasons ? tessera::phase::reasoning : tessera::phase::answering};
        const replica_id to = plain.tell(e);
        REQUIRE(chosen.count(to) == 1);
        REQUIRE(d.what == decision::kind::chosen);
        REQUIRE(d.place.where == to);
        // The first is the controller's. The others are others that may be chosen, by load.
        std::vector<std::string> all;
        for (std::size_t from = 0; from <= d.destination.size();) {
          const std::size_t comma = std::min(d.destination.find(',', from), d.destination.size());
          all.push_back(d.destination.substr(from, comma - from));
          from = comma + 1;
        }
        REQUIRE(all[0] == plain.all[to].where);
        REQUIRE(all.size() == std::min<std::size_t>(chosen.size(), 3));
        std::vector<blocks> loads;
        std::set<std::string> named_once(all.begin(), all.end());
        REQUIRE(named_once.size() == all.size());
        const auto load_of = [&](replica_id id) {
          const fleet::view& v = plain.runs().book().at(id);
          return v.kv_held + v.waiting_blocks;
        };
        for (std::size_t i = 1; i != all.size(); ++i) {
          const auto id =
              std::find_if(chosen.begin(), chosen.end(), [&](replica_id k) { return plain.all[k].where == all[i]; });
          REQUIRE(id != chosen.end());
          loads.push_back(load_of(*id));
        }
        REQUIRE(std::is_sorted(loads.begin(), loads.end()));
        for (const replica_id id : chosen) {
          REQUIRE(
              (named_once.count(plain.all[id].where) == 1 || load_of(id) >= loads.back()));  // then there are others
        }
        plain.at[asked] = to;
        live.emplace_back(d.place, tokens{});
        ++picked;
      }
    } else if (what < 23 && !live.empty()) {
      auto& [t, generated] = live[below(live.size())];
      generated += tokens{static_cast<std::int64_t>(1 + below(300))};
      p.progress(t, static_cast<std::uint64_t>(generated.count()), now);
      plain.tell({.what = event_kind::progressed, .replica = t.where, .request = t.request, .count = generated});
      if (below(3) == 0) {
        p.answers(t, now);
        plain.tell({.what = event_kind::reasoning_ended, .replica = t.where, .request = t.request});
      }
    } else if (what < 26 && !live.empty()) {
      ticket& t = live[below(live.size())].first;
      const std::string where = address_of(below(8));
      p.served(t, where, now);
      const auto there = std::find_if(plain.all.begin(), plain.all.end(),
                                      [&](const by_hand::numbered& n) { return n.listed && n.where == where; });
      const auto known = plain.at.find(t.request);
      if (there != plain.all.end() && known != plain.at.end() && known->second != there - plain.all.begin()) {
        event e{.what = event_kind::refused, .replica = known->second, .request = t.request};
        if (known->second == fleet::no_replica) {
          e = {.what = event_kind::arrived, .request = t.request};
          e.asks = *plain.runs().find(t.request);
        }
        plain.exclude_others({static_cast<replica_id>(there - plain.all.begin())});
        known->second = plain.tell(e);
        REQUIRE(t.where == known->second);
      }
    } else if (what < 29 && !live.empty()) {
      const std::size_t i = below(live.size());
      p.release(live[i].first);
      plain.tell({.what = event_kind::ended, .request = live[i].first.request});
      plain.at.erase(live[i].first.request);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      p.tick(now);
      plain.tell({.what = event_kind::clock});
      // Requests that were not named for a lease are known no more.
      for (auto r = plain.at.begin(); r != plain.at.end();) {
        r = plain.runs().find(r->first) == nullptr ? plain.at.erase(r) : std::next(r);
      }
      plain.settle(file);
    }
    if (heard.text == plain.said.text) continue;
    // Only where they differ.
    const auto differ =
        std::mismatch(heard.text.begin(), heard.text.end(), plain.said.text.begin(), plain.said.text.end());
    const auto from = static_cast<std::size_t>(std::max<std::ptrdiff_t>(differ.first - heard.text.begin() - 200, 0));
    const std::string both = heard.text.substr(from) + "against\n" + plain.said.text.substr(from);
    INFO("step " << step << "\n" << both);
    REQUIRE(false);
  }
  REQUIRE(picked > 40);
}

}  // namespace

TEST_CASE("what the picker does is what a runtime of the same controller decides") {
  for (const std::string_view name : controller_names()) {
    for (std::uint64_t seed = 1; seed != 6; ++seed) compare(name, seed);
  }
}
