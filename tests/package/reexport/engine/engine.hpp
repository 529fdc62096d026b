// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/compose/fcfs.hpp>

namespace engine {

struct request : tessera::request_hook {};

/// Runs `r` alone, to its end: the number of steps.
int run(request& r);

}  // namespace engine
