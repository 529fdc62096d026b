// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <decoder.hpp>
#include <kernels/attention.cuh>
#include <kernels/rms_norm.cuh>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

/// @file
/// What a decoder refuses: options that it cannot be made of, and batches that it cannot run.

namespace cuda_decode {

inline constexpr unsigned cost_bits = 24;  ///< Bits of the cost in the keys that the work list is sorted by.

namespace detail {

[[noreturn]] inline void refuse(const std::string& why) { throw device_error{why}; }

inline void require(bool holds, const char* what) {
  if (!holds) refuse(what);
}

inline std::string gigabytes(double bytes) {
  std::string s = std::to_string(bytes / 1e9);
  s.resize(s.find('.') + 3);
  return s + " GB";
}

constexpr std::size_t rounded_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

/// The same options. @throws device_error where no decoder can be made of them.
inline const decoder_options& checked(const decoder_options& o) {
  using detail::require;
  const model_shape& s = o.shape;
  require(s.layers > 0 && s.hidden > 0 && s.query_heads > 0 && s.kv_heads > 0 && s.feed_forward > 0 && s.vocabulary > 0,
          "a model without layers, heads, or a width");
  require(s.head_dim == 64 || s.head_dim == 128, "heads must have 64 or 128 dimensions");
  require(s.query_heads % s.kv_heads == 0 && s.query_heads / s.kv_heads <= 8,
          "query heads must be 1 to 8 times the KV heads");
  require(s.hidden % vector_size == 0 && s.hidden <= max_hidden, "hidden must be a multiple of 8, at most 8192");
  require(s.feed_forward % vector_size == 0 && s.vocabulary % vector_size == 0,
          "feed_forward and vocabulary must be multiples of 8");
  require(o.block_size > 0 && o.block_size <= 4096 && o.block_size % kv_tile == 0,
          "block_size must be a multiple of 16, at most 4096");
  require(o.max_rows > 0 && o.max_rows <= o.max_tokens, "max_rows must be 1 to max_tokens");
  require(o.max_tokens <= std::size_t{1} << 20, "max_tokens must be at most 1048576");
  require(o.in_flight > 0 && o.in_flight <= 8, "in_flight must be 1 to 8");
  require(o.max_context > 0 && o.max_context <= std::size_t{1} << (cost_bits - 2), "max_context must be 1 to 4194304");
  return o;
}

/// Refuses a batch that a decoder of these options cannot run: a wrong table would have kernels write anywhere.
/// `sampled`: rows that the newest step in flight samples. @throws device_error
inline void check(const step_batch& b, const decoder_options& options, std::size_t blocks_per_row,
                  std::int64_t sampled) {
  using detail::require;
  const std::size_t rows = b.rows.size();
  require(rows <= options.max_rows, "a batch of more rows than max_rows");
  require(b.tokens.size() <= options.max_tokens, "a batch of more tokens than max_tokens");
  std::int32_t greatest_token = 0;
  std::int32_t least_token = 0;
  for (const std::int32_t t : b.tokens) {
    greatest_token = std::max(greatest_token, t);
    least_token = std::min(least_token, t);
  }
  require(greatest_token < options.shape.vocabulary && -std::int64_t{least_token} <= sampled,
          "a token that is not in the vocabulary");
  std::uint32_t greatest = 0;
  for (const auto& swaps : {b.swap_out, b.swap_in}) {
    for (const block_copy& c : swaps) {
      require(c.device < options.kv_blocks && c.host < options.host_blocks, "a block to copy that does not exist");
    }
  }
  for (const device_copy& c : b.copies) {
    require(c.from < options.kv_blocks && c.to < options.kv_blocks, "a block to copy that does not exist");
  }
  if (rows == 0) {
    require(b.tokens.empty(), "tokens without rows");
    return;
  }
  require(b.indptr.size() == rows + 1 && b.indptr[0] == 0, "indptr must have rows + 1 numbers, from 0 on");
  require(b.indptr[rows] >= 0 && static_cast<std::size_t>(b.indptr[rows]) == b.indices.size(),
          "indptr must end with the number of indices");
  require(b.indices.size() <= options.max_rows * blocks_per_row, "more blocks than max_rows of max_context have");
  for (const std::int32_t i : b.indices) greatest = std::max(greatest, static_cast<std::uint32_t>(i));
  require(b.indices.empty() || greatest < options.kv_blocks, "a block in the table that does not exist");
  std::size_t tokens = 0;
  for (std::size_t i = 0; i != rows; ++i) {
    const batch_row& r = b.rows[i];
    require(r.count > 0 && r.first >= 0, "a row must compute a token, and not before its first");
    const std::int64_t end = std::int64_t{r.first} + r.count;
    require(end <= static_cast<std::int64_t>(options.max_context), "a row longer than max_context");
    require(b.indptr[i] <= b.indptr[i + 1] && b.indptr[i] >= 0, "indptr must not fall");
    require(end <= (std::int64_t{b.indptr[i + 1]} - b.indptr[i]) * options.block_size, "a row longer than its blocks");
    tokens += static_cast<std::size_t>(r.count);
  }
  require(tokens == b.tokens.size(), "the rows' counts must add up to the number of tokens");
}

}  // namespace detail

}  // namespace cuda_decode
