// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/index.hpp>
#include <tessera/core/units.hpp>
#include <tessera/headroom/space.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// Input and output of the controllers of a disaggregated cluster. They are pure: telemetry in, actions out, no
/// effects. The engine carries actions out, at its own speed, and reports their effects in the next telemetry. A worker
/// is named by its place in the telemetry, which stays the same from epoch to epoch.

TESSERA_NAMESPACE_BEGIN
namespace control {

/// The role of a worker. Mixed workers do both phases, or stand by: they reinforce the other two pools.
enum class role : std::uint8_t { prefill, decode, mixed };

/// A lower-case name, for logs.
[[nodiscard]] constexpr const char* to_string(role r) noexcept {
  switch (r) {
    case role::prefill: return "prefill";
    case role::decode: return "decode";
    case role::mixed: return "mixed";
  }
  return "?";
}

/// A movable sequence: it decodes, and is not moving already.
struct sequence {
  std::uint64_t id = 0;  ///< The engine's name for it.
  blocks held{};         ///< Blocks that moving it frees; its target needs as many. At least 1.
  bytes size{};          ///< Bytes to send. At least 1.
};

/// One worker at the time of the report.
struct worker {
  control::role role = role::mixed;  ///< Its role; while it changes, its new role.
  bool elastic = false;   ///< From the mixed pool: it may be promoted, and recalled later. False: it keeps its role.
  bool available = true;  ///< False: unreachable. It does not count and gets no work.
  bool changing = false;  ///< On its way to `role`, from the report after the request for the change until it is done.
                          ///< It counts in that pool, so that no second worker is sent after it. It gets no work.
  double time_phi = 1;    ///< Phi_T of its prefill queue, see `headroom::time_freeness`.
  blocks total{};         ///< KV blocks of the worker.
  blocks free{};          ///< The blocks neither in use nor promised to a sequence on its way here.
  blocks leaving{};       ///< The blocks in use that are held by sequences on their way elsewhere: free soon.
  blocks queued{};        ///< Blocks needed by sequences that wait here and hold none. They count as used in Phi_S, so
                          ///< that a worker with more than fits is below 0. The paper counts allocated blocks only:
                          ///< leave it 0.
  blocks demand{};        ///< Fewer free blocks than this are stranded, see `headroom::reference_demand`.
  std::size_t sequences_held = 0;         ///< Sequences that grow here, including those on their way here.
  std::span<const sequence> sequences{};  ///< The movable ones.
};

/// Free blocks once the sequences that are leaving have gone.
[[nodiscard]] constexpr blocks settled_free(const worker& w) noexcept { return w.free + w.leaving; }

/// H_frag: all free blocks if they are fewer than the demand.
[[nodiscard]] constexpr blocks stranded(const worker& w) noexcept {
  return kv::stranded_below{w.demand}(kv::memory_use{w.total, settled_free(w), {}});
}

/// Phi_S. O(1).
[[nodiscard]] constexpr double space_phi(const worker& w) noexcept {
  return headroom::space_freeness(w.total - settled_free(w) + w.queued, stranded(w), w.total);
}

/// Whether the counts of a report are possible. The controllers assert it: `flow_controller` for workers with a
/// freeness that it reads, `defragmenter` for decode workers.
[[nodiscard]] constexpr bool plausible(const worker& w) noexcept {
  return blocks{} <= w.free && blocks{} <= w.leaving && w.free + w.leaving <= w.total && blocks{} <= w.demand &&
         blocks{} <= w.queued;
}

/// Action: send the KV of a sequence to another worker, live.
struct move {
  std::uint64_t sequence = 0;     ///< The `id` of the sequence.
  std::uint32_t from = no_index;  ///< Worker that holds it.
  std::uint32_t to = no_index;    ///< Worker that receives it.
  blocks held{};                  ///< Blocks that the one frees and the other takes.
  bytes size{};                   ///< Bytes to send.

  /// Memberwise.
  friend constexpr bool operator==(const move&, const move&) noexcept = default;
};

/// Action: give a worker another role.
struct role_change {
  std::uint32_t worker = no_index;  ///< Its place in the telemetry.
  role from = role::mixed;          ///< Its present role.
  role to = role::mixed;            ///< Its new role.

  /// Memberwise.
  friend constexpr bool operator==(const role_change&, const role_change&) noexcept = default;
};

}  // namespace control
TESSERA_NAMESPACE_END
