// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/request.hpp>

#include <cstddef>
#include <cstdint>

/// @file
/// The part of a simulated cluster that decides where requests run.

TESSERA_NAMESPACE_BEGIN
namespace sim {

class cluster;
struct run_result;

/// Decides where requests run. A cluster `c` calls it; see `cluster` for what a control may do. All calls except
/// `place` have a default: nothing happens, and a request goes on when its KV has arrived.
class cluster_control {
 public:
  virtual ~cluster_control() = default;

  /// The instance on which the request `r`, which is on none, starts: one that `c.takes`, and there is one. `r` is new,
  /// or its instance has died.
  [[nodiscard]] virtual std::size_t place(cluster& c, const request& r) = 0;

  /// Before the first event.
  virtual void starts(cluster& /*c*/) {}
  /// That instance `i` is dead has become known. No request may be placed on it until it has `returned`.
  virtual void failed(cluster& /*c*/, std::size_t /*i*/) {}
  /// Instance `i` is back, and empty.
  virtual void returned(cluster& /*c*/, std::size_t /*i*/) {}
  /// `r` was on an instance that has failed, `r.where`, or sent there. It is placed anew after this.
  virtual void lost(cluster& /*c*/, request& /*r*/) {}
  /// The instance that `r` was placed on has refused it: it is too long, or too many wait.
  virtual void rejected(cluster& /*c*/, request& /*r*/) {}
  /// `r` has just ended its reasoning.
  virtual void answers(cluster& /*c*/, request& /*r*/) {}
  /// `r` has its first token since it was placed, and is still here: it has not ended with it, nor been moved by
  /// `answers`. Its instance is between two steps.
  virtual void prefilled(cluster& /*c*/, request& /*r*/) {}
  /// `r` has arrived with its KV on `r.where`.
  virtual void moved(cluster& /*c*/, request& /*r*/) {}
  /// The KV of `r` is at its destination, and `r` runs nowhere. It goes on by `c.admit(r)` or `c.cut_migration(r)`,
  /// when the control likes; until then its blocks where it was are taken. By default it goes on at once.
  virtual void arrived(cluster& c, request& r);
  /// `r` has ended or lost its blocks before it was copied, or its destination has died, and stays where it is.
  virtual void migration_failed(cluster& /*c*/, request& /*r*/) {}
  /// `r` has ended.
  virtual void finished(cluster& /*c*/, request& /*r*/) {}
  /// Instance `i` is between two steps.
  virtual void step_ended(cluster& /*c*/, std::size_t /*i*/) {}
  /// What `c.call_after` ordered is due.
  virtual void alarm(cluster& /*c*/, std::uint64_t /*what*/) {}
  /// All requests have ended, and `result` is complete except what the control has measured.
  virtual void ended(cluster& /*c*/, run_result& /*result*/) {}
};

}  // namespace sim
TESSERA_NAMESPACE_END
