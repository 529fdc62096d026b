# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# cmake -DINCLUDE_DIR=... -P check_umbrella.cmake
# tessera/tessera.hpp includes every public header but those of the simulator, of training and of the GPU.

cmake_minimum_required(VERSION 3.25)

file(READ ${INCLUDE_DIR}/tessera/tessera.hpp umbrella)
file(GLOB_RECURSE headers RELATIVE ${INCLUDE_DIR} ${INCLUDE_DIR}/tessera/*.hpp)
list(FILTER headers EXCLUDE REGEX "^tessera/(sim|rank|gpu)/|^tessera/tessera.hpp$")
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
