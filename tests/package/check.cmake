# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# cmake -DWAY=... -DSOURCE_DIR=... -DBUILD_DIR=... -DVERSION=... -DGENERATOR=... -DMAKE_PROGRAM=... -DCOMPILER=...
#       -DSCRATCH=... -P check.cmake
#
# Consumes the library in one of its ways, from nothing, in SCRATCH, and runs the result. The ways conan and vcpkg need
# more: see the files that they include, and tests/CMakeLists.txt. Each takes seconds: none compiles more than a few
# small sources. The archives are those of the build that runs the test.

cmake_minimum_required(VERSION 3.25)

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

# What needs no build; or all that BUILD_DIR has.
function(install prefix)
  run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix} --component headers)
endfunction()
function(install_all prefix)
  run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix})
endfunction()

# Installs the archives of BUILD_DIR into SCRATCH/archives; a test ends where there are none. Sets archives_check: whether
# they check preconditions, 0 or 1, as the installed target says.
macro(needs_archives)
  if(NOT EXISTS ${BUILD_DIR}/libtessera_sim.a OR NOT EXISTS ${BUILD_DIR}/tools/libtessera_replay.a)
    message("the archives were not built")
    return()
  endif()
  install_all(${SCRATCH}/archives)
  file(READ ${SCRATCH}/archives/share/cmake/tessera/tesseraSimTargets.cmake text)
  if(NOT text MATCHES "\"TESSERA_CHECKED=([01])\"")
    message(FATAL_ERROR "the installed tessera::sim does not define TESSERA_CHECKED")
  endif()
  set(archives_check ${CMAKE_MATCH_1})
endmacro()

set(cmake ${CMAKE_COMMAND} -G ${GENERATOR} -DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM} -DCMAKE_CXX_COMPILER=${COMPILER})

function(configure project)
  run(${cmake} -S ${consumer}/${project} -B ${SCRATCH}/build -DEXPECTED_VERSION=${VERSION} ${ARGN})
endfunction()

function(build project)
  configure(${project} ${ARGN})
  run(${CMAKE_COMMAND} --build ${SCRATCH}/build)
  run_program(${SCRATCH}/build/consumer)
endfunction()

# Configuring must fail, and say something that matches.
function(must_fail what pattern)
  execute_process(COMMAND ${cmake} ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(result EQUAL 0)
    message(FATAL_ERROR "${what} was satisfied")
  endif()
  if(NOT said MATCHES "${pattern}")
    message(FATAL_ERROR "${what} was refused, but without saying '${pattern}':\n${said}")
  endif()
endfunction()

if(WAY STREQUAL "find_package")
  # Without the simulator's dependencies, as an engine would.
  install(${SCRATCH}/prefix)
  build(find_package -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON
        -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON)

  # A version that this one does not promise to be compatible with is refused.
  must_fail("find_package(tessera 99.0)" "requested[ \n]+version" -S ${consumer}/find_package -B ${SCRATCH}/newer
            -DEXPECTED_VERSION=99.0 -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix)
  # Nor is the simulator found where only the headers are, and the message says what to do.
  must_fail("find_package(tessera COMPONENTS sim) of the headers" "TESSERA_INSTALL_SIM=ON" -S
            ${consumer}/find_package_sim -B ${SCRATCH}/headers -DEXPECTED_VERSION=${VERSION}
            -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix)
elseif(WAY STREQUAL "preset")
  # The line of README.md.
  find_program(NINJA ninja)
  if(NOT NINJA)
    message("Ninja is not installed")
    return()
  endif()
  run(${CMAKE_COMMAND} --preset headers -S ${SOURCE_DIR} -B ${SCRATCH}/headers -DCMAKE_CXX_COMPILER=${COMPILER})
  run(${CMAKE_COMMAND} --install ${SCRATCH}/headers --prefix ${SCRATCH}/prefix)
  build(find_package -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON
        -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON)
elseif(WAY STREQUAL "find_package_sim")
  needs_archives()
  # NDEBUG is defined where the archive is compiled without it, and the other way round: still they link.
  set(flags ${FLAGS})
  if(archives_check)
    string(APPEND flags " -DNDEBUG")
  endif()
  build(find_package_sim -DCMAKE_PREFIX_PATH=${SCRATCH}/archives -DCMAKE_CXX_FLAGS=${flags})

  # Asked for but impossible: found at configure time, not by the compiler.
  must_fail("find_package(tessera COMPONENTS sim) without nlohmann_json" "nlohmann_json" -S
            ${consumer}/find_package_sim -B ${SCRATCH}/without -DEXPECTED_VERSION=${VERSION}
            -DCMAKE_PREFIX_PATH=${SCRATCH}/archives -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON)
elseif(WAY STREQUAL "find_package_replay")
  # A policy of one's own outside of the clone. CLI11 is inside the archive.
  needs_archives()
  configure(find_package_replay -DCMAKE_PREFIX_PATH=${SCRATCH}/archives -DCMAKE_CXX_FLAGS=${FLAGS}
            -DPOLICY_SOURCE=${SOURCE_DIR}/examples/replay_custom/main.cpp -DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON)
  run(${CMAKE_COMMAND} --build ${SCRATCH}/build)
  run(${SCRATCH}/build/consumer --policy fcfs,shortest-prompt --workload azure-conv --requests 50)
  if(NOT said MATCHES "\nshortest-prompt ")
    message(FATAL_ERROR "there is no row of the own policy:\n${said}")
  endif()

  run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${SCRATCH}/sim --component headers)
  run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${SCRATCH}/sim --component sim)
  must_fail("find_package(tessera COMPONENTS replay) without replay" "TESSERA_INSTALL_REPLAY=ON" -S
            ${consumer}/find_package_replay -B ${SCRATCH}/without -DEXPECTED_VERSION=${VERSION}
            -DCMAKE_PREFIX_PATH=${SCRATCH}/sim)
elseif(WAY STREQUAL "find_package_cuda")
  # A source in CUDA that includes us; compiled for a GPU that need not be there, and not run.
  if(NOT CUDA)
    message("there is no CUDA toolkit")
    return()
  endif()
  install(${SCRATCH}/prefix)
  configure(find_package_cuda -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix -DCMAKE_CUDA_COMPILER=${CUDA})
  run(${CMAKE_COMMAND} --build ${SCRATCH}/build)

  # Without the toolkit the component is refused at configure time.
  must_fail("find_package(tessera COMPONENTS cuda) without CUDA" "needs[ \n]+the[ \n]+CUDA[ \n]+toolkit" -S
            ${consumer}/find_package_cuda -B ${SCRATCH}/without -DEXPECTED_VERSION=${VERSION}
            -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON)
elseif(WAY STREQUAL "add_subdirectory")
  build(add_subdirectory -DTESSERA_SOURCE_DIR=${SOURCE_DIR})
elseif(WAY STREQUAL "fetch_content")
  # From a repository that holds the tree as it is now, committed or not.
  find_program(GIT git)
  if(NOT GIT)
    message("git is not installed")
    return()
  endif()
  set(repository ${SCRATCH}/repository)
  file(COPY ${SOURCE_DIR}/CMakeLists.txt ${SOURCE_DIR}/cmake ${SOURCE_DIR}/include ${SOURCE_DIR}/src
       ${SOURCE_DIR}/LICENSE DESTINATION ${repository})
  set(git ${GIT} -C ${repository} -c user.name=nobody -c user.email=nobody@example.org -c commit.gpgsign=false
          -c init.defaultBranch=main)
  run(${git} init --quiet)
  run(${git} add --all)
  run(${git} commit --quiet --message state)
  run(${git} rev-parse HEAD)
  string(STRIP "${said}" commit)
  build(fetch_content -DTESSERA_REPOSITORY=file://${repository} -DTESSERA_TAG=${commit})
elseif(WAY STREQUAL "reexport")
  # Three projects: ours, one that uses ours in its own headers and is a package itself, and one that uses that.
  install(${SCRATCH}/prefix)
  run(${cmake} -S ${consumer}/reexport/engine -B ${SCRATCH}/engine -DEXPECTED_VERSION=${VERSION}
      -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix)
  run(${CMAKE_COMMAND} --build ${SCRATCH}/engine)
  run(${CMAKE_COMMAND} --install ${SCRATCH}/engine --prefix ${SCRATCH}/engine_prefix)
  build(reexport/app -Dengine_ROOT=${SCRATCH}/engine_prefix -Dtessera_ROOT=${SCRATCH}/prefix)

  # Without us, the engine is not found: its own package says that it needs ours.
  must_fail("find_package(engine) without tessera" "tessera" -S ${consumer}/reexport/app -B ${SCRATCH}/without
            -Dengine_ROOT=${SCRATCH}/engine_prefix)
elseif(WAY STREQUAL "include_path")
  run(${COMPILER} -std=c++20 -I${SOURCE_DIR}/include ${consumer}/consumer.cpp -o ${SCRATCH}/consumer)
  run_program(${SCRATCH}/consumer)
elseif(WAY STREQUAL "pkg_config")
  find_program(PKG_CONFIG NAMES pkg-config pkgconf)
  if(NOT PKG_CONFIG)
    message("pkg-config is not installed")
    return()
  endif()
  # Installed, and then moved: tessera.pc finds the headers from where it lies.
  install(${SCRATCH}/first)
  file(RENAME ${SCRATCH}/first ${SCRATCH}/prefix)
  set(ENV{PKG_CONFIG_PATH} ${SCRATCH}/prefix/share/pkgconfig)
  run(${PKG_CONFIG} --modversion tessera)
  if(NOT said STREQUAL "${VERSION}\n")
    message(FATAL_ERROR "pkg-config --modversion tessera said ${said}")
  endif()
  run(${PKG_CONFIG} --cflags tessera)
  separate_arguments(flags UNIX_COMMAND "${said}")
  run(${COMPILER} -std=c++20 ${flags} ${consumer}/consumer.cpp -o ${SCRATCH}/consumer)
  run_program(${SCRATCH}/consumer)
elseif(EXISTS ${consumer}/${WAY}.cmake)
  include(${consumer}/${WAY}.cmake)
else()
  message(FATAL_ERROR "unknown way: ${WAY}")
endif()
