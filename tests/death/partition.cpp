// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/death.hpp"

#include <tessera/core/owned_storage.hpp>
#include <tessera/partition/chain.hpp>
#include <tessera/partition/exact.hpp>
#include <tessera/partition/flat.hpp>
#include <tessera/partition/range_refiner.hpp>

#include <array>

namespace {

using namespace tessera;
using namespace tessera::literals;
using namespace tessera::partition;
using cost::request_lengths;

/// A table of three lengths, and a planner for two lengths and two instances.
struct small {
  owned_storage<length_table::limits> table_memory = storage_for<length_table>({.requests = 3});
  arena table_arena{table_memory.memory()};
  length_table table{table_arena, table_memory.limits()};
  owned_storage<exact::limits> memory = storage_for<exact>({.lengths = 2, .instances = 2});
  arena own_arena{memory.memory()};
  exact planner{own_arena, memory.limits()};
  std::array<stage, 8> out{};

  void fill(std::size_t n) {
    const std::array<request_lengths, 3> sample{{{1_tok, 2_tok}, {1_tok, 3_tok}, {1_tok, 4_tok}}};
    if (!ok(table.assign(std::span{sample}.first(n), {.qoe = {{1, 1, 1, 1, 1}}}))) std::exit(3);
  }
};

TESSERA_DEATH_CASE(partition_without_a_sample, "no sample to plan for") {
  small s;
  static_cast<void>(s.planner(s.table, 1, s.out));
}
TESSERA_DEATH_CASE(partition_without_instances, "no instance to plan for") {
  small s;
  s.fill(2);
  static_cast<void>(s.planner(s.table, 0, s.out));
}
TESSERA_DEATH_CASE(partition_without_room, "no room for the stages") {
  small s;
  s.fill(2);
  static_cast<void>(flat{}(s.table, 2, std::span{s.out}.first(1)));
}
TESSERA_DEATH_CASE(partition_of_too_many_lengths, "more lengths than") {
  small s;
  s.fill(3);
  static_cast<void>(s.planner(s.table, 2, s.out));
}
TESSERA_DEATH_CASE(partition_of_too_many_instances, "more instances than") {
  small s;
  s.fill(2);
  static_cast<void>(s.planner(s.table, 3, s.out));
}
TESSERA_DEATH_CASE(partition_cut_beyond_the_table, "no such position") {
  small s;
  s.fill(2);
  static_cast<void>(s.table.cut(3));
}
TESSERA_DEATH_CASE(partition_average_of_no_parts, "at least one part") { average_part({}, 0); }
TESSERA_DEATH_CASE(partition_split_of_nothing, "nothing to split") { static_cast<void>(by_quality{}({})); }
TESSERA_DEATH_CASE(partition_split_of_nothing_by_count, "nothing to split") { static_cast<void>(by_count{}({})); }
TESSERA_DEATH_CASE(partition_empty_range, "at least one length") {
  static_cast<void>(range_refiner<by_count>{0_tok, {}});
}
TESSERA_DEATH_CASE(partition_smoothing_of_zero, "smoothing must be") {
  static_cast<void>(range_refiner<by_count>{1_tok, {.smoothing = 0}});
}
TESSERA_DEATH_CASE(partition_refine_the_last_stage, "no boundary to move") {
  range_refiner<by_count> r{1_tok, {}};
  r.update({}, {}, 0, 1_tok, 2_tok, {});
}
TESSERA_DEATH_CASE(partition_refine_without_room, "scratch must hold") {
  range_refiner<by_count> r{1_tok, {}};
  const request_lengths one{1_tok, 1_tok};
  r.update({&one, 1}, {}, 1, 1_tok, 2_tok, {});
}
TESSERA_DEATH_CASE(partition_refine_nowhere, "somewhere to be") {
  range_refiner<by_count> r{1_tok, {}};
  r.update({}, {}, 1, 3_tok, 2_tok, {});
}

}  // namespace
