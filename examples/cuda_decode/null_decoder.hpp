// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "decoder.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

/// @file
/// A decoder without a device, to measure the host's part of a step with.

namespace cuda_decode {

/// A decoder that does nothing: what remains of a step is the host's part.
class null_decoder final : public decoder {
 public:
  explicit null_decoder(std::size_t rows) : sampled_(rows, 0) {}
  [[nodiscard]] decoder_facts facts() const override { return {}; }
  void launch(const step_batch& /*batch*/) override {}
  step_result wait() override { return {.sampled = sampled_, .times = {}}; }
  [[nodiscard]] std::vector<float> logits(std::size_t /*i*/) override { return {}; }
  [[nodiscard]] double copy_bandwidth() override { return 0; }
  [[nodiscard]] double attention_seconds(const step_batch& /*batch*/) override { return 0; }
  void split(split_policy /*p*/) override {}

 private:
  std::vector<std::int32_t> sampled_;
};

}  // namespace cuda_decode
