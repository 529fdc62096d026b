# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# cmake -DNVCC=... -DTARGETS=... -DINCLUDE=... -DNM=... -DSOURCE=... -DOBJECT=... -P check.cmake
#
# Compiles SOURCE with nvcc, as an engine would for production. Then looks at what the host's part of the object asks of
# the rest of the program. There must be no memory of the device or the heap, no waiting for the device, no exceptions.
# A control says what must be found in it with lines "// violates: REGEX".
#
# Not forbidden:
# - __cxa_guard_*, because CUB counts the devices once, at the first call in a program, and keeps the number;
# - __cxa_atexit and std::ios_base::Init, which the toolkit's headers bring;
# - dlopen and getenv of NVTX, which they contain unless NVTX_DISABLE is defined. These run once, when a profiler may be
#   attached.

cmake_minimum_required(VERSION 3.25)

if(NOT NVCC OR NOT NM)
  message(STATUS "skipped: there is no nvcc, or no nm")
  return()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/../../symbols/object.cmake)
set(ENV{LC_ALL} C)
file(STRINGS ${SOURCE} controls REGEX "^// violates: ")
set(exceptions -fno-exceptions,-fno-rtti,-Wall,-Wextra)
if(controls)
  set(exceptions -O2)
endif()
execute_process(
  COMMAND ${NVCC} -std=c++20 ${TARGETS} -O2 -DNDEBUG -Werror all-warnings -Xcompiler ${exceptions} -I${INCLUDE} -c ${SOURCE} -o ${OBJECT}
  RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${SOURCE} does not compile:\n${said}")
endif()
read_symbols(symbols)
# A source that launches nothing would prove nothing.
if(NOT symbols MATCHES " T use\\(" OR NOT symbols MATCHES " U _*cudaLaunchKernel")
  message(FATAL_ERROR "${SOURCE} defines no use(), or launches no kernel")
endif()

set(forbidden
    " U cuda[A-Za-z0-9]*(Malloc|Free|HostAlloc|HostRegister|MemAlloc)"
    " U cuda[A-Za-z0-9]*Synchronize"
    " U cudaMemcpy[0-9A-Z]*[a-z]*\n"
    " U cudaMemset\n"
    " U (malloc|calloc|realloc|free|aligned_alloc|posix_memalign)\n"
    " U operator (new|delete)"
    " U (__cxa_(throw|rethrow|allocate_exception|begin_catch)|_Unwind_|std::__throw_|std::terminate|abort\n)"
    " U pthread_")
find_symbols(found "${symbols}" ${forbidden})
# What copies or sets without waiting for it is allowed.
string(REGEX REPLACE "[^\n]* U cuda(Memcpy|Memset)[A-Za-z0-9]*Async[^\n]*\n" "" found "${found}")

judge_symbols("${found}" "${controls}" "what a call on a stream must not")
