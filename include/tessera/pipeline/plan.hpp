// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/copy_on_write.hpp>
#include <tessera/kv/csr_tables.hpp>
#include <tessera/preempt/concepts.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// The messages between a scheduler and an engine in one step: limits in, plan out, outcomes back.

TESSERA_NAMESPACE_BEGIN

/// The limits of one step of the engine.
struct step_limits {
  std::size_t max_batch = 256;  ///< Most requests in the step.
  tokens token_budget{8192};    ///< Most tokens run in the step: prefill, decode and lookahead together (without
                                ///< chunked prefill, one prompt may exceed it).
  tokens max_chunk{};  ///< Most prefill tokens of one request in the step. 0: only the budget limits. Then a prompt
                       ///< with more than 16,384 tokens left leaves half of its share to later prompts of no lower
                       ///< priority, if they use it. At least `token_budget`: a prompt takes all that is left, in turn.
  tokens prefill_budget{};  ///< Most prefill tokens of all requests; 0: only `token_budget` limits, so a computed
                            ///< budget must be at least 1. Decodes continue when it is spent. To derive it from a time:
                            ///< `cost::prefill_in_time`.
  tokens lookahead{};       ///< Most KV slots for the drafts of one request. The draft policy chooses how many of them
                            ///< it gets (by default all). 0: no drafts.
  std::size_t max_starts = ~std::size_t{0};  ///< Most waiting requests that start in the step; 0: no new admissions.
};

/// The origin of an entry of a plan.
enum class entry_origin : std::uint8_t {
  going_on,  ///< It was resident before.
  started,   ///< It starts for the first time here, or comes from another instance, or was forked.
  resumed,   ///< It was preempted, and continues with KV from `swap_in` or the prefix cache, or from the beginning.
};

/// One request's share of a step: compute the KV of tokens [first, first + count) of its sequence.
template <class R>
struct scheduled {
  R* request;         ///< The request.
  tokens first;       ///< Tokens of the sequence that have KV once the plans before are run. Drafts that these have
                      ///< rejected since it was made are subtracted.
  tokens count;       ///< Tokens to compute. Plans in flight may still have to sample the last one. 1: a decode.
  tokens lookahead;   ///< KV slots after those, for drafts: at most the lookahead of `step_limits`.
  std::uint32_t row;  ///< Row of the block table.
  std::uint32_t new_blocks;  ///< This many blocks at the end of the row were in no earlier plan that was run. With
                             ///< `kv::groups`, those of all groups together; `tables` has them by group.
  bool samples;              ///< The last token's logits are needed: the step samples a token for this request.
  entry_origin origin;       ///< Whether the engine knows it already.
};

/// KV to copy between device and host before the step runs. Both spans have the same length.
template <class R>
struct kv_transfer {
  R* request;                            ///< The request.
  std::size_t first;                     ///< Its blocks before this one need no copy: others hold them.
  std::span<const kv::block_id> device;  ///< Its blocks on the device from there on, in sequence order.
  std::span<const kv::block_id> host;    ///< The blocks in the host tier, one for each on the device.
};

/// KV of a block that the prefix cache evicts to its second level.
struct kv_demotion {
  kv::block_id device;  ///< Copy from here, before anything else is written to it,
  kv::block_id host;    ///< to here.
};

/// Device blocks to fill with KV from elsewhere: before the step runs, of an adopted request or one of `fetching`; or
/// in transfer. With `kv::groups` a request has one of these for each group of layers, one after the other.
template <class R>
struct kv_fetch {
  R* request;                            ///< The request.
  std::size_t first;                     ///< Its blocks before this one were found in the prefix cache here, or are
                                         ///< not needed because a window has passed them.
  std::span<const kv::block_id> device;  ///< Its blocks on the device from there on, in sequence order.
  std::size_t group = 0;                 ///< The group of layers.
};

/// What happens to a parked request at its deadline.
enum class park_end : std::uint8_t {
  ready,  ///< It continues, as after `ready`.
  fails,  ///< It fails.
};

/// The kinds of deadlines.
enum class deadline_of : std::uint8_t {
  parked,    ///< `park`: it continues, or fails, as `park` said.
  loading,   ///< `loading`: it computes what has not arrived.
  waiting,   ///< `start_by`: it still waits; nothing has changed.
  draining,  ///< Draining blocks of a request that has left: others may own them from now on.
};

/// A deadline that has passed.
template <class R>
struct deadline_passed {
  R* request;            ///< Its request; null for draining blocks.
  deadline_of what;      ///< Its kind.
  std::uint64_t ticket;  ///< The ticket of draining blocks; else 0.
};

/// A request that lost its blocks.
template <class R>
struct preemption {
  R* request;                   ///< The request.
  preemption_mode mode;         ///< Swapped out or dropped.
  const R* for_whom = nullptr;  ///< The request with its turn at that moment, which takes some of its blocks or its
                                ///< place.
};

/// Everything that an engine does in one step. All spans point into the scheduler's storage and are valid until the
/// plan is committed or abandoned; `tables` only until another is made. With several plans in flight, the engine runs
/// them in the order in which they were made, each after the one before.
/// The engine must finish `copies` before `swap_out` and `demoted`, these before `swap_in` and `fetch`, and all before
/// the first kernel. This is because blocks that one request gives up may be another's in the same step. Writes to
/// blocks of `load` wait for `load_after`. If a gate defers classes of requests, starting requests are in the order of
/// their turns, not of their ranks.
/// @tparam Tables the block tables in the form of the engine's kernels: `kv::csr_view`, `kv::row_view` or changes
/// alone.
template <class R, class Tables = kv::csr_view>
struct step_plan {
  std::span<const scheduled<R>> decode;      ///< One token each, in rank order.
  std::span<const scheduled<R>> prefill;     ///< Chunks of prompts (or of recomputed sequences), in rank order.
  std::span<const kv_transfer<R>> swap_out;  ///< KV that leaves the device.
  std::span<const kv_demotion> demoted;      ///< Cached KV that leaves the device, with a `kv::two_level_cache`.
  std::span<const kv::block_copy> copies;    ///< KV to copy on the device, for forks: before everything else, one after
                                             ///< the other.
  std::span<const kv_transfer<R>> swap_in;   ///< KV that comes back to the device. With a `kv::two_level_cache` also KV
                                             ///< that was found on the host.
  std::span<const kv_fetch<R>> fetch;        ///< KV that arrives with adopted requests, or that was announced.
  std::span<const kv_fetch<R>> load;  ///< KV in transfer (`loading`): no kernel reads or writes these blocks before
                                      ///< `arrived`.
  std::uint64_t load_after = 0;   ///< Do not write to blocks of `load` before all plans up to this id have been run,
                                  ///< with their copies. These plans may still read the blocks, because a victim or an
                                  ///< ended request gave them up meanwhile. 0: no plan in flight reads them. If it is
                                  ///< `id`, the copies of this plan read them.
  std::uint64_t fetch_after = 0;  ///< The same for blocks of `fetch`, for an engine that does not order their writes
                                  ///< after the kernels of the plans before.
  std::span<const preemption<R>> preempted;  ///< Requests that lost their blocks, swapped or dropped.
  std::span<R* const> outgrown;              ///< Longer than the limits allow: finish or cancel them.
  std::span<const deadline_passed<R>> late;  ///< Deadlines that have passed since the last plan. Each is reported once,
                                             ///< and has passed even if the plan is abandoned.
  Tables tables{};                           ///< Block tables of `decode`, then `prefill`.
  tokens computed{};                         ///< Sum of `count` over decode and prefill.
  std::uint64_t id = 0;                      ///< Counts the plans of a scheduler; `commit` checks it.

  /// The number of outcomes that `commit` expects.
  [[nodiscard]] std::size_t size() const noexcept { return decode.size() + prefill.size(); }
  /// Whether it has no entry. O(1).
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  /// Entry `i` of decode, then prefill: the order of the outcomes. Requires `i < size()`.
  [[nodiscard]] const scheduled<R>& operator[](std::size_t i) const noexcept {
    return i < decode.size() ? decode[i] : prefill[i - decode.size()];
  }
};

/// The result of one scheduled entry. The default is the common case: one token, and the request continues.
struct outcome {
  std::uint16_t produced = 1;     ///< Tokens sampled, up to 1 + the entry's lookahead. Ignored if it does not sample.
  bool end_of_reasoning = false;  ///< The last produced token ends the reasoning phase (cut drafts off there).
  bool finished = false;          ///< The request is done. This applies to entries that do not sample as well: they end
                                  ///< in the middle of the prompt, so check `samples` first.
  bool failed = false;            ///< The request cannot continue.
  bool spoilt = false;  ///< KV of `fetch` did not come, here or in an earlier plan in flight: nothing that was
                        ///< computed counts. The request loses its KV, also a copy on the host. If it has blocks, it
                        ///< waits at its place, as after `preempt`, neither suspended nor parked. Not with `finished`.
};

TESSERA_NAMESPACE_END
