// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/pipeline/plan.hpp>
#include <tessera/request/state.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

TESSERA_NAMESPACE_BEGIN

/// Counts of a scheduler since its construction, for an engine's metrics. A value. Abandoned plans are not counted,
/// except for deadlines that had passed. Differences of two of them are rates.
struct scheduler_counters {
  std::uint64_t joined = 0;             ///< Requests that came: submitted, adopted or forked.
  std::uint64_t refused = 0;            ///< Requests that `submit` or `adopt` rejected, for any reason.
  std::uint64_t finished = 0;           ///< Requests that finished,
  std::uint64_t cancelled = 0;          ///< were cancelled,
  std::uint64_t failed = 0;             ///< failed,
  std::uint64_t left = 0;               ///< or moved to another instance.
  std::uint64_t plans = 0;              ///< Plans that were run.
  std::uint64_t started = 0;            ///< Starts: first ones, and those after a preemption.
  std::uint64_t swapped = 0;            ///< Preemptions with a copy on the host,
  std::uint64_t recomputed = 0;         ///< and without.
  std::uint64_t hit_blocks = 0;         ///< Blocks that starting requests found in the prefix cache,
  std::uint64_t all_blocks = 0;         ///< out of this many blocks of their sequences;
  std::uint64_t host_hit_blocks = 0;    ///< and blocks behind these that were found on the host, and loaded.
  std::array<std::uint64_t, 4> late{};  ///< Passed deadlines, by `deadline_of`.
  /// Plans in which a waiting request was the first that could not start, by `wait_reason`.
  std::array<std::uint64_t, wait_reasons> held_up{};

  /// Share of blocks that were found in the prefix cache, on the device; 0 before the first start.
  [[nodiscard]] constexpr double hit_rate() const noexcept { return share_of_all(hit_blocks); }
  /// Share of blocks that were found on the host and loaded; 0 before the first start.
  [[nodiscard]] constexpr double host_hit_rate() const noexcept { return share_of_all(host_hit_blocks); }

 private:
  [[nodiscard]] constexpr double share_of_all(std::uint64_t n) const noexcept {
    return all_blocks == 0 ? 0 : static_cast<double>(n) / static_cast<double>(all_blocks);
  }
};

TESSERA_NAMESPACE_END
