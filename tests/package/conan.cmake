# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# The recipe in conanfile.py with test_package/, without any remote: what the library requires is what this build found,
# through platform_requires. Included by check.cmake, which says what the variables are.

set(cache "$ENV{TESSERA_CACHE}")
if(cache STREQUAL "")
  set(cache "$ENV{HOME}/.cache/tessera")
endif()
find_program(CONAN conan HINTS ${cache}/conan/bin)
if(CONAN)
  execute_process(COMMAND ${CONAN} --version OUTPUT_VARIABLE said ERROR_VARIABLE said)
endif()
if(NOT CONAN OR NOT said MATCHES "Conan version 2\\.")
  message("Conan 2 is not installed (script/conan gets it from PyPI)")
  return()
endif()

set(ENV{CONAN_HOME} ${SCRATCH}/home)
set(ENV{CXX} ${COMPILER})
run(${CONAN} profile detect --name detected)
set(cuda False)
if(CUDA)
  set(cuda True)
endif()
file(WRITE ${SCRATCH}/profile "include(detected)
[settings]
build_type=Release
compiler.cppstd=20
[conf]
tools.build:compiler_executables={\"cpp\": \"${COMPILER}\"}
tools.cmake.cmake_layout:test_folder=${SCRATCH}/test
tools.cmake.cmaketoolchain:generator=${GENERATOR}
[platform_requires]
boost/${BOOST_VERSION}
range-v3/${RANGE_V3_VERSION}
fmt/${FMT_VERSION}
nlohmann_json/${JSON_VERSION}
cli11/2.1.2
zlib/1.2.13
eigen/3.4.0
")
set(profile -pr:a ${SCRATCH}/profile --no-remote)

# The package of the default options: test_package is built and run.
run(${CONAN} create ${SOURCE_DIR} ${profile})
if(NOT said MATCHES "tessera ${VERSION}: ok")
  message(FATAL_ERROR "conan create did not run test_package:\n${said}")
endif()
set(tessera tessera/${VERSION})

# The id of the package, and where it is.
function(package_id result)
  execute_process(COMMAND ${CONAN} graph info --requires ${tessera} ${profile} ${ARGN} -f json
                  RESULT_VARIABLE code OUTPUT_VARIABLE graph ERROR_VARIABLE said)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "conan graph info ${ARGN}:\n${said}")
  endif()
  string(JSON nodes GET "${graph}" graph nodes)
  string(JSON count LENGTH "${nodes}")
  math(EXPR last "${count} - 1")
  foreach(i RANGE ${last})
    string(JSON key MEMBER "${nodes}" ${i})
    string(JSON name ERROR_VARIABLE ignored GET "${nodes}" ${key} name)
    if(name STREQUAL "tessera")
      string(JSON id GET "${nodes}" ${key} package_id)
      string(JSON binary GET "${nodes}" ${key} binary)
      set(${result} "${id} ${binary}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "there is no tessera in the graph:\n${graph}")
endfunction()

# The headers are one package for all settings.
package_id(default)
if(NOT default MATCHES " Cache$")
  message(FATAL_ERROR "the package just created is not found: ${default}")
endif()
package_id(other -s compiler.cppstd=23 -s build_type=MinSizeRel -o ${tessera}:with_cuda=True)
if(NOT other STREQUAL default)
  message(FATAL_ERROR "the headers depend on settings or options: ${other} is not ${default}")
endif()

# An older standard, or none, is refused before anything is compiled, and the message says what to do.
foreach(file home/profiles/detected profile)
  file(READ ${SCRATCH}/${file} text)
  string(REGEX REPLACE "compiler\\.cppstd=[a-z0-9]+\n" "" text "${text}")
  string(REPLACE "include(detected)" "include(detected_without_standard)" text "${text}")
  file(WRITE ${SCRATCH}/${file}_without_standard "${text}")
endforeach()
foreach(arguments "-pr:a;${SCRATCH}/profile;-s;compiler.cppstd=17" "-pr:a;${SCRATCH}/profile_without_standard")
  execute_process(COMMAND ${CONAN} install --requires ${tessera} --no-remote ${arguments} --output-folder ${SCRATCH}/install
                  RESULT_VARIABLE code OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(code EQUAL 0 OR NOT said MATCHES "tessera needs C\\+\\+20" OR NOT said MATCHES "-s compiler\\.cppstd=20")
    message(FATAL_ERROR "conan install ${arguments} should say that tessera needs C++20; it ended with ${code}:\n${said}")
  endif()
endforeach()

# One with the archives of this build in it, under the build type of which the recipe says what is true of them.
needs_archives()
set(build_type Release)
if(archives_check)
  set(build_type Debug)
endif()
set(archives -o ${tessera}:with_replay=True -s build_type=${build_type})
run(${CONAN} install ${SOURCE_DIR} ${profile} ${archives} --output-folder ${SCRATCH}/exported)
file(WRITE ${SCRATCH}/exported/build/${build_type}/cmake_install.cmake "include(${BUILD_DIR}/cmake_install.cmake)\n")
run(${CONAN} export-pkg ${SOURCE_DIR} ${profile} ${archives} --output-folder ${SCRATCH}/exported --test-folder=)
run(${CONAN} test ${SOURCE_DIR}/test_package ${tessera} ${profile} ${archives} -o ${tessera}:with_cuda=${cuda})
foreach(expected "tessera ${VERSION}: ok" "simulated: 40 requests" "\nfcfs ")
  if(NOT said MATCHES "${expected}")
    message(FATAL_ERROR "conan test did not print '${expected}':\n${said}")
  endif()
endforeach()

# Archives and programs are one for each.
package_id(replay ${archives} -o ${tessera}:with_cuda=True)
if(NOT replay MATCHES " Cache$")
  message(FATAL_ERROR "the package just exported is not found: ${replay}")
endif()
package_id(optimised ${archives} -s build_type=MinSizeRel)
package_id(sim -o ${tessera}:with_sim=True)
package_id(tools -o ${tessera}:with_tools=True)
set(ids ${default} ${replay} ${optimised} ${sim} ${tools})
list(LENGTH ids count)
list(REMOVE_DUPLICATES ids)
list(LENGTH ids distinct)
if(NOT count EQUAL distinct)
  message(FATAL_ERROR "packages that differ have one id: ${default}, ${replay}, ${optimised}, ${sim}, ${tools}")
endif()
