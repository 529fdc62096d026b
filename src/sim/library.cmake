# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# How the simulator's library is compiled, here and in the wheel. tessera_add_sim([EXCLUDE_FROM_ALL]) adds these targets:
#
#     tessera_sim           the library, of the next three parts
#     tessera_sim_base      everything except the policies
#     tessera_sim_shown     the policies that script/demo shows
#     tessera_sim_policies  the other policies
#     tessera_sim_needs     what the parts are compiled with: its includes, libraries and options are the caller's
function(tessera_add_sim)
  set(folder ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  file(GLOB_RECURSE base CONFIGURE_DEPENDS ${folder}/*.cpp)
  list(FILTER base EXCLUDE REGEX "/policies/")
  file(GLOB policies CONFIGURE_DEPENDS ${folder}/policies/*.cpp)
  set(common policy placements time_prefills)  # are no policies
  set(shown fcfs pascal due_first shown)
  foreach(list IN ITEMS common shown)
    list(TRANSFORM ${list} REPLACE "(.+)" "${folder}/policies/\\1.cpp")
  endforeach()
  list(REMOVE_ITEM policies ${common} ${shown})
  list(APPEND base ${common})

  add_library(tessera_sim_needs INTERFACE)
  set(objects "")
  foreach(part base shown policies)
    set(name tessera_sim_${part})
    add_library(${name} OBJECT EXCLUDE_FROM_ALL ${${part}})
    target_link_libraries(${name} PUBLIC tessera_sim_needs)
    set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
    # Otherwise g++ inlines no function that another library could replace, not even within its source.
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU,Clang>:-fno-semantic-interposition>)
    list(APPEND objects $<TARGET_OBJECTS:${name}>)
  endforeach()
  # All parts read this header, and few orders are in it.
  target_precompile_headers(tessera_sim_base PRIVATE <tessera/sim/policies/policy.hpp>)
  target_precompile_headers(tessera_sim_shown REUSE_FROM tessera_sim_base)
  target_precompile_headers(tessera_sim_policies REUSE_FROM tessera_sim_base)
  # Most of what they take to compile is the headers that they share. Each policy stays a source of its own.
  set_target_properties(tessera_sim_base PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
  add_library(tessera_sim STATIC ${ARGN} ${objects})
endfunction()
