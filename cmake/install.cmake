# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_dir ${CMAKE_INSTALL_DATADIR}/cmake/tessera)

# Two exports: a project that asks only for tessera::tessera never looks for what tessera::sim needs.
install(TARGETS tessera EXPORT tesseraTargets FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS tessera_sim EXPORT tesseraSimTargets FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT tesseraTargets NAMESPACE tessera:: DESTINATION ${package_dir})
install(EXPORT tesseraSimTargets NAMESPACE tessera:: DESTINATION ${package_dir})

# A release keeps the interface of the releases before it: within a major version, and before 1.0.0 within a minor one.
set(compatibility SameMajorVersion)
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(compatibility SameMinorVersion)
endif()
configure_package_config_file(cmake/tesseraConfig.cmake.in ${PROJECT_BINARY_DIR}/tesseraConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake
  VERSION ${PROJECT_VERSION}
  COMPATIBILITY ${compatibility}
  ARCH_INDEPENDENT)

# pkg-config finds the headers from where tessera.pc lies, so an installed tree can be moved, and its prefix chosen as
# late as when it is installed. Unless a folder is absolute: then it stays as it is.
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
              cmake/tesseraCuda.cmake cmake/tesseraReplay.cmake DESTINATION ${package_dir})
install(FILES examples/policies/policies.cpp DESTINATION ${package_dir}/tools/policies)
install(FILES tools/tool.hpp DESTINATION ${package_dir}/tools)
install(FILES tools/replay/replay.cpp DESTINATION ${package_dir}/tools/replay)
install(DIRECTORY tools/replay DESTINATION ${package_dir}/tools FILES_MATCHING PATTERN "*.hpp")
install(FILES ${PROJECT_BINARY_DIR}/tessera.pc DESTINATION ${pkg_config_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/tessera)

# The tools, if they are there: the headers can be installed without building anything.
foreach(tool replay capacity plan rank calibrate)
  if(TARGET ${tool})
    install(TARGETS ${tool} RUNTIME COMPONENT tools OPTIONAL)
  endif()
endforeach()
