// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/compose/parts.hpp>
#include <tessera/order/response_ratio.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// The order of `hrrn`, with one sentence for the parameter or member that is missing.
template <class Request, class Expected>
struct hrrn_order {
  static_assert(!is_memory_part<Expected>,
                "tessera: hrrn<Request, Expected, BlockStore>: the block store is the third parameter, behind "
                "`order::expected_output_member` or another of its kind");
  static_assert(is_memory_part<Expected> || order::output_predictor<Expected, Request>,
                "tessera: `hrrn` needs requests with a member `tokens expected_output`, or an Expected with "
                "`tokens operator()(const Request&) const noexcept`");
  using type = order::response_ratio<Expected>;
};

}  // namespace detail

/// A request for `hrrn`: derive yours from it.
struct hrrn_request : request_hook_for<order::response_ratio<>> {
  tokens expected_output{};  ///< The predicted length of the output.
};

/// Highest response ratio next (HRRN). The free places of the batch go to the waiting requests with the highest ratio
/// (age + service) / service, within a factor `step` (`order::response_ratio`). Short requests go first, as in `pars`.
/// A long one passes them when it has waited in proportion to its length, without a threshold to choose. Running
/// requests are not interrupted. When blocks run out, the resident that ranks last is swapped out to host memory, and
/// waits with its age.
///
/// Starvation: a long request waits in proportion to its length; under lasting overload there is no bound
/// (`order::response_ratio`). A running request has a token in every step.
///
/// When to use: lengths can be predicted, and the length of the queue varies too much for one threshold of `pars`.
/// @tparam Expected an `order::output_predictor`.
template <schedulable Request, class Expected = order::expected_output_member, class BlockStore = kv::block_pool,
          class Tables = kv::csr_tables, class Gate = gate::in_line, class Draft = draft::same_for_all>
class hrrn : public iteration_scheduler<Request, typename detail::hrrn_order<Request, Expected>::type, preempt::swap,
                                        admit::watermark, BlockStore, Tables, Gate, Draft> {
  using base = iteration_scheduler<Request, typename detail::hrrn_order<Request, Expected>::type, preempt::swap,
                                   admit::watermark, BlockStore, Tables, Gate, Draft>;

 public:
  /// Parameters of the parts; each is described at its own type.
  struct config {
    duration pace = duration{0.02};                ///< Expected time for a token of output.
    double step = 1.25;                            ///< Factor between levels of the ratio.
    double watermark = 0.01;                       ///< Fraction of the blocks kept free when a request starts.
    bool chunked_prefill = true;                   ///< As in `scheduler_config`.
    bool firm_budget = false;                      ///< As there.
    reservation reserve = reservation::by_chunk;   ///< As there.
    bool keep_draft_blocks = false;                ///< As there.
    [[no_unique_address]] Expected expected = {};  ///< Predicts the length of an output.
    [[no_unique_address]] Gate gate{};             ///< Decides which requests may start.
    [[no_unique_address]] Draft draft{};           ///< Chooses the number of draft tokens.
  };

  /// Over a buffer of at least `required_bytes(l)`.
  hrrn(std::span<std::byte> memory, const typename base::limits& l, const config& c = {}) noexcept
      : base{memory, l, policies(c)} {}
  /// Over storage from `storage_for`.
  explicit hrrn(owned_storage<typename base::limits>& storage, const config& c = {}) noexcept
      : base{storage, policies(c)} {}

 private:
  static typename base::config policies(const config& c) noexcept {
    return {.order = {.pace = c.pace, .step = c.step, .expected = c.expected},
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
