// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/gate/concepts.hpp>
#include <tessera/gate/skip_limit.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace gate {

/// At most `slots` adapters among the requests that hold blocks: the engine keeps their weights on the device (LoRA). A
/// request that needs another adapter is skipped until a slot is free. The request's member `adapter` names its
/// adapter; 0: none, and it may always start. Each adapter is a class with a queue of its own.
///
///     struct my_request : tessera::request_hook { std::uint32_t adapter = 0; };
///
/// An adapter holds its slot from the plan that starts its first request until its last request holds no blocks any
/// more.
///
/// Starvation: without a bound, running adapters could be followed by requests of the same adapters for ever. Once
/// `most_overtaken` requests with adapters have started behind the first skipped one, the adapter with the fewest users
/// is closed. No request behind the skipped one starts with that adapter, until the skipped one starts or leaves
/// (`gate::skip_limit`). So a slot becomes free when those few users have ended, and other adapters go on. A parked
/// request that holds blocks keeps its slot.
///
/// When to use: more adapters than fit. `gate::fair_tenants` beside it bounds the service of one adapter's users, if
/// each has a tenant.
/// @tparam MostSlots the capacity; `slots` may be smaller.
template <std::size_t MostSlots = 32>
struct basic_adapter_slots {
  static constexpr bool backfills = false;  ///< No request passes one that lacks blocks.
  static constexpr bool screens = true;     ///< The first request of each adapter is asked for.
  static constexpr bool counts = true;      ///< It is told which requests start and stop.

  std::size_t slots = 8;            ///< Number of slots, from 1 to `MostSlots`.
  std::size_t most_overtaken = 64;  ///< This many requests with adapters may start behind the first that waits for a
                                    ///< slot.

  /// An adapter that is in use.
  struct slot {
    std::uint32_t adapter;  ///< Its name.
    std::uint32_t users;    ///< Requests that hold blocks; 0: taken in the latest plan.
  };
  std::array<slot, MostSlots> held{};  ///< The first `used` are valid.
  std::size_t used = 0;                ///< Adapters that hold a slot.
  skip_limit limit{};                  ///< The request that waits for a slot, and how many have overtaken it.
  std::uint32_t closing = 0;           ///< In this plan: the adapter that gives its slot up once enough have overtaken.

  /// The request's adapter.
  template <schedulable R>
  [[nodiscard]] constexpr std::uint64_t class_of(const R& r) const noexcept {
    return static_cast<std::uint64_t>(r.adapter);
  }
  /// Checks the parameters (asserted; else the nearest valid value is taken).
  constexpr void set_up(tokens /*block_size*/) noexcept {
    TESSERA_ASSERT(slots > 0 && slots <= MostSlots, "there is room for 1 to MostSlots adapters");
    slots = slots == 0 ? 1 : slots < MostSlots ? slots : MostSlots;
  }

  /// O(slots).
  template <schedulable R>
    requires requires(const R& r) {
      { r.adapter } -> std::convertible_to<std::uint32_t>;
    }
  [[nodiscard]] constexpr passage ask(const R& candidate, const gate_view<R>& /*view*/) const noexcept {
    if (candidate.adapter == 0) return passage::start;
    if (lacks_slot(candidate)) return passage::skip;
    return candidate.adapter == closing && limit.are_enough(most_overtaken) ? passage::skip : passage::start;
  }
  /// The number of requests that use an adapter with a slot. O(slots).
  [[nodiscard]] constexpr std::size_t users(std::uint32_t adapter) const noexcept {
    const std::size_t i = find(adapter);
    return i == used ? 0 : held[i].users;
  }

  /// Begins a plan. O(slots).
  constexpr void begin() noexcept {
    for (std::size_t i = used; i-- != 0;) drop_unused(i);
    limit.begin();
    closing = 0;
  }
  /// The requests of this adapter are skipped in this plan, by this gate or another one. O(slots).
  template <schedulable R>
  constexpr void skips(const R& r) noexcept {
    if (!lacks_slot(r)) return;
    limit.skips(r, class_of(r));
    // If another adapter gets fewer users, it becomes free earlier; so each plan makes progress.
    slot fewest{0, 0};
    for (const slot& s : std::span{held}.first(used)) {
      const bool fewer =
          fewest.users == 0 || s.users < fewest.users || (s.users == fewest.users && s.adapter < fewest.adapter);
      if (s.users != 0 && fewer) fewest = s;
    }
    closing = fewest.adapter;
  }
  /// The request starts in this plan.
  template <schedulable R>
  constexpr void starts(const R& r) noexcept {
    if (r.adapter == 0) return;
    static_cast<void>(take(r.adapter));
    limit.starts(r);
  }
  /// The request has come, and waits.
  template <schedulable R>
  constexpr void joins(const R& /*r*/) noexcept {}
  /// The request holds blocks from now on.
  template <schedulable R>
  constexpr void started(const R& r) noexcept {
    if (r.adapter == 0) return;
    ++held[take(r.adapter)].users;
    limit.started(r);
  }
  /// `n` tokens were generated for it.
  template <schedulable R>
  constexpr void charge(const R& /*r*/, tokens /*n*/) noexcept {}
  /// The request holds no blocks any more.
  template <schedulable R>
  constexpr void stopped(const R& r) noexcept {
    if (r.adapter == 0) return;
    const std::size_t i = find(r.adapter);
    TESSERA_ASSERT(i != used && held[i].users != 0, "the adapter of a request changed while it ran");
    if (i == used || held[i].users == 0) return;
    --held[i].users;
  }
  /// The request has ended or left.
  template <schedulable R>
  constexpr void left(const R& r) noexcept {
    limit.left(r);
  }

 private:
  template <schedulable R>
  [[nodiscard]] constexpr bool lacks_slot(const R& r) const noexcept {
    return r.adapter != 0 && used >= slots && find(r.adapter) == used;
  }
  [[nodiscard]] constexpr std::size_t find(std::uint32_t adapter) const noexcept {
    std::size_t i = 0;
    while (i != used && held[i].adapter != adapter) ++i;
    return i;
  }
  constexpr void drop_unused(std::size_t i) noexcept {
    if (held[i].users == 0) held[i] = held[--used];
  }
  [[nodiscard]] constexpr std::size_t take(std::uint32_t adapter) noexcept {
    const std::size_t i = find(adapter);
    if (i != used) return i;
    TESSERA_ASSERT(used < MostSlots, "a fork has another adapter than its parent");
    held[used < MostSlots ? used++ : used - 1] = {adapter, 0};
    return used - 1;
  }
};

using adapter_slots = basic_adapter_slots<>;  ///< Room for 32.

}  // namespace gate
TESSERA_NAMESPACE_END
