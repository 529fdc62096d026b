// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>

#include <cstddef>
#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// What is known of the waiting request that was refused last, so that it can be refused again without matching its
/// prefix, which is as long as its prompt. Requests are named by their sequence numbers, `changes` and `sharings` are
/// the counters of `roster`. Part of the transaction: an abandoned plan that admitted or evicted somebody leaves what
/// was known before it.
struct refusal {
  std::uint64_t sequence = 0;  ///< Whose it is; 0: nobody's.
  blocks in_use{};             ///< Blocks of its prefix that others hold, at most.

  /// It lacked blocks, also with those of all residents from `next` on. What did not fit does not fit until something
  /// is given back.
  void of_blocks(std::uint64_t whose, std::uint64_t changes, std::size_t next) noexcept {
    if (sequence != whose) *this = {};
    sequence = whose;
    lacked_at_ = changes;
    next_ = next;
  }
  [[nodiscard]] bool still_lacks_blocks(std::uint64_t changes, std::size_t next) const noexcept {
    return lacked_at_ == changes && next_ == next;
  }

  /// Others hold so many blocks of its prefix; the rest it would have to take from the free ones, those included that
  /// are only cached. They do not become more until one starts or publishes, so this bounds what it lacks from below.
  void of_prefix(std::uint64_t whose, std::uint64_t sharings, blocks held_by_others) noexcept {
    if (sequence != whose) *this = {};
    sequence = whose;
    matched_at_ = sharings;
    in_use = held_by_others;
  }
  [[nodiscard]] bool knows_prefix(std::uint64_t sharings) const noexcept { return matched_at_ == sharings; }

 private:
  static constexpr std::uint64_t never = ~std::uint64_t{0};
  std::uint64_t lacked_at_ = never;
  std::uint64_t matched_at_ = never;
  std::size_t next_ = 0;
};

}  // namespace detail
TESSERA_NAMESPACE_END
