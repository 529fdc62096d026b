// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/admit/future_peak.hpp>
#include <tessera/admit/watermark.hpp>

// Truth table: an archetype that passes with nothing to spare, and a near-miss per requirement.

namespace {

using namespace tessera;

struct request : request_hook {};
struct other_request : request_hook {};
struct no_request {};
using view = admission_view<request>;

static_assert(admission_policy<admit::always, request>);
static_assert(admission_policy<admit::watermark, request>);
static_assert(admission_policy<admit::future_peak, request>);

struct archetype {
  bool admits(const request&, const view&) const noexcept { return true; }
};
static_assert(admission_policy<archetype, request>);
static_assert(!admission_policy<archetype, other_request>);
static_assert(!admission_policy<admit::always, no_request>);

struct lacks_admits {};
static_assert(!admission_policy<lacks_admits, request>);

struct may_throw {
  bool admits(const request&, const view&) const { return true; }
};
static_assert(!admission_policy<may_throw, request>);

struct not_const {
  bool admits(const request&, const view&) noexcept { return true; }
};
static_assert(!admission_policy<not_const, request>);

struct wants_to_change_the_request {
  bool admits(request&, const view&) const noexcept { return true; }
};
static_assert(!admission_policy<wants_to_change_the_request, request>);

struct answers_a_number {
  int admits(const request&, const view&) const noexcept { return 1; }
};
static_assert(!admission_policy<answers_a_number, request>);

struct wants_no_view {
  bool admits(const request&) const noexcept { return true; }
};
static_assert(!admission_policy<wants_no_view, request>);

struct not_copyable : archetype {
  not_copyable() = default;
  not_copyable(const not_copyable&) = delete;
};
static_assert(!admission_policy<not_copyable, request>);

}  // namespace
