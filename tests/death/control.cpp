// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/control/phasor.hpp>

#include "support/death.hpp"

#include <array>
#include <cmath>

namespace {

using namespace tessera;
using namespace tessera::control;

alignas(64) std::array<std::byte, 65536> memory;

void make_flow(const flow_controller::settings& s) {
  arena storage{memory};
  flow_controller{storage, {.workers = 2}, s};
}
void make_meso(const defragmenter::settings& s) {
  arena storage{memory};
  defragmenter{storage, {}, s};
}
/// Plans for a fragmented worker and one with room.
void plan(const worker& fragmented) {
  arena storage{memory};
  defragmenter meso{storage, {}};
  const std::array<worker, 2> all{
      fragmented, worker{.role = role::decode, .total = blocks{1000}, .free = blocks{1000}, .demand = blocks{20}}};
  static_cast<void>(meso.plan(all));
}
constexpr worker fragmented{.role = role::decode, .total = blocks{100}, .free = blocks{10}, .demand = blocks{20}};

}  // namespace

TESSERA_DEATH_CASE(control_theta_zero, "theta is above 0") { make_flow({.theta = 0}); }
TESSERA_DEATH_CASE(control_theta_above_one, "theta is above 0") { make_flow({.theta = 1.01}); }
TESSERA_DEATH_CASE(control_theta_nan, "theta is above 0") { make_flow({.theta = std::nan("")}); }
TESSERA_DEATH_CASE(control_more_workers_than_room, "more workers than") {
  arena storage{memory};
  flow_controller flow{storage, {.workers = 2}};
  const std::array<worker, 3> all{};
  static_cast<void>(flow.decide(all));
}
TESSERA_DEATH_CASE(control_cooling_of_a_foreign_worker, "no such worker") {
  arena storage{memory};
  static_cast<void>(flow_controller{storage, {.workers = 2}}.cooling(2));
}
TESSERA_DEATH_CASE(control_flow_storage_too_small, "storage is smaller") {
  arena storage{std::span{memory}.first(flow_controller::required_bytes({.workers = 100}) - 128)};
  flow_controller{storage, {.workers = 100}};
}
TESSERA_DEATH_CASE(control_floor_below_threshold, "would become sources") {
  make_meso({.threshold = 0.2, .floor = 0.1});
}
TESSERA_DEATH_CASE(control_negative_growth, "a bound is not negative") { make_meso({.growth = blocks{-1}}); }
TESSERA_DEATH_CASE(control_negative_bytes, "a bound is not negative") { make_meso({.most_bytes = bytes{-1}}); }
TESSERA_DEATH_CASE(control_return_nan, "a bound is not negative") { make_meso({.least_return = std::nan("")}); }
TESSERA_DEATH_CASE(control_meso_storage_too_small, "storage is smaller") {
  arena storage{std::span{memory}.first(defragmenter::required_bytes({}) - 128)};
  defragmenter{storage, {}};
}
TESSERA_DEATH_CASE(control_more_free_than_there_is, "contradicts itself") {
  worker w = fragmented;
  w.leaving = blocks{91};
  plan(w);
}
TESSERA_DEATH_CASE(control_negative_free, "contradicts itself") {
  worker w = fragmented;
  w.free = blocks{-1};
  plan(w);
}
TESSERA_DEATH_CASE(control_flow_more_free_than_there_is, "contradicts itself") {
  arena storage{memory};
  flow_controller flow{storage, {.workers = 2}};
  const std::array<worker, 2> all{worker{.role = role::prefill, .total = blocks{10}, .free = blocks{99}}, fragmented};
  static_cast<void>(flow.decide(all));
}
TESSERA_DEATH_CASE(control_flow_negative_queue, "contradicts itself") {
  arena storage{memory};
  flow_controller flow{storage, {.workers = 1}};
  worker w = fragmented;
  w.queued = blocks{-3};
  static_cast<void>(flow.decide({&w, 1}));
}
TESSERA_DEATH_CASE(control_sequence_of_no_blocks, "holds something") {
  const sequence s{.id = 1, .held = blocks{0}, .size = bytes{1}};
  worker w = fragmented;
  w.sequences = {&s, 1};
  plan(w);
}
TESSERA_DEATH_CASE(control_sequence_of_no_bytes, "holds something") {
  const sequence s{.id = 1, .held = blocks{1}, .size = bytes{0}};
  worker w = fragmented;
  w.sequences = {&s, 1};
  plan(w);
}
