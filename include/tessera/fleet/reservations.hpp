// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/clock.hpp>
#include <tessera/core/index.hpp>
#include <tessera/core/split_mix.hpp>
#include <tessera/fleet/keyed_pool.hpp>
#include <tessera/fleet/report.hpp>

#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace fleet::detail {

/// Neighbours in a list through an array.
struct links {
  std::uint32_t before = no_index;
  std::uint32_t after = no_index;
};

/// A list through the elements of an array that have a member `Hook`. Each call O(1).
template <auto Hook>
struct list {
  std::uint32_t first = no_index;
  std::uint32_t last = no_index;

  template <class T>
  constexpr void push_back(T* all, std::uint32_t i) noexcept {
    (all[i].*Hook) = {last, no_index};
    (last == no_index ? first : (all[last].*Hook).after) = i;
    last = i;
  }
  template <class T>
  constexpr void erase(T* all, std::uint32_t i) noexcept {
    const links l = all[i].*Hook;
    (l.before == no_index ? first : (all[l.before].*Hook).after) = l.after;
    (l.after == no_index ? last : (all[l.after].*Hook).before) = l.before;
  }
};

/// Where a reservation is in the life of a move.
enum class standing : std::uint8_t {
  here,      ///< It does not move.
  leaving,   ///< Its request is here, and is on its way elsewhere: it does not count any more.
  incoming,  ///< Its request is elsewhere, and is on its way here: it counts already.
};

/// A request at a replica.
template <clock_policy Clock>
struct reservation {
  /// By what it is found.
  struct key {
    request_id request;
    replica_id where;
    friend constexpr bool operator==(const key&, const key&) noexcept = default;
  };

  request_id request = 0;
  basic_time_point<Clock> heard{};        // When it was last named.
  basic_time_point<Clock> rests_until{};  // It is not moved before.
  tokens prompt{};
  tokens cached{};     // Leading tokens of the prompt.
  tokens generated{};  // As far as was heard.
  tokens reasoned{};   // Generated before it began to answer.
  blocks size{};       // Blocks for all its tokens.
  blocks shared{};  // How many of these were in the replica's prefix cache: the request neither computed nor took them.
  blocks remain{};  // Blocks that its replica is taken to keep when it leaves, because others may share them.
  replica_id where = no_replica;
  std::uint32_t twin = no_index;  // The other end of its move.
  links there{};                  // Those of its replica.
  links by_time{};                // All, in the order in which they were last named.
  links asking{};                 // Those that ask where to go on.
  std::uint32_t since = 0;        // Reports of its replica that were taken before it held blocks there.
  standing stands = standing::here;
  bool started = false;  // It has its first token.
  bool answers = false;
  bool asks = false;
  bool has_hit = false;  // `shared` is what the engine has found, not what was expected.
  std::uint32_t next_free = no_index;

  [[nodiscard]] static constexpr reservation named(const key& k) noexcept {
    reservation r;
    r.request = k.request;
    r.where = k.where;
    return r;
  }
  [[nodiscard]] constexpr key name() const noexcept { return {request, where}; }
  [[nodiscard]] static constexpr std::uint64_t hash(const key& k) noexcept {
    return tessera::detail::split_mix(k.request + (k.where + 1) * tessera::detail::split_mix_step);
  }
};

/// Reservations by request and replica.
template <clock_policy Clock>
class reservations : public keyed_pool<reservation<Clock>> {
  using base = keyed_pool<reservation<Clock>>;

 public:
  using base::base;
  [[nodiscard]] std::uint32_t find(request_id request, replica_id where) const noexcept {
    return base::find({request, where});
  }
  std::uint32_t insert(request_id request, replica_id where) noexcept { return base::insert({request, where}); }
};

}  // namespace fleet::detail
TESSERA_NAMESPACE_END
