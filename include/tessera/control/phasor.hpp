// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/control/defragmenter.hpp>
#include <tessera/control/flow_controller.hpp>

TESSERA_NAMESPACE_BEGIN
namespace control {

/// The actions of an epoch for the engine. Valid until the next epoch.
struct phasor_actions {
  std::span<const move> moves{};        ///< Sequences to send, valid until the next epoch.
  std::optional<role_change> change{};  ///< At most one worker's new role.
  pool_means means{};                   ///< The means behind the role change, or behind none.
};

/// One epoch of Phasor's control loop over the whole cluster, every 50 ms or so: the macro and the meso scale. Routing,
/// the micro scale, is done per request: `placement::phasor_router`.
///
/// The role change comes first, so that no KV is moved to or from a worker that is about to change. Pure, except for
/// the cool-down; nothing allocates. Source: Phasor, algorithm 1, lines 6 to 18.
class phasor {
 public:
  /// Capacities; fixed at construction.
  struct limits {
    std::size_t workers = 0;            ///< Most workers in a report.
    defragmenter::limits defragment{};  ///< Capacities of the meso controller.
  };
  /// Parameters. The defaults are the paper's where it gives one.
  struct settings {
    flow_controller::settings flow{};     ///< Parameters of the macro controller.
    defragmenter::settings defragment{};  ///< Parameters of the meso controller.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add_bytes(flow_controller::required_bytes({l.workers}))
        .add_bytes(defragmenter::required_bytes(l.defragment))
        .bytes_unaligned();
  }

  /// Takes `required_bytes(l)` from `memory`.
  phasor(arena& memory, const limits& l, const settings& s) noexcept
      : flow_{memory, {l.workers}, s.flow}, defragment_{memory, l.defragment, s.defragment} {}
  /// The same with the default settings.
  phasor(arena& memory, const limits& l) noexcept : phasor(memory, l, settings{}) {}

  /// One epoch. O(workers) plus the cost of `defragmenter`. Requirements as those of the two controllers.
  [[nodiscard]] phasor_actions epoch(std::span<const worker> workers) noexcept {
    phasor_actions a;
    a.change = flow_.decide(workers);
    a.means = flow_.means();
    a.moves = defragment_.plan(workers, a.change ? a.change->worker : no_index);
    return a;
  }

  /// The macro controller, for reading.
  [[nodiscard]] const flow_controller& flow() const noexcept { return flow_; }
  /// The meso controller, for reading.
  [[nodiscard]] const defragmenter& defragment() const noexcept { return defragment_; }

 private:
  flow_controller flow_;
  defragmenter defragment_;
};

}  // namespace control
TESSERA_NAMESPACE_END
