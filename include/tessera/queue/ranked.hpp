// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/ranked.hpp>
#include <tessera/queue/ordered_queue.hpp>

TESSERA_NAMESPACE_BEGIN

/// A standalone queue in order of score, with ageing: call `advance(now)` before looking at `front()`.
template <class R, class Scorer = order::score_member>
using ranked_queue = ordered_queue<R, order::ranked<Scorer>>;

TESSERA_NAMESPACE_END
