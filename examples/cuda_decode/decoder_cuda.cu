// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <decoder.cuh>

namespace cuda_decode {

std::unique_ptr<decoder> make_decoder(const decoder_options& options) {
  return std::make_unique<device_decoder>(options);
}

}  // namespace cuda_decode
