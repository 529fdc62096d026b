// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>
#include <tessera/sim/model/step_terms.hpp>

#include <cstdint>
#include <string>
#include <vector>

/// @file
/// The parts of an instance: a model and the hardware it runs on. Built-in ones: sim/model/profiles.hpp; the user's
/// own, as JSON: sim/model/profile_file.hpp.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// A decoder-only transformer with grouped-query attention.
struct model_spec {
  std::string name;               ///< For reports.
  double parameters = 0;          ///< All of them, embeddings included.
  std::int64_t layers = 0;        ///< Transformer layers.
  std::int64_t query_heads = 0;   ///< Attention heads of a layer.
  std::int64_t kv_heads = 0;      ///< Key and value heads of a layer.
  std::int64_t head_dim = 0;      ///< Numbers in a head.
  std::int64_t hidden_size = 0;   ///< Width of the activations between layers. 0: that of all query heads together.
  std::int64_t max_context = 0;   ///< Tokens of a prompt and its output, extensions included. 0: unknown.
  double bytes_per_weight = 2;    ///< 2: bf16, fp16.
  double bytes_per_kv_value = 2;  ///< 2 for 16-bit KV, 1 for 8-bit.
  /// For a mixture of experts: parameters that one token is multiplied with. 0: all of them.
  double active_parameters = 0;
  std::int64_t experts = 0;            ///< Routed experts of a layer. 0: a dense model.
  std::int64_t experts_per_token = 0;  ///< The number of these that a token is sent to.

  /// Size of the whole model.
  [[nodiscard]] double weight_bytes() const noexcept { return parameters * bytes_per_weight; }
  /// Parameters that one token is multiplied with.
  [[nodiscard]] double parameters_per_token() const noexcept {
    return active_parameters > 0 ? active_parameters : parameters;
  }
  /// Parameters of all routed experts together; 0 for a dense model. A token uses a proportional part.
  [[nodiscard]] double expert_parameters() const noexcept {
    if (experts <= experts_per_token) return 0;
    return (parameters - parameters_per_token()) * static_cast<double>(experts) /
           static_cast<double>(experts - experts_per_token);
  }
  /// Width of the activations between layers.
  [[nodiscard]] double hidden() const noexcept {
    return static_cast<double>(hidden_size > 0 ? hidden_size : query_heads * head_dim);
  }
  /// KV cache of one token: a key and a value per layer and KV head.
  [[nodiscard]] double kv_bytes_per_token() const noexcept {
    return 2 * static_cast<double>(layers * kv_heads * head_dim) * bytes_per_kv_value;
  }
  /// Operations of attention for one query token and one context token: a dot product and an accumulation.
  [[nodiscard]] double attention_flops_per_pair() const noexcept {
    return 4 * static_cast<double>(layers * query_heads * head_dim);
  }
};

/// One device.
struct gpu_spec {
  std::string name;                  ///< For reports.
  double flops = 0;                  ///< Dense peak at the model's precision, operations per second.
  double flops_efficiency = 1;       ///< Fraction of it that large matrix products reach.
  double bytes_per_s = 0;            ///< Memory bandwidth.
  double bandwidth_efficiency = 1;   ///< Fraction of it that reading weights and KV reaches.
  double memory_bytes = 0;           ///< Memory of one GPU.
  double usable_memory = 1;          ///< Fraction of the memory for weights and KV; the rest is activations.
  double launch_seconds = 0;         ///< Fixed cost of a step: kernel launches, sampling, the engine's own work.
  std::int64_t multiprocessors = 0;  ///< Their number; 0: unknown. `calibrate` uses it.
};

/// The connections of a device.
struct link_spec {
  double host_bytes_per_s = 0;    ///< Device to host memory, each way.
  double host_memory_bytes = 0;   ///< Host memory for swapped KV.
  double fabric_bytes_per_s = 0;  ///< Instance to instance.
};

/// The power of one device. Both 0: unknown.
struct power_spec {
  double idle_watts = 0;  ///< While it waits for work.
  double busy_watts = 0;  ///< During a step, on average.
};

/// How the decode attention kernel spreads a batch over the device. It cuts the KV of a sequence, for each KV head,
/// into chunks that multiprocessors work off. The number of chunks is set for the batch as a whole. So the chunks of
/// one long sequence among short ones are also long, and the device waits for the last of them (CascadeInfer, section
/// 2.3).
struct attention_spec {
  std::int64_t multiprocessors = 0;  ///< 0: every batch is spread perfectly.
  double splits = 1;                 ///< Chunks per sequence and KV head in a batch that fills the device. At least 1.
};

/// Measured step times, which replace the roofline's. Either table may be empty.
struct measured_times {
  /// A decode step of `batch` sequences with `context` tokens of KV each.
  struct decode_point {
    std::int64_t batch;    ///< Requests in the batch.
    std::int64_t context;  ///< Tokens of each.
    double seconds;        ///< Measured time of the step.
  };
  /// The prefill of one prompt of `length` tokens.
  struct prefill_point {
    std::int64_t length;  ///< Tokens of the prompt.
    double seconds;       ///< Measured time of the step.
  };
  /// By batch, then context. Each batch has contexts of its own: large batches do not fit with long ones.
  std::vector<decode_point> decode;
  std::vector<prefill_point> prefill;  ///< By length.
};

/// A model on a device.
struct profile {
  std::string name;            ///< As in `--profile`.
  model_spec model;            ///< The model that is served.
  gpu_spec gpu;                ///< The device.
  link_spec links;             ///< The connections of the GPUs and the host.
  measured_times measured;     ///< Measured step times; they replace the estimate where there are any.
  attention_spec attention{};  ///< How attention is estimated.
  step_terms terms{};          ///< Measured parts of a step's time beyond the roofline.
  parallel_spec parallel{};    ///< Devices that serve together.
  power_spec power{};          ///< The power of each of them.
  std::string source{};        ///< The source of the numbers, and their error.

  /// Bytes of KV that one token takes on all devices: with more devices than KV heads some hold copies.
  [[nodiscard]] double kv_bytes_per_token() const noexcept {
    const std::int64_t copies = (parallel.tensor + model.kv_heads - 1) / model.kv_heads;
    return model.kv_bytes_per_token() * static_cast<double>(parallel.tensor > model.kv_heads ? copies : 1);
  }
  /// Tokens of KV that fit beside the weights; at most 0 if the weights alone do not fit.
  [[nodiscard]] double kv_tokens() const noexcept {
    return (parallel.devices() * gpu.memory_bytes * gpu.usable_memory - model.weight_bytes()) / kv_bytes_per_token();
  }
  /// Whole blocks of `block_size` tokens of KV that fit beside the weights; at least 0.
  [[nodiscard]] blocks kv_blocks(tokens block_size) const noexcept {
    return whole(kv_tokens() / static_cast<double>(block_size.count()));
  }
  /// Whole blocks that fit in the host memory for swapped KV.
  [[nodiscard]] blocks host_blocks(tokens block_size) const noexcept {
    return whole(links.host_memory_bytes / (model.kv_bytes_per_token() * static_cast<double>(block_size.count())));
  }

 private:
  [[nodiscard]] static blocks whole(double n) noexcept {
    constexpr double most = 9e18;  // what 64 bits hold
    return blocks{static_cast<std::int64_t>(n > 0 ? (n < most ? n : most) : 0)};
  }
};

}  // namespace sim
TESSERA_NAMESPACE_END
