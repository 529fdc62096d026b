// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/block_table.hpp>
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
  tokens token_budget{8192};    ///< Most tokens computed in the step, prefill and decode together (without chunked
                                ///< prefill, one prompt may exceed it). Lookahead tokens are not counted.
  tokens max_chunk{};           ///< Most prefill tokens of one request in the step; 0: only the budget binds.
  tokens lookahead{};           ///< Extra KV slots wanted per request, for speculative tokens. Given if free.
};

/// One request's share of a step: compute the KV of tokens [first, first + count) of its sequence.
template <class R>
struct scheduled {
  R* request;         ///< The request.
  tokens first;       ///< Tokens of the sequence whose KV is there already.
  tokens count;       ///< Tokens to compute. 1 for a decode.
  tokens lookahead;   ///< KV slots after those, for speculative tokens: at most what `step_limits` asked for.
  std::uint32_t row;  ///< Row of the block table.
  bool samples;       ///< The last token's logits are needed: the step yields a token for this request.
};

/// KV to copy between device and host before the step runs. Both spans have the same length.
template <class R>
struct kv_transfer {
  R* request;                            ///< The request.
  std::span<const kv::block_id> device;  ///< Its blocks on the device, in the order of the sequence.
  std::span<const kv::block_id> host;    ///< The blocks in the host tier, one for each on the device.
};

/// Device blocks to fill before the step runs with the KV of an adopted request, which comes from another instance.
template <class R>
struct kv_fetch {
  R* request;                            ///< The request.
  std::span<const kv::block_id> device;  ///< Its blocks on the device, in the order of the sequence.
};

/// A request that lost its blocks.
template <class R>
struct preemption {
  R* request;            ///< The request.
  preemption_mode mode;  ///< Swapped out or dropped.
};

/// Everything an engine does in one step. All spans point into the scheduler's storage and are valid until the plan is
/// committed or abandoned. The engine must finish the copies of `swap_out` before those of `swap_in` and `fetch`, and
/// all before the first kernel, because blocks given up by one request may be another's in the same step.
template <class R>
struct step_plan {
  std::span<const scheduled<R>> decode;      ///< One token each, in rank order.
  std::span<const scheduled<R>> prefill;     ///< Chunks of prompts (or of recomputed sequences), in rank order.
  std::span<const kv_transfer<R>> swap_out;  ///< KV that leaves the device: first of all.
  std::span<const kv_transfer<R>> swap_in;   ///< KV that comes back to the device.
  std::span<const kv_fetch<R>> fetch;        ///< KV that arrives with adopted requests.
  std::span<const preemption<R>> preempted;  ///< Who lost its blocks, swapped or dropped.
  std::span<R* const> outgrown;              ///< Longer than the limits allow: finish or cancel them.
  kv::csr_view tables;                       ///< Block tables of `decode`, then `prefill`.
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
  bool finished = false;          ///< The request is done.
  bool failed = false;            ///< The request cannot go on.
};

TESSERA_NAMESPACE_END
