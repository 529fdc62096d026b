// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// @file
/// Everything that an engine can use, for a first try; a build that minds its compile time includes what it needs, for
/// instance `<tessera/compose/pascal.hpp>`. The simulator (`tessera/sim/`) and the training of predictors
/// (`tessera/rank/`) are not part of it.

#include <tessera/admit/concepts.hpp>
#include <tessera/admit/future_peak.hpp>
#include <tessera/admit/watermark.hpp>
#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/compose/round_robin.hpp>
#include <tessera/config.hpp>
#include <tessera/core/assert.hpp>
#include <tessera/core/clock.hpp>
#include <tessera/core/index.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/core/status.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/core/units.hpp>
#include <tessera/kv/block_pool.hpp>
#include <tessera/kv/block_table.hpp>
#include <tessera/kv/concepts.hpp>
#include <tessera/kv/copy_on_write.hpp>
#include <tessera/kv/fragmentation.hpp>
#include <tessera/kv/hash_chain.hpp>
#include <tessera/kv/host_tier.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/order/concepts.hpp>
#include <tessera/order/fcfs.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/order/two_phase.hpp>
#include <tessera/pacing/config.hpp>
#include <tessera/pacing/slo.hpp>
#include <tessera/pacing/token_pacer.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/pipeline/kv_ledger.hpp>
#include <tessera/pipeline/limits.hpp>
#include <tessera/pipeline/plan.hpp>
#include <tessera/pipeline/resident_set.hpp>
#include <tessera/placement/concepts.hpp>
#include <tessera/placement/least_kv.hpp>
#include <tessera/placement/pascal.hpp>
#include <tessera/preempt/cheapest.hpp>
#include <tessera/preempt/concepts.hpp>
#include <tessera/preempt/recompute.hpp>
#include <tessera/preempt/swap.hpp>
#include <tessera/qoe/integrator.hpp>
#include <tessera/qoe/start.hpp>
#include <tessera/queue/fcfs.hpp>
#include <tessera/queue/heap.hpp>
#include <tessera/queue/ordered_queue.hpp>
#include <tessera/queue/ranked.hpp>
#include <tessera/queue/round_robin.hpp>
#include <tessera/queue/two_phase.hpp>
#include <tessera/request/concepts.hpp>
#include <tessera/request/hook.hpp>
#include <tessera/request/state.hpp>
#include <tessera/version.hpp>
