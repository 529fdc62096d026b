# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_dir ${CMAKE_INSTALL_DATADIR}/cmake/tessera)

# What needs no build is the component `headers`, so that it can be installed alone.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME headers)

# An export for each target: a project that asks only for tessera::tessera never looks for what the others need.
install(TARGETS tessera EXPORT tesseraTargets FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT tesseraTargets NAMESPACE tessera:: DESTINATION ${package_dir})

# An archive links only with code that checks preconditions as it does (see include/tessera/config.hpp). So the
# installed target says whether it does, and its users need no flag. With several configurations, Release is installed.
if(TESSERA_INSTALL_SIM OR TESSERA_INSTALL_REPLAY)
  set(config ${CMAKE_BUILD_TYPE})
  if(CMAKE_CONFIGURATION_TYPES)
    set(config Release)
  endif()
  string(TOUPPER "${config}" config)
  set(checked 1)
  if("${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${config}}" MATCHES "[-/]D *NDEBUG")
    set(checked 0)
  endif()
  target_compile_definitions(tessera_sim INTERFACE $<INSTALL_INTERFACE:TESSERA_CHECKED=${checked}>)
  set_target_properties(tessera_sim PROPERTIES EXCLUDE_FROM_ALL OFF)
  install(TARGETS tessera_sim EXPORT tesseraSimTargets COMPONENT sim
          FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT sim)
  install(EXPORT tesseraSimTargets NAMESPACE tessera:: DESTINATION ${package_dir} COMPONENT sim)
endif()
if(TESSERA_INSTALL_REPLAY)
  set(replay_needs_zlib FALSE)
  if(TARGET ZLIB::ZLIB)
    set(replay_needs_zlib TRUE)
  endif()
  set_target_properties(tessera_replay PROPERTIES EXCLUDE_FROM_ALL OFF)
  install(TARGETS tessera_replay EXPORT tesseraReplayTargets COMPONENT replay)
  install(EXPORT tesseraReplayTargets NAMESPACE tessera:: DESTINATION ${package_dir} COMPONENT replay)
endif()

# A release keeps the interface of the releases before it: within a major version, and before 1.0.0 within a minor one.
set(compatibility SameMajorVersion)
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(compatibility SameMinorVersion)
endif()
configure_package_config_file(cmake/tesseraConfig.cmake.in ${PROJECT_BINARY_DIR}/tesseraConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
set(any_architecture ARCH_INDEPENDENT)
if(TESSERA_INSTALL_SIM OR TESSERA_INSTALL_REPLAY)
  set(any_architecture "")
endif()
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake
  VERSION ${PROJECT_VERSION}
  COMPATIBILITY ${compatibility}
  ${any_architecture})

# pkg-config finds the headers from where tessera.pc lies. So an installed tree can be moved, and its prefix chosen as
# late as when it is installed. If a folder is absolute, it stays as it is.
set(pkg_config_dir ${CMAKE_INSTALL_DATADIR}/pkgconfig)
if(IS_ABSOLUTE "${CMAKE_INSTALL_DATADIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(pkg_config_prefix ${CMAKE_INSTALL_PREFIX})
  set(pkg_config_includedir ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
  file(RELATIVE_PATH pkg_config_prefix /${pkg_config_dir}/. /)
  string(REGEX REPLACE "/$" "" pkg_config_prefix "\${pcfiledir}/${pkg_config_prefix}")
  set(pkg_config_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(cmake/tessera.pc.in ${PROJECT_BINARY_DIR}/tessera.pc @ONLY)

install(FILES ${PROJECT_BINARY_DIR}/tesseraConfig.cmake ${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake
              cmake/tesseraCuda.cmake DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/tessera.pc DESTINATION ${pkg_config_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/tessera)

# The tools that were built.
foreach(tool replay capacity plan rank calibrate)
  if(TARGET ${tool})
    install(TARGETS ${tool} RUNTIME COMPONENT tools OPTIONAL)
  endif()
endforeach()
