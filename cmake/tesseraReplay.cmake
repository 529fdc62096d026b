# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# Defines tessera::replay: the command line of the tool replay, for a program with policies of its own. Its sources and
# the published policies are compiled here, once for the project and under its own flags, a minute and a half of one
# core; a program that is linked to it compiles its own policies alone. The same file serves find_package(tessera
# COMPONENTS replay) and Conan.
if(NOT TARGET tessera_replay)
  find_package(CLI11 REQUIRED)
  set(tools ${CMAKE_CURRENT_LIST_DIR}/tools)
  add_library(tessera_replay STATIC EXCLUDE_FROM_ALL ${tools}/policies/policies.cpp ${tools}/replay/replay.cpp)
  set_target_properties(tessera_replay PROPERTIES CXX_EXTENSIONS OFF)
  target_compile_definitions(tessera_replay PUBLIC TESSERA_POLICIES_APART)
  target_link_libraries(tessera_replay PUBLIC tessera::sim PRIVATE CLI11::CLI11)
  find_package(ZLIB QUIET)  # to read traces in gzip files
  if(TARGET ZLIB::ZLIB)
    target_compile_definitions(tessera_replay PRIVATE TESSERA_TOOLS_ZLIB)
    target_link_libraries(tessera_replay PRIVATE ZLIB::ZLIB)
  endif()
  add_library(tessera::replay ALIAS tessera_replay)
  unset(tools)
endif()
