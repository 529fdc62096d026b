// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/gate/concepts.hpp>

TESSERA_NAMESPACE_BEGIN
namespace gate {

/// Refuses at `submit` who cannot begin to answer in time: the prompts that wait, and its own, would take longer than
/// until its member `answer_by`. Better at once than after a wait: the client can go elsewhere. Everybody else starts
/// in line.
///
///     struct my_request : tessera::request_hook { tessera::time_point answer_by = tessera::time_point::never(); };
///
/// When to use: the instance may be overloaded, and an answer that comes late is worth nothing. It takes those who wait
/// to be served first, and to have nothing cached, so in an order that lets the newcomer overtake it refuses too many.
/// Source: ours; refusing early by predicted time to first token is from Mooncake (Qin et al. 2024, "Mooncake: a
/// KVCache-centric disaggregated architecture for LLM serving", section 6).
struct in_time {
  static constexpr bool passes = false;       ///< Nobody passes one who lacks blocks.
  static constexpr bool counts = true;        ///< It hears who waits.
  static constexpr bool refuses_some = true;  ///< Who would be late.

  double prefill_per_s = 10'000;  ///< Tokens of prompts that the instance computes in a second beside its decodes.
  tokens queued{};                ///< Of those who wait: what they have to compute.

  /// Checks the parameter (asserted; where it is not positive, whoever has a time to answer by is refused).
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

  /// A plan is being made.
  constexpr void begin() noexcept {}
  /// It starts in this plan.
  template <schedulable R>
  constexpr void starts(const R& /*r*/) noexcept {}
  /// It has come.
  template <schedulable R>
  constexpr void joins(const R& r) noexcept {
    queued += r.state().length;
  }
  /// It holds blocks from now on.
  template <schedulable R>
  constexpr void started(const R& r) noexcept {
    queued -= r.state().length;
  }
  /// So many tokens came of it. (Of one that waits, having lost its blocks meanwhile, they are in its length.)
  template <schedulable R>
  constexpr void charge(const R& r, tokens n) noexcept {
    if (r.state().life == lifecycle::waiting && !r.state().parked) queued += n;
  }
  /// It holds none any more, and waits again or leaves.
  template <schedulable R>
  constexpr void stopped(const R& r) noexcept {
    queued += r.state().length;
  }
  /// It has ended or left.
  template <schedulable R>
  constexpr void left(const R& r) noexcept {
    queued -= r.state().length;
  }
};

}  // namespace gate
TESSERA_NAMESPACE_END
