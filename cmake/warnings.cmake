# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# Warnings for our own sources. An internal target: nothing of it reaches a project that uses the library.
add_library(tessera_warnings INTERFACE)
target_compile_options(
  tessera_warnings
  INTERFACE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang,AppleClang>:-Wall;-Wextra;-Wpedantic;-Wconversion>
    $<$<AND:$<BOOL:${TESSERA_WERROR}>,$<COMPILE_LANG_AND_ID:CXX,GNU,Clang,AppleClang>>:-Werror>)

# Debug builds, that of the sanitizers among them, optimise nothing: that takes a third of the time to compile. But what
# computes for long is optimised in them too.
set(tessera_computes_long $<$<CONFIG:Debug>:-O1>)

# Makes an own executable or object library from the given sources.
#   tessera_target(NAME executable|object SOURCES ... [LINK ...])
function(tessera_target name kind)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  if(kind STREQUAL "executable")
    add_executable(${name} ${arg_SOURCES})
  else()
    add_library(${name} OBJECT ${arg_SOURCES})
  endif()
  set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF)
  target_link_libraries(${name} PRIVATE tessera::tessera ${arg_LINK} tessera_warnings)
endfunction()
