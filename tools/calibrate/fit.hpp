// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/model/step_file.hpp>

#include <vector>

/// @file
/// Fits the numbers of a profile to measured steps: relative errors, and least squares on few points with a prior (a
/// maximum a posteriori fit). It uses Levenberg-Marquardt from Eigen (after MINPACK).
///
/// The fit is over logarithms, so no number can become negative. Each number has a usual value and a plausible
/// deviation from it; a number that the points do not determine keeps its usual value. Errors of steps count as 2
/// (sqrt(1 + (e / 2)^2) - 1), with e in units of 1.5 %. So one bad measurement pulls linearly, not quadratically.

namespace calibrate {

namespace sim = tessera::sim;

/// Fits `base` to the steps. Its tables of measured times are dropped, because they would hide the fitted numbers. The
/// slowdown of decodes beside a chunk shows whether attention is left to single multiprocessors there. As far as the
/// steps do not determine the cost of a history, it is inferred from the number of multiprocessors.
sim::profile fit(sim::profile base, const std::vector<sim::measured_step>& steps);

}  // namespace calibrate
