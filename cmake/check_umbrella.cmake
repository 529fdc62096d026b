# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# cmake -DINCLUDE_DIR=... -P check_umbrella.cmake
#
# tessera/tessera.hpp includes every public header, except those of the simulator, of training and of the GPU. It also
# leaves out queue/heap.hpp: Boost.Heap is slow to compile, and no other header needs it.

cmake_minimum_required(VERSION 3.25)

set(apart tessera/queue/heap.hpp)

file(READ ${INCLUDE_DIR}/tessera/tessera.hpp umbrella)
file(GLOB_RECURSE headers RELATIVE ${INCLUDE_DIR} ${INCLUDE_DIR}/tessera/*.hpp)
list(FILTER headers EXCLUDE REGEX "^tessera/(sim|rank|gpu)/|^tessera/tessera.hpp$")
foreach(header IN LISTS apart)
  string(FIND "${umbrella}" "#include <${header}>\n" found)
  if(NOT header IN_LIST headers OR NOT found EQUAL -1)
    message(FATAL_ERROR "${header} is said to be apart from tessera/tessera.hpp, and is gone or is included there")
  endif()
endforeach()
list(REMOVE_ITEM headers ${apart})
set(missing "")
foreach(header IN LISTS headers)
  string(FIND "${umbrella}" "#include <${header}>\n" found)
  if(found EQUAL -1)
    string(APPEND missing "  #include <${header}>\n")
  endif()
endforeach()
if(headers STREQUAL "" OR NOT missing STREQUAL "")
  message(FATAL_ERROR "tessera/tessera.hpp lacks\n${missing}")
endif()
