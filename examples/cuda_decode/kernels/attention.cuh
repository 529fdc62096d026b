// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <device/bf16.hpp>
#include <device/device.hpp>
#include <kernels/attention_plan.hpp>
#include <kernels/kv_layout.hpp>
#include <kernels/mma.cuh>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

/// @file
/// Attention over paged keys and values, for queries that share KV heads in groups: prefill and decode, in one launch.
///
/// A block of four warps takes items of the work list (attention_plan.hpp) one after the other. Stages of 64 keys and
/// values go from the pages to shared memory. The next stage is on its way while one is computed, and several blocks
/// share a multiprocessor. The rows of the tensor cores' products are (query, head) pairs of one KV head. In a narrow
/// item the warps share 16 rows. Each has a quarter of the keys for the scores, then a quarter of the values'
/// dimensions. In a wide one each has 16 rows of its own. Either way a row goes through the same operations in the same
/// order. So the result of a query depends on its own sequence alone, not on how prefill was cut.

namespace cuda_decode {

/// What the kernels read and write; the same struct for both. Device pointers.
struct attention_args {
  const bf16* q = nullptr;    ///< The first query head of the first token of the batch; heads are consecutive.
  bf16* out = nullptr;        ///< Likewise. Only what the work list names is written.
  std::int64_t q_stride = 0;  ///< From a token to the next, in numbers: multiples of 2.
  std::int64_t out_stride = 0;
  const bf16* kv = nullptr;  ///< The pool, at the layer: pool + layer * layout.layer. Aligned to 16 bytes.
  kv_layout layout;
  const std::int32_t* indices = nullptr;  ///< Indices of the block table.
  const attention_item* items = nullptr;
  const attention_merge* merges = nullptr;
  const std::int32_t* counts = nullptr;  ///< [2]: items, merges. On the device, so that a graph serves any batch.
  const std::uint32_t* order = nullptr;  ///< [items]: a permutation, or null.
  std::int32_t* claims = nullptr;        ///< [2]: zero before the first launch, and after each again.
  float* partial_out = nullptr;          ///< [partials][query heads][head_dim]
  float2* partial_sums = nullptr;        ///< [partials][query heads]: greatest score, sum of the weights.
  std::int32_t group = 1;
  std::int32_t kv_heads = 1;
  float scale = 1;  ///< Scale of the scores: 1 / sqrt(head_dim).
};

inline constexpr int attention_threads = 128;

namespace detail {

inline constexpr int attention_warps = attention_threads / 32;
inline constexpr int stage_tiles = attention_stage / kv_tile;
inline constexpr int known_tiles = 32;  // tiles that are looked up in the pool at a time
inline constexpr int known_stages = known_tiles / stage_tiles;
inline constexpr float log2_e = 1.44269504F;
inline constexpr int score_stride = attention_stage + 8;  // so that a quarter warp's 8-byte accesses differ in banks

template <int Dim>
struct alignas(1024) attention_memory {
  bf16 keys[std::size_t{attention_stage * Dim}];
  bf16 values[std::size_t{attention_stage * Dim}];
  float scores[narrow_rows * score_stride];
  std::int64_t places[2 * known_tiles];
  attention_item item;
  std::int32_t head;  // of the keys
  std::int32_t next;
};

// The same number, of which the compiler knows nothing: what follows from it is not kept in registers for the next
// time.
__device__ inline int forgotten(int x) {
#ifdef __CUDACC__
  asm volatile("" : "+r"(x));
#endif
  return x;
}

__device__ inline float negative_infinity() { return -INFINITY; }

__device__ inline float2 as_pair(const float* p) { return *reinterpret_cast<const float2*>(p); }
__device__ inline void set_pair(float* p, float x, float y) { *reinterpret_cast<float2*>(p) = make_float2(x, y); }

// Two sets of keys: what each set's sums are multiplied by, when all weights shall refer to the greater maximum.
struct merge_weights {
  float maximum;
  float a;
  float b;
};
__device__ inline merge_weights weigh(float a, float b, float scale) {
  const float maximum = fmaxf(a, b);
  const float base = maximum == negative_infinity() ? 0.0F : maximum;
  return {maximum, exp2_fast((a - base) * scale), exp2_fast((b - base) * scale)};
}
__device__ inline float merge(float x, float y, const merge_weights& w) { return fmaf(x, w.a, y * w.b); }

// One item. A lane has row g = lane / 4 of its warp's 16 and, if `Upper`, g + 8. It has columns 2t and 2t + 1 of
// accumulators, with t = lane % 4. Without `Upper` an item has one query.
template <int Dim, bool Wide, bool Upper>
struct attention_worker {
  static constexpr int vectors = Dim / 8;  // 16-byte pieces of a token's keys
  static constexpr int steps = Dim / 16;   // products of 16 along the dimensions
  static constexpr int key_tiles = Wide ? attention_stage / 8 : attention_stage / 8 / attention_warps;
  static constexpr int out_tiles = Wide ? Dim / 8 : Dim / 8 / attention_warps;
  static constexpr int halves = Upper ? 2 : 1;
  static constexpr int token_step = attention_threads / vectors;
  static constexpr int copies_each = attention_stage / token_step;

  const attention_args& args;
  attention_memory<Dim>& memory;
  const attention_item& item = memory.item;

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4;
  const int t = lane % 4;
  const float scale = args.scale * log2_e;
  async_copies copies{};

  int query[2];  // of the item: that of each row
  std::uint32_t q[std::size_t{steps}][4];
  float out[std::size_t{out_tiles}][4];
  float maximum[2];
  float sum[2];
  float total[std::size_t{out_tiles}][4];
  float total_maximum[2];
  float total_sum[2];

  __device__ attention_worker(const attention_args& a, attention_memory<Dim>& m) : args{a}, memory{m} {}

  [[nodiscard]] __device__ int row(int half) const { return (Wide ? warp * 16 : 0) + g + 8 * half; }
  // Index of a row's head among all query heads.
  [[nodiscard]] __device__ int query_head(int half) const { return memory.head * args.group + row(half) % args.group; }

  // Whether it is not padding.
  [[nodiscard]] __device__ bool live(int half) const {
    return Upper ? query[half] < item.queries : half == 0 && g < args.group;
  }

  // Where the tiles from `first` on are in the pool, done by one warp.
  __device__ void look_up(int first) {
    const int tile = first + lane;
    std::int64_t place = 0;
    if (item.begin + tile * kv_tile < item.end) {
      const auto absolute = static_cast<std::uint32_t>(item.begin / kv_tile + tile);
      const auto block = static_cast<std::uint32_t>(static_cast<std::uint64_t>(absolute) * args.layout.inverse >> 31);
      const auto tiles = static_cast<std::uint32_t>(args.layout.block_size / kv_tile);
      place = args.indices[item.table + static_cast<std::int32_t>(block)] * args.layout.block +
              memory.head * args.layout.head +
              static_cast<std::int64_t>((absolute - block * tiles) * kv_tile) * args.layout.token;
    }
    memory.places[tile % (2 * known_tiles)] = place;
  }

  // A piece's place within a stage. Eight consecutive tokens have their equal pieces in different banks.
  [[nodiscard]] __device__ static int swizzled(int token, int vector) {
    return token * Dim + 8 * (vector ^ (token & 7));
  }

  __device__ void fetch(bf16* to, std::int64_t offset, int stage) {
    const int thread = forgotten(static_cast<int>(threadIdx.x));
    const int vector = thread % vectors;
    const int token = thread / vectors;
    const std::int64_t* const places = memory.places + stage * stage_tiles % (2 * known_tiles);
    const bf16* from[std::size_t{stage_tiles}];
    CUDA_DECODE_UNROLL
    for (int i = 0; i < stage_tiles; ++i) {
      from[i] = args.kv + offset + places[i] + (token * static_cast<std::int32_t>(args.layout.token) + 8 * vector);
    }
    const int left = item.end - item.begin - stage * attention_stage;
    CUDA_DECODE_UNROLL
    for (int i = 0; i < copies_each; ++i) {
      const int n = i * token_step;
      copies.copy(to + swizzled(token + n, vector), from[n / kv_tile] + n % kv_tile * args.layout.token,
                  token + n < left);
    }
  }

  __device__ void fetch_queries() {
    CUDA_DECODE_UNROLL
    for (int half = 0; half < 2; ++half) {
      query[half] = Upper ? row(half) / args.group : 0;
      const bool real = live(half);
      const bf16* const from = args.q + (item.token + query[half]) * args.q_stride + query_head(half) * Dim + 2 * t;
      CUDA_DECODE_UNROLL
      for (int k = 0; k < steps; ++k) {
        q[k][half] = real ? *reinterpret_cast<const std::uint32_t*>(from + 16 * k) : 0;
        q[k][half + 2] = real ? *reinterpret_cast<const std::uint32_t*>(from + 16 * k + 8) : 0;
      }
    }
  }

  // Scores of this warp's keys, those behind a row's query being masked.
  __device__ void score(float (&s)[std::size_t{key_tiles}][4], int stage) {
    const int first = Wide ? 0 : warp * (attention_stage / attention_warps);
    const int l = Wide ? forgotten(lane) : lane;
    const int token = first + (l & 7) + (l >> 4) * 8;
    const int vector = l >> 3 & 1;
    CUDA_DECODE_UNROLL
    for (int n = 0; n < key_tiles; n += 2) {
      CUDA_DECODE_UNROLL
      for (int i = 0; i < 4; ++i) s[n][i] = s[n + 1][i] = 0;
      CUDA_DECODE_UNROLL
      for (int k = 0; k < steps; ++k) {
        std::uint32_t b[4];
        load_matrices(b, memory.keys + swizzled(token + 8 * n, vector + 2 * k));
        multiply_add(s[n], q[k], b[0], b[1]);
        multiply_add(s[n + 1], q[k], b[2], b[3]);
      }
    }
    const int from = item.begin + stage * attention_stage;
    if (from + attention_stage - 1 <= item.position) return;
    CUDA_DECODE_UNROLL
    for (int half = 0; half < halves; ++half) {
      const int seen = item.position + query[half] - from - first - 2 * t;
      CUDA_DECODE_UNROLL
      for (int n = 0; n < key_tiles; ++n) {
        if (8 * n > seen) s[n][2 * half] = negative_infinity();
        if (8 * n + 1 > seen) s[n][2 * half + 1] = negative_infinity();
      }
    }
  }

  // All warps get all scores.
  __device__ void show(const float (&s)[std::size_t{key_tiles}][4]) {
    CUDA_DECODE_UNROLL
    for (int half = 0; half < halves; ++half) {
      float* const to = memory.scores + row(half) * score_stride + warp * (attention_stage / attention_warps) + 2 * t;
      CUDA_DECODE_UNROLL
      for (int n = 0; n < key_tiles; ++n) set_pair(to + 8 * n, s[n][2 * half], s[n][2 * half + 1]);
    }
  }
  __device__ void see(float (&s)[attention_stage / 8][4]) {
    CUDA_DECODE_UNROLL
    for (int half = 0; half < halves; ++half) {
      const float* const from = memory.scores + row(half) * score_stride + 2 * t;
      CUDA_DECODE_UNROLL
      for (int n = 0; n < attention_stage / 8; ++n) {
        const float2 pair = as_pair(from + 8 * n);
        s[n][2 * half] = pair.x;
        s[n][2 * half + 1] = pair.y;
      }
    }
  }

  // Scores become weights relative to the greatest so far, as the first operand of the product with the values.
  __device__ void weigh_stage(float (&s)[attention_stage / 8][4], std::uint32_t (&p)[attention_stage / 16][4]) {
    CUDA_DECODE_UNROLL
    for (int half = 0; half < 2; ++half) {
      if (half >= halves) {
        CUDA_DECODE_UNROLL
        for (int k = 0; k < attention_stage / 16; ++k) p[k][half] = p[k][half + 2] = 0;
        continue;
      }
      float greatest = fmaxf(s[0][2 * half], s[0][2 * half + 1]);
      CUDA_DECODE_UNROLL
      for (int n = 1; n < attention_stage / 8; ++n) {
        greatest = fmaxf(greatest, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
      }
      greatest = fmaxf(greatest, __shfl_xor_sync(0xffff'ffffU, greatest, 1));
      greatest = fmaxf(greatest, __shfl_xor_sync(0xffff'ffffU, greatest, 2));
      greatest = fmaxf(greatest, maximum[half]);
      const float base = greatest == negative_infinity() ? 0.0F : greatest;
      const float shrink = exp2_fast((maximum[half] - base) * scale);
      maximum[half] = greatest;
      float even = 0;
      float odd = 0;
      CUDA_DECODE_UNROLL
      for (int n = 0; n < attention_stage / 8; ++n) {
        // The difference first: great scores are rounded when they are scaled, their small differences are exact.
        const float x = exp2_fast((s[n][2 * half] - base) * scale);
        const float y = exp2_fast((s[n][2 * half + 1] - base) * scale);
        even += x;
        odd += y;
        p[n / 2][half + n % 2 * 2] = pack_bf16(x, y);
      }
      sum[half] = fmaf(sum[half], shrink, even + odd);
      CUDA_DECODE_UNROLL
      for (int n = 0; n < out_tiles; ++n) {
        out[n][2 * half] *= shrink;
        out[n][2 * half + 1] *= shrink;
      }
    }
  }

  __device__ void add_values(const std::uint32_t (&p)[attention_stage / 16][4]) {
    const int first = Wide ? 0 : warp * out_tiles;
    const int l = Wide ? forgotten(lane) : lane;
    CUDA_DECODE_UNROLL
    for (int k = 0; k < attention_stage / 16; ++k) {
      CUDA_DECODE_UNROLL
      for (int n = 0; n < out_tiles; n += 2) {
        std::uint32_t b[4];
        load_matrices_transposed(b, memory.values + swizzled(16 * k + (l & 15), first + n + (l >> 4)));
        multiply_add(out[n], p[k], b[0], b[1]);
        multiply_add(out[n + 1], p[k], b[2], b[3]);
      }
    }
  }

  __device__ void clear(float (&o)[std::size_t{out_tiles}][4], float (&m)[2], float (&l)[2]) {
    m[0] = m[1] = negative_infinity();
    l[0] = l[1] = 0;
    CUDA_DECODE_UNROLL
    for (int n = 0; n < out_tiles; ++n) {
      CUDA_DECODE_UNROLL
      for (int i = 0; i < 4; ++i) o[n][i] = 0;
    }
  }

  // The sums of a chunk join those of the chunks before it, and begin anew.
  __device__ void end_chunk() {
    CUDA_DECODE_UNROLL
    for (int half = 0; half < halves; ++half) {
      sum[half] += __shfl_xor_sync(0xffff'ffffU, sum[half], 1);
      sum[half] += __shfl_xor_sync(0xffff'ffffU, sum[half], 2);
      const merge_weights w = weigh(total_maximum[half], maximum[half], scale);
      total_maximum[half] = w.maximum;
      total_sum[half] = merge(total_sum[half], sum[half], w);
      CUDA_DECODE_UNROLL
      for (int n = 0; n < out_tiles; ++n) {
        CUDA_DECODE_UNROLL
        for (int i = 2 * half; i < 2 * half + 2; ++i) total[n][i] = merge(total[n][i], out[n][i], w);
      }
    }
    clear(out, maximum, sum);
  }

  __device__ void run() {
    if (warp == 0) look_up(0);
    __syncthreads();
    fetch(memory.keys, 0, 0);
    copies.commit();
    fetch(memory.values, args.layout.value, 0);
    copies.commit();
    // Claims the block's next item, while the first keys are on their way.
    if (threadIdx.x == 0) memory.next = atomicAdd(args.claims, 1) + static_cast<int>(gridDim.x);
    fetch_queries();
    clear(out, maximum, sum);
    clear(total, total_maximum, total_sum);

    const int stages = (item.end - item.begin + attention_stage - 1) / attention_stage;
    // Stages with a key that any of the warp's rows sees: later stages would leave its sums as they are.
    int seen_stages = stages;
    if constexpr (Wide) {
      const int rows = item.queries * args.group;
      const int last_row = warp * 16 + 15 < rows ? warp * 16 + 15 : rows - 1;
      const int keys = item.position + last_row / args.group + 1 - item.begin;
      seen_stages = warp * 16 < rows ? (keys + attention_stage - 1) / attention_stage : 0;
    }
    int chunk_left = item.chunk;
    for (int stage = 0; stage < stages; ++stage) {
      const bool more = stage + 1 < stages;
      const bool sees = !Wide || stage < seen_stages;
      float s[attention_stage / 8][4];
      std::uint32_t p[attention_stage / 16][4];

      copies.wait<1>();
      __syncthreads();
      if (stage % known_stages == 0 && stage + known_stages < stages && warp == 0) {
        look_up((stage + known_stages) * stage_tiles);
      }
      if constexpr (Wide) {
        if (sees) score(s, stage);
      } else {
        float own[std::size_t{key_tiles}][4];
        score(own, stage);
        show(own);
      }
      __syncthreads();
      if (more) fetch(memory.keys, 0, stage + 1);
      copies.commit();
      if constexpr (!Wide) see(s);
      if (sees) weigh_stage(s, p);
      copies.wait<1>();
      __syncthreads();
      if (sees) add_values(p);
      __syncthreads();
      if (more) fetch(memory.values, args.layout.value, stage + 1);
      copies.commit();

      chunk_left -= attention_stage;
      if (chunk_left > 0 && more) continue;
      chunk_left = item.chunk;
      end_chunk();
    }
    store();
  }

  __device__ void store() {
    const int thread = forgotten(static_cast<int>(threadIdx.x));
    const int dim = (Wide ? 0 : thread / 32 * out_tiles * 8) + 2 * (thread % 4);
    CUDA_DECODE_UNROLL
    for (int half = 0; half < halves; ++half) {
      if (!live(half)) continue;
      if (item.partial < 0) {
        const float inverse = 1.0F / total_sum[half];
        bf16* const to = args.out + (item.token + query[half]) * args.out_stride +
                         static_cast<std::int64_t>(query_head(half)) * Dim + dim;
        CUDA_DECODE_UNROLL
        for (int n = 0; n < out_tiles; ++n) {
          *reinterpret_cast<std::uint32_t*>(to + 8 * n) =
              pack_bf16(total[n][2 * half] * inverse, total[n][2 * half + 1] * inverse);
        }
      } else {
        const std::int64_t slot =
            static_cast<std::int64_t>(item.partial + query[half]) * (args.kv_heads * args.group) + query_head(half);
        if (dim == 0) args.partial_sums[slot] = make_float2(total_maximum[half], total_sum[half]);
        float* const to = args.partial_out + slot * Dim + dim;
        CUDA_DECODE_UNROLL
        for (int n = 0; n < out_tiles; ++n) set_pair(to + 8 * n, total[n][2 * half], total[n][2 * half + 1]);
      }
    }
  }
};

}  // namespace detail

/// `Decodes`: every item has one query. Otherwise any items.
template <int Dim, bool Decodes>
__global__ void __launch_bounds__(attention_threads, Decodes ? 4 : 2) attend(attention_args args) {
  __shared__ detail::attention_memory<Dim> memory;
  int unit = static_cast<int>(blockIdx.x);
  while (unit < args.counts[0] * args.kv_heads) {
    if (threadIdx.x == 0) {
      const int number = unit / args.kv_heads;
      memory.item = args.items[args.order == nullptr ? number : static_cast<int>(args.order[number])];
      memory.head = unit % args.kv_heads;
    }
    __syncthreads();
    if constexpr (Decodes) {
      detail::attention_worker<Dim, false, false>{args, memory}.run();
    } else if (memory.item.queries * args.group <= narrow_rows) {
      detail::attention_worker<Dim, false, true>{args, memory}.run();
    } else {
      detail::attention_worker<Dim, true, true>{args, memory}.run();
    }
    unit = memory.next;
    __syncthreads();
  }
  if (threadIdx.x == 0 && atomicAdd(args.claims + 1, 1) == static_cast<int>(gridDim.x) - 1) {  // the last one
    args.claims[0] = 0;
    args.claims[1] = 0;
  }
}

/// Adds up what items left in parts: a warp for each query and head, any grid.
template <int Dim>
__global__ void __launch_bounds__(attention_threads) merge_attention(attention_args args) {
  constexpr int each = Dim / 32;
  struct alignas(each * sizeof(float)) piece {
    float of[std::size_t{each}];
  };
  const int heads = args.kv_heads * args.group;
  const int units = args.counts[1] * heads;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warps = static_cast<int>(gridDim.x) * detail::attention_warps;
  const float scale = args.scale * detail::log2_e;
  for (int unit = static_cast<int>(blockIdx.x) * detail::attention_warps + static_cast<int>(threadIdx.x) / 32;
       unit < units; unit += warps) {
    const attention_merge m = args.merges[unit / heads];
    const int head = unit % heads;
    float out[std::size_t{each}] = {};
    float maximum = detail::negative_infinity();
    float sum = 0;
#ifdef __CUDACC__
#  pragma unroll 4
#endif
    for (int c = 0; c < m.chunks; ++c) {
      const std::int64_t slot = static_cast<std::int64_t>(m.partial + c * m.stride) * heads + head;
      const float2 sums = args.partial_sums[slot];
      const piece x = *reinterpret_cast<const piece*>(args.partial_out + slot * Dim + lane * each);
      const detail::merge_weights w = detail::weigh(maximum, sums.x, scale);
      CUDA_DECODE_UNROLL
      for (int i = 0; i < each; ++i) out[i] = detail::merge(out[i], x.of[i], w);
      sum = detail::merge(sum, sums.y, w);
      maximum = w.maximum;
    }
    const float inverse = 1.0F / sum;
    bf16* const to = args.out + m.token * args.out_stride + static_cast<std::int64_t>(head) * Dim + lane * each;
    CUDA_DECODE_UNROLL
    for (int i = 0; i < each; i += 2) {
      *reinterpret_cast<std::uint32_t*>(to + i) = pack_bf16(out[i] * inverse, out[i + 1] * inverse);
    }
  }
}

/// Launches the kernels for one head_dim.
class attention {
 public:
  /// @throws device_error unless head_dim is 64 or 128
  explicit attention(std::int32_t head_dim) {
    if (head_dim == 64) {
      choose<64>();
    } else if (head_dim == 128) {
      choose<128>();
    } else {
      throw device_error{"attention is made for heads of 64 or 128, not of " + std::to_string(head_dim)};
    }
  }

  /// Blocks of threads that run at a time on all of the device when rows decode: `attention_settings::blocks`.
  [[nodiscard]] std::int32_t blocks() const noexcept { return decode_grid_; }

  /// Enqueues the attention kernel and, if `merges`, the merge kernel (which does nothing if counts[1] is 0: say true
  /// when capturing a graph).
  /// @param decodes every row computes one token
  void operator()(device::stream& s, const attention_args& args, bool decodes, bool merges) const {
    launch(s, decodes ? decode_ : mixed_, decodes ? decode_grid_ : mixed_grid_, args);
    if (merges) launch(s, merge_, merge_grid_, args);
  }

  /// Seconds of one run, mean of `runs`. Waits.
  [[nodiscard]] double seconds(device::stream& s, const attention_args& args, bool decodes, bool merges,
                               int runs) const {
    device::event from;
    device::event to;
    from.record(s);
    for (int i = 0; i < runs; ++i) (*this)(s, args, decodes, merges);
    to.record(s);
    to.synchronize();
    return device::seconds_between(from, to) / runs;
  }

 private:
  using kernel = void (*)(attention_args);

  template <int Dim>
  void choose() {
    decode_ = attend<Dim, true>;
    mixed_ = attend<Dim, false>;
    merge_ = merge_attention<Dim>;
    prefer_shared_memory(decode_);
    prefer_shared_memory(mixed_);
    decode_grid_ = device::resident_blocks(decode_, attention_threads);
    mixed_grid_ = device::resident_blocks(mixed_, attention_threads);
    merge_grid_ = device::resident_blocks(merge_, attention_threads);
  }

  // Over cache: a hint, so that as many blocks fit as registers allow.
  static void prefer_shared_memory([[maybe_unused]] kernel k) {
#ifdef __CUDACC__
    device::detail::check(
        cudaFuncSetAttribute(reinterpret_cast<const void*>(k), cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared),
        "cudaFuncSetAttribute");
#endif
  }

  static void launch(device::stream& s, kernel k, std::int32_t grid, const attention_args& args) {
    device::launch(s, k, dim3(static_cast<unsigned>(grid)), dim3(attention_threads), args);
  }

  kernel decode_ = nullptr;
  kernel mixed_ = nullptr;
  kernel merge_ = nullptr;
  std::int32_t decode_grid_ = 0;
  std::int32_t mixed_grid_ = 0;
  std::int32_t merge_grid_ = 0;
};

}  // namespace cuda_decode
