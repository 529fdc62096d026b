// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/clock.hpp>

/// @file
/// The expectations of an answer's reader. Shared by the token pacer, the answering SLO and the QoE integrator.

TESSERA_NAMESPACE_BEGIN

/// The reader's targets (PASCAL, section III).
template <clock_policy Clock = seconds_clock>
struct basic_pacing_config {
  /// Time per output token: the reader takes one token per `tpot`. More than 0.
  basic_duration<Clock> tpot = detail::milliseconds<Clock, 100>;
  /// Longest acceptable time from the end of reasoning to the first answering token. At least 0.
  basic_duration<Clock> ttfat = detail::milliseconds<Clock, 250>;
};

using pacing_config = basic_pacing_config<>;  ///< On the default clock.

TESSERA_NAMESPACE_END
