// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/copy_on_write.hpp>
#include <tessera/kv/csr_tables.hpp>
#include <tessera/preempt/concepts.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// What passes between a scheduler and an engine in one step: limits in, plan out, outcomes back.

TESSERA_NAMESPACE_BEGIN

/// What one step of the engine can take.
struct step_limits {
  std::size_t max_batch = 256;  ///< Most requests in the step.
  tokens token_budget{8192};    ///< Most tokens run in the step: prefill, decode and lookahead together (without
                                ///< chunked prefill, one prompt may exceed it).
  tokens max_chunk{};  ///< Most prefill tokens of one request in the step. 0: the budget binds, and a prompt with more
                       ///< than 16,384 tokens left leaves half of what it could take to the prompts of no lower
                       ///< priority behind it, as far as they use it. At least `token_budget`: a prompt takes all that
                       ///< is left, in turn.
  tokens prefill_budget{};  ///< Most prefill tokens of all; 0: only `token_budget` binds, so a budget that is computed
                            ///< must be at least 1. Who decodes is not held up when it is spent. From a time:
                            ///< `cost::prefill_in_time`.
  tokens lookahead{};       ///< Most KV slots for the drafts of one request; how many it gets of what is free, the
                            ///< draft policy says (by default as many). 0: nobody drafts.
  std::size_t max_starts = ~std::size_t{0};  ///< Most waiting requests that start in the step; 0: no new admissions.
};

/// Where an entry of a plan comes from.
enum class entry_origin : std::uint8_t {
  going_on,  ///< It was resident before.
  started,   ///< It starts for the first time here, or comes from another instance, or was forked.
  resumed,   ///< It was preempted, and goes on with what is in `swap_in`, in the prefix cache, or from the beginning.
};

/// One request's share of a step: compute the KV of tokens [first, first + count) of its sequence.
template <class R>
struct scheduled {
  R* request;         ///< The request.
  tokens first;       ///< Tokens of the sequence whose KV is there when the plans before are run: less by as
                      ///< many drafts as these have refused since it was made.
  tokens count;       ///< Tokens to compute, of which plans in flight may yet have to sample the last. 1: a decode.
  tokens lookahead;   ///< KV slots after those, for speculative tokens: at most what `step_limits` asked for.
  std::uint32_t row;  ///< Row of the block table.
  std::uint32_t new_blocks;  ///< So many blocks at the end of the row were in no plan before that was run. With
                             ///< `kv::groups` of all groups together; `tables` has them by group.
  bool samples;              ///< The last token's logits are needed: the step yields a token for this request.
  entry_origin origin;       ///< Whether the engine knows it.
};

/// KV to copy between device and host before the step runs. Both spans have the same length.
template <class R>
struct kv_transfer {
  R* request;                            ///< The request.
  std::size_t first;                     ///< Its blocks before this one need no copy: others hold them.
  std::span<const kv::block_id> device;  ///< Its blocks on the device from there on, in the order of the sequence.
  std::span<const kv::block_id> host;    ///< The blocks in the host tier, one for each on the device.
};

/// KV of a block that is evicted from the prefix cache, and goes to its second level.
struct kv_demotion {
  kv::block_id device;  ///< Copy from here, before anything else is written to it,
  kv::block_id host;    ///< to here.
};

/// Device blocks to fill before the step runs with the KV of an adopted request, which comes from another instance.
template <class R>
struct kv_fetch {
  R* request;                            ///< The request.
  std::size_t first;                     ///< Its blocks before this one were found in the prefix cache here.
  std::span<const kv::block_id> device;  ///< Its blocks on the device from there on, in the order of the sequence.
};

/// What becomes of a parked request at its deadline.
enum class park_end : std::uint8_t {
  ready,  ///< It goes on, as after `ready`.
  fails,  ///< It has failed.
};

/// What a deadline was for.
enum class deadline_of : std::uint8_t {
  parked,    ///< `park`: it goes on, or has failed, as `park` was told.
  loading,   ///< `loading`: it computes what has not arrived.
  waiting,   ///< `start_by`: it waits still; nothing has changed.
  draining,  ///< Blocks of one that has left: they may be another's from now on.
};

/// A deadline that has passed.
template <class R>
struct deadline_passed {
  R* request;            ///< Whose it was; null for blocks that were draining.
  deadline_of what;      ///< What it was for.
  std::uint64_t ticket;  ///< Of blocks that were draining; else 0.
};

/// A request that lost its blocks.
template <class R>
struct preemption {
  R* request;                   ///< The request.
  preemption_mode mode;         ///< Swapped out or dropped.
  const R* for_whom = nullptr;  ///< The request whose turn it was, and that takes some of its blocks or its place.
};

/// Everything an engine does in one step. All spans point into the scheduler's storage and are valid until the plan is
/// committed or abandoned, `tables` until the next is made, too. With several in flight, the engine runs them in the
/// order in which they were made, each after the one before. The engine must finish `copies` before `swap_out` and
/// `demoted`, and these before `swap_in` and `fetch`, and all before the first kernel, because blocks given up by one
/// request may be another's in the same step. What is written to blocks of `load` waits for `load_after`. Where a gate
/// defers classes of requests, those that start are in the order of their turns, not of their ranks.
/// @tparam Tables the block tables as the engine's kernels take them: `kv::csr_view`, `kv::row_view` or changes alone.
template <class R, class Tables = kv::csr_view>
struct step_plan {
  std::span<const scheduled<R>> decode;      ///< One token each, in rank order.
  std::span<const scheduled<R>> prefill;     ///< Chunks of prompts (or of recomputed sequences), in rank order.
  std::span<const kv_transfer<R>> swap_out;  ///< KV that leaves the device.
  std::span<const kv_demotion> demoted;      ///< Cached KV that leaves the device, with a `kv::two_level_cache`.
  std::span<const kv::block_copy> copies;   ///< KV to copy on the device, for forks: first of all, one after the other.
  std::span<const kv_transfer<R>> swap_in;  ///< KV that comes back to the device; with a `kv::two_level_cache` also
                                            ///< such as was found on the host.
  std::span<const kv_fetch<R>> fetch;       ///< KV that arrives with adopted requests.
  std::span<const kv_fetch<R>> load;  ///< KV that is on its way (`loading`): nobody computes on it, or writes to these
                                      ///< blocks, before `arrived`.
  std::uint64_t load_after = 0;  ///< Do not write to blocks of `load` before all plans up to this id have been run,
                                 ///< with their copies: those may read them yet, because a victim or one that has ended
                                 ///< gave them up meanwhile. 0: nothing in flight reads them. If it is `id`, the copies
                                 ///< of this plan read them.
  std::span<const preemption<R>> preempted;  ///< Who lost its blocks, swapped or dropped.
  std::span<R* const> outgrown;              ///< Longer than the limits allow: finish or cancel them.
  std::span<const deadline_passed<R>> late;  ///< Deadlines that have passed since the last plan. Each is told once, and
                                             ///< has passed even if the plan is abandoned.
  Tables tables{};                           ///< Block tables of `decode`, then `prefill`.
  tokens computed{};                         ///< Sum of `count` over decode and prefill.
  std::uint64_t id = 0;                      ///< Counts the plans of a scheduler; `commit` checks it.

  /// Number of outcomes that `commit` wants.
  [[nodiscard]] std::size_t size() const noexcept { return decode.size() + prefill.size(); }
  /// Whether there is none. O(1).
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  /// Entry `i` of decode, then prefill: the order of the outcomes. Requires `i < size()`.
  [[nodiscard]] const scheduled<R>& operator[](std::size_t i) const noexcept {
    return i < decode.size() ? decode[i] : prefill[i - decode.size()];
  }
};

/// What became of one scheduled entry. The default is the common case: one token, and on it goes.
struct outcome {
  std::uint16_t produced = 1;     ///< Tokens sampled, up to 1 + the entry's lookahead. Ignored if it does not sample.
  bool end_of_reasoning = false;  ///< The last produced token ends the reasoning phase (cut speculation off there).
  bool finished = false;          ///< The request is done. Also of an entry that does not sample: then it ends in the
                                  ///< middle of its prompt, so look at `samples` first.
  bool failed = false;            ///< The request cannot go on.
};

TESSERA_NAMESPACE_END
