// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/placement/hashed.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/placement/pascal.hpp>
#include <tessera/placement/prefix_affinity.hpp>
#include <tessera/placement/turn.hpp>

#include "support/death.hpp"

#include <cstddef>
#include <vector>

namespace {

using tessera::blocks;

struct view {
  blocks kv_held{};
  blocks free_blocks{};
  std::size_t requests = 0;
  bool slo_met = true;
  std::size_t reasoning = 0;
  std::size_t fresh_answers = 0;
  tessera::tokens cached_tokens{};
  std::size_t id = 0;
  std::uint64_t prefix_key = 0;
};

}  // namespace

TESSERA_DEATH_CASE(placement_migrate_when_tight_from_nowhere, "on one of the instances") {
  const std::vector<view> two(2);
  static_cast<void>(tessera::placement::migrate_when_tight{}(two, 2, blocks{}, blocks{}));
}

TESSERA_DEATH_CASE(placement_pascal_migrate_adaptively_from_nowhere, "on one of the instances") {
  const std::vector<view> two(2);
  static_cast<void>(tessera::placement::pascal_migrate_adaptively{}(two, 2, blocks{}, blocks{}));
}

TESSERA_DEATH_CASE(placement_turn_backwards, "a range") {
  static_cast<void>(tessera::placement::turn{}.least(2, 1, [](std::size_t) noexcept { return 0; }));
}

TESSERA_DEATH_CASE(placement_prefix_affinity_below_the_mean, "there is not room for all") {
  static_cast<void>(tessera::placement::prefix_affinity{.bound = 0.5}(std::vector<view>(2)));
}
TESSERA_DEATH_CASE(placement_bounded_hashing_below_the_mean, "there is not room for all") {
  static_cast<void>(tessera::placement::bounded_hashing{.bound = 0.5}(std::vector<view>(2)));
}
