// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// What goes wrong in a market_world, what the front end does about it, and the checker: members of market_world, which
// includes this.

#include "property/market_world.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace tessera_test {

inline void market_world::schedule_trouble() {
  next_engine_.assign(nodes_.size(), 0);
  for (double& at : next_engine_) at = random_.between(0, 0.02);
  next_arrival_ = 0;
  next_crash_ = options_.crashes > 0 ? random_.between(0, 2 / options_.crashes) : 1e300;
  next_partition_ = options_.partitions > 0 ? random_.between(0, 2 / options_.partitions) : 1e300;
}

inline void market_world::deliver(std::size_t to, market::message m) {
  node& n = nodes_[to];
  if (!n.alive) return;
  if (options_.wrong == mutant::one_incarnation) {
    m.from.incarnation = nodes_[m.from.id].incarnation;
    m.to.incarnation = n.incarnation;
  }
  engine e{*this, to};
  static_cast<void>(n.trade->receive(m, time_point::at_seconds(now_), e));
  while (!forged_.empty()) {
    const market::message f = forged_.back();
    forged_.pop_back();
    if (nodes_[f.to.id].alive) {
      engine other{*this, f.to.id};
      static_cast<void>(nodes_[f.to.id].trade->receive(f, time_point::at_seconds(now_), other));
    }
  }
  check_node(to);
}

inline void market_world::arrive() {
  next_arrival_ = now_ + random_.between(0, 2 / options_.arrivals);
  const std::size_t i = random_.below(nodes_.size() / 2 + 1);  // the front end does not balance
  if (!nodes_[i].alive) return;
  const request_id r = ++counts_.requests;
  record& all = records_[r];
  all.wanted = random_.chance(0.1) ? 400 : 10 + static_cast<std::int64_t>(random_.below(100));
  all.produced = static_cast<std::int64_t>(random_.below(9));
  own(i, r, {all.produced, 0, 0});
}

inline void market_world::crash_one() {
  next_crash_ = now_ + random_.between(0, 2 / options_.crashes);
  const std::size_t i = random_.below(nodes_.size());
  node& n = nodes_[i];
  if (!n.alive) return;
  ++counts_.crashes;
  n.alive = false;
  n.restart = now_ + random_.between(0.01, 2);
  const market::peer dead{static_cast<std::uint32_t>(i), n.incarnation};
  crash c{dead, {}};
  for (std::size_t k = 0; k != nodes_.size(); ++k) {
    if (!nodes_[k].alive) continue;
    c.to_tell.push_back({{static_cast<std::uint32_t>(k), nodes_[k].incarnation}, now_ + random_.between(0, 2)});
    for (const auto& [r, g] : nodes_[k].granted) {
      if (g.to == dead) risk(r, crashes_.size() + 1);
    }
  }
  for (const auto& [r, b] : n.owned) {
    --records_[r].owners;
    risk(r, crashes_.size() + 1);
  }
  for (const auto& [r, g] : n.granted) risk(r, crashes_.size() + 1);
  n.owned.clear();
  n.granted.clear();
  n.reserved.clear();
  n.copies.clear();
  crashes_.push_back(std::move(c));
}

inline void market_world::risk(request_id r, std::size_t n) {
  records_[r].at_risk = true;
  records_[r].risk = n;
  in_danger_.push_back(r);
}

inline void market_world::partition() {
  next_partition_ = now_ + random_.between(0, 2 / options_.partitions);
  const double until = now_ + random_.between(0.1, 3);
  const std::uint64_t side = random_.below(std::uint64_t{1} << nodes_.size());
  const bool one_way = random_.chance(0.3);
  for (std::size_t a = 0; a != nodes_.size(); ++a) {
    for (std::size_t b = 0; b != nodes_.size(); ++b) {
      const bool across = (side >> a & 1U) == 1 && (side >> b & 1U) == 0;
      if (!across) continue;
      net_.cut(a, b, until);
      if (!one_way) net_.cut(b, a, until);
    }
  }
}

inline void market_world::front_end() {
  for (crash& c : crashes_) {
    for (auto& [who, when] : c.to_tell) {
      node& n = nodes_[who.id];
      if (when > now_ || when < 0) continue;
      when = -1;
      if (!n.alive || n.incarnation != who.incarnation) continue;
      engine e{*this, who.id};
      n.trade->peer_failed(c.who, time_point::at_seconds(now_), e);
      check_node(who.id);
    }
    // One that has died itself need not be told.
    std::erase_if(c.to_tell, [&](const auto& t) {
      return t.second < 0 || !nodes_[t.first.id].alive || nodes_[t.first.id].incarnation != t.first.incarnation;
    });
  }
  while (known_to_all_ != crashes_.size() && crashes_[known_to_all_].to_tell.empty()) ++known_to_all_;
  std::vector<request_id> still;
  for (const request_id r : in_danger_) {
    const auto found = records_.find(r);  // it may be listed twice, and be over and forgotten by now
    if (found == records_.end() || !found->second.at_risk) continue;
    record& all = found->second;
    if (all.ended) {
      all.at_risk = false;
    } else if (all.risk > known_to_all_ && options_.wrong != mutant::resubmit_at_once) {
      still.push_back(r);
    } else if (all.owners != 0) {
      all.at_risk = false;
    } else if (granted_somewhere(r)) {
      still.push_back(r);
    } else if (!resubmit(r)) {
      still.push_back(r);
    }
  }
  in_danger_ = std::move(still);
}

inline bool market_world::resubmit(request_id r) {
  const std::size_t i = random_.below(nodes_.size());
  if (!nodes_[i].alive) return false;
  record& all = records_[r];
  all.at_risk = false;
  ++all.epoch;
  ++counts_.resubmitted;
  own(i, r, {all.produced, all.epoch, 0});
  return true;
}

inline void market_world::check_node(std::size_t i) {
  const node& n = nodes_[i];
  if (!n.alive) return;
  if (n.copies.size() > 1) fail("more than one transfer out");
  if (n.copies.size() + n.reserved.size() > 3) fail("more than three transfers");
  if (n.trade->transfers() != n.copies.size() + n.reserved.size()) fail("miscounted transfers");
  std::int64_t promised = 0;
  for (const auto& [ticket, l] : n.reserved) promised += l.about.room.count();
  if (promised > options_.capacity) fail("reserved more blocks than there are");
}

inline void market_world::check_everything() {
  std::map<request_id, std::size_t> owners;
  for (const node& n : nodes_) {
    if (!n.alive) continue;
    for (const auto& [r, b] : n.owned) ++owners[r];
    for (const auto& [r, g] : n.granted) {
      if (options_.wrong == mutant::none && !n.trade->selling().granted(r)) fail("granted, but the market forgot");
      if (n.owned.count(r) != 0) fail("granted and owned by one instance");
    }
  }
  for (const auto& [r, all] : records_) {
    const std::size_t now_owned = owners.count(r) != 0 ? owners[r] : 0;
    if (now_owned != all.owners || now_owned > 1) fail("two owners");
    if (all.ended && now_owned != 0) fail("ended and owned");
    if (!all.ended && now_owned == 0 && !all.at_risk && !granted_somewhere(r)) fail("a request has vanished");
  }
  std::erase_if(records_,
                [&](const auto& kv) { return kv.second.ended && !kv.second.at_risk && !granted_somewhere(kv.first); });
}

}  // namespace tessera_test
