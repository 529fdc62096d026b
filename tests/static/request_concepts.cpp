// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Truth tables of schedulable and prefix_hashed.

#include <tessera/kv/concepts.hpp>
#include <tessera/order/earliest_due.hpp>
#include <tessera/order/fcfs.hpp>
#include <tessera/order/paced.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/order/two_phase.hpp>
#include <tessera/request/concepts.hpp>

#include <array>
#include <type_traits>

namespace {

using namespace tessera;

// schedulable
struct request : request_hook {};
struct tick_request : basic_request_hook<nanoseconds_clock> {};
struct ranked_request : request_hook_for<order::ranked<>> {};
struct any_request : request_hook_for<order::ranked<>, order::two_phase, order::fcfs> {};
struct more_specific : request {};
struct other_base {
  virtual ~other_base() = default;
};
struct second_base : other_base, request_hook {};
static_assert(schedulable<request_hook>);
static_assert(schedulable<request>);
static_assert(schedulable<tick_request>);
static_assert(schedulable<ranked_request>);
static_assert(schedulable<any_request>);
static_assert(schedulable<more_specific>);
static_assert(schedulable<second_base>);

// (1) has a hook
struct no_hook {};
struct hook_is_none {
  using hook_type = int;
};
static_assert(!schedulable<int>);
static_assert(!schedulable<request*>);
static_assert(!schedulable<request&>);
static_assert(!schedulable<no_hook>);
static_assert(!schedulable<hook_is_none>);

// (2) derives publicly and unambiguously from it
struct only_says_so {
  using hook_type = request_hook;
};
struct hidden : private request_hook {
  using hook_type = request_hook;
};
struct another_hook : request_hook {
  using hook_type = basic_request_hook<nanoseconds_clock>;
};
struct left : request_hook {};
struct right : request_hook {};
struct twice : left, right {
  using hook_type = request_hook;
};
static_assert(!schedulable<only_says_so>);
static_assert(!schedulable<hidden>);
static_assert(!schedulable<another_hook>);
static_assert(!schedulable<twice>);

// What the hook has room for.
static_assert(request::can_be_in<order::fcfs> && !request::can_be_in<order::two_phase> && !request::can_age);
static_assert(ranked_request::can_be_in<order::ranked<>> && ranked_request::can_age);
static_assert(ranked_request::can_be_in<order::fcfs> && !ranked_request::can_be_in<order::two_phase>);
static_assert(any_request::can_be_in<order::ranked<>> && any_request::can_be_in<order::two_phase> &&
              any_request::can_age);
struct expects_ten {
  template <class R>
  tokens operator()(const R&) const noexcept;
};
static_assert(request_hook_for<order::earliest_due<>>::can_be_in<order::earliest_due<expects_ten>>, "the same is kept");
static_assert(!request_hook_for<order::paced<>>::can_be_in<order::earliest_due<>>, "less is kept");
static_assert(!request_hook_for<order::two_phase>::can_age);

// prefix_hashed
struct hashed : request_hook {
  std::span<const std::uint64_t> prefix_hashes() const noexcept;
};
struct hashed_by_reference : request_hook {
  const std::array<std::uint64_t, 4>& prefix_hashes() const noexcept;
};
static_assert(prefix_hashed<hashed>);
static_assert(prefix_hashed<hashed_by_reference>);
static_assert(!prefix_hashed<hashed, tessera::kv::hash128>);

// (1) schedulable
struct hashed_but_no_request {
  using hook_type = request_hook;
  std::span<const std::uint64_t> prefix_hashes() const noexcept;
};
static_assert(!prefix_hashed<hashed_but_no_request>);

// (2) prefix_hashes
struct hashes_may_throw : request_hook {
  std::span<const std::uint64_t> prefix_hashes() const;
};
struct hashes_not_const : request_hook {
  std::span<const std::uint64_t> prefix_hashes() noexcept;
};
struct hashes_of_another_type : request_hook {
  std::span<const std::uint32_t> prefix_hashes() const noexcept;
};
struct hashes_are_data : request_hook {
  std::span<const std::uint64_t> prefix_hashes;
};
static_assert(!prefix_hashed<request>);
static_assert(!prefix_hashed<hashes_may_throw>);
static_assert(!prefix_hashed<hashes_not_const>);
static_assert(!prefix_hashed<hashes_of_another_type>);
static_assert(!prefix_hashed<hashes_are_data>);

// What the comments promise.
static_assert(std::is_copy_constructible_v<request>);
static_assert(!std::is_trivially_copyable_v<request>, "links are not copied");
static_assert(std::is_same_v<request::time_point, time_point>);
static_assert(sizeof(request_state<seconds_clock>) <= 80 && sizeof(request_hook) <= 128);
static_assert(sizeof(request_hook_for<order::fcfs>) == sizeof(request_hook), "what keeps nothing costs nothing");
static_assert(sizeof(request_hook_for<order::ranked<>, order::round_robin>) == sizeof(ranked_request),
              "a request is in one order at a time");

}  // namespace
