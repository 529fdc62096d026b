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
/// What the controllers of a disaggregated cluster are shown, and what they answer. They are pure: telemetry in,
/// actions out, nothing done. The engine carries actions out, at its own speed, and reports what became of them in the
/// next telemetry. A worker is named by its place in the telemetry, which stays the same from epoch to epoch.

TESSERA_NAMESPACE_BEGIN
namespace control {

/// What a worker does. Mixed workers do both phases, or stand by: from them the other two pools are reinforced.
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

/// A sequence that could be moved: it decodes, and is not on its way elsewhere already.
struct sequence {
  std::uint64_t id = 0;  ///< The engine's name for it.
  blocks held{};         ///< Blocks that moving it frees; as many are needed where it goes. At least 1.
  bytes size{};          ///< What has to be sent. At least 1.
};

/// One worker at the time of the report.
struct worker {
  control::role role = role::mixed;  ///< The role it has; while it changes, the one that it will have.
  bool elastic = false;   ///< From the mixed pool: it may be promoted, and recalled later. False: it keeps its role.
  bool available = true;  ///< False: unreachable. Counts for nothing and gets nothing to do.
  bool changing = false;  ///< On its way to `role`, from the report after the change was asked for until it is done.
                          ///< Counts in that pool, lest a second worker is sent after it; gets nothing to do.
  double time_phi = 1;    ///< Phi_T of its prefill queue, see `headroom::time_freeness`.
  blocks total{};         ///< KV blocks of the worker.
  blocks free{};          ///< Of these, neither in use nor promised to a sequence on its way here.
  blocks leaving{};       ///< Of those in use, held by sequences on their way elsewhere: free before long.
  blocks queued{};        ///< What sequences need that wait here and hold none: they count as used in Phi_S, so that a
                    ///< worker with more than fits is below 0. The paper counts allocated blocks only: leave it 0.
  blocks demand{};                 ///< Fewer free blocks than this are stranded, see `headroom::reference_demand`.
  std::size_t sequences_held = 0;  ///< Sequences that grow here, those on their way here included.
  std::span<const sequence> sequences{};  ///< Those that could be moved.
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

/// Whether the counts of a report can be true. The controllers assert it: `flow_controller` of the workers whose
/// freeness it reads, `defragmenter` of the decode workers.
[[nodiscard]] constexpr bool plausible(const worker& w) noexcept {
  return blocks{} <= w.free && blocks{} <= w.leaving && w.free + w.leaving <= w.total && blocks{} <= w.demand &&
         blocks{} <= w.queued;
}

/// Action: send the KV of a sequence to another worker, live.
struct move {
  std::uint64_t sequence = 0;     ///< The `id` of the sequence.
  std::uint32_t from = no_index;  ///< Worker that holds it.
  std::uint32_t to = no_index;    ///< Worker that gets it.
  blocks held{};                  ///< Blocks that become free at the one and are taken at the other.
  bytes size{};                   ///< Bytes to send.

  /// Memberwise.
  friend constexpr bool operator==(const move&, const move&) noexcept = default;
};

/// Action: give a worker another role.
struct role_change {
  std::uint32_t worker = no_index;  ///< Its place in the telemetry.
  role from = role::mixed;          ///< The role it has.
  role to = role::mixed;            ///< The role it gets.

  /// Memberwise.
  friend constexpr bool operator==(const role_change&, const role_change&) noexcept = default;
};

}  // namespace control
TESSERA_NAMESPACE_END
