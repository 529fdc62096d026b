// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <device/bf16.hpp>
#include <device/device.hpp>
#include <kernels/attention.cuh>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

/// @file
/// A batch for the attention kernels, on whatever device there is, and what must come out: softmax attention in double
/// precision over the same pages.

namespace test {

using cuda_decode::attention_args;
using cuda_decode::attention_counts;
using cuda_decode::attention_item;
using cuda_decode::attention_merge;
using cuda_decode::attention_settings;
using cuda_decode::batch_row;
using cuda_decode::bf16;
using cuda_decode::split_policy;

inline constexpr bf16 not_a_number{0x7fff};

struct attention_shape {
  std::int32_t head_dim = 64;
  std::int32_t group = 1;
  std::int32_t kv_heads = 1;
  std::int32_t block_size = 16;
};

/// Sequences with their queries, keys and values, and pages in no order. What no query may see is NaN.
struct attention_case {
  attention_shape shape;
  std::vector<batch_row> rows;
  cuda_decode::kv_layout layout;
  std::vector<bf16> q;     // [token][query head][dimension] and some between tokens
  std::vector<bf16> pool;  // of two layers, of which the second is used
  std::vector<std::int32_t> indptr{0};
  std::vector<std::int32_t> indices;
  std::int64_t q_stride = 0;

  /// @param sharpness of the scores: their standard deviation
  attention_case(attention_shape s, std::vector<batch_row> r, std::uint64_t seed, double sharpness = 1)
      : shape{s}, rows{std::move(r)}, layout{cuda_decode::make_kv_layout(2, s.kv_heads, s.head_dim, s.block_size)} {
    std::mt19937_64 random{seed};
    std::normal_distribution<float> normal;
    const auto some = [&](double scale) { return cuda_decode::from_float(normal(random) * static_cast<float>(scale)); };
    std::int32_t blocks = 0;
    for (const batch_row& each : rows) {
      blocks += (each.first + each.count + s.block_size - 1) / s.block_size;
      indptr.push_back(blocks);
    }
    indices.resize(static_cast<std::size_t>(blocks));
    std::iota(indices.begin(), indices.end(), 1);  // one block belongs to no row
    std::shuffle(indices.begin(), indices.end(), random);
    pool.assign(static_cast<std::size_t>(layout.block * (blocks + 2)), not_a_number);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::int32_t p = 0; p < rows[i].first + rows[i].count; ++p) {
        for (std::int32_t h = 0; h < s.kv_heads; ++h) {
          for (std::int32_t d = 0; d < s.head_dim; ++d) {
            pool[place(i, p, h) + static_cast<std::size_t>(d)] = some(1);
            pool[place(i, p, h) + static_cast<std::size_t>(layout.value + d)] = some(1);
          }
        }
      }
    }
    q_stride = query_heads() * s.head_dim + 24;
    q.assign(tokens() * static_cast<std::size_t>(q_stride), not_a_number);
    for (std::size_t t = 0; t < tokens(); ++t) {
      for (std::int64_t d = 0; d < query_heads() * s.head_dim; ++d) {
        q[t * static_cast<std::size_t>(q_stride) + static_cast<std::size_t>(d)] = some(sharpness);
      }
    }
  }

  [[nodiscard]] std::int64_t query_heads() const { return shape.kv_heads * shape.group; }
  [[nodiscard]] std::size_t tokens() const {
    std::size_t n = 0;
    for (const batch_row& r : rows) n += static_cast<std::size_t>(r.count);
    return n;
  }
  /// Where a key is in the pool.
  [[nodiscard]] std::size_t place(std::size_t row, std::int32_t position, std::int32_t head) const {
    const std::int64_t block = indices[static_cast<std::size_t>(indptr[row] + position / shape.block_size)];
    return static_cast<std::size_t>(block * layout.block + layout.layer + head * layout.head +
                                    position % shape.block_size * layout.token);
  }
  [[nodiscard]] double scale() const { return 1 / std::sqrt(static_cast<double>(shape.head_dim)); }
};

struct attention_result {
  std::vector<bf16> out;  // [token][query head][dimension]
  attention_counts counts;
};

/// Runs the kernels, as they run in a step.
/// @param shuffle the work list by a permutation made of it, unless 0
inline attention_result run_attention(const attention_case& c, attention_settings settings, std::size_t partials,
                                      std::uint64_t shuffle = 0) {
  namespace device = cuda_decode::device;
  device::stream stream;
  const cuda_decode::attention kernels{c.shape.head_dim};
  settings.group = c.shape.group;
  settings.kv_heads = c.shape.kv_heads;
  if (settings.blocks == 0) settings.blocks = kernels.blocks();
  std::int32_t longest = 1;
  bool decodes = true;
  for (const batch_row& r : c.rows) {
    longest = std::max(longest, r.first + r.count);
    decodes = decodes && r.count <= 1;
  }
  const auto most =
      cuda_decode::attention_bounds(settings, c.rows.size(), c.tokens(), static_cast<std::size_t>(longest), partials);
  const auto upload = [&](const auto& from) {
    using value = typename std::remove_cvref_t<decltype(from)>::value_type;
    const std::size_t n = std::max<std::size_t>(from.size(), 1);
    device::pinned<value> staging(n);
    std::copy(from.begin(), from.end(), staging.data());
    device::buffer<value> to(n);
    device::copy(stream, to.data(), staging.data(), from.size() * sizeof(value));
    stream.synchronize();
    return to;
  };
  attention_result result;
  std::vector<attention_item> items(most.items);
  std::vector<attention_merge> merges(most.merges);
  result.counts = cuda_decode::plan_attention(settings, c.rows, c.indptr, items, merges, most.partials);
  std::vector<std::uint32_t> order(static_cast<std::size_t>(result.counts.items));
  std::iota(order.begin(), order.end(), 0U);
  if (shuffle != 0) std::shuffle(order.begin(), order.end(), std::mt19937_64{shuffle});

  const std::int64_t heads = c.query_heads();
  const auto width = static_cast<std::size_t>(heads * c.shape.head_dim);
  const auto q = upload(c.q);
  const auto pool = upload(c.pool);
  const auto indices = upload(c.indices);
  const auto device_items = upload(items);
  const auto device_merges = upload(merges);
  const auto device_order = upload(order);
  const auto counts = upload(std::vector<std::int32_t>{result.counts.items, result.counts.merges});
  const auto claims = upload(std::vector<std::int32_t>{0, 0});
  const device::buffer<float> partial_out(std::max<std::size_t>(most.partials * width, 1));
  const device::buffer<float2> sums(std::max<std::size_t>(most.partials * static_cast<std::size_t>(heads), 1));
  const auto out = upload(std::vector<bf16>(c.tokens() * width, not_a_number));

  attention_args args;
  args.q = q.data();
  args.q_stride = c.q_stride;
  args.out = out.data();
  args.out_stride = static_cast<std::int64_t>(width);
  args.kv = pool.data() + c.layout.layer;
  args.layout = c.layout;
  args.indices = indices.data();
  args.items = device_items.data();
  args.merges = device_merges.data();
  args.counts = counts.data();
  if (shuffle != 0) args.order = device_order.data();
  args.claims = claims.data();
  args.partial_out = partial_out.data();
  args.partial_sums = sums.data();
  args.group = c.shape.group;
  args.kv_heads = c.shape.kv_heads;
  args.scale = static_cast<float>(c.scale());
  kernels(stream, args, decodes, result.counts.merges != 0);
  const auto unwritten = upload(std::vector<bf16>(c.tokens() * width, not_a_number));
  device::copy(stream, out.data(), unwritten.data(), c.tokens() * width * sizeof(bf16));
  kernels(stream, args, decodes, true);  // the claims are as before the first
  device::pinned<std::int32_t> claimed(2);
  device::copy(stream, claimed.data(), claims.data(), 2 * sizeof(std::int32_t));
  device::pinned<bf16> back(std::max<std::size_t>(c.tokens() * width, 1));
  device::copy(stream, back.data(), out.data(), c.tokens() * width * sizeof(bf16));
  stream.synchronize();
  if (claimed[0] != 0 || claimed[1] != 0) throw cuda_decode::device_error{"the claims are not what they were before"};
  result.out.assign(back.data(), back.data() + c.tokens() * width);
  return result;
}

/// The greatest error as a multiple of what rounding explains; infinity for NaN.
/// @param ahead how many keys too many or too few a query sees: a wrong reference
inline double attention_error(const attention_case& c, const std::vector<bf16>& out, std::int32_t ahead = 0) {
  const auto dim = static_cast<std::size_t>(c.shape.head_dim);
  const double half_ulp = 1.0 / 256;  // of bf16, relative
  double worst = 0;
  std::size_t token = 0;
  for (std::size_t i = 0; i < c.rows.size(); ++i) {
    for (std::int32_t n = 0; n < c.rows[i].count; ++n, ++token) {
      const std::int32_t seen = std::clamp(c.rows[i].first + n + 1 + ahead, 1, c.rows[i].first + c.rows[i].count);
      for (std::size_t h = 0; h < static_cast<std::size_t>(c.query_heads()); ++h) {
        const bf16* const q = &c.q[token * static_cast<std::size_t>(c.q_stride) + h * dim];
        const auto kv_head = static_cast<std::int32_t>(h) / c.shape.group;
        std::vector<double> scores;
        double greatest = -std::numeric_limits<double>::infinity();
        double magnitude = 0;
        for (std::int32_t p = 0; p < seen; ++p) {
          const bf16* const key = &c.pool[c.place(i, p, kv_head)];
          double s = 0;
          double absolute = 0;
          for (std::size_t d = 0; d < dim; ++d) {
            const double product = static_cast<double>(to_float(q[d])) * static_cast<double>(to_float(key[d]));
            s += product;
            absolute += std::abs(product);
          }
          scores.push_back(s * c.scale());
          magnitude = std::max(magnitude, absolute * c.scale());
          greatest = std::max(greatest, scores.back());
        }
        double sum = 0;
        std::vector<double> expected(dim);
        std::vector<double> weight(dim);  // what the errors of the weights are multiplied by
        for (std::int32_t p = 0; p < seen; ++p) {
          const double e = std::exp(scores[static_cast<std::size_t>(p)] - greatest);
          const bf16* const value = &c.pool[c.place(i, p, kv_head) + static_cast<std::size_t>(c.layout.value)];
          sum += e;
          for (std::size_t d = 0; d < dim; ++d) {
            expected[d] += e * static_cast<double>(to_float(value[d]));
            weight[d] += e * std::abs(static_cast<double>(to_float(value[d])));
          }
        }
        // Weights and the result are rounded to bf16, scores are sums of floats; the last term is for all other floats.
        const double of_scores = magnitude * static_cast<double>(dim) / (1 << 24);
        for (std::size_t d = 0; d < dim; ++d) {
          const double want = expected[d] / sum;
          const double explained = half_ulp * std::abs(want) + (half_ulp + 2 * of_scores + 1e-4) * weight[d] / sum;
          const double error = std::abs(
              static_cast<double>(to_float(out[(token * static_cast<std::size_t>(c.query_heads()) + h) * dim + d])) -
              want);
          worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error / explained);
        }
      }
    }
  }
  return worst;
}

}  // namespace test
