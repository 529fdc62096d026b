# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# Defines tessera::cuda: tessera::tessera and the headers of the CUDA toolkit, its CCCL (Thrust, CUB) among them. The
# same file serves a build of the project (-DTESSERA_CUDA=ON), find_package(tessera COMPONENTS cuda) and Conan.
#
# It links no CUDA library. A program chooses its runtime, static or shared: by the property CUDA_RUNTIME_LIBRARY of its
# targets, or by CUDA::cudart if it has no sources in CUDA.
find_package(CUDAToolkit REQUIRED)

if(NOT TARGET tessera::cuda)
  add_library(tessera::cuda INTERFACE IMPORTED GLOBAL)
endif()
target_link_libraries(tessera::cuda INTERFACE tessera::tessera)
foreach(folder IN LISTS CUDAToolkit_INCLUDE_DIRS)
  # From CUDA 13 on, CCCL is in a folder of its own, which only nvcc finds by itself.
  if(EXISTS ${folder}/cccl/cub/version.cuh)
    target_include_directories(tessera::cuda SYSTEM INTERFACE ${folder}/cccl)
  endif()
  target_include_directories(tessera::cuda SYSTEM INTERFACE ${folder})
endforeach()
unset(folder)
