# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# For the tests and benchmarks of include/tessera/gpu: which of Thrust's back ends on the host can be built here, and
# programs that nvcc compiles. Includes cuda_arch.cmake, and sets
# - TESSERA_THRUST_BACK_ENDS: CPP, and OMP and TBB if they are here; nothing without Thrust
# - TESSERA_THRUST: the folder of its headers, the CUDA toolkit's, or else the system's

include(${CMAKE_CURRENT_LIST_DIR}/cuda_arch.cmake)

# From CUDA 13 on, Thrust is in the toolkit's include/cccl. Debian has 1.17 in /usr/include.
set(toolkit "")
if(TESSERA_NVCC)
  file(REAL_PATH ${TESSERA_NVCC} toolkit)
  cmake_path(GET toolkit PARENT_PATH toolkit)
endif()
find_path(TESSERA_THRUST_TOOLKIT thrust/version.h PATHS ${toolkit}/../include/cccl ${toolkit}/../include NO_DEFAULT_PATH)
find_path(TESSERA_THRUST_SYSTEM thrust/version.h)
set(TESSERA_THRUST ${TESSERA_THRUST_TOOLKIT})
if(NOT TESSERA_THRUST)
  set(TESSERA_THRUST ${TESSERA_THRUST_SYSTEM})
endif()

set(TESSERA_THRUST_BACK_ENDS "")
if(TESSERA_THRUST)
  list(APPEND TESSERA_THRUST_BACK_ENDS CPP)
  find_package(OpenMP QUIET COMPONENTS CXX)
  if(TARGET OpenMP::OpenMP_CXX)
    list(APPEND TESSERA_THRUST_BACK_ENDS OMP)
  endif()
  find_package(TBB QUIET CONFIG)
  if(TARGET TBB::tbb)
    list(APPEND TESSERA_THRUST_BACK_ENDS TBB)
  endif()
endif()

# tessera_thrust_program(NAME BACK_END FOLDER SOURCES ... [LINK ...]): with the Thrust in FOLDER on a back end of the host
function(tessera_thrust_program name back_end folder)
  tessera_target(${name} executable ${ARGN})
  target_include_directories(${name} SYSTEM PRIVATE ${folder})
  target_compile_definitions(${name} PRIVATE THRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_${back_end})
  if(back_end STREQUAL "OMP")
    target_link_libraries(${name} PRIVATE OpenMP::OpenMP_CXX)
  elseif(back_end STREQUAL "TBB")
    target_link_libraries(${name} PRIVATE TBB::tbb)
  endif()
endfunction()

# tessera_nvcc_program(NAME SOURCE [FLAG ...]): by nvcc itself with its own host compiler, whatever compiles the rest and
# with whichever sanitizers. The program is NAME in the current binary folder.
function(tessera_nvcc_program name source)
  set(program ${CMAKE_CURRENT_BINARY_DIR}/${name})
  cmake_path(ABSOLUTE_PATH source)
  add_custom_command(
    OUTPUT ${program}
    COMMAND ${TESSERA_NVCC} -std=c++20 -O2 ${tessera_cuda_targets} -I${PROJECT_SOURCE_DIR}/include -x cu ${ARGN} -MD -MF
            ${program}.d -o ${program} ${source}
    DEPENDS ${source}
    DEPFILE ${program}.d
    COMMENT "nvcc ${name}"
    VERBATIM)
  add_custom_target(${name}_with_nvcc ALL DEPENDS ${program})
endfunction()
