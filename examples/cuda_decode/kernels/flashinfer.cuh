// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#ifdef CUDA_DECODE_FLASHINFER

#  include <device/device.hpp>
#  include <kernels/attention.cuh>

#  include <flashinfer/attention/decode.cuh>
#  include <flashinfer/attention/default_decode_params.cuh>
#  include <flashinfer/attention/scheduler.cuh>
#  include <flashinfer/attention/variants.cuh>

#  include <cstddef>
#  include <cstdint>
#  include <string>

/// @file
/// FlashInfer's decode attention over the same pages, for comparison. Only if CUDA_DECODE_FLASHINFER is defined, which
/// TESSERA_FLASHINFER_INCLUDE does. For nvcc, with --expt-relaxed-constexpr and, before the toolkit's own, the folders
/// include, cccl/libcudacxx/include, cccl/cub and cccl/thrust of the wheel's flashinfer/data (-I, not -isystem).
/// Compiled with flashinfer-python 0.7.2.post1.

namespace cuda_decode {

/// For rows that decode. What it computes differs from `attention` in rounding, and depends on the batch.
template <int Dim>
class flashinfer_attention {
 public:
  /// Plans for a batch, as `operator()` needs before it; the plan serves all layers. Allocates on the host, and copies
  /// from pinned memory on the stream: let the stream be done before the next one.
  /// @param indptr [rows + 1], on the host
  /// @throws device_error
  void plan(device::stream& s, const std::int32_t* indptr, std::int32_t rows, std::int32_t group, std::int32_t kv_heads,
            std::int32_t block_size) {
    rows_ = rows;
    device::enqueue(s, [&](cudaStream_t native) {
      cudaError_t status = cudaErrorInvalidValue;
      const auto with = [&]<int Group>() {
        status = flashinfer::DecodePlan<Dim, no_positions, variant, params>(
            floats_.data(), floats_.size(), integers_.data(), staging_.data(), integers_.size(), plan_,
            const_cast<std::int32_t*>(indptr), static_cast<std::uint32_t>(rows),
            static_cast<std::uint32_t>(group * kv_heads), static_cast<std::uint32_t>(block_size), false, native,
            flashinfer::BatchDecodeWithPagedKVCacheWorkEstimationDispatched<Group, Dim, no_positions, variant, params>);
      };
      switch (group) {
        case 1: with.template operator()<1>(); break;
        case 2: with.template operator()<2>(); break;
        case 3: with.template operator()<3>(); break;
        case 4: with.template operator()<4>(); break;
        case 8: with.template operator()<8>(); break;
        default: break;
      }
      check(status);
    });
  }

  /// Enqueues the kernels. Requires: out_stride is query heads * Dim, for the output cannot have gaps.
  /// @param indptr [rows + 1], on the device
  /// @param last_page [rows], on the device: tokens in a sequence's last block, 1 to block_size
  /// @throws device_error
  void operator()(device::stream& s, const attention_args& a, const std::int32_t* indptr,
                  const std::int32_t* last_page) {
    using number = nv_bfloat16;
    auto* const kv = reinterpret_cast<number*>(const_cast<bf16*>(a.kv));
    const std::int64_t strides[]{a.layout.block, a.layout.head, a.layout.token};
    const auto integer = [&](std::int64_t offset) {
      return reinterpret_cast<std::int32_t*>(integers_.data() + offset);
    };
    params p;
    p.q = reinterpret_cast<number*>(const_cast<bf16*>(a.q));
    p.paged_kv = {static_cast<std::uint32_t>(a.kv_heads),
                  static_cast<std::uint32_t>(a.layout.block_size),
                  static_cast<std::uint32_t>(Dim),
                  static_cast<std::uint32_t>(rows_),
                  flashinfer::QKVLayout::kHND,
                  kv,
                  kv + a.layout.value,
                  strides,
                  const_cast<std::int32_t*>(a.indices),
                  const_cast<std::int32_t*>(indptr),
                  const_cast<std::int32_t*>(last_page)};
    p.o = reinterpret_cast<number*>(a.out);
    p.num_qo_heads = static_cast<std::uint32_t>(a.group * a.kv_heads);
    p.q_stride_n = static_cast<std::int32_t>(a.q_stride);
    p.q_stride_h = Dim;
    p.window_left = -1;
    p.sm_scale = a.scale;
    p.padded_batch_size = static_cast<std::uint32_t>(plan_.padded_batch_size);
    p.request_indices = integer(plan_.request_indices_offset);
    p.kv_tile_indices = integer(plan_.kv_tile_indices_offset);
    p.o_indptr = integer(plan_.o_indptr_offset);
    p.kv_chunk_size_ptr = integer(plan_.kv_chunk_size_ptr_offset);
    number* values = nullptr;
    float* sums = nullptr;
    if (plan_.split_kv) {
      values = reinterpret_cast<number*>(floats_.data() + plan_.v_offset);
      sums = reinterpret_cast<float*>(floats_.data() + plan_.s_offset);
    }
    device::enqueue(s, [&](cudaStream_t native) {
      check(flashinfer::BatchDecodeWithPagedKVCacheDispatched<Dim, no_positions, variant>(p, values, sums, false,
                                                                                          native));
    });
  }

 private:
  using params = flashinfer::BatchDecodeParams<nv_bfloat16, nv_bfloat16, nv_bfloat16, std::int32_t>;
  using variant = flashinfer::DefaultAttention<false, false, false, false>;
  static constexpr auto no_positions = flashinfer::PosEncodingMode::kNone;

  static void check(cudaError_t status) {
    if (status != cudaSuccess) throw device_error{std::string{"FlashInfer: "} + cudaGetErrorString(status)};
  }

  device::buffer<std::byte> floats_{std::size_t{128} << 20};
  device::buffer<std::byte> integers_{std::size_t{8} << 20};
  device::pinned<std::byte> staging_{std::size_t{8} << 20};
  flashinfer::DecodePlanInfo plan_;
  std::int32_t rows_ = 0;
};

}  // namespace cuda_decode

#endif
