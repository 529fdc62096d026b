// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/split_mix.hpp>
#include <tessera/core/storage.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// The prompts being computed, in the present plan and in plans in flight, by the hash of the next block of each. A
/// request that lacks the same block need not compute it as well: it is found when that plan is settled.
///
/// One block per prompt suffices. Two prompts with equal beginnings are known up to the same block, which is the next
/// one of both.
///
/// A hash table with linear probing, started anew for each plan: a slot is valid only in its round. Every call is
/// expected O(1). 24 bytes a slot (32 with hashes of 128 bits), two to four slots for each resident and plan in flight.
template <class Request, class Hash>
class prefix_leaders {
 public:
  [[nodiscard]] static constexpr std::size_t required_bytes(std::size_t prompts) noexcept {
    return storage_layout{}.add<slot>(slots_for(prompts)).bytes();
  }
  /// Room for `prompts` prompts in one round.
  prefix_leaders(arena& memory, std::size_t prompts) noexcept
      : slot_{memory.take<slot>(slots_for(prompts))}, last_{slots_for(prompts) - 1} {}

  /// Starts a round: no prompt is being computed.
  void begin() noexcept {
    if (++round_ != 0) return;
    for (std::size_t i = 0; i <= last_; ++i) slot_[i] = {};
    round_ = 1;
  }
  /// Records that a request computes the block with this hash. If several compute it, the first by `before` counts.
  template <class Before>
  void add(const Hash& next, const Request& r, Before before) noexcept {
    slot& s = slot_[find(next)];
    if (s.round != round_ || before(r, *s.request)) s = {next, &r, round_};
  }
  /// The request that computes the block with this hash, or null.
  [[nodiscard]] const Request* of(const Hash& next) const noexcept {
    const slot& s = slot_[find(next)];
    return s.round == round_ ? s.request : nullptr;
  }

 private:
  struct slot {
    Hash next{};
    const Request* request = nullptr;
    std::uint32_t round = 0;
  };

  [[nodiscard]] static constexpr std::size_t slots_for(std::size_t prompts) noexcept {
    return std::bit_ceil(2 * prompts + 1);
  }
  [[nodiscard]] static std::uint64_t mixed(const Hash& h) noexcept {
    if constexpr (std::is_integral_v<Hash>) {
      return split_mix(h);
    } else {
      return split_mix(h.low);
    }
  }
  /// Its slot, or the free slot for it.
  [[nodiscard]] std::size_t find(const Hash& next) const noexcept {
    std::size_t i = static_cast<std::size_t>(mixed(next)) & last_;
    while (slot_[i].round == round_ && !(slot_[i].next == next)) i = (i + 1) & last_;
    return i;
  }

  slot* slot_;
  std::size_t last_;  // one less than a power of two
  std::uint32_t round_ = 1;
};

}  // namespace detail
TESSERA_NAMESPACE_END
