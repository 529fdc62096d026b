// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// The boundary between the scheduler's side, which a plain compiler builds, and the device's side, which nvcc builds:
/// a batch goes in, tokens come out. Neither side includes a header of the other.

namespace cuda_decode {

/// The device, or the library that drives it, answered with something that must not happen.
class device_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// No device is here.
class no_device : public device_error {
 public:
  using device_error::device_error;
};

/// A decoder-only transformer of the Llama family: RMSNorm, rotary positions, grouped-query attention, gated SiLU.
struct model_shape {
  std::string name;
  std::int32_t layers = 0;
  std::int32_t hidden = 0;
  std::int32_t query_heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t feed_forward = 0;
  std::int32_t vocabulary = 0;
  bool tied_embeddings = false;  ///< The head's weights are those of the embedding.
  float norm_epsilon = 1e-5F;
  double rope_theta = 500000;
  // Llama 3's stretching of the low frequencies; factor 1: none.
  double rope_factor = 1;
  double rope_low_frequency = 1;
  double rope_high_frequency = 4;
  double rope_original_context = 8192;

  [[nodiscard]] std::int64_t parameters() const noexcept {
    const std::int64_t h = hidden;
    const std::int64_t attention = h * head_dim * (2 * query_heads + 2 * kv_heads);
    const std::int64_t per_layer = attention + 3 * h * feed_forward + 2 * h;
    return layers * per_layer + h + h * vocabulary * (tied_embeddings ? 1 : 2);
  }
  /// bf16 keys and values of one token in all layers.
  [[nodiscard]] std::int64_t kv_bytes_per_token() const noexcept {
    return std::int64_t{2} * 2 * layers * kv_heads * head_dim;
  }
};

/// The shapes that are known by name.
[[nodiscard]] inline const std::vector<model_shape>& model_shapes() {
  static const std::vector<model_shape> all{
      {.name = "tiny",
       .layers = 2,
       .hidden = 128,
       .query_heads = 6,
       .kv_heads = 2,
       .head_dim = 64,
       .feed_forward = 256,
       .vocabulary = 512,
       .tied_embeddings = true,
       .rope_theta = 10000},
      {.name = "llama-3.2-3b",
       .layers = 28,
       .hidden = 3072,
       .query_heads = 24,
       .kv_heads = 8,
       .head_dim = 128,
       .feed_forward = 8192,
       .vocabulary = 128256,
       .tied_embeddings = true,
       .rope_factor = 32},
      {.name = "llama-3.1-8b",
       .layers = 32,
       .hidden = 4096,
       .query_heads = 32,
       .kv_heads = 8,
       .head_dim = 128,
       .feed_forward = 14336,
       .vocabulary = 128256,
       .rope_factor = 8},
  };
  return all;
}

/// How attention spreads a batch over the device.
enum class split_policy {
  balanced,  ///< Every sequence is cut into chunks of the same length: long ones into more. The default.
  uniform,   ///< As published kernels do: one number of chunks for all sequences of a batch, so that long ones have
             ///< long chunks (CascadeInfer, section 2.3).
};

/// How large a decoder is.
struct decoder_options {
  model_shape shape;
  std::uint64_t seed = 1;           ///< Seed of random weights.
  std::string weights;              ///< A folder with safetensors files, or one such file; empty: random weights.
  std::size_t kv_blocks = 0;        ///< Blocks on the device. 0: as many as fit next to the rest.
  std::size_t host_blocks = 0;      ///< Blocks in pinned host memory.
  std::int32_t block_size = 16;     ///< Tokens in a block: a multiple of 16.
  std::size_t max_rows = 256;       ///< Most sequences in a step.
  std::size_t max_tokens = 8192;    ///< Most tokens computed in a step.
  std::size_t max_context = 32768;  ///< Most tokens of a sequence.
  std::size_t in_flight = 1;        ///< Most steps that are launched and not waited for.
  bool graphs = true;               ///< Decode-only steps run as CUDA graphs.
  split_policy split = split_policy::balanced;
};

/// One sequence's share of a step.
struct batch_row {
  std::int32_t first = 0;  ///< Tokens with KV that is there already.
  std::int32_t count = 0;  ///< Tokens to compute.
  bool samples = false;    ///< The last one's logits are needed.
};

/// A block that changes place between the device and the host.
struct block_copy {
  std::uint32_t device = 0;
  std::uint32_t host = 0;
};

/// A block that is copied on the device.
struct device_copy {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};

/// What one step computes. Nothing is referred to after `launch` or `step` has returned.
struct step_batch {
  std::span<const std::int32_t> tokens;    ///< Tokens of all rows, one row after the other. -1 - i: what the i-th
                                           ///< sampling row of the step before, in flight, samples.
  std::span<const batch_row> rows;         ///< In any order.
  std::span<const std::int32_t> indptr;    ///< [rows + 1]: the block table, as in `kv::csr_view`.
  std::span<const std::int32_t> indices;   ///< [indptr[rows]]: device blocks, in the order of the sequences.
  std::span<const block_copy> swap_out{};  ///< After `copies`,
  std::span<const device_copy> copies{};   ///< First of all; then `swap_out`,
  std::span<const block_copy> swap_in{};   ///< then these, then the kernels.
};

/// Where a step's time went. Device times are those of the device's clock.
struct step_times {
  double swap = 0;     ///< KV blocks, both ways.
  double upload = 0;   ///< Tokens, block table and work list to the device.
  double sort = 0;     ///< Attention's work list, longest first.
  double kernels = 0;  ///< The transformer.
  double host = 0;     ///< What the host did to prepare the upload, on its clock.
};

/// What a step came to; valid until the next is launched.
struct step_result {
  std::span<const std::int32_t> sampled;  ///< The most likely token of each row that samples, in the rows' order.
  step_times times;
};

/// What a decoder runs on, and what fits.
struct decoder_facts {
  std::string device;
  std::int32_t multiprocessors = 0;
  double memory_bytes = 0;
  std::size_t kv_blocks = 0;
  std::size_t host_blocks = 0;
  bool emulated = false;  ///< No device: kernels run on the host, thread by thread.
};

/// One model on one device. One thread.
class decoder {
 public:
  virtual ~decoder() = default;
  decoder(const decoder&) = delete;
  decoder& operator=(const decoder&) = delete;

  [[nodiscard]] virtual decoder_facts facts() const = 0;
  /// Enqueues a step behind those before, and does not wait. A batch without rows only copies blocks. Fewer than
  /// `in_flight` may be launched and not waited for. @throws device_error: nothing is in flight any more, then
  virtual void launch(const step_batch& batch) = 0;
  /// Waits for the oldest step in flight. @throws device_error, as `launch`
  virtual step_result wait() = 0;
  /// Runs a step, where none is in flight. @throws device_error
  step_result step(const step_batch& batch) {
    launch(batch);
    return wait();
  }
  /// Logits of the i-th row that sampled in the last step, for tests. None may be in flight. [vocabulary]
  [[nodiscard]] virtual std::vector<float> logits(std::size_t i) = 0;
  /// Bytes per second that a plain copy on the device reads and writes together; no step may be in flight, as for the
  /// next two. @throws device_error
  [[nodiscard]] virtual double copy_bandwidth() = 0;
  /// Seconds of the attention kernel alone, one layer, for rows that decode. @throws device_error
  [[nodiscard]] virtual double attention_seconds(const step_batch& batch) = 0;
  /// The same of FlashInfer's kernels, to compare; 0 if they were not compiled in (TESSERA_FLASHINFER_INCLUDE).
  /// @throws device_error
  [[nodiscard]] virtual double flashinfer_seconds(const step_batch& /*batch*/) { return 0; }
  /// Chooses how attention splits from the next step on.
  virtual void split(split_policy p) = 0;

 protected:
  decoder() = default;
};

/// Implemented once for a GPU and once for the emulated device; a program links one of them.
/// @throws device_error (also for options that are invalid or do not fit), no_device, weights_error (safetensors.hpp),
/// std::bad_alloc
[[nodiscard]] std::unique_ptr<decoder> make_decoder(const decoder_options& options);

}  // namespace cuda_decode
