// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "decoder.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// @file
/// Batches without requests, to measure a decoder with.

namespace cuda_decode {

/// Batches over a pool of blocks, for timing: their tokens mean nothing.
class made_up_batch {
 public:
  made_up_batch(const model_shape& shape, std::int64_t block_size, std::size_t kv_blocks)
      : vocabulary_{shape.vocabulary}, block_size_{block_size}, kv_blocks_{kv_blocks} {}

  /// Rows that decode one token; `contexts[i]` tokens are read, the new one included. Valid until the next call.
  [[nodiscard]] step_batch decode(std::span<const std::int64_t> contexts) {
    clear();
    for (const std::int64_t c : contexts) add(c - 1, 1);
    return batch();
  }
  [[nodiscard]] step_batch decode(std::int64_t rows, std::int64_t context) {
    return decode(std::vector<std::int64_t>(static_cast<std::size_t>(rows), context));
  }
  /// One chunk of a prompt, after the `first` tokens that are there already.
  [[nodiscard]] step_batch prefill(std::int64_t first, std::int64_t count) {
    clear();
    add(first, count);
    return batch();
  }
  /// Both.
  [[nodiscard]] step_batch mixed(std::int64_t rows, std::int64_t context, std::int64_t first, std::int64_t count) {
    clear();
    for (std::int64_t i = 0; i < rows; ++i) add(context - 1, 1);
    add(first, count);
    return batch();
  }

 private:
  void clear() {
    tokens_.clear();
    rows_.clear();
    indptr_.assign(1, 0);
    indices_.clear();
    next_ = 0;
  }
  void add(std::int64_t first, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      tokens_.push_back(static_cast<std::int32_t>((first + 7 * i + 13) % vocabulary_));
    }
    rows_.push_back({static_cast<std::int32_t>(first), static_cast<std::int32_t>(count), true});
    for (std::int64_t covered = 0; covered < first + count; covered += block_size_) {
      indices_.push_back(static_cast<std::int32_t>(next_++ % kv_blocks_));
    }
    indptr_.push_back(static_cast<std::int32_t>(indices_.size()));
  }
  [[nodiscard]] step_batch batch() const {
    return {.tokens = tokens_, .rows = rows_, .indptr = indptr_, .indices = indices_};
  }

  std::int64_t vocabulary_;
  std::int64_t block_size_;
  std::size_t kv_blocks_;
  std::size_t next_ = 0;
  std::vector<std::int32_t> tokens_;
  std::vector<batch_row> rows_;
  std::vector<std::int32_t> indptr_;
  std::vector<std::int32_t> indices_;
};

/// Runs every kind of step once or twice, so that nothing is loaded or captured for the first time while it counts.
inline void warm_up(decoder& d, const decoder_options& o) {
  made_up_batch make{o.shape, o.block_size, d.facts().kv_blocks};
  const auto rows = static_cast<std::int64_t>(o.max_rows);
  const auto longest = static_cast<std::int64_t>(o.max_context);
  const auto most = std::min(static_cast<std::int64_t>(o.max_tokens), longest);
  for (std::int64_t b = 1; b <= rows; b += b < 8 ? 1 : 8) d.step(make.decode(b, std::min<std::int64_t>(64, longest)));
  for (std::int64_t n = 2; n <= most; n *= 2) d.step(make.prefill(0, n));
  if (rows > 1 && most > 2) {
    const std::int64_t left = static_cast<std::int64_t>(o.max_tokens) - (rows - 1);
    d.step(make.mixed(rows - 1, 2, 0, std::min(left, most / 2)));
  }
  // Steps of a load have any number of tokens, and a library may have a kernel for each range of them to load.
  if (d.facts().emulated) return;
  for (std::int64_t n = 24; n <= most; n += n / 5) d.step(make.prefill(0, n));
}

}  // namespace cuda_decode
