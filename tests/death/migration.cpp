// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/migration/live_migration.hpp>

#include "support/death.hpp"

namespace {

using namespace tessera;
using namespace tessera::literals;
using migration::live_migration;

struct wire {
  void copy(const migration::block_range&) noexcept {}
} w;

TESSERA_DEATH_CASE(migration_without_rounds, "impossible limits") {
  static_cast<void>(live_migration{{.most_rounds = 0}});
}
TESSERA_DEATH_CASE(migration_of_empty_blocks, "impossible limits") {
  static_cast<void>(live_migration{{.block_size = 0_tok}});
}
TESSERA_DEATH_CASE(migration_of_nothing, "nothing to migrate") {
  live_migration m;
  static_cast<void>(m.begin(0_tok, 1_blk, w));
}
TESSERA_DEATH_CASE(migration_begun_twice, "is under way") {
  live_migration m;
  static_cast<void>(m.begin(10_tok, 9_blk, w));
  static_cast<void>(m.begin(10_tok, 9_blk, w));
}
TESSERA_DEATH_CASE(migration_copied_before_it_began, "a copy of what there is") {
  live_migration m;
  static_cast<void>(m.copied(10_tok, w));
}
TESSERA_DEATH_CASE(migration_that_shrinks, "a copy of what there is") {
  live_migration m;
  static_cast<void>(m.begin(10_tok, 9_blk, w));
  static_cast<void>(m.copied(9_tok, w));
}
TESSERA_DEATH_CASE(migration_stopped_unasked, "asked to stop") {
  live_migration m;
  static_cast<void>(m.begin(10_tok, 9_blk, w));
  static_cast<void>(m.stopped(10_tok, w));
}
TESSERA_DEATH_CASE(migration_handed_over_too_soon, "all has arrived") {
  live_migration m;
  static_cast<void>(m.begin(10_tok, 9_blk, w));
  m.handed_over();
}

}  // namespace
