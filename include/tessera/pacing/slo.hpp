// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/pacing/token_pacer.hpp>

/// @file
/// Whether an answering request keeps its promise to the reader: one term of PASCAL's t_i (section IV-B). An instance's
/// t_i is true as long as this holds for every answering request there.

TESSERA_NAMESPACE_BEGIN

/// The last moment at which the request still meets its SLO if no more tokens come. Before the first answering token it
/// is `ttfat` after the phase change; afterwards, when the reader runs dry. `never()` once finished.
/// An instance's t_i is "the earliest of these is not before the next step", so a container ordered by it answers t_i
/// in O(1).
/// @param phase_changed_at when reasoning ended (`request_state::answering_since`).
template <clock_policy Clock>
[[nodiscard]] constexpr basic_time_point<Clock> meets_slo_until(const basic_token_pacer<Clock>& pacer,
                                                                basic_time_point<Clock> phase_changed_at,
                                                                basic_duration<Clock> ttfat) noexcept {
  if (pacer.finished()) return basic_time_point<Clock>::never();
  return pacer.delivered() == tokens{} ? phase_changed_at + ttfat : pacer.starves_at();
}

/// False as soon as the request has fewer buffered tokens than its reader will have consumed by `next_step`. False as
/// well if, at `now`, it has waited for its first answering token longer than `ttfat`. O(1).
///
/// "Fewer buffered than consumed" is `starves_at() < next_step`: a token that comes at the very moment the reader runs
/// dry is on time. Requires `now <= next_step` (not checked).
/// @param next_step when the request is expected to get its next token.
template <clock_policy Clock>
[[nodiscard]] constexpr bool meets_slo(const basic_token_pacer<Clock>& pacer, basic_time_point<Clock> phase_changed_at,
                                       basic_time_point<Clock> now, basic_time_point<Clock> next_step,
                                       basic_duration<Clock> ttfat = basic_pacing_config<Clock>{}.ttfat) noexcept {
  const bool waits_for_first = pacer.delivered() == tokens{};
  return !(meets_slo_until(pacer, phase_changed_at, ttfat) < (waits_for_first ? now : next_step));
}

TESSERA_NAMESPACE_END
