# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# The header that script/single_header writes is all that the first program of the guide needs of us: no include folder
# of ours is given. It includes each other header once. Included by check.cmake.

find_program(PYTHON python3)
if(NOT PYTHON)
  message("Python is not installed")
  return()
endif()
run(${PYTHON} ${SOURCE_DIR}/script/single_header ${SCRATCH}/tessera.hpp)

file(STRINGS ${SCRATCH}/tessera.hpp includes REGEX "^[ ]*#[ ]*include")
set(once ${includes})
list(REMOVE_DUPLICATES once)
if(includes STREQUAL "" OR NOT includes STREQUAL once OR includes MATCHES "tessera|\"")
  list(JOIN includes "\n" includes)
  message(FATAL_ERROR "each header of others once, and none of ours, but:\n${includes}")
endif()

set(source ${SOURCE_DIR}/examples/readme.cpp)
file(READ ${source} program)
string(REGEX REPLACE "#include <tessera/[^>]*>" "#include \"tessera.hpp\"" program "${program}")
# Twice: it has an include guard.
file(WRITE ${SCRATCH}/readme.cpp "#include \"tessera.hpp\"\n${program}")
separate_arguments(flags UNIX_COMMAND "${FLAGS}")
run(${COMPILER} ${flags} -std=c++20 -Wall -Wextra -Werror -fno-exceptions -fno-rtti ${SCRATCH}/readme.cpp -o
    ${SCRATCH}/readme)
run(${CMAKE_COMMAND} -DPROGRAM=${SCRATCH}/readme -DSOURCE=${source} -P ${SOURCE_DIR}/cmake/check_example.cmake)
