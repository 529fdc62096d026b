// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/gate/concepts.hpp>
#include <tessera/gate/overtakings.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace gate {

/// At most so many adapters at once among those who hold blocks: the engine keeps their weights on the device (LoRA).
/// Who needs another is skipped until one is not used any more. Which adapter a request needs, its member `adapter`
/// says; 0: none, and it may always start. Each adapter is a class with a queue of its own.
///
///     struct my_request : tessera::request_hook { std::uint32_t adapter = 0; };
///
/// An adapter counts from the plan that starts the first who needs it until the last who does holds no blocks any more.
///
/// Nobody waits for ever because those who run are followed by others of the same adapters: once `most_overtaken` that
/// need adapters have started behind the first who is skipped, nobody behind it starts with the adapter that the fewest
/// use, until it starts or leaves (`gate::overtakings`). So a slot comes free when those few have ended, and the others
/// go on. Who stands aside with its blocks keeps its slot.
///
/// When to use: more adapters than fit. `gate::fair_tenants` beside it bounds what one adapter's users get, if each has
/// a tenant.
/// @tparam MostSlots room for so many; `slots` may be fewer.
template <std::size_t MostSlots = 32>
struct basic_adapter_slots {
  static constexpr bool passes = false;  ///< Nobody passes one who lacks blocks.
  static constexpr bool screens = true;  ///< The first of each adapter is asked for.
  static constexpr bool counts = true;   ///< It hears who starts and stops.

  std::size_t slots = 8;            ///< So many adapters, at least 1 and at most `MostSlots`.
  std::size_t most_overtaken = 64;  ///< So many that need adapters start behind the first who waits for a slot.

  /// An adapter that is in use.
  struct slot {
    std::uint32_t adapter;  ///< Which.
    std::uint32_t users;    ///< Requests that hold blocks; 0: taken in the plan that was made last.
  };
  std::array<slot, MostSlots> held{};  ///< The first `used` of them.
  std::size_t used = 0;                ///< Adapters that hold a slot.
  overtakings line{};                  ///< Who waits for one, and how many have overtaken it.
  std::uint32_t closing = 0;           ///< In this plan, the adapter that is to come free if these are enough.

  /// Its adapter.
  template <schedulable R>
  [[nodiscard]] constexpr std::uint64_t class_of(const R& r) const noexcept {
    return static_cast<std::uint64_t>(r.adapter);
  }
  /// Checks the parameters (asserted; else the nearest that is possible).
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
    return candidate.adapter == closing && line.are_enough(most_overtaken) ? passage::skip : passage::start;
  }
  /// Those who use an adapter that holds a slot. O(slots).
  [[nodiscard]] constexpr std::size_t users(std::uint32_t adapter) const noexcept {
    const std::size_t i = find(adapter);
    return i == used ? 0 : held[i].users;
  }

  /// A plan is being made. O(slots).
  constexpr void begin() noexcept {
    for (std::size_t i = used; i-- != 0;) drop_unused(i);
    line.begin();
    closing = 0;
  }
  /// Its adapter's requests are skipped in this plan, by this gate or another one. O(slots).
  template <schedulable R>
  constexpr void skips(const R& r) noexcept {
    if (!lacks_slot(r)) return;
    line.skips(r, class_of(r));
    // If another one falls below it, that comes free earlier; so there is progress from plan to plan.
    slot fewest{0, 0};
    for (const slot& s : std::span{held}.first(used)) {
      const bool fewer =
          fewest.users == 0 || s.users < fewest.users || (s.users == fewest.users && s.adapter < fewest.adapter);
      if (s.users != 0 && fewer) fewest = s;
    }
    closing = fewest.adapter;
  }
  /// It starts in this plan.
  template <schedulable R>
  constexpr void starts(const R& r) noexcept {
    if (r.adapter == 0) return;
    static_cast<void>(take(r.adapter));
    line.starts(r);
  }
  /// It has come.
  template <schedulable R>
  constexpr void joins(const R& /*r*/) noexcept {}
  /// It holds blocks from now on.
  template <schedulable R>
  constexpr void started(const R& r) noexcept {
    if (r.adapter == 0) return;
    ++held[take(r.adapter)].users;
    line.started(r);
  }
  /// So many tokens came of it.
  template <schedulable R>
  constexpr void charge(const R& /*r*/, tokens /*n*/) noexcept {}
  /// It holds none any more.
  template <schedulable R>
  constexpr void stopped(const R& r) noexcept {
    if (r.adapter == 0) return;
    const std::size_t i = find(r.adapter);
    TESSERA_ASSERT(i != used && held[i].users != 0, "the adapter of a request changed while it ran");
    if (i == used || held[i].users == 0) return;
    --held[i].users;
  }
  /// It has ended or left.
  template <schedulable R>
  constexpr void left(const R& r) noexcept {
    line.left(r);
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
