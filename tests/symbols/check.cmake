# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# cmake -DCOMPILER=... -DFLAGS=... -DINCLUDES=... -DNM=... -DSOURCE=... -DOBJECT=... -P check.cmake
#
# Compiles SOURCE, which instantiates a component and calls all of it, as an engine would for production. Then looks at
# what the object asks of the rest of the program: no heap, no exceptions, no locks, no clocks, no virtual calls. A
# control source says what must be found in it with lines "// violates: REGEX".

include(${CMAKE_CURRENT_LIST_DIR}/object.cmake)
set(ENV{LC_ALL} C)
# The sanitizers' own calls are not the library's.
string(REGEX REPLACE "-f(no-)?sanitize[^ ]*" "" FLAGS "${FLAGS}")
separate_arguments(flags UNIX_COMMAND "${FLAGS}")
list(TRANSFORM INCLUDES PREPEND -I)
list(REMOVE_ITEM INCLUDES -I)
# What projects that include the headers warn of, beyond our own warnings.
set(strict -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wsign-conversion -Werror)
set(exceptions -fno-exceptions -fno-rtti)
file(STRINGS ${SOURCE} controls REGEX "^// violates: ")
if(controls)
  set(exceptions "")
endif()
execute_process(
  COMMAND ${COMPILER} ${flags} ${strict} -std=c++20 -O2 -DNDEBUG ${exceptions} ${INCLUDES} -c ${SOURCE} -o ${OBJECT}
  RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${SOURCE} does not compile:\n${said}")
endif()

read_symbols(symbols)
# A source that defines no function would prove nothing.
if(NOT symbols MATCHES "[0-9a-f]+ [TW] ")
  message(FATAL_ERROR "${SOURCE} defines no function")
endif()

set(forbidden
    " U (malloc|calloc|realloc|free|aligned_alloc|posix_memalign|memalign)\n"
    " U operator (new|delete)"
    " U (__cxa_|_Unwind_|std::__throw_|std::terminate|abort\n)"
    " U (pthread_|sem_|futex)"
    " U (clock_gettime|gettimeofday|time\n|std::chrono::)"
    " U (read|write|open|close|mmap|munmap|syscall|fprintf|printf|puts|fputs|fwrite)\n"
    "(vtable|typeinfo|VTT) for"
    "std::function<"
    "std::(__cxx11::)?basic_string<")
find_symbols(found "${symbols}" ${forbidden})

judge_symbols("${found}" "${controls}" "what the hot path must not")
