// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <decoder.hpp>
#include <device/device.hpp>
#include <kernels/random.cuh>
#include <safetensors.hpp>
#include <weights.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// How the weights of a model come to the device.

namespace cuda_decode {

/// Weights that are drawn, where there is no checkpoint.
inline void make_weights(device::stream& main, const decoder_options& options, const weight_layout& layout,
                         bf16* weights) {
  constexpr std::size_t threads = 256;
  for (std::size_t i = 0; i != layout.tensors.size(); ++i) {
    const weight_tensor& t = layout.tensors[i];
    const auto blocks =
        static_cast<unsigned>(std::min<std::size_t>((t.size() / vector_size + threads - 1) / threads, 4096));
    device::launch(main, fill_random<random_numbers>, blocks, threads, weights + t.offset, t.size(),
                   random_tensor(options.seed, i, t.mean(), t.spread()));
  }
}

/// Weights from the files of a checkpoint. @throws as `checkpoint`
inline void load_weights(device::stream& main, const decoder_options& options, const weight_layout& layout,
                         bf16* weights) {
  checkpoint files{options.weights};
  const device::pinned<std::byte> piece{std::size_t{32} << 20};
  for (const weight_tensor& t : layout.tensors) {
    bf16* to = weights + t.offset;
    for (const tensor_part& part : t.parts) {
      const std::array<std::int64_t, 2> matrix{part.rows, t.columns};
      const auto& found = files.find(part.name, t.norm ? std::span{matrix}.subspan(1) : std::span{matrix});
      for (std::uint64_t at = 0; at != found.end - found.begin;) {
        const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), found.end - found.begin - at));
        files.read(found, at, {piece.data(), n});
        device::copy(main, to, piece.data(), n);
        main.synchronize();
        to += n / sizeof(bf16);
        at += n;
      }
    }
  }
}

}  // namespace cuda_decode
