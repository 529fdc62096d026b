// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/gpu/host_device.hpp>

#include <cstdint>

/// @file
/// Sort keys of a batch, packed into one integer: comparing two keys compares their fields one after another.
/// A radix sort of such keys is several times faster than a sort with a comparator of tuples.

TESSERA_NAMESPACE_BEGIN
namespace gpu {

/// An integer with the order of the numbers. Negative ones come first, -0 equals +0, the infinities are at the ends,
/// and every NaN is after +infinity.
[[nodiscard]] TESSERA_HOST_DEVICE constexpr std::uint32_t ordered_bits(float x) noexcept {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t sign = 0x8000'0000U;
  if ((bits & ~sign) > 0x7F80'0000U) return 0xFFFF'FFFFU;
  if (bits == sign) return sign;
  return (bits & sign) != 0 ? ~bits : bits | sign;
}

/// The greatest number of `Bits` bits, or `n` if it is smaller.
template <unsigned Bits>
[[nodiscard]] TESSERA_HOST_DEVICE constexpr std::uint32_t saturate(std::uint32_t n) noexcept {
  static_assert(Bits <= 32);
  if constexpr (Bits == 0) {
    return 0;
  } else {
    constexpr std::uint32_t greatest = 0xFFFF'FFFFU >> (32 - Bits);
    return n < greatest ? n : greatest;
  }
}

/// The length field, `Bits` wide, of a key that puts longer ones first. A length that does not fit counts as the
/// longest that does.
template <unsigned Bits>
[[nodiscard]] TESSERA_HOST_DEVICE constexpr std::uint32_t longest_first(std::uint32_t length) noexcept {
  return saturate<Bits>(0xFFFF'FFFFU) - saturate<Bits>(length);
}

/// The fields of a key, the most significant first. In each, smaller goes first.
struct key_fields {
  std::uint32_t group = 0;    ///< A class or phase: 0 before 1.
  float value = 0;            ///< A score, or a deadline as seconds from now.
  std::uint32_t length = 0;   ///< Tokens; see `longest_first` for the other direction.
  std::uint32_t arrival = 0;  ///< For a batch that is not in order of arrival already: sorting is stable.
};

/// The number of bits of each field of a key:
///
///     63 ...                                            0
///     [ unused | group | value | length | arrival ]
///
/// A group, length or arrival that does not fit counts as the greatest that does. A value narrower than 32 bits keeps
/// its sign, exponent and the leading part of its mantissa (16 bits: 7 of the mantissa). So close values become equal,
/// but none change places; below 10 bits, NaN equals infinity. Fewer bits sort faster: a radix sort takes a pass for
/// every eight.
///
/// The default has 16 groups, full scores, lengths to 268 million, and leaves arrival to the order of the batch.
template <unsigned GroupBits = 4, unsigned ValueBits = 32, unsigned LengthBits = 28, unsigned ArrivalBits = 0>
struct key_layout {
  static_assert(GroupBits <= 32 && ValueBits <= 32 && LengthBits <= 32 && ArrivalBits <= 32);
  static_assert(GroupBits + ValueBits + LengthBits + ArrivalBits <= 64, "tessera: the fields do not fit a 64-bit key");

  static constexpr unsigned bits = GroupBits + ValueBits + LengthBits + ArrivalBits;  ///< The number of bits of the
                                                                                      ///< key.

  /// The key. O(1); callable from a kernel.
  [[nodiscard]] TESSERA_HOST_DEVICE static constexpr std::uint64_t pack(const key_fields& f) noexcept {
    std::uint64_t key = saturate<GroupBits>(f.group);
    key = key << ValueBits | std::uint64_t{ordered_bits(f.value)} >> (32 - ValueBits);
    key = key << LengthBits | saturate<LengthBits>(f.length);
    return key << ArrivalBits | saturate<ArrivalBits>(f.arrival);
  }
};

}  // namespace gpu
TESSERA_NAMESPACE_END
