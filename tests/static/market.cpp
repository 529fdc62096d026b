// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/market/trader.hpp>

#include <type_traits>

namespace {

using namespace tessera;
using namespace tessera::market;

// port: the archetype, and one near-miss per requirement.
struct archetype {
  void send(const message&) noexcept;
  void copy(const transfer&) noexcept;
  void kept(request_id) noexcept;
  void released(request_id) noexcept;
  void unresolved(request_id, peer) noexcept;
  void unsold(request_id) noexcept;
  tokens load() noexcept;
  blocks idle_blocks() noexcept;
  bool reserve(const transfer&) noexcept;
  void discard(const transfer&) noexcept;
  void activate(const transfer&) noexcept;
};
static_assert(port<archetype>);

struct send_may_throw : archetype {
  void send(const message&);
};
struct send_takes_a_mutable_message : archetype {
  void send(message&) noexcept;
};
struct copy_may_throw : archetype {
  void copy(const transfer&);
};
struct kept_may_throw : archetype {
  void kept(request_id);
};
struct released_may_throw : archetype {
  void released(request_id);
};
struct unresolved_without_peer : archetype {
  void unresolved(request_id) noexcept;
};
struct unsold_may_throw : archetype {
  void unsold(request_id);
};
struct load_in_blocks : archetype {
  blocks load() noexcept;
};
struct idle_as_a_number : archetype {
  int idle_blocks() noexcept;
};
struct reserve_says_nothing : archetype {
  void reserve(const transfer&) noexcept;
};
struct discard_may_throw : archetype {
  void discard(const transfer&);
};
struct activate_may_throw : archetype {
  void activate(const transfer&);
};
static_assert(!port<int>);
static_assert(!port<const archetype>);
static_assert(!port<send_may_throw>);
static_assert(!port<send_takes_a_mutable_message>);
static_assert(!port<copy_may_throw>);
static_assert(!port<kept_may_throw>);
static_assert(!port<released_may_throw>);
static_assert(!port<unresolved_without_peer>);
static_assert(!port<unsold_may_throw>);
static_assert(!port<load_in_blocks>);
static_assert(!port<idle_as_a_number>);
static_assert(!port<reserve_says_nothing>);
static_assert(!port<discard_may_throw>);
static_assert(!port<activate_may_throw>);

// A message goes over the wire as it is.
static_assert(std::is_trivially_copyable_v<message> && std::is_standard_layout_v<message>);
static_assert(sizeof(message) == 80);
static_assert(std::is_trivially_copyable_v<transfer>);

// A trader stays where it is. Its storage is known at compile time, and any clock will do.
static_assert(!std::is_copy_constructible_v<trader<>> && !std::is_move_constructible_v<trader<>>);
static_assert(trader<>::required_bytes({.instances = 4, .offers = 2, .purchases = 2}) <
              trader<>::required_bytes({.instances = 64, .offers = 2, .purchases = 2}));
static_assert(trader<nanoseconds_clock>::required_bytes({}) > 0);

constexpr message from_somebody(tokens length) {
  message m;
  m.from.incarnation = 1;
  m.length = length;
  return m;
}
static_assert(!well_formed(message{}));
static_assert(well_formed(from_somebody(tokens{})));
static_assert(!well_formed(from_somebody(tokens{-1})));
static_assert(well_formed(from_somebody(tokens{greatest_count})));
static_assert(!well_formed(from_somebody(tokens{greatest_count + 1})));

}  // namespace
