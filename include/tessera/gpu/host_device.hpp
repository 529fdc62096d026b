// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

/// @file
/// `TESSERA_HOST_DEVICE` marks a function that kernels may call. It is empty for a compiler without CUDA.

#ifdef __CUDACC__
/// Compiled for the host and for the device.
#  define TESSERA_HOST_DEVICE __host__ __device__
#else
/// Compiled for the host.
#  define TESSERA_HOST_DEVICE
#endif
