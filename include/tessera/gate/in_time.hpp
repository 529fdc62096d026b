// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/gate/concepts.hpp>

TESSERA_NAMESPACE_BEGIN
namespace gate {

/// Refuses a request at `submit` if it cannot begin to answer by its member `answer_by`: the waiting prompts and its
/// own would take longer. An early refusal is better than one after a wait, because the client can go elsewhere. All
/// other requests start in line.
///
///     struct my_request : tessera::request_hook { tessera::time_point answer_by = tessera::time_point::never(); };
///
/// When to use: the instance may be overloaded, and a late answer is worth nothing. It assumes that waiting requests
/// are served first and have nothing cached. So under an order that lets new requests overtake, it refuses too many.
/// Source: ours. Early refusal by predicted time to first token is from Mooncake (Qin et al. 2024, "Mooncake: a
/// KVCache-centric disaggregated architecture for LLM serving", section 6).
struct in_time {
  static constexpr bool backfills = false;    ///< No request passes one that lacks blocks.
  static constexpr bool counts = true;        ///< It is told which requests wait.
  static constexpr bool refuses_some = true;  ///< It refuses requests that would be late.

  double prefill_per_s = 10'000;  ///< Prompt tokens that the instance computes per second, beside its decodes.
  tokens queued{};                ///< Tokens that the waiting requests have to compute.

  /// Checks the parameter (asserted; if it is not positive, every request with a time to answer by is refused).
  constexpr void set_up(tokens /*block_size*/) noexcept {
    TESSERA_ASSERT(prefill_per_s > 0, "prompts are computed at a positive rate");
  }

  /// Whether it would be late. O(1).
  template <schedulable R>
    requires requires(const R& r) {
      { r.answer_by } -> std::convertible_to<typename R::time_point>;
    }
  [[nodiscard]] constexpr bool refuses(const R& r, typename R::time_point now) const noexcept {
    if (r.answer_by == R::time_point::never()) return false;
    const double left_s = (r.answer_by - now).seconds();
    return left_s * prefill_per_s < static_cast<double>((queued + r.prompt).count());
  }

  /// Begins a plan.
  constexpr void begin() noexcept {}
  /// The request starts in this plan.
  template <schedulable R>
  constexpr void starts(const R& /*r*/) noexcept {}
  /// The request has come, and waits.
  template <schedulable R>
  constexpr void joins(const R& r) noexcept {
    queued += r.state().length;
  }
  /// The request holds blocks from now on.
  template <schedulable R>
  constexpr void started(const R& r) noexcept {
    queued -= r.state().length;
  }
  /// `n` tokens were generated for it. (If it waits, having lost its blocks meanwhile, they count in its length.)
  template <schedulable R>
  constexpr void charge(const R& r, tokens n) noexcept {
    if (r.state().life == lifecycle::waiting && !r.state().parked) queued += n;
  }
  /// The request holds no blocks any more, and waits again or leaves.
  template <schedulable R>
  constexpr void stopped(const R& r) noexcept {
    queued += r.state().length;
  }
  /// The request has ended or left.
  template <schedulable R>
  constexpr void left(const R& r) noexcept {
    queued -= r.state().length;
  }
};

}  // namespace gate
TESSERA_NAMESPACE_END
