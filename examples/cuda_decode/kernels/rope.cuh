// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <decoder.hpp>
#include <kernels/kv_layout.hpp>
#include <kernels/vector.cuh>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

namespace cuda_decode {

/// Radians per position, of each pair of a head's dimensions. [head_dim / 2]
[[nodiscard]] inline std::vector<float> rope_frequencies(const model_shape& s) {
  std::vector<float> out;
  for (std::int32_t i = 0; i != s.head_dim / 2; ++i) {
    double f = std::pow(s.rope_theta, -2.0 * i / s.head_dim);
    if (s.rope_factor != 1) {
      // Waves that are short against the original context stay, long ones are stretched, between them it fades over.
      const double turns = s.rope_original_context * f / (2 * std::numbers::pi);
      const double keep = (turns - s.rope_low_frequency) / (s.rope_high_frequency - s.rope_low_frequency);
      const double share = keep < 0 ? 0 : keep > 1 ? 1 : keep;
      f = share * f + (1 - share) * f / s.rope_factor;
    }
    out.push_back(static_cast<float>(f));
  }
  return out;
}

/// What `rope_append` reads and writes.
struct rope_arrays {
  bf16* qkv;                      ///< [tokens][query heads + 2 x KV heads][HeadDim]; queries are turned in place
  const std::int32_t* positions;  ///< [tokens]
  const std::int32_t* slots;      ///< [tokens]: block x block_size + place in it; -1: nothing is done for this token
  const float* frequencies;       ///< [HeadDim / 2]
  bf16* kv;                       ///< The pool, at the layer.
  kv_layout layout;
};

inline constexpr int rope_threads = 128;

/// Turns the queries, and writes turned keys and values to their pages. There is a block for each token. A thread has 8
/// dimensions of a head's lower half and those in the upper half that they are paired with.
template <int HeadDim>
__global__ void rope_append(rope_arrays a, int query_heads, int kv_heads) {
  constexpr int half = HeadDim / 2;
  constexpr int parts = half / vector_size;
  static_assert(half <= rope_threads && rope_threads % parts == 0);
  __shared__ float2 turn[std::size_t{half}];  // cosine, sine
  const std::size_t token = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int32_t slot = a.slots[token];
  if (slot < 0) return;
  if (thread < half) {
    float sine = 0;
    float cosine = 0;
    sincosf(static_cast<float>(a.positions[token]) * a.frequencies[thread], &sine, &cosine);
    turn[thread] = make_float2(cosine, sine);
  }
  __syncthreads();
  const int first = thread % parts * vector_size;
  bf16* const page = a.kv + slot / a.layout.block_size * a.layout.block + slot % a.layout.block_size * a.layout.token;
  const int heads = query_heads + 2 * kv_heads;
  bf16* const row = a.qkv + token * static_cast<std::size_t>(heads) * HeadDim;
  for (int h = thread / parts; h < heads; h += rope_threads / parts) {
    bf16* const from = row + h * HeadDim + first;
    bf16x8 low = load(from);
    bf16x8 high = load(from + half);
    bf16* to = from;
    if (h >= query_heads) {
      const int kv_head = h - query_heads;
      to = page + first +
           (kv_head < kv_heads ? kv_head * a.layout.head : (kv_head - kv_heads) * a.layout.head + a.layout.value);
    }
    if (h < query_heads + kv_heads) {
      float x[vector_size];
      float y[vector_size];
      unpack(low, x);
      unpack(high, y);
      CUDA_DECODE_UNROLL
      for (int i = 0; i < vector_size; ++i) {
        const float2 t = turn[first + i];
        const float turned = x[i] * t.x - y[i] * t.y;
        y[i] = y[i] * t.x + x[i] * t.y;
        x[i] = turned;
      }
      low = pack(x);
      high = pack(y);
    }
    store(to, low);
    store(to + half, high);
  }
}

}  // namespace cuda_decode
