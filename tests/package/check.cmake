# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# cmake -DWAY=... -DSOURCE_DIR=... -DBUILD_DIR=... -DVERSION=... -DGENERATOR=... -DMAKE_PROGRAM=... -DCOMPILER=...
#       -DSCRATCH=... -P check.cmake
# Consumes the library in one of its ways, from nothing, in SCRATCH, and runs the result.

set(consumer ${SOURCE_DIR}/tests/package)
file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(NOT result EQUAL 0)
    string(REPLACE ";" " " command "${ARGN}")
    message(FATAL_ERROR "${command}\nended with ${result}:\n${said}")
  endif()
  set(said "${said}" PARENT_SCOPE)
endfunction()

# The program prints the version of the headers that it was built with.
function(run_program path)
  run(${path})
  if(NOT said MATCHES "^tessera ${VERSION}: ok")
    message(FATAL_ERROR "${path} printed: ${said}")
  endif()
endfunction()

function(install prefix)
  run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix})
endfunction()

function(build project)
  run(${CMAKE_COMMAND} -G ${GENERATOR} -DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM} -DCMAKE_CXX_COMPILER=${COMPILER} -S
      ${consumer}/${project} -B ${SCRATCH}/build -DEXPECTED_VERSION=${VERSION} ${ARGN})
  run(${CMAKE_COMMAND} --build ${SCRATCH}/build)
  run_program(${SCRATCH}/build/consumer)
endfunction()

if(WAY STREQUAL "find_package")
  # Without the simulator's dependencies, as an engine would.
  install(${SCRATCH}/prefix)
  build(find_package -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON
        -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON)

  # A version that this one does not promise to be compatible with is refused.
  execute_process(
    COMMAND ${CMAKE_COMMAND} -G ${GENERATOR} -DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM} -DCMAKE_CXX_COMPILER=${COMPILER}
            -S ${consumer}/find_package -B ${SCRATCH}/newer -DEXPECTED_VERSION=99.0
            -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix
    RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(result EQUAL 0)
    message(FATAL_ERROR "find_package(tessera 99.0) was satisfied by ${VERSION}")
  endif()
elseif(WAY STREQUAL "find_package_sim")
  install(${SCRATCH}/prefix)
  build(find_package_sim -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix)

  # Asked for but impossible: found at configure time, not by the compiler.
  execute_process(
    COMMAND ${CMAKE_COMMAND} -G ${GENERATOR} -DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM} -DCMAKE_CXX_COMPILER=${COMPILER}
            -S ${consumer}/find_package_sim -B ${SCRATCH}/without -DEXPECTED_VERSION=${VERSION}
            -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON
    RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(result EQUAL 0)
    message(FATAL_ERROR "find_package(tessera COMPONENTS sim) was satisfied without nlohmann_json")
  endif()
elseif(WAY STREQUAL "add_subdirectory")
  build(add_subdirectory -DTESSERA_SOURCE_DIR=${SOURCE_DIR})
elseif(WAY STREQUAL "include_path")
  run(${COMPILER} -std=c++20 -I${SOURCE_DIR}/include ${consumer}/consumer.cpp -o ${SCRATCH}/consumer)
  run_program(${SCRATCH}/consumer)
elseif(WAY STREQUAL "pkg_config")
  find_program(PKG_CONFIG NAMES pkg-config pkgconf)
  if(NOT PKG_CONFIG)
    message("pkg-config is not installed")
    return()
  endif()
  # The prefix is written when the project is configured: so configure for this one, alone.
  run(${CMAKE_COMMAND} -G ${GENERATOR} -DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM} -DCMAKE_CXX_COMPILER=${COMPILER} -S
      ${SOURCE_DIR} -B ${SCRATCH}/build -DCMAKE_INSTALL_PREFIX=${SCRATCH}/prefix -DTESSERA_BUILD_TESTS=OFF
      -DTESSERA_BUILD_EXAMPLES=OFF -DTESSERA_BUILD_BENCH=OFF -DTESSERA_BUILD_DOCS=OFF)
  run(${CMAKE_COMMAND} --install ${SCRATCH}/build)
  set(ENV{PKG_CONFIG_PATH} ${SCRATCH}/prefix/share/pkgconfig)
  run(${PKG_CONFIG} --modversion tessera)
  if(NOT said STREQUAL "${VERSION}\n")
    message(FATAL_ERROR "pkg-config --modversion tessera said ${said}")
  endif()
  run(${PKG_CONFIG} --cflags tessera)
  separate_arguments(flags UNIX_COMMAND "${said}")
  run(${COMPILER} -std=c++20 ${flags} ${consumer}/consumer.cpp -o ${SCRATCH}/consumer)
  run_program(${SCRATCH}/consumer)
else()
  message(FATAL_ERROR "unknown way: ${WAY}")
endif()
