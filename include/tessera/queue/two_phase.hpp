// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/two_phase.hpp>
#include <tessera/queue/ordered_queue.hpp>

TESSERA_NAMESPACE_BEGIN

/// PASCAL's high and low queue as one: every high request comes before every low one.
template <class R>
using two_phase_queue = ordered_queue<R, order::two_phase>;

TESSERA_NAMESPACE_END
