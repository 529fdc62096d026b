// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/compose/parts.hpp>
#include <tessera/order/paced.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// The order of `pascal_paced`, with one sentence for each parameter or member that is missing.
template <class Request, class Deadline>
struct pascal_paced_order {
  static_assert(!is_memory_part<Deadline>,
                "tessera: pascal_paced<Request, Deadline, BlockStore>: the block store is the third parameter, behind "
                "`order::pacer_member` or another of its kind");
  static_assert(is_memory_part<Deadline> || order::reader_deadline<Deadline, Request>,
                "tessera: `pascal_paced` needs requests with a token pacer as a member `pacer`, or a Deadline with "
                "`Request::time_point operator()(const Request&) const noexcept`");
  using type = order::paced<Deadline>;
};

}  // namespace detail

/// A request for `pascal_paced`: derive yours from it.
using pascal_paced_request = request_hook_for<order::paced<>>;

/// PASCAL's instance scheduler with its token pacer in the order. Reasoning still goes before answering, except before
/// an answer with a reader that is about to run dry. Answers are paced to reading speed; the remaining capacity goes to
/// reasoning. Three of the paper's rules are dropped. Answers take no turns among themselves but go by their readers'
/// deadlines. Reasoning that has used two quanta is interrupted only by younger requests. No request is demoted.
///
/// Starvation: a reasoning request that has begun gets a token within two `patience`, plus the wait for a free place
/// behind requests that stalled earlier. Then it generates a `slice`. An answer that has begun becomes urgent `margin`
/// before its reader runs dry. A request that has not begun waits as under `fcfs`, longer by at most what arrives
/// within `patience`. See `order::paced`.
///
/// The engine keeps a `token_pacer` in each request as the member `pacer`, and tells it of a step's answering tokens
/// before it commits the step. (Or pass a `Deadline`, see `order::paced`.)
///
/// When to use: instead of `pascal`, which starves answers when the load comes near saturation. Together with
/// `placement::least_kv` for new requests and `placement::migrate_when_tight` at the phase change.
template <schedulable Request, class Deadline = order::pacer_member, class BlockStore = kv::block_pool,
          class Tables = kv::csr_tables, class Gate = gate::in_line, class Draft = draft::same_for_all>
class pascal_paced : public iteration_scheduler<Request, typename detail::pascal_paced_order<Request, Deadline>::type,
                                                preempt::swap, admit::watermark, BlockStore, Tables, Gate, Draft> {
  using base = iteration_scheduler<Request, typename detail::pascal_paced_order<Request, Deadline>::type, preempt::swap,
                                   admit::watermark, BlockStore, Tables, Gate, Draft>;

 public:
  /// Parameters of the parts; each is described at its own type.
  struct config {
    tokens quantum{500};                 ///< Tokens generated between two places of a reasoning request.
    std::uint64_t young_quanta = 2;      ///< After this many quanta, reasoning requests are ordered by age alone.
    tokens slice{250};                   ///< Tokens generated between two looks at an answer's reader.
    duration margin = duration{1.0};     ///< An answer becomes urgent this long before its reader runs dry.
    duration patience = duration{60.0};  ///< A reasoning request without a token for this long is served first.
    double watermark = 0.01;             ///< Fraction of the blocks kept free when a request starts without displacing
                                         ///< another.
    bool chunked_prefill = true;         ///< As in `scheduler_config`.
    bool firm_budget = false;            ///< As there.
    reservation reserve = reservation::by_chunk;  ///< As there.
    bool keep_draft_blocks = false;               ///< As there.
    [[no_unique_address]] Deadline deadline{};    ///< Says when a request's reader runs dry.
    [[no_unique_address]] Gate gate{};            ///< Decides which requests may start.
    [[no_unique_address]] Draft draft{};          ///< Chooses the number of draft tokens.
  };

  /// Over a buffer of at least `required_bytes(l)`.
  pascal_paced(std::span<std::byte> memory, const typename base::limits& l, const config& c = {}) noexcept
      : base{memory, l, policies(c)} {}
  /// Over storage from `storage_for`.
  explicit pascal_paced(owned_storage<typename base::limits>& storage, const config& c = {}) noexcept
      : base{storage, policies(c)} {}

 private:
  static typename base::config policies(const config& c) noexcept {
    return {.order = {.quantum = c.quantum,
                      .young_quanta = c.young_quanta,
                      .slice = c.slice,
                      .margin = c.margin,
                      .patience = c.patience,
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
