// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Truth tables: `clock_policy`, and what must not compile with units and time. Compiled, never run.

#include <tessera/core/clock.hpp>
#include <tessera/core/units.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace core_truth {

using namespace tessera::literals;

// --- clock_policy -------------------------------------------------------------------------------------------------

/// The least that is a clock policy.
struct archetype {
  using rep = long;
  static constexpr int ticks_per_second = 1;
};
static_assert(tessera::clock_policy<archetype>);
static_assert(tessera::clock_policy<tessera::seconds_clock>);
static_assert(tessera::clock_policy<tessera::nanoseconds_clock>);

struct float_clock {
  using rep = float;
  static constexpr float ticks_per_second = 1e3F;
};
static_assert(tessera::clock_policy<float_clock>);

struct without_rep {
  static constexpr double ticks_per_second = 1;
};
static_assert(!tessera::clock_policy<without_rep>);

struct unsigned_rep {
  using rep = unsigned long;
  static constexpr double ticks_per_second = 1;
};
static_assert(!tessera::clock_policy<unsigned_rep>);

struct class_rep {
  using rep = tessera::tokens;
  static constexpr double ticks_per_second = 1;
};
static_assert(!tessera::clock_policy<class_rep>);

struct without_ticks {
  using rep = double;
};
static_assert(!tessera::clock_policy<without_ticks>);

struct ticks_in_words {
  using rep = double;
  static constexpr const char* ticks_per_second = "many";
};
static_assert(!tessera::clock_policy<ticks_in_words>);

struct no_ticks {
  using rep = double;
  static constexpr double ticks_per_second = 0;
};
static_assert(!tessera::clock_policy<no_ticks>);

struct backward_ticks {
  using rep = double;
  static constexpr double ticks_per_second = -1;
};
static_assert(!tessera::clock_policy<backward_ticks>);

static_assert(!tessera::clock_policy<double>);
static_assert(!tessera::clock_policy<void>);

// --- What mixes and what does not ---------------------------------------------------------------------------------

template <class A, class B>
concept adds = requires(A a, B b) { a + b; };
template <class A, class B>
concept subtracts = requires(A a, B b) { a - b; };
template <class A, class B>
concept multiplies = requires(A a, B b) { a* b; };
template <class A, class B>
concept divides = requires(A a, B b) { a / b; };
template <class A, class B>
concept takes_remainder = requires(A a, B b) { a % b; };
template <class A, class B>
concept equates = requires(A a, B b) { a == b; };
template <class A, class B>
concept orders = requires(A a, B b) { a < b; };
template <class A, class B>
concept accumulates = requires(A a, B b) { a += b; };
template <class A, class B>
concept has_minimum = requires(A a, B b) { tessera::min(a, b); };

template <class A, class B>
constexpr bool mixes = adds<A, B> || subtracts<A, B> || multiplies<A, B> || divides<A, B> || takes_remainder<A, B> ||
                       equates<A, B> || orders<A, B> || accumulates<A, B> || std::is_convertible_v<A, B>;

using tessera::blocks;
using tessera::bytes;
using tessera::tokens;

// One unit: everything but a product, which would be another unit.
static_assert(adds<tokens, tokens> && subtracts<tokens, tokens> && divides<tokens, tokens>);
static_assert(takes_remainder<tokens, tokens> && equates<tokens, tokens> && orders<tokens, tokens>);
static_assert(accumulates<tokens, tokens> && has_minimum<tokens, tokens>);
static_assert(!multiplies<tokens, tokens>);

// Two units: nothing. In particular, tokens + blocks does not compile.
static_assert(!adds<tokens, blocks>);
static_assert(!mixes<tokens, blocks> && !mixes<blocks, tokens>);
static_assert(!mixes<tokens, bytes> && !mixes<bytes, tokens>);
static_assert(!mixes<blocks, bytes> && !mixes<bytes, blocks>);
static_assert(!has_minimum<tokens, blocks>);
static_assert(!std::is_constructible_v<tokens, blocks> && !std::is_assignable_v<tokens&, blocks>);

// A bare number: scales, and nothing else. The way in is explicit, the way out is count().
static_assert(multiplies<tokens, std::int64_t> && multiplies<std::int64_t, tokens> && divides<tokens, std::int64_t>);
static_assert(!adds<tokens, int> && !subtracts<tokens, int> && !equates<tokens, int> && !orders<tokens, int>);
static_assert(!accumulates<tokens, int> && !divides<int, tokens>);
static_assert(std::is_constructible_v<tokens, std::int64_t>);
static_assert(!std::is_convertible_v<std::int64_t, tokens> && !std::is_convertible_v<tokens, std::int64_t>);
static_assert(!std::is_constructible_v<bool, tokens>);

// Moments are not spans.
using tessera::duration;
using tessera::time_point;
static_assert(adds<time_point, duration> && subtracts<time_point, duration> && subtracts<time_point, time_point>);
static_assert(!adds<time_point, time_point> && !adds<duration, time_point>);
static_assert(!orders<time_point, duration> && !equates<time_point, duration>);
static_assert(!multiplies<duration, duration> && !multiplies<time_point, double>);
static_assert(!std::is_convertible_v<duration, time_point> && !std::is_convertible_v<time_point, duration>);
static_assert(!std::is_convertible_v<double, duration> && !std::is_convertible_v<duration, double>);
static_assert(!mixes<duration, tokens> && !mixes<tokens, duration>);

// Two clocks do not mix.
using ns_duration = tessera::basic_duration<tessera::nanoseconds_clock>;
using ns_time = tessera::basic_time_point<tessera::nanoseconds_clock>;
static_assert(!mixes<duration, ns_duration> && !mixes<time_point, ns_time> && !mixes<time_point, ns_duration>);

static_assert(std::regular<tokens> && std::totally_ordered<tokens>);
static_assert(std::regular<time_point> && std::totally_ordered<ns_time>);

}  // namespace core_truth
