// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/round_robin.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

TESSERA_NAMESPACE_BEGIN

/// A request for `round_robin`: derive yours from it.
using round_robin_request = request_hook_for<order::round_robin>;

/// Round-robin with a token quantum, both phases alike. A request that has generated its quantum moves behind its
/// peers. When blocks run out, requests at the back are swapped out.
///
/// Starvation: in a circle, the wait is bounded. It is at most one quantum of each present request of its priority,
/// divided by the places. With `fewest_quanta_first` there is no bound: new requests go before all that have used a
/// quantum.
///
/// When to use: as the time-sharing baseline; short requests get through quickly, long ones are interrupted often.
/// Source: PASCAL, section II-C and figure 2(c).
template <schedulable Request, class BlockStore = kv::block_pool, class Tables = kv::csr_tables,
          class Gate = gate::in_line, class Draft = draft::same_for_all>
class round_robin : public iteration_scheduler<Request, order::round_robin, preempt::swap, admit::watermark, BlockStore,
                                               Tables, Gate, Draft> {
  using base = iteration_scheduler<Request, order::round_robin, preempt::swap, admit::watermark, BlockStore, Tables,
                                   Gate, Draft>;

 public:
  /// Parameters of the parts; each is described at its own type.
  struct config {
    tokens quantum{500};               ///< Tokens generated between two turns.
    bool fewest_quanta_first = false;  ///< False: circular. See `order::round_robin`.
    double watermark = 0.01;           ///< Fraction of the blocks kept free when a request starts without displacing
                                       ///< another.
    bool chunked_prefill = true;       ///< As in `scheduler_config`.
    bool firm_budget = false;          ///< As there.
    reservation reserve = reservation::by_chunk;  ///< As there.
    bool keep_draft_blocks = false;               ///< As there.
    [[no_unique_address]] Gate gate{};            ///< Decides which requests may start.
    [[no_unique_address]] Draft draft{};          ///< Chooses the number of draft tokens.
  };

  /// Over a buffer of at least `required_bytes(l)`.
  round_robin(std::span<std::byte> memory, const typename base::limits& l, const config& c = {}) noexcept
      : base{memory, l, policies(c)} {}
  /// Over storage from `storage_for`.
  explicit round_robin(owned_storage<typename base::limits>& storage, const config& c = {}) noexcept
      : base{storage, policies(c)} {}

 private:
  static typename base::config policies(const config& c) noexcept {
    return {.order = {.quantum = c.quantum, .fewest_quanta_first = c.fewest_quanta_first},
            .admit = {.fraction = c.watermark},
            .gate = c.gate,
            .draft = c.draft,
            .chunked_prefill = c.chunked_prefill,
            .firm_budget = c.firm_budget,
            .reserve = c.reserve,
            .keep_draft_blocks = c.keep_draft_blocks};
  }
};

TESSERA_NAMESPACE_END
