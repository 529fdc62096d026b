// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Truth table of `qoe_start_policy`. Compiled, never run.

#include <tessera/qoe/integrator.hpp>
#include <tessera/qoe/start.hpp>

#include <type_traits>

namespace qoe_truth {

using seconds = tessera::seconds_clock;
using ns = tessera::nanoseconds_clock;

/// The least that is a start policy.
struct archetype {
  tessera::time_point start(tessera::time_point) const;
};
static_assert(tessera::qoe_start_policy<archetype, seconds>);
static_assert(tessera::qoe_start_policy<tessera::qoe_from_first_token, seconds>);
static_assert(tessera::qoe_start_policy<tessera::qoe_from_first_token, ns>);
static_assert(tessera::qoe_start_policy<tessera::qoe_from_arrival, seconds>);
static_assert(tessera::qoe_start_policy<tessera::basic_qoe_from_arrival<ns>, ns>);

struct without_start {};
static_assert(!tessera::qoe_start_policy<without_start, seconds>);

struct not_const {
  tessera::time_point start(tessera::time_point);
};
static_assert(!tessera::qoe_start_policy<not_const, seconds>);

struct without_arrival {
  tessera::time_point start() const;
};
static_assert(!tessera::qoe_start_policy<without_arrival, seconds>);

struct starts_after_a_while {
  tessera::duration start(tessera::time_point) const;
};
static_assert(!tessera::qoe_start_policy<starts_after_a_while, seconds>);

// Another clock's policy.
static_assert(!tessera::qoe_start_policy<tessera::qoe_from_arrival, ns>);
static_assert(!tessera::qoe_start_policy<archetype, ns>);
static_assert(!tessera::qoe_start_policy<archetype, double>);

// There is no default target: an integrator that needs one must be told.
static_assert(std::is_default_constructible_v<tessera::qoe_integrator>);
static_assert(!std::is_default_constructible_v<tessera::qoe_from_arrival>);

}  // namespace qoe_truth
