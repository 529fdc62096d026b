// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../decoder.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// The work list of the attention kernels, made on the host for each batch and uploaded with it. Plain C++.

namespace cuda_decode {

inline constexpr std::int32_t attention_stage = 64;  ///< Keys that a block of threads has in shared memory at a time.
inline constexpr std::int32_t narrow_rows = 16;      ///< Rows of a tile that four warps share: (query, head) pairs.
inline constexpr std::int32_t wide_rows = 64;        ///< Rows of a tile in which every warp has 16.

/// What one block of threads does, for each KV head: some consecutive queries of a sequence over a range of its keys.
struct alignas(16) attention_item {
  std::int32_t table;     ///< Where the sequence's blocks begin in the block table's indices.
  std::int32_t token;     ///< The first query's place in the batch,
  std::int32_t position;  ///< and in its sequence.
  std::int32_t queries;
  std::int32_t begin;  ///< Keys [begin, end). `begin` is a multiple of `attention_stage`, and so is `end` unless it is
  std::int32_t end;    ///< one behind the last query.
  std::int32_t chunk;  ///< After that many keys, a multiple of `attention_stage`, the sums begin anew and are merged.
  std::int32_t partial;  ///< Where the first query's sums go, to be merged later; -1: the item has all keys.
};

/// One query of which several items have parts: those in partial, partial + stride, ...
struct alignas(16) attention_merge {
  std::int32_t token;  ///< Its place in the batch.
  std::int32_t partial;
  std::int32_t chunks;
  std::int32_t stride;
};

/// How the work is cut. Constant, except `split`.
struct attention_settings {
  split_policy split = split_policy::balanced;
  std::int32_t group = 1;  ///< Query heads of a KV head: 1 to 8.
  std::int32_t kv_heads = 1;
  std::int32_t blocks = 1;   ///< Blocks of threads that the device runs at a time: what `uniform` fills.
  std::int32_t chunk = 512;  ///< Keys of an item, if balanced. A multiple of `attention_stage`.
};

/// Sizes of the arrays: in `attention_capacity` how many there may be, in `attention_counts` how many there are.
struct attention_capacity {
  std::size_t items = 0;
  std::size_t merges = 0;
  std::size_t partials = 0;  ///< One has the sums of one query and all heads.
};
struct attention_counts {
  std::int32_t items = 0;
  std::int32_t merges = 0;
  std::int32_t partials = 0;
};

/// What to allocate for any batch of at most `max_rows` rows and `max_tokens` tokens in all. A sequence has at most
/// `max_context` tokens, with those computed.
/// @param partials at most this many, whatever the context: fewer cost speed, not correctness
[[nodiscard]] constexpr attention_capacity attention_bounds(const attention_settings& s, std::size_t max_rows,
                                                            std::size_t max_tokens, std::size_t max_context,
                                                            std::size_t partials = SIZE_MAX) noexcept {
  const auto chunk = static_cast<std::size_t>(s.chunk);
  const auto queries = static_cast<std::size_t>(wide_rows / s.group);
  attention_capacity c;
  c.partials = std::min(partials, max_rows * ((max_context + chunk - 1) / chunk));
  c.items = max_rows + max_tokens / queries + c.partials;  // a part has a partial of its own
  c.merges = c.partials / 2;
  return c;
}

/// How long an item takes compared to others, to put the longest first.
[[nodiscard]] constexpr std::uint32_t attention_cost(const attention_item& i, std::int32_t group) noexcept {
  return static_cast<std::uint32_t>(i.end - i.begin) * (i.queries * group > narrow_rows ? 2U : 1U);
}

namespace detail {

/// The smallest number of chunks, at most `most`, with which the last wave of blocks is nearly as full as with any.
[[nodiscard]] constexpr std::int64_t uniform_chunks(std::int64_t units, std::int64_t blocks,
                                                    std::int64_t most) noexcept {
  const auto percent_busy = [&](std::int64_t chunks) {
    const std::int64_t n = units * chunks;
    return 100 * n / ((n + blocks - 1) / blocks * blocks);
  };
  std::int64_t best = 0;
  for (std::int64_t chunks = 1; chunks <= most; ++chunks) best = std::max(best, percent_busy(chunks));
  std::int64_t chunks = 1;
  while (chunks < most && percent_busy(chunks) * 100 < best * 85) ++chunks;
  return chunks;
}

}  // namespace detail

/// The work list for a batch. Rows without tokens are passed over. A balanced list gives each query the same sums in
/// the same order. They depend neither on the rest of the batch nor on how its sequence is cut into batches.
/// @param rows,indptr as in `step_batch`
/// @param items,merges out; sizes as `attention_bounds` says
/// @param partials how many there is memory for
/// O(rows + items); allocates nothing.
[[nodiscard]] inline attention_counts plan_attention(const attention_settings& s, std::span<const batch_row> rows,
                                                     std::span<const std::int32_t> indptr,
                                                     std::span<attention_item> items, std::span<attention_merge> merges,
                                                     std::size_t partials) noexcept {
  constexpr std::int32_t never = 1 << 30;
  const std::int32_t wide = wide_rows / s.group;
  const auto narrow = [&](std::int32_t queries) { return queries * s.group <= narrow_rows; };
  const auto cut = [](std::int32_t n, std::int32_t by) { return (n + by - 1) / by; };

  std::int64_t tiles = 0;
  std::int64_t narrow_tiles = 0;
  std::int64_t narrow_queries = 0;
  std::int32_t longest = 0;
  for (const batch_row& r : rows) {
    if (r.count == 0) continue;
    tiles += cut(r.count, wide);
    const std::int32_t rest = (r.count - 1) % wide + 1;
    if (!narrow(rest)) continue;
    ++narrow_tiles;
    narrow_queries += rest;
    longest = std::max(longest, r.first + r.count);
  }
  const bool uniform = s.split == split_policy::uniform;
  std::int64_t chunks = 1;
  if (uniform && narrow_tiles != 0) {
    chunks = detail::uniform_chunks(narrow_tiles * s.kv_heads, s.blocks,
                                    std::clamp<std::int64_t>(static_cast<std::int64_t>(partials) / narrow_queries, 1,
                                                             cut(longest, attention_stage)));
  }
  // Prompts go in parts only if they alone would leave most of the device idle. It changes no result: their sums begin
  // anew after each chunk in either case.
  const bool cut_wide = !uniform && tiles * s.kv_heads < s.blocks;

  attention_counts n;
  std::int32_t token = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::int32_t done = 0; done < rows[i].count;) {
      const std::int32_t queries = std::min(wide, rows[i].count - done);
      const std::int32_t position = rows[i].first + done;
      const std::int32_t end = position + queries;
      std::int32_t chunk = s.chunk;
      if (uniform) {
        chunk = never;
        if (narrow(queries))
          chunk = cut(cut(end, static_cast<std::int32_t>(chunks)), attention_stage) * attention_stage;
      }
      const std::int32_t parts = narrow(queries) || cut_wide ? cut(end, chunk) : 1;
      const bool whole = parts == 1 || static_cast<std::size_t>(n.partials) +
                                               static_cast<std::size_t>(parts) * static_cast<std::size_t>(queries) >
                                           partials;
      attention_item item{indptr[i], token, position, queries, 0, end, chunk, -1};
      if (whole) {
        items[static_cast<std::size_t>(n.items++)] = item;
      } else {
        for (std::int32_t q = 0; q < queries; ++q) {
          merges[static_cast<std::size_t>(n.merges++)] = {token + q, n.partials + q, parts, queries};
        }
        for (; item.begin < end; item.begin += chunk) {
          item.end = std::min(end, item.begin + chunk);
          item.partial = n.partials;
          items[static_cast<std::size_t>(n.items++)] = item;
          n.partials += queries;
        }
      }
      token += queries;
      done += queries;
    }
  }
  return n;
}

}  // namespace cuda_decode
