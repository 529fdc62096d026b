// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/error.hpp>
#include <tessera/sim/input/did_you_mean.hpp>
#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/names.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {
namespace detail {

device make_device(const char* name, double flops, double bytes_per_s, double memory_bytes,
                   std::int64_t multiprocessors, double host_bytes_per_s, double peer_bytes_per_s) {
  return {.gpu = {.name = name,
                  .flops = flops,
                  .flops_efficiency = 0.88,
                  .bytes_per_s = bytes_per_s,
                  .bandwidth_efficiency = 0.82,
                  .memory_bytes = memory_bytes,
                  .usable_memory = 0.9,
                  .launch_seconds = 20e-6,
                  .multiprocessors = multiprocessors},
          .links = {.host_bytes_per_s = host_bytes_per_s, .host_memory_bytes = 512e9, .fabric_bytes_per_s = 50e9},
          .terms = {.kv_bandwidth_efficiency = 0.92,
                    .attention_flops_efficiency = 0.65,
                    .knee = 3.3,
                    .request_seconds = 3e-6,
                    .least_context = 64},
          .peer_bytes_per_s = peer_bytes_per_s};
}

device a100() {
  device d = make_device("A100 SXM 80 GB", 312e12, 2.039e12, 80e9, 108, 25e9, 300e9);
  d.gpu.flops_efficiency = 0.92;
  d.gpu.bandwidth_efficiency = 0.75;
  d.terms.kv_bandwidth_efficiency = 0.8;
  return d;
}

device h100() { return make_device("H100 SXM 80 GB", 989e12, 3.35e12, 80e9, 132, 50e9, 450e9); }

device h200() { return make_device("H200 SXM 141 GB", 989e12, 4.8e12, 141e9, 132, 50e9, 450e9); }

device b200() { return make_device("B200 180 GB", 2250e12, 8e12, 180e9, 148, 50e9, 900e9); }

device mi300x() { return make_device("MI300X 192 GB", 1307e12, 5.3e12, 192e9, 304, 50e9, 448e9); }

device rtx(device d) {
  d.gpu.bandwidth_efficiency = 0.97;
  d.activations = 20;  // a cache of 72 MB and more holds many of them
  d.terms.mixed_kv_factor = 2.5;
  d.terms.longest_history_factor = 8;
  return d;
}

device rtx4090() {
  device d = rtx(make_device("RTX 4090 24 GB", 165e12, 1.008e12, 24e9, 128, 25e9, 25e9));
  d.gpu.flops_efficiency = 1;
  return d;
}

device rtxpro6000() { return rtx(make_device("RTX PRO 6000 96 GB", 504e12, 1.597e12, 96e9, 188, 50e9, 50e9)); }

model_spec llama_8b() {
  return {.name = "Llama-3.1-8B",
          .parameters = 8.03e9,
          .layers = 32,
          .query_heads = 32,
          .kv_heads = 8,
          .head_dim = 128,
          .max_context = 131072};
}

model_spec qwen_32b() {
  return {.name = "Qwen2.5-32B",
          .parameters = 32.76e9,
          .layers = 64,
          .query_heads = 40,
          .kv_heads = 8,
          .head_dim = 128,
          .max_context = 131072};
}

model_spec llama_70b() {
  return {.name = "Llama-3.3-70B",
          .parameters = 70.6e9,
          .layers = 80,
          .query_heads = 64,
          .kv_heads = 8,
          .head_dim = 128,
          .max_context = 131072};
}

model_spec qwen_30b_a3b() {
  return {.name = "Qwen3-30B-A3B",
          .parameters = 30.5e9,
          .layers = 48,
          .query_heads = 32,
          .kv_heads = 4,
          .head_dim = 128,
          .hidden_size = 2048,
          .max_context = 131072,
          .active_parameters = 3.3e9,
          .experts = 128,
          .experts_per_token = 8};
}

/// A model on `tensor` such devices.
profile assemble(std::string name, const device& d, const model_spec& m, std::string source, std::int64_t tensor = 1) {
  profile p{.name = std::move(name), .model = m, .gpu = d.gpu, .links = d.links, .measured = {}};
  const auto layers = static_cast<double>(m.layers);
  p.gpu.launch_seconds *= layers;
  p.terms = d.terms;
  p.terms.request_seconds *= layers / 32;
  p.terms.token_seconds = d.activations * 2 * m.hidden() * layers / d.gpu.bytes_per_s;
  if (tensor > 1) p.parallel = {.tensor = tensor, .bytes_per_s = d.peer_bytes_per_s, .latency_s = 10e-6};
  p.source = std::move(source);
  return p;
}

}  // namespace detail
}  // namespace sim

namespace sim {

const std::vector<profile>& profiles() {
  static const std::vector<profile> all = [] {
    std::vector<profile> list{
        {.name = "h100-96gb-qwen-32b",
         .model = {.name = "DeepSeek-R1-Distill-Qwen-32B",
                   .parameters = 32.76e9,
                   .layers = 64,
                   .query_heads = 40,
                   .kv_heads = 8,
                   .head_dim = 128,
                   .max_context = 131072,
                   .bytes_per_weight = 2,
                   .bytes_per_kv_value = 2},
         .gpu = {.name = "H100 96 GB",
                 .flops = 989e12,
                 .flops_efficiency = 0.6,
                 .bytes_per_s = 3.35e12,
                 .bandwidth_efficiency = 0.85,
                 .memory_bytes = 96e9,
                 .usable_memory = 0.9,
                 .launch_seconds = 1.28e-3},
         .links = {.host_bytes_per_s = 50e9, .host_memory_bytes = 512e9, .fabric_bytes_per_s = 12.5e9},
         .measured = {}},
        {.name = "h200-llama-3.1-8b",
         .model = {.name = "Llama-3.1-8B",
                   .parameters = 8.03e9,
                   .layers = 32,
                   .query_heads = 32,
                   .kv_heads = 8,
                   .head_dim = 128,
                   .max_context = 131072,
                   .bytes_per_weight = 2,
                   .bytes_per_kv_value = 2},
         .gpu = {.name = "H200 141 GB",
                 .flops = 989e12,
                 .flops_efficiency = 0.6,
                 .bytes_per_s = 4.8e12,
                 .bandwidth_efficiency = 0.85,
                 .memory_bytes = 141e9,
                 .usable_memory = 0.9,
                 .launch_seconds = 0.64e-3},
         .links = {.host_bytes_per_s = 50e9, .host_memory_bytes = 512e9, .fabric_bytes_per_s = 12.5e9},
         .measured = {}},
        {.name = "v100-qwen2.5-7b",
         .model = {.name = "Qwen2.5-7B",
                   .parameters = 7.62e9,
                   .layers = 28,
                   .query_heads = 28,
                   .kv_heads = 4,
                   .head_dim = 128,
                   .max_context = 131072,
                   .bytes_per_weight = 2,
                   .bytes_per_kv_value = 2},
         .gpu = {.name = "V100 32 GB",
                 .flops = 125e12,
                 .flops_efficiency = 0.6,
                 .bytes_per_s = 0.9e12,
                 .bandwidth_efficiency = 0.85,
                 .memory_bytes = 32e9,
                 .usable_memory = 0.9,
                 .launch_seconds = 0.56e-3},
         .links = {.host_bytes_per_s = 12e9, .host_memory_bytes = 256e9, .fabric_bytes_per_s = 12.5e9},
         .measured = {}},
        {.name = "h20-llama-3.2-3b",
         .model = {.name = "Llama-3.2-3B",
                   .parameters = 3.21e9,
                   .layers = 28,
                   .query_heads = 24,
                   .kv_heads = 8,
                   .head_dim = 128,
                   .max_context = 131072,
                   .bytes_per_weight = 2,
                   .bytes_per_kv_value = 2},
         .gpu = {.name = "H20 141 GB",
                 .flops = 148e12,
                 .flops_efficiency = 0.8,
                 .bytes_per_s = 4.8e12,
                 .bandwidth_efficiency = 0.85,
                 .memory_bytes = 141e9,
                 .usable_memory = 0.9,
                 .launch_seconds = 0.56e-3},
         .links = {.host_bytes_per_s = 50e9, .host_memory_bytes = 1000e9, .fabric_bytes_per_s = 50e9},
         .measured = {},
         .attention = {.multiprocessors = 78, .splits = 1}},
    };
    using namespace detail;
    constexpr const char* paper = "a plain roofline, not measured: the setting of a paper";
    for (profile& p : list) p.source = paper;
    constexpr const char* like_h100 = "peaks of the vendor, efficiencies of H100; not measured";
    list.push_back(assemble("a100-80gb-llama-3.1-8b", a100(), llama_8b(),
                            "held against sums of kernels (aiconfigurator): decode 2.7 %, prefill 5.8 % off"));
    list.push_back(assemble("h100-80gb-llama-3.1-8b", h100(), llama_8b(),
                            "held against sums of kernels (aiconfigurator): decode 1.9 %, prefill 4.2 % off"));
    list.push_back(assemble("h100-80gb-qwen2.5-32b", h100(), qwen_32b(),
                            "held against sums of kernels (aiconfigurator): decode 2.0 %, prefill 4.1 % off"));
    list.push_back(assemble("h100-80gb-qwen3-30b-a3b", h100(), qwen_30b_a3b(),
                            "efficiencies of H100 with dense models; a mixture of experts was not measured"));
    list.push_back(assemble("h100-80gb-x4-llama-3.3-70b", h100(), llama_70b(),
                            "efficiencies of H100; all-reduce over NVLink 4 of 10 us, not measured", 4));
    list.push_back(assemble("h200-141gb-llama-3.1-8b", h200(), llama_8b(), like_h100));
    list.push_back(assemble("h200-141gb-x2-llama-3.3-70b", h200(), llama_70b(), like_h100, 2));
    list.push_back(assemble("b200-180gb-llama-3.1-8b", b200(), llama_8b(), like_h100));
    list.push_back(assemble("b200-180gb-llama-3.3-70b", b200(), llama_70b(), like_h100));
    list.push_back(assemble("mi300x-192gb-llama-3.1-8b", mi300x(), llama_8b(), like_h100));
    list.push_back(assemble("mi300x-192gb-llama-3.3-70b", mi300x(), llama_70b(), like_h100));
    list.push_back(assemble(
        "rtx4090-llama-3.1-8b", rtx4090(), llama_8b(),
        "held against sums of kernels (LLMServingSim, vLLM 0.19): decode 3.2 %, prefill 9.0 %, mixed 7.4 % off"));
    list.push_back(assemble(
        "rtxpro6000-llama-3.1-8b", rtxpro6000(), llama_8b(),
        "held against sums of kernels (LLMServingSim, vLLM 0.19): decode 2.7 %, prefill 6.6 %, mixed 10.7 % off"));
    return list;
  }();
  return all;
}

std::vector<std::string_view> profile_names() { return names_of(profiles()); }

const profile& find_profile(std::string_view name) {
  for (const profile& p : profiles()) {
    if (p.name == name) return p;
  }
  throw usage_error{fmt::format("unknown profile {}{}; there are: {}; or give a .json file", shown(name),
                                did_you_mean(name, profile_names()), fmt::join(profile_names(), ", "))};
}

}  // namespace sim
TESSERA_NAMESPACE_END
