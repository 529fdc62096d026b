// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/pascal.hpp>
#include <tessera/sim/cluster/instance.hpp>
#include <tessera/sim/cluster/run_watcher.hpp>
#include <tessera/sim/policies/placement_name.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

/// @file
/// Who decides, in a simulated cluster, where requests run.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// What a placement policy sees of a simulated instance.
struct instance_view {
  std::size_t id = 0;        ///< Which instance.
  blocks capacity{};         ///< Its KV memory, used and free.
  blocks kv_held{};          ///< On device and host. What is on its way counts at both ends.
  blocks free_blocks{};      ///< On the device.
  std::size_t requests = 0;  ///< Waiting and resident.
  std::size_t queued = 0;    ///< Of these, new, preempted, or arrived with their KV: without blocks on the device.
  blocks waiting_blocks{};   ///< What requests here need for the tokens that they have and do not hold, on device or
                             ///< host: those that wait, and prompts that are computed in part. A block that several
                             ///< share counts for each of them.
  // Filled in only for policies with a member `reads_phases`:
  bool slo_met = true;            ///< PASCAL's t_i.
  std::size_t reasoning = 0;      ///< PASCAL's r_i.
  std::size_t fresh_answers = 0;  ///< PASCAL's a_i.
  // Of the request that is to be placed, filled in only for policies with a member `reads_prefixes`:
  tokens cached_tokens{};        ///< Of its prompt, in the prefix cache.
  tokens new_prefill_tokens{};   ///< The rest of it.
  std::uint64_t prefix_key = 0;  ///< Of its beginning, see `prefix_keys`; of a prompt that shares nothing, its own.
};

/// A placement or migration policy that looks at the phases: it has a true constant `reads_phases`.
template <class P>
concept phase_reader = requires { requires P::reads_phases; };

/// A placement policy that looks at what is cached: it has a true constant `reads_prefixes`.
template <class P>
concept prefix_reader = requires { requires P::reads_prefixes; };

/// A placement policy that is chosen when a program runs, for instance by its name on a command line.
struct named_placement {
  std::string name;             ///< As in `--placement`, and in tables.
  std::string summary;          ///< One line.
  bool reads_phases = false;    ///< As a `phase_reader`.
  bool reads_prefixes = false;  ///< As a `prefix_reader`.
  /// Makes one for a run: from the instances to the index of the one for a new request.
  std::function<std::function<std::size_t(const std::vector<instance_view>&)>()> make;
};

/// The policy `P` under a name.
template <std::default_initializable P>
[[nodiscard]] named_placement name_placement(std::string name, std::string summary) {
  return {std::move(name), std::move(summary), phase_reader<P>, prefix_reader<P>,
          [] { return [p = P{}](const std::vector<instance_view>& v) mutable { return p(v); }; }};
}

/// One quantum of answer in blocks of the usual 16 tokens: what PASCAL wants free before an answer stays.
inline constexpr blocks quantum_blocks{32};

/// Decides where requests run; called by a cluster `c`, see there for what a control may do.
///
/// Requires: (1) `control.place(c, r) -> std::size_t`: the instance on which the request `r`, which is on none, starts:
/// one that `c.takes`, and there is one. `r` is new, or its instance has died.
///
/// A control has those of these members that it needs; each returns nothing:
/// - `starts(c)`: before the first event.
/// - `failed(c, i)`: that instance `i` is dead has become known; `returned(c, i)`: it is back, and empty. In between no
///   request may be placed on it.
/// - `lost(c, r)`: `r` was on an instance that has failed, `r.where`, or sent there. It is placed anew after this.
/// - `rejected(c, r)`: the instance that `r` was placed on has refused it: it is too long, or too many wait.
/// - `answers(c, r)`: `r` has just ended its reasoning. `prefilled(c, r)`: `r` has its first token since it was placed,
///   and is still here: it has not ended with it, nor been moved by `answers`. Its instance is between two steps.
/// - `moved(c, r)`: `r` has arrived with its KV on `r.where`.
/// - `arrived(c, r)`: the KV of `r` is at its destination, and `r` runs nowhere. A control with this member lets it go
///   on, by `c.admit(r)` or `c.cut_migration(r)`, when it likes; until then its blocks where it was are taken. Without,
///   it goes on at the destination at once.
/// - `migration_failed(c, r)`: `r` has ended or lost its blocks before it was copied, or its destination has died, and
///   stays where it is.
/// - `finished(c, r)`: `r` has ended.
/// - `step_ended(c, i)`: instance `i` is between two steps.
/// - `alarm(c, what)`: what `c.call_after` ordered is due.
/// - `ended(c, result)`: all requests have ended, and `result` is complete but for what the control has measured.
template <class Control, class C>
concept cluster_control = requires(Control& control, C& c, const request& r) {
  { control.place(c, r) } -> std::convertible_to<std::size_t>;
};

/// The control of a placement policy for new requests and a migration policy for those that begin to answer. Where the
/// cluster's options name a placement, it is that instead.
/// @tparam Placement a function from a range of `instance_view` to the index of the instance for a new request.
/// @tparam Migration a function from the range, the current instance and the blocks needed there and elsewhere to the
///         instance on which a request goes on when it begins to answer.
template <class Placement = placement::least_load, class Migration = placement::stay>
struct placed {
  Placement placement{};  ///< Where arrivals go.
  Migration migration{};  ///< Where requests go that begin to answer.

  /// The instance that a request which has just arrived goes to.
  template <class C>
  [[nodiscard]] std::size_t place(C& c, const request& r) {
    const auto& other = c.options().placement;
    if (other && !other_) other_ = other->make();
    if (other ? other->reads_phases : phase_reader<Placement>) c.look_at_phases();
    if (other ? other->reads_prefixes : prefix_reader<Placement>) c.look_at_prefixes(r);
    const auto& instances = c.candidates(r);
    const std::size_t to = other ? other_(instances) : placement(instances);
    TESSERA_ASSERT(to < instances.size(), "a request is placed on an instance");
    const std::size_t chosen = instances[to].id;
    if (c.asks(r)) {
      c.because(other ? fmt::format("{}: {}", other->name, other->summary)
                      : fmt::format("{}: {}", placement_name<Placement>, placement_summary<Placement>),
                c.compare_views(r, other ? other->reads_phases : phase_reader<Placement>,
                                other ? other->reads_prefixes : prefix_reader<Placement>));
    }
    return chosen;
  }

  /// A request begins to answer: it may move.
  template <class C>
  void answers(C& c, request& r)
    requires(!std::same_as<Migration, placement::stay>)
  {
    if constexpr (phase_reader<Migration>) c.look_at_phases();
    const tokens block_size = c.options().instance.limits.block_size;
    const blocks moves = blocks_for(r.state().length, block_size);
    const blocks grows = moves - c.at(r.where).scheduler().blocks_held(r);
    const auto& instances = c.candidates(r);
    const auto here = std::find_if(instances.begin(), instances.end(), [&](const auto& v) { return v.id == r.where; });
    const auto current = static_cast<std::size_t>(here - instances.begin());
    const std::size_t to = instances[migration(instances, current, max(grows, blocks{}), moves)].id;
    if (c.asks(r)) {
      std::string why = fmt::format("{}; it needs {} more blocks here, {} elsewhere", placement_summary<Migration>,
                                    max(grows, blocks{}).count(), moves.count());
      comparison seen = c.compare_views(r, phase_reader<Migration>);
      if (to == r.where) {
        c.tell(r, happening::stays, to, std::move(why), std::move(seen));
      } else {
        c.because(std::move(why), std::move(seen));
      }
    }
    if (to != r.where) c.move(r, to);
  }

  std::function<std::size_t(const std::vector<instance_view>&)> other_{};  ///< Made when first asked.
};

}  // namespace sim
TESSERA_NAMESPACE_END
