# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# How the simulator's library is compiled, here and in the wheel: tessera_add_sim([EXCLUDE_FROM_ALL]) adds the target
# tessera_sim. Its includes and libraries are the caller's.
function(tessera_add_sim)
  set(folder ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  add_library(tessera_sim STATIC ${ARGN} ${sources})
  set_target_properties(tessera_sim PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  # All of them read that, and hardly an order is in it.
  target_precompile_headers(tessera_sim PRIVATE <tessera/sim/policies/policy.hpp>)
  # Most of what they take to compile is the headers that they share. Each policy stays a source of its own.
  file(GLOB policies CONFIGURE_DEPENDS ${folder}/policies/*.cpp)
  set_source_files_properties(${policies} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set_target_properties(tessera_sim PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
endfunction()
