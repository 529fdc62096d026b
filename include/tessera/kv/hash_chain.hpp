// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/kv/concepts.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

/// @file
/// Names for full KV blocks: one hash per block of tokens, chained. So equal hashes mean, with overwhelming
/// probability, equal tokens from the very start of the sequence.
///
/// The hash is fast and well mixed, not cryptographic. Among n distinct blocks two collide with probability about n^2 /
/// 2^65, or, with 128 bits (`hash128`), n^2 / 2^129. An attacker that knows the seed can construct collisions.
/// `prefix_cache` trusts the hashes that it is given. Give every tenant, and every adapter or other input that changes
/// the KV, a seed of its own; keep it secret if prompts are hostile. Then nothing is shared between tenants.
/// `hash_seed` makes a seed from a client's salt.

TESSERA_NAMESPACE_BEGIN
namespace kv {
namespace detail {

/// A bijection of 64 bits in which every input bit changes every output bit with probability close to one half.
[[nodiscard]] constexpr std::uint64_t scramble(std::uint64_t x) noexcept {
  x ^= x >> 32;
  x *= 0x9fb2'1c65'1e98'df25ULL;
  x ^= x >> 29;
  x *= 0xd6e8'feb8'6659'fd93ULL;
  x ^= x >> 32;
  return x;
}

}  // namespace detail

/// The start of a chain. Different seeds give unrelated chains.
[[nodiscard]] constexpr std::uint64_t hash_root(std::uint64_t seed = 0) noexcept {
  return detail::scramble(seed + 0x9e37'79b9'7f4a'7c15ULL);
}

/// The hash of one full block after `previous`: the hash of the block before it, or `hash_root`. O(tokens), about a
/// nanosecond per token. Chains only compare if all their blocks have the same size.
[[nodiscard]] constexpr std::uint64_t hash_block(std::uint64_t previous, std::span<const std::int32_t> block) noexcept {
  constexpr std::uint64_t odd = 0x9e37'79b9'7f4a'7c15ULL;
  std::uint64_t h = previous;
  std::size_t i = 0;
  const auto take = [&](std::uint64_t word) {
    word *= 0xc2b2'ae3d'27d4'eb4fULL;  // off the critical path: does not wait for h
    word ^= word >> 32;
    h ^= word;
    h = ((h << 27) | (h >> 37)) * odd + 0x1656'67b1'9e37'79f9ULL;
  };
  for (; i + 2 <= block.size(); i += 2) {
    take(static_cast<std::uint64_t>(static_cast<std::uint32_t>(block[i])) << 32 |
         static_cast<std::uint32_t>(block[i + 1]));
  }
  if (i != block.size()) take(static_cast<std::uint32_t>(block[i]));
  return detail::scramble(h);
}

/// The start of a chain of 128 bits. Its lower half differs from that of 64 bits.
[[nodiscard]] constexpr hash128 hash_root(hash128 seed) noexcept {
  return {hash_root(seed.low ^ detail::scramble(seed.high)), detail::scramble(seed.high + hash_root(~seed.low))};
}

/// The 128-bit hash of one full block after `previous`. It is two chains with different mixing, so that blocks which
/// collide in one are independent in the other. O(tokens), about twice the time of 64 bits.
[[nodiscard]] constexpr hash128 hash_block(const hash128& previous, std::span<const std::int32_t> block) noexcept {
  constexpr std::uint64_t odd = 0xff51'afd7'ed55'8ccdULL;
  std::uint64_t h = previous.high;
  for (const std::int32_t t : block) {
    std::uint64_t word = static_cast<std::uint64_t>(static_cast<std::uint32_t>(t)) + 0x2545'f491'4f6c'dd1dULL;
    word *= 0xc4ce'b9fe'1a85'ec53ULL;
    word ^= word >> 29;
    h = ((h ^ word) * odd);
    h ^= h >> 31;
  }
  return {hash_block(previous.low, block), detail::scramble(h)};
}

/// A seed from a salt of any length, such as clients send to be kept apart. Equal salts give equal seeds; different
/// salts, with overwhelming probability, give different seeds, and then nothing is shared. `secret` keeps clients from
/// constructing salts that collide. O(bytes).
[[nodiscard]] constexpr hash128 hash_seed(std::string_view salt, std::uint64_t secret = 0) noexcept {
  hash128 h = hash_root(hash128{secret, salt.size()});
  for (const char c : salt) {
    const std::int32_t one[] = {static_cast<unsigned char>(c)};
    h = hash_block(h, one);
  }
  return h;
}

/// Hashes the full blocks at the front of a sequence, one chained hash each, to the front of `out`. A last block that
/// is not full has no hash. Returns how many were written: the smaller of `token.size() / block_size` and
/// `out.size()`. O(tokens). Requires `block_size >= 1` (else 0).
/// A chain continues: `hash_block(out[k - 1], ...)` is the hash of block k.
constexpr std::size_t hash_chain(std::span<const std::int32_t> token, std::size_t block_size,
                                 std::span<std::uint64_t> out, std::uint64_t seed = 0) noexcept {
  TESSERA_ASSERT(block_size >= 1, "a block has a token at least");
  if (block_size == 0) return 0;
  std::size_t n = token.size() / block_size;
  if (n > out.size()) n = out.size();
  std::uint64_t h = hash_root(seed);
  for (std::size_t i = 0; i != n; ++i) {
    h = hash_block(h, token.subspan(i * block_size, block_size));
    out[i] = h;
  }
  return n;
}
/// The same with 128 bits.
constexpr std::size_t hash_chain(std::span<const std::int32_t> token, std::size_t block_size, std::span<hash128> out,
                                 const hash128& seed) noexcept {
  TESSERA_ASSERT(block_size >= 1, "a block has a token at least");
  if (block_size == 0) return 0;
  std::size_t n = token.size() / block_size;
  if (n > out.size()) n = out.size();
  hash128 h = hash_root(seed);
  for (std::size_t i = 0; i != n; ++i) {
    h = hash_block(h, token.subspan(i * block_size, block_size));
    out[i] = h;
  }
  return n;
}

}  // namespace kv
TESSERA_NAMESPACE_END
