// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Every member of the schedulers: an explicit instantiation emits them all.

#include <tessera/admit/future_peak.hpp>
#include <tessera/compose/due_first.hpp>
#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/hrrn.hpp>
#include <tessera/compose/pars.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/compose/pascal_paced.hpp>
#include <tessera/compose/round_robin.hpp>
#include <tessera/draft/unless_busy.hpp>
#include <tessera/gate/adapter_slots.hpp>
#include <tessera/gate/all.hpp>
#include <tessera/gate/backfill.hpp>
#include <tessera/gate/encoder_cache.hpp>
#include <tessera/gate/fair_tenants.hpp>
#include <tessera/gate/groups.hpp>
#include <tessera/gate/in_time.hpp>
#include <tessera/gate/tenant_deficits.hpp>
#include <tessera/kv/changed_tables.hpp>
#include <tessera/kv/host_cache.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/kv/row_tables.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/pacing/token_pacer.hpp>
#include <tessera/pipeline/decision_log.hpp>
#include <tessera/pipeline/grouped_ledger.hpp>
#include <tessera/preempt/cheapest.hpp>
#include <tessera/preempt/least_lost.hpp>
#include <tessera/preempt/recompute.hpp>
#include <tessera/rank/program_length.hpp>

using namespace tessera;

struct request : request_hook_for<order::round_robin, order::two_phase, order::ranked<>> {
  float score = 0;
  std::uint32_t adapter = 0;
  std::uint32_t tenant = 0;
  std::uint32_t forks_due = 0;
  time_point answer_by = time_point::never();
  [[nodiscard]] std::span<gate::encoder_input> encoder_inputs() const noexcept { return {}; }
};

struct read_request : request_hook_for<order::paced<>, order::earliest_due<>, order::response_ratio<>> {
  token_pacer pacer{};
  tokens expected_output{};
  order::program_service* program = nullptr;
};

struct hashed_request : request {
  std::span<const std::uint64_t> hashes;
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }
};

struct grouped_request : request {
  std::array<std::span<const std::uint64_t>, 3> hashes;
  [[nodiscard]] const auto& prefix_hashes() const noexcept { return hashes; }
};

template class tessera::iteration_scheduler<request, order::fcfs, preempt::swap, admit::watermark, kv::block_pool>;
template class tessera::iteration_scheduler<grouped_request, order::round_robin, preempt::recompute, admit::watermark,
                                            kv::groups<3>>;
template class tessera::iteration_scheduler<request, order::two_phase, preempt::recompute, admit::future_peak,
                                            kv::groups<2>, kv::changed_tables, gate::backfill, draft::unless_busy<>>;
template class tessera::iteration_scheduler<hashed_request, order::fcfs, preempt::swap, admit::watermark,
                                            kv::two_level_cache<kv::lru, kv::event_ring<16>>>;
template class tessera::iteration_scheduler<request, order::round_robin, preempt::swap, admit::watermark,
                                            kv::block_pool>;
template class tessera::iteration_scheduler<request, order::two_phase, preempt::swap, admit::watermark, kv::block_pool>;
template class tessera::iteration_scheduler<hashed_request, order::fcfs, preempt::least_lost, admit::watermark,
                                            kv::prefix_cache>;
template class tessera::iteration_scheduler<request, order::ranked<>, preempt::cheapest, admit::future_peak,
                                            kv::block_pool>;
template class tessera::iteration_scheduler<hashed_request, order::two_phase, preempt::recompute, admit::future_peak,
                                            kv::prefix_cache>;
template class tessera::iteration_scheduler<hashed_request, order::two_phase, preempt::swap, admit::watermark,
                                            kv::prefix_cache>;
template class tessera::iteration_scheduler<hashed_request, order::fcfs, preempt::swap, admit::always,
                                            kv::prefix_cache>;
template class tessera::iteration_scheduler<request, order::fcfs, preempt::swap, admit::watermark, kv::block_pool,
                                            kv::row_tables>;
template class tessera::iteration_scheduler<hashed_request, order::two_phase, preempt::swap, admit::watermark,
                                            kv::prefix_cache, kv::changed_tables, gate::backfill>;
template class tessera::iteration_scheduler<request, order::round_robin, preempt::swap, admit::watermark,
                                            kv::block_pool, kv::csr_tables, gate::in_line, draft::unless_busy<>>;
template class tessera::iteration_scheduler<
    request, order::fcfs, preempt::swap, admit::watermark, kv::block_pool, kv::csr_tables,
    gate::all<gate::adapter_slots, gate::fair_tenants, gate::tenant_deficits, gate::groups, gate::encoder_cache,
              gate::in_time, gate::backfill>>;
template class tessera::fcfs<request>;
template class tessera::round_robin<request>;
template class tessera::pars<request>;
template class tessera::pars<hashed_request, order::score_member, kv::prefix_cache>;
template class tessera::pascal<request>;
template class tessera::pascal<hashed_request, kv::prefix_cache>;
template class tessera::pascal_paced<read_request>;
template class tessera::hrrn<read_request>;
template class tessera::due_first<read_request>;
template class tessera::due_first<read_request, rank::program_length<order::expected_output_member>>;
template class tessera::logged<fcfs<request>>;
template class tessera::logged<pascal<hashed_request, kv::prefix_cache>>;

// Member templates are not emitted: `update` is called here.
status use_update(fcfs<request>& scheduler, request& r) noexcept {
  return scheduler.update(r, [](request& x) noexcept { x.priority = 1; });
}
status use_update(logged<fcfs<request>>& scheduler, request& r) noexcept {
  return scheduler.update(r, [](request& x) noexcept { x.priority = 1; });
}
