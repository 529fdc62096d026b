// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>

/// @file
/// The service that a program of several requests has received.

TESSERA_NAMESPACE_BEGIN
namespace order {

/// The service that a program has received so far: an agent, or a session with turns that are requests. The engine
/// keeps one for each program, zero at first, as long as calls of it are scheduled. `least_attained_service` adds a
/// call's service when it leaves; under another order the engine does.
struct program_service {
  tokens attained{};  ///< Tokens generated for its calls that have ended or were given up. The sum over all of them, or
                      ///< over the longest path.
};

}  // namespace order
TESSERA_NAMESPACE_END
