# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# Which GPUs are compiled for. Sets
#   TESSERA_NVCC          the compiler, if it is here
#   tessera_cuda_targets  its flags for each of TESSERA_CUDA_ARCH

find_program(TESSERA_NVCC nvcc HINTS /usr/local/cuda/bin)
set(TESSERA_CUDA_ARCH sm_90a CACHE STRING "Which GPUs the CUDA tests and benchmarks are compiled for")
set(tessera_cuda_targets "")
foreach(arch IN LISTS TESSERA_CUDA_ARCH)
  string(REPLACE sm_ compute_ virtual ${arch})
  list(APPEND tessera_cuda_targets -gencode=arch=${virtual},code=${arch})
endforeach()
