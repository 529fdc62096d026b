// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Truth tables of what a fleet asks of policies. Compiled, never run.

#include <tessera/fleet/headroom_book.hpp>
#include <tessera/fleet/ledger.hpp>
#include <tessera/placement/fill_to_level.hpp>
#include <tessera/placement/hashed.hpp>
#include <tessera/placement/join_shortest_queue.hpp>
#include <tessera/placement/least_kv.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/lmetric.hpp>
#include <tessera/placement/migrate_to_headroom.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/placement/pascal.hpp>
#include <tessera/placement/power_of_two.hpp>
#include <tessera/placement/prefix_affinity.hpp>
#include <tessera/placement/random.hpp>
#include <tessera/placement/round_robin.hpp>
#include <tessera/placement/stay_in_range.hpp>

#include <type_traits>

namespace fleet_truth {

using namespace tessera;
using namespace tessera::fleet;

// Every placement policy can be asked; those that read prefixes, with a prefix alone.
static_assert(placement_policy<placement::least_kv> && placement_policy<placement::least_load>);
static_assert(placement_policy<placement::join_shortest_queue> && placement_policy<placement::round_robin>);
static_assert(placement_policy<placement::random> && placement_policy<placement::power_of_two>);
static_assert(placement_policy<placement::fill_to_level<>> &&
              placement_policy<placement::fill_to_level<placement::by_phi>>);
static_assert(placement_policy<placement::pascal_arrival> && placement_policy<placement::highest_phi>);
struct cached {
  tokens operator()(replica_id) const noexcept;
};
static_assert(!placement_policy<placement::lmetric> && placement_policy<placement::lmetric, prefix<cached>>);
static_assert(!placement_policy<placement::prefix_affinity> &&
              placement_policy<placement::prefix_affinity, prefix<cached>>);
static_assert(!placement_policy<placement::dual_map> && placement_policy<placement::dual_map, prefix<cached>>);
static_assert(placement_policy<placement::bounded_hashing, prefix<cached>>);
static_assert(placement_policy<placement::least_load, prefix<cached>>);

// And every migration policy; a placement policy is none, nor the other way round.
static_assert(migration_policy<placement::stay> && migration_policy<placement::stay_in_range>);
static_assert(migration_policy<placement::migrate_when_tight> && migration_policy<placement::migrate_to_headroom>);
static_assert(migration_policy<placement::pascal_migrate_always> &&
              migration_policy<placement::pascal_migrate_adaptively>);
static_assert(!migration_policy<placement::least_kv> && !placement_policy<placement::stay>);

// A policy that may throw is none.
struct may_throw {
  std::size_t operator()(const candidates<>&) { return 0; }
};
static_assert(!placement_policy<may_throw>);

// How fast replicas decode: each of the three is needed, and none may throw.
static_assert(decode_speed<linear_speed>);
struct no_places {
  double step_s(replica_id, std::int64_t, std::int64_t, std::int64_t) const noexcept;
  bool alike() const noexcept;
};
struct no_steps {
  std::size_t places(replica_id) const noexcept;
  bool alike() const noexcept;
};
struct steps_may_throw : linear_speed {
  double step_s(replica_id, std::int64_t, std::int64_t, std::int64_t) const;
};
static_assert(!decode_speed<no_places> && !decode_speed<no_steps> && !decode_speed<steps_may_throw>);

// A book is its router's.
static_assert(!std::is_copy_constructible_v<ledger<>> && !std::is_move_constructible_v<ledger<>>);
static_assert(std::is_trivially_copyable_v<report> && std::is_trivially_copyable_v<view>);

}  // namespace fleet_truth
