// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <compare>
#include <cstdint>

/// @file
/// Strong units: `tokens`, `blocks` (KV blocks) and `bytes` are 64-bit signed counts that do not mix:
/// `tokens + blocks` does not compile.

TESSERA_NAMESPACE_BEGIN

/// A signed 64-bit count of things of one kind. A regular type; every operation is `constexpr` and O(1).
/// @tparam Unit an empty tag; two quantities with different tags share no operation.
template <class Unit>
class quantity {
 public:
  using rep = std::int64_t;  ///< What ticks are counted in.

  constexpr quantity() noexcept = default;
  /// A count of the unit.
  constexpr explicit quantity(rep count) noexcept : count_{count} {}

  /// The bare number. The only way out of the unit.
  [[nodiscard]] constexpr rep count() const noexcept { return count_; }

  /// Requires that the sum fits 64 bits.
  constexpr quantity& operator+=(quantity other) noexcept {
    count_ += other.count_;
    return *this;
  }
  /// May become negative.
  constexpr quantity& operator-=(quantity other) noexcept {
    count_ -= other.count_;
    return *this;
  }

  /// The sum.
  friend constexpr quantity operator+(quantity a, quantity b) noexcept { return quantity{a.count_ + b.count_}; }
  /// The difference; may be negative.
  friend constexpr quantity operator-(quantity a, quantity b) noexcept { return quantity{a.count_ - b.count_}; }
  /// A multiple.
  friend constexpr quantity operator*(quantity a, rep k) noexcept { return quantity{a.count_ * k}; }
  /// A multiple.
  friend constexpr quantity operator*(rep k, quantity a) noexcept { return quantity{a.count_ * k}; }
  /// A part, rounded towards 0. Requires `k != 0`.
  friend constexpr quantity operator/(quantity a, rep k) noexcept { return quantity{a.count_ / k}; }
  /// How many times `b` goes into `a`, rounded towards zero. Requires `b != 0`.
  friend constexpr rep operator/(quantity a, quantity b) noexcept { return a.count_ / b.count_; }
  /// The remainder. Requires `b != 0`.
  friend constexpr quantity operator%(quantity a, quantity b) noexcept { return quantity{a.count_ % b.count_}; }

  /// Memberwise.
  friend constexpr bool operator==(quantity, quantity) noexcept = default;
  /// In numeric order.
  friend constexpr auto operator<=>(quantity, quantity) noexcept = default;

 private:
  rep count_ = 0;
};

/// A number of tokens: prompt, reasoning or answer; a length or a budget.
using tokens = quantity<struct token_unit>;
/// A number of KV blocks (pages), on the device or on the host.
using blocks = quantity<struct block_unit>;
/// A number of bytes.
using bytes = quantity<struct byte_unit>;

/// The smaller of two quantities of one unit (here so that users need not include `<algorithm>`).
template <class Unit>
[[nodiscard]] constexpr quantity<Unit> min(quantity<Unit> a, quantity<Unit> b) noexcept {
  return b < a ? b : a;
}
/// The larger of two quantities of one unit.
template <class Unit>
[[nodiscard]] constexpr quantity<Unit> max(quantity<Unit> a, quantity<Unit> b) noexcept {
  return a < b ? b : a;
}

/// Blocks that hold `length` tokens at `block_size` tokens a block, rounded up. Requires `block_size > 0`.
[[nodiscard]] constexpr blocks blocks_for(tokens length, tokens block_size) noexcept {
  return blocks{length.count() / block_size.count() + (length.count() % block_size.count() > 0 ? 1 : 0)};
}

inline namespace literals {

/// Tokens.
constexpr tokens operator""_tok(unsigned long long n) noexcept { return tokens{static_cast<std::int64_t>(n)}; }
/// Blocks.
constexpr blocks operator""_blk(unsigned long long n) noexcept { return blocks{static_cast<std::int64_t>(n)}; }
/// Bytes.
constexpr bytes operator""_B(unsigned long long n) noexcept { return bytes{static_cast<std::int64_t>(n)}; }

}  // namespace literals
TESSERA_NAMESPACE_END
