// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/two_phase.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

TESSERA_NAMESPACE_BEGIN

/// A request for `pascal`: derive yours from it.
using pascal_request = request_hook_for<order::two_phase>;

/// PASCAL's instance scheduler (section IV-C): two queues. Reasoning requests are in the high one and get batch slots
/// and KV blocks first. Answering requests are in the low one and share what is left. Each queue is round-robin with a
/// token quantum. A reasoning request with more KV than `demote_above` moves to the low queue. When blocks run out, the
/// lowest-ranked resident is swapped out to host memory.
///
/// Starvation: the paper states no bound, and its rules give none. The high queue is served strictly first. So an
/// answer or a demoted request stops, even in mid-stream, as long as reasoning fills all places. Within a queue,
/// `fewest_quanta_first` lets new requests go before those that have used a quantum. In a circle, a request waits for
/// at most a quantum of each other one, divided by the places. `pascal_paced` has a bound.
///
/// When to use: reasoning models with answers that are read as they stream, when KV memory binds. With memory to spare
/// it behaves like `fcfs`. Past saturation, strict priority starves answers: shed load before that.
/// The instance of a request, at arrival and at its phase change, is chosen outside (PASCAL, section IV-B).
template <schedulable Request, class BlockStore = kv::block_pool, class Tables = kv::csr_tables,
          class Gate = gate::in_line, class Draft = draft::same_for_all>
class pascal : public iteration_scheduler<Request, order::two_phase, preempt::swap, admit::watermark, BlockStore,
                                          Tables, Gate, Draft> {
  using base =
      iteration_scheduler<Request, order::two_phase, preempt::swap, admit::watermark, BlockStore, Tables, Gate, Draft>;

 public:
  /// Parameters of the parts; each is described at its own type.
  struct config {
    tokens quantum{500};              ///< Tokens generated between two turns, in either queue.
    tokens demote_above{5000};        ///< KV length above which a reasoning request is demoted.
    bool fewest_quanta_first = true;  ///< How each queue takes turns; false: circular. See `order::two_phase`.
    double watermark = 0.01;          ///< Fraction of the blocks kept free when a request starts without displacing
                                      ///< another.
    bool chunked_prefill = true;      ///< As in `scheduler_config`.
    bool firm_budget = false;         ///< As there.
    reservation reserve = reservation::by_chunk;  ///< As there.
    bool keep_draft_blocks = false;               ///< As there.
    [[no_unique_address]] Gate gate{};            ///< Decides which requests may start.
    [[no_unique_address]] Draft draft{};          ///< Chooses the number of draft tokens.
  };

  /// Over a buffer of at least `required_bytes(l)`.
  pascal(std::span<std::byte> memory, const typename base::limits& l, const config& c = {}) noexcept
      : base{memory, l, policies(c)} {}
  /// Over storage from `storage_for`.
  explicit pascal(owned_storage<typename base::limits>& storage, const config& c = {}) noexcept
      : base{storage, policies(c)} {}

 private:
  static typename base::config policies(const config& c) noexcept {
    return {
        .order = {.quantum = c.quantum, .demote_above = c.demote_above, .fewest_quanta_first = c.fewest_quanta_first},
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
