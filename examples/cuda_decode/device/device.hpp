// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// @file
/// The device: streams, events, memory, kernels, graphs and matrix products. nvcc gets a GPU; any other compiler gets
/// an emulated device with the same interface.

#ifdef __CUDACC__
#  include "cuda.cuh"
#else
#  include "emulated.hpp"
#endif
