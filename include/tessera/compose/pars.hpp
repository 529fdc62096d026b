// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/compose/parts.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// The order of `pars`, with one sentence for the parameter or member that is missing.
template <class Request, class Scorer>
struct pars_order {
  static_assert(!is_memory_part<Scorer>,
                "tessera: pars<Request, Scorer, BlockStore>: the block store is the third parameter, behind "
                "`order::score_member` or another of its kind");
  static_assert(is_memory_part<Scorer> || order::request_scorer<Scorer, Request>,
                "tessera: `pars` needs requests with a member `score`, or a Scorer with "
                "`float operator()(const Request&) const noexcept`");
  using type = order::ranked<Scorer>;
};

}  // namespace detail

/// A request for `pars`: derive yours from it.
struct pars_request : request_hook_for<order::ranked<>> {
  float score = 0;  ///< Smaller runs first (for instance a predicted output length).
};

/// PARS's predictor-guided scheduler (section III-B). In every iteration the free places of the batch go to the waiting
/// requests with the lowest predicted output length. A request that came longer than `threshold` ago is boosted ahead
/// of all later ones, the oldest first; the time that it has run counts. Running requests are not interrupted for a
/// better score. When blocks run out, the resident that ranks last is swapped out to host memory. It waits again with
/// its score and its age.
/// The prediction is made once, before `submit`. Write it into the request's member `score` (`rank::prompt_scorer`
/// computes it from the prompt), or pass a `Scorer`. Only the order of scores counts. Listwise and pointwise
/// shortest-job-first are this scheduler with the scores of other models. Shortest-job-first with perfect knowledge is
/// this scheduler with the true lengths.
///
/// Starvation: from the boost on, no request of its priority overtakes a request. It starts when the older boosted
/// requests have started and enough residents have ended to leave a place and blocks for its whole sequence. For a long
/// request among short ones these may be many. With enough blocks, and fewer boosted than running requests, no wait
/// exceeds the threshold plus the longest residence. A running request has a token in every step. A request that is
/// swapped out comes back by its score or, from the boost on, before all that came later.
///
/// When to use: output lengths can be ranked ahead and requests queue. Without a queue it is `fcfs`. If the queue stays
/// longer than the threshold, most requests are boosted and it is `fcfs` again: shed load, or raise the threshold.
/// @tparam Scorer an `order::request_scorer`.
template <schedulable Request, class Scorer = order::score_member, class BlockStore = kv::block_pool,
          class Tables = kv::csr_tables, class Gate = gate::in_line, class Draft = draft::same_for_all>
class pars : public iteration_scheduler<Request, typename detail::pars_order<Request, Scorer>::type, preempt::swap,
                                        admit::watermark, BlockStore, Tables, Gate, Draft> {
  using base = iteration_scheduler<Request, typename detail::pars_order<Request, Scorer>::type, preempt::swap,
                                   admit::watermark, BlockStore, Tables, Gate, Draft>;

 public:
  /// Parameters of the parts; each is described at its own type.
  struct config {
    duration threshold = duration{120.0};         ///< Age at which a request is boosted; `duration::forever()`: never.
    double watermark = 0.01;                      ///< Fraction of the blocks kept free when a request starts.
    bool chunked_prefill = true;                  ///< As in `scheduler_config`.
    bool firm_budget = false;                     ///< As there.
    reservation reserve = reservation::by_chunk;  ///< As there.
    bool keep_draft_blocks = false;               ///< As there.
    [[no_unique_address]] Scorer scorer = {};     ///< Predicts the length of a request.
    [[no_unique_address]] Gate gate{};            ///< Decides which requests may start.
    [[no_unique_address]] Draft draft{};          ///< Chooses the number of draft tokens.
  };

  /// Over a buffer of at least `required_bytes(l)`.
  pars(std::span<std::byte> memory, const typename base::limits& l, const config& c = {}) noexcept
      : base{memory, l, policies(c)} {}
  /// Over storage from `storage_for`.
  explicit pars(owned_storage<typename base::limits>& storage, const config& c = {}) noexcept
      : base{storage, policies(c)} {}

 private:
  static typename base::config policies(const config& c) noexcept {
    return {.order = {.threshold = c.threshold, .scorer = c.scorer},
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
