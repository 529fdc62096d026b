// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/cascade.hpp>
#include <tessera/fleet/following.hpp>
#include <tessera/fleet/kv_transfer.hpp>
#include <tessera/fleet/ledger.hpp>
#include <tessera/fleet/llumnix.hpp>
#include <tessera/fleet/placing.hpp>
#include <tessera/fleet/pools.hpp>
#include <tessera/fleet/router_share.hpp>
#include <tessera/fleet/runtime.hpp>
#include <tessera/fleet/stitch.hpp>
#include <tessera/placement/fill_to_level.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/migrate_to_headroom.hpp>
#include <tessera/placement/stay_in_range.hpp>

#include "support/death.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using namespace tessera;
using ledger = fleet::ledger<>;

struct view {
  blocks kv_held{};
  blocks waiting_blocks{};
  blocks capacity{};
  blocks from{};
  blocks to{};
  double phi = 0;
};

void make(const ledger::limits& l, const ledger::settings& s = {}) {
  auto storage = storage_for<ledger>(l);
  ledger{storage, s};
}

}  // namespace

TESSERA_DEATH_CASE(fleet_ledger_of_no_replicas, "ids have 32 bits") { make({.replicas = 0}); }
TESSERA_DEATH_CASE(fleet_ledger_blocks_of_nothing, "a block has a size") { make({}, {.block_size = 0_tok}); }
TESSERA_DEATH_CASE(fleet_ledger_without_a_lease, "patience is positive") { make({}, {.lease = 0_s}); }
TESSERA_DEATH_CASE(fleet_ledger_negative_bound, "a bound is not negative") { make({}, {.tight = blocks{-1}}); }
TESSERA_DEATH_CASE(fleet_ledger_too_little_memory, "smaller than required_bytes") {
  std::vector<std::byte> memory(100);
  ledger{memory, {}};
}
TESSERA_DEATH_CASE(fleet_ledger_looks_at_nobody, "this replica is not there") {
  auto storage = storage_for<ledger>({});
  const ledger l{storage};
  static_cast<void>(l.at(0));
}
TESSERA_DEATH_CASE(fleet_ledger_own_of_nobody, "this replica is not there") {
  auto storage = storage_for<ledger>({});
  const ledger l{storage};
  static_cast<void>(l.own(0));
}
TESSERA_DEATH_CASE(fleet_ledger_others_of_nobody, "this replica is not there") {
  auto storage = storage_for<ledger>({});
  const ledger l{storage};
  static_cast<void>(l.others(0));
}
TESSERA_DEATH_CASE(fleet_ledger_range_of_nobody, "this replica is not there") {
  auto storage = storage_for<ledger>({});
  ledger l{storage};
  l.set_range(0, 0_blk, 1_blk);
}
TESSERA_DEATH_CASE(fleet_ledger_empty_range, "a range of lengths is not empty") {
  auto storage = storage_for<ledger>({});
  ledger l{storage};
  static_cast<void>(l.join(0, 1, {.capacity = 1_blk}, {}));
  l.set_range(0, 1_blk, 1_blk);
}
TESSERA_DEATH_CASE(fleet_ledger_negative_progress, "a number of tokens is not negative") {
  auto storage = storage_for<ledger>({});
  ledger l{storage};
  l.progress(1, 0, tokens{-1}, {});
}

TESSERA_DEATH_CASE(fleet_ledger_negative_cache_hit, "a number of tokens is not negative") {
  auto storage = storage_for<ledger>({});
  ledger l{storage};
  l.cache_hit(1, 0, tokens{-1}, {});
}

TESSERA_DEATH_CASE(fleet_stitch_before_the_beginning, "a position is not negative") {
  fleet::stitch s;
  static_cast<void>(s.on(tokens{-1}, 2_tok));
}
TESSERA_DEATH_CASE(fleet_stitch_beyond_all_positions, "a position has 64 bits") {
  fleet::stitch s;
  static_cast<void>(s.on(0_tok, 2_tok));
  static_cast<void>(s.on(2_tok, tokens{std::numeric_limits<std::int64_t>::max()}));
}
TESSERA_DEATH_CASE(fleet_share_of_nobody, "it is one of the routers") {
  static_cast<void>(fleet::router_share{.router = 0, .routers = 0}(fleet::view{}));
}
TESSERA_DEATH_CASE(fleet_stitch_ends_before_the_beginning, "a length is not negative") {
  fleet::stitch s;
  static_cast<void>(s.end(tokens{-1}));
}
TESSERA_DEATH_CASE(fleet_runtime_without_actions, "an event may have an action") {
  fleet::placing<placement::least_load> by;
  auto storage = storage_for<fleet::runtime>({.actions = 0});
  fleet::runtime rt{by, storage};
}
TESSERA_DEATH_CASE(fleet_following_without_actions, "an event may have an action") {
  fleet::placing<placement::least_load> other;
  auto storage = storage_for<fleet::following>({.actions = 0});
  fleet::following by{other, storage};
}
TESSERA_DEATH_CASE(fleet_runtime_of_no_router, "it is one of the routers") {
  fleet::placing<placement::least_load> by;
  auto storage = storage_for<fleet::runtime>({});
  fleet::runtime rt{by, storage, {.router = {.router = 2, .routers = 2}}};
}
struct gives_no_range final : fleet::controller {
  void arrived(const fleet::request_view&, fleet::port& p) noexcept override {
    p.set_length_range(0, blocks{4}, blocks{4});
  }
};
TESSERA_DEATH_CASE(fleet_runtime_range_of_nothing, "a range of lengths is not empty") {
  gives_no_range by;
  auto storage = storage_for<fleet::runtime>({});
  fleet::runtime rt{by, storage};
  rt.handle({.what = fleet::event_kind::arrived, .request = 1});
}
TESSERA_DEATH_CASE(fleet_export_of_nothing, "there is something to export") {
  static_cast<void>(fleet::plan_export(0_tok, 16_tok));
}

TESSERA_DEATH_CASE(fleet_llumnix_low_above_high, "no replica is both low and high") {
  auto storage = storage_for<fleet::llumnix>({});
  fleet::llumnix{storage, {.low = 21}};
}
TESSERA_DEATH_CASE(fleet_llumnix_more_replicas_than_room, "there is room for the replicas that are shown") {
  auto storage = storage_for<fleet::llumnix>({.replicas = 1});
  fleet::llumnix by{storage};
  auto of_runtime = storage_for<fleet::runtime>({});
  fleet::runtime rt{by, of_runtime};
  for (fleet::replica_id id = 0; id != 2; ++id) {
    fleet::event e{.what = fleet::event_kind::joined, .replica = id, .number = 1};
    e.joins.capacity = blocks{9};
    rt.handle(e);
  }
  rt.handle({.at_s = 9, .what = fleet::event_kind::clock});
}
TESSERA_DEATH_CASE(fleet_cascade_without_stages, "there are stages, and no more than the limit") {
  auto storage = storage_for<fleet::cascade<>>({});
  fleet::cascade<>{storage, {}};
}
TESSERA_DEATH_CASE(fleet_cascade_replica_without_room, "there is room for this replica") {
  auto storage = storage_for<fleet::cascade<>>({.replicas = 1});
  const partition::stage one{.from = tokens{}, .to = partition::unbounded, .instances = 1};
  fleet::cascade<> by{storage, {.stages = {&one, 1}}};
  static_cast<void>(by.range_end(1));
}
TESSERA_DEATH_CASE(fleet_pools_without_time, "an epoch takes time") {
  auto storage = storage_for<fleet::pools>({});
  fleet::pools{storage, {.epoch_s = 0}};
}

TESSERA_DEATH_CASE(placement_migrate_to_headroom_from_nowhere, "on one of the instances") {
  static_cast<void>(placement::migrate_to_headroom{}(std::vector<view>(2), 2, blocks{}, blocks{}));
}
TESSERA_DEATH_CASE(placement_migrate_to_headroom_without_a_gain, "requests would go to and fro") {
  static_cast<void>(placement::migrate_to_headroom{.gain = 0}(std::vector<view>(2), 0, blocks{}, blocks{}));
}
TESSERA_DEATH_CASE(placement_migrate_to_headroom_below_no_number, "a freeness is a number") {
  static_cast<void>(placement::migrate_to_headroom{.below = std::nan("")}(std::vector<view>(2), 0, blocks{}, blocks{}));
}
TESSERA_DEATH_CASE(placement_stay_in_range_from_nowhere, "on one of the instances") {
  static_cast<void>(placement::stay_in_range{}(std::vector<view>(2), 2, blocks{}, blocks{}));
}
TESSERA_DEATH_CASE(placement_fill_to_level_of_nothing, "a request is a load") {
  static_cast<void>(placement::fill_to_level<placement::by_phi>{.one = 0}(std::vector<view>(2)));
}
