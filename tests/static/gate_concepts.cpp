// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/gate/adapter_slots.hpp>
#include <tessera/gate/all.hpp>
#include <tessera/gate/backfill.hpp>
#include <tessera/gate/fair_tenants.hpp>
#include <tessera/gate/groups.hpp>
#include <tessera/gate/tenant_deficits.hpp>

#include <cstddef>
#include <cstdint>

// Truth table: an archetype that passes with nothing to spare, and a near-miss per requirement.

namespace {

using namespace tessera;

struct request : request_hook {};
struct other_request : request_hook {};
struct no_request {};
using view = gate_view<request>;

static_assert(gate_policy<gate::in_line, request>);
static_assert(gate_policy<gate::backfill, request>);
static_assert(!gate_policy<gate::in_line, no_request>);

struct archetype {
  static constexpr bool backfills = true;
  std::size_t most_skipped = 1;
  passage ask(const request&, const view&) const noexcept { return passage::skip; }
};
static_assert(gate_policy<archetype, request>);
static_assert(!gate_policy<archetype, other_request>);

// (1) backfills. If no request ever may, nothing else is asked for.
struct closed {
  static constexpr bool backfills = false;
};
struct backfills_is_no_constant {
  [[maybe_unused]] static inline bool backfills = false;
};
struct backfills_is_no_static {
  bool backfills = false;
};
struct backfills_is_a_function {
  static bool backfills() noexcept { return false; }
};
struct does_not_say {};
static_assert(gate_policy<closed, request>);
static_assert(!gate_policy<backfills_is_no_constant, request>);
static_assert(!gate_policy<backfills_is_no_static, request>);
static_assert(!gate_policy<backfills_is_a_function, request>);
static_assert(!gate_policy<does_not_say, request>);

// (2) most_skipped
struct lacks_most_skipped {
  static constexpr bool backfills = true;
  passage ask(const request&, const view&) const noexcept { return passage::skip; }
};
static_assert(!gate_policy<lacks_most_skipped, request>);

// (3) ask
struct lacks_ask {
  static constexpr bool backfills = true;
  std::size_t most_skipped = 1;
};
struct may_throw : archetype {
  passage ask(const request&, const view&) const { return passage::skip; }
};
struct not_const : archetype {
  passage ask(const request&, const view&) noexcept { return passage::skip; }
};
struct wants_to_change_the_request : archetype {
  passage ask(request&, const view&) const noexcept { return passage::skip; }
};
struct answers_yes_or_no : archetype {
  bool ask(const request&, const view&) const noexcept { return false; }
};
static_assert(!gate_policy<lacks_ask, request>);
static_assert(!gate_policy<may_throw, request>);
static_assert(!gate_policy<not_const, request>);
static_assert(!gate_policy<wants_to_change_the_request, request>);
static_assert(!gate_policy<answers_yes_or_no, request>);

struct not_copyable : archetype {
  not_copyable() = default;
  not_copyable(const not_copyable&) = delete;
};
static_assert(!gate_policy<not_copyable, request>);

// What a gate reads of a request, the request must have.
struct full_request : request_hook {
  std::uint32_t adapter = 0;
  std::uint32_t tenant = 0;
  std::uint32_t forks_due = 0;
};
static_assert(gate_policy<gate::adapter_slots, full_request> && !gate_policy<gate::adapter_slots, request>);
static_assert(gate_policy<gate::fair_tenants, full_request> && !gate_policy<gate::fair_tenants, request>);
static_assert(gate_policy<gate::tenant_deficits, full_request> && !gate_policy<gate::tenant_deficits, request>);
static_assert(gate_policy<gate::groups, full_request> && !gate_policy<gate::groups, request>);
static_assert(
    gate_policy<gate::all<gate::adapter_slots, gate::fair_tenants, gate::groups, gate::backfill>, full_request>);
static_assert(gate_policy<gate::all<>, request>);

// (2), (3) screens: then it asks.
struct screens_and_does_not_ask {
  static constexpr bool backfills = false;
  static constexpr bool screens = true;
};
static_assert(!gate_policy<screens_and_does_not_ask, request>);

// (4) It may see classes, and says of which class a request is.
struct sees_classes : archetype {
  static constexpr bool screens = true;
  std::uint64_t class_of(const request&) const noexcept { return 0; }
};
struct says_it_in_words : archetype {
  static constexpr bool screens = true;
  const char* class_of(const request&) const noexcept { return ""; }
};
struct throws_a_class : archetype {
  static constexpr bool screens = true;
  std::uint64_t class_of(const request&) const { return 0; }
};
static_assert(gate_policy<sees_classes, request> && detail::gate_has_classes<sees_classes, request>);
static_assert(!gate_policy<says_it_in_words, request> && !gate_policy<throws_a_class, request>);
static_assert(detail::gate_has_classes<gate::adapter_slots, full_request> &&
              detail::gate_has_classes<gate::fair_tenants, full_request> &&
              detail::gate_has_classes<gate::tenant_deficits, full_request>);
// A gate that does not screen, or sees no classes, has the plain queue.
static_assert(!detail::gate_has_classes<gate::in_line, full_request> &&
              !detail::gate_has_classes<gate::backfill, full_request> &&
              !detail::gate_has_classes<gate::groups, full_request> &&
              !detail::gate_has_classes<gate::all<gate::groups, gate::backfill>, full_request>);
// One that screens and does not pass has no limit to say.
struct has_no_limit {
  static constexpr bool backfills = false;
  static constexpr bool screens = true;
  passage ask(const request&, const view&) const noexcept { return passage::skip; }
};
static_assert(gate_policy<has_no_limit, request>);

// (5) counts: then it hears of all.
struct counter {
  static constexpr bool backfills = false;
  static constexpr bool counts = true;
  void begin() noexcept {}
  void starts(const request&) noexcept {}
  void joins(const request&) noexcept {}
  void started(const request&) noexcept {}
  void charge(const request&, tokens) noexcept {}
  void stopped(const request&) noexcept {}
  void left(const request&) noexcept {}
};
struct does_not_hear_of_the_end : counter {
  void left(const request&) noexcept = delete;
};
struct hears_and_throws : counter {
  void started(const request&) {}
};
// It may hear of skips; then as of all else.
struct hears_of_skips : counter {
  void skips(const request&) noexcept {}
};
struct hears_of_skips_and_throws : counter {
  void skips(const request&) {}
};
struct hears_of_skips_alone : archetype {
  void skips(const request&) noexcept {}
};
static_assert(gate_policy<counter, request>);
static_assert(gate_policy<hears_of_skips, request>);
static_assert(!gate_policy<hears_of_skips_and_throws, request>);
static_assert(!gate_policy<hears_of_skips_alone, request>);
static_assert(!gate_policy<does_not_hear_of_the_end, request>);
static_assert(!gate_policy<hears_and_throws, request>);

}  // namespace
