// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// @file
/// Random operations on a scheduler with groups. Where choices come from is a template parameter: a seeded generator in
/// tests, bytes in fuzz targets.

#include "property/groups_world.hpp"
#include "support/must.hpp"
#include "support/random_limits.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace tessera_test {
namespace grouped {

/// Random layers, or of a state and windows alone.
template <std::size_t Groups, class Below>
std::array<kv::group, Groups> random_layers(Below& below) {
  std::array<kv::group, Groups> all;
  for (kv::group& g : all) {
    const tokens block_size = of(1 + below(8));
    switch (below(5)) {
      case 0: g = kv::group::recurrent(block_size, block_size % of(2) == tokens{}); break;
      case 1: g = kv::group::sliding(block_size, of(1 + below(30))); break;
      case 2: g = kv::group::chunked(block_size, of(1 + below(30))); break;
      default: g = kv::group::full(block_size);
    }
  }
  return all;
}

/// What one run is of.
template <std::size_t Groups>
struct setting {
  std::array<kv::group, Groups> layers{};
  std::size_t plans_in_flight = 1;
  std::size_t plans_apart = 1;
  bool remembers = true;
  int operations = 200;
};

/// Any sequence of operations, and then to the end of all. `below(n)`: a number below `n`. `extra`: where not null,
/// plans are made and abandoned between, by its choices. Returns a digest of what the scheduler decided.
template <class Order, class Gate, std::size_t Groups, class Below, class Extra>
std::uint64_t play(const setting<Groups>& with, Below& below, Extra* extra, totals& t) {
  using world_type = world<Groups, Order, Gate>;
  using request_type = text_request<Groups>;
  typename world_type::limits_type l;
  l.layers = with.layers;
  l.requests = 12;
  l.blocks = 30 + below(90);
  l.residents = 3 + below(4);
  l.max_length = of(60 + below(60));
  l.plans_in_flight = with.plans_in_flight;
  l.plans_apart = with.plans_apart;
  l.deadlines = 4;
  l.keeps_passed = below(4) == 0;
  l.kept_behind = of(below(3) / 2);
  typename world_type::scheduler_type::config c{};
  if constexpr (requires { c.order.quantum; }) c.order.quantum = 5_tok;
  if (below(4) == 0) c.reserve = reservation::whole_sequence;
  c.remember_refusals = with.remembers;
  std::deque<request_type> requests;  // they outlive the world if it throws
  world_type w{l, c, t};

  const auto submit = [&] {
    request_type& r = requests.emplace_back();
    r.id = requests.size();
    const std::size_t length = 1 + below(count(l.max_length));
    std::size_t common = below(length);
    const std::size_t whose = below(requests.size());
    const bool is_next_turn = below(3) == 0;
    if (is_next_turn) {
      // The next turn of a chat, or a branch of it.
      common = std::min(common + 20, requests[whose].text.size());
      for (std::size_t p = 0; p != common; ++p) r.append(requests[whose].text[p]);
    }
    const std::size_t family = below(2);
    while (r.text.size() < length) {
      const std::uint64_t name = r.text.size() < common ? family : 100 + r.id;
      r.append(static_cast<std::int32_t>(mix(name, r.text.size()) & 0xffffff));
    }
    r.prompt = of(r.text.size());
    r.output = 1 + below(30);
    r.max_output = of(r.output);
    r.hash(l.layers);
    const status s = w.submit(r);
    must(s == status::accepted || s == status::queue_full || s == status::never_fits, "a request that is well formed");
    if (s == status::accepted && below(3) == 0) {
      const std::size_t n = below(r.text.size());
      w.announce(r, n, below(2) == 0, below(8));
    }
  };
  for (int i = 0; i != with.operations; ++i) {
    if constexpr (requires { below.done(); }) {
      if (below.done()) break;
    }
    const auto live = w.live();
    request_type* const any = live.empty() ? nullptr : live[below(live.size())];
    switch (below(22)) {
      case 0:
      case 1:
      case 2: submit(); break;
      case 3:
        if (any != nullptr && below(2) == 0) w.cancel(*any);
        break;
      case 4:
        if (any != nullptr && (any->state().life == lifecycle::suspended || below(4) == 0)) w.suspend_or_resume(*any);
        break;
      case 5:
        if (any != nullptr && below(2) == 0) w.preempt(*any);
        break;
      case 6: {
        if (any == nullptr || any->state().life != lifecycle::resident) break;
        for (std::size_t n = below(8) == 0 ? 4 : 1; n != 0; --n) {
          request_type& child = requests.emplace_back(*any);
          child.id = requests.size();
          child.output += below(10);
          child.max_output = of(child.output);
          child.is_fork = true;
          if (!w.fork(*any, child)) child.ended_there = true;
        }
        break;
      }
      case 7:
        if (below(6) == 0) w.forget_prefixes();
        break;
      case 8:
        if (any != nullptr && below(3) == 0) w.evacuate_and_adopt(*any, below(3) != 0);
        break;
      case 9:
        if (any != nullptr && below(6) == 0) w.drain(*any, below(6));
        break;
      case 10: w.drained(); break;
      case 11:
        if (any != nullptr && below(2) == 0) {
          const std::size_t steps = below(8);
          w.park_or_ready(*any, steps, below(4) == 0);
        }
        break;
      case 12:
        if (any != nullptr && below(3) == 0) w.finish(*any);
        break;
      case 13: {
        if (any == nullptr || any->state().life != lifecycle::waiting) break;
        const std::size_t n = below(any->text.size());
        const bool loads = below(2) == 0;
        w.announce(*any, n, loads, below(8));
        break;
      }
      case 14: w.arrive(below(3) == 0 ? below(20) : 0); break;
      default:
        if (w.in_flight() == l.plans_in_flight || (w.in_flight() != 0 && below(3) == 0)) {
          w.commit(below);
          break;
        }
        for (std::size_t n = extra != nullptr ? (*extra)(3) : 0; n != 0; --n)
          w.plan(tessera_test::random_limits(*extra), true);
        w.plan(tessera_test::random_limits(below), false);
    }
  }
  // With an engine that only ever goes on, everything ends.
  for (int i = 0; i != 8; ++i) w.drained();
  while (w.in_flight() != 0) w.commit(below);
  for (int i = 0; i != 8; ++i) w.arrive(0);
  for (request_type* r : w.live()) {
    if (r->state().parked) {
      w.park_or_ready(*r, 0, false);
    } else if (r->state().life == lifecycle::suspended) {
      w.suspend_or_resume(*r);
    }
  }
  std::size_t left = 100;
  for (const request_type* r : w.live()) left += 20 * (r->text.size() + r->output + 10);
  while (!w.scheduler().idle()) {
    must(left-- != 0, "everything ends");
    w.plan({.max_batch = 4, .token_budget = 40_tok}, false);
    // KV arrives when no plan is open.
    while (w.in_flight() == l.plans_in_flight || (w.in_flight() != 0 && w.is_loading())) w.commit(below);
    w.arrive(0);
  }
  while (w.in_flight() != 0) w.commit(below);
  must(w.scheduler().device_blocks_held() == blocks{}, "all blocks come back");
  return w.digest();
}

}  // namespace grouped
}  // namespace tessera_test
