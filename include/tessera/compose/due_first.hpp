// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/compose/parts.hpp>
#include <tessera/order/earliest_due.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

/// @file
/// The ideas of four papers in one scheduler.

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// The order of `due_first`, with one sentence for each parameter or member that is missing.
template <class Request, class Expected, class Deadline>
struct due_first_order {
  static_assert(!is_memory_part<Expected> && !is_memory_part<Deadline>,
                "tessera: due_first<Request, Expected, Deadline, BlockStore>: the block store is the fourth parameter, "
                "behind `order::expected_output_member` and `order::pacer_member` or others of their kind");
  static_assert(is_memory_part<Expected> || order::output_predictor<Expected, Request>,
                "tessera: `due_first` needs requests with a member `tokens expected_output`, or an Expected with "
                "`tokens operator()(const Request&) const noexcept`");
  static_assert(is_memory_part<Deadline> || order::reader_deadline<Deadline, Request>,
                "tessera: `due_first` needs requests with a token pacer as a member `pacer`, or a Deadline with "
                "`Request::time_point operator()(const Request&) const noexcept`");
  using type = order::earliest_due<Expected, Deadline>;
};

}  // namespace detail

/// A request for `due-first`: derive yours from it.
using due_first_request = request_hook_for<order::earliest_due<>>;

/// A scheduler that is in no paper. It has PASCAL's phases with its token pacer in the order, and PARS's predictions as
/// due times instead of a ranking with a threshold. Streaming answers are paced to reading speed. The remaining
/// capacity goes to the request with the earliest deadline, which grows with its predicted length (see
/// `order::earliest_due`).
///
/// It is one of four parts, which work without each other:
/// - this scheduler;
/// - `rank::length_distribution`, which turns PARS's scores and a request's present length into expected lengths;
/// - a bound on the prefill tokens of a step, `step_limits::prefill_budget`, so that no prompt holds up streaming
///   answers. It is at most what `headroom::prefill_cost::within` allows for the time that a decode step leaves of half
///   the target TPOT. It is at least a block, so that prompts progress even if no time is left. `token_budget` stays at
///   the engine's capacity;
/// - placement by headroom, `placement::least_prefill_backlog`, over the smaller of Phi_T and Phi_S. Phi_T is about the
/// prompts
///   that wait on an instance. Phi_S is its memory when all its requests have their expected length. While both are
///   plenty, the added latency in seconds decides, for the request and for others. When reasoning ends,
///   `placement::migrate_when_tight` decides.
///   Alternatives, if a trial shows that they pay: CascadeInfer's stages, with or without the bound. Or prompts and
///   decodes on different instances, by Phasor's Phi, without it.
///
/// `sim::run_due_first` puts them together for the simulator.
///
/// Starvation: a request that has not begun waits as under `fcfs`. It waits longer by at most what arrives within a
/// quarter of `patience` for each batch that is present. A reasoning request that has begun gets a token within two
/// `patience`, plus the wait for a free place behind requests that stalled earlier. Then it generates a `slice`. An
/// answer that has begun becomes urgent `margin` before its reader runs dry. See `order::earliest_due`.
///
/// The engine keeps a `token_pacer` in each request as the member `pacer`, and tells it of a step's answering tokens
/// before it commits the step. It writes the member `expected_output` before `submit` (0: unknown). Or pass an
/// `Expected` and a `Deadline`.
///
/// When to use: interactive serving under a load that queues. Measured against each paper's own policy in
/// docs/results/due_first.
template <schedulable Request, class Expected = order::expected_output_member, class Deadline = order::pacer_member,
          class BlockStore = kv::block_pool, class Tables = kv::csr_tables, class Gate = gate::in_line,
          class Draft = draft::same_for_all>
class due_first
    : public iteration_scheduler<Request, typename detail::due_first_order<Request, Expected, Deadline>::type,
                                 preempt::swap, admit::watermark, BlockStore, Tables, Gate, Draft> {
  using base = iteration_scheduler<Request, typename detail::due_first_order<Request, Expected, Deadline>::type,
                                   preempt::swap, admit::watermark, BlockStore, Tables, Gate, Draft>;

 public:
  /// Parameters of the parts; each is described at its own type.
  struct config {
    duration pace = duration{0.1};       ///< Deadline per token of expected output, against waiting time.
    tokens slice{250};                   ///< Tokens generated between two looks at an answer's reader.
    duration margin = duration{1.0};     ///< An answer becomes urgent this long before its reader runs dry.
    double revised = 2;                  ///< Bound on updated expectations: see `order::earliest_due`.
    duration prompt_pace{};              ///< Hold for long prompts: see `order::earliest_due`.
    duration move_pace{};                ///< Delay by KV that makes way: see `order::earliest_due`.
    duration patience = duration{60.0};  ///< A request without a token for this long is served first: see there.
    double watermark = 0.01;             ///< Fraction of the blocks kept free when a request starts without displacing
                                         ///< another.
    bool chunked_prefill = true;         ///< As in `scheduler_config`.
    bool firm_budget = false;            ///< As there.
    reservation reserve = reservation::by_chunk;  ///< As there.
    bool keep_draft_blocks = false;               ///< As there.
    [[no_unique_address]] Expected expected{};    ///< Predicts a request's output length.
    [[no_unique_address]] Deadline deadline{};    ///< Says when a request's reader runs dry.
    [[no_unique_address]] Gate gate{};            ///< Decides which requests may start.
    [[no_unique_address]] Draft draft{};          ///< Chooses the number of draft tokens.
  };

  /// Over a buffer of at least `required_bytes(l)`.
  due_first(std::span<std::byte> memory, const typename base::limits& l, const config& c = {}) noexcept
      : base{memory, l, policies(c)} {}
  /// Over storage from `storage_for`.
  explicit due_first(owned_storage<typename base::limits>& storage, const config& c = {}) noexcept
      : base{storage, policies(c)} {}

 private:
  static typename base::config policies(const config& c) noexcept {
    return {.order = {.pace = c.pace,
                      .slice = c.slice,
                      .margin = c.margin,
                      .revised = c.revised,
                      .prompt_pace = c.prompt_pace,
                      .move_pace = c.move_pace,
                      .patience = c.patience,
                      .expected = c.expected,
                      .deadline = c.deadline},
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
