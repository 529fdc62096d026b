// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <cstdint>

/// @file
/// Measured parts of step times beyond three numbers (arithmetic, bandwidth, launch), and devices that share a model.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// Terms of a step's time, each neutral by default, so that a profile without them is the plain roofline of
/// `step_timer`. Measurements decide which of them an engine needs: `calibrate` fits all of them to measured steps.
///
/// The values named below are from measurements by others: A100, H100 (ai-dynamo/aiconfigurator), RTX 4090, RTX PRO
/// 6000 under vLLM 0.19 (casys-kaist/LLMServingSim). The effect of each is in docs/results/fidelity.
struct step_terms {
  /// Fraction of the peak memory bandwidth that attention reaches on KV, in decode steps. 0: as on weights. Attention
  /// is a kernel of its own: 0.8 to 1.0 where matrix products reached 0.75 to 0.9. Matters with long contexts.
  double kv_bandwidth_efficiency = 0;
  /// Fraction of the peak arithmetic that attention reaches on prompts. 0: as matrix products. 0.4 to 0.8 were
  /// measured. Matters from prompts of some thousand tokens on.
  double attention_flops_efficiency = 0;
  /// How soft the knee of the matrix products is, where they turn from reading weights to arithmetic. Their time is
  /// (weights^k + arithmetic^k)^(1/k). 0: the larger of the two, a sharp knee (k without bound). It was 10 to 29 % too
  /// fast at 64 to 256 tokens a step. 2.5 to 4.6 were measured.
  double knee = 0;
  /// Seconds for each request of a step: its row of logits, sampling, its own launch of attention. Some microseconds;
  /// matters in batches of 100 and more.
  double request_seconds = 0;
  /// Seconds for each token of a step beside the matrix products: norms, activations, copies. 1 to 30 microseconds.
  double token_seconds = 0;
  /// The least tokens of KV that a decode costs: attention loads KV by tiles. 64 to 128; matters for short contexts in
  /// large batches.
  double least_context = 0;
  /// Factor on the KV time of decodes when a step has a prompt chunk. 1 with kernels that split contexts in every step.
  /// 2.0 to 3.5 with those that split only in pure decode steps (vLLM 0.19 on RTX cards).
  double mixed_kv_factor = 1;
  /// Lower bound of attention in a step with a prompt chunk. It is this factor times the time to read one request's
  /// longest history at the peak bandwidth. 0: no bound. 7 to 8 with the kernels above, which leave a history to one
  /// multiprocessor; matters with small chunks of long prompts.
  double longest_history_factor = 0;
  /// Seconds of the host in each step during which the device waits: scheduling, building the batch, sampling. 1 to 2.6
  /// ms in fits to whole runs of vLLM. Sums of kernels do not include it.
  double host_step_seconds = 0;
  /// Seconds of the host for each request, once, before it may be scheduled: parsing, tokenizing, hand-over between
  /// processes. It delays the request and keeps the device free. 11 ms were fitted on an idle vLLM on H100.
  double host_request_seconds = 0;

  /// Memberwise.
  friend bool operator==(const step_terms&, const step_terms&) = default;
};

/// Devices that serve one instance together. Weights, arithmetic and KV heads are split over `tensor` devices, layers
/// over `pipeline` groups of these. Peaks and memory of `gpu_spec` are those of one device.
///
/// **Tensor parallelism** adds two all-reduces a layer (Megatron-LM). Each moves 2 (t - 1) / t of the activations over
/// the link, in a ring, and takes at least `latency_s`. Without this term, four devices came out 43 % too fast.
/// **Pipeline parallelism** keeps as many micro-batches in flight as there are groups. A step over all requests takes
/// as long as one micro-batch through all layers, plus a hand-over for each group. A single request gains nothing.
struct parallel_spec {
  std::int64_t tensor = 1;    ///< Devices that share each layer.
  std::int64_t pipeline = 1;  ///< Groups of layers.
  double bytes_per_s = 0;  ///< Bandwidth of one device to the others, each way: NVLink 4 450e9, PCIe 4 x16 25e9. Above
                           ///< 0 if used.
  double latency_s = 0;    ///< Latency of one all-reduce or hand-over: 5 to 20 microseconds.

  /// The number of devices.
  [[nodiscard]] double devices() const noexcept { return static_cast<double>(tensor * pipeline); }
  /// Memberwise.
  friend bool operator==(const parallel_spec&, const parallel_spec&) = default;
};

}  // namespace sim
TESSERA_NAMESPACE_END
