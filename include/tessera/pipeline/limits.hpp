// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>

#include <cstddef>

TESSERA_NAMESPACE_BEGIN

/// The capacities of a scheduler. All storage follows from them.
struct scheduler_limits {
  std::size_t requests = 4096;  ///< Most requests waiting; `submit` and `adopt` refuse more. Preempted requests always
                                ///< have room.
  std::size_t blocks = 0;       ///< KV blocks on the device.
  tokens block_size{16};        ///< Tokens per block.
  std::size_t residents = 256;  ///< Most requests that hold device blocks at once.
  std::size_t host_blocks = 0;  ///< KV blocks in host memory for swapped requests; 0: preemption always recomputes.
                                ///< With a `kv::two_level_cache` also for evicted blocks.
  tokens max_length{};          ///< Most KV of one sequence (the model's context); 0: as much as the blocks allow. Set
                                ///< it: each row of the block tables has room for this length (4 bytes a block). There
                                ///< are 4 times `residents` rows in all, those of the joined tables included; 6 times
                                ///< with 2 plans in flight.
  std::size_t plans_in_flight = 1;  ///< Most plans in flight: made and not settled. 2: a step is planned while one
                                    ///< runs.
  std::size_t plans_apart = 1;  ///< Plans that sample for one request are at least this far apart, as long as the first
                                ///< of them is not settled. 1: each plan may. For an engine with pipeline parallelism:
                                ///< its stages. From `plans_in_flight` on, no plan has a request with a next token that
                                ///< is not known yet.
  std::size_t deadlines = 0;    ///< Most deadlines at once: of parked requests, of requests that are to start, and of
                                ///< draining blocks. Draining blocks take one even if they have no deadline.
  tokens slots_ahead{};  ///< Room for the KV of as many tokens beyond those that a step computes of a request, up to
                         ///< `max_length`. For a drafter that keeps KV of its own. Drafts come on top.

  /// Most slots of one sequence: for the KV of its tokens, and those ahead.
  [[nodiscard]] constexpr tokens most_slots() const noexcept {
    const tokens all = block_size * static_cast<std::int64_t>(blocks);
    return max_length > tokens{} ? min(max_length, all) : all;
  }
  /// Most tokens of one sequence that have KV.
  [[nodiscard]] constexpr tokens longest() const noexcept {
    const tokens most = most_slots();
    return max_length > tokens{} && most == max_length ? most : max(most - slots_ahead, tokens{});
  }
  /// Rows of the block table. A request that leaves keeps its row until the plans that contain it are settled.
  [[nodiscard]] constexpr std::size_t rows() const noexcept { return (1 + plans_in_flight) * residents; }
  /// Blocks that one sequence can have: the width of a block table row.
  [[nodiscard]] constexpr std::size_t blocks_per_row() const noexcept {
    return block_size > tokens{} ? static_cast<std::size_t>(blocks_for(most_slots(), block_size).count()) : 0;
  }
};

TESSERA_NAMESPACE_END
