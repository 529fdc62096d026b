// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/model/step_file.hpp>

#include <vector>

/// @file
/// Fits the numbers of a profile to measured steps: relative errors, least squares on few points with a weight on
/// numbers that are usual (a fit by maximum a posteriori), Levenberg-Marquardt as Eigen has it (after MINPACK).
///
/// What is fitted are logarithms, so no number can become negative. For each number there is what is usual and how far
/// from that it may well be; a number that the points do not tell stays there. Errors of steps count as
/// 2 (sqrt(1 + (e / 2)^2) - 1), e in units of 1.5 %, so that one bad measurement pulls like a line, not like a square.

namespace calibrate {

namespace sim = tessera::sim;

/// Fits `base` to the steps. Its tables of measured times are dropped: they would hide what is fitted. Whether
/// attention is left to single multiprocessors beside a chunk shows in how much slower decodes are there; what a
/// history costs then is inferred as far as the steps do not tell, from the number of multiprocessors.
sim::profile fit(sim::profile base, const std::vector<sim::measured_step>& steps);

}  // namespace calibrate
