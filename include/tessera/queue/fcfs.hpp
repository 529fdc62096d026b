// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/fcfs.hpp>
#include <tessera/queue/ordered_queue.hpp>

TESSERA_NAMESPACE_BEGIN

/// A standalone queue in order of arrival.
template <class R>
using fcfs_queue = ordered_queue<R, order::fcfs>;

TESSERA_NAMESPACE_END
