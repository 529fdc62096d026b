// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/fleet/traffic_sample.hpp>
#include <tessera/sim/input/trace_row.hpp>
#include <tessera/sim/traffic/learned_lengths.hpp>

#include <span>
#include <vector>

/// @file
/// What the requests that a router remembers say about its traffic.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// The known outputs. O(n).
[[nodiscard]] std::vector<seen_output> known_outputs(std::span<const fleet::seen_request> seen);

/// How much longer the outputs, or prompts, of the newer half are than those of the older half: see
/// `rank::length_drift_z`. Outputs are compared among requests with similar scores, or without scores in the same class
/// of prompts, because these are served alike.
struct traffic_shift {
  double outputs = 0;  ///< The shift of the outputs.
  double prompts = 0;  ///< The shift of the prompts.
  double scores = 0;   ///< The shift of the scores, if they are used.
};
/// Finds the shift. O(n log n).
[[nodiscard]] traffic_shift find_drift(std::span<const fleet::seen_request> seen, const learned_lengths& lengths,
                                       bool predicts = true);

/// The requests as rows of a trace, in order of arrival, from 0 on, with expected lengths as scores. A running request
/// gets a length that it may reach. These lengths are spread as those of similar requests that have come as far (Kaplan
/// and Meier). Similar requests have similar scores, or without scores the same class of prompts. Beyond the longest
/// length seen, they are spread as exponential lengths through that point (Brown, Hollander and Korwar 1974). Otherwise
/// a server that has just started would know of no long ones. They do not exceed the longest possible length. A request
/// that still reasons gets the same fraction of reasoning as all that have ended. O(n log n).
[[nodiscard]] std::vector<trace_row> rows_of(std::span<const fleet::seen_request> seen, const learned_lengths& lengths,
                                             bool predicts);

}  // namespace sim
TESSERA_NAMESPACE_END
