// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/fleet/action.hpp>
#include <tessera/sim/cluster/cluster.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Moves that a controller has decided and that have not begun. They are delayed, or wait for the end of a step,
/// because a request can stop only between two steps.
class decided_moves {
 public:
  /// One of them.
  struct decided {
    double due_s = 0;                                ///< When it may begin, in simulated seconds.
    std::size_t request = 0;                         ///< The request's row.
    std::size_t from = 0;                            ///< The instance that the request is on.
    std::size_t to = 0;                              ///< The instance that it goes to.
    fleet::transfer how = fleet::transfer::stopped;  ///< Live or stopped.
  };

  /// It begins when its time has come and its instance is between two steps.
  void add(const decided& m) { all_.push_back(m); }
  /// It does not begin any more. False if it was not there.
  bool remove(std::size_t request) {
    return std::erase_if(all_, [request](const decided& m) { return m.request == request; }) != 0;
  }
  /// Instance `i` is dead: none from there begins, and none to there.
  void forget(std::size_t i) {
    std::erase_if(all_, [i](const decided& m) { return m.from == i || m.to == i; });
  }
  /// Instance `i` is between two steps: begins those of `i` that are due, in the order in which they were decided.
  /// @param may `may(request)` says which. @param failed called with those that come to nothing.
  template <class May, class Failed>
  void begin(cluster& c, std::size_t i, May may, Failed failed) {
    if (all_.empty() || c.at(i).running()) return;
    std::vector<decided> due;
    std::erase_if(all_, [&](const decided& m) {
      const bool is_due = m.from == i && m.due_s <= c.now_s() && may(m.request);
      if (is_due) due.push_back(m);
      return is_due;
    });
    for (const decided& m : due) {
      request& r = c.requests()[m.request];
      const bool here = r.where == i && is_live(r.state().life) && r.migration.stage == migration_stage::none;
      if (!here || !(m.how == fleet::transfer::live ? c.migrate(r, m.to) : c.move(r, m.to))) failed(m);
    }
  }

 private:
  std::vector<decided> all_;
};

}  // namespace sim
TESSERA_NAMESPACE_END
