// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pars.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/compose/round_robin.hpp>
#include <tessera/gate/backfill.hpp>
#include <tessera/kv/changed_tables.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/kv/row_tables.hpp>
#include <tessera/order/ranked.hpp>

#include <type_traits>

// What a scheduler is as a type, and what storage it says it needs.

namespace {

using namespace tessera;
using namespace tessera::literals;

struct request : request_hook_for<order::round_robin, order::two_phase, order::ranked<>> {
  float score = 0;
};
struct hashed_request : request {
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return {}; }
};
struct tick_request : basic_request_hook<nanoseconds_clock, order::ranked<>, order::two_phase> {
  float score = 0;
};
struct plain_request : request_hook {};

template <class S>
constexpr bool stays_where_it_is = !std::is_copy_constructible_v<S> && !std::is_move_constructible_v<S> &&
                                   !std::is_copy_assignable_v<S> && !std::is_move_assignable_v<S>;

template <class S>
constexpr bool is_scheduler =
    stays_where_it_is<S> && std::is_nothrow_constructible_v<S, std::span<std::byte>, scheduler_limits> &&
    std::is_nothrow_constructible_v<S, std::span<std::byte>, scheduler_limits, typename S::config> &&
    std::is_nothrow_constructible_v<S, owned_storage<scheduler_limits>&, typename S::config> &&
    std::is_same_v<typename S::limits, scheduler_limits>&& noexcept(S::required_bytes(scheduler_limits{}));

static_assert(is_scheduler<fcfs<request>>);
static_assert(is_scheduler<round_robin<request>>);
static_assert(is_scheduler<pars<request>>);
static_assert(is_scheduler<pars<hashed_request, order::score_member, kv::prefix_cache>>);
static_assert(is_scheduler<pascal<request>>);
static_assert(is_scheduler<pascal<hashed_request, kv::prefix_cache>>);
static_assert(is_scheduler<iteration_scheduler<tick_request, order::ranked<>>>);
static_assert(is_scheduler<fcfs<plain_request>>);
static_assert(is_scheduler<fcfs<request, kv::block_pool, kv::row_tables>>);
static_assert(is_scheduler<pascal<hashed_request, kv::prefix_cache, kv::changed_tables, gate::backfill>>);
static_assert(std::is_same_v<pascal<tick_request>::time_point, basic_time_point<nanoseconds_clock>>);

// (A request without hashes cannot use a prefix cache: tests/compile_fail.)

// Storage is known at compile time, and grows with each limit.
constexpr std::size_t bytes_for(const scheduler_limits& l) { return pascal<request>::required_bytes(l); }
constexpr scheduler_limits base{
    .blocks = 100, .block_size = 16_tok, .residents = 8, .host_blocks = 10, .max_length = 320_tok};
constexpr scheduler_limits with(auto change) {
  scheduler_limits l = base;
  change(l);
  return l;
}
static_assert(bytes_for(base) > 0);
static_assert(bytes_for(with([](auto& l) { l.blocks = 200; })) > bytes_for(base));
static_assert(bytes_for(with([](auto& l) { l.residents = 16; })) > bytes_for(base));
static_assert(bytes_for(with([](auto& l) { l.host_blocks = 100; })) > bytes_for(base));
static_assert(bytes_for(with([](auto& l) { l.max_length = 640_tok; })) > bytes_for(base));
static_assert(bytes_for(with([](auto& l) { l.requests = 1'000'000; })) == bytes_for(base), "waiting costs nothing");

// The longest sequence: the context or all blocks, whichever is shorter.
static_assert(base.longest() == 320_tok && base.blocks_per_row() == 20);
static_assert(with([](auto& l) { l.max_length = 321_tok; }).blocks_per_row() == 21);
static_assert(with([](auto& l) { l.max_length = 0_tok; }).longest() == 1600_tok);
static_assert(with([](auto& l) { l.max_length = 1601_tok; }).longest() == 1600_tok);

// A plan shows the tables in the form that was chosen. Rows cost no storage.
static_assert(std::is_same_v<pascal<request>::plan_type, step_plan<request>>);
static_assert(
    std::is_same_v<fcfs<request, kv::block_pool, kv::row_tables>::plan_type, step_plan<request, kv::row_view>>);
static_assert(std::is_same_v<fcfs<request, kv::block_pool, kv::changed_tables>::plan_type,
                             step_plan<request, std::span<const kv::table_change>>>);
static_assert(fcfs<request, kv::block_pool, kv::row_tables>::required_bytes(base) <
              fcfs<request>::required_bytes(base));

static_assert(std::is_trivially_copyable_v<scheduled<request>> && std::is_trivially_copyable_v<step_plan<request>>);
static_assert(sizeof(outcome) <= 8, "one per request and step");

}  // namespace
