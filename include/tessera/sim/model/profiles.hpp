// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/error.hpp>
#include <tessera/sim/input/did_you_mean.hpp>
#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/names.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// The built-in profiles.

TESSERA_NAMESPACE_BEGIN

namespace sim {

namespace detail {

/// A device with its measured efficiencies; `profiles` names the sources.
struct device {
  gpu_spec gpu;  ///< `launch_seconds`: per layer.
  link_spec links;
  step_terms terms;             ///< `request_seconds`: for 32 layers.
  double peer_bytes_per_s = 0;  ///< To the other devices of an instance, each way.
  /// How often a layer reads or writes its activations in memory beside the matrix products: norms, positions, copies.
  double activations = 40;
};

[[nodiscard]] device a100();
[[nodiscard]] device h100();
[[nodiscard]] device h200();
[[nodiscard]] device rtxpro6000();

[[nodiscard]] model_spec llama_8b();
[[nodiscard]] model_spec qwen_32b();
[[nodiscard]] model_spec llama_70b();
}  // namespace detail

/// The default profile of every tool.
inline constexpr std::string_view default_profile = "h100-96gb-qwen-32b";

/// The built-in profiles.
///
/// Geometry, peaks and sizes are the vendors' published numbers.
///
/// **From the four papers**, plain rooflines: the efficiencies, the launch cost (8 kernels a layer, 2.5 us each) and
/// the host memory are assumptions.
/// - `h100-96gb-qwen-32b`: PASCAL's setting: DeepSeek-R1-Distill-Qwen-32B on an H100 with 96 GB, 100 Gbit/s fabric.
///   256 KiB of KV per token and room for about 80,000 tokens.
/// - `h200-llama-3.1-8b`: Llama-3.1-8B on an H200.
/// - `v100-qwen2.5-7b`: Phasor's setting: Qwen2.5-7B on a V100 with 32 GB.
/// - `h20-llama-3.2-3b`: CascadeInfer's setting: Llama-3.2-3B on an H20 with 141 GB, 400 Gbit/s fabric. Its attention
///   kernel does not split sequences in a batch that fills the device. On an H100 such a kernel makes mixed batches
///   take 1.1 to 2.2 times as long as uniform ones with as many tokens. The paper measured 1.1 to 2.1 (figure 2).
///
/// **The others** have the terms of `step_terms`. Their round numbers were chosen by steps measured on five pairs of
/// device and model. These are sums of kernels by ai-dynamo/aiconfigurator (A100, H100; without mixed steps) and steps
/// by casys-kaist/LLMServingSim (RTX cards, under vLLM 0.19). Their sources state the errors there. Devices that were
/// not measured have the efficiencies of an H100. None has the host's part of a step: 1 to 2.6 ms in whole engines;
/// `calibrate --fit-host` finds yours.
[[nodiscard]] const std::vector<profile>& profiles();

/// The names of the built-in profiles.
[[nodiscard]] std::vector<std::string_view> profile_names();

/// The built-in profile of that name. @throws usage_error that lists them.
[[nodiscard]] const profile& find_profile(std::string_view name);

}  // namespace sim
TESSERA_NAMESPACE_END
