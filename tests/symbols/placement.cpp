// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Every placement policy of PASCAL, its baselines, those by headroom, and those that read what is cached, over one
// range of views.

#include <tessera/placement/hashed.hpp>
#include <tessera/placement/join_shortest_queue.hpp>
#include <tessera/placement/least_kv.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/least_prefill_backlog.hpp>
#include <tessera/placement/lmetric.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/placement/pascal.hpp>
#include <tessera/placement/prefix_affinity.hpp>
#include <tessera/placement/random.hpp>
#include <tessera/placement/round_robin.hpp>

#include <span>

using namespace tessera;

struct view {
  blocks kv_held{};
  blocks free_blocks{};
  std::size_t requests = 0;
  bool slo_met = true;
  std::size_t reasoning = 0;
  std::size_t fresh_answers = 0;
  blocks waiting_blocks{};
  tokens cached_tokens{};
  tokens new_prefill_tokens{};
  std::size_t id = 0;
  std::uint64_t prefix_key = 0;
  double phi = 0;
  double error = 0;
  double prefill_backlog = 0;
};
using views = std::span<const view>;

std::size_t use_placement(views v, placement::round_robin& turns, placement::random& any) noexcept {
  return placement::least_kv{}(v) + placement::least_load{}(v) + placement::join_shortest_queue{}(v) +
         placement::pascal_arrival{}(v) + placement::pascal_phase_change{}(v) + turns(v) + any(v);
}

std::size_t use_headroom(views v, placement::highest_phi& highest, placement::least_prefill_backlog& least) noexcept {
  return highest(v) + least(v);
}

std::size_t use_prefixes(views v, placement::lmetric& product, placement::prefix_affinity& bounded) noexcept {
  return product(v) + bounded(v) + placement::bounded_hashing{}(v) + placement::dual_map{}(v);
}

std::size_t use_migration(views v, std::size_t current, blocks grows, blocks moves) noexcept {
  return placement::stay{}(v, current, grows, moves) + placement::pascal_migrate_always{}(v, current, grows, moves) +
         placement::pascal_migrate_adaptively{.headroom = blocks{32}}(v, current, grows, moves) +
         placement::migrate_when_tight{.headroom = blocks{32}}(v, current, grows, moves);
}
