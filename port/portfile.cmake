# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# In the project's own tree (vcpkg install tessera --overlay-ports=path/to/tessera/port) this port builds the tree around
# it. vcpkg does not see that tree change: add --no-binarycaching. In a registry, where the port stands alone, it takes
# the release of its version: there OWNER and SHA512 have to be filled in.
if(EXISTS "${CMAKE_CURRENT_LIST_DIR}/../include/tessera/version.hpp")
    get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
else()
    vcpkg_from_github(
        OUT_SOURCE_PATH SOURCE_PATH
        REPO OWNER/tessera
        REF "v${VERSION}"
        SHA512 0
        HEAD_REF main
    )
endif()

set(VCPKG_BUILD_TYPE release) # headers, and archives that are of little use without optimisation
set(VCPKG_POLICY_MISMATCHED_NUMBER_OF_BINARIES enabled)

vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS
    FEATURES
        sim    TESSERA_INSTALL_SIM
        replay TESSERA_INSTALL_REPLAY
        tools  TESSERA_BUILD_TOOLS
        cuda   TESSERA_CUDA
)

vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS
        -DTESSERA_BUILD_TESTS=OFF
        -DTESSERA_BUILD_EXAMPLES=OFF
        -DTESSERA_BUILD_BENCH=OFF
        -DTESSERA_BUILD_DOCS=OFF
        ${FEATURE_OPTIONS}
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/tessera)
vcpkg_fixup_pkgconfig()
if("tools" IN_LIST FEATURES)
    vcpkg_copy_tools(TOOL_NAMES replay capacity plan rank calibrate AUTO_CLEAN)
endif()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/licenses")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
