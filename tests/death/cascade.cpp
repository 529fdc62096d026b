// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/cascade.hpp>

#include <array>

#include "support/death.hpp"

namespace {

using namespace tessera;
using member = cascade_instance<partition::by_count>;

alignas(64) std::array<std::byte, 65536> memory;
constexpr std::array<partition::stage, 2> plan{
    partition::stage{.from = tokens{0}, .to = tokens{500}, .instances = 1},
    partition::stage{.from = tokens{500}, .to = partition::unbounded, .instances = 1}};
constexpr member::limits small{.instances = 2, .stages = 2, .offers = 2, .purchases = 2};

struct map {
  stage_map object{memory, {.instances = 2, .stages = 2}, plan};
};

}  // namespace

TESSERA_DEATH_CASE(cascade_longest_below_the_plan, "cuts above the longest") {
  member{memory, small, plan, {0, 1}, {.longest = tokens{499}}};
}
TESSERA_DEATH_CASE(cascade_self_is_not_in_the_plan, "an instance of the plan") {
  member{memory, {.instances = 3, .stages = 2, .offers = 2, .purchases = 2}, plan, {2, 1}};
}
TESSERA_DEATH_CASE(cascade_available_of_nobody, "no such instance") { map{}.object.available(2, false); }
TESSERA_DEATH_CASE(cascade_load_of_nobody, "no such instance") { static_cast<void>(map{}.object.load(2)); }
TESSERA_DEATH_CASE(cascade_stage_of_nobody, "no such instance") { static_cast<void>(map{}.object.stage_of(2)); }
TESSERA_DEATH_CASE(cascade_plan_that_ends, "takes all lengths") {
  stage_map{memory, {.instances = 2, .stages = 2}, std::span{plan}.first(1)};
}
TESSERA_DEATH_CASE(cascade_storage_too_small, "storage is smaller") {
  member{std::span{memory}.first(member::required_bytes(small) - 128), small, plan, {0, 1}};
}
