// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Truth tables of schedulable and prefix_hashed.

#include <tessera/request/concepts.hpp>

#include <array>
#include <type_traits>

namespace {

using namespace tessera;

// schedulable
struct request : request_hook {};
struct tick_request : basic_request_hook<nanoseconds_clock> {};
struct more_specific : request {};
struct other_base {
  virtual ~other_base() = default;
};
struct second_base : other_base, request_hook {};
static_assert(schedulable<request_hook>);
static_assert(schedulable<request>);
static_assert(schedulable<tick_request>);
static_assert(schedulable<more_specific>);
static_assert(schedulable<second_base>);

// (1) a clock policy
struct no_clock {};
struct clock_is_none {
  using clock_type = int;
};
static_assert(!schedulable<int>);
static_assert(!schedulable<request*>);
static_assert(!schedulable<request&>);
static_assert(!schedulable<no_clock>);
static_assert(!schedulable<clock_is_none>);

// (2) derives publicly and unambiguously from the hook of that clock
struct only_says_so {
  using clock_type = seconds_clock;
};
struct hidden : private request_hook {
  using clock_type = seconds_clock;
};
struct another_clock : request_hook {
  using clock_type = nanoseconds_clock;
};
struct left : request_hook {};
struct right : request_hook {};
struct twice : left, right {
  using clock_type = seconds_clock;
};
static_assert(!schedulable<only_says_so>);
static_assert(!schedulable<hidden>);
static_assert(!schedulable<another_clock>);
static_assert(!schedulable<twice>);

// prefix_hashed
struct hashed : request_hook {
  std::span<const std::uint64_t> prefix_hashes() const noexcept;
};
struct hashed_by_reference : request_hook {
  const std::array<std::uint64_t, 4>& prefix_hashes() const noexcept;
};
static_assert(prefix_hashed<hashed>);
static_assert(prefix_hashed<hashed_by_reference>);

// (1) schedulable
struct hashed_but_no_request {
  using clock_type = seconds_clock;
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

}  // namespace
