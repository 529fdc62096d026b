// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/round_robin.hpp>
#include <tessera/queue/ordered_queue.hpp>

TESSERA_NAMESPACE_BEGIN

/// A standalone round-robin queue.
template <class R>
using round_robin_queue = ordered_queue<R, order::round_robin>;

TESSERA_NAMESPACE_END
