// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/fcfs.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

TESSERA_NAMESPACE_BEGIN

/// First come, first served, in vLLM's order. Requests start as they arrive. When blocks run out, the newest resident
/// is preempted. Preempted requests resume before new ones start, because they arrived earlier. Here the KV of a
/// preempted request goes to host memory. vLLM's V1 engine drops it and computes it again, as this does without
/// `host_blocks`.
///
/// Starvation: within a priority no later request goes before a waiting one. A running request has a token in every
/// step. A preempted one continues when the requests that came before it leave room.
///
/// When to use: as the baseline, or when memory never binds.
/// Source: PASCAL, section II-C.
template <schedulable Request, class BlockStore = kv::block_pool, class Tables = kv::csr_tables,
          class Gate = gate::in_line, class Draft = draft::same_for_all>
class fcfs : public iteration_scheduler<Request, order::fcfs, preempt::swap, admit::watermark, BlockStore, Tables, Gate,
                                        Draft> {
  using base =
      iteration_scheduler<Request, order::fcfs, preempt::swap, admit::watermark, BlockStore, Tables, Gate, Draft>;

 public:
  /// Parameters of the parts; each is described at its own type.
  struct config {
    double watermark = 0.01;                      ///< Fraction of the blocks kept free when a request starts.
    bool chunked_prefill = true;                  ///< As in `scheduler_config`.
    bool firm_budget = false;                     ///< As there.
    reservation reserve = reservation::by_chunk;  ///< As there.
    bool keep_draft_blocks = false;               ///< As there.
    [[no_unique_address]] Gate gate{};            ///< Decides which requests may start.
    [[no_unique_address]] Draft draft{};          ///< Chooses the number of draft tokens.
  };

  /// Over a buffer of at least `required_bytes(l)`.
  fcfs(std::span<std::byte> memory, const typename base::limits& l, const config& c = {}) noexcept
      : base{memory, l, policies(c)} {}
  /// Over storage from `storage_for`.
  explicit fcfs(owned_storage<typename base::limits>& storage, const config& c = {}) noexcept
      : base{storage, policies(c)} {}

 private:
  static typename base::config policies(const config& c) noexcept {
    return {.admit = {.fraction = c.watermark},
            .gate = c.gate,
            .draft = c.draft,
            .chunked_prefill = c.chunked_prefill,
            .firm_budget = c.firm_budget,
            .reserve = c.reserve,
            .keep_draft_blocks = c.keep_draft_blocks};
  }
};

TESSERA_NAMESPACE_END
