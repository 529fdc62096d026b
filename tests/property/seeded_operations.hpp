// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// @file
/// Runs of `scheduler_operations` by seed. Several tests run the same schedulers: these are compiled once, in
/// pipeline_operations_*.cpp, by order. A source with all of them would take more than 1 GB to compile.

#include "property/scheduler_operations.hpp"

#include <cstddef>
#include <cstdint>

namespace tessera_test {

/// What is run.
struct seeded_run {
  std::uint64_t seed = 0;
  std::size_t operations = 150;
  bool with_abandoned = false;  ///< See `scheduler_operations`, as for what follows.
  bool remember = true;
  bool looks = true;
  std::size_t plans_in_flight = 1;
  bool aside = false;
  std::size_t plans_apart = 1;
};

/// What came of it.
struct operations_done {
  std::uint64_t digest = 0;
  std::size_t preempted = 0;
  std::size_t hits = 0;
  std::size_t migrated = 0;
  std::size_t resumed = 0;
  std::size_t lost = 0;
  std::size_t forked = 0;
  std::size_t loads = 0;
  std::size_t demotions = 0;
  std::size_t parked = 0;
  std::size_t arrived = 0;
  std::size_t drained = 0;
  std::size_t late = 0;

  /// Adds the counts; the digest is the other's.
  operations_done& operator+=(const operations_done& other) {
    digest = other.digest;
    preempted += other.preempted;
    hits += other.hits;
    migrated += other.migrated;
    resumed += other.resumed;
    lost += other.lost;
    forked += other.forked;
    loads += other.loads;
    demotions += other.demotions;
    parked += other.parked;
    arrived += other.arrived;
    drained += other.drained;
    late += other.late;
    return *this;
  }
};

/// Runs the operations of `wanted`, then all requests to their ends.
template <class Order, class BlockStore, class Gate = gate::in_line>
operations_done run_operations(const seeded_run& wanted);

}  // namespace tessera_test
