// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/pipeline/counters.hpp>
#include <tessera/pipeline/plan.hpp>
#include <tessera/request/state.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// @file
/// A snapshot of schedulers in Prometheus' text format. It needs nothing of llama.cpp: copy it into your engine, answer
/// `/metrics` with it, or leave it where a textfile collector looks.

namespace llama_cpp {

/// What a scheduler has done, and what is in it: taken by the thread that it belongs to, handed to any other.
struct scheduler_snapshot {
  tessera::scheduler_counters counters{};
  std::size_t waiting = 0;
  std::size_t residents = 0;
  std::size_t blocks = 0;
  std::size_t free_blocks = 0;
};

/// The snapshot of a scheduler. O(1).
template <class Scheduler>
[[nodiscard]] scheduler_snapshot take_snapshot(const Scheduler& s) {
  return {.counters = s.counters(),
          .waiting = s.waiting_count(),
          .residents = s.resident_count(),
          .blocks = s.store().capacity(),
          .free_blocks = s.store().free()};
}

/// The text of all instances: of each metric its description once, then a line for each instance. Counters count from
/// the start of the process, so `rate()` makes sense of them; they are named as Prometheus wants them, in `_total`.
[[nodiscard]] inline std::string prometheus_text(std::span<const scheduler_snapshot> instances) {
  std::string text;
  const auto describe = [&](std::string_view name, std::string_view type, std::string_view help) {
    text.append("# HELP ").append(name).append(" ").append(help).append("\n");
    text.append("# TYPE ").append(name).append(" ").append(type).append("\n");
  };
  const auto line = [&](std::string_view name, std::size_t instance, std::string_view label, std::string_view value,
                        std::uint64_t number) {
    text.append(name).append("{instance_id=\"").append(std::to_string(instance)).append("\"");
    if (!label.empty()) text.append(",").append(label).append("=\"").append(value).append("\"");
    text.append("} ").append(std::to_string(number)).append("\n");
  };
  const auto metric = [&](std::string_view name, std::string_view type, std::string_view help, auto&& number) {
    describe(name, type, help);
    for (std::size_t i = 0; i != instances.size(); ++i) line(name, i, "", "", number(instances[i]));
  };
  using snapshot = scheduler_snapshot;
  const auto counter = [&](std::string_view name, std::string_view help, auto&& number) {
    metric(name, "counter", help, [&](const snapshot& s) { return number(s.counters); });
  };
  using counts = tessera::scheduler_counters;
  counter("tessera_requests_joined_total", "Requests that came.", [](const counts& c) { return c.joined; });
  counter("tessera_requests_refused_total", "Requests that were refused.", [](const counts& c) { return c.refused; });

  describe("tessera_requests_ended_total", "counter", "Requests that left, by how.");
  for (std::size_t i = 0; i != instances.size(); ++i) {
    const counts& c = instances[i].counters;
    line("tessera_requests_ended_total", i, "how", "finished", c.finished);
    line("tessera_requests_ended_total", i, "how", "cancelled", c.cancelled);
    line("tessera_requests_ended_total", i, "how", "failed", c.failed);
    line("tessera_requests_ended_total", i, "how", "moved", c.left);
  }

  counter("tessera_plans_total", "Steps that were planned and run.", [](const counts& c) { return c.plans; });
  counter("tessera_starts_total", "Starts, after preemptions too.", [](const counts& c) { return c.started; });
  describe("tessera_preemptions_total", "counter", "Requests that lost their blocks, by what becomes of the KV.");
  for (std::size_t i = 0; i != instances.size(); ++i) {
    line("tessera_preemptions_total", i, "how", "swapped", instances[i].counters.swapped);
    line("tessera_preemptions_total", i, "how", "recomputed", instances[i].counters.recomputed);
  }
  counter("tessera_prefix_hit_blocks_total", "KV blocks found in the prefix cache.",
          [](const counts& c) { return c.hit_blocks; });
  counter("tessera_prefix_host_hit_blocks_total", "KV blocks found in the host's prefix cache, and loaded.",
          [](const counts& c) { return c.host_hit_blocks; });
  counter("tessera_prefix_query_blocks_total", "KV blocks of the sequences that started.",
          [](const counts& c) { return c.all_blocks; });

  constexpr std::array deadlines{"parked", "loading", "waiting", "draining"};
  static_assert(deadlines.size() == counts{}.late.size());
  describe("tessera_deadlines_missed_total", "counter", "Deadlines that have passed, by what for.");
  for (std::size_t i = 0; i != instances.size(); ++i) {
    for (std::size_t k = 0; k != deadlines.size(); ++k) {
      line("tessera_deadlines_missed_total", i, "what", deadlines[k], instances[i].counters.late[k]);
    }
  }
  describe("tessera_held_up_total", "counter",
           "Steps with a request that could not start, by why the first of them could not.");
  for (std::size_t i = 0; i != instances.size(); ++i) {
    for (std::size_t k = 0; k != tessera::wait_reasons; ++k) {
      const std::uint64_t n = instances[i].counters.held_up[k];
      if (n != 0) {
        line("tessera_held_up_total", i, "reason", to_string(static_cast<tessera::wait_reason>(k)), n);
      }
    }
  }

  metric("tessera_requests_waiting", "gauge", "Requests in the queue.", [](const snapshot& s) { return s.waiting; });
  metric("tessera_requests_resident", "gauge", "Requests with KV on the device.",
         [](const snapshot& s) { return s.residents; });
  metric("tessera_kv_blocks", "gauge", "KV blocks on the device.", [](const snapshot& s) { return s.blocks; });
  metric("tessera_kv_blocks_free", "gauge", "KV blocks on the device that can be had.",
         [](const snapshot& s) { return s.free_blocks; });
  return text;
}

}  // namespace llama_cpp
