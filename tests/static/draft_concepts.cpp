// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/draft/per_request.hpp>
#include <tessera/draft/unless_busy.hpp>

// Truth table: an archetype that passes with nothing to spare, and a near-miss per requirement.

namespace {

using namespace tessera;

struct request : request_hook {};
struct other_request : request_hook {};
struct drafted_request : request_hook {
  tokens drafts{};
};
struct no_request {};

static_assert(draft_policy<draft::same_for_all, request>);
static_assert(draft_policy<draft::unless_busy<>, request>);
static_assert(draft_policy<draft::per_request, drafted_request>);
static_assert(draft_policy<draft::unless_busy<draft::per_request>, drafted_request>);
static_assert(!draft_policy<draft::per_request, request>);
static_assert(!draft_policy<draft::same_for_all, no_request>);

struct archetype {
  tokens drafts(const request&, const draft_view&) const noexcept { return {}; }
};
static_assert(draft_policy<archetype, request>);
static_assert(!draft_policy<archetype, other_request>);

// (1) drafts
struct lacks_drafts {};
struct may_throw {
  tokens drafts(const request&, const draft_view&) const { return {}; }
};
struct not_const {
  tokens drafts(const request&, const draft_view&) noexcept { return {}; }
};
struct wants_to_change_the_request {
  tokens drafts(request&, const draft_view&) const noexcept { return {}; }
};
struct answers_a_number {
  int drafts(const request&, const draft_view&) const noexcept { return 0; }
};
static_assert(!draft_policy<lacks_drafts, request>);
static_assert(!draft_policy<may_throw, request>);
static_assert(!draft_policy<not_const, request>);
static_assert(!draft_policy<wants_to_change_the_request, request>);
static_assert(!draft_policy<answers_a_number, request>);

struct not_copyable : archetype {
  not_copyable() = default;
  not_copyable(const not_copyable&) = delete;
};
static_assert(!draft_policy<not_copyable, request>);

}  // namespace
