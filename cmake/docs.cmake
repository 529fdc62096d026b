# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# The target docs: the reference in HTML; something public without a comment or a broken link is an error.
find_package(Doxygen 1.9 QUIET)
if(DOXYGEN_FOUND)
  add_custom_target(
    docs
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/docs
    COMMAND
      ${CMAKE_COMMAND} -E env TESSERA_VERSION=${PROJECT_VERSION} TESSERA_DOCS_OUTPUT=${PROJECT_BINARY_DIR}/docs
      $<TARGET_FILE:Doxygen::doxygen> docs/Doxyfile
    COMMAND python3 cmake/check_links.py --html ${PROJECT_BINARY_DIR}/docs/html
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    VERBATIM)
else()
  message(STATUS "tessera: no Doxygen 1.9, so there is no target docs")
endif()
