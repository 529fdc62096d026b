// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/migration/handover.hpp>
#include <tessera/migration/live_migration.hpp>

#include <type_traits>

namespace {

using namespace tessera;
using namespace tessera::migration;
using namespace tessera::literals;

struct archetype {
  constexpr void copy(const block_range&) noexcept {}
};
struct may_throw {
  void copy(const block_range&);
};
struct wants_to_change_it {
  void copy(block_range&) noexcept;
};
static_assert(transport<archetype>);
static_assert(!transport<const archetype>);
static_assert(!transport<may_throw>);
static_assert(!transport<wants_to_change_it>);
static_assert(!transport<int>);

static_assert(std::is_trivially_copyable_v<live_migration>);
static_assert(sizeof(handover_source) == 1 && sizeof(handover_target) == 1);

// All of it can be run by the compiler.
constexpr bool runs() {
  archetype t;
  live_migration m;
  return m.begin(100_tok, 10_blk, t) == next::copying && m.copied(101_tok, t) == next::stop &&
         m.stopped(101_tok, t) == next::copying && m.copied(101_tok, t) == next::hand_over && m.sent_stopped() == 1_blk;
}
static_assert(runs());

}  // namespace
