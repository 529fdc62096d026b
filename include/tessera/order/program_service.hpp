// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>

/// @file
/// What a program, of several requests, has been given.

TESSERA_NAMESPACE_BEGIN
namespace order {

/// What a program, an agent or a session whose turns are requests, has been given so far. The engine keeps one for each
/// program, zero at first, for as long as calls of it are scheduled. `least_attained_service` adds what a call was
/// given when it leaves; under another order that is the engine's.
struct program_service {
  tokens attained{};  ///< Generated for those of its calls that have ended, or were given up: the sum of them all, or
                      ///< of those along the longest path.
};

}  // namespace order
TESSERA_NAMESPACE_END
