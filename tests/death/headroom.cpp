// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/headroom/prefill_load.hpp>
#include <tessera/headroom/reference_demand.hpp>
#include <tessera/headroom/space.hpp>
#include <tessera/placement/phasor_router.hpp>

#include "support/death.hpp"

#include <array>
#include <cmath>

namespace {

using namespace tessera;
using headroom::prefill_load;
using quantile = headroom::window_quantile<int>;

alignas(64) std::array<std::byte, 65536> memory;

constexpr placement::prefill_worker some_worker{.cost = {.alpha = 1, .beta = 1},
                                                .budget = {.peak_flops = 1, .ttft = 1_s}};

struct router {
  arena storage{memory};
  placement::phasor_router object{storage, {.workers = 4}};
};
struct index {
  arena storage{memory};
  placement::phi_index object{storage, {.workers = 4}};
};

TESSERA_DEATH_CASE(headroom_within_no_number, "a budget is a number") {
  static_cast<void>(headroom::prefill_cost{.alpha = 1, .beta = 1}.within(std::nan("")));
}

}  // namespace

TESSERA_DEATH_CASE(headroom_model_without_parameters, "a model has parameters") {
  static_cast<void>(headroom::model_scale(0, 7e9));
}
TESSERA_DEATH_CASE(headroom_join_of_a_negative_length, "no such prompt") { prefill_load{}.join(tokens{-1}); }
TESSERA_DEATH_CASE(headroom_join_of_more_computed_than_there_is, "no such prompt") {
  prefill_load{}.join(tokens{5}, tokens{6});
}
TESSERA_DEATH_CASE(headroom_join_of_too_long_a_prompt, "no such prompt") {
  prefill_load{}.join(headroom::longest_prompt + tokens{1});
}
TESSERA_DEATH_CASE(headroom_leave_of_nobody, "not queued") { prefill_load{}.leave(tokens{0}); }
TESSERA_DEATH_CASE(headroom_leave_of_another_length, "not queued") {
  prefill_load load;
  load.join(tokens{5});
  load.leave(tokens{6});
}
TESSERA_DEATH_CASE(headroom_leave_of_impossible_progress, "no such prompt") {
  prefill_load load;
  load.join(tokens{5});
  load.leave(tokens{5}, tokens{6});
}
TESSERA_DEATH_CASE(headroom_progress_of_nobody, "no prompt is queued") { prefill_load{}.advance(tokens{0}, tokens{1}); }
TESSERA_DEATH_CASE(headroom_progress_beyond_what_is_queued, "more is computed") {
  prefill_load load;
  load.join(tokens{5});
  load.advance(tokens{0}, tokens{6});
}
TESSERA_DEATH_CASE(headroom_more_tokens_than_are_queued, "more is computed") {
  prefill_load load;
  load.join(tokens{10});
  load.join(tokens{1000}, tokens{999});
  load.advance(tokens{0}, tokens{30});
}
TESSERA_DEATH_CASE(headroom_progress_below_zero, "no such prompt") {
  prefill_load load;
  load.join(tokens{5});
  load.advance(tokens{0}, tokens{-1});
}
TESSERA_DEATH_CASE(headroom_no_budget, "a worker has a budget") {
  static_cast<void>(headroom::time_freeness({}, {}, {.peak_flops = 0, .ttft = 1_s}));
}
TESSERA_DEATH_CASE(headroom_negative_blocks, "is not negative") {
  static_cast<void>(headroom::space_freeness(blocks{-1}, blocks{0}, blocks{5}));
}

TESSERA_DEATH_CASE(headroom_window_of_none, "a window of 1") {
  arena storage{memory};
  quantile{storage, {0}, 0.5};
}
TESSERA_DEATH_CASE(headroom_quantile_zero, "a quantile above 0") {
  arena storage{memory};
  quantile{storage, {5}, 0.0};
}
TESSERA_DEATH_CASE(headroom_quantile_nan, "a quantile above 0") {
  arena storage{memory};
  quantile{storage, {5}, std::nan("")};
}
TESSERA_DEATH_CASE(headroom_quantile_of_nothing, "no value has been seen") {
  arena storage{memory};
  static_cast<void>(quantile{storage, {5}, 0.5}.value());
}
TESSERA_DEATH_CASE(headroom_quantile_storage_too_small, "storage is smaller") {
  arena storage{std::span{memory}.first(quantile::required_bytes({100}) - 128)};
  quantile{storage, {100}, 0.5};
}
TESSERA_DEATH_CASE(headroom_demand_without_block_size, "a block has a size") {
  arena storage{memory};
  headroom::reference_demand{storage, {}, {.block_size = tokens{0}}};
}
TESSERA_DEATH_CASE(headroom_demand_that_is_negative, "a demand is not negative") {
  arena storage{memory};
  headroom::reference_demand{storage, {}, {.growth = blocks{-1}}};
}
TESSERA_DEATH_CASE(headroom_demand_of_a_negative_prompt, "not negative") {
  arena storage{memory};
  headroom::reference_demand{storage, {}}.observe(tokens{-1});
}

TESSERA_DEATH_CASE(placement_index_of_none, "workers") {
  arena storage{memory};
  placement::phi_index{storage, {.workers = 0}};
}
TESSERA_DEATH_CASE(placement_index_set_out_of_range, "no such worker") { index{}.object.set(4, 0.5, 0); }
TESSERA_DEATH_CASE(placement_index_set_nan, "a freeness is a number") { index{}.object.set(0, std::nan(""), 0); }
TESSERA_DEATH_CASE(placement_index_remove_out_of_range, "no such worker") { index{}.object.remove(4); }
TESSERA_DEATH_CASE(placement_index_phi_of_an_outsider, "not in the pool") { static_cast<void>(index{}.object.phi(1)); }
TESSERA_DEATH_CASE(placement_router_open_out_of_range, "no such worker") { router{}.object.open(4, some_worker); }
TESSERA_DEATH_CASE(placement_router_open_without_budget, "a worker has a budget") { router{}.object.open(0, {}); }
TESSERA_DEATH_CASE(placement_router_join_out_of_range, "no such worker") { router{}.object.join(4, tokens{1}); }
TESSERA_DEATH_CASE(placement_router_leave_twice, "not queued") {
  router r;
  r.object.open(0, some_worker);
  static_cast<void>(r.object.route(tokens{5}));
  r.object.leave(0, tokens{5});
  r.object.leave(0, tokens{5});
}
