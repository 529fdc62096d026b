// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <decoder.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// @file
/// Which tensors a model has, how they are called in a checkpoint, and where they lie in memory.

namespace cuda_decode {

/// Some rows of a tensor, which a checkpoint stores as a tensor of its own.
struct tensor_part {
  std::string name;
  std::int64_t rows = 0;
};

/// One matrix [rows][columns] that a product reads, or a norm's weights (one row).
struct weight_tensor {
  std::vector<tensor_part> parts;  ///< From the first row to the last.
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  bool norm = false;
  std::size_t offset = 0;  ///< In elements, from the start of all weights.

  [[nodiscard]] std::size_t size() const noexcept { return static_cast<std::size_t>(rows * columns); }
  /// Random weights are evenly spread in [mean - spread, mean + spread): a product keeps the size of its input.
  [[nodiscard]] float mean() const noexcept { return norm ? 1.0F : 0.0F; }
  [[nodiscard]] float spread() const noexcept {
    return norm ? 0.25F : static_cast<float>(std::sqrt(3.0 / static_cast<double>(columns)));
  }
};

/// All tensors of a model, in one piece of memory. A tensor's index is also its number for the random generator.
struct weight_layout {
  /// Tensors of one layer, from index `layer * per_layer` on.
  enum kind : std::size_t { attention_norm, qkv, attention_output, feed_forward_norm, gate_up, down, per_layer };

  std::vector<weight_tensor> tensors;
  std::size_t layers = 0;
  std::size_t size = 0;  ///< Elements in all.

  explicit weight_layout(const model_shape& s) : layers{static_cast<std::size_t>(s.layers)} {
    const std::int64_t h = s.hidden;
    const std::int64_t q = std::int64_t{s.query_heads} * s.head_dim;
    const std::int64_t kv = std::int64_t{s.kv_heads} * s.head_dim;
    for (std::int32_t i = 0; i != s.layers; ++i) {
      const std::string p = "model.layers." + std::to_string(i) + ".";
      add({{p + "input_layernorm.weight", 1}}, h, true);
      add({{p + "self_attn.q_proj.weight", q},
           {p + "self_attn.k_proj.weight", kv},
           {p + "self_attn.v_proj.weight", kv}},
          h);
      add({{p + "self_attn.o_proj.weight", h}}, q);
      add({{p + "post_attention_layernorm.weight", 1}}, h, true);
      add({{p + "mlp.gate_proj.weight", s.feed_forward}, {p + "mlp.up_proj.weight", s.feed_forward}}, h);
      add({{p + "mlp.down_proj.weight", h}}, s.feed_forward);
    }
    add({{"model.norm.weight", 1}}, h, true);
    add({{"model.embed_tokens.weight", s.vocabulary}}, h);
    if (!s.tied_embeddings) add({{"lm_head.weight", s.vocabulary}}, h);
  }

  [[nodiscard]] std::size_t of(std::size_t layer, kind k) const noexcept {
    return tensors[layer * per_layer + k].offset;
  }
  [[nodiscard]] std::size_t final_norm() const noexcept { return tensors[layers * per_layer].offset; }
  [[nodiscard]] std::size_t embedding() const noexcept { return tensors[layers * per_layer + 1].offset; }
  /// The embedding if they are one.
  [[nodiscard]] std::size_t head() const noexcept { return tensors.back().offset; }

 private:
  void add(std::vector<tensor_part> parts, std::int64_t columns, bool norm = false) {
    std::int64_t rows = 0;
    for (const tensor_part& p : parts) rows += p.rows;
    tensors.push_back({std::move(parts), rows, columns, norm, size});
    constexpr std::size_t line = 128;  // 256 bytes, so that every row can be read 16 bytes at a time
    size += (tensors.back().size() + line - 1) / line * line;
  }
};

}  // namespace cuda_decode
