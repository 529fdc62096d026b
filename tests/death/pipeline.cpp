// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/round_robin.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/draft/unless_busy.hpp>
#include <tessera/gate/adapter_slots.hpp>
#include <tessera/gate/all.hpp>
#include <tessera/gate/encoder_cache.hpp>
#include <tessera/gate/fair_tenants.hpp>
#include <tessera/gate/tenant_deficits.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/pipeline/grouped_ledger.hpp>
#include <tessera/pipeline/resident_set.hpp>
#include <tessera/preempt/cheapest.hpp>
#include <tessera/preempt/recompute.hpp>

#include "support/death.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace {

using namespace tessera;

struct request : round_robin_request {};

constexpr scheduler_limits limits{
    .requests = 4, .blocks = 8, .block_size = tokens{4}, .residents = 2, .host_blocks = 4};

alignas(64) std::array<std::byte, round_robin<request>::required_bytes(limits)> memory;
request r;

struct fixture {
  round_robin<request> scheduler{memory, limits, {.quantum = tokens{1}}};
  fixture() {
    r.prompt = tokens{4};
    static_cast<void>(scheduler.submit(r, time_point{}));
  }
  auto plan(const step_limits& step = {}) { return scheduler.plan(time_point{}, step); }
  void commit(const step_plan<request>& p, std::span<const outcome> o) { scheduler.commit(p, o, time_point{}); }
};

constexpr scheduler_limits two_in_flight{
    .requests = 4, .blocks = 8, .block_size = tokens{4}, .residents = 2, .host_blocks = 4, .plans_in_flight = 2};
alignas(64) std::array<std::byte, round_robin<request>::required_bytes(two_in_flight)> memory_of_two;

struct fixture_of_two {
  round_robin<request> scheduler{memory_of_two, two_in_flight, {.quantum = tokens{1}}};
  fixture_of_two() {
    r.prompt = tokens{4};
    static_cast<void>(scheduler.submit(r, time_point{}));
  }
  auto plan() { return scheduler.plan(time_point{}, {}); }
  void commit(const step_plan<request>& p) { scheduler.commit(p, std::array{outcome{}}, time_point{}); }
};

}  // namespace

TESSERA_DEATH_CASE(scheduler_storage_too_small, "storage is smaller") {
  round_robin<request>{std::span{memory}.first(memory.size() / 2), limits};
}
TESSERA_DEATH_CASE(request_destroyed_while_it_waits, "destroyed while a scheduler has it") {
  round_robin<request> scheduler{memory, limits};
  request gone;
  gone.prompt = tokens{4};
  static_cast<void>(scheduler.submit(gone, time_point{}));
}
TESSERA_DEATH_CASE(request_destroyed_while_it_runs, "destroyed while a scheduler has it") {
  round_robin<request> scheduler{memory, limits};
  request gone;
  gone.prompt = tokens{4};
  static_cast<void>(scheduler.submit(gone, time_point{}));
  static_cast<void>(scheduler.plan(time_point{}, {}));
}
TESSERA_DEATH_CASE(scheduler_without_blocks, "empty limits") {
  scheduler_limits l = limits;
  l.blocks = 0;
  round_robin<request>{memory, l};
}
TESSERA_DEATH_CASE(scheduler_without_residents, "empty limits") {
  scheduler_limits l = limits;
  l.residents = 0;
  round_robin<request>{memory, l};
}
TESSERA_DEATH_CASE(scheduler_without_requests, "empty limits") {
  scheduler_limits l = limits;
  l.requests = 0;
  round_robin<request>{memory, l};
}
TESSERA_DEATH_CASE(scheduler_with_plans_not_apart, "plans are one apart") {
  scheduler_limits l = limits;
  l.plans_apart = 0;
  round_robin<request>{memory, l};
}
TESSERA_DEATH_CASE(scheduler_with_a_negative_length, "negative max_length") {
  scheduler_limits l = limits;
  l.max_length = tokens{-1};
  round_robin<request>{memory, l};
}
TESSERA_DEATH_CASE(scheduler_watermark_in_per_cent, "admission policy cannot be meant") {
  round_robin<request>{memory, limits, {.watermark = 5}};
}
TESSERA_DEATH_CASE(scheduler_watermark_is_no_number, "admission policy cannot be meant") {
  round_robin<request>{memory, limits, {.watermark = std::nan("")}};
}
TESSERA_DEATH_CASE(scheduler_quantum_of_nothing, "order cannot be meant") {
  round_robin<request>{memory, limits, {.quantum = tokens{0}}};
}
TESSERA_DEATH_CASE(scheduler_preempts_in_negative_time, "preemption policy cannot be meant") {
  using scheduler = iteration_scheduler<request, order::fcfs, preempt::cheapest>;
  auto storage = storage_for<scheduler>(limits);
  scheduler{storage, {.preempt = {.seconds_per_block = -1}}};
}
TESSERA_DEATH_CASE(scheduler_drafts_less_than_nothing, "draft policy cannot be meant") {
  using scheduler = iteration_scheduler<request, order::fcfs, preempt::swap, admit::always, kv::block_pool,
                                        kv::csr_tables, gate::in_line, draft::unless_busy<>>;
  auto storage = storage_for<scheduler>(limits);
  scheduler{storage, {.draft = {.tokens_for_free = tokens{-1}}}};
}
TESSERA_DEATH_CASE(scheduler_plan_negative_chunk, "negative chunk") {
  fixture f;
  static_cast<void>(f.plan({.max_chunk = tokens{-1}}));
}
TESSERA_DEATH_CASE(scheduler_hashes_that_grow_too_soon, "more hashes than full blocks") {
  struct hashed_request : request_hook {
    std::vector<std::uint64_t> hashes;
    [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }
  };
  using scheduler =
      iteration_scheduler<hashed_request, order::fcfs, preempt::recompute, admit::always, kv::prefix_cache>;
  auto storage = storage_for<scheduler>(limits);
  hashed_request h;
  h.prompt = tokens{6};
  h.hashes = {1};
  scheduler s{storage};
  static_cast<void>(s.submit(h, time_point{}));
  h.hashes = {1, 2};  // of 4 tokens each
  const auto p = s.plan(time_point{}, {});
  static_cast<void>(s.commit(p, std::array{outcome{}}, time_point{}));
}
TESSERA_DEATH_CASE(scheduler_plan_twice, "neither committed nor abandoned") {
  fixture f;
  static_cast<void>(f.plan());
  static_cast<void>(f.plan());
}
TESSERA_DEATH_CASE(scheduler_plan_no_batch, "a batch and a token budget") {
  fixture f;
  static_cast<void>(f.plan({.max_batch = 0}));
}
TESSERA_DEATH_CASE(scheduler_plan_no_budget, "a batch and a token budget") {
  fixture f;
  static_cast<void>(f.plan({.token_budget = tokens{0}}));
}
TESSERA_DEATH_CASE(scheduler_plan_negative_lookahead, "negative lookahead") {
  fixture f;
  static_cast<void>(f.plan({.lookahead = tokens{-1}}));
}
TESSERA_DEATH_CASE(scheduler_commit_twice, "not the pending plan") {
  fixture f;
  const auto p = f.plan();
  const std::array o{outcome{}};
  f.commit(p, o);
  f.commit(p, o);
}
TESSERA_DEATH_CASE(scheduler_commit_after_abandon, "not the pending plan") {
  fixture f;
  const auto p = f.plan();
  f.scheduler.abandon(p);
  f.commit(p, std::array{outcome{}});
}
TESSERA_DEATH_CASE(scheduler_commit_of_an_earlier_plan, "not the pending plan") {
  fixture f;
  const auto p = f.plan();
  f.scheduler.abandon(p);
  static_cast<void>(f.plan());
  f.commit(p, std::array{outcome{}});
}
TESSERA_DEATH_CASE(scheduler_commit_too_few_outcomes, "one outcome per scheduled entry") {
  fixture f;
  f.commit(f.plan(), {});
}
TESSERA_DEATH_CASE(scheduler_commit_too_many_outcomes, "one outcome per scheduled entry") {
  fixture f;
  f.commit(f.plan(), std::array<outcome, 2>{});
}
TESSERA_DEATH_CASE(scheduler_commit_no_token, "produces a token or fails") {
  fixture f;
  f.commit(f.plan(), std::array{outcome{.produced = 0}});
}
TESSERA_DEATH_CASE(scheduler_commit_more_tokens_than_slots, "more tokens than lookahead slots") {
  fixture f;
  f.commit(f.plan({.lookahead = tokens{2}}), std::array{outcome{.produced = 4}});
}
TESSERA_DEATH_CASE(scheduler_abandon_twice, "not the pending plan") {
  fixture f;
  const auto p = f.plan();
  f.scheduler.abandon(p);
  f.scheduler.abandon(p);
}
TESSERA_DEATH_CASE(plan_with_a_negative_prefill_budget, "negative prefill budget") {
  fixture f;
  static_cast<void>(f.plan({.prefill_budget = tokens{-1}}));
}
TESSERA_DEATH_CASE(adapter_that_changes_while_its_request_runs, "changed while it ran") {
  struct with_adapter : request_hook {
    std::uint32_t adapter = 1;
  } q;
  gate::adapter_slots slots;
  slots.started(q);
  q.adapter = 2;
  slots.stopped(q);
}
namespace {

struct with_tenant : request_hook {
  std::uint32_t tenant = 0;
  std::uint32_t adapter = 0;
  [[nodiscard]] std::span<gate::encoder_input> encoder_inputs() const noexcept { return {}; }
};
template <class Gate>
void construct(const Gate& gate) {
  using scheduler = iteration_scheduler<with_tenant, order::fcfs, preempt::swap, admit::watermark, kv::block_pool,
                                        kv::csr_tables, Gate>;
  auto storage = storage_for<scheduler>(limits);
  scheduler{storage, {.gate = gate}};
}

}  // namespace

TESSERA_DEATH_CASE(tenant_of_weight_0, "weight is at least 1") {
  gate::fair_tenants gate;
  gate.weights[3] = 0;
  construct(gate);
}
TESSERA_DEATH_CASE(tenant_of_negative_weight_among_deficits, "weight is at least 1") {
  gate::all<gate::adapter_slots, gate::tenant_deficits> gates;
  std::get<1>(gates.gates).weights[63] = -1;
  construct(gates);
}
TESSERA_DEATH_CASE(tenants_of_negative_cost, "out of range") { construct(gate::fair_tenants{.output_cost = -1}); }
TESSERA_DEATH_CASE(tenants_without_a_quantum, "out of range") { construct(gate::tenant_deficits{.quantum = 0}); }
TESSERA_DEATH_CASE(no_adapter_slots, "room for 1 to MostSlots adapters") { construct(gate::adapter_slots{.slots = 0}); }
TESSERA_DEATH_CASE(more_adapter_slots_than_room, "room for 1 to MostSlots adapters") {
  construct(gate::adapter_slots{.slots = 33});
}
TESSERA_DEATH_CASE(encoder_without_a_budget, "has room, and a budget") {
  construct(gate::encoder_cache{.per_step = tokens{}});
}
TESSERA_DEATH_CASE(priority_that_changes_outside_update_in_a_class, "what the order looks at changed") {
  using scheduler_type = iteration_scheduler<with_tenant, order::fcfs, preempt::swap, admit::watermark, kv::block_pool,
                                             kv::csr_tables, gate::fair_tenants>;
  auto storage = storage_for<scheduler_type>(limits);
  scheduler_type s{storage};
  with_tenant a;
  with_tenant b;
  a.prompt = b.prompt = tokens{4};
  b.tenant = 1;
  static_cast<void>(s.submit(a, time_point{}));
  static_cast<void>(s.submit(b, time_point{}));
  a.priority = -1;  // without `update`
  s.cancel(a);
}
TESSERA_DEATH_CASE(scheduler_without_plans_in_flight, "one plan at least is in flight") {
  scheduler_limits l = limits;
  l.plans_in_flight = 0;
  round_robin<request>{memory, l};
}
TESSERA_DEATH_CASE(scheduler_more_plans_than_in_flight, "neither committed nor abandoned") {
  fixture_of_two f;
  for (int i = 0; i != 3; ++i) static_cast<void>(f.plan());
}
TESSERA_DEATH_CASE(scheduler_commit_out_of_order, "not the oldest of those") {
  fixture_of_two f;
  static_cast<void>(f.plan());
  f.commit(f.plan());
}
TESSERA_DEATH_CASE(scheduler_abandon_out_of_order, "others have been made or settled since") {
  fixture_of_two f;
  const auto p = f.plan();
  static_cast<void>(f.plan());
  f.scheduler.abandon(p);
}
TESSERA_DEATH_CASE(scheduler_abandon_after_a_commit, "others have been made or settled since") {
  fixture_of_two f;
  const auto p = f.plan();
  const auto q = f.plan();
  f.commit(p);
  f.scheduler.abandon(q);
}
TESSERA_DEATH_CASE(resident_set_rank_changed_behind_its_back, "order of a resident changed") {
  arena a{memory};
  const order::fcfs order;
  detail::resident_set<request, order::fcfs> s{a, 2, order};
  request one;
  request two;
  request_access::state(two).sequence = 1;
  s.insert(one);
  s.insert(two);
  one.priority = -1;
  s.erase(one);
}
TESSERA_DEATH_CASE(resident_set_full, "more residents than the limits allow") {
  using set = detail::resident_set<request, order::fcfs>;
  arena a{memory};
  const order::fcfs order;
  set s{a, 1, order};
  request one;
  request two;
  request_access::state(two).sequence = 1;
  s.insert(one);
  s.insert(two);
}

namespace {

using of_groups = iteration_scheduler<request, order::round_robin, preempt::swap, admit::watermark, kv::groups<2>>;
constexpr of_groups::limits two_groups{{.requests = 4, .blocks = 16, .residents = 2, .max_length = tokens{64}},
                                       {kv::group::full(tokens{4}), kv::group::recurrent(tokens{8})}};
alignas(64) std::array<std::byte, of_groups::required_bytes(two_groups) + 4096> memory_of_groups;

}  // namespace

TESSERA_DEATH_CASE(scheduler_groups_storage_too_small, "storage is smaller") {
  of_groups{std::span{memory_of_groups}.first(of_groups::required_bytes(two_groups) / 2), two_groups, {}};
}
TESSERA_DEATH_CASE(scheduler_groups_with_host_blocks, "not swapped") {
  auto l = two_groups;
  l.host_blocks = 4;
  of_groups{memory_of_groups, l, {}};
}
TESSERA_DEATH_CASE(scheduler_groups_without_chunked_prefill, "between chunks") {
  of_groups{memory_of_groups, two_groups, {.chunked_prefill = false}};
}
TESSERA_DEATH_CASE(scheduler_groups_without_an_end, "need a max_length") {
  auto l = two_groups;
  l.max_length = {};
  l.layers[0] = kv::group::sliding(tokens{4}, tokens{8});
  of_groups{memory_of_groups, l, {}};
}
TESSERA_DEATH_CASE(scheduler_groups_with_too_few_blocks, "too few blocks") {
  auto l = two_groups;
  l.blocks = 1;
  of_groups{memory_of_groups, l, {}};
}
